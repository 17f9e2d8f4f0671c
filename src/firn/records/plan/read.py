"""Reads of a record table: its rows at one commit. A table of single rows gives each row as of its read.

The planner lists the objects of rows and hands their names to tasks, which GET them, many at once. Rows whose last
change may not be in their objects yet go along with the plan. Predicates over `_id` leave out names; where they name
the ids, nothing is listed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from firn.arrow.engine import filter_table
from firn.bucket.base import Bucket, ObjectInfo
from firn.concurrency.prefetch import ahead
from firn.errors import InvalidInputError, SnapshotTooOldError
from firn.journal.model import ColumnTypes
from firn.predicate.predicate import Predicate
from firn.reads import QueryMoment, ReadPlanner, TableRead, Unit, spelled
from firn.records.documents.documents import ID
from firn.records.documents.tabular import indexed_columns, row_columns, table_of
from firn.records.names.layout import SUFFIX
from firn.records.names.names import part_text
from firn.records.plan.narrowed import NarrowedRead, ids_of
from firn.records.plan.transaction_read import TransactionRead, TransactionTable
from firn.records.read.bulk import Found, LoneRows, ManyRows, Place, TableAt, Write, snapshot_at
from firn.records.row_tables import RowTable

if TYPE_CHECKING:
    from firn.records.table import RecordTable

T = TypeVar("T")

ASKED_FOR: ColumnTypes = {"_etag": "VARCHAR", "_seq": "BIGINT"}
"""Columns that a read has only if it is asked for them by name."""

UNIT_ROWS: Final = 2000
UNIT_BYTES: Final = 32 << 20
UNITS: Final = 64
"""A unit has no more rows and bytes than that, and of a smaller table there are about so many."""

LEAST_ROWS: Final = 250
"""Fewer rows in a unit would buy nothing: a task that reads them takes no longer than it takes to begin one."""

UNAPPLIED_BYTES: Final = 8 << 20
"""Up to so many bytes of documents that aren't in their rows' objects yet go with the plan. If there are more, tasks
read the commits."""

ROW_WEIGHT: Final = 64 << 10
"""The weight of a row besides its bytes: its GET."""


@dataclass(frozen=True)
class PackedNames:
    """A unit: the names of rows, in a row and compressed, as a plan may hold a million, and how many bytes their
    objects had. Picklable."""

    packed: bytes
    rows: int
    bytes: int

    @staticmethod
    def of(names: Sequence[str], size: int) -> PackedNames:
        return PackedNames(zlib.compress("\n".join(names).encode(), 1), len(names), size)

    def unpacked(self) -> list[str]:
        return zlib.decompress(self.packed).decode().split("\n")


@dataclass(frozen=True)
class Writes:
    """A unit: rows as the log has them. Picklable."""

    writes: tuple[Write, ...]


@dataclass(frozen=True)
class LogPlaces:
    """A unit: where rows are in the log. Picklable."""

    places: tuple[Place, ...]


@dataclass(frozen=True)
class RecordsRead(NarrowedRead):
    """A record table at a version, and what of each row is wanted.

    `fields` are columns that the user named of documents without declared columns; `asked` those of `ASKED_FOR`.
    """

    source: ManyRows
    version: str
    asked: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(
        table: RecordTable | RowTable,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        at: Any = None,
        moment: QueryMoment | None = None,
        fields: ColumnTypes | None = None,
        indexed: bool = False,
    ) -> RecordsRead:
        """Pin a snapshot. As beginning a transaction; 1 GET more for one of the past whose record isn't in memory.

        Args:
            moment: for tables that are to be read at one snapshot.
            fields: columns that the reader wants to see, with their types: fields of documents, if the table has no
                declared columns.
            indexed: whether indexed fields are columns, if the table has no declared ones.

        Raises:
            InvalidInputError: `at` isn't the number of a commit, or the table has no versions.
            SnapshotTooOldError: the log doesn't reach back to it.
            TableNotFoundError: the table wasn't there then.
        """
        if isinstance(table, RowTable):
            if at is not None:
                raise InvalidInputError(
                    f"{table.name} has isolation='row': its rows have no versions that at={at!r} could name."
                )
            layout = table.definition.layout(table.prefix)
            documents, version = table.latest.now().documents, ""
            own: tuple[str, ...] = ()
            source: ManyRows = LoneRows(table.bucket, layout)
        else:
            store = table.session.store
            if at is None and moment is not None:
                snapshot = moment.of(store, lambda: snapshot_at(store))
            else:
                snapshot = snapshot_at(store, at)
            opened = snapshot.table(table.name)
            source, documents, version = TableAt.of(snapshot, opened), opened.documents, str(snapshot.number)
            own = indexed_columns(documents, opened.state.fields) if indexed else ()
        known = dict(row_columns(documents, own))
        hidden = {n: kind for n, kind in ASKED_FOR.items() if n not in known and (version or n != "_seq")}
        wanted = dict(fields or {})
        loose = {} if documents.columns is not None else wanted
        loose = {name: kind for name, kind in loose.items() if name not in {**known, **hidden}}
        known |= loose
        names = spelled(table.name, {**known, **hidden}, columns) if columns is not None else tuple(known)
        asked = tuple(name for name in hidden if name in names or name in wanted)
        if columns is None:
            names += asked
        read = RecordsRead(
            source, version, asked, tuple(loose.items()), documents=documents, names=names, indexed=own
        )
        return read if where is None else read.where(where)

    @property
    def bucket(self) -> Bucket:
        return self.source.bucket

    @property
    def table_id(self) -> str:
        return str(self.source.layout.generation)

    @property
    def known(self) -> ColumnTypes:
        asked = {name: ASKED_FOR[name] for name in self.asked}
        return {**row_columns(self.documents, self.indexed), **dict(self.fields), **asked}

    @property
    def asked_for(self) -> set[str]:
        """The columns that are wanted, or that the predicate has."""
        inside = Predicate.parse(self.sql, self.known).columns if self.sql is not None else frozenset[str]()
        return {*self.names, *inside}

    # -- planning

    def units(self) -> list[Unit]:
        """The rows, each in one unit. 1 LIST sequence and 1 GET, neither where predicates name the ids.

        Raises:
            TableNotFoundError: the table was dropped since it was pinned.
        """
        ids = ids_of(self.about_ids)
        lately = self.source.lately()
        kept = set(self._matching([write.id for _, write in lately]))
        lately = sorted((write for write in lately if write[1].id in kept), key=lambda write: write[0])
        if ids.points is None:
            listed = [(info.key, info.size) for info in self._left(self.source.listed(ids.name_prefix))]
        else:
            listed = [(key, 0) for key in self.source.keys(self._matching(list(filter(None, ids.points))))]
        return [*_lately_units(lately), *self._listed_units(listed)]

    def _left(self, listed: Sequence[ObjectInfo]) -> list[ObjectInfo]:
        """The objects whose rows may be wanted; those whose names don't tell their ids may."""
        if not self.about_ids:
            return list(listed)
        ids = [_id_of(self.source.layout.row_name(info.key)) for info in listed]
        kept = set(self._matching([id for id in ids if id is not None]))
        return [info for info, id in zip(listed, ids, strict=True) if id is None or id in kept]

    def _matching(self, ids: Sequence[str]) -> list[str]:
        rows = pa.table({ID: pa.array(ids, pa.string())})
        for predicate in self.about_ids if ids else ():
            rows = filter_table(rows, predicate.sql)
        matching: list[str] = rows.column(ID).to_pylist()
        return matching

    def _listed_units(self, listed: Sequence[tuple[str, int]]) -> list[Unit]:
        prefix, suffix = len(self.source.layout.rows), len(SUFFIX)
        most = min(UNIT_ROWS, max(LEAST_ROWS, len(listed) // UNITS))
        return [
            Unit(
                PackedNames.of([key[prefix:-suffix] for key, _ in piece], sum(size for _, size in piece)),
                _weight(size for _, size in piece),
            )
            for piece in _pieces(listed, [size for _, size in listed], most)
        ]

    def for_tasks(self) -> RecordsRead:
        return replace(self, source=self.source.lean())

    # -- in tasks

    def rows(self, works: Sequence[Any]) -> Iterator[pa.Table]:
        """1 GET a row, many at once, and 1 a large document; the next unit's while one is handed over. 1 GET more
        where a row isn't there, as `ManyRows.read`."""
        for found in ahead(map(self._found, _joined(works)), depth=1):
            rows = self._table(found)
            if self.sql is not None:
                rows = filter_table(rows, self.sql, types=self.known)
            if rows.num_rows:
                yield rows

    def _found(self, work: Sequence[PackedNames] | LogPlaces | Writes) -> list[Found]:
        try:
            if isinstance(work, Writes):
                return self.source.read_lately(work.writes)
            if isinstance(work, LogPlaces):
                return self.source.read_lately(self.source.again(work.places))
            names = (name for unit in work for name in unit.unpacked())
            return self.source.read([self.source.layout.row_named(name) for name in names])
        except SnapshotTooOldError as error:
            raise SnapshotTooOldError(
                f"{self.table} can't be read at commit {self.version} any more: a row's version was swept since this "
                f"DataFrame was made ({error}). Make it again, or keep old versions for longer, by {self.kept_by}."
            ) from error

    def _table(self, found: Sequence[Found]) -> pa.Table:
        wanted = self.asked_for
        columns = {name: kind for name, kind in self.known.items() if name in wanted}
        own: dict[str, Sequence[Any]] = {ID: [row.id for row in found]}
        if "_seq" in self.asked:
            own["_seq"] = [row.seq for row in found]
        if "_etag" in self.asked:
            own["_etag"] = [row.etag(self.table) for row in found]
        return table_of(columns, own, [row.body for row in found], self.documents)


def _id_of(name: str | None) -> str | None:
    """The id that a row's name tells, if it does."""
    try:
        return None if name is None else part_text(name)
    except UnicodeDecodeError:
        return None


def _lately_units(writes: Sequence[Write]) -> list[Unit]:
    sizes = [len(write.body or b"") for _, write in writes]
    told = sum(sizes) > UNAPPLIED_BYTES
    return [
        Unit(
            LogPlaces(tuple((seq, write.id) for seq, write in piece)) if told else Writes(tuple(piece)),
            _weight(len(write.body or b"") for _, write in piece),
        )
        for piece in _pieces(writes, sizes, UNIT_ROWS)
    ]


def _joined(works: Iterable[Any]) -> Iterator[Any]:
    """Units of names together, as many as one may be: requests don't wait for the last of a few."""
    joined: list[PackedNames] = []
    for work in works:
        if not isinstance(work, PackedNames):
            yield work
            continue
        rows, size = (
            sum(values) for values in zip(*((n.rows, n.bytes) for n in (*joined, work)), strict=True)
        )
        if joined and (rows > UNIT_ROWS or size > UNIT_BYTES):
            yield joined
            joined = []
        joined.append(work)
    if joined:
        yield joined


def _weight(sizes: Iterable[int]) -> int:
    return sum(size + ROW_WEIGHT for size in sizes)


def _pieces(items: Sequence[T], sizes: Sequence[int], most: int) -> Iterator[Sequence[T]]:
    """Consecutive pieces of at most `most` items, and of `UNIT_BYTES` unless one item is larger."""
    start = total = 0
    for at, size in enumerate(sizes):
        if at > start and (at - start == most or total + size > UNIT_BYTES):
            yield items[start:at]
            start, total = at, 0
        total += size
    if items:
        yield items[start:]


def _planned(
    table: RecordTable | RowTable | TransactionTable,
    *,
    columns: Sequence[str] | None,
    where: str | None,
    at: Any,
    moment: QueryMoment | None,
    fields: ColumnTypes | None,
    indexed: bool,
) -> TableRead:
    if isinstance(table, TransactionTable):
        if at is not None:
            raise InvalidInputError(
                f"{table.name} is read at its transaction's snapshot, {table.transaction.snapshot}, and at no other."
            )
        return TransactionRead.of(table, columns=columns, where=where, indexed=indexed)
    return RecordsRead.of(
        table, columns=columns, where=where, at=at, moment=moment, fields=fields, indexed=indexed
    )


PART: ReadPlanner = _planned
