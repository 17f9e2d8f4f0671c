"""Scan: one snapshot of a table, some of its columns, the rows of a predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from firn.arrow.lazy_frames import lazy_frame
from firn.arrow.types import arrow_schema
from firn.degraded import warn_degraded
from firn.errors import (
    InvalidInputError,
    ObjectNotFoundError,
    SchemaConflictError,
    SnapshotTooOldError,
    UnsupportedError,
)
from firn.journal.model import ColumnTypes, DataFile, Snapshot
from firn.lake.context import LakeContext
from firn.lake.prune.prune import Pruner
from firn.lake.prune.soft_deletes import predicates
from firn.lake.read.decode import ReadSpec
from firn.lake.read.latest import (
    LatestSpec,
    VersionGroup,
    count_latest,
    plan_groups,
    read_groups,
    read_latest,
)
from firn.lake.read.placed import parts_of, placed
from firn.lake.read.read import count_rows, read_file, read_table, united
from firn.predicate.predicate import Predicate
from firn.units import size_text

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa


RETRIES = 5

Answer = TypeVar("Answer")


class Scan:
    """A lazy read. The snapshot is pinned at the first look, and all that one scan returns comes from it.

    A scan of the table as it is now (no `at`) whose files were swept meanwhile looks again, as long as it
    has returned nothing; later, and for an `at`, that is a `SnapshotTooOldError`.
    """

    def __init__(
        self,
        table: LakeContext,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        at: Any = None,
        limit: int | None = None,
        snapshot: Snapshot | None = None,
    ) -> None:
        if limit is not None and limit < 0:
            raise InvalidInputError(f"limit={limit!r}: give a number of rows, or None for all.")
        self.table = table
        self.at = at
        self.limit = limit
        self._requested = None if columns is None else tuple(columns)
        self._where = where
        self._snapshot = snapshot
        if snapshot is not None:
            self.table = table.at(snapshot)
        self._pinned = snapshot is not None

    def __repr__(self) -> str:
        given = {"columns": self._requested, "where": self._where, "at": self.at, "limit": self.limit}
        asked = "".join(
            f" {name}={list(value) if name == 'columns' else value!r}"
            for name, value in given.items()
            if value is not None
        )
        return f"<Scan of {self.table.name}{asked}>"

    def _repr_html_(self) -> str:
        """The scan in a notebook: its columns, and the files that it would read. It reads only the snapshot."""
        shown = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(kind)}</td></tr>" for name, kind in self.columns.items()
        )
        files = self.files()
        read = (
            f"{len(files):,} of {len(self.snapshot.files):,} files, {size_text(sum(f.size for f in files))}"
        )
        head = "<tr><th>column</th><th>type</th></tr>"
        return f"<p>{escape(repr(self)[1:-1])}: {read}</p><table>{head}{shown}</table>"

    @property
    def snapshot(self) -> Snapshot:
        """The pinned snapshot."""
        if self._snapshot is None:
            found = self.table.journal.snapshot(self.at)
            if found.refusal is not None and self.at is None:
                raise SchemaConflictError(f"{self.table.name}: {found.refusal}")
            self._snapshot = found
            self.table = self.table.at(found)
            for conflict in found.conflicts:
                warn_degraded(self.table.bucket.uri(self.table.prefix), str(conflict))
        return self._snapshot

    @cached_property
    def columns(self) -> ColumnTypes:
        """Output columns and their types, in the order asked for."""
        known = self.snapshot.columns
        if self._requested is None:
            return known
        chosen: dict[str, str] = {}
        for name in self._requested:
            found = self.table.column_of(name, known)
            if found in chosen:
                raise InvalidInputError(f"the column {found!r} is asked for twice.")
            chosen[found] = known[found]
        return chosen

    @cached_property
    def predicate(self) -> Predicate | None:
        if self._where is None:
            return None
        return self.table.predicate(self._where, self.snapshot.columns)

    @cached_property
    def pruner(self) -> Pruner | None:
        if self.predicate is None:
            return None
        return Pruner(self.predicate, self.snapshot.columns, self.table.partition_spec)

    def files(self) -> list[DataFile]:
        """The live files that may hold a matching row, by partition, statistics and Bloom filters. No request
        but the snapshot's. If the table has a key, also the files that may hold a newer version of such a row."""
        snapshot = self.snapshot
        if self.table.keys is not None:
            return [file for group in self.groups() for file in group.files]
        if self.pruner is None:
            return list(snapshot.files)
        return [f for f in self.snapshot.files if self.pruner.may_match(f)]

    def groups(self) -> list[VersionGroup]:
        """The files to be read, those that may share keys together. For tables with a key."""
        assert self.table.keys is not None
        return plan_groups(
            self.placed_files,
            places=self.table.places,
            keys=self.table.keys,
            predicate=self.predicate,
            columns=self.snapshot.columns,
            spec=self.table.partition_spec,
            naming=self.snapshot.naming,
        )

    @cached_property
    def placed_files(self) -> tuple[DataFile, ...]:
        """The snapshot's files, and the rows of logs as files of their partitions."""
        snapshot = self.snapshot
        return placed(self.table, snapshot).files

    def latest_spec(self) -> LatestSpec:
        """The spec by which a task reads one group of this scan; picklable."""
        spec = self.read_spec()
        assert self.table.keys is not None
        return LatestSpec(self.table.keys, spec)

    def uris(self, *, physical: bool = False) -> list[str]:
        """Full names of the files that may hold a matching row, for another engine to read: the snapshot's
        export. The rows of a predicate still have to be picked there; columns unite by name. If the table
        has a key, the files hold versions and deletions until they are merged, and columns that Firn hides.

        Args:
            physical: also where columns are called otherwise in files; `definition()` tells how.

        Raises:
            UnsupportedError: some rows stand in logs still. Or some of the files have soft deletes, which other
                engines don't know, values that are set aside, or columns that are called otherwise there, or that
                they lack though they have a default.

        Example:
            >>> import duckdb, firn, tempfile
            >>> t = firn.connect(tempfile.mkdtemp()).create_table("t")
            >>> _ = t.append([{"a": 1}]), t.append([{"a": 2, "b": "y"}])
            >>> files = t.scan().uris()
            >>> duckdb.read_parquet(files, union_by_name=True).order("a").fetchall()
            [(1, None), (2, 'y')]
        """
        files = self.files()
        if waiting := [f for f in files if f.inlined is not None]:
            others = not all(self.table.journal.owns(f.path) for f in waiting)
            each = ", each writer its own" if others else ""
            raise UnsupportedError(
                f"{self.table.name}: {sum(f.rows or 0 for f in waiting):,} rows of {_logs_of(waiting):,} commits are "
                "still in the log, where other engines don't find them. Call merge(only='inlined') first, which "
                f"writes them into files{each}; or read through Firn."
            )
        marked = [f for f in files if f.deletes]
        if marked:
            raise UnsupportedError(
                f"{len(marked)} of the {len(files)} files of {self.table.name} hold rows that were deleted softly, "
                f"and another engine would show them; the first is {self.table.bucket.uri(marked[0].path)}. "
                "Call merge() first, or read through Firn."
            )
        odd = [f for f in files if not set(f.odd if physical else f.reads).isdisjoint(self.columns)]
        if odd:
            raise UnsupportedError(
                f"{len(odd)} of the {len(files)} files of {self.table.name} have columns that Firn reads under "
                f"another name or type, and another engine wouldn't; the first is "
                f"{self.table.bucket.uri(odd[0].path)}. Call merge() first, or read through Firn."
            )
        return [self.table.bucket.uri(f.path) for f in files]

    def read_spec(self) -> ReadSpec:
        """The spec by which a task reads one file of this scan; picklable."""
        where = self.predicate.sql if self.predicate is not None else None
        return ReadSpec.of(self.snapshot, columns=self.columns, where=where)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches, file by file; memory is bounded by a few batches."""
        if self.limit is None:
            yield from self._to_batches()
            return
        left = self.limit
        for batch in self._to_batches() if left else ():
            yield batch.slice(0, left)
            left -= batch.num_rows
            if left <= 0:
                return

    def _to_batches(self) -> Iterator[pa.RecordBatch]:
        bucket, returned = self.table.bucket, False
        parts: list[Iterator[pa.Table]]
        if self.table.keys is None:
            spec = self.read_spec()
            parts = [read_file(bucket, file, spec) for file in united(self.files())]
        else:
            latest = self.latest_spec()
            parts = [read_latest(bucket, group, latest) for group in self.groups()]
        for part in parts:
            try:
                for rows in part:
                    returned = True
                    yield from rows.to_batches()
            except ObjectNotFoundError as error:
                if self._is_lost(error):
                    raise
                if returned or not self._look_again():
                    raise self._vanished(error) from error
                yield from self._to_batches()
                return

    def to_arrow(self) -> pa.Table:
        """One Arrow table, files read in parallel.

        Cost: the snapshot's requests, and 1 GET a small file, or a few ranged GETs a large one.

        Example:
            >>> import firn
            >>> t = firn.connect("memory://").create_table("t")
            >>> _ = t.append([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
            >>> t.scan(columns=["b"], where="a > 1").to_arrow().to_pylist()
            [{'b': 'y'}]
        """
        return self._settled(self._to_arrow)

    def _to_arrow(self) -> pa.Table:
        if self.limit is not None:
            import pyarrow as pa

            return pa.Table.from_batches(self.to_batches(), self.schema())
        if self.table.keys is not None:
            return read_groups(self.table.bucket, self.groups(), self.latest_spec())
        return read_table(self.table.bucket, self.files(), self.read_spec())

    def _settled(self, read: Callable[[], Answer]) -> Answer:
        """The answer of `read`, on a fresh snapshot if files of the first one were swept meanwhile."""
        for left in reversed(range(RETRIES)):
            try:
                return read()
            except ObjectNotFoundError as error:
                if self._is_lost(error):
                    raise
                if not left or not self._look_again():
                    raise self._vanished(error) from error
        raise AssertionError("unreachable")

    def _is_lost(self, error: ObjectNotFoundError) -> bool:
        """Whether the missing file is live now, so that it wasn't sweep that deleted it."""
        if self.at is not None:
            return False
        return any(self.table.bucket.uri(f.path) in str(error) for f in self.table.journal.snapshot().files)

    def _look_again(self) -> bool:
        if self.at is not None or self._pinned:
            return False
        self._snapshot = None
        for name in ("columns", "predicate", "pruner", "placed_files"):
            self.__dict__.pop(name, None)
        return True

    def _vanished(self, error: ObjectNotFoundError) -> SnapshotTooOldError:
        return SnapshotTooOldError(
            f"a file of {self.table.name}, version {self.snapshot.version}, is gone ({error}): sweep deleted it "
            "while it was read, or somebody outside Firn did. Read a newer version, or keep old ones "
            "for longer, by the table's tombstone_grace or, of writers' catalogs, by prune's older_than."
        )

    def to_pandas(self) -> pd.DataFrame:
        """A pandas DataFrame (extra `firn[pandas]`)."""
        _installed("pandas")
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> pl.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...

    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """A polars DataFrame (extra `firn[polars]`).

        Args:
            lazy: a LazyFrame instead. It reads when it is collected, at this scan's snapshot, and only the columns
                and as many rows as its query needs. Its filters leave out no file: give the scan a `where`.

        Example:
            >>> import firn
            >>> t = firn.connect("memory://").create_table("t")
            >>> _ = t.append([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
            >>> t.scan(where="a > 1").to_polars(lazy=True).select("b").collect().to_dicts()
            [{'b': 'y'}]
        """
        _installed("polars")
        import polars

        if lazy:
            return lazy_frame(self.schema(), self._lazily)
        return polars.DataFrame(polars.from_arrow(self.to_arrow()))

    def _lazily(self, names: Sequence[str] | None, rows: int | None) -> Iterator[pa.RecordBatch]:
        limits = [limit for limit in (self.limit, rows) if limit is not None]
        return Scan(
            self.table,
            columns=list(self.columns) if names is None else names,
            where=self._where,
            at=self.at,
            limit=min(limits, default=None),
            snapshot=self.snapshot,
        ).to_batches()

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """A DuckDB relation over the rows, on `connection` or DuckDB's default one."""
        from firn.arrow.connections import relation_on

        return relation_on(connection, self.to_arrow())

    def to_spark(self) -> Any:
        """A Spark DataFrame: read by Spark's own Parquet reader where it can, else by tasks."""
        frame = self.table.engines.to_spark(
            self.table, columns=self._requested, where=self._where, at=self.snapshot
        )
        return frame if self.limit is None else frame.limit(self.limit)

    def count(self) -> int:
        """How many rows match. From metadata alone without a predicate; with one, only files that match in
        part are read. Files with soft deletes are read too, in the columns of these. If the table has a key, the keys
        of files that aren't merged yet are read."""
        found = self._settled(self._count)
        return found if self.limit is None else min(found, self.limit)

    def _count(self) -> int:
        if self.table.keys is None:
            return self._count_files(self.files())
        counted, plain = 0, []
        spec = LatestSpec(self.table.keys, self._counting_spec())
        for group in self.groups():
            if group.plain:
                plain += [f for f in group.files if f.path in group.shown]
            else:
                counted += count_latest(self.table.bucket, group, spec)
        return counted + self._count_files(plain)

    def _count_files(self, files: Sequence[DataFile]) -> int:
        certain: list[DataFile] = []
        partial: list[DataFile] = []
        for file in files:
            matches = self.pruner is None or self.pruner.certainly_all(file)
            (certain if matches and not file.deletes else partial).append(file)
        untold = [f for f in certain if f.rows is None]
        with ThreadPoolExecutor(16) as pool:
            footers = pool.map(lambda f: count_rows(self.table.bucket, f), untold)
            told = sum(footers) + sum(f.rows or 0 for f in certain)
        if not partial:
            return told
        return told + int(read_table(self.table.bucket, partial, self._counting_spec(partial[0])).num_rows)

    def _counting_spec(self, file: DataFile | None = None) -> ReadSpec:
        """The spec that reads only the columns which tell whether a row counts: the predicate's, or those of the soft
        deletes of `file`."""
        known = self.snapshot.columns
        if self.predicate is not None:
            names, where = self.predicate.columns, self.predicate.sql
        else:
            deletes = () if file is None else file.deletes
            uri = "" if file is None else self.table.bucket.uri(file.path)
            names, where = frozenset().union(*(p.columns for p in predicates(deletes, known, uri))), None
        columns = {c: known[c] for c in names} or dict(list(known.items())[:1])
        return ReadSpec.of(self.snapshot, columns=columns, where=where)

    def schema(self) -> pa.Schema:
        """The Arrow schema of what this scan returns."""
        return arrow_schema(self.columns)

    def explain(self) -> str:
        """Describe for a person what the scan reads: version, columns, predicate, files kept and pruned."""
        told = self.files()
        kept = [f for f in told if f.inlined is None]
        inlined = [f for f in told if f.inlined is not None]
        everything = [f for f in self.snapshot.files if f.inlined is None]
        size = sum(f.size for f in kept)
        total = sum(f.size for f in everything)
        lines = [
            f"Scan of {self.table.name} at version {self.snapshot.version}",
            f"  columns    {', '.join(self.columns) or '(none yet)'}",
            f"  where      {self.predicate.sql if self.predicate is not None else '(all rows)'}",
            *([] if self.limit is None else [f"  limit      {self.limit:,} rows, the first that are read"]),
            f"  files      {len(kept)} of {len(everything)}, {size:,} of {total:,} bytes",
        ]
        if inlined:
            rows = sum(f.rows or 0 for f in inlined)
            lines.append(f"  inlined    {rows:,} rows in {_logs_of(inlined):,} commits")
        lines += [f"  warning    {text}" for text in self.snapshot.warnings]
        for f in kept[:10]:
            marks = f", {len(f.deletes)} soft deletes" if f.deletes else ""
            lines.append(f"    {f.path}  {f.size:,} bytes, {f.rows} rows{marks}")
        if len(kept) > 10:
            lines.append(f"    … and {len(kept) - 10} more")
        return "\n".join(lines)


def _logs_of(files: Sequence[DataFile]) -> int:
    """How many logs these rows stand in."""
    return len({path for file in files for path in parts_of(file)})


def _installed(library: str) -> None:
    """Say which extra is missing, before anything is read."""
    if find_spec(library) is None:
        raise UnsupportedError(f"{library} isn't installed: pip install 'firn[{library}]'")
