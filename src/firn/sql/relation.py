"""A pinned table as a relation of DuckDB's: a SELECT over Parquet files and over streams of Arrow.

Files that DuckDB reads as Firn does go to `read_parquet` by name. All others, and tables that aren't files, are read
by Firn and handed over as Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from firn.arrow.types import all_columns_of, arrow_schema, conform
from firn.bucket.base import Bucket
from firn.errors import ObjectNotFoundError
from firn.journal.model import ColumnTypes, DataFile
from firn.journal.typenames import Decimal, List, Map, Scalar, Struct, Type, leaves, parse, quoted
from firn.lake.parquet.footer import corrupt, data_file, read_footer
from firn.lake.plan.read import LakeRead
from firn.lake.prune.nans import may_hold_nan
from firn.lake.prune.soft_deletes import deletes_by_name, lives, predicates
from firn.lake.read.latest import VersionGroup
from firn.predicate.predicate import Predicate
from firn.reads import TableRead

_READ_ALIKE_TEXT = """
BOOLEAN TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT HUGEINT FLOAT DOUBLE VARCHAR BLOB DATE
TIME TIMESTAMP UUID JSON
"""
_READ_ALIKE = frozenset(_READ_ALIKE_TEXT.split()) | {"TIMESTAMP WITH TIME ZONE"}
"""Scalar types whose values DuckDB reads from Firn's files as they are, under a cast to the type."""

SCHEME = "firn://"
"""The beginning of the paths of objects in a bucket."""

STREAMED_BYTES = 64 << 10
"""Smaller objects are read by Firn: DuckDB takes three times as long to open one as Firn to fetch and decode it."""

SMALL_FILES, SMALL_BYTES, SMALL_COLUMNS = 16, 1 << 20, 64
"""What is read as a whole where a query has no condition."""
SMALL_LOCAL_FILES, SMALL_LOCAL_BYTES = 64, 16 << 20
"""The same of files of this machine: DuckDB itself reads only the columns of them that it needs."""

MANY_FILES = 50
"""Files for which it pays to read one footer first."""

_WIDENING = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")


class Stream:
    """Rows that Firn reads, as Arrow: each time that DuckDB asks, it begins anew. An error of the read stays in
    `failures`, as DuckDB passes on its text alone."""

    def __init__(
        self, schema: pa.Schema, rows: Callable[[], Iterator[pa.Table]], failures: list[BaseException]
    ) -> None:
        self._schema, self._rows, self._failures = schema, rows, failures

    def __arrow_c_schema__(self) -> Any:
        with self._kept():
            return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        with self._kept():
            reader = pa.RecordBatchReader.from_batches(self._schema, self._batches())
            return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        with self._kept():
            for rows in self._rows():
                yield from rows.to_batches()

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except (Exception, KeyboardInterrupt) as error:  # not the end of a generator that nobody reads on
            self._failures.append(error)
            raise


@dataclass(frozen=True)
class BucketFile:
    """An object that DuckDB opens, and its size by the log."""

    bucket: Bucket
    key: str
    size: int

    @property
    def uri(self) -> str:
        return self.bucket.uri(self.key)

    def read(self, start: int, length: int) -> bytes:
        """1 GET. `CorruptObjectError` if the object is shorter."""
        with data_file(self.bucket, self.key):
            data = self.bucket.get_range(self.key, start, length)
            if len(data) != length:
                why = f"it has fewer than the {self.size:,} bytes that the log says"
                raise corrupt(self.bucket, self.key, why)
            return data


@dataclass
class Relation:
    """`sql` is a SELECT of the table's columns; `streams` are what it reads besides files, by name. `files` are the
    paths of this machine that DuckDB opens, `objects` those of objects in a bucket. `bytes` is about what reading all
    rows reads, and `partitioned_by` the fields by which files can be left out."""

    sql: str
    streams: dict[str, Stream] = field(default_factory=dict)
    files: list[str] = field(default_factory=list)
    objects: dict[str, BucketFile] = field(default_factory=dict)
    bytes: int = 0
    partitioned_by: tuple[str, ...] = ()


def empty_relation(columns: ColumnTypes) -> Relation:
    """No rows, all columns: what binding needs."""
    return Relation(f"SELECT {_nulls(columns)} WHERE false")


def given_relation(rows: pa.Table, name: str) -> Relation:
    """Rows that the caller gave, in the types that Firn gives them."""
    columns = all_columns_of(rows.schema)
    stream = Stream(arrow_schema(columns), lambda: iter([conform(rows, columns)]), [])
    return Relation(f"SELECT {_casts(columns)} FROM {quoted(name)}", {name: stream})


def are_small(reads: Iterable[TableRead], limit: int | None) -> bool:
    """Whether they are a few small files, of `limit` bytes at most, which DuckDB reads about as fast as one column of
    them: faster than what finds out which columns the query needs is loaded."""
    files, size, local = 0, 0, True
    for read in reads:
        if not isinstance(read, LakeRead) or read.keys is not None or len(read.known) > SMALL_COLUMNS:
            return False
        plain = [file for file in read.files if file.inlined is None]  # rows of logs are read as those of one
        files += len(plain)
        if files > SMALL_LOCAL_FILES:
            return False
        size += sum(file.size for file in read.files)
        local = local and all(read.bucket.local_path(file.path) for file in plain)
    most, largest = (SMALL_LOCAL_FILES, SMALL_LOCAL_BYTES) if local else (SMALL_FILES, SMALL_BYTES)
    return files <= most and size <= min(largest, largest if limit is None else limit)


def relation_of(
    read: TableRead, name: str, failures: list[BaseException], *, verify: bool = False
) -> Relation:
    """The rows of a read. Cost: where it isn't files of a lake table, what planning its units costs.

    Args:
        name: a prefix for the names of its streams.
        failures: gets the errors of reads that DuckDB started.
        verify: whether Firn reads all files, as DuckDB doesn't compare their footers' checksums.
    """
    found = Relation("")
    parts: list[str] = []

    def stream(rows: Callable[[], Iterator[pa.Table | pa.RecordBatch]]) -> None:
        def conformed() -> Iterator[pa.Table]:
            return (conform(part, read.columns) for part in rows())

        label = f"{name}_{len(found.streams)}"
        found.streams[label] = Stream(arrow_schema(read.columns), conformed, failures)
        parts.append(f"SELECT {_casts(read.columns)} FROM {quoted(label)}")

    if isinstance(read, LakeRead):
        files, groups = _shares(read)
        size = sum(file.size for file in files) + sum(group.bytes for group in groups)
        found.bytes = size * _width(read.columns) // max(_width(read.known), 1)
        found.partitioned_by = tuple(map(str, read.partition.fields))
        alone = replace(read, keys=None)
        rest: list[DataFile] = []
        by_deletes: dict[tuple[str, ...], list[tuple[DataFile, str]]] = {}
        for file in files:
            if file.inlined is not None:
                rest.append(file)
                continue
            deletes = _deletes(read, file)
            alike = not verify and _reads_alike(read, file, deletes)
            path = _path(read, file, name) if alike else None
            if path is not None:
                by_deletes.setdefault(file.deletes, []).append((file, path))
            else:
                rest.append(file)
        for members in by_deletes.values():
            parts.append(_parquet(read, members))
            _tell(found, read, members)
        if groups:
            stream(lambda: read.rows(groups))
        if rest:
            stream(lambda: alone.rows(rest))
    else:
        units = read.units()
        works = [unit.work for unit in units]
        found.bytes = sum(unit.weight for unit in units)
        if works:
            stream(lambda: read.rows(works))
    found.sql = " UNION ALL ".join(parts) or empty_relation(read.columns).sql
    return found


def _path(read: LakeRead, file: DataFile, name: str) -> str | None:
    """A file's path for DuckDB; None for small objects, and for those in memory."""
    local = read.bucket.local_path(file.path)
    if local is not None:
        return local
    if file.size < STREAMED_BYTES or not read.bucket.capabilities.shareable:
        return None
    return f"{SCHEME}{quote(name)}/{quote(file.path)}"


def _tell(found: Relation, read: LakeRead, members: Sequence[tuple[DataFile, str]]) -> None:
    """Add what DuckDB opens for these files."""
    for file, path in members:
        if path.startswith(SCHEME):
            found.objects[path] = BucketFile(read.bucket, file.path, file.size)
        else:
            found.files.append(path)


def _shares(read: LakeRead) -> tuple[list[DataFile], list[VersionGroup]]:
    """The files that are read each by itself, and the groups that may hold versions of one row."""
    if read.keys is None:
        return list(read.files), []
    groups = read.groups()
    plain = [file for group in groups if group.plain for file in group.files if file.path in group.shown]
    return plain, [group for group in groups if not group.plain]


def _deletes(read: LakeRead, file: DataFile) -> tuple[Predicate, ...]:
    return predicates(file.deletes, read.known, read.bucket.uri(file.path)) if file.deletes else ()


def _reads_alike(read: LakeRead, file: DataFile, deletes: Sequence[Predicate]) -> bool:
    """Whether DuckDB reads from this file what Firn does. Only files that Firn wrote: others' types aren't known."""
    if file.rows is None or read.places.directory_of(file.path) is None:
        return False
    asked = {*read.columns, *(name for one in deletes for name in one.columns)}
    if not read.spec.reads_exactly(file, asked):
        return False
    if deletes and not deletes_by_name(file.deletes, file.reads, read.known):
        return False
    stored, physical = file.types, read.spec.naming.physical
    return all(
        _alike(parse(stored.get(physical(name), read.known[name])), parse(read.known[name])) for name in asked
    )


def _alike(stored: Type, wanted: Type) -> bool:
    if isinstance(wanted, List):
        return stored == wanted and _alike(wanted.item, wanted.item)
    if isinstance(wanted, Map):
        return stored == wanted and _alike(wanted.key, wanted.key) and _alike(wanted.value, wanted.value)
    if isinstance(wanted, Struct):
        return stored == wanted and all(_alike(inner, inner) for _, inner in wanted.fields)
    if isinstance(wanted, Decimal):
        return stored == wanted
    if not isinstance(stored, Scalar) or not isinstance(wanted, Scalar):
        return False
    if stored == wanted:
        return wanted.name in _READ_ALIKE
    if stored.name in _WIDENING and wanted.name in _WIDENING:
        return _WIDENING.index(stored.name) < _WIDENING.index(wanted.name)
    return (stored.name, wanted.name) == ("FLOAT", "DOUBLE")


def _parquet(read: LakeRead, members: Sequence[tuple[DataFile, str]]) -> str:
    """Files with the same soft deletes, read by DuckDB. A column that none of them has is null."""
    deletes = _deletes(read, members[0][0])
    needed = dict(read.columns) | {
        name: read.known[name] for predicate in deletes for name in sorted(predicate.columns)
    }
    guarded = {name for file, _ in members for name in may_hold_nan(file, needed)}
    own = {name: read.spec.naming.physical(name) for name in needed}
    columns = ", ".join(
        f"CAST({_hidden(own[name], kind, name in guarded)} AS {kind}) AS {quoted(name)}"
        for name, kind in needed.items()
    )
    paths = ", ".join(_text(path) for _, path in members)
    stored = f"read_parquet([{paths}], union_by_name = true, hive_partitioning = false)"
    if _alike_by_name(read, [file for file, _ in members], needed):
        stored = f"read_parquet([{paths}], hive_partitioning = false)"
    else:
        nulls = _nulls({own[name]: kind for name, kind in needed.items()})
        stored = f"(SELECT {nulls} WHERE false UNION ALL BY NAME SELECT * FROM {stored})"
    rows = f"SELECT {columns} FROM {stored}"
    if not deletes:
        return rows
    wanted = ", ".join(quoted(name) for name in read.columns)
    living = " AND ".join(lives(predicate) for predicate in deletes)
    return f"SELECT {wanted} FROM ({rows}) WHERE {living}"


def _alike_by_name(read: LakeRead, files: Sequence[DataFile], needed: ColumnTypes) -> bool:
    """Whether many files have all of these columns, and the first one in the table's types, to which DuckDB then
    casts the others. Else it looks at each footer three times: for the view, for binding, and for the rows."""
    if len(files) < MANY_FILES or any(not file.stats.keys() >= needed.keys() for file in files):
        return False
    if read.bucket.local_path(files[0].path) is None:  # footers of objects are fetched once anyway
        return False
    try:
        stored = read_footer(read.bucket, files[0].path, files[0].size).metadata.schema.to_arrow_schema()
    except ObjectNotFoundError:  # swept: DuckDB says so, and the query looks again
        return False
    physical = read.spec.naming.physical
    return all(stored.field(physical(one.name)).type == one.type for one in arrow_schema(needed))


def _hidden(name: str, kind: str, guarded: bool) -> str:
    """The column under an expression that DuckDB doesn't see through: statistics in Parquet leave NaN out, and DuckDB
    would prune by them and answer max() from them."""
    column = quoted(name)
    if kind in ("FLOAT", "DOUBLE"):
        if guarded:
            return f"CASE WHEN isnan({column}) THEN 'nan'::{kind} ELSE {column} END"
    elif _has_floats(parse(kind)):
        return f"TRY({column})"
    return column


def _has_floats(kind: Type) -> bool:
    return any(isinstance(leaf, Scalar) and leaf.name in ("FLOAT", "DOUBLE") for leaf in leaves(kind))


def _width(columns: ColumnTypes) -> int:
    """Bytes that a row of these columns takes, more or less."""
    kinds = map(parse, columns.values())
    return sum(_WIDTHS.get(kind.name, 8) if isinstance(kind, Scalar) else 64 for kind in kinds)


_WIDTHS = {
    **dict.fromkeys(("BOOLEAN", "TINYINT", "UTINYINT"), 1),
    **dict.fromkeys(("SMALLINT", "USMALLINT"), 2),
    **dict.fromkeys(("INTEGER", "UINTEGER", "FLOAT", "DATE"), 4),
    **dict.fromkeys(("HUGEINT", "UHUGEINT", "UUID", "INTERVAL"), 16),
    **dict.fromkeys(("VARCHAR", "BLOB", "JSON"), 32),
}


def _nulls(columns: ColumnTypes) -> str:
    return ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns.items())


def _casts(columns: ColumnTypes) -> str:
    return ", ".join(f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in columns.items())


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
