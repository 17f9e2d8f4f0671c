"""A key that was rewritten with large values until they had 2 GiB made its table unscannable and uncompactable.

Arrow's text and bytes have offsets of 32 bits; here the limit is a few hundred bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firn.keyed.load import rows as load_rows
from firn.keyed.merge import large_pieces
from firn.keyed.table import KeyedTable
from kv_tables import Flusher, live, new_table

SMALL = {"block_size": "256B", "sst_size": "1KB"}


@pytest.fixture(autouse=True)
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_pieces, "MOST_BYTES", 2_000)


def no_batch_is_larger(table: KeyedTable, most: int) -> None:
    for reverse in (False, True):
        batches = list(table.reader().scan(reverse=reverse).to_batches())
        assert all(batch.nbytes <= most for batch in batches)


def both_ways(table: KeyedTable) -> dict[bytes, object]:
    forwards = list(table.reader().scan())
    assert list(table.reader().scan(reverse=True)) == forwards[::-1]
    assert dict(forwards) == live(table)
    return dict(forwards)


def test_a_key_that_was_rewritten_with_large_values() -> None:
    table = new_table(SMALL)
    flusher = Flusher(table)
    for n in range(36):
        flusher.put(b"b", value=b"%d" % n * 300)
    flusher.put(b"a", b"c", value=b"small")
    expected = {b"a": b"small", b"b": b"35" * 300, b"c": b"small"}
    assert both_ways(table) == expected
    report = table.compact(full=True)
    assert report.rows_out == 3
    assert both_ways(table) == expected
    no_batch_is_larger(table, 2_000)


def test_many_keys_with_large_values() -> None:
    table = new_table(SMALL)
    flusher = Flusher(table)
    expected = {}
    for n in range(8):
        keys = [b"%02d" % key for key in range(0, 40, n + 1)]
        flusher.put(*keys, value=b"%d" % n * 150)
        expected.update(dict.fromkeys(keys, b"%d" % n * 150))
    flusher.delete(b"00", b"39")
    gone = {key: value for key, value in expected.items() if key not in (b"00", b"39")}
    assert both_ways(table) == gone
    table.compact(full=True)
    assert both_ways(table) == gone
    no_batch_is_larger(table, 2_000)


@pytest.mark.parametrize("size", [10, 200, 900])
def test_operands_that_are_too_large_together(size: int) -> None:
    table = new_table(SMALL, merge_operator="append")
    flusher = Flusher(table)
    for n in range(12):
        flusher.put(b"a", b"z")
        flusher.merge(b"k", b"%x" % n * size)
    whole = b"".join(b"%x" % n * size for n in range(12))
    expected = {b"a": b"v", b"k": whole, b"z": b"v"}
    assert both_ways(table) == expected
    table.compact(full=True)
    assert both_ways(table) == expected


def test_a_snapshot_sees_what_was_newest_then() -> None:
    table = new_table(SMALL)
    with table.open(compaction=False) as kv:
        for n in range(12):
            kv.put(b"k", b"%x" % n * 400)
        with kv.snapshot() as snapshot:
            kv.put(b"k", b"new" * 400, durable=False)
            kv.put(b"j", b"new" * 400, durable=False)
            assert list(snapshot.scan()) == [(b"k", b"b" * 400)]
            assert len(list(kv.scan())) == 2


def spans_of(table: KeyedTable) -> list[int]:
    (sst,) = table.view().manifest.ssts
    reader = table.sst(table.journal.layout.sst_key(sst.file), sst.bytes)
    blocks = range(reader.index.blocks)
    parts = list(reader.parts(blocks, 2_000))
    assert [block for part in parts for block in part] == list(blocks)
    assert list(reader.parts(blocks, 2_000, reverse=True))[-1].start == 0
    return [len(part) for part in parts]


def test_what_unpacks_to_far_more_is_decoded_in_parts() -> None:
    table = new_table({"block_size": "256B", "sst_size": "1MB"})
    Flusher(table).put(*(b"%02d" % n for n in range(40)), value=b"\0" * 600)
    table.compact(full=True)
    assert max(spans_of(table)) == 2 and len(both_ways(table)) == 40


def test_loads_of_any_size_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_rows, "CHUNK_BYTES", 1_000)
    table = new_table(SMALL)
    rows = [{"key": b"%03d" % n, "value": b"v" * (n * 37 % 700)} for n in range(200)]
    assert table.load(rows[::-1]).rows == 200
    assert both_ways(table) == {row["key"]: row["value"] for row in rows}


def test_a_load_refuses_values_that_puts_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    from firn.errors import InvalidInputError

    monkeypatch.setattr(load_rows, "MAX_VALUE", 100)
    tables: list[tuple[KeyedTable, Callable[[int], dict[str, object]]]] = [
        (new_table(), lambda size: {"value": b"v" * size}),
        (new_table(schema={"a": "VARCHAR"}), lambda size: {"a": "€" * (size // 3)}),
        (new_table(schema={"a": "VARCHAR[]"}), lambda size: {"a": ["x" * (size // 2)] * 2}),
    ]
    for table, row in tables:
        with pytest.raises(InvalidInputError, match="at most 100 fit"):
            table.load([{"key": b"a", **row(60)}, {"key": b"b", **row(400)}])
        assert table.load([{"key": b"a", **row(60)}, {"key": b"b", **row(60)}]).rows == 2
