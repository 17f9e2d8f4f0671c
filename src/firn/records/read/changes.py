"""The change feed of a record table: what its commits have put and deleted, in their order, told by the log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Literal

import pyarrow as pa

from firn.arrow.types import arrow_schema
from firn.concurrency.aio import AsyncVerbs, awaited, each
from firn.errors import InvalidInputError, SnapshotTooOldError
from firn.journal.model import ColumnTypes
from firn.journal.sequence.history import history
from firn.records.documents.documents import ID, Documents
from firn.records.documents.tabular import row_columns, table_of
from firn.records.objects.store import RecordStore, Table
from firn.records.read.snapshot import etag_of

CHANGE_COLUMNS: ColumnTypes = {"_kind": "VARCHAR", "_seq": "BIGINT"}
"""The columns of a change beside the row's."""

BATCH_ROWS: Final = 8192
"""Changes in one Arrow batch at most."""


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a row by commit `seq`: `kind` is "put" or "delete", `body` the JSON that was put.

    A commit changes a row once, so `seq` and `id` tell a change from all others.
    """

    seq: int
    id: str
    kind: Literal["put", "delete"]
    body: bytes | None
    _documents: Documents = field(repr=False, compare=False)

    @property
    def document(self) -> dict[str, Any] | None:
        """The document that was put, made anew at each call; None for a delete."""
        return None if self.body is None else self._documents.decode(self.body, self.id)


@dataclass(frozen=True)
class RecordChanges:
    """The commits after the version `since`, up to and with `version`. Nothing is read before it is asked for.

    It can be iterated over again and again, and gives the same each time, as long as the log has it.
    """

    since: str
    version: str
    _store: RecordStore = field(repr=False, compare=False)
    _table: Table = field(repr=False, compare=False)

    def __iter__(self) -> Iterator[Change]:
        """Each change, in the order of commits. See `RecordTable.changes` for errors and cost."""
        return changes(self._store, self._table, int(self.since), int(self.version))

    @property
    def columns(self) -> ColumnTypes:
        """Those of `to_batches`, with their DuckDB types."""
        return change_columns(self._table.documents)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """`_id`, the declared columns or else `document`, then `_kind` ("put" or "delete") and `_seq`, the commit."""
        told, columns = iter(self), self.columns
        while piece := list(islice(told, BATCH_ROWS)):
            yield from change_table(piece, self._table.documents, columns).to_batches()

    def to_arrow(self) -> pa.Table:
        """All of it as one Arrow table."""
        return pa.Table.from_batches(self.to_batches(), arrow_schema(self.columns))


class AsyncChanges(AsyncVerbs[RecordChanges]):
    """See `RecordChanges`. `async for` gives each change."""

    @property
    def since(self) -> str:
        return self.sync.since

    @property
    def version(self) -> str:
        """For `since`, to go on."""
        return self.sync.version

    @property
    def columns(self) -> ColumnTypes:
        """Those of `to_batches`, with their DuckDB types."""
        return self.sync.columns

    def __aiter__(self) -> AsyncIterator[Change]:
        return each(self._threads, lambda: self.sync, BATCH_ROWS)

    def to_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Arrow batches: `_id`, the declared columns or else `document`, `_kind` and `_seq`."""
        return each(self._threads, self.sync.to_batches, 1)

    to_arrow = awaited(RecordChanges.to_arrow)


def change_columns(documents: Documents) -> ColumnTypes:
    """The columns of a table's changes.

    Raises:
        InvalidInputError: the table declares one of theirs.
    """
    own = row_columns(documents)
    if taken := own.keys() & CHANGE_COLUMNS.keys():
        raise InvalidInputError(
            f"{documents.table} has a column {min(taken)!r}, in which changes tell something else: iterate over "
            "them, or rename it."
        )
    return {**own, **CHANGE_COLUMNS}


def change_table(told: Sequence[Change], documents: Documents, columns: ColumnTypes) -> pa.Table:
    """Some columns of changes."""
    own: dict[str, Sequence[Any]] = {
        ID: [change.id for change in told],
        "_kind": [change.kind for change in told],
        "_seq": [change.seq for change in told],
        "_etag": [etag_of(documents.table, change.id, change.seq) for change in told if "_etag" in columns],
    }
    return table_of(columns, own, [change.body for change in told], documents)


def since_version(store: RecordStore, name: str, since: Any = None, upto: Any = None) -> RecordChanges:
    """The puts and deletes, commit by commit, from the log: iterable, and with `to_arrow()`.

    Nothing is left out and nothing told twice: who goes on with `since=changes.version` hears of every commit. As
    long as the log reaches back: a sweep packs old commits, and deletes packs that are older than its `orphans`.

    Args:
        since: a version, which is the number of a commit: of earlier changes, or what `Transaction.commit`
            returned; None for when the table was created.
        upto: where to end, a version; None for now.

    Raises:
        SnapshotTooOldError: what was committed then is swept, or was of another table of the name. Read the table
            as it is, and its changes from there.
        InvalidInputError: what is no version.

    Cost: that of beginning a transaction; then 1 GET a commit that this process doesn't remember, 1 for the
    horizon; of packed ones 1 LIST and 1 GET a thousand; 1 GET a large document.

    Example:
        >>> import firn
        >>> people = firn.connect("memory://").create_table("people", kind="records")
        >>> _ = people.insert("ada", {"born": 1815})
        >>> version = people.changes().version
        >>> _ = people.upsert("ada", {"born": 1815, "city": "London"})
        >>> people.delete("ada")
        >>> [(change.kind, change.id, change.document) for change in people.changes(since=version)]
        [('put', 'ada', {'born': 1815, 'city': 'London'}), ('delete', 'ada', None)]
    """
    table, begin, end = bounds(store, name, since, upto)
    return RecordChanges(str(begin), str(end), store, table)


def bounds(store: RecordStore, name: str, since: Any = None, upto: Any = None) -> tuple[Table, int, int]:
    """A table as it is now, and the commits between which its changes are asked for: by default from its creation on,
    and up to now. As `SequenceLog.refresh`.

    Raises:
        InvalidInputError: what isn't the number of a commit, or an end before the beginning.
        SnapshotTooOldError: the table is younger than `since`.
        TableNotFoundError: it was dropped.
    """
    head = store.log.refresh()
    table = store.table(name, head.catalog)
    end = head.number if upto is None else commit_number(upto, "upto")
    begin = table.state.since if since is None else commit_number(since, "since")
    if end > head.number:
        raise InvalidInputError(f"upto={upto!r}: the last commit is {head.number}.")
    if begin < table.state.since:
        raise SnapshotTooOldError(
            f"{name} was created by commit {table.state.since}, and rows of commit {begin} were another table's of "
            "its name, which was dropped. Read the table as it is now, and its changes from there; since=None gives "
            "all that there are."
        )
    if end < begin:
        raise InvalidInputError(f"upto is commit {end}, which is before {begin}, where the changes begin.")
    return table, begin, end


def changes(store: RecordStore, table: Table, after: int, upto: int) -> Iterator[Change]:
    """The changes of the commits in (after, upto], of which `upto` is known to exist, in the order of commits.

    As `history`; 1 GET a large document.

    Raises:
        SnapshotTooOldError: commits were swept, or a large document with its version of the row.
    """
    for record in history(store.log, max(after, table.state.since), upto):
        for write in record.writes:
            if write.table == table.name:
                body = None if write.deletes else store.body(write)
                kind: Literal["put", "delete"] = "delete" if write.deletes else "put"
                yield Change(record.number, write.id, kind, body, table.documents)


def commit_number(given: Any, what: str) -> int:
    """A version: the number of a commit, as text or an int.

    >>> commit_number("7", "since")
    7
    """
    if isinstance(given, str) and given.isascii() and given.isdigit():
        return int(given)
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    raise InvalidInputError(
        f"{what}={given!r}: a version of a record table is the number of a commit, like '17'. The log knows no "
        "times: note a version (`changes().version`, or what `commit` returned) when you need one."
    )
