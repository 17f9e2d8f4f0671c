"""Runs statements: queries, and by `changes` those that change tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.arrow.inputs import to_reader
from firn.arrow.types import arrow_schema
from firn.journal.model import ColumnTypes
from firn.predicate.parameters import plain, with_values
from firn.predicate.words import WordReader
from firn.runner import in_this_process
from firn.sql.in_process import DuckQuery
from firn.sql.limits import QueryLimits
from firn.sql.outcome import FixedRows
from firn.sql.result import BoundQuery
from firn.sql.syntax.time_travel import Parameters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firn.sql.kinds.kind import StatementTables
    from firn.sql.syntax.statements import QueryStatement

Given = Mapping[str, Any]


class Statements:
    """Runs statements on a database.

    Args:
        tables: the database.
        given: rows that statements can name besides: Arrow, pandas, polars, lists of dicts, a Spark DataFrame, a
            `Scan` or a `Result`.
        fence: whether a statement may open a keyed table's writer, and so fence another.
        session: finds or starts Spark, where queries are written in its SQL.
        limits: what each query may take of this process.
        because: who chose the engine.
    """

    def __init__(
        self,
        tables: StatementTables,
        given: Given | None = None,
        *,
        fence: bool = False,
        session: Callable[[], SparkSession] | None = None,
        limits: QueryLimits | None = None,
        because: str = "the default",
    ) -> None:
        self._tables, self._fence, self._session, self._because = tables, fence, session, because
        self._limits = limits or QueryLimits()
        self._given = {name: _rows(rows, keep=session is not None) for name, rows in (given or {}).items()}

    def run(self, text: str, parameters: Parameters = None) -> BoundQuery:
        """Bind a query, or run any other statement at once."""
        parameters = plain(parameters)
        if self._session is None and WordReader(text).peek() in ("SELECT", "FROM"):
            return self._in_process(text, parameters)  # without loading what other statements need
        return self._other(text, parameters)

    def _in_process(self, text: str, parameters: Parameters) -> DuckQuery:
        return DuckQuery(
            self._tables, text, parameters, given=self._given, limits=self._limits, because=self._because
        )

    def _other(self, text: str, parameters: Parameters) -> BoundQuery:
        from firn.sql.changes import ChangeQueries, Changes, shared_out
        from firn.sql.kinds.kind import sql_kind
        from firn.sql.syntax.statements import QueryStatement, ShowCreateTable, ShowTables
        from firn.sql.tables import opened

        statement = self._read(text)
        if isinstance(statement, QueryStatement) and self._session is not None:
            return self._on_spark(statement, parameters, self._session)
        if isinstance(statement, QueryStatement):
            query = self._in_process(statement.text, parameters)
            return _plan(query, analyze=statement.analyze) if statement.explain else query
        if isinstance(statement, ShowTables):
            names = self._tables.tables()
            return _texts({"name": names, "kind": [self._tables.table(name).kind for name in names]})
        if isinstance(statement, ShowCreateTable):
            table = opened(self._tables, statement.table)
            return _texts({"sql": [sql_kind(table.kind).created(table).text]})
        queries = ChangeQueries(self._tables, self._given, text, self._session, self._limits)
        if parameters and self._session is not None:
            text, queries.parameters = shared_out(text, parameters)
            statement = self._read(text)
        elif self._session is None and (told := with_values(text, parameters)) != text:
            statement = self._read(told)
        changes = Changes(self._tables, fence=self._fence, limits=self._limits)
        with nullcontext() if queries.on_spark else in_this_process():
            return changes.run(statement, queries).rows()

    def _read(self, text: str) -> Any:
        from firn.sql.syntax.heads import read_statement
        from firn.sql.syntax.schemas import read_plainly

        each = None
        if self._session is not None:
            from firn.sql.on_spark import spark_words

            each = spark_words(text)
        statement = read_statement(text, each)
        plain = read_plainly(text, statement, each)
        return statement if plain == text else self._read(plain)

    def _on_spark(
        self, statement: QueryStatement, parameters: Parameters, session: Callable[[], SparkSession]
    ) -> BoundQuery:
        from firn.sql.on_spark import SparkQuery

        query = SparkQuery(
            self._tables, statement.text, session(), parameters, given=self._given, because=self._because
        )
        return _texts({"plan": query.explain().splitlines()}) if statement.explain else query


def _plan(query: DuckQuery, *, analyze: bool) -> FixedRows:
    return _texts({"plan": query.explain(analyze=analyze).splitlines()})


def _texts(columns: Mapping[str, Sequence[str]]) -> FixedRows:
    kinds: ColumnTypes = dict.fromkeys(columns, "VARCHAR")
    return FixedRows(pa.table(dict(columns), arrow_schema(kinds)), kinds)


def _rows(data: Any, *, keep: bool) -> Any:
    """Rows that the caller gave, as an Arrow table; a DataFrame of Spark's stays one where `keep`."""
    if type(data).__module__.startswith("pyspark.sql"):
        if keep:
            return data
        data = data.toArrow()
    if hasattr(data, "to_arrow") and not isinstance(data, pa.Table):
        data = data.to_arrow()
    reader = to_reader(data, known={})
    return pa.Table.from_batches(reader.batches(), reader.schema)
