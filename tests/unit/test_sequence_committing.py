"""Commits: rules 13 and 15 to 19, group commit by threads, truncation (22), and crashes at every request."""

from __future__ import annotations

import contextlib
import os
import threading

import pytest
from sequence_logs import PREFIX, Before, Database, Put, R, put_of

from firn.errors import (
    CorruptObjectError,
    InvalidInputError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StaleObjectError,
    StoreUnavailableError,
)
from firn.journal.sequence import (
    GroupCommit,
    Horizon,
    Record,
    SequenceLayout,
    SequenceLog,
    commit,
    truncate,
    truncating,
)
from firn.journal.sequence.codec import encode_record
from firn.testing import FAILED, LOST_ACK, Rule, Script, SimStore, crash_points, delayed

LAYOUT = SequenceLayout(PREFIX)


@pytest.fixture
def db():
    return Database()


def txids(db):
    """The transactions of each record, as a new process finds them."""
    log = db.log("reader")
    return [[member.txid for member in r.group] for r in log.records(0, log.refresh().number)]


def test_a_commit_is_the_next_record(db):
    log = db.log()
    assert commit(log, [Put("a", 0, ("a",))]) == {"a": 1}
    assert commit(log, [Put("b", 1, ("b",))]) == {"b": 2}
    assert (log.head().number, txids(db)) == (2, [["a"], ["b"]])


def test_who_comes_second_tries_the_next_number(db):
    log = db.log()
    log.refresh()
    db.commit("other")
    mine = Put("mine", 0, ("mine",))
    assert commit(log, [mine]) == {"mine": 2}
    assert [len(moment.since) for moment in mine.tries] == [0, 1], "judged at each attempt anew"
    assert txids(db) == [["other"], ["mine"]]


def test_a_conflict_is_told(db):
    log = db.log()
    log.refresh()
    db.commit("other", ids=("x",))
    outcome = commit(log, [Put("mine", 0)])["mine"]
    assert isinstance(outcome, StaleObjectError)
    assert txids(db) == [["other"]]


def test_several_go_into_one_record_if_they_stand_after_one_another(db):
    """Rule 15."""
    outcomes = commit(
        db.log(), [Put("a", 0, ("x",)), Put("b", 0, ("y",)), Put("c", 0, ("x", "z")), Put("d", 0, ("z",))]
    )
    assert (outcomes["a"], outcomes["b"], outcomes["d"]) == (1, 1, 1)
    assert isinstance(outcomes["c"], StaleObjectError)
    assert txids(db) == [["a", "b", "d"]]


def test_what_one_transaction_does_wrong_hurts_no_other(db):
    class Broken(Put):
        def admit(self, moment):
            raise InvalidInputError("no")

    outcomes = commit(db.log(), [Broken("a", 0), Put("b", 0)])
    assert isinstance(outcomes["a"], InvalidInputError)
    assert outcomes["b"] == 1


@pytest.mark.parametrize("fault", [LOST_ACK, delayed(3), delayed(10_000)])
def test_an_unanswered_commit_is_put_again_at_its_number(db, fault):
    """Rule 18."""
    log = db.log("client", Before("put_if_absent", LAYOUT.record_key(1), fault))
    assert commit(log, [Put("a", 0)]) == {"a": 1}
    db.store.time.settle()
    assert txids(db) == [["a"]]


def test_an_unanswered_commit_that_somebody_else_was_faster_than(db):
    log = db.log("client", Before("put_if_absent", LAYOUT.record_key(1), delayed(3)))
    log.refresh()
    db.commit("other")
    assert commit(log, [Put("a", 0, ("a",))]) == {"a": 2}
    db.store.time.settle()
    assert txids(db) == [["other"], ["a"]]


def test_an_own_commit_is_found_before_the_conflict_with_what_followed(db):
    """Rule 13: it had landed, and somebody went on from there."""
    log = db.log("client", Before("put_if_absent", LAYOUT.record_key(1), LOST_ACK))
    real, plan = log.store.bucket.put_if_absent, []

    def put(key, data, **options):
        try:
            return real(key, data, **options)
        except OutcomeUnknownError:
            if not plan:
                plan.append(db.commit("other", ids=("x",)))
            raise

    log.store.bucket.put_if_absent = put
    assert commit(log, [Put("a", 0)]) == {"a": 1}
    assert txids(db) == [["a"], ["other"]]


def test_a_store_that_fails_at_once_has_committed_nothing(db):
    log = db.log("client", Before("put_if_absent", LAYOUT.record_key(1), FAILED))
    assert isinstance(commit(log, [Put("a", 0)])["a"], StoreUnavailableError)
    assert commit(log, [Put("a", 0)]) == {"a": 1}


def test_a_store_that_never_answers_leaves_the_outcome_open():
    """Rule 19: an error of its own, and only then."""
    store = SimStore()
    bucket = store.bucket(plan=Script(Rule(delayed(10_000), verb="put_if_absent", every=True)))
    log = SequenceLog(bucket, PREFIX, clock=bucket.clock)
    outcome = commit(log, [Put("a", 0)])["a"]
    assert isinstance(outcome, OutcomeUnknownError)
    assert "It may be there, now or within minutes: look before retrying." in str(outcome)


def test_a_store_that_never_answers_though_it_wrote():
    store = SimStore()
    bucket = store.bucket(plan=Script(Rule(LOST_ACK, verb="put_if_absent", every=True)))
    log = SequenceLog(bucket, PREFIX, clock=bucket.clock)
    assert commit(log, [Put("a", 0)]) == {"a": 1}


def test_a_failure_after_the_put_is_no_failure_of_the_commit(db):
    """The horizon can't be read after the record landed: the next look tells."""
    log = db.log("client", Before("get", LAYOUT.horizon_key, FAILED, nth=1))
    log.refresh()
    db.age(R)
    assert commit(log, [Put("a", 0)]) == {"a": 1}


# -- a log that was truncated


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
    log = db.log("slow", Before("get", LAYOUT.horizon_key, lambda: truncated(), nth=1))
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
    log = db.log("slow", Before("get", LAYOUT.horizon_key, lambda: truncated(), nth=1))
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


# -- group commit


def test_threads_share_records(db):
    """While the first one's PUT is in flight, the others gather."""
    store, gate, first = SimStore(), threading.Event(), threading.Event()
    bucket = store.bucket()
    log = SequenceLog(bucket, PREFIX, clock=bucket.clock)
    log.refresh()
    real = bucket.put_if_absent

    def put(key, data, **options):
        if not first.is_set():
            first.set()
            assert gate.wait(10)
        return real(key, data, **options)

    bucket.put_if_absent = put
    group = GroupCommit(log)
    numbers: dict[str, int] = {}

    def run(txid):
        numbers[txid] = group.commit(Put(txid, 0, (txid,)))

    threads = [threading.Thread(target=run, args=("t0",))]
    threads[0].start()
    assert first.wait(10)
    threads += [threading.Thread(target=run, args=(f"t{n}",)) for n in range(1, 9)]
    for thread in threads[1:]:
        thread.start()
    while len(group._queue) < 8:
        pass
    gate.set()
    for thread in threads:
        thread.join(10)
    assert numbers == {"t0": 1, **{f"t{n}": 2 for n in range(1, 9)}}
    assert bucket.counters.put == 2


def test_each_thread_gets_its_own_outcome(db):
    group = GroupCommit(db.log())
    assert group.commit(Put("a", 0)) == 1
    with pytest.raises(StaleObjectError):
        group.commit(Put("b", 0))
    assert group.commit(Put("c", 1)) == 2


def test_an_interrupted_leader_leaves_nobody_waiting(db):
    class Interrupted(Put):
        def admit(self, moment):
            raise KeyboardInterrupt

    group = GroupCommit(db.log())
    with pytest.raises(KeyboardInterrupt):
        group.commit(Interrupted("a", 0))
    assert group.commit(Put("b", 0)) == 1


class Turn(threading.Event):
    """The second of those who wait is interrupted, as by Ctrl-C, before or after it was chosen to lead."""

    def __init__(self, interrupted, chosen_first):
        super().__init__()
        self.interrupted, self.chosen_first = interrupted, chosen_first
        self.waits = threading.Event()
        self.leaves = threading.Event()

    def wait(self, timeout=None):
        self.waits.set()
        if self.interrupted:
            assert not self.chosen_first or super().wait(10)
            self.leaves.set()
            raise KeyboardInterrupt
        assert super().wait(10), "nobody leads"
        return True


@pytest.mark.parametrize("chosen_first", [False, True])
def test_who_waits_and_is_interrupted_leaves_nobody_waiting(db, chosen_first):
    turns = []

    def new_turn():
        turns.append(Turn(len(turns) == 1, chosen_first))
        return turns[-1]

    held, sent = threading.Event(), threading.Event()
    bucket = db.bucket()
    real = bucket.put_if_absent

    def put(key, data, **options):
        sent.set()
        assert held.wait(10)
        return real(key, data, **options)

    bucket.put_if_absent = put
    group = GroupCommit(SequenceLog(bucket, PREFIX, clock=bucket.clock), new_turn=new_turn)
    numbers: dict[str, int] = {}

    def run(txid):
        with contextlib.suppress(KeyboardInterrupt):
            numbers[txid] = group.commit(Put(txid, 0, (txid,)))

    threads = []
    for txid in "abc":
        threads.append(threading.Thread(target=run, args=(txid,), daemon=True))
        threads[-1].start()
        if txid == "a":
            assert sent.wait(10)
        else:
            while len(turns) < 2 + (txid == "c"):
                pass
            assert turns[-1].waits.wait(10)
    if not chosen_first:
        assert turns[1].leaves.wait(10)
        threads[1].join(10)
    held.set()
    for thread in threads:
        thread.join(10)
    assert numbers == {"a": 1, "c": 2}


def test_a_forked_child_does_not_commit_for_its_parent(db, monkeypatch):
    group = GroupCommit(db.log())
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(InvalidInputError, match="Connect here"):
        group.commit(Put("a", 0))
    assert txids(db) == []


def test_large_transactions_have_records_of_their_own(db, monkeypatch):
    size = len(put_of("a", 0, ("x",)).writes[0].body)
    monkeypatch.setattr("firn.journal.sequence.committing.LARGEST_BYTES", 2 * size)
    outcomes = commit(db.log(), [Put(txid, 0, (txid,)) for txid in "abcde"])
    assert outcomes == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3}


# -- truncation


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
    record = Record(2, (put_of("late", 1, ("late",)),), 0, (), {})
    db.bucket().put_if_absent(LAYOUT.record_key(2), encode_record(record))
    assert truncate(db.log()).deleted == 1
    assert LAYOUT.record_key(2) not in db.store


# -- what it costs


def cost(log, action):
    before = log.store.bucket.counters.as_dict()
    result = action()
    spent = log.store.bucket.counters.since(before)
    return result, {verb: n for verb, n in spent.items() if n and not verb.startswith("bytes")}


def test_beginning(db):
    """1 + new records + c; at first a LIST, and what isn't applied."""
    log = db.log()
    assert cost(log, log.refresh)[1] == {"list": 1, "get": 2}
    assert cost(log, log.refresh)[1] == {"get": 1}
    db.commit("a")
    assert cost(log, log.refresh)[1] == {"get": 1 + 1}
    db.commit("b", "c")
    assert cost(log, log.refresh)[1] == {"get": 1 + 2 + 1}, "two were asked for at once"
    db.age(R)
    assert cost(log, log.refresh)[1] == {"get": 1 + 1}
    assert cost(log, log.head)[1] == {}
    cold = db.log()
    assert cost(cold, cold.refresh)[1] == {"list": 1, "get": 1 + 2 + 2}


def test_committing(db):
    """1 PUT + c; a conflict: the records of the others, and again."""
    log = db.log()
    log.refresh()
    assert cost(log, lambda: commit(log, [Put("a", 0)]))[1] == {"put": 1}
    assert cost(log, lambda: commit(log, [Put("b", 1), Put("c", 1, ("y",))]))[1] == {"put": 1}
    db.age(R)
    assert cost(log, lambda: commit(log, [Put("d", 2)]))[1] == {"put": 1, "get": 1}
    db.commit("other")
    assert cost(log, lambda: commit(log, [Put("e", 3)]))[1] == {"put": 2, "get": 2}


def test_who_was_refused_asks_for_the_other_one_and_the_next_at_once(db, monkeypatch):
    log = db.log()
    log.refresh()
    db.commit("other")
    asked, fetch = [], type(log.store).records
    monkeypatch.setattr(
        type(log.store), "records", lambda self, numbers: asked.append(list(numbers)) or fetch(self, numbers)
    )
    assert commit(log, [Put("mine", 0)]) == {"mine": 2}
    assert asked == [[1, 2]]


def test_a_database_that_always_asks_for_the_horizon(db):
    log = db.log(freshness_s=0)
    log.refresh()
    assert cost(log, log.refresh)[1] == {"get": 2}
    assert cost(log, lambda: commit(log, [Put("a", 0)]))[1] == {"put": 1, "get": 1}


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
    truncating._pack(log, 1, 3)
    store.raise_horizon(Horizon(lo=3))
    assert truncate(log, largest=1).deleted == 4
    assert [key for key in db.paths() if "_commits" in key] == ["_commits/00000000000000000005"]


def test_beginning_costs_the_same_however_long_the_log_is():
    db = Database(page_size=10)
    log = db.log()
    log.refresh()
    for n in range(200):
        commit(log, [Put(f"r{n}", n, (f"r{n}",))])
        log.mark_applied(n + 1)
    assert cost(log, log.refresh)[1] == {"get": 1}


# -- crashes


def test_a_crash_at_every_request_of_a_commit():
    """Whatever was cut off, it is in the log whole or not at all, and the next one goes on."""

    def check(store, point):
        bucket = store.bucket("survivor")
        log = SequenceLog(bucket, PREFIX, clock=bucket.clock)
        before = log.refresh().number
        assert before <= 1
        assert commit(log, [Put("next", before, ("next",))]) == {"next": before + 1}

    def operation(bucket):
        commit(SequenceLog(bucket, PREFIX, clock=bucket.clock), [Put("a", 0)])

    assert (
        crash_points(SimStore, operation, check, modes=("before", "after", "lost_ack", "retried", "failed"))
        > 10
    )


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
