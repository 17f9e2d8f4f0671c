"""Queries in this process: DuckDB runs the text as it was written, over relations of the tables that it names."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa

from firn.arrow.inputs import InputRows
from firn.arrow.types import all_columns_of, arrow_schema, arrow_type, conform
from firn.concurrency.at_exit import unclosed
from firn.concurrency.forked import keep_alive
from firn.deferred import DeferredModule
from firn.errors import (
    FirnError,
    InvalidInputError,
    ObjectNotFoundError,
    SnapshotTooOldError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.model import ColumnTypes
from firn.journal.typenames import canonical, quoted
from firn.names import fold
from firn.predicate.binder import cursor
from firn.predicate.select import SCHEMAS, Select, condition, shown
from firn.reads import TableRead
from firn.sql.instance import instance, renamed, rows_of
from firn.sql.limits import QueryLimits
from firn.sql.relation import SCHEME, Relation, are_small, empty_relation, given_relation, relation_of
from firn.sql.syntax.schemas import read_query, unknown_schema
from firn.sql.syntax.time_travel import Parameters, time_travel
from firn.sql.tables import QueryTables, by_name, narrow, parsed, pin

if TYPE_CHECKING:
    import pyarrow.compute as pc
    from pyspark.sql import DataFrame, SparkSession
else:
    pc = DeferredModule("pyarrow.compute")

_OBJECT = re.compile(rf"{SCHEME}firn%3A(\d+)/([\w/%.~-]+)")

_UNKNOWN = re.compile(r'Referenced table "(.+)\.([^".]+)" not found')

RETRIES = 5
"""How often a query looks again whose files were swept before it gave a row."""


@dataclass(frozen=True)
class _Look:
    """One look at the tables: what is read of each, by the name that the query gives it, and `whole` all of them."""

    reads: Mapping[str, TableRead]
    columns: ColumnTypes
    whole: Mapping[str, TableRead]


class DuckQuery:
    """One SELECT in DuckDB's SQL, bound to one version of each table.

    Args:
        tables: the tables that it can name.
        text: one SELECT, VALUES, or a query that begins with FROM.
        parameters: values for `?` and `$1`, or by name for `$name`.
        given: rows that it can name besides, as Arrow tables.
        said: the statement that the text was made for, for messages.
        versions: the versions at which to read tables, by their names; by default the newest.
        limits: what it may take of this process.
        because: who chose the engine.

    Raises:
        InvalidInputError: see `read_query`; unknown columns, and what DuckDB says of types.
        QueryTooLargeError: it would read more, or takes more memory, than it may; when rows are asked for.
        TableNotFoundError: a table that isn't there; the message names similar ones.

    Cost: opening each table and its snapshot once.
    """

    lazy = kept = False
    outcome = None

    def __init__(
        self,
        tables: QueryTables,
        text: str,
        parameters: Parameters = None,
        *,
        given: Mapping[str, pa.Table] | None = None,
        said: str | None = None,
        versions: Mapping[str, Any] | None = None,
        limits: QueryLimits | None = None,
        because: str = "the default",
    ) -> None:
        self._tables, self._versions, self._because = tables, versions or {}, because
        self._limits = limits or QueryLimits()
        text_run, self._past, self._parameters = time_travel(text, parameters)
        self._written, self._said = text, said or (text if self._past else None)
        self._select: Select = read_query(text_run, self._said)
        self._given = by_name(given or {}, self._select.tables)
        self._now = dt.datetime.now(dt.timezone.utc)
        pinned = self._pinned()
        own = {fold(name) for read in pinned.values() for name in read.known} & SCHEMAS
        if own:
            self._select = read_query(text_run, self._said, own)
        self._look = self._new_look(pinned)

    @property
    def text(self) -> str:
        return self._select.text

    @property
    def columns(self) -> ColumnTypes:
        """The result's columns and their DuckDB types."""
        return self._look.columns

    @property
    def versions(self) -> dict[str, str]:
        """The version that each table is read at."""
        return {name: read.version for name, read in self._look.reads.items()}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the reads of tables leave out as broken, or show aside."""
        from firn.sql.explain import warnings_of  # which few queries need

        return warnings_of(self._look.whole)

    def named(self, names: Sequence[str], kinds: ColumnTypes) -> DuckQuery:
        """The same rows under other names, those in `kinds` cast to these types."""
        query = copy(self)
        query._said = self._said or self.text
        query._select = replace(self._select, text=renamed(self.text, names, kinds))
        query._look = replace(self._look, columns=query._bound(self._look.reads))
        return query

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, in batches, while DuckDB computes them.

        Raises:
            SnapshotTooOldError: files were swept meanwhile, and rows were returned already.
        """
        yield from self._run(self.text, lambda: self.columns)

    def frame(self, session: Callable[[], SparkSession]) -> DataFrame:
        """The rows, handed over to Spark."""
        from firn.spark.frames import frame_of_table

        return frame_of_table(self.table(), self.columns, session())

    def count(self) -> int:
        """How many rows the result has."""
        counting = f"SELECT count(*) AS n FROM ({self.text}\n)"
        return sum(batch.column(0)[0].as_py() for batch in self._run(counting, lambda: {"n": "BIGINT"}))

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a stream of Arrow's."""
        return pa.RecordBatchReader.from_batches(arrow_schema(self.columns), self.batches())

    def data(self) -> InputRows:
        """The rows as `append` takes them."""
        return InputRows(arrow_schema(self.columns), self.batches, False, None, None, self.columns)

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches(), arrow_schema(self.columns))

    def head(self, rows: int) -> pa.Table:
        """The first rows."""
        narrow = f"SELECT * FROM ({self.text}\n) LIMIT {rows}"
        return pa.Table.from_batches(self._run(narrow, lambda: self.columns), arrow_schema(self.columns))

    def explain(self, *, analyze: bool = False) -> str:
        """The engine, what is read of each table, and DuckDB's plan; with `analyze` it runs, and the plan says how
        long each part took."""
        from firn.sql.explain import preamble

        lines = []
        for batch in self._run(
            f"EXPLAIN {'ANALYZE ' * analyze}{self.text}",
            lambda: {"explain_key": "VARCHAR", "plan": "VARCHAR"},
            reads=analyze,
        ):
            lines += [row["plan"] for row in batch.to_pylist()]
        look = self._look
        return preamble("duckdb", self._because, look.whole, look.reads) + "\n".join(lines)

    # -- how

    def _pinned(self) -> dict[str, TableRead]:
        names = [name for name in self._select.tables if name not in self._given]
        return pin(self._tables, names, self._versions, self._past)

    def _new_look(self, pinned: Mapping[str, TableRead] | None = None) -> _Look:
        pinned = self._pinned() if pinned is None else pinned
        columns = self._bound(pinned)
        trusted = self._select.conditions
        small = not trusted and are_small(pinned.values(), self._limits.in_process)
        tree = None if small else parsed(self.text)  # to look into it would take longer than to read all
        narrowed = narrow(pinned, tree, lambda sql: condition(sql) in trusted)
        return _Look(narrowed, columns, pinned)

    def _bound(self, reads: Mapping[str, TableRead]) -> ColumnTypes:
        """Bind the query over empty tables: the result's columns. A few milliseconds."""
        for name, read in reads.items():
            if not read.known:
                raise InvalidInputError(
                    f"the table {name!r} has no columns yet: give it rows, or a schema when it is created."
                )
        with cursor() as duck:
            try:
                _define_clock(duck, self._now, self.text)
                for name, read in reads.items():
                    duck.execute(f"CREATE TEMP VIEW {quoted(name)} AS {empty_relation(read.known).sql}")
                for name, rows in self._given.items():
                    empty = empty_relation(all_columns_of(rows.schema))
                    duck.execute(f"CREATE TEMP VIEW {quoted(name)} AS {empty.sql}")
                relation = duck.sql(self.text, params=self._parameters)
                found = list(zip(relation.columns, relation.types, strict=True))
            except duckdb.Error as error:
                raise self._failure(error) from None
        names = _unique([name for name, _ in found])
        columns = {name: canonical(str(kind)) for name, (_, kind) in zip(names, found, strict=True)}
        for name, kind in columns.items():
            _check_type(self._said or self._written, name, kind)
        return columns

    def _run(self, text: str, columns: Any, *, reads: bool = True) -> Iterator[pa.RecordBatch]:
        return _Rows(self._computed(text, columns, reads))

    def _computed(self, text: str, columns: Any, reads: bool) -> Generator[pa.RecordBatch]:
        careful = False
        for left in reversed(range(RETRIES)):
            returned = False
            failures: list[BaseException] = []
            with self._instance(failures, text if reads else None, careful) as (duck, files):
                try:
                    for batch in rows_of(duck, text, self._parameters):
                        if batch.num_rows:
                            named = batch.rename_columns(list(columns()))
                            _check_unsigned(named, columns())
                            yield from conform(named, columns()).to_batches()
                            returned = True
                    return
                except (duckdb.Error, OSError, pa.ArrowException) as error:
                    if isinstance(error, duckdb.InternalException) and left and not (returned or careful):
                        careful = True
                        continue
                    lost = _lost(failures, files)
                    if lost is None:
                        raise (failures[0] if failures else self._failure(error)) from None
                    if returned or not left:
                        raise SnapshotTooOldError(
                            f"a file of the query {shown(self.text)} is gone ({lost}): the table was swept while it "
                            "was read. Run the query again, or keep old versions for longer, by the table's "
                            "tombstone_grace."
                        ) from None
            self._look_again()

    def _look_again(self) -> None:
        """Read the newest versions, after files of those that were pinned are gone."""
        before, pinned = self._look, self._pinned()
        for name, read in before.whole.items():
            if pinned[name].table_id != read.table_id:
                raise TableNotFoundError(
                    f"the table {name!r} was dropped since the query {shown(self.text)} was made, and another one "
                    "has its name by now: run the query again."
                )
        self._look = self._new_look(pinned)
        if list(self._look.columns.items()) != list(before.columns.items()):
            raise SnapshotTooOldError(
                f"files of the query {shown(self.text)} are gone, as tables were swept since, and their newest "
                "versions give it other columns: run the query again."
            )

    @contextmanager
    def _instance(
        self, failures: list[BaseException], text: str | None = None, careful: bool = False
    ) -> Iterator[tuple[Any, list[str]]]:
        """A connection of this query's own: it has the tables' relations by their names, and reaches their files. See
        `instance`, which may reach files of earlier queries, too. `text` is what reads their rows;
        `careful` as of `instance`."""
        relations: dict[str, Relation] = {
            name: relation_of(read, f"firn:{number}", failures, verify=self._limits.verify)
            for number, (name, read) in enumerate(self._look.reads.items())
        }
        if text is not None:
            self._limits.check(self._said or self.text, relations, lambda: parsed(text))
        for number, (name, rows) in enumerate(self._given.items()):
            relations[name] = given_relation(rows, f"firn:given:{number}")
        files = [path for relation in relations.values() for path in relation.files]
        objects = {path: file for relation in relations.values() for path, file in relation.objects.items()}
        with instance(self._limits, files, objects, failures, careful=careful) as duck:
            _define_clock(duck, self._now, self.text)
            for name, relation in relations.items():
                try:
                    for label, stream in relation.streams.items():
                        duck.register(label, stream)
                    duck.execute(f"CREATE TEMP VIEW {quoted(name)} AS {relation.sql}")
                except duckdb.Error as error:
                    if _lost(failures, files) is None:
                        raise (failures[0] if failures else self._failure(error)) from None
            yield duck, files

    def _failure(self, error: Exception) -> FirnError:
        if isinstance(error, duckdb.OutOfMemoryException):
            return self._limits.out_of_memory(self._said or self.text)
        if isinstance(error, (duckdb.IOException, OSError)) and self._limits.spill is not None:
            self._limits.spill.path()  # a query that spills fails when its connection is closed
        reason, _, rest = str(error).partition("\n\nLINE ")
        if self._said is not None:
            return InvalidInputError(f"the statement {shown(self._said)} fails: {reason.strip()}")
        if unknown := _UNKNOWN.search(reason):
            return unknown_schema(self._written, *unknown.groups())
        line = f" (line {rest.partition(':')[0]})" if rest else ""
        reason = _OBJECT.sub(self._uri, reason)
        return InvalidInputError(f"the query {shown(self._written)} fails: {reason.strip()}{line}")

    def _uri(self, path: re.Match[str]) -> str:
        """The name of an object that DuckDB knows by a path of `relation_of`."""
        read = list(self._look.reads.values())[int(path[1])]
        return read.bucket.uri(unquote(path[2]))


def _check_type(text: str, name: str, kind: str) -> None:
    """Refuse a type that Arrow has no like of."""
    try:
        arrow_type(kind)
    except UnsupportedError:
        named = ", or name its fields, {'a': …, 'b': …}" if "TUPLE(" in kind else ""
        raise UnsupportedError(
            f"the query {shown(text)} gives the column {name!r} the type {kind}, which results don't have: write "
            f"CAST(… AS VARCHAR){named}."
        ) from None


def _check_unsigned(rows: pa.RecordBatch, columns: ColumnTypes) -> None:
    """Arrow has no integers of 128 bits, and decimals hold half of those without a sign: DuckDB gives the others a
    sign."""
    for name, kind in columns.items():
        if kind == "UHUGEINT" and (pc.min(rows.column(name)).as_py() or 0) < 0:
            raise InvalidInputError(
                f"the column {name!r} is UHUGEINT and has a value above 2**127, which Arrow has no type for: cast it "
                "to VARCHAR in the query."
            )


class _Rows(Iterator[pa.RecordBatch]):
    """The batches of a query. If nobody reads them to the end, they are closed with the process, before the modules
    that their connection needs are gone. A forked child can't read on: it has none of DuckDB's threads."""

    def __init__(self, batches: Generator[pa.RecordBatch]) -> None:
        self._batches = batches
        unclosed.add(self)

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)

    def _close_at_exit(self) -> None:
        with suppress(ValueError):  # another thread reads it
            self._batches.close()

    def _orphaned(self) -> None:
        keep_alive(self._batches)
        self._batches = _begun_elsewhere()


def _begun_elsewhere() -> Generator[pa.RecordBatch]:
    yield from ()
    raise InvalidInputError(
        "these rows were begun in the process that this one was forked from: ask the result for its rows anew."
    )


def _unique(names: Sequence[str]) -> list[str]:
    """Columns' names; of those whose name another has before them, the name with a number.

    >>> _unique(["a", "A", "a", "a_1"])
    ['a', 'A_2', 'a_3', 'a_1']
    """
    taken, seen = {fold(name) for name in names}, set[str]()
    numbers: dict[str, Iterator[int]] = {}
    found = []
    for name in names:
        given = name
        if fold(name) in seen:
            each = numbers.setdefault(fold(name), count(1))
            given = next(other for number in each if fold(other := f"{name}_{number}") not in taken)
            taken.add(fold(given))
        seen.add(fold(name))
        found.append(given)
    return found


def _define_clock(duck: Any, now: dt.datetime, text: str) -> None:
    """Let the clock stand if the text asks it: every output of a query, and each of its parts, has one time."""
    local = f"TIMESTAMP '{now.replace(tzinfo=None).isoformat(sep=' ')}'"
    zoned, day, time = f"{local} AT TIME ZONE 'UTC'", f"CAST({local} AS DATE)", f"CAST({local} AS TIME)"
    macros = {
        **dict.fromkeys(
            ("now", "current_timestamp", "get_current_timestamp", "transaction_timestamp"), zoned
        ),
        **dict.fromkeys(("current_date", "today"), day),
        **dict.fromkeys(("localtimestamp", "current_localtimestamp"), local),
        **dict.fromkeys(("localtime", "current_localtime"), time),
    }
    said = fold(text)
    if not any(name in said for name in (*macros, "age")):
        return  # to define them would be a tenth of a small query
    made = [f"CREATE TEMP MACRO {name}() AS {value};" for name, value in macros.items()]
    made.append(f"CREATE TEMP MACRO age(x) AS system.main.age({day}, x), (x, y) AS system.main.age(x, y);")
    duck.execute("".join(made))


def _lost(failures: Sequence[BaseException], files: Sequence[str]) -> str | None:
    """The file whose absence made a query fail; None if it was something else."""
    for error in failures:
        if isinstance(error, ObjectNotFoundError):
            return str(error)
    if failures:
        return None
    return next((path for path in files if not os.path.exists(path)), None)
