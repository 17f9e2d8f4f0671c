"""A sweep with default ages took what snapshots and scans were reading, as soon as a compaction had replaced it."""

from __future__ import annotations

import pytest

from firn.errors import SnapshotTooOldError
from firn.keyed.table import KeyedTable
from kv_tables import new_table


@pytest.fixture
def table() -> KeyedTable:
    return new_table({"block_size": "256B", "block_cache": 1})


def filled(table: KeyedTable, rounds: int) -> dict[bytes, bytes]:
    with table.open(compaction=False) as kv:
        for n in range(rounds):
            kv.write({b"%03d" % key: b"%d" % n for key in range(0, 100, n + 1)})
            if n % 2:
                table.compact(full=n % 3 == 0)
        return dict(kv.scan())


def replaced_again(table: KeyedTable, times: int = 3) -> None:
    with table.open(compaction=False) as kv:
        for n in range(times):
            kv.put(b"new%d" % n, b"v")
            table.compact(full=True)
            table.sweep()


@pytest.mark.parametrize("rounds", [1, 2, 3, 4, 7])
def test_what_is_being_read_stays(table: KeyedTable, rounds: int) -> None:
    expected = filled(table, rounds)
    reader = table.reader(follow=None)
    scan = iter(reader.scan())
    first = next(scan)
    with table.open(compaction=False) as kv, kv.snapshot() as snapshot:
        kv.put(b"k", b"v")
        table.compact(full=True)
        report = table.sweep()
        assert report.ssts == () and report.l0 == ()
        assert dict(snapshot.scan()) == expected
        assert snapshot.get(b"000") == expected[b"000"]
    replaced_again(table)
    assert dict([first, *scan]) == expected
    assert dict(reader.scan()) == expected


def test_and_goes_when_its_time_has_come(table: KeyedTable) -> None:
    filled(table, 7)
    reader = table.reader(follow=None)
    replaced_again(table)
    assert table.sweep(older_than="0s").ssts
    with pytest.raises(SnapshotTooOldError):
        list(reader.scan())
    view = table.view()
    left = {info.key for info in table.bucket.list(table.journal.layout.ssts_prefix).objects}
    assert left == {table.journal.layout.sst_key(sst.file) for sst in view.manifest.ssts}


def test_and_costs_no_request(table: KeyedTable) -> None:
    """The first mend read each manifest that was replaced within `l0_min_age`."""
    filled(table, 7)
    replaced_again(table, 1)
    spent = []
    for times in (0, 5):
        replaced_again(table, times)
        before = table.bucket.counters.as_dict()
        assert table.sweep().ssts == ()
        after = table.bucket.counters.since(before)
        spent.append({verb: after[verb] for verb in ("get", "list", "head", "put", "delete")})
    assert spent == 2 * [{"get": 2, "list": 5, "head": 1, "put": 1, "delete": 0}]
