"""`SqlKind`: what statements ask of a kind of table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, ClassVar, Literal, Protocol, cast

import pyarrow as pa

from firn.alter import AlterResult
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.kinds import part_of
from firn.lake.maintain.matching.clauses import MergeClause
from firn.names import fold
from firn.predicate.select import shown
from firn.sql.in_process import DuckQuery
from firn.sql.outcome import Outcome
from firn.sql.syntax.schemas import tables_in
from firn.sql.syntax.statements import CreateTable, Insert, Merge


class StatementTables(Protocol):
    """The tables that statements make and change; `firn.Database` is one."""

    def table(self, name: str) -> Any: ...

    def tables(self) -> list[str]: ...

    @property
    def create_table(self) -> Callable[..., Any]: ...

    def drop_table(self, name: str) -> Any: ...

    def transact(self, work: Callable[[Any], Any]) -> Any: ...


class SourceRows(Protocol):
    """The rows of a statement's query, in whichever engine's SQL it is."""

    @property
    def columns(self) -> ColumnTypes: ...

    def named(self, names: Sequence[str], kinds: ColumnTypes) -> SourceRows:
        """The same rows under other names, those in `kinds` cast to these types."""
        ...

    def table(self) -> pa.Table: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...

    def data(self) -> Any:
        """The rows as `append` takes them."""
        ...


class Queries(Protocol):
    """Binds queries; `versions` are those at which they read tables, by name, where they are given."""

    on_spark: bool
    """Whether the statement's queries are in Spark's SQL."""

    def on_duckdb(
        self, text: str, versions: Mapping[str, str] | None, given: Mapping[str, pa.Table]
    ) -> DuckQuery:
        """A query in DuckDB's SQL that can name the tables `given`, too."""
        ...

    def source(self, text: str, versions: Mapping[str, str] | None) -> SourceRows:
        """A query in the SQL of the engine that the statement runs on."""
        ...

    def outline(self) -> str:
        """The statement without its values."""
        ...


class Target:
    """The table that a statement changes, and the queries that it makes.

    `columns` are those whose types values are cast to, `places` all as queries have them, in the order of values
    without names.
    """

    def __init__(
        self,
        tables: StatementTables,
        table: Any,
        columns: ColumnTypes,
        queries: Queries,
        *,
        said: str,
        fence: bool,
        places: ColumnTypes,
    ) -> None:
        self.tables, self.table, self.columns, self._queries = tables, table, columns, queries
        self.said, self.fence = said, fence
        self.places = places
        self.closed = sql_kind(table.kind).is_closed(table)
        self._given: dict[str, pa.Table] = {}

    def query(self, text: str) -> DuckQuery:
        """A query in DuckDB's SQL."""
        return self._queries.on_duckdb(text, None, self._given)

    def source(self, text: str, versions: Mapping[str, str] | None = None) -> SourceRows:
        """A query in the SQL of the engine that the statement runs on."""
        return self._queries.source(text, versions)

    def is_read_by(self, text: str) -> bool:
        """Whether a source may read the table itself."""
        if self._queries.on_spark:
            return True  # nobody has looked into it yet
        return fold(self.table.name) in map(fold, tables_in(text))

    def outline(self) -> str:
        """The statement without its values, for the log."""
        return self._queries.outline()

    def rows_on_duckdb(self, rows: SourceRows) -> str:
        """The text of a query in DuckDB's SQL for these rows."""
        if isinstance(rows, DuckQuery):
            return rows.text
        self._given[_SOURCE] = rows.table()
        return _GIVEN

    def source_on_duckdb(self, text: str) -> str:
        """The text in DuckDB's SQL for a source in the statement's."""
        on_duckdb = text == _GIVEN or not self._queries.on_spark
        return text if on_duckdb else self.rows_on_duckdb(self.source(text))

    def column(self, name: str) -> str:
        """A column's name as the table spells it."""
        for column in self.places:
            if fold(column) == fold(name):
                return column
        if not self.closed:
            return name
        raise InvalidInputError(
            f"the statement {shown(self.said)}: {self.table.name} has no column {name!r}; its columns are "
            f"{', '.join(self.columns)}."
        )


_SOURCE = "firn source rows"
_GIVEN = f'FROM "{_SOURCE}"'
"""A query in DuckDB's SQL for rows that another engine computed."""


TransactionVerb = Literal["begin", "writer_transaction"]


class SqlKind(ABC):
    """One kind of table in SQL."""

    title: ClassVar[str]

    def is_closed(self, table: Any) -> bool:
        """Whether rows have the table's columns and no others."""
        return True

    def untyped(self, read: Any) -> Sequence[str]:
        """The columns of a read to whose types no value is cast."""
        return ()

    def is_whole(self, target: Target, rows: SourceRows) -> bool:
        """Whether rows have each value of a row twice, in a column of its own and in one of all."""
        return False

    def transaction(self, table: Any) -> TransactionVerb | None:
        """The verb of a database that begins transactions over such a table."""
        return None

    def inside(self, table: Any, transaction: Any) -> Any:
        """The table as a transaction over record tables sees it."""
        return table

    def checks(self, table: Any) -> Collection[str]:
        """The names of the checks that the table has."""
        return ()

    def alter(self, table: Any, changes: Mapping[str, Any], *, fence: bool) -> AlterResult:
        """Change the table's definition: `changes` are arguments of its verb `alter`.

        Raises:
            UnsupportedError: the verb of this kind of table has no such argument.
        """
        known = signature(table.alter).parameters
        for keyword in changes:
            if keyword not in known:
                there = ", ".join(words for name, words in ALTERATIONS.items() if name in known)
                raise UnsupportedError(
                    f"{table.name} is a {self.title} table, for which there is no {ALTERATIONS[keyword]}; there is "
                    f"{there}."
                )
        fenced = {"fence": fence} if "fence" in known else {}
        result: AlterResult = table.alter(**changes, **fenced)
        return result

    @abstractmethod
    def options(self, statement: CreateTable, options: Mapping[str, Any]) -> dict[str, Any]:
        """What `Database.create_table` is told. `options` are those of WITH, less the properties."""

    @abstractmethod
    def created(self, table: Any) -> CreateTable:
        """The statement that makes such a table."""

    @abstractmethod
    def insert(self, target: Target, rows: SourceRows, statement: Insert) -> Outcome:
        """Insert rows whose columns have the table's names and, as far as it has any, types."""

    @abstractmethod
    def change(self, target: Target, merge: Merge) -> Outcome:
        """Run an UPDATE, DELETE or MERGE."""

    def overwrite(self, target: Target, rows: SourceRows, statement: Insert) -> Outcome:
        """Put rows in place of all, of their partitions, or of those that a predicate finds."""
        raise UnsupportedError(
            f"the statement {shown(target.said)}: {target.table.name} is a {self.title} table, whose rows are "
            "replaced one by one: write INSERT … ON CONFLICT DO UPDATE, or TRUNCATE before it."
        )


ALTERATIONS = {
    "rename": "RENAME COLUMN a TO b",
    "drop": "DROP COLUMN c",
    "add": "ADD COLUMN c TYPE",
    "types": "ALTER COLUMN c TYPE t",
    "comments": "COMMENT ON COLUMN t.c",
    "comment": "COMMENT ON TABLE t",
    "set_properties": "SET (property = value)",
    "partition_by": "SET PARTITIONED BY (…)",
    "sort_by": "SET SORTED BY (…)",
    "checks": "ADD CONSTRAINT name CHECK (…)",
}
"""How statements say the arguments of `alter`."""


def placed(target: Target, clause: MergeClause) -> MergeClause:
    """The clause, its values by the columns that they are for where the statement names none."""
    if clause.values is None or not all(name.isdigit() for name in clause.values):
        return clause
    if len(clause.values) != len(target.places):
        raise InvalidInputError(
            f"the statement {shown(target.said)}: {len(clause.values)} values for {target.table.name}, which has the "
            f"columns {', '.join(target.places)}."
        )
    return replace(clause, values=dict(zip(target.places, clause.values.values(), strict=True)))


def sql_kind(kind: str) -> SqlKind:
    return cast("SqlKind", part_of(kind, "sql"))


def refuse_lake_clauses(statement: CreateTable, kind: str) -> None:
    """Refuse the clauses that only lake tables have."""
    for name, value in (("PARTITIONED BY", statement.partition_by), ("SORTED BY", statement.sort_by)):
        if value:
            raise InvalidInputError(
                f"{statement.table}: {name} is for lake tables; this one is to be {kind!r}."
            )
