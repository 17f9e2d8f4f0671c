"""Bulk loads in the change feed: parts of several that lie in one SST come late, and count by seq."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from firn.keyed.encoding.entries import PUT
from firn.keyed.load.bulk_load import load
from firn.keyed.maintain.compaction import compact
from firn.keyed.merge.memtable import Memtable
from firn.keyed.read.changes import changes
from firn.keyed.sst.writer import SstWriter
from firn.keyed.table import KeyedTable
from firn.spark.keyed import changes as keyed_changes
from firn.spark.keyed.changes import ChangesRead
from kv_tables import Flusher, live, new_table


def loaded(key: bytes) -> list[dict[str, bytes]]:
    return [{"key": key, "value": b"loaded"}]


@pytest.fixture
def table() -> KeyedTable:
    return new_table()


@pytest.fixture
def since(table: KeyedTable) -> str:
    """Two loads with a flush between that puts a key of the first anew; then the loads lie in one SST below it."""
    writer = Flusher(table)
    writer.put(b"0")
    begun = changes(table).version
    load(table, loaded(b"k"))
    writer.put(b"k", b"l", value=b"flushed")
    load(table, loaded(b"m"))
    _descend(table)
    return begun


def _descend(table: KeyedTable) -> None:
    """As a leveled compaction does, for which levels would have to be large: the loads' SSTs into one of level 2."""
    session = table.journal.open_compactor()
    loads = [sst for sst in session.view.manifest.ssts if sst.max_loaded >= 0]
    assert len(loads) == 2
    sst = SstWriter(table.values.schema, block_bytes=4096)
    for info, key in sorted(zip(loads, (b"m", b"k"), strict=True), key=lambda pair: pair[1]):
        entries = Memtable(0, table.values, None)
        entries.put(key, b"loaded", PUT)
        batch = entries.freeze()
        seqs = pa.array([info.max_loaded], pa.int64())
        sst.add(batch.set_column(1, batch.schema.field(1), seqs))
    number, data = session.next_sst_number(), sst.finish()
    session.put_sst(number, data.data)
    newest = max(loads, key=lambda info: info.max_loaded)
    oldest = min(loads, key=lambda info: info.max_loaded)
    together = replace(
        newest,
        level=2,
        run=0,
        number=number,
        file=session.sst_file(number),
        min_key=oldest.min_key,
        rows=2,
        bytes=len(data.data),
    )
    session.commit(adds=[together], deletes=loads, last_compacted=session.view.manifest.last_compacted)


def test_they_come_late_and_count_by_seq(table: KeyedTable, since: str) -> None:
    assert live(table)[b"k"] == b"flushed"
    rows = changes(table, since).to_arrow().to_pylist()
    assert [(row["key"], row["value"]) for row in rows] == [
        (b"k", b"flushed"),
        (b"l", b"flushed"),
        (b"k", b"loaded"),
        (b"m", b"loaded"),
    ]
    copy: dict[bytes, bytes] = {b"0": b"v"}
    applied: dict[bytes, int] = {}
    for row in rows:
        if row["_seq"] > applied.get(row["key"], -1):
            copy[row["key"]], applied[row["key"]] = row["value"], row["_seq"]
    assert copy == live(table)


def test_the_newest_of_each_key_is_so_by_seq(table: KeyedTable, since: str) -> None:
    read = replace(ChangesRead.of(table, since=since), told=False)
    read = read.select(("key", "value"))
    rows = [row for part in read.rows([unit.work for unit in read.units()]) for row in part.to_pylist()]
    assert {row["key"]: row["value"] for row in rows} == {
        b"k": b"flushed",
        b"l": b"flushed",
        b"m": b"loaded",
    }


def test_the_first_files_have_all_up_to_where_they_end(table: KeyedTable, since: str) -> None:
    whole = changes(table, since)
    first = whole.first(1)
    told = [(row["key"], row["_seq"]) for row in first.to_arrow().to_pylist()]
    assert first.version.endswith("@1+0")
    rest = [(row["key"], row["_seq"]) for row in changes(table, first.version).to_arrow().to_pylist()]
    every = [(row["key"], row["_seq"]) for row in whole.to_arrow().to_pylist()]
    assert sorted(told + rest) == sorted(every) and len(rest) == 1


def test_what_is_folded_with_later_operands_is_not_told() -> None:
    """The caveat of tables with a merge operator, as the docstring has it."""
    table = new_table(merge_operator="add")
    writer = Flusher(table)
    since = changes(table).version
    load(table, [{"key": b"k", "value": b"5"}])
    writer.merge(b"k", b"1")
    kinds = [row["_kind"] for row in changes(table, since).to_arrow().to_pylist()]
    assert kinds == ["put", "merge"]
    compact(table, full=True)
    kinds = [row["_kind"] for row in changes(table, since).to_arrow().to_pylist()]
    assert kinds == ["merge"]


@pytest.mark.parametrize("share", [1, 4096, 1 << 30])
def test_much_is_folded_by_ranges_of_keys(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_changes, "SHARE_BYTES", share)
    table = new_table(properties={"block_size": "1KB", "compression": "none"})
    writer = Flusher(table)
    writer.put(b"0")
    since = changes(table).version
    for value in (b"old", b"new"):
        writer.flush([(b"%04d" % n, value * 10) for n in range(500)])
    writer.delete(b"0007")
    read = replace(ChangesRead.of(table, since=since), told=False).select(("key", "value"))
    units = read.units()
    assert (len(units) == 1) == (share == 1 << 30) and (share > 1 or len(units) > 20)
    parts = [list(read.for_tasks().rows([unit.work])) for unit in units]
    rows = [row for part in parts for table in part for row in table.to_pylist()]
    assert [row["key"] for row in rows] == [b"%04d" % n for n in range(500) if n != 7]
    assert {row["value"] for row in rows} == {b"new" * 10}
