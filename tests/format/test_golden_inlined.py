"""Tables whose rows stand partly in logs: every version reads as it did, and goes on to work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from make_golden_inlined import GOLDEN, make, read

import firn


def test_every_version_reads_as_it_did(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "db", tmp_path / "db")
    expected = json.loads((GOLDEN / "expected.json").read_text("utf-8"))
    db = firn.connect(tmp_path / "db")
    assert db.tables() == sorted(expected)
    for name, versions in expected.items():
        table = db.table(name)
        assert any(f.inlined is not None for f in table.snapshot().files)
        for version, rows in versions:
            assert read(table, version) == rows, (name, version)
        table.merge()
        assert read(table) == versions[-1][1], name
        assert table.snapshot().objects == table.snapshot().files


def test_what_is_written_today_is_what_was_written(tmp_path: Path) -> None:
    """The bytes that hold rows are as they were."""
    fresh = make(tmp_path / "db")
    expected = json.loads((GOLDEN / "expected.json").read_text("utf-8"))
    assert {n: [rows for _, rows in versions] for n, versions in fresh.items()} == {
        n: [rows for _, rows in versions] for n, versions in expected.items()
    }
    for name in expected:
        old, new = (_lines(root / "db" / name / "_log") for root in (GOLDEN, tmp_path))
        assert old == new, name


def _lines(logs: Path) -> list[bytes]:
    found = [line for path in sorted(logs.iterdir()) for line in path.read_bytes().split(b"\n")]
    return [line for line in found if line.startswith(b'{"firn":{"inline":')]
