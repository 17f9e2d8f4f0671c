"""Commits: rules 13 and 15 to 19, what they cost, and crashes at every request."""

from __future__ import annotations

import pytest

from firn.errors import (
    InvalidInputError,
    OutcomeUnknownError,
    StaleObjectError,
    StoreUnavailableError,
)
from firn.journal.sequence import SequenceLayout, SequenceLog, commit
from firn.testing import FAILED, LOST_ACK, Rule, Script, SimStore, crash_points, delayed
from sequence_logs import PREFIX, Before, Database, Put, R, cost, put_of, txids

LAYOUT = SequenceLayout(PREFIX)


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
    log = db.log("client", Before("get", LAYOUT.horizon_key, FAILED, nth=2))
    log.refresh()
    db.age(R)
    assert commit(log, [Put("a", 0)]) == {"a": 1}


def test_large_transactions_have_records_of_their_own(db, monkeypatch):
    size = len(put_of("a", 0, ("x",)).writes[0].body)
    monkeypatch.setattr("firn.journal.sequence.proposal.LARGEST_BYTES", 2 * size)
    outcomes = commit(db.log(), [Put(txid, 0, (txid,)) for txid in "abcde"])
    assert outcomes == {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3}


# -- what it costs


def test_beginning(db):
    """1 + new records + c; at first the horizon twice, what isn't applied, and a LIST only if that is more than 1, or
    if there is no log."""
    log = db.log()
    assert cost(log, log.refresh)[1] == {"get": 2 + 2, "list": 1}
    assert cost(log, log.refresh)[1] == {"get": 1}
    db.commit("a")
    assert cost(log, log.refresh)[1] == {"get": 1 + 1}
    db.commit("b", "c")
    assert cost(log, log.refresh)[1] == {"get": 1 + 2 + 1}, "two were asked for at once"
    db.age(R)
    assert cost(log, log.refresh)[1] == {"get": 1 + 1}
    assert cost(log, log.head)[1] == {}
    cold = db.log()
    assert cost(cold, cold.refresh)[1] == {"list": 1, "get": 2 + 3 + 1}
    db.apply(2)
    cold = db.log()
    assert cost(cold, cold.refresh)[1] == {"get": 2 + 1 + 2}
    db.apply(3)
    cold = db.log()
    assert cost(cold, cold.refresh)[1] == {"get": 2 + 2 + 1}, "the last record, which has the definitions"


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
