"""Check a lake table with a log of its own. Those of writers' catalogs are checked with these, by `writer`."""

from __future__ import annotations

from firn.inspect.fsck.findings import Findings, TableCheck
from firn.inspect.fsck.leaderless import check_log
from firn.journal.leaderless import LeaderlessJournal
from firn.lake.table import LakeTable


def check_lake(table: LakeTable, *, footers: bool = True, blocks: bool = False) -> Findings:
    """Cost: see `firn.inspect.fsck.fsck.check`."""
    found = Findings()
    found.count("tables", 1)
    if isinstance(table.journal, LeaderlessJournal):
        more = check_log(table.journal, footers=footers)
        return Findings([*found.found, *more.found], {**found.checked, **more.checked})
    return found


PART: TableCheck = check_lake
