"""What a process knows of the log: rules 6 to 9, how far it is applied, and the writes it lays over rows."""

from __future__ import annotations

import pytest

from firn.errors import CorruptObjectError, SnapshotTooOldError
from firn.journal.sequence import Horizon, LogRecord, SequenceLayout, SequenceLog, commit, truncate
from firn.journal.sequence.codec import encode_record
from firn.journal.sequence.overlay import Overlay
from sequence_logs import PREFIX, Before, Database, Put, R, put_of

LAYOUT = SequenceLayout(PREFIX)


def ghost(db, number):
    """A record that lands in the place of one that was truncated."""
    record = LogRecord(number, (put_of("ghost", number - 1, ("ghost",)),), 0, (), {})
    db.bucket("late").put_if_absent(LAYOUT.record_key(number), encode_record(record))


def shortened(db, upto, head=9):
    db.commit(*(f"r{n}" for n in range(1, head + 1)))
    db.apply(upto)
    truncate(db.log("keeper"))
    assert db.log().store.horizon().lo == upto


def test_an_empty_database_has_an_end(db):
    log = db.log()
    assert (log.refresh().number, log.head().number, log.applied, log.lag) == (0, 0, 0, 0)


def test_the_end_follows_the_commits_of_others(db):
    log = db.log()
    log.refresh()
    db.commit("a", "b")
    assert log.head().number == 0
    assert log.refresh().number == 2
    assert log.newest("t", "a", 2)[0] == 1
    assert log.newest("t", "a", 0) is None
    assert [r.number for r in log.pending()] == [1, 2]


def test_a_process_that_knows_nothing_finds_the_end_and_what_is_not_applied(db):
    db.commit("a", "b", "c", "d")
    db.apply(2)
    log = db.log()
    assert (log.refresh().number, log.applied) == (4, 2)
    assert [r.number for r in log.pending()] == [3, 4]
    assert set(log.changes("t", 4)) == {"c", "d"}


@pytest.mark.parametrize("page_size", [1, 3, 1000])
def test_a_log_in_pages(page_size):
    db = Database(page_size=page_size)
    db.commit(*"abcdefg")
    assert db.log().refresh().number == 7


def test_records_that_follow_the_listed_ones_are_found(db):
    db.commit("a", "b")
    log = db.log("late", Before("get", LAYOUT.record_key(2), lambda: db.commit("c", "d")))
    assert log.refresh().number == 4


def test_what_is_beyond_a_truncated_log_is_not_believed(db):
    """Rule 6: a process that sleeps finds a ghost at its next number."""
    log = db.log("sleeper")
    log.refresh()
    shortened(db, 5)
    ghost(db, 1)
    db.age(R)
    assert log.refresh().number == 9
    assert log.newest("t", "ghost", 9) is None


def test_ghosts_are_not_taken_for_the_end(db):
    shortened(db, 8)
    ghost(db, 3)
    assert db.log().refresh().number == 9


def test_ghosts_are_not_taken_for_records_when_a_log_is_opened(db):
    """The last record may say that less is applied than was truncated since."""
    db.commit(*(f"r{n}" for n in range(1, 10)))
    db.apply(8)
    truncate(db.log("keeper"))
    ghost(db, 3)
    log = db.log()
    assert log.refresh().number == 9
    assert [log.records(n - 1, n)[0].group[0].txid for n in range(1, 10)] == [f"r{n}" for n in range(1, 10)]


def test_a_log_that_is_truncated_while_it_is_opened_is_opened_again(db):
    """Rule 9: between the LIST and the horizon the greatest number was truncated."""
    db.commit("a", "b")

    def truncated():
        db.commit("c", "d")
        db.apply(3)
        truncate(db.log("keeper"))

    log = db.log("late", Before("get", LAYOUT.horizon_key, truncated, nth=1))
    assert log.refresh().number == 4
    assert log.applied == 3


def test_an_empty_list_is_not_believed_after_truncation(db):
    log = db.log("late", Before("get", LAYOUT.record_key(1), lambda: shortened(db, 5)))
    assert log.refresh().number == 9


def test_a_record_that_is_gone_while_the_log_is_opened_opens_it_again(db):
    db.commit("a", "b")

    def truncated():
        db.commit("c", "d")
        db.apply(3)
        truncate(db.log("keeper"))

    log = db.log("late", Before("get", LAYOUT.record_key(2), truncated))
    assert log.refresh().number == 4


def test_a_log_with_gaps_is_told_of(db):
    db.commit("a", "b", "c", "d")
    db.bucket().delete(SequenceLayout(PREFIX).record_key(3))
    with pytest.raises(CorruptObjectError, match="the log has gaps"):
        db.log("late").refresh()


def test_within_r_nobody_can_have_truncated_beyond(db):
    log = db.log()
    head = log.refresh()
    assert log.is_fresh(head)
    db.age(R - 1)
    assert log.is_fresh(head)
    db.age(1)
    assert not log.is_fresh(head)
    assert log.is_fresh(log.refresh())


def test_the_time_of_validation_is_before_the_answer(db):
    log = db.log("slow", Before("get", LAYOUT.record_key(1), lambda: db.age(20)))
    head = log.refresh()
    db.age(11)
    assert not log.is_fresh(head)


def probes(db, action):
    """Of which numbers records were asked for, one request after the other."""
    asked = []

    class Asked:
        def decide(self, call):
            if call.verb == "get" and (number := LAYOUT.parse_record(call.key)) is not None:
                asked.append(number)

    bucket = db.store.bucket("asking", plan=Asked())
    action(SequenceLog(bucket, PREFIX, clock=bucket.clock))
    return asked


def test_the_end_is_looked_for_by_as_many_as_were_found():
    for new, last in ((0, 1), (1, 2), (2, 4), (3, 4), (4, 8), (9, 16), (32, 64), (70, 96)):
        db = Database()

        def chases(log, db=db, new=new):
            log.refresh()
            db.commit(*(f"r{n}" for n in range(new)))
            assert log.refresh().number == new

        assert probes(db, chases) == [1, 2, *range(1, last + 1)], new


def test_commits_while_many_numbers_are_asked_for(db):
    """What is there behind a number that wasn't was committed later."""
    log = db.log("late", Before("get", LAYOUT.record_key(7), lambda: db.commit("f", "g", "h")))
    log.refresh()
    db.commit(*"abcde")
    head = log.refresh()
    assert (head.number, [r.number for r in log.records(0, head.number)]) == (5, [1, 2, 3, 4, 5])
    assert log.refresh().number == 8


def test_the_time_of_validation_is_before_all_that_were_asked_for_at_once(db):
    log = db.log("slow", Before("get", LAYOUT.record_key(7), lambda: db.age(20)))
    log.refresh()
    db.commit(*"abcde")
    head = log.refresh()
    db.age(11)
    assert not log.is_fresh(head)


def test_who_is_far_behind_opens_the_log_anew(db):
    """The records between aren't fetched; a transaction that began before them gets them when it commits."""
    log = db.log(far=4)
    db.commit("a")
    log.refresh()
    db.commit(*(f"r{n}" for n in range(2, 41)))
    db.apply(39)
    db.commit("r41")
    before = log.store.bucket.counters.as_dict()
    assert log.refresh().number == 41
    spent = log.store.bucket.counters.since(before)
    assert (spent["list"], spent["get"]) == (1, 4 + 1 + 2 + 1 + 1), (
        "the horizon, the last two, none, the horizon"
    )
    assert (log.applied, [r.number for r in log.pending()]) == (39, [40, 41])
    assert log.newest("t", "a", 41) is None
    assert [r.number for r in log.records(1, 41)] == list(range(2, 42))
    db.commit("x", "y")
    assert log.refresh().number == 43


def test_who_is_far_behind_a_truncated_log_believes_no_ghosts(db):
    log = db.log("sleeper", far=2)
    log.refresh()
    shortened(db, 8)
    for number in (1, 2, 3):
        ghost(db, number)
    db.age(R)
    assert log.refresh().number == 9
    assert log.newest("t", "ghost", 9) is None


def test_a_snapshot_that_is_too_old_is_noticed(db):
    log = db.log()
    db.commit("a")
    head = log.refresh()
    db.commit("b", "c")
    db.apply(2)
    log.must_reach(head)  # within R that can't have been done by a collector
    db.age(R)
    with pytest.raises(
        SnapshotTooOldError, match="the snapshot at commit 1 is older than what is kept, commit 2"
    ):
        log.must_reach(head)
    log.must_reach(log.refresh())


def test_old_records_come_from_packs(db):
    log = db.log(kept=1)
    log.refresh()
    shortened(db, 7)
    ghost(db, 3)
    log = db.log()
    log.refresh()
    assert [r.number for r in log.records(0, 9)] == list(range(1, 10))
    assert [r.group[0].txid for r in log.records(2, 4)] == ["r3", "r4"]


def test_without_its_pack_a_record_is_too_old(db):
    shortened(db, 5)
    db.bucket().delete(LAYOUT.pack_key(1))
    log = db.log()
    log.refresh()
    with pytest.raises(SnapshotTooOldError, match="no pack of records has it any more"):
        log.records(2, 9)
    assert len(log.records(5, 9)) == 4


def test_records_that_are_applied_are_forgotten_and_found_again(db):
    log = db.log(kept=2)
    log.refresh()
    for n in range(1, 20):
        commit(log, [Put(f"r{n}", n - 1, (f"r{n}",))])
        log.mark_applied(n)
    assert len(log._records) <= 5
    assert [r.number for r in log.records(0, 19)] == list(range(1, 20))


def test_large_records_that_are_applied_are_forgotten_sooner(db):
    """100 records of 4 MB each would be as many as are kept of small ones."""
    log = db.log(kept_bytes=10_000)
    log.refresh()
    for n in range(1, 100):
        commit(log, [Put(f"{n:0100}", n - 1, tuple(f"r{n}.{i}" for i in range(10)))])
        log.mark_applied(n)
        held = [write for record in log._records.values() for write in record.group[0].writes]
        assert sum(len(write.body) for write in held) <= 2 * 10_000
    assert 5 <= len(log._records) <= 20
    assert len(log.records(0, 99)) == 99


def test_records_that_are_not_applied_stay(db):
    log = db.log(kept=2)
    log.refresh()
    for n in range(1, 20):
        commit(log, [Put(f"r{n}", n - 1, (f"r{n}",))])
    assert [r.number for r in log.pending()] == list(range(1, 20))
    assert log.newest("t", "r1", 19)[0] == 1


def test_how_far_rows_are_applied_has_no_holes(db):
    db.commit("a", "b", "c")
    log = db.log()
    log.refresh()
    log.mark_applied(3)
    log.mark_applied(2)
    assert log.applied == 0
    assert [r.number for r in log.pending()] == [1]
    assert set(log.changes("t", 3)) == {"a", "b", "c"}, "rows are read by the first number that isn't applied"
    log.mark_applied(1)
    assert (log.applied, log.pending(), log.changes("t", 3)) == (3, [], {})


def test_records_tell_how_far_rows_are_applied(db):
    """Rule 1: one process's applying spares the next one's."""
    db.commit("a", "b", "c")
    log = db.log()
    log.refresh()
    log.mark_applied(1)
    log.mark_applied(3)
    commit(log, [Put("d", 3, ("d",))])
    other = db.log("other")
    other.refresh()
    assert (other.applied, [r.number for r in other.pending()]) == (1, [2, 4])


def test_a_process_behind_what_is_applied_says_no_more_than_its_record_may(db):
    log = db.log()
    log.refresh()
    db.commit("a", "b")
    db.apply(2)
    log.learn(log.store.horizon())
    record = log.next_record(log.head(), [])
    assert (record.number, record.applied, record.done) == (1, 0, ())


def test_the_overlay():
    overlay = Overlay()
    for n, ids in ((1, ("a", "b")), (3, ("a",)), (4, ("c",))):
        overlay.add(LogRecord(n, (put_of(f"r{n}", 0, ids),), 0, (), {}))
    assert overlay.newest("t", "a", 0, 2)[0] == 1
    assert overlay.newest("t", "a", 0, 9)[0] == 3
    assert overlay.newest("t", "a", 1, 2) is None
    assert overlay.newest("u", "a", 0, 9) is None
    assert [n for n, _ in overlay.history("t", "a", 0, 9)] == [1, 3]
    assert {id: n for id, (n, _) in overlay.changes("t", 1, 4).items()} == {"a": 3, "c": 4}
    overlay.forget(LogRecord(1, (put_of("r1", 0, ("a", "b")),), 0, (), {}))
    assert [n for n, _ in overlay.history("t", "a", 0, 9)] == [3]
    assert overlay.newest("t", "b", 0, 9) is None


def test_the_horizon_only_rises(db):
    store = db.log().store
    assert store.raise_horizon(Horizon(5, 2, 7)) == Horizon(5, 2, 7)
    assert store.raise_horizon(Horizon(3, 4, 6)) == Horizon(5, 4, 7)
    assert store.horizon() == Horizon(5, 4, 7)


@pytest.mark.parametrize("first", [False, True])
def test_two_who_raise_the_horizon_at_once(db, first):
    other = db.log("other").store
    if not first:
        other.raise_horizon(Horizon(1, 0, 1))
    store = db.log(
        "racer",
        Before("put_if_match", LAYOUT.horizon_key, lambda: other.raise_horizon(Horizon(4, 0, 8))),
        Before("put_if_absent", LAYOUT.horizon_key, lambda: other.raise_horizon(Horizon(4, 0, 8))),
    ).store
    assert store.raise_horizon(Horizon(6, 2, 7)) == Horizon(6, 2, 8)
    assert other.horizon() == Horizon(6, 2, 8)
