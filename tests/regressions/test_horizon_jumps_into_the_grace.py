"""What sweep says about which versions can't be read any more: neither too much nor too little."""

import pytest

from firn.errors import SnapshotTooOldError
from firn.journal.model import Commit
from firn.testing import SimStore
from regressions.journals import GRACE_AND_MARGIN_S, append, journal_on, merge, pass_time, rows, sweep
from simulation.leaderless_table import clean, put_rows, read_all


def test_a_tombstone_carried_past_a_cleanup_leaves_the_grace_alone() -> None:
    store = SimStore()
    journal, other = journal_on(store), journal_on(store, "other")
    append(journal, [1])
    append(journal, [2])
    merge(journal)
    pass_time(journal, GRACE_AND_MARGIN_S)
    with journal.exclusive("merge") as session:
        # This merge has read the log before it is cleaned, and carries on what has been deleted.
        files = session.snapshot.files
        clean(other)
        append(other, [3])
        version = other.snapshot().version
        part = put_rows(journal, "p=a", read_all(journal, session.snapshot), maintenance=True)
        session.publish(Commit("merge", [part], [f.path for f in files]))
    clean(other)
    assert rows(other, version) == [1, 2, 3]


def test_a_version_right_before_a_maintenance_log_is_refused() -> None:
    """In the same millisecond: it needs the logs that the maintenance log replaced, and they are gone."""
    journal = journal_on(SimStore())
    append(journal, [1])
    version = merge(journal)
    pass_time(journal, GRACE_AND_MARGIN_S)
    sweep(journal)
    ms = version.partition("_")[0]
    with pytest.raises(SnapshotTooOldError):
        journal.snapshot(f"{ms}_a")
    assert rows(journal, version) == [1]
