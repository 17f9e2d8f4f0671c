"""`Result`: what a query gives, lazily, for every library that takes Arrow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any, Literal, Protocol, overload

import pyarrow as pa

from firn.arrow.engine import casts_of
from firn.arrow.inputs import InputRows
from firn.arrow.lazy_frames import lazy_frame
from firn.arrow.pyvalues import python_rows
from firn.arrow.types import arrow_schema
from firn.errors import ConflictError, InvalidInputError, NoSuchVerbError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.sql.outcome import Outcome

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

SHOWN_ROWS = 20


class BoundQuery(Protocol):
    """A query that is bound to versions; each method runs it anew."""

    lazy: bool
    """Whether to show it would take a cluster's work."""

    kept: bool
    """Whether its rows are in memory, and outlive the connection."""

    @property
    def outcome(self) -> Outcome | None:
        """The counts of a statement that changed a table; None for a query."""
        ...

    @property
    def columns(self) -> ColumnTypes: ...

    @property
    def versions(self) -> dict[str, str]: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...

    def frame(self, session: Callable[[], SparkSession]) -> DataFrame: ...

    def count(self) -> int: ...

    def head(self, rows: int) -> pa.Table: ...

    def explain(self) -> str: ...


class Result:
    """The result of a query. Nothing is computed before it is asked for, and each output computes it anew, at the
    same versions. Iterating gives rows as dicts.

    Outputs raise `DatabaseClosedError` once the connection is closed; the row of a statement that ran stays.

    It exports Arrow's stream, so polars, pandas and DuckDB take it as it is.

    Example:
        >>> import firn
        >>> db = firn.connect("memory://")
        >>> _ = db.create_table("flights").append([{"origin": "DTW", "delay": 66}, {"origin": "HNL", "delay": 95}])
        >>> result = db.sql("SELECT origin FROM flights WHERE delay > ?", [70])
        >>> list(result), result.count()
        ([{'origin': 'HNL'}], 1)
        >>> result
        ┌─────────┐
        │ origin  │
        │ varchar │
        ├─────────┤
        │ HNL     │
        └─────────┘
    """

    def __init__(
        self,
        query: BoundQuery,
        session: Callable[[], SparkSession],
        must_be_open: Callable[[], object] = lambda: None,
    ) -> None:
        self._query, self._session, self._must_be_open = query, session, must_be_open

    def _run(self) -> BoundQuery:
        """The query, for an output, as long as what it reads is open."""
        if not self._query.kept:
            self._must_be_open()
        return self._query

    @property
    def columns(self) -> ColumnTypes:
        """The columns and their DuckDB types."""
        return self._query.columns

    @property
    def versions(self) -> dict[str, str]:
        """The version of each table that the query reads; a record table's is the number of a commit."""
        return self._query.versions

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the answer leaves out as broken, or shows aside, a text each: what `DegradedReadWarning` says, too."""
        return self._query.warnings

    @property
    def outcome(self) -> Outcome | None:
        """The counts of a statement that changed a table; None for a query."""
        return self._query.outcome

    def schema(self) -> pa.Schema:
        """The Arrow schema of all outputs."""
        return arrow_schema(self.columns)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Record batches while the query runs; memory is bounded by what the query itself needs."""
        return self._run().batches()

    def to_arrow(self) -> pa.Table:
        """One Arrow table."""
        return pa.Table.from_batches(self.to_batches(), self.schema())

    def head(self, rows: int = SHOWN_ROWS) -> pa.Table:
        """The first rows as one Arrow table; the query ends when it has them."""
        return self._run().head(rows)

    def to_pandas(self) -> pd.DataFrame:
        """A pandas DataFrame (extra `firn[pandas]`)."""
        try:
            frame: pd.DataFrame = self.to_arrow().to_pandas()
        except (ValueError, OverflowError) as error:
            raise InvalidInputError(
                f"pandas has no value for one of the result's ({error}): cast the column to VARCHAR in the query."
            ) from None
        return frame

    @overload
    def to_polars(self, *, lazy: Literal[False] = False) -> pl.DataFrame: ...

    @overload
    def to_polars(self, *, lazy: Literal[True]) -> pl.LazyFrame: ...

    def to_polars(self, *, lazy: bool = False) -> pl.DataFrame | pl.LazyFrame:
        """A polars DataFrame (extra `firn[polars]`); with `lazy` a LazyFrame, which runs the query when it is
        collected."""
        import polars

        self._check_polars()
        if lazy:
            return lazy_frame(self.schema(), self._lazily)
        return polars.DataFrame(polars.from_arrow(self.to_arrow()))

    def _check_polars(self) -> None:
        for field in self.schema():
            if "month_day_nano_interval" in str(field.type):
                raise UnsupportedError(
                    f"the column {field.name!r} is {self.columns[field.name]}, which polars doesn't read: cast it to "
                    "VARCHAR in the query."
                )

    def _lazily(self, names: Sequence[str] | None, rows: int | None) -> Iterator[pa.RecordBatch]:
        batches = iter(self.head(rows).to_batches()) if rows is not None else self.to_batches()
        return batches if names is None else (batch.select(names) for batch in batches)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """A DuckDB relation over the rows, on `connection` or DuckDB's default one."""
        from firn.arrow.connections import relation_on

        return relation_on(connection, self.to_arrow())

    def to_spark(self) -> DataFrame:
        """A Spark DataFrame: of a query on Spark the lazy one, of one on DuckDB its rows."""
        return self._run().frame(self._session)

    def count(self) -> int:
        """How many rows there are."""
        return self._run().count()

    def explain(self) -> str:
        """Which engine runs the query and who chose it, the version of each table, of lake tables the files that are
        read and those there are, warnings, and the engine's plan."""
        return self._run().explain()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        whole = [name for name, kind in self.columns.items() if kind in ("HUGEINT", "UHUGEINT")]
        for batch in self.to_batches():
            for row in python_rows(batch):
                # Arrow has no integers of 128 bits, so these come as decimals.
                yield row | {name: int(row[name]) for name in whole if row[name] is not None}

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        if sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "polars":
            self._check_polars()  # which would panic, and name no column
        reader = pa.RecordBatchReader.from_batches(self.schema(), self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _input_rows(self) -> InputRows:
        """The rows as `append` takes them, with the types that Arrow has no name for."""
        return InputRows(self.schema(), self.to_batches, False, None, None, self.columns)

    def _dataframe(self) -> DataFrame | None:
        """Of a query on Spark its DataFrame, for statements: its rows needn't come to this process."""
        return self.to_spark() if self._query.lazy else None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NoSuchVerbError(
            f"a Result has no {name!r}: to_spark() gives a Spark DataFrame, to_arrow(), to_pandas(), to_polars() and "
            "to_duckdb() others."
        )

    def __repr__(self) -> str:
        if not self._is_shown():
            return f"<Result {', '.join(f'{name} {kind}' for name, kind in self.columns.items())}>"
        from firn.arrow.connections import connection

        with connection() as duck:
            return str(self._typed(duck, self._query.head(SHOWN_ROWS + 1))).rstrip()

    def _is_shown(self) -> bool:
        """Whether its first rows are shown: not if a cluster had to work for them, or the connection is closed."""
        with suppress(ConflictError):  # of whatever is closed
            return not self._run().lazy
        return False

    def _typed(self, duck: Any, rows: pa.Table) -> Any:
        """Rows as a relation of the result's types. DuckDB has no text for the least HUGEINT as a decimal."""
        relation = duck.from_arrow(rows)
        storable = {name: kind for name, kind in self.columns.items() if "INTERVAL" not in kind}
        casts = casts_of(rows.column_names, storable)
        return relation.project(f"* REPLACE ({casts})") if casts else relation

    def _repr_html_(self) -> str:
        """The first rows in a notebook."""
        from firn.arrow.connections import connection

        rows = self._query.head(SHOWN_ROWS + 1) if self._is_shown() else self.schema().empty_table()
        with connection() as duck:
            typed = self._typed(duck, rows.slice(0, SHOWN_ROWS))
            shown = typed.project("CAST(COLUMNS(*) AS VARCHAR)").fetchall()
        head = "".join(
            f"<th>{escape(name)}<br><small>{escape(kind)}</small></th>" for name, kind in self.columns.items()
        )
        body = "".join(
            "<tr>" + "".join(f"<td>{escape('NULL' if text is None else text)}</td>" for text in row) + "</tr>"
            for row in shown
        )
        more = "<p>…</p>" if rows.num_rows > SHOWN_ROWS else ""
        return f"<table><tr>{head}</tr>{body}</table>{more}"
