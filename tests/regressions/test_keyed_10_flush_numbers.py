"""A keyed table took no puts any more after 2^31 flushes: at 10 ms between flushes, after eight months."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.errors import UnsupportedError
from firn.keyed.encoding.seqs import NARROW, WIDE
from firn.keyed.merge.memtable import OVERHEAD
from firn.keyed.table import KeyedTable
from firn.keyed.write.queue import MOST_BYTES
from firn.keyed.write.writer import MAX_BATCH
from kv_tables import new_table


def after(flushes: int, table: KeyedTable) -> KeyedTable:
    """The table as if so many had been compacted."""
    table.journal.drop()
    settings = {"table": table.definition.id}
    table.journal.create(settings, table.definition.first_epoch, last_compacted=flushes - 1)
    return table


@pytest.mark.parametrize("flushes", [2**31 - 3, 2**31, 2**36, WIDE.last_number - 20])
def test_a_table_goes_on(flushes: int) -> None:
    table = after(flushes, new_table(merge_operator="add"))
    with table.open(compaction=False) as kv:
        for _ in range(9):
            kv.merge(b"k", b"1")
        kv.put(b"last", b"1")
    table.load([{"key": b"loaded", "value": b"5"}, {"key": b"k", "value": b"100"}])
    with table.open(compaction=False) as kv:
        kv.merge(b"k", b"1")
        assert dict(kv.scan()) == {b"k": b"101", b"last": b"1", b"loaded": b"5"}
    table.compact(full=True)
    assert dict(table.reader().scan()) == {b"k": b"101", b"last": b"1", b"loaded": b"5"}


def test_a_table_of_the_first_format_says_what_to_do() -> None:
    table = new_table()
    old = table.beside(replace(table.definition, features=()), table.prefix)
    after(NARROW.last_number - 1, old)
    kv = old.open(compaction=False)
    kv.put(b"k", b"v")
    with pytest.raises(UnsupportedError, match=r"load\(table.reader"):
        for key in (b"l", b"m"):
            kv.put(key, b"v")
    with pytest.raises(UnsupportedError):
        kv.close()
    new = new_table()
    assert new.load(old.reader().scan().to_arrow()).rows >= 1


def test_a_flush_has_no_more_entries_than_it_has_numbers() -> None:
    assert WIDE.half > (MOST_BYTES + MAX_BATCH) // (OVERHEAD + 1)


def test_loads_that_dont_fit_behind_a_flush_are_refused() -> None:
    seq = WIDE.of(4, WIDE.half)
    assert WIDE.bulk(seq, 4) == seq + 1
    with pytest.raises(UnsupportedError, match="put or delete"):
        WIDE.bulk(WIDE.of(5, 0) - 1, 4)
