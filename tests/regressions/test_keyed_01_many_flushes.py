"""After `max_l0` flushes that no compaction took, `open` failed for ever: it poked a thread that wasn't made."""

from __future__ import annotations

from kv_tables import new_table


def test_a_table_with_many_flushes_opens_and_is_compacted() -> None:
    table = new_table({"max_l0": 4})
    with table.open(compaction=False) as kv:
        for n in range(9):
            kv.put(b"%d" % n, b"v")
    with table.open() as kv:
        kv.put(b"9", b"v")
        assert len(list(kv.scan())) == 10
        assert kv.stats().l0 < 4


def test_so_does_one_whose_flushes_have_too_many_bytes() -> None:
    table = new_table({"max_l0_size": "1KB"})
    with table.open(compaction=False) as kv:
        for n in range(3):
            kv.put(b"%d" % n, b"v" * 600)
    with table.open() as kv:
        kv.put(b"9", b"v")
        assert len(list(kv.scan())) == 4


def test_and_after_a_writer_that_never_closed() -> None:
    table = new_table({"max_l0": 4})
    lost = table.open(compaction=False)
    for n in range(6):
        lost.put(b"%d" % n, b"v")
    with table.open() as kv:
        assert len(list(kv.scan())) == 6
