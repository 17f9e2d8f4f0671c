"""A sweep that stalled before its LISTs lost the lock, and took the next holder's unpublished parts for orphans."""

import pytest

from firn.errors import LockLostError
from firn.journal.model import Commit
from firn.testing import SimStore
from regressions.journals import Before, append, journal_on, rows
from simulation.leaderless_table import put_rows


def test_a_sweep_that_lost_the_lock_deletes_no_parts() -> None:
    store = SimStore()
    other = journal_on(store, "merger")
    files = [append(other, [1]), append(other, [2])]
    session = other.exclusive("merge")
    held = []

    def begin_merge() -> None:
        # The sweep has been silent for so long that its lock is taken over.
        held.append(session.__enter__())
        assert len(held[0].snapshot.files) == 2
        held.append(put_rows(other, "p=a", [1, 2], maintenance=True))

    plan = Before(lambda call: call.verb == "list" and call.key.endswith("_data/"), begin_merge)
    sweeper = journal_on(store, "sweeper", plan=plan)
    with pytest.raises(LockLostError):
        sweeper.sweep(grace_ms=0, orphan_age_ms=3_600_000, margin=True, dry_run=False)
    held[0].publish(Commit("merge", [held[1]], [f.path for f in files]))
    session.__exit__(None, None, None)
    assert rows(other) == [1, 2]
