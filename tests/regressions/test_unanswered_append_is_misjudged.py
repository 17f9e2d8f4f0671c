"""A log that was sent without an answer: its place taken by a void log looked like success, and a store that
failed at the second look made it look like nothing had been sent."""

from collections.abc import Callable

import pytest

from firn.errors import OutcomeUnknownError
from firn.journal.model import Commit
from firn.testing import FAILED, Call, Fault, Rule, Script, SimStore, delayed
from regressions.journals import journal_on, rows
from simulation.leaderless_table import put_rows


def test_a_store_that_fails_afterwards_leaves_the_outcome_unknown() -> None:
    store = SimStore()
    plan = Script(
        Rule(delayed(60), verb="put", key="*/_log/*"),
        Rule(FAILED, verb=("head", "get"), key="*/_log/*", every=True),
    )
    journal = journal_on(store, plan=plan)
    ticket = journal.begin_append()
    file = put_rows(journal, "p=a", [1], maintenance=False)
    with pytest.raises(OutcomeUnknownError):
        ticket.commit(Commit("append", [file]))
    journal.clock.sleep(61)
    assert rows(journal_on(store)) == [1]


class LateLog:
    """The batch's log is under way for an hour; before the writer's second look, `work` runs."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work: Callable[[], object] | None = work
        self.looks = 0

    def decide(self, call: Call) -> Fault | None:
        if "/_log/" not in call.key:
            return None
        if call.verb == "put_if_absent":
            return delayed(3600)
        self.looks += call.verb in ("get", "head")
        if self.looks == 2 and self.work is not None:
            work, self.work = self.work, None
            work()
        return None


def test_a_batch_whose_place_was_voided_is_not_acknowledged() -> None:
    store = SimStore()
    other = journal_on(store, "other")

    def retry_elsewhere() -> None:
        # Makes the first attempt void and dies before it publishes its own.
        plan = Script(Rule(FAILED, verb="put_if_match", key="*/batches/*"))
        doomed = journal_on(store, "doomed", plan=plan)
        ticket = doomed.begin_append()
        again = put_rows(doomed, "p=a", [1], maintenance=False)
        with pytest.raises(Exception, match="failed after all retries"):
            ticket.commit(Commit("append", [again], batch_id="b"))

    plan = LateLog(retry_elsewhere)
    journal = journal_on(store, "first", plan=plan)
    ticket = journal.begin_append()
    file = put_rows(journal, "p=a", [1], maintenance=False)
    try:
        version = ticket.commit(Commit("append", [file], batch_id="b"))
    except OutcomeUnknownError:
        version = None
    assert plan.work is None
    if version is not None:
        assert rows(other, version) == [1]
        assert other.seen_batch("b") == version
