"""What the connection's writer's part of a table of writers' catalogs needs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from firn.keeping import KeepReport, never
from firn.lake.context import LakeContext
from firn.lake.keep.policy import ORPHANS_EVERY_S, WHOLE_EVERY
from firn.lake.maintain.merge import merge
from firn.runner import in_this_process


@dataclass
class WriterKeeper:
    """Merges the writer's files, and sweeps. Rows in its transactions the writer itself writes into files. Only for
    the process of that writer: no other one may use its id."""

    table: LakeContext
    _swept: float = field(default_factory=time.monotonic)

    def round(self, *, force: bool = False, ended: Callable[[], bool] = never) -> KeepReport:
        """Merge, if enough small files are there; sweep once a day. What a snapshot costs where there aren't."""
        table, report = self.table, KeepReport(self.table.name)
        with in_this_process():
            if self._merge(dry_run=True) >= WHOLE_EVERY:
                report += KeepReport(table.name, folds=1, files_merged=self._merge(dry_run=False))
            now = time.monotonic()
            if now - self._swept >= ORPHANS_EVERY_S and not ended():
                self._swept = now
                swept = table.journal.sweep()
                report += KeepReport(table.name, deleted=len(swept.data_files) + len(swept.orphans))
        return report

    def _merge(self, *, dry_run: bool) -> int:
        """How many files are merged."""
        result = merge(
            self.table,
            target_size=None,
            partitions=None,
            query=None,
            respec=False,
            only=None,
            dry_run=dry_run,
        )
        return result.files_removed
