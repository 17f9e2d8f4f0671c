"""The change feed: what was written since a version (paper: `get_changes`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.errors import UnsupportedError

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable


@dataclass(frozen=True)
class ChangeFile:
    """An object that holds changes: those of its entries with `above < seq ≤ upto`."""

    key: str
    bytes: int
    above: int
    upto: int


@dataclass(frozen=True)
class Changes:
    """Entries written after the version `since` up to `version`, oldest first; nothing is read before they are
    asked for. Columns: the key's, the value's, then `_kind` ("put", "delete", "merge"), `_seq` and `_expire_at`."""

    since: str | None
    version: str
    files: tuple[ChangeFile, ...]
    _table: KeyedTable = field(repr=False, compare=False)

    @property
    def schema(self) -> pa.Schema:
        raise UnsupportedError(f"{self._table.name} has no changes in this version")

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        raise UnsupportedError(f"{self._table.name} has no changes in this version")

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.to_batches(), self.schema)


def changes(table: KeyedTable, since: str | None = None) -> Changes:
    """What was written since `since`, the `version` of earlier changes, of a reader or of a checkpoint; with None
    nothing but the version to begin from."""
    raise UnsupportedError(f"{table.name} has no changes in this version")
