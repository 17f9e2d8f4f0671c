"""A batch retried long afterwards leaves a void log under its old name; a stream that read an earlier batch of its
own again then missed a log that it had never delivered."""

import pytest

from firn.errors import StoreUnavailableError
from firn.journal.model import Commit
from firn.testing import FAILED, Rule, Script, SimStore
from regressions.journals import append, journal_on, pass_time
from simulation.leaderless_table import put_rows


def test_a_late_void_log_is_no_part_of_a_batch() -> None:
    store = SimStore()
    journal = journal_on(store)
    append(journal, [0])
    stream = journal.stream()
    begin = stream.start().offset
    # The batch's claim is made, and its first attempt fails for certain.
    doomed = journal_on(store, "doomed", plan=Script(Rule(FAILED, verb="put_if_absent", key="*/_log/*")))
    ticket = doomed.begin_append()
    file = put_rows(doomed, "p=a", [1], maintenance=False)
    with pytest.raises(StoreUnavailableError):
        ticket.commit(Commit("append", [file], batch_id="b"))
    append(journal, [2])
    pass_time(journal, 1000)
    end = stream.poll(begin).offset
    before = stream.between(begin, end)
    ticket = journal.begin_append()
    file = put_rows(journal, "p=a", [1], maintenance=False)
    ticket.commit(Commit("append", [file], batch_id="b"))
    assert stream.between(begin, end) == before
