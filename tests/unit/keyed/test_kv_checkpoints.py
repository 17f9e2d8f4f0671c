"""Checkpoints stay readable through compactions and sweeps until they expire or are deleted."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from firn.errors import AlreadyExistsError, InvalidInputError, SnapshotTooOldError
from firn.keyed.maintain.checkpoints import checkpoint, checkpoints, find, view_at
from firn.keyed.maintain.compaction import compact
from firn.keyed.maintain.sweep import sweep
from firn.keyed.table import KeyedTable
from kv_tables import Flusher, live, new_table


class Moved:
    """The table's clock, some time ahead."""

    def __init__(self, clock: Any) -> None:
        self.clock, self.ahead_s = clock, 0.0

    def now_ms(self) -> int:
        return int(self.clock.now_ms() + self.ahead_s * 1000)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.clock, name)


@pytest.fixture
def table() -> KeyedTable:
    made = new_table()
    clock: Any = Moved(made.clock)
    return type(made)(made.bucket, made.prefix, made.definition, clock=clock)


def test_it_stays_as_it_was(table: KeyedTable) -> None:
    writer = Flusher(table)
    writer.put(b"a", b"b")
    compact(table)
    writer.put(b"a", value=b"2")
    kept = checkpoint(table, "monday", "7d")
    assert kept.version == table.journal.read().version
    writer.put(b"a", value=b"3")
    writer.delete(b"b")
    compact(table, full=True)
    sweep(table, older_than="0s")
    for at in ("monday", kept.id, kept):
        view = view_at(table, at)
        assert view.version == kept.version and view.last_l0 == 1
        assert live(table, view=view) == {b"a": b"2", b"b": b"v"}
    assert live(table) == {b"a": b"3"}


def test_what_is_deleted_goes_with_the_next_sweep(table: KeyedTable) -> None:
    Flusher(table).put(b"a")
    kept = checkpoint(table)
    Flusher(table).delete(b"a")
    compact(table, full=True)
    assert sweep(table, older_than="0s").l0 == (table.journal.layout.l0_key(*_l0_of(table, 1)),)
    kept.delete()
    kept.delete()
    assert checkpoints(table) == []
    assert len(sweep(table, older_than="0s").l0) == 1
    with pytest.raises(SnapshotTooOldError):
        kept.view()
    with pytest.raises(SnapshotTooOldError):
        kept.refresh("1h")


def _l0_of(table: KeyedTable, number: int) -> tuple[int, int]:
    return next(info.writer_epoch for info in table.journal.read().pointer.infos[-1:]), number


def test_it_expires(table: KeyedTable) -> None:
    clock: Any = table.clock
    Flusher(table).put(b"a")
    kept = checkpoint(table, "soon", "1h")
    refreshed = kept.refresh("2h")
    assert refreshed.expires_ms is not None and kept.expires_ms is not None
    assert refreshed.expires_ms >= kept.expires_ms + 3_600_000
    clock.ahead_s = 1.5 * 3600
    assert [each.id for each in checkpoints(table)] == [kept.id]
    assert sweep(table).snapshots == ()
    clock.ahead_s = 2.1 * 3600
    assert checkpoints(table) == []
    with pytest.raises(SnapshotTooOldError):
        view_at(table, "soon")
    assert len(sweep(table).snapshots) == 1
    with pytest.raises(SnapshotTooOldError):
        refreshed.refresh("1h")


def test_without_ttl_it_stays(table: KeyedTable) -> None:
    clock: Any = table.clock
    Flusher(table).put(b"a")
    kept = checkpoint(table)
    assert kept.expires_ms is None
    clock.ahead_s = 10 * 365 * 86_400
    assert sweep(table).snapshots == ()
    assert kept.refresh("1h").expires_ms is not None
    clock.ahead_s *= 2
    assert len(sweep(table).snapshots) == 1


def test_a_name_is_there_once(table: KeyedTable) -> None:
    Flusher(table).put(b"a")
    first = checkpoint(table, "n", "1h")
    with pytest.raises(AlreadyExistsError, match="checkpoint 'n' already"):
        checkpoint(table, "n")
    first.delete()
    again = checkpoint(table, "n")
    assert find(table, "n") == again != first


def test_they_are_listed_oldest_first(table: KeyedTable) -> None:
    clock: Any = table.clock
    for name in ("x", "a", None):
        clock.ahead_s += 1
        checkpoint(table, name)
    assert [each.name for each in checkpoints(table)] == ["x", "a", None]
    assert all(a.created_ms < b.created_ms for a, b in itertools.pairwise(checkpoints(table)))


@pytest.mark.parametrize("name", ["", "x" * 101, "manifest.1@7", "clone:x", 5])
def test_names_that_cant_be(table: KeyedTable, name: Any) -> None:
    with pytest.raises(InvalidInputError, match="can't name a checkpoint"):
        checkpoint(table, name)


def test_one_of_which_a_flush_is_gone_cant_be_read(table: KeyedTable) -> None:
    from firn.keyed.plan.read import KeyedRead

    Flusher(table).put(b"a")
    kept = checkpoint(table, "monday")
    table.bucket.delete(kept.view().l0[0].key)
    with table.reader("monday") as reader, pytest.raises(SnapshotTooOldError, match="checkpoint"):
        reader.get(b"a")
    with pytest.raises(SnapshotTooOldError, match="another checkpoint"):
        KeyedRead.of(table, at="monday")


@pytest.mark.parametrize("at", ["nothing", "0" * 32])
def test_what_isnt_there(table: KeyedTable, at: str) -> None:
    with pytest.raises(SnapshotTooOldError, match="no checkpoint"):
        view_at(table, at)
    with pytest.raises(InvalidInputError, match="checkpoint"):
        view_at(table, 5)


def test_requests(table: KeyedTable) -> None:
    Flusher(table).put(b"a")
    before = table.bucket.counters.as_dict()
    kept = checkpoint(table)
    spent = table.bucket.counters.since(before)
    assert (spent["put"], spent["list"]) == (2, 1) and spent["get"] == 3
    before = table.bucket.counters.as_dict()
    kept.refresh("1h")
    spent = table.bucket.counters.since(before)
    assert (spent["put"], spent["get"], spent["list"]) == (1, 1, 0)
