"""A writer's own compaction doesn't take away what a compactor elsewhere has under way; one by hand does."""

from __future__ import annotations

import uuid

import pytest

import firn
from firn.clock import SystemClock
from firn.errors import FencedError
from firn.keyed.maintain.local_compaction import CROWDED_PATIENCE_S, LONGEST_PATIENCE_S, PATIENCE_S, Turns
from firn.keyed.table import KeyedTable


class Ahead(SystemClock):
    """A clock of which the test moves the monotonic time."""

    ahead_s = 0.0

    def monotonic(self) -> float:
        return 1000.0 + self.ahead_s


@pytest.fixture
def table() -> KeyedTable:
    made = firn.connect(f"memory://own-{uuid.uuid4().hex}").create_table("t", kind="keyed")
    return KeyedTable(made.bucket, made.prefix, made.definition, clock=Ahead())


@pytest.fixture
def kv(table):
    """Its own compaction is called by the tests, not by a thread."""
    with table.open(compaction=False) as kv:
        grow(kv)
        yield kv


def grow(kv):
    for n in range(8):
        kv.put(b"%d" % n, b"v")


def other(table):
    """A compactor elsewhere, that has read what there is and committed nothing yet."""
    return table.beside(table.definition, table.prefix).journal.open_compactor()


def commits(session, table):
    from firn.keyed.maintain.compaction import compact_l0

    compact_l0(table, session)


def test_where_nobody_else_compacts_it_does_at_once(table, kv):
    assert kv._compaction.work() is None
    assert kv.stats().compactions == 1 and kv.stats().l0 == 0
    grow(kv)
    assert kv._compaction.work() is None
    assert kv.stats().compactions == 2


def test_it_waits_for_one_that_is_under_way(table, kv):
    elsewhere = other(table)
    pause = kv._compaction.work()
    assert pause == PATIENCE_S and kv.stats().compactions == 0
    commits(elsewhere, table)  # which wasn't fenced
    kv.put(b"x", b"v")
    table.clock.ahead_s += PATIENCE_S
    assert kv._compaction.work() is None
    assert kv.stats().l0 == 1, "what the other has compacted is known"
    grow(kv)
    assert kv._compaction.work() is None and kv.stats().compactions == 1, "the other is through"


def test_waiting_costs_no_requests(table, kv):
    other(table)
    kv._compaction.work()
    before = table.bucket.counters.as_dict()
    table.clock.ahead_s += 1
    assert kv._compaction.work() == PATIENCE_S - 1
    assert not any(table.bucket.counters.since(before).values())


def test_each_sst_that_another_puts_is_a_sign_of_life(table, kv):
    elsewhere = other(table)
    assert kv._compaction.work() == PATIENCE_S
    for n in range(3):
        table.clock.ahead_s += PATIENCE_S
        elsewhere.put_sst(n, b"an SST")
        assert kv._compaction.work() == PATIENCE_S
    table.clock.ahead_s += PATIENCE_S
    assert kv._compaction.work() is None
    assert kv.stats().compactions == 1
    with pytest.raises(FencedError):
        commits(elsewhere, table)


def test_after_it_was_fenced_it_leaves_the_epoch_to_the_other_for_longer_each_time(table, kv):
    kv._compaction.work()
    for n in range(4):
        grow(kv)
        elsewhere = other(table)
        assert kv._compaction.work() == PATIENCE_S * 2**n
        table.clock.ahead_s += PATIENCE_S * 2**n
        assert kv._compaction.work() is None
        with pytest.raises(FencedError):
            elsewhere.refresh()
    assert kv.stats().compactions == 5
    table.clock.ahead_s += LONGEST_PATIENCE_S
    grow(kv)
    other(table)
    assert kv._compaction.work() == PATIENCE_S


def test_while_puts_wait_its_patience_is_shorter(table):
    view = table.journal.read()
    turns = Turns(lambda view: 0, table.clock.monotonic, lambda: True)
    assert turns.may_take(view)
    other(table)
    assert not turns.may_take(table.journal.read())
    assert turns.pause() == CROWDED_PATIENCE_S


def test_by_hand_takes_over_at_once(table, kv):
    elsewhere = other(table)
    assert kv.compact().l0_files == 8
    with pytest.raises(FencedError):
        elsewhere.refresh()
    grow(kv)
    assert kv._compaction.work() is None and kv.stats().compactions == 1, "that was this process itself"


def test_by_hand_with_nothing_to_do_delays_nothing(table, kv):
    kv.compact()
    kv.compact()
    grow(kv)
    assert kv._compaction.work() is None and kv.stats().compactions == 1


def test_what_is_uncommitted(table, kv):
    elsewhere = other(table)
    for n in (0, 1):
        elsewhere.put_sst(n, b"an SST")
    assert table.journal.uncommitted(table.journal.read()) == 2
    elsewhere.reserve_ssts(2)
    commits(elsewhere, table)
    view = table.journal.read()
    assert len(view.manifest.ssts) == 1 and table.journal.uncommitted(view) == 0
    elsewhere.put_sst(view.manifest.next_sst, b"an SST")
    assert table.journal.uncommitted(view) == 1
