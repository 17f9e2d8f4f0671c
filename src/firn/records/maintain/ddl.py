"""Changes of what tables and indices there are: commits of their own kind."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from firn.journal import sequence
from firn.journal.sequence import Catalog, Ddl, Moment
from firn.journal.sequence.catalog import changed
from firn.records.objects.store import RecordStore


@dataclass(frozen=True)
class DefinitionChange:
    """A change of the definitions that wants into the log: it must fit those that there are then (rule 16). `check`
    refuses what else doesn't."""

    ddl: Ddl
    snapshot: int
    txid: str = field(default_factory=lambda: secrets.token_hex(16))
    check: Callable[[Catalog], object] | None = None

    def admit(self, moment: Moment) -> sequence.LogTransaction:
        changed(moment.catalog, self.ddl, moment.head.number + 1)
        if self.check is not None:
            self.check(moment.catalog)
        return sequence.LogTransaction(self.txid, self.snapshot, ddl=self.ddl)


def define(store: RecordStore, ddl: Ddl, *, check: Callable[[Catalog], object] | None = None) -> int:
    """Commit a change of the definitions; the commit's number. As `refresh`, and 1 PUT.

    Raises:
        TableExistsError, TableNotFoundError, NotFoundError, ConflictError: it doesn't fit; see `catalog.changed`.
    """
    return store.group.commit(DefinitionChange(ddl, store.log.refresh().number, check=check))
