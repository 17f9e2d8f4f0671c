"""A batch was retried while cleanup deleted its log: between the refusal and the look at who is there, it went."""

from firn.journal.model import Commit
from firn.testing import SimStore
from regressions.journals import GRACE_AND_MARGIN_S, Before, journal_on, merge, pass_time, rows
from simulation.leaderless_table import clean, put_rows


def test_a_log_that_vanishes_is_looked_for_where_it_was_merged() -> None:
    store = SimStore()
    other = journal_on(store, "other")
    plan = Before(lambda call: call.verb == "get" and "/_log/" in call.key, lambda: clean(other))
    retry = journal_on(store, "retry", plan=plan)
    versions = []
    for writer in (other, retry):
        ticket = writer.begin_append()
        file = put_rows(writer, "p=a", [1], maintenance=False)
        versions.append(ticket.commit(Commit("append", [file], batch_id="b")))
        if writer is other:
            merge(other)
            pass_time(other, GRACE_AND_MARGIN_S)
    assert plan.done
    assert versions[0] == versions[1]
    assert rows(other) == [1]
