"""A restore that stalled before its log was sent brought back files that a cleanup was deleting meanwhile."""

import pytest

from firn.errors import SnapshotTooOldError
from firn.journal.model import Commit
from firn.testing import SimStore
from regressions.journals import append, journal_on, pass_time, remove, rows
from simulation.leaderless_table import clean


def test_a_restored_file_that_is_removed_again_has_a_whole_grace() -> None:
    journal = journal_on(SimStore())
    file = append(journal, [1])
    first = journal.snapshot().version
    remove(journal, [file])
    pass_time(journal, 3000)
    with journal.exclusive("restore") as session:
        back = session.publish(Commit("restore", session.revivable(first).files))
    pass_time(journal, 60)
    remove(journal, [file])
    pass_time(journal, 700)  # more than a grace after the first removal
    clean(journal)
    assert rows(journal) == []
    assert rows(journal, back) == [1]
    pass_time(journal, 4000)
    clean(journal)
    assert journal.bucket.list(journal.layout.data_prefix).objects == ()


def test_a_restore_that_stalled_is_refused() -> None:
    store = SimStore()
    journal, other = journal_on(store), journal_on(store, "other")
    file = append(journal, [1])
    first = journal.snapshot().version
    remove(journal, [file])
    pass_time(journal, 1000)
    with pytest.raises(SnapshotTooOldError), journal.exclusive("restore") as session:
        past = session.revivable(first)
        pass_time(journal, 3000)
        clean(other)
        session.publish(Commit("restore", past.files))
    assert rows(journal) == []
