"""A publish whose first answer was lost, while others merged and swept its log, was reported as never visible."""

from collections.abc import Callable

import pytest

from firn.errors import LockLostError, OutcomeUnknownError
from firn.journal.model import Commit
from firn.testing import Call, Fault, SimStore, retried
from regressions.journals import GRACE_AND_MARGIN_S, Before, append, journal_on, merge, pass_time, rows
from simulation.leaderless_table import clean


class WhileItWaits:
    """The publishing put lands, its answer is lost, `work` runs, and it is sent again."""

    def __init__(self, work: Callable[[], object], fault: Fault) -> None:
        self.work: Callable[[], object] | None = work
        self.fault, self.puts = fault, 0

    def decide(self, call: Call) -> Fault | None:
        if call.verb == "put_if_match" and "_m_" in call.key:
            self.puts += 1
            if self.puts == 1:
                return self.fault
            if self.work is not None:
                work, self.work = self.work, None
                work()
        return None


def test_a_log_that_is_gone_may_have_been_published() -> None:
    store = SimStore()
    other = journal_on(store, "other")
    file = append(other, [1])
    append(other, [2])

    def merge_and_clean() -> None:
        merge(other)
        pass_time(other, GRACE_AND_MARGIN_S)
        clean(other)

    journal = journal_on(store, plan=WhileItWaits(merge_and_clean, retried(31)))
    with pytest.raises(OutcomeUnknownError), journal.exclusive("remove") as session:
        session.publish(Commit("remove", [], [file.path]))
    assert rows(other) == [2]


def test_a_log_that_was_made_void_never_was() -> None:
    store = SimStore()
    other = journal_on(store, "other")
    file = append(other, [1])

    plan = Before(lambda call: call.verb == "put_if_match" and "_m_" in call.key, lambda: merge(other))
    journal = journal_on(store, plan=plan)
    with pytest.raises(LockLostError), journal.exclusive("remove") as session:
        session.publish(Commit("remove", [], [file.path]))
    assert rows(other) == [1]
