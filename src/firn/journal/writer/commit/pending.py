"""A transaction on its way to becoming a revision."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from firn.errors import NotFoundError, StoreError
from firn.journal.writer.commit.age import Age
from firn.journal.writer.format.actions import CatalogTransaction
from firn.journal.writer.format.state import CatalogHead, CatalogState

NOTHING_SENT = (StoreError, NotFoundError)
"""Errors of a bucket that say that a write didn't happen."""


@dataclass(frozen=True)
class Pending:
    """A transaction that is sent, again if need be: the same bytes under the same name. `before` is the head that
    it follows, `state` the catalog once it counts, `ages` those of its data files."""

    key: str
    transaction: CatalogTransaction
    body: bytes
    before: CatalogHead
    state: CatalogState
    ages: Sequence[Age] = ()

    @property
    def revision(self) -> int:
        return self.transaction.revision

    @property
    def uuid(self) -> str:
        return self.transaction.uuid


class Settled(enum.Enum):
    """It counts. `THEN_CLOSE`: and another process has gone on from there."""

    DONE = enum.auto()
    THEN_CLOSE = enum.auto()
