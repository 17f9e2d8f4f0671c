"""The content of a transaction: its actions in order, and the commit that closes it (paper, section 3.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firn.journal.model import DataFile

Columns = tuple[tuple[str, str], ...]
"""(name, DuckDB type) in column order; hashable, so that files of one schema share it."""

APPENDS = frozenset(("append", "register"))
"""Names of operations whose files hold new rows: streams deliver those."""

IN_PLACE = "in_place"
"""In the summary of a transaction over tables, of an operation: the files that hold rows of other files."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """From here on the catalog has format `format`."""

    format: int


@dataclass(frozen=True, slots=True)
class Define:
    """A table is created, or its definition replaced. `spec` is the table's definition, opaque here."""

    table: str
    spec: bytes


@dataclass(frozen=True, slots=True)
class Drop:
    """A table goes, with all of its files."""

    table: str


@dataclass(frozen=True, slots=True)
class Add:
    """A data file of `table` with the columns it has. Where the file is `inlined`, these are rows that stand in the
    catalog, `Rows` in the bytes: see `firn.journal.writer.format.rows`."""

    table: str
    file: DataFile
    columns: Columns = ()


@dataclass(frozen=True, slots=True)
class Remove:
    """A data file isn't live any more; the predicates on it go with it."""

    path: str


@dataclass(frozen=True, slots=True)
class Tombstones:
    """Rows of the named files for which `predicate` is true are deleted; other files are untouched."""

    table: str
    predicate: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Resolve:
    """A fork is decided by hand: at `revision`, the transaction `keep` counts."""

    revision: int
    keep: str


Action = Upgrade | Define | Drop | Add | Remove | Tombstones | Resolve


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The last action of every transaction.

    `uuid` is the transaction's own, `previous` that of the revision before, None for revision 1. `batches`
    are (table, batch id). `claimed`: the history is kept by claims, and has a claim for every revision.
    """

    uuid: str
    previous: str | None
    time_ms: int
    op: str
    batches: tuple[tuple[str, str], ...] = ()
    summary: Mapping[str, Any] = field(default_factory=dict)
    claimed: bool = False


@dataclass(frozen=True, slots=True)
class CatalogTransaction:
    """One revision of a writer's catalog of a database. `format` is the catalog's after it."""

    writer: str
    database: str
    revision: int
    actions: Sequence[Action]
    commit: CommitRecord
    format: int = 1

    @property
    def uuid(self) -> str:
        return self.commit.uuid

    @property
    def resolves(self) -> tuple[Resolve, ...]:
        return tuple(action for action in self.actions if isinstance(action, Resolve))
