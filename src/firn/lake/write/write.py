"""Where Parquet files are made: rows in, named and uploaded data files out. Nobody sees them until a commit.

Memory of one call, above the interpreter's: `WriteSpec.memory_budget` of Arrow rows gathered, as much again
while they are split by partition, at most the same in encoded files that aren't closed yet, and two lumps
being uploaded (`firn.lake.write.upload`). Bloom filters add at most 6 bytes a row and column of the open files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from firn.arrow.defaults import with_defaults
from firn.arrow.texts import checked
from firn.arrow.types import arrow_schema, conform
from firn.bucket.base import Bucket
from firn.clock import SystemClock
from firn.deferred import DeferredModule
from firn.errors import InvalidInputError, SchemaConflictError
from firn.journal.model import LACKING, ColumnTypes, DataFile, Namer
from firn.journal.naming import PLAIN, Naming
from firn.lake.context import LakeContext
from firn.lake.definition.definition import LakeDefinition
from firn.lake.definition.keys import DELETED, HIDDEN, KeySpec, folded
from firn.lake.parquet.encode import AUTO, BloomColumns, Encoding, FileEncoder, bloom_columns, choose_encoding
from firn.lake.partition.partition import PartitionSpec, Values, is_told_by_path
from firn.lake.write.checks import NO_CHECKS, Checks
from firn.lake.write.sort import SortKeys, sort_keys, sorted_batches, sorted_slices
from firn.lake.write.upload import Uploader
from firn.names import fold
from firn.units import parse_size

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")

OPEN_PARTITIONS = 64
"""With more partitions than this in one gather, those with few rows get a file of their own at once."""

RECIPE = "recipe"
"""The key under which a file says how its statistics were taken, see `FileEncoder.recipe`. Frozen."""

ROW_GROUP_BYTES = 64 << 20
"""Arrow bytes of a row group at most, however few rows that is."""

Order = Literal["keep", "sort", "sorted"]

Marker = Mapping[str, Any]
"""The keys of a `DataFile`'s extra that neither its rows nor its footer tell."""

_STEP_BYTES = 32 << 20


@dataclass(frozen=True)
class WriteSpec:
    """All that a task needs to write files of a table; picklable.

    `columns` are the files' columns in order; `target_size` the Parquet bytes after which a file is closed;
    `memory_budget` the bytes of Arrow rows gathered before they are split and written; `stats_columns` how
    many columns, from the first, get statistics in the log; `bloom_filters` the columns that get Bloom filters
    as well, where their type can have them; `aside` the columns that hold what was set aside;
    values of those in `loose` are cast to their type, whatever they are; the texts of those in `texts`
    are checked to be ones of these types. `naming` says what columns are called in files, and rows that are new have
    to pass `checks`. With `keys`,
    `write_batches` makes files in which each key stands once. `replaces` and `applied` are what the
    files say of themselves, see `firn.journal.model.Namer`.
    """

    namer: Namer
    columns: ColumnTypes
    partition: PartitionSpec
    sort_by: tuple[str, ...] = ()
    target_size: int = 128 << 20
    row_group_rows: int = 131_072
    codec: str = "zstd"
    memory_budget: int = 96 << 20
    stats_columns: int = 32
    bloom_filters: BloomColumns = ()
    keys: KeySpec | None = None
    replaces: tuple[str, ...] = ()
    applied: tuple[str, ...] = ()
    aside: frozenset[str] = frozenset()
    loose: frozenset[str] = frozenset()
    naming: Naming = PLAIN
    checks: Checks = NO_CHECKS
    texts: ColumnTypes = field(default_factory=dict)

    @staticmethod
    def of(
        table: LakeContext,
        columns: ColumnTypes,
        namer: Namer,
        *,
        target_size: int | None = None,
        aside: frozenset[str] = frozenset(),
        texts: ColumnTypes | None = None,
    ) -> WriteSpec:
        """For files of a table as its properties have it."""
        d = table.definition
        budget = d.setting("memory_budget")
        given = {
            "codec": d.setting("codec"),
            "row_group_rows": None if (rows := d.setting("row_group_rows")) is None else int(rows),
            "memory_budget": None if budget is None else parse_size(budget),
        }
        return WriteSpec(
            namer=namer,
            columns=dict(columns),
            partition=d.partition,
            sort_by=d.sort_by,
            target_size=target_size or d.target_size,
            stats_columns=int(d.setting("stats_columns")),
            bloom_filters=d.bloom_filters,
            keys=d.keys,
            aside=aside,
            loose=frozenset(d.explicit),
            naming=d.naming,
            texts=texts or {},
            **{name: value for name, value in given.items() if value is not None},
        )

    def checking(self, definition: LakeDefinition, known: ColumnTypes) -> WriteSpec:
        """The same for new rows of a table that has these columns."""
        return replace(self, checks=Checks.of(definition, known)) if definition.checks else self

    @property
    def told(self) -> ColumnTypes:
        """The types that markers tell: those of columns that hold what was set aside, and of columns with a default
        that the files lack."""
        beside = {name: kind for name, kind in self.columns.items() if name in self.aside}
        own = self.naming.in_files(self.columns)
        lacking = {name: LACKING for name in sorted(self.naming.lackable) if name not in own}
        return {**self.naming.in_files(beside), **lacking}


def write_batches(
    bucket: Bucket,
    spec: WriteSpec,
    batches: Iterable[pa.RecordBatch | pa.Table],
    *,
    marker: Marker | None = None,
) -> list[DataFile]:
    """Write rows as files of their partitions, each file sorted by `spec.sort_by` if that is set.

    Few partitions fill files up to the target size; a sort order, or a partition with few rows among many,
    makes files of what one gather holds. No file is empty. Batches are cast to `spec.columns`, and may lack
    some of them. `marker` is what each file's marker has besides its partition.

    Cost: 1 PUT a file. After an error nothing is deleted: sweep does that.

    Raises:
        SchemaConflictError: a batch has values in a column that `spec.columns` doesn't know.
        InvalidInputError: a value doesn't fit its column's type, or rows have no column at all.
        CheckFailedError: a row fails one of `spec.checks`.
    """
    rows = conformed(spec, batches)
    keys = sort_keys(spec.sort_by, spec.columns)
    with _Files(bucket, spec, keys) as files:
        if spec.partition.fields or keys or spec.keys:
            _Splitter(spec, files, keys, marker or {}).run(rows)
        else:
            for group in _regrouped(rows, spec):
                files.add("", marker or {}, group)
        return files.finish()


def write_partition(
    bucket: Bucket,
    spec: WriteSpec,
    tables: Iterable[pa.Table],
    directory: str,
    marker: Marker,
    *,
    order: Order,
) -> list[DataFile]:
    """Write rows of one partition directory, whatever their values.

    `order` is `"sort"` to sort them by `spec.sort_by`, `"sorted"` where they come in that order already, and
    `"keep"` to leave them as they come. `marker` is what the new files take over from those they replace.
    Tables have the columns `spec.columns` already. Sorting
    holds `2 × memory_budget` of Arrow rows, and merges runs from local disk if there are more. No rows, no
    file.

    Cost: 1 PUT a file.
    """
    keys = [] if order == "keep" else sort_keys(spec.sort_by, spec.columns)
    if keys and order == "sort":
        tables = sorted_batches(tables, keys, budget=2 * spec.memory_budget, rows=spec.row_group_rows)
    with _Files(bucket, spec, keys) as files:
        for group in _regrouped(tables, spec):
            files.add(directory, marker, group)
        return files.finish()


def conformed(spec: WriteSpec, batches: Iterable[pa.RecordBatch | pa.Table]) -> Iterator[pa.Table]:
    """The rows under the columns to be written, with defaults, and having passed the checks; errors of
    `write_batches`."""
    known = {fold(name) for name in spec.columns}
    defaults = {name: text for name, text in spec.naming.defaults.items() if name in spec.columns}
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if fold(name) not in known and column.null_count < len(column):
                raise SchemaConflictError(
                    f"the rows have a column {name!r} ({column.type}) that isn't among those to be "
                    f"written ({', '.join(spec.columns)}): give every batch the same columns"
                )
        if batch.num_rows and not spec.columns:
            raise InvalidInputError(
                f"{batch.num_rows} rows have no value in any column, so there is nothing to store: give at "
                "least one column a value or a type"
            )
        step = max(1, batch.num_rows * _STEP_BYTES // max(1, batch.nbytes))
        for start in range(0, batch.num_rows, step):
            loose = not spec.loose.isdisjoint(spec.columns)
            given = batch.slice(start, step)
            if spec.texts:
                given = checked(pa.table(given), spec.texts, alterable=True)
            rows = conform(
                with_defaults(given, defaults, spec.columns) if defaults else given, spec.columns, loose=loose
            )
            spec.checks.ask(rows, spec.columns)
            yield rows


def _regrouped(tables: Iterable[pa.Table], spec: WriteSpec) -> Iterator[pa.Table]:
    """Small tables joined until they are worth a row group."""
    gathered: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        if table.num_rows:
            gathered.append(table)
            rows += table.num_rows
            size += table.nbytes
        if rows >= spec.row_group_rows or size >= min(ROW_GROUP_BYTES, spec.target_size):
            yield pa.concat_tables(gathered)
            gathered, rows, size = [], 0, 0
    if gathered:
        yield pa.concat_tables(gathered)


class _Splitter:
    """Gathers rows up to the memory budget and deals them out to partitions."""

    def __init__(self, spec: WriteSpec, files: _Files, keys: SortKeys, marker: Marker) -> None:
        self._spec = spec
        self._marker = marker
        self._files = files
        self._keys = keys
        self._gathered: list[pa.Table] = []

    def run(self, rows: Iterable[pa.Table]) -> None:
        size = 0
        for table in rows:
            self._gathered.append(table)
            size += table.nbytes
            if size >= self._spec.memory_budget:
                self._deal(last=False)
                size = sum(kept.nbytes for kept in self._gathered)
        self._deal(last=True)

    def _deal(self, *, last: bool) -> None:
        if not self._gathered:
            return
        table = pa.concat_tables(self._gathered)
        self._gathered = []
        if self._spec.keys is not None:
            table = folded(table, self._spec.keys)
        parts = self._spec.partition.split(table)
        del table
        self._files.choose_encoding(max((part.rows for part in parts), key=len))
        small: list[tuple[str, Marker, pa.Table]] = []
        for directory, values, rows in parts:
            marker: Marker = {**marker_for(self._spec.partition, values), **self._marker}
            if self._keys or self._spec.keys:  # of another gather, a file would hold keys twice
                for group in sorted_slices(rows, self._keys, self._files.group_rows(rows)):
                    self._files.add(directory, marker, group)
                self._files.close(directory)
            elif 2 * rows.num_rows >= self._spec.row_group_rows or rows.nbytes >= ROW_GROUP_BYTES // 2:
                self._files.add(directory, marker, rows)
            else:
                small.append((directory, marker, rows))
        many = len(parts) > OPEN_PARTITIONS
        # Few rows wait for more of their partition, as long as all that wait leave room for new rows.
        small.sort(key=lambda part: part[2].nbytes, reverse=True)
        waiting = sum(rows.nbytes for _, _, rows in small)
        for directory, marker, rows in small:
            if last or many or waiting > self._spec.memory_budget // 2:
                waiting -= rows.nbytes
                self._files.add(directory, marker, rows)
                if many:
                    self._files.close(directory)
            else:
                self._gathered.append(_copied(rows))


class _Files:
    """Files being encoded, one at most for each partition directory, and those that are done."""

    def __init__(self, bucket: Bucket, spec: WriteSpec, sorted_by: SortKeys) -> None:
        self._spec = spec
        self._sorted_by = sorted_by
        self._uploader = Uploader(bucket)
        self._encoding: Encoding | None = None
        self._open: dict[str, tuple[FileEncoder, Marker]] = {}
        self._done: list[DataFile] = []

    def __enter__(self) -> _Files:
        self._uploader.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._uploader.__exit__(*error)

    def choose_encoding(self, sample: pa.Table) -> Encoding:
        """Fixed by the first rows."""
        if self._encoding is None:
            physical = self._spec.naming.physical
            schema = arrow_schema(self._spec.naming.in_files(self._spec.columns))
            # Nobody asks for statistics or filters of hidden columns, which come last.
            shown = [field for field in schema if self._spec.keys is None or field.name not in HIDDEN]
            flat = sum(not pa.types.is_nested(field.type) for field in shown)
            stored = self._spec.naming.in_files(self._spec.columns)
            kinds = {field.name: stored[field.name] for field in shown}
            sample = self._in_files(sample)
            blooms, keys = self._spec.bloom_filters, self._spec.keys
            key = () if keys is None else keys.bound(self._spec.columns).key
            self._encoding = choose_encoding(
                sample,
                schema=schema,
                codec=self._spec.codec,
                sort_keys=[(physical(name), way) for name, way in self._sorted_by],
                stats_columns=min(self._spec.stats_columns, flat),
                first=[
                    *(physical(f.source) for f in self._spec.partition.fields),
                    *(physical(name) for name, _ in sort_keys(self._spec.sort_by, self._spec.columns)),
                    *(physical(name) for name in key),
                ],
                blooms=bloom_columns(
                    blooms if blooms == AUTO else tuple(map(physical, blooms)), kinds, sample
                ),
            )
        return self._encoding

    def _in_files(self, rows: pa.Table) -> pa.Table:
        """The rows under the names that their columns have in files."""
        if not self._spec.naming:
            return rows
        return rows.rename_columns([self._spec.naming.physical(name) for name in rows.column_names])

    def group_rows(self, rows: pa.Table) -> int:
        """Rows a row group, so that groups are alike and within their bounds."""
        count: int = rows.num_rows
        limit = min(ROW_GROUP_BYTES, self._spec.target_size)
        most: int = max(1, min(self._spec.row_group_rows, count * limit // max(1, rows.nbytes)))
        groups = max(1, -(-count // most))
        return max(1, -(-count // groups))

    def add(self, directory: str, marker: Marker, rows: pa.Table) -> None:
        """Append rows to the directory's open file, beginning a new one where it reached the target size."""
        step = self.group_rows(rows)
        for start in range(0, rows.num_rows, step):
            if directory not in self._open:
                self._open[directory] = FileEncoder(self.choose_encoding(rows), step), marker
            encoder, told = self._open[directory]
            part = rows.slice(start, step)
            encoder.write(self._in_files(part))
            if (
                self._spec.keys is not None
                and DELETED in part.column_names
                and pc.count(part.column(DELETED)).as_py()
            ):
                self._open[directory] = encoder, {**told, "key_deletes": True}
            if encoder.size >= self._spec.target_size:
                self.close(directory)
        sizes = {name: e.size for name, (e, _) in self._open.items()}
        while len(sizes) > 1 and sum(sizes.values()) > self._spec.memory_budget:
            largest = max(sizes, key=sizes.__getitem__)
            self.close(largest)
            del sizes[largest]

    def close(self, directory: str) -> None:
        """Finish the directory's open file, if there is one, and hand it over for upload."""
        if directory not in self._open:
            return
        encoder, marker = self._open.pop(directory)
        spec = self._spec
        if told := spec.told:
            marker = {**marker, "types": told}
        clocked = spec.keys is not None and "clocks" not in marker  # its commit gives it one
        metadata = spec.namer.metadata(
            directory,
            spec.naming.in_files(
                {name: kind for name, kind in spec.columns.items() if name not in spec.aside}
            ),
            extra={**marker, RECIPE: {**encoder.recipe, "number": len(self._done), "clocked": clocked}},
            replaces=spec.replaces,
            applied=spec.applied,
        )
        encoded = encoder.close(metadata)
        key = spec.namer(directory, crc=encoded.extra["crc"], filters_crc=encoded.filters_crc)
        self._uploader.add(key, encoded.data)
        extra = {**encoded.extra, **marker}
        self._done.append(DataFile(key, encoded.size, SystemClock().now_ms(), extra))

    def finish(self) -> list[DataFile]:
        """Close and upload what is left; all files of this write."""
        for directory in list(self._open):
            self.close(directory)
        self._uploader.finish()
        return self._done


def _copied(rows: pa.Table) -> pa.Table:
    """The rows in buffers of their own: a slice would keep the whole gather in memory."""
    return rows.take(pa.array(range(rows.num_rows), pa.int64()))


def marker_for(spec: PartitionSpec, values: Values) -> Marker:
    """How a file's log marker tells its partition: the spec, and the values where a hash stands for one in
    the directory."""
    marker: Marker = {"spec": spec.id} if spec.fields else {}
    return marker if is_told_by_path(values) else {**marker, "part": dict(values)}
