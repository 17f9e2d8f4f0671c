"""Truncation: old records move into packs (rule 22), and commits of processes that didn't see it (rule 17)."""

from __future__ import annotations

import pytest

from firn.errors import (
    CorruptObjectError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StaleObjectError,
)
from firn.journal.sequence import (
    Horizon,
    LogRecord,
    SequenceLayout,
    SequenceLog,
    commit,
    truncate,
    truncation,
)
from firn.journal.sequence.codec import encode_record
from firn.testing import crash_points
from sequence_logs import PREFIX, Before, Database, Put, R, cost, put_of, txids

LAYOUT = SequenceLayout(PREFIX)


def test_a_record_that_is_missing_ends_truncation(db):
    db.commit("a", "b", "c", "d")
    db.apply(4)
    db.bucket().delete(LAYOUT.record_key(2))
    with pytest.raises(CorruptObjectError, match="the log has gaps"):
        truncate(db.log())
    assert LAYOUT.record_key(1) in db.store.keys(PREFIX)


def test_old_records_move_into_a_pack(db):
    db.commit(*"abcde")
    db.apply(3)
    truncated = truncate(db.log())
    assert (truncated.lo, truncated.deleted) == (3, 3)
    assert [LAYOUT.parse_record(f"{PREFIX}/{key}") for key in db.paths() if "_commits" in key] == [4, 5]
    assert db.log().store.pack(1).hi == 3
    assert truncate(db.log()).deleted == 0


@pytest.mark.parametrize(("horizon", "applied", "lo"), [(2, 4, 2), (4, 3, 3), (5, 5, 4), (0, 5, 0)])
def test_how_far_a_log_may_be_truncated(db, horizon, applied, lo):
    """min(H, A, head - 1)."""
    db.commit(*"abcde")
    db.log().store.raise_horizon(Horizon(horizon, 0, applied))
    assert truncate(db.log()).lo == lo


def test_packs_have_a_largest_size(db):
    db.commit(*"abcdef")
    db.apply(5)
    truncate(db.log(), largest=2)
    assert [key[-1] for key in db.paths() if "packs" in key] == ["1", "3", "5"]
    assert db.log().store.horizon().lo == 5


def test_another_ones_pack_is_adopted(db):
    """Who writes a pack second goes on from the end of the one that is there."""
    db.commit(*"abcdef")
    db.apply(5)
    slow = db.log("slow", Before("put_if_absent", LAYOUT.pack_key(1), lambda: truncate(db.log(), largest=2)))
    assert truncate(slow).lo == 5
    assert db.log().store.pack(1).hi == 2
    assert txids(db) == [[c] for c in "abcdef"]


def test_late_objects_of_truncated_records_go_too(db):
    db.commit(*"abcde")
    db.apply(3)
    truncate(db.log())
    record = LogRecord(2, (put_of("late", 1, ("late",)),), 0, (), {})
    db.bucket().put_if_absent(LAYOUT.record_key(2), encode_record(record))
    assert truncate(db.log()).deleted == 1
    assert LAYOUT.record_key(2) not in db.store


def test_truncating(db):
    db.commit(*"abcde")
    db.apply(3)
    log = db.log()
    log.refresh()
    assert cost(log, lambda: truncate(log))[1] == {"get": 1 + 2 + 3 + 1, "put": 2, "list": 1, "delete": 3}


def test_truncating_into_several_packs_lists_the_log_once_when_it_is_short(db):
    """A LIST a pack would make the pages of a long log grow with its square."""
    db = Database(page_size=2)
    db.commit(*"abcdefghi")
    db.apply(8)
    log = db.log()
    log.refresh()
    spent = cost(log, lambda: truncate(log, largest=2))[1]
    assert spent == {"get": 1 + 4 * 2 + 8 + 1, "put": 4 * 2, "list": 1, "delete": 8}


def test_what_a_truncation_that_crashed_left_goes_too(db):
    db.commit(*"abcde")
    db.apply(4)
    log = db.log()
    store = log.store
    truncation._pack(log, 1, 3)
    store.raise_horizon(Horizon(lo=3))
    assert truncate(log, largest=1).deleted == 4
    assert [key for key in db.paths() if "_commits" in key] == ["_commits/00000000000000000005"]


def test_a_crash_at_every_request_of_a_truncation():
    def started():
        db = Database()
        db.commit(*"abcdef")
        db.apply(5)
        return db.store

    def check(store, point):
        bucket = store.bucket("survivor")
        log = SequenceLog(bucket, PREFIX, clock=bucket.clock)
        assert log.refresh().number == 6
        assert [r.group[0].txid for r in log.records(0, 6)] == list("abcdef")
        assert truncate(log).lo == 5
        assert len(store.keys(f"{PREFIX}/_commits/")) == 1
        assert commit(log, [Put("next", 6)]) == {"next": 7}

    def operation(bucket):
        truncate(SequenceLog(bucket, PREFIX, clock=bucket.clock), largest=3)

    assert (
        crash_points(started, operation, check, modes=("before", "after", "lost_ack", "retried", "failed"))
        > 60
    )


# -- commits to a log that was truncated


def stalled(db, upto, head=9):
    """A process that knows the end at 0, of a log that is truncated up to a number."""
    log = db.log("stalled")
    log.refresh()
    db.commit(*(f"r{n}" for n in range(1, head + 1)))
    db.apply(upto)
    truncate(db.log("keeper"))
    db.age(R)
    return log


def test_a_record_in_the_place_of_a_truncated_one_is_a_ghost(db):
    """Rule 17."""
    log = stalled(db, 5)
    mine = Put("mine", 0, ("mine",))
    assert commit(log, [mine]) == {"mine": 10}
    assert LAYOUT.record_key(1) not in db.store
    assert txids(db)[9] == ["mine"]
    assert [len(moment.since) for moment in mine.tries] == [0, 9]


def test_a_ghost_is_judged_by_the_packs(db):
    log = stalled(db, 5)
    assert isinstance(commit(log, [Put("mine", 0, ("r3",))])["mine"], StaleObjectError)


def test_a_commit_that_was_packed_before_it_was_acknowledged_had_succeeded(db):
    """Rule 19: its object isn't there, and a pack has it."""
    log = db.log("slow", Before("get", LAYOUT.horizon_key, lambda: truncated(), nth=2))
    log.refresh()
    db.age(R)

    def truncated():
        db.commit("b", "c")
        db.apply(2)
        truncate(db.log("keeper"))
        assert LAYOUT.record_key(1) not in db.store

    assert commit(log, [Put("a", 0)]) == {"a": 1}
    assert txids(db) == [["a"], ["b"], ["c"]]


def test_without_packs_nobody_can_tell(db):
    log = db.log("slow", Before("get", LAYOUT.horizon_key, lambda: truncated(), nth=2))
    log.refresh()
    db.age(R)

    def truncated():
        db.commit("b", "c")
        db.apply(2)
        truncate(db.log("keeper"))
        db.bucket().delete(LAYOUT.pack_key(1))

    assert isinstance(commit(log, [Put("a", 0)])["a"], OutcomeUnknownError)


def test_a_transaction_older_than_the_packs_is_too_old(db):
    log = db.log()
    db.commit("a", "b", "c")
    db.apply(2)
    truncate(db.log("keeper"))
    db.bucket().delete(LAYOUT.pack_key(1))
    assert isinstance(commit(log, [Put("mine", 0)])["mine"], SnapshotTooOldError)
