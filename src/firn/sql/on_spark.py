"""Queries on Spark: its own SQL, handed on as it was written, below common table expressions of the tables' names.

No view is left behind, and nothing outside of the query changes.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from firn.arrow.types import all_columns_of, conform
from firn.errors import InvalidInputError, TableNotFoundError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import NULL
from firn.names import fold
from firn.predicate.dialect import function_names, readable_depth
from firn.predicate.select import SCHEMAS, shown
from firn.predicate.words import Word
from firn.reads import QueryMoment, plan_read
from firn.spark.frames import frame_of_table
from firn.spark.plan import frame_of
from firn.spark.session.types import columns_of_schema, spark_schema
from firn.sql.explain import preamble, warnings_of
from firn.sql.syntax.time_travel import Parameters, without_versions
from firn.sql.tables import QueryTables, by_name, narrow, pin, table_nodes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OUTSIDE = frozenset(("reflect", "java_method", "try_reflect"))
"""Functions that reach outside of the tables."""


class SparkQuery:
    """One SELECT in Spark's SQL, bound to one version of each table.

    Args:
        tables: the tables that it can name.
        text: one SELECT, with its CTEs.
        parameters: values for `?`, or by name for `:name`: Spark's own `args`.
        given: rows that it can name besides, as Arrow tables or Spark DataFrames.
        versions: the versions at which to read tables, by their names; by default the newest.
        because: who chose the engine.

    Raises:
        InvalidInputError: text that isn't one SELECT, table functions, what Spark says of it.
        TableNotFoundError: a table that isn't there; the message names similar ones.

    Cost: opening each table and its snapshot once.
    """

    lazy = True
    kept = False
    outcome = None

    def __init__(
        self,
        tables: QueryTables,
        text: str,
        session: SparkSession,
        parameters: Parameters = None,
        *,
        given: Mapping[str, Any] | None = None,
        versions: Mapping[str, Any] | None = None,
        because: str = "the connection's session",
    ) -> None:
        value = partial(_value, session, parameters, text)
        text, past = without_versions(text, spark_words(text), "`", value)
        self.text, tree = _read(text)
        named = dict.fromkeys(node.name for node in table_nodes(tree))
        rows = by_name(given or {}, list(named))
        pinned = pin(tables, [name for name in named if name not in rows], versions, past)
        self.versions = {name: read.version for name, read in pinned.items()}
        self.warnings = warnings_of(pinned)
        narrowed = narrow(pinned, tree)
        self._about = partial(preamble, "spark", because, pinned, narrowed)
        frames = {name: frame_of(read, session) for name, read in narrowed.items()}
        for name, one in rows.items():
            is_table = isinstance(one, pa.Table)
            frames[name] = frame_of_table(one, all_columns_of(one.schema), session) if is_table else one
        self._frame = _run(session, self.text, frames, parameters)

    @property
    def columns(self) -> ColumnTypes:
        return columns_of_schema(self._frame.schema, lacking=NULL.name)

    def named(self, names: Sequence[str], kinds: ColumnTypes) -> SparkQuery:
        """The same rows under other names, those in `kinds` cast to these types."""
        from pyspark.sql.functions import col

        schema = spark_schema(kinds)
        numbered = self._frame.toDF(*(f"c{at}" for at in range(len(names))))
        query = copy(self)
        query._frame = numbered.select(
            *(
                (col(f"c{at}").cast(schema[name].dataType) if name in kinds else col(f"c{at}")).alias(name)
                for at, name in enumerate(names)
            )
        )
        return query

    def frame(self, session: Callable[[], SparkSession]) -> DataFrame:
        return self._frame

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.table().to_batches()

    def data(self) -> DataFrame:
        """The rows as `append` takes them."""
        return self._frame

    def table(self) -> pa.Table:
        """All rows, on the driver."""
        return self._table(self._frame)

    def count(self) -> int:
        return int(self._frame.count())

    def head(self, rows: int) -> pa.Table:
        return self._table(self._frame.limit(rows))

    def explain(self) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as plan:
            self._frame.explain("formatted")
        return self._about() + plan.getvalue()

    def _table(self, frame: DataFrame) -> pa.Table:
        return conform(frame.toArrow(), self.columns)


def register_views(tables: QueryTables, session: SparkSession) -> dict[str, str]:
    """See `Database.views`."""
    names = tables.tables()
    for name in names:
        alike = [other for other in names if fold(other) == fold(name)]
        if name == alike[0] and len(alike) > 1:
            warnings.warn(
                f"Spark can't tell the tables {' and '.join(map(repr, alike))} apart: its view is that of the last.",
                stacklevel=4,
            )
    moment = QueryMoment()
    found = {name: tables.table(name) for name in names}
    reads = {name: plan_read(table, moment=moment, indexed=True) for name, table in found.items()}
    for name, read in reads.items():
        if read.known:
            frame_of(read, session).createOrReplaceTempView(f"`{name}`")
    return {name: read.version for name, read in reads.items() if read.known}


def spark_words(text: str) -> list[Word]:
    """The words of a text in Spark's SQL, comments left out."""
    try:
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError:
        return []  # `_read` says what is wrong
    found = []
    for token in tokens:
        written = text[token.start : token.end + 1]
        parts = [written] if written[0] in "'\"`" else written.split()  # PRIMARY KEY is one token
        at = token.start
        for part in parts:
            at = text.index(part, at)
            found.append(Word(part, at, at + len(part)))
            at += len(part)
    return found


def _value(session: SparkSession, parameters: Parameters, text: str, expression: str) -> Any:
    """The value of an expression over no table: a parameter's as it is, for Spark would read a time by its zone."""
    named = parameters if isinstance(parameters, Mapping) else None
    words = spark_words(expression)
    if "?" in [word.text for word in words]:
        raise InvalidInputError(
            f"the query {shown(text)} asks for a version by ?: give its parameters by name, VERSION AS OF :v."
        )
    if expression[:1] == ":" and len(words) == 2:
        if named is None or words[1].text not in named:
            raise InvalidInputError(f"the query {shown(text)} has no value for its parameter {expression}.")
        return named[words[1].text]
    _read(f"SELECT {expression}")
    return _run(session, f"SELECT {expression}", {}, named).toArrow().column(0)[0].as_py()


def _read(text: str) -> tuple[str, exp.Expression]:
    """The text without what ends it, and sqlglot's tree of it: what it names, and that it only selects."""
    what = f"the query {shown(text)}"
    try:
        with readable_depth("query", text):
            tokens = sqlglot.tokenize(text, read="spark")
            ends = [token.start for token in tokens if token.token_type is TokenType.SEMICOLON]
            trees = [tree for tree in sqlglot.parse(text, read="spark") if tree is not None]
    except SqlglotError as error:
        raise InvalidInputError(f"{what} isn't SQL that Spark reads: {str(error).splitlines()[0]}") from None
    if len(trees) != 1:
        raise InvalidInputError(f"{what} holds {len(trees)} statements; write one, without ';'.")
    tree = trees[0]
    if not isinstance(tree, (exp.Query, exp.Values)):
        raise InvalidInputError(
            f"{what} isn't a SELECT of Spark's, nor another statement of sql(): docs/howto/sql.md lists them."
        )
    if plain := _without_schemas(text, tree):
        return _read(plain)
    for node in tree.walk():
        if isinstance(node, (exp.Into, exp.DML, exp.DDL, exp.Command)) and not isinstance(node, exp.Query):
            raise InvalidInputError(f"{what} does more than select: {node.sql('spark')!r}.")
        if function_names(node) & _OUTSIDE:
            raise InvalidInputError(f"{what} calls {node.sql('spark')}, which reaches outside of the tables.")
        if isinstance(node, exp.Table):
            _check_table(what, node)
    return text[: ends[0]] if ends else text, tree


def _without_schemas(text: str, tree: exp.Expression) -> str | None:
    """The text with blanks in the place of `firn.` and `main.` before tables and their columns; None without any."""
    names = {fold(node.name) for node in table_nodes(tree)}
    places = []
    for node in tree.find_all(exp.Table, exp.Column):
        schema, behind = node.args.get("db"), node.args.get("table", node.this)
        if node.args.get("catalog") or schema is None or fold(schema.name) not in SCHEMAS:
            continue
        if isinstance(node, exp.Table) or fold(behind.name) in names:
            places.append((schema.meta.get("start"), behind.meta.get("start")))
    if not places or any(at is None for place in places for at in place):
        return None
    for first, end in places:
        text = text[:first] + " " * (end - first) + text[end:]
    return text


def _check_table(what: str, node: exp.Table) -> None:
    if not isinstance(node.this, exp.Identifier):
        raise InvalidInputError(
            f"{what} reads the table function {node.this.sql('spark')}; it can read tables of the database only."
        )
    if node.args.get("db") or node.args.get("catalog"):
        raise TableNotFoundError(
            f"{what} reads {node.sql('spark', comments=False)!r}; name a table of this database, without a schema."
        )


def _run(spark: SparkSession, text: str, frames: Mapping[str, Any], parameters: Parameters) -> DataFrame:
    from pyspark.errors import AnalysisException, ParseException

    names = {f"t{number}": name for number, name in enumerate(frames)}
    if names:
        named = ", ".join(
            f"`{name.replace('`', '``')}` AS (SELECT * FROM {{{t}}})" for t, name in names.items()
        )
        quoted = text.replace("{", "{{").replace("}", "}}")
        text_run = f"WITH {named} (\n{quoted}\n)"
    else:
        text_run = text
    try:
        found: DataFrame = spark.sql(
            text_run, args=parameters or None, **{t: frames[name] for t, name in names.items()}
        )
        _ = found.schema  # Spark Connect analyses only now
    except (AnalysisException, ParseException) as error:
        reason = str(error).split("\n", 1)[0]
        raise InvalidInputError(f"Spark can't run the query {shown(text)}: {reason}") from error
    return found
