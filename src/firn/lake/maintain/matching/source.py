"""The source of a merge: computed once, and kept until the merge ends.

In memory up to 256 MB. Beyond that, and wherever tasks run in other processes, as Parquet files that no commit names:
tasks then read from the bucket what they need. Row numbers count through the files, in their order, so that all tasks
number alike.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import accumulate, chain
from types import TracebackType
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from firn.arrow.inputs import InputRows, to_reader
from firn.arrow.types import arrow_schema, conform
from firn.bucket.base import Bucket
from firn.errors import AppendExpiredError, FirnError, ObjectNotFoundError
from firn.journal.model import ColumnTypes, DataFile, Namer, StagingTicket
from firn.lake.context import LakeContext
from firn.lake.parquet.source import open_rows
from firn.lake.partition.partition import PartitionSpec
from firn.lake.read.decode import ReadSpec, picked_rows
from firn.lake.read.read import read_table
from firn.lake.read.scan import Scan
from firn.lake.write.write import WriteSpec, write_batches
from firn.names import fold

SOURCE_ROW = "~source row"
"""The column of row numbers."""

IN_MEMORY_BYTES = 256 << 20
"""A source of more Arrow bytes is staged."""


class SourcePart(NamedTuple):
    """Consecutive rows of a source, and the bytes that reading them takes."""

    first: int
    rows: int
    weight: int = 0


class MergeSource(Protocol):
    """The rows of a merge's source. Picklable; what it gives has row numbers in `SOURCE_ROW`."""

    types: ColumnTypes
    """All columns, and their DuckDB types where Arrow says less."""

    parts: Sequence[SourcePart]

    def read(self, columns: Collection[str], part: int | None = None) -> pa.Table:
        """Some columns of all rows, or of those of one part."""
        ...

    def take(self, columns: Collection[str], numbers: pa.Array | pa.ChunkedArray) -> pa.Table:
        """Some columns of the rows with these numbers, in their order."""
        ...


class SourceInMemory(MergeSource):
    """Rows at hand. Their columns have the types already."""

    def __init__(self, rows: pa.Table, types: ColumnTypes) -> None:
        self.types = types
        self.parts = (SourcePart(0, rows.num_rows),)
        self._rows = rows.append_column(SOURCE_ROW, counted(rows.num_rows))

    def read(self, columns: Collection[str], part: int | None = None) -> pa.Table:
        return self._rows.select([*columns, SOURCE_ROW])

    def take(self, columns: Collection[str], numbers: pa.Array | pa.ChunkedArray) -> pa.Table:
        return self._rows.select([*columns, SOURCE_ROW]).take(numbers)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows without their numbers."""
        return iter(self._rows.drop_columns([SOURCE_ROW]).to_batches())


class StagedSource(MergeSource):
    """Rows in Parquet files. Reading costs the GETs of `read_file`; the columns that were read last of all rows stay
    in memory, as each task of a process asks for the same.

    Raises:
        AppendExpiredError: a file is gone.
    """

    def __init__(self, bucket: Bucket, files: Sequence[DataFile], types: ColumnTypes) -> None:
        self.types = types
        starts = accumulate((file.rows or 0 for file in files), initial=0)
        self.parts = [
            SourcePart(first, file.rows or 0, file.size) for first, file in zip(starts, files, strict=False)
        ]
        self.files = files
        self._bucket = bucket
        self._last: tuple[Collection[str], pa.Table] | None = None
        self._mutex = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return StagedSource, (self._bucket, self.files, self.types)

    def read(self, columns: Collection[str], part: int | None = None) -> pa.Table:
        if part is not None:
            return self._read(columns, self.files[part : part + 1], self.parts[part].first)
        with self._mutex:
            if self._last is None or self._last[0] != columns:
                self._last = columns, self._read(columns, self.files, 0)
            return self._last[1]

    def take(self, columns: Collection[str], numbers: pa.Array | pa.ChunkedArray) -> pa.Table:
        wanted = (
            numbers.to_numpy(zero_copy_only=False) if isinstance(numbers, pa.Array) else numbers.to_numpy()
        )
        ascending = np.unique(wanted)
        spec = self._spec(columns)
        found = [arrow_schema(spec.columns).empty_table()]
        for part, file in zip(self.parts, self.files, strict=True) if columns else ():
            here = ascending[(ascending >= part.first) & (ascending < part.first + part.rows)]
            if len(here):
                picked = np.zeros(part.rows, dtype=bool)
                picked[here - part.first] = True
                with self._there(), open_rows(self._bucket, file) as source:
                    found += picked_rows(source, spec, pa.array(picked))
        if not columns:
            return pa.table({SOURCE_ROW: pa.array(wanted, pa.int64())})
        rows = pa.concat_tables(found).take(pa.array(np.searchsorted(ascending, wanted)))
        return rows.append_column(SOURCE_ROW, pa.array(wanted, pa.int64()))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows without their numbers, a part at a time."""
        for at in range(len(self.parts)):
            yield from self.read(self.types, at).drop_columns([SOURCE_ROW]).to_batches()

    def _read(self, columns: Collection[str], files: Sequence[DataFile], first: int) -> pa.Table:
        count = sum(file.rows or 0 for file in files)
        numbers = pa.array(np.arange(first, first + count, dtype=np.int64))
        if not columns:
            return pa.table({SOURCE_ROW: numbers})
        with self._there():
            rows = read_table(self._bucket, files, self._spec(columns))
        return rows.append_column(SOURCE_ROW, numbers)

    @property
    def _directory(self) -> str:
        return self.files[0].path.rpartition("/")[0]

    def _spec(self, columns: Collection[str]) -> ReadSpec:
        return ReadSpec({name: self.types[name] for name in columns})

    @contextmanager
    def _there(self) -> Iterator[None]:
        try:
            yield
        except ObjectNotFoundError as error:
            raise AppendExpiredError(
                f"rows of the source that the statement kept below {self._bucket.uri(self._directory)} are gone: "
                "somebody swept by a shorter orphans= than orphan_age. Nothing was changed; run the statement again."
            ) from error


class Staging:
    """Keeps sources as long as a statement lasts: what it has staged is deleted at the end.

    Deleting is free to fail, as sweep takes what is left: files of failed attempts and of processes that died, too.
    """

    def __init__(self, table: LakeContext, op: str) -> None:
        self._table, self._op = table, op
        self._ticket: StagingTicket | None = None
        self._files: list[DataFile] = []

    def __enter__(self) -> Staging:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._files:
            with suppress(FirnError):
                self._table.bucket.delete_many([file.path for file in self._files])

    def check_age(self) -> None:
        """`AppendExpiredError` if what was staged is as old as sweep allows: a part of it may be gone."""
        if self._ticket is not None:
            self._ticket.check_age()

    def keep(self, data: Any) -> SourceInMemory | StagedSource:
        """The rows of `data`, computed once. Spark's tasks write those of a DataFrame."""
        table, data = self._table, lazily(data)
        if table.engines.is_dataframe(data):
            if table.bucket.capabilities.shareable:
                written = table.engines.load(table, data, namer=self._namer(), staged=True)
                return self._staged(written.files, written.columns)
            data = data.toArrow()
        known = table.journal.known().columns
        given = _input_rows(data, known)
        types, kinds = given.columns, {fold(name): kind for name, kind in known.items()}
        for name in given.schema.names:
            # one of nothing but null has no type of its own, and is a column all the same
            types.setdefault(name, kinds.get(fold(name)) or given.types.get(name, "INTEGER"))
        types = {name: types[name] for name in given.schema.names}
        batches, gathered, size = given.batches(), [arrow_schema(types).empty_table()], 0
        for batch in batches:
            gathered.append(conform(batch, types))
            size += gathered[-1].nbytes
            if size > IN_MEMORY_BYTES:
                return self._written(chain(gathered, batches), types)
        return SourceInMemory(pa.concat_tables(gathered), types)

    def for_tasks(self, source: MergeSource, weight: int) -> MergeSource:
        """The source for tasks that read so many bytes: staged if they run in other processes."""
        if isinstance(source, SourceInMemory) and self._table.engines.runner(weight).distributed:
            return self._written(source.batches(), source.types)
        return source

    def _written(self, batches: Any, types: ColumnTypes) -> StagedSource:
        spec = staging_spec(self._namer(), types)
        return self._staged(write_batches(self._table.bucket, spec, batches), types)

    def _staged(self, files: Sequence[DataFile], types: ColumnTypes) -> StagedSource:
        self._files += files
        return StagedSource(self._table.bucket, files, types)

    def _namer(self) -> Namer:
        if self._ticket is None:
            self._ticket = self._table.journal.begin_staging(f"{self._op} of")
        return self._ticket.namer


def staging_spec(namer: Namer, types: ColumnTypes) -> WriteSpec:
    """For files of rows as they come, which nobody prunes."""
    return WriteSpec(namer, types, PartitionSpec(()), stats_columns=0)


def source_data(
    table: LakeContext,
    source: SourceInMemory | StagedSource,
    known: Collection[str],
    *,
    on_spark: bool,
) -> Any:
    """The rows as `append` takes them, their columns spelled as those of `known`; `on_spark`: as a DataFrame, for
    Spark's tasks."""
    spelled = {fold(name): name for name in known}
    types = {spelled.get(fold(name), name): kind for name, kind in source.types.items()}
    if on_spark and isinstance(source, StagedSource):
        from firn.journal.model import Snapshot
        from firn.lake.definition.definition import LakeDefinition

        rows = replace(table, created=LakeDefinition(table.name))
        at = Snapshot("", 0, source.types, tuple(source.files))
        return table.engines.to_spark(rows, columns=None, where=None, at=at).toDF(*types)

    def batches() -> Iterator[pa.RecordBatch]:
        return (batch.rename_columns([*types]) for batch in source.batches())

    return InputRows(arrow_schema(types), batches, True, None, None, types)


def lazily(data: Any) -> Any:
    """The rows of a query on Spark as its DataFrame, any others as they are."""
    frame = data._dataframe() if hasattr(type(data), "_dataframe") else None
    return data if frame is None else frame


def counted(rows: int) -> pa.Array:
    """The numbers of so many rows."""
    return pa.array(np.arange(rows, dtype=np.int64))


def _input_rows(data: Any, known: ColumnTypes) -> InputRows:
    if isinstance(data, Scan):  # small files are read side by side, and large ones bit by bit
        large = sum(file.size for file in data.files()) > IN_MEMORY_BYTES // 4
        batches = data.to_batches if large else (lambda: iter(data.to_arrow().to_batches()))
        return InputRows(data.schema(), batches, False, None, None, data.columns)
    if hasattr(data, "to_arrow") and not isinstance(data, pa.Table) and not hasattr(data, "_input_rows"):
        data = data.to_arrow()
    return to_reader(data, known=known)
