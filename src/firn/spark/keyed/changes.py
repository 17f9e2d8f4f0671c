"""Reads of a keyed table's changes by Spark, for streams and for reads with the option `changes`.

With `changes` each put, delete and merge operand of every commit is a row, told apart by `_kind` and ordered by
`_seq`. A stream without it gives the newest value of each key that a batch's commits have put; deletes aren't seen.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.arrow.engine import filter_table
from firn.bucket.base import Bucket
from firn.concurrency.parallel import in_flight
from firn.errors import CorruptObjectError, InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.journal.position import BEGINNING
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.encoding.entries import PUT
from firn.keyed.maintain.key_shares import BlockMap, KeyRange, cut
from firn.keyed.merge.order import first_of_each
from firn.keyed.merge.run_buffers import pieces
from firn.keyed.plan.columns import KeyedColumns, public_rows
from firn.keyed.plan.read import KeyedRead
from firn.keyed.plan.units import SHARE_BYTES
from firn.keyed.read.changes import (
    ChangeFile,
    Changes,
    change_batches,
    change_entries,
    change_reader,
    changes,
    last_seq,
)
from firn.predicate.predicate import Predicate
from firn.reads import Unit, spelled

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable
    from firn.spark.session.options import SourceOptions

CHANGE_COLUMNS: ColumnTypes = {
    "_kind": "VARCHAR",
    "_seq": "BIGINT",
    "_expire_at": "TIMESTAMP WITH TIME ZONE",
}
"""The columns of a change beside key and value."""

_PIECE_ROWS = 65_536


@dataclass(frozen=True)
class MergedUnit:
    """A range of keys, and the files that may hold changes of them, oldest first. Picklable."""

    range: KeyRange
    files: tuple[ChangeFile, ...]


def newest_by_seq(entries: pa.Table, now_ms: int) -> pa.Table:
    """The put with the greatest `seq` of each key; nothing where that is a delete, or has expired.

    The order of files doesn't tell which is newer, as that of runs does: loaded files may come late.

    >>> types = {"key": pa.binary(), "seq": pa.int64(), "kind": pa.int8(), "expire_at": pa.int64()}
    >>> schema = pa.schema(list(types.items()))
    >>> rows = [(b"a", 1, 0, None), (b"b", 2, 0, None), (b"a", 3, 0, None), (b"b", 4, 1, None), (b"c", 5, 0, 7)]
    >>> entries = pa.Table.from_pylist([dict(zip(schema.names, row)) for row in rows], schema)
    >>> newest_by_seq(entries, 7).select(["key", "seq"]).to_pylist()
    [{'key': b'a', 'seq': 3}]
    """
    order = pc.sort_indices(entries, [("key", "ascending"), ("seq", "descending")])
    ordered = entries.take(order).combine_chunks()
    keys = ordered.column("key").combine_chunks() if ordered.num_rows else pa.array([], pa.binary())
    ordered = ordered.filter(pa.array(first_of_each(keys)))
    alive = pc.or_kleene(pc.is_null(ordered["expire_at"]), pc.greater(ordered["expire_at"], now_ms))
    return ordered.filter(pc.and_kleene(pc.equal(ordered["kind"], PUT), alive))


@dataclass(frozen=True)
class ChangesRead(KeyedColumns):
    """The files that hold a table's changes between two versions, oldest first.

    `told`: each change is a row. Else each key that was put is one, with its newest value, and tasks merge ranges of
    keys.
    """

    bucket: Bucket
    definition: KeyedDefinition
    version: str
    files: tuple[ChangeFile, ...]
    names: tuple[str, ...]
    now_ms: int
    told: bool = True
    sql: str | None = None

    kind = "keyed"
    kept_by = "the table's l0_min_age"

    @staticmethod
    def of(
        table: KeyedTable,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        since: str | None = None,
        upto: str | None = None,
    ) -> ChangesRead:
        """Every change between two versions. Cost: that of `KeyedTable.changes`, without reading them."""
        found = changes(table, since, upto)
        read = ChangesRead(
            table.bucket, found.definition, found.version, found.files, (), table.clock.now_ms()
        )
        read = read.select(spelled(read.table, read.known, columns))
        return read if where is None else read.where(where)

    @cached_property
    def known(self) -> ColumnTypes:
        own = {**self.key_columns, **self.value_columns}
        return {**own, **CHANGE_COLUMNS} if self.told else own

    def select(self, names: Sequence[str]) -> ChangesRead:
        return replace(self, names=tuple(names))

    def where(self, sql: str) -> ChangesRead:
        parsed = Predicate.parse(sql, self.known).sql
        return replace(self, sql=parsed if self.sql is None else f"({self.sql}) AND ({parsed})")

    def pruned(self, predicates: Sequence[Predicate]) -> ChangesRead:
        return self

    def scope(self) -> Hashable:
        return self.files

    def units(self) -> list[Unit]:
        """The units that tasks read. Where much is to be merged, 1 ranged GET a file, many at once."""
        if self.told:
            return [Unit((file,), file.bytes) for file in self.files]
        total = sum(file.bytes for file in self.files)
        if total <= SHARE_BYTES:
            return [Unit(MergedUnit(KeyRange(), self.files), total)] if self.files else []
        indices = in_flight(lambda file: change_reader(self.bucket, self.definition, file).index, self.files)
        found = []
        for share in cut(map(BlockMap.of, indices), SHARE_BYTES):
            files = tuple(
                file
                for file, index in zip(self.files, indices, strict=True)
                if share.overlaps(index.min_key, index.max_key)
            )
            found.append(Unit(MergedUnit(KeyRange(share.start, share.end), files), share.weight))
        return found

    def for_tasks(self) -> ChangesRead:
        return replace(self, files=())

    def rows(self, works: Sequence[Any]) -> Iterator[pa.Table]:
        for work in works:
            for rows in self._newest(work) if isinstance(work, MergedUnit) else self._told(work):
                if self.sql is not None:
                    rows = filter_table(rows, self.sql, types=self.known)
                if rows.num_rows:
                    yield rows

    def _told(self, files: Sequence[ChangeFile]) -> Iterator[pa.Table]:
        for file in files:
            for batch in change_batches(self.bucket, self.definition, file):
                yield pa.Table.from_batches([batch])

    def _newest(self, unit: MergedUnit) -> Iterator[pa.Table]:
        start, end = unit.range.start, unit.range.end
        runs = [
            change_entries(self.bucket, self.definition, file, start, end) for file in reversed(unit.files)
        ]
        for piece in pieces(runs, rows=_PIECE_ROWS):
            batch = newest_by_seq(
                pa.Table.from_batches([batch for run in piece for batch in run]), self.now_ms
            )
            if batch.num_rows:
                yield public_rows(batch, self.keys, self.known)


class KeyedFollower:
    """A keyed table's changes, flush by flush. An offset is a version of the table."""

    def __init__(self, table: KeyedTable, plan: KeyedRead | ChangesRead) -> None:
        if isinstance(plan, KeyedRead) and table.definition.merge_operator is not None:
            raise UnsupportedError(
                f"{table.name} has a merge operator, and an operand alone is no row: read its changes as they are, "
                'with .option("changes", "true").'
            )
        self.table = table
        self.plan = plan

    def beginning(self, options: SourceOptions) -> dict[str, Any]:
        if options.starting_time is not None:
            raise InvalidInputError(
                f'startingTime is for lake tables; {self.table.name} is keyed: give .option("since", VERSION).'
            )
        return dict(BEGINNING) if options.since is None else _offset(options.since)

    def target(self) -> str:
        return changes(self.table).version

    def advance(self, start: dict[str, Any], most: int | None, target: str | None) -> dict[str, Any]:
        begun = _version(start)
        if begun is None:
            return _offset(target or changes(self.table).version)
        found: Changes = changes(self.table, begun, target)
        if not found.files:
            return start
        return _offset((found if most is None else found.first(most)).version)

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> KeyedRead | ChangesRead | None:
        begun, ended = _version(start), _version(end)
        if ended is None:
            return None
        plan = self.plan
        if isinstance(plan, KeyedRead) and begun is None:
            # The version's own view may be compacted when a batch is repeated; later changes come again later.
            upto = last_seq(self.table, ended)
            return KeyedRead.of(
                self.table, columns=plan.names, where=plan.sql, upto_seq=upto, seen_as=plan.definition
            )
        read = ChangesRead.of(self.table, since=begun, upto=ended)
        definition = read.definition.seen_as(plan.definition)  # a query keeps the columns that it began with
        told = isinstance(plan, ChangesRead)
        return replace(read, definition=definition, names=plan.names, sql=plan.sql, told=told)


def _offset(version: str) -> dict[str, Any]:
    return {"firn": 1, "version": version}


def _version(offset: dict[str, Any]) -> str | None:
    """The version in an offset; None for the beginning."""
    if offset == BEGINNING:
        return None
    version = offset.get("version")
    if not isinstance(version, str):
        raise CorruptObjectError(
            f"{offset!r} in the stream's checkpoint is not a place in a keyed table: it was written for another "
            "table, or is damaged. Begin with a new checkpoint."
        )
    return version
