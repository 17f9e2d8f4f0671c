"""Tables that were altered: every version reads as it did, and goes on to work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from make_golden_evolved import GOLDEN, make, shown

import firn


def test_every_version_reads_as_it_did(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "db", tmp_path / "db")
    expected = json.loads((GOLDEN / "expected.json").read_text("utf-8"))
    db = firn.connect(tmp_path / "db", writer="w")
    assert db.tables() == sorted(expected)
    for name, versions in expected.items():
        table = db.table(name)
        for version, rows in versions:
            assert shown(table, version) == rows, (name, version)
        assert shown(table) == versions[-1][1], name
        table.append([{table.definition().columns[0].name: 9}])
        table.merge(respec=True)
        assert table.scan().count() == len(versions[-1][1]) + 1


def test_what_is_written_today_is_what_was_written(tmp_path: Path) -> None:
    """Names in files, defaults and specs are as they were."""
    expected = json.loads((GOLDEN / "expected.json").read_text("utf-8"))
    fresh = make(tmp_path / "db")
    assert {n: [rows for _, rows in versions] for n, versions in fresh.items()} == {
        n: [rows for _, rows in versions] for n, versions in expected.items()
    }
    for name in expected:
        old, new = (firn.connect(root / "db").table(name).definition() for root in (GOLDEN, tmp_path))
        # Catalogs of then don't say in which order alter added columns.
        assert sorted(old.columns) == sorted(new.columns)
        assert (old.checks, old.sort_by) == (new.checks, new.sort_by)
        assert (old.partition, old.partition.older) == (new.partition, new.partition.older)
