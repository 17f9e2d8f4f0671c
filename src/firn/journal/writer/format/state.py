"""The content of a catalog at a revision, and how a transaction changes it. Pure.

A state and the transaction after it give the next state, or a reason why they don't follow one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import NamedTuple

from firn.errors import CorruptObjectError, UnsupportedError
from firn.journal.model import LACKING, ColumnTypes, DataFile
from firn.journal.writer.format.actions import (
    Action,
    Add,
    CatalogTransaction,
    Columns,
    Define,
    Drop,
    Remove,
    Resolve,
    Tombstones,
    Upgrade,
)
from firn.journal.writer.format.layered import Layered

FIRST_FORMAT = 1
"""The format in which every catalog begins."""

ROWS_FORMAT = 2
"""The format in which rows may stand in the catalog."""

FORMAT = ROWS_FORMAT
"""The newest catalog format that this version writes and reads."""

BATCH_MEMORY_MS = 30 * 24 * 3600 * 1000
"""How long batch ids are remembered, by commit times."""


class CatalogHead(NamedTuple):
    """The transaction that a state is of; revision 0 is the empty start, with no uuid."""

    revision: int = 0
    uuid: str | None = None
    time_ms: int = 0
    claimed: bool = False


EMPTY_START = CatalogHead()


class CatalogSoftDelete(NamedTuple):
    """Rows for which `predicate` is true are deleted, since `revision`."""

    predicate: str
    revision: int


class LiveFile(NamedTuple):
    """A data file, the columns it was written with, the revision that added it, and its deleted rows."""

    file: DataFile
    columns: Columns
    revision: int
    deletes: tuple[CatalogSoftDelete, ...] = ()


@dataclass(frozen=True)
class CatalogTable:
    """One table. `schemas` are all that its files ever had, in order of appearance; `batches` maps batch ids
    to (revision, commit time).

    Three things are known of live files without a look at all of them, and aren't stored: `greatest` is at least the
    greatest number in the clocks of rows, 0 on tables without a key; without `beside` no file has columns that hold
    what was set aside before it was written; `inlined` is the size of the rows that stand in the catalog.
    """

    name: str
    spec: bytes
    schemas: tuple[Columns, ...] = ()
    files: Mapping[str, LiveFile] = field(default_factory=dict)
    batches: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    greatest: int = field(default=0, compare=False)
    beside: bool = field(default=False, compare=False)
    inlined: int = field(default=0, compare=False)


@dataclass(frozen=True)
class CatalogState:
    """A catalog at `head`: its tables by name, in order of definition."""

    writer: str
    database: str
    head: CatalogHead = EMPTY_START
    format: int = FIRST_FORMAT
    tables: Mapping[str, CatalogTable] = field(default_factory=dict)


def clock_at(revision: int, writer: str) -> str:
    """The clock of the rows that a commit adds: texts of it order by revision, then by writer."""
    return f"{revision:020d}_{writer}"


def clock_above(clock: str, number: int) -> str:
    """A clock, or that of a later revision where it isn't above `number`.

    >>> clock_above(clock_at(7, "a"), 100) == clock_at(101, "a"), clock_above(clock_at(7, "a"), 6) == clock_at(7, "a")
    (True, True)
    """
    return f"{max(int(clock[:20]), number + 1):020d}{clock[20:]}"


def greatest_clock(files: Iterable[DataFile]) -> int:
    """The greatest number that rows of these files have in their clocks; 0 on tables without a key."""
    greatest = ""
    for file in files:
        clocks = file.clocks
        if clocks is None:
            return 0  # all files of a table have clocks, or none has
        greatest = max(greatest, clocks[1])
    return int(greatest[:20]) if greatest else 0


def beside(live: LiveFile) -> ColumnTypes:
    """The file's own columns that hold what was set aside before it was written: no schema has them."""
    types, own = live.file.types, dict(live.columns)
    return (
        {name: kind for name, kind in types.items() if name not in own and kind != LACKING} if types else {}
    )


class Refused(Exception):
    """Why a transaction can't follow a state, in words that complete "it …"."""


def replay(state: CatalogState, transactions: Iterable[tuple[CatalogTransaction, str]]) -> CatalogState:
    """The state after `transactions`, each with its URL for messages, in order.

    Costs what the transactions change, and one look at the state, however many there are.

    Raises:
        CorruptObjectError: one doesn't follow from what is before it.
        UnsupportedError: one upgrades to a format that this version doesn't know.
    """
    work = _Work(state)
    for transaction, where in transactions:
        try:
            work.apply(transaction)
        except Refused as refused:
            raise CorruptObjectError(
                f"{where} can't follow revision {transaction.revision - 1}: it {refused}. Look at both with "
                "`firn dump OBJECT`, delete the wrong one to have it rebuilt from its data files, and run "
                f"`firn rebuild --writer {transaction.writer}`."
            ) from None
        except UnsupportedError as error:
            raise UnsupportedError(f"{where}: {error}") from None
    return work.state()


def follow(state: CatalogState, transaction: CatalogTransaction) -> CatalogState:
    """The state after one transaction; `Refused` if it can't follow. Costs what it changes, times the number of
    tables."""
    work = _Work(state, whole=False)
    work.apply(transaction)
    return work.state()


def extend(
    state: CatalogState,
    revision: int,
    actions: Iterable[Action],
    batches: Iterable[tuple[str, str]],
    head: CatalogHead,
) -> CatalogState:
    """The state with more of what one transaction does, at `head`; `Refused` if it can't follow. Costs as `follow`
    does."""
    work = _Work(state, whole=False)
    for action in actions:
        work.act(action, revision)
    work.remember(batches, revision, head.time_ms)
    work.head = head
    return work.state()


def assemble(
    state: CatalogState,
    steps: Iterable[tuple[int, Iterable[Action], Iterable[tuple[str, str]], int]],
    head: CatalogHead,
) -> CatalogState:
    """The state at `head` of which no more is known than some revisions below: each with its actions, batches and
    commit time. `Refused` if they can't follow one another."""
    work = _Work(state)
    for revision, actions, batches, time_ms in steps:
        for action in actions:
            work.act(action, revision)
        work.remember(batches, revision, time_ms)
    work.head = head
    return work.state()


class _Table:
    """A table while transactions are applied."""

    def __init__(self, table: CatalogTable) -> None:
        self.name, self.spec = table.name, table.spec
        self.schemas = dict.fromkeys(table.schemas)
        self.files = Layered.after(table.files)
        self.batches = Layered.after(table.batches)
        self.greatest, self.beside, self.inlined = table.greatest, table.beside, table.inlined

    def state(self) -> CatalogTable:
        schemas = tuple(self.schemas)
        return CatalogTable(
            self.name, self.spec, schemas, self.files, self.batches, self.greatest, self.beside, self.inlined
        )


class _Work:
    """A state while transactions are applied. Tables get a next version when they are first touched.

    With `whole` it notes first whose each file is, which pays where there are many transactions.
    """

    def __init__(self, state: CatalogState, *, whole: bool = True) -> None:
        self.before = state
        self.head, self.format = state.head, state.format
        self.tables: dict[str, CatalogTable | _Table] = dict(state.tables)
        self.owner: dict[str, str] | None = None
        if whole:
            self.owner = {path: name for name, table in state.tables.items() for path in table.files}

    def state(self) -> CatalogState:
        tables = {n: t.state() if isinstance(t, _Table) else t for n, t in self.tables.items()}
        return replace(self.before, head=self.head, format=self.format, tables=tables)

    def apply(self, transaction: CatalogTransaction) -> None:
        self._check_identity(transaction)
        for action in transaction.actions:
            self.act(action, transaction.revision)
            if self.format < ROWS_FORMAT and isinstance(action, Add) and action.file.inlined is not None:
                raise Refused(
                    f"adds the rows {action.file.path}, which a catalog of format {self.format} can't have"
                )
        if transaction.format != self.format:
            raise Refused(
                f"says format {transaction.format}, and the catalog has format {self.format} by then"
            )
        commit = transaction.commit
        time_ms = max(commit.time_ms, self.head.time_ms)
        self.remember(commit.batches, transaction.revision, time_ms)
        self.head = CatalogHead(transaction.revision, transaction.uuid, time_ms, commit.claimed)

    def remember(self, batches: Iterable[tuple[str, str]], revision: int, time_ms: int) -> None:
        self._forget_batches(time_ms - BATCH_MEMORY_MS)
        for table, batch in batches:
            known = self._table(table).batches
            if batch not in known:
                known[batch] = revision, time_ms

    def _check_identity(self, transaction: CatalogTransaction) -> None:
        state, head = self.before, self.head
        if (transaction.writer, transaction.database) != (state.writer, state.database):
            raise Refused(
                f"belongs to the database {transaction.database!r} of the writer {transaction.writer!r}, not to "
                f"{state.database!r} of {state.writer!r}"
            )
        if transaction.revision != head.revision + 1:
            raise Refused(f"has revision {transaction.revision}, not {head.revision + 1}")
        if transaction.commit.previous != head.uuid:
            raise Refused(f"names {transaction.commit.previous} as the one before it, not {head.uuid}")

    def act(self, action: Action, revision: int) -> None:
        if isinstance(action, Add):
            self._add(action, revision)
        elif isinstance(action, Remove):
            self._remove(action.path)
        elif isinstance(action, Tombstones):
            self._soft_delete(action, revision)
        elif isinstance(action, Define):
            self._define(action)
        elif isinstance(action, Drop):
            self._drop(action.table)
        elif isinstance(action, Upgrade):
            self._upgrade(action.format)
        elif isinstance(action, Resolve) and not 1 <= action.revision < revision:
            raise Refused(f"resolves revision {action.revision}, which isn't before it")

    def _table(self, name: str) -> _Table:
        table = self.tables.get(name)
        if table is None:
            raise Refused(f"names the table {name!r}, which isn't defined")
        if isinstance(table, CatalogTable):
            table = self.tables[name] = _Table(table)
        return table

    def _define(self, action: Define) -> None:
        if action.table in self.tables:
            self._table(action.table).spec = action.spec
        else:
            self.tables[action.table] = _Table(CatalogTable(action.table, action.spec))

    def _add(self, action: Add, revision: int) -> None:
        table, path = self._table(action.table), action.file.path
        if self._owner_of(path) is not None:
            raise Refused(f"adds the file {path}, which is there already")
        if self.owner is not None:
            self.owner[path] = action.table
        live = table.files[path] = LiveFile(action.file, action.columns, revision)
        table.greatest = max(table.greatest, greatest_clock([action.file]))
        table.beside = table.beside or bool(beside(live))
        table.schemas.setdefault(action.columns)
        if action.file.inlined is not None:
            table.inlined += action.file.size

    def _remove(self, path: str) -> None:
        owner = self._owner_of(path)
        if owner is None:
            raise Refused(f"removes the file {path}, which isn't there")
        if self.owner is not None:
            del self.owner[path]
        table = self._table(owner)
        if (file := table.files[path].file).inlined is not None:
            table.inlined -= file.size
        del table.files[path]

    def _owner_of(self, path: str) -> str | None:
        if self.owner is not None:
            return self.owner.get(path)
        return next((name for name, table in self.tables.items() if path in table.files), None)

    def _drop(self, name: str) -> None:
        files = self._table(name).files
        if self.owner is not None:
            for path in files:
                del self.owner[path]
        del self.tables[name]

    def _soft_delete(self, action: Tombstones, revision: int) -> None:
        table = self._table(action.table)
        if not action.predicate.strip():
            raise Refused("deletes rows by an empty predicate")
        entry = CatalogSoftDelete(action.predicate, revision)
        for path in action.files:
            found = table.files.get(path)
            if found is None:
                raise Refused(f"deletes rows of the file {path}, which isn't in the table {action.table!r}")
            table.files[path] = found._replace(deletes=(*found.deletes, entry))

    def _upgrade(self, version: int) -> None:
        if version > FORMAT:
            raise UnsupportedError(
                f"the catalog was upgraded to format {version}; this version of Firn knows {FORMAT}. Upgrade "
                "Firn to open it."
            )
        if version < self.format:
            raise Refused(f"takes the catalog back from format {self.format} to {version}")
        self.format = version

    def _forget_batches(self, before_ms: int) -> None:
        """By commit times, so that every replay forgets the same ones."""
        for name, table in list(self.tables.items()):
            oldest = next(iter(table.batches.values()), None)
            if oldest is not None and oldest[1] < before_ms:
                batches = self._table(name).batches
                old = takewhile(lambda entry: entry[1][1] < before_ms, batches.items())
                for batch in [batch for batch, _ in old]:
                    del batches[batch]
