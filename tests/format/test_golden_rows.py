"""Writers' catalogs in which rows stand: every version reads as it did, and goes on to work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from make_golden_catalogs import connect
from make_golden_inlined import read
from make_golden_rows import GOLDEN, make

import firn
from firn.inspect.fsck.fsck import check
from firn.journal.writer.format import frame
from firn.journal.writer.format.actions import Add
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.marker import decode_marker
from firn.journal.writer.format.messages import (
    decode_checkpoint,
    decode_transaction,
    encode_checkpoint,
    encode_transaction,
)
from firn.journal.writer.format.rows import body_of

WRITERS = ("ann", "bob", "cyd")
EXPECTED: dict[str, list[tuple[str, list[str]]]] = json.loads((GOLDEN / "expected.json").read_text("utf-8"))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(GOLDEN / "db", tmp_path / "moved"))


def test_every_kind_of_object_has_rows() -> None:
    found: dict[str, set[str]] = {}
    for writer in WRITERS:
        layout, here = WriterLayout("", writer, "db"), GOLDEN / "db" / writer / "db"
        for path in sorted((here / "transactions").iterdir()):
            data, where = path.read_bytes(), str(path)
            head = frame.read_head(data)
            assert head is not None
            if path.suffix == ".transaction":
                transaction = decode_transaction(data, where=where)
                assert encode_transaction(transaction) == data and head.version == transaction.format
                has = any(isinstance(a, Add) and body_of(a.file) for a in transaction.actions)
            else:
                state = decode_checkpoint(data, where=where)
                assert encode_checkpoint(state) == data and head.version == state.format
                has = any(table.inlined for table in state.tables.values())
            found.setdefault(path.suffix, set()).update([writer] if has else [])
        for path in (here / "claims").glob("*"):
            actions = decode_transaction(path.read_bytes(), where=str(path)).actions
            if any(isinstance(a, Add) and body_of(a.file) for a in actions):
                found.setdefault("claims", set()).add(writer)
        for path in (here / "markers").iterdir():
            pairs = pq.read_metadata(path).metadata
            if decode_marker(layout, f"{layout.markers_prefix}{path.name}", pairs, where=str(path)).rows:
                found.setdefault("markers", set()).add(writer)
    assert found["claims"] == {"ann", "cyd"} and found["markers"] >= {"bob"}
    assert found[".transaction"] == {*WRITERS} and found[".checkpoint"] >= {"ann", "cyd"}


def test_every_version_reads_as_it_did() -> None:
    db = firn.connect(GOLDEN / "db", strict=True)
    assert db.tables() == sorted(EXPECTED)
    for name, versions in EXPECTED.items():
        for version, rows in versions:
            assert read(db.table(name), version) == rows, (name, version)


@pytest.mark.parametrize("writer", WRITERS)
def test_each_writer_goes_on(writer: str, copied: Path) -> None:
    db = connect(copied, writer)
    for name, versions in EXPECTED.items():
        table = db.table(name)
        before = read(table)
        assert before == versions[-1][1], name
        table.merge()
        assert read(table) == before, name
        assert not any(f.inlined is not None and table.journal.owns(f.path) for f in table.snapshot().files)
    db.table("places").append([{"place": "HNL", "n": 99}])
    db.close()
    again = firn.connect(copied, strict=True)
    assert len(read(again.table("places"))) == len(EXPECTED["places"][-1][1]) + 1
    assert not check(again).problems


@pytest.mark.parametrize("writer", WRITERS)
def test_each_writer_is_rebuilt(writer: str, copied: Path) -> None:
    db = connect(copied, writer)
    assert db.rebuild().healthy
    for path in (copied / writer / "db/transactions").iterdir():
        path.unlink()
    db = connect(copied, writer)
    assert not db.rebuild().healthy
    for name, versions in EXPECTED.items():
        assert read(db.table(name)) == versions[-1][1], name


def test_what_is_written_today_is_what_was_written(tmp_path: Path) -> None:
    """The bytes that hold rows are as they were."""
    fresh = make(tmp_path / "db")
    assert {name: [rows for _, rows in versions] for name, versions in fresh.items()} == {
        name: [rows for _, rows in versions] for name, versions in EXPECTED.items()
    }
    assert _bodies(tmp_path / "db") == _bodies(GOLDEN / "db")


def _bodies(db: Path) -> list[bytes]:
    found = []
    for writer in WRITERS:
        for path in sorted((db / writer / "db/transactions").glob("*.transaction")):
            actions = decode_transaction(path.read_bytes(), where=str(path)).actions
            found += [body for a in actions if isinstance(a, Add) and (body := body_of(a.file))]
    return found
