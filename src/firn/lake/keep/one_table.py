"""Keeping one table that was named: `LakeTable.keep`."""

from __future__ import annotations

from firn.errors import UnsupportedError
from firn.journal.leaderless import LeaderlessJournal
from firn.keeping import Keeping, KeepReport, RoundKeeper, Turns
from firn.lake.context import LakeContext
from firn.lake.keep.table_keeper import TableKeeper
from firn.lake.keep.writer_keeper import WriterKeeper


def keeper_of(table: LakeContext) -> RoundKeeper:
    """The keeper of a table, in a process or thread that does nothing else.

    Raises:
        UnsupportedError: the store has no conditional puts, and no lock was given.
    """
    journal = table.journal
    if not isinstance(journal, LeaderlessJournal):
        return WriterKeeper(table)
    if not journal.log_bucket.capabilities.conditional_put and journal.lock is None:
        raise UnsupportedError(
            f"{table.bucket.uri(table.prefix)}: keeping a table needs a lock, and this store has no conditional puts "
            "to make one of. Pass one: firn.connect(url, lock=firn.FileLock(directory))."
        )
    return TableKeeper(table, alone=True)


def keep(table: LakeContext, keeping: Keeping) -> KeepReport:
    """See `LakeTable.keep`."""
    turns = Turns(table.name, keeper_of(table), keeping.monotonic)
    return keeping.run(lambda: [turns]).get(table.name, KeepReport(table.name))
