"""DuckDB inside tasks: queries and filters over Arrow tables at hand, and over nothing else.

A query comes from a user and runs in whoever's process the task is in. It may read the tables that the call passes
in, and nothing else; see `firn.arrow.connections`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from firn.arrow.connections import MEMORY, connection
from firn.arrow.types import arrow_type, conform, duckdb_name
from firn.deferred import DeferredModule
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import canonical, quoted
from firn.names import fold

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")


_IN_ARROW = " in arrow"


def run_query(
    sql: str,
    tables: Mapping[str, pa.Table | pa.RecordBatchReader],
    *,
    memory: int = MEMORY,
    what: str | None = None,
    types: ColumnTypes | None = None,
) -> pa.Table:
    """The result of one SELECT over `tables`, by name. Errors call it `what`, where nobody wrote its text. `types`
    are those of the tables' columns, as far as they have others than Arrow's.

    A `RecordBatchReader` is streamed where the query mentions it once, and read into memory first where it
    mentions it more often. Column types are the ones `firn.arrow.types.arrow_type` gives for DuckDB's
    (`sum` of integers is HUGEINT, so `decimal128(38, 0)`); an empty result has them too. Rows stand in the
    order of the input unless the query orders or regroups them.

    Raises `InvalidInputError` with DuckDB's message for a query that isn't one SELECT, reads something else
    than `tables`, fails, or needs more than `memory` bytes; an error raised by a reader comes out as it is.
    Costs about 2 ms besides the work, no requests.

    >>> run_query("SELECT sum(x) AS total FROM t", {"t": pa.table({"x": [1, 2]})}).to_pylist()
    [{'total': Decimal('3')}]
    """
    failures: list[BaseException] = []
    with connection(memory) as duck:
        try:
            _check_select(duck, sql)
            for name, table in tables.items():
                rows = _scannable(name, table, sql, failures)
                casts = casts_of(rows.schema.names, types or {})
                duck.register(name + _IN_ARROW if casts else name, rows)
                if casts:
                    typed = f"SELECT * REPLACE ({casts}) FROM {quoted(name + _IN_ARROW)}"
                    duck.execute(f"CREATE TEMP VIEW {quoted(name)} AS {typed}")
            relation = duck.sql(sql)
            columns = _result_columns(relation, sql)
            return conform(relation.to_arrow_table(), columns)
        except duckdb.Error as error:
            if failures:
                raise failures[0] from None
            raise _failure(error, what or f"the query {sql!r}") from None
        finally:
            for name, table in tables.items():
                if casts_of(table.schema.names, types or {}):
                    duck.execute(f"DROP VIEW IF EXISTS {quoted(name)}")
                    duck.unregister(name + _IN_ARROW)
                else:
                    duck.unregister(name)


def filter_table(
    table: pa.Table,
    predicate_sql: str,
    *,
    types: ColumnTypes | None = None,
    negate: bool = False,
    memory: int = MEMORY,
) -> pa.Table:
    """The rows for which a predicate is true, or with `negate` those for which it is false or null.

    `types` are those of the columns, as far as they have others than Arrow's. Keeps the order of the rows and the
    Arrow types of all columns as they are. Raises `InvalidInputError` with DuckDB's message for a predicate that
    isn't one expression over the table's columns. Costs about 1 ms besides the work, no requests.

    >>> filter_table(pa.table({"x": [1, None, 3]}), "x > 1", negate=True)["x"].to_pylist()
    [1, None]
    """
    mask = row_mask(table, predicate_sql, types=types, negate=negate, memory=memory)
    kept = pc.sum(mask).as_py() or 0
    return table if kept == table.num_rows else table.filter(mask)


def row_mask(
    table: pa.Table,
    predicate_sql: str,
    *,
    types: ColumnTypes | None = None,
    negate: bool = False,
    memory: int = MEMORY,
) -> pa.ChunkedArray:
    """For each row whether a predicate is true, or with `negate` whether it is false or null; no nulls.

    Errors and cost as for `filter_table`.

    >>> row_mask(pa.table({"x": [1, None, 3]}), "x > 1").to_pylist()
    [False, False, True]
    """
    truth = "IS NOT TRUE" if negate else "IS TRUE"
    with connection(memory) as duck:
        try:
            rows = duck.from_arrow(table)
            if casts := casts_of(table.column_names, types or {}):
                rows = rows.project(f"* REPLACE ({casts})")
            relation = rows.project(f"(\n{predicate_sql}\n) {truth} AS keep")
            mask = relation.to_arrow_table()
        except duckdb.Error as error:
            raise _failure(error, f"the predicate {predicate_sql!r}") from None
    if mask.num_columns != 1 or mask.num_rows != table.num_rows:
        raise InvalidInputError(
            f"the predicate {predicate_sql!r} isn't one condition on each row: write something like x > 1"
        )
    return mask.column(0)


def casts_of(names: Sequence[str], types: ColumnTypes) -> str:
    """Casts of the columns that have another type than Arrow's: a HUGEINT is a decimal there, whose `//` rounds."""
    less = [name for name in names if name in types and duckdb_name(arrow_type(types[name])) != types[name]]
    return ", ".join(f"CAST({quoted(name)} AS {types[name]}) AS {quoted(name)}" for name in less)


def _check_select(connection: Any, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        raise InvalidInputError(f"the query {sql!r} isn't one SELECT statement: write exactly one")


def _scannable(
    name: str, table: pa.Table | pa.RecordBatchReader, sql: str, failures: list[BaseException]
) -> pa.Table | pa.RecordBatchReader:
    if isinstance(table, pa.Table):
        return table
    if len(re.findall(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)) > 1:
        return table.read_all()  # a reader reads once, and some versions take its end for an empty table

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from table
        except (Exception, KeyboardInterrupt) as error:
            failures.append(error)  # DuckDB would pass on its text only
            raise

    return pa.RecordBatchReader.from_batches(table.schema, batches())


def _result_columns(relation: Any, sql: str) -> dict[str, str]:
    columns: dict[str, str] = {}
    spelled: set[str] = set()
    for name, kind in zip(relation.columns, relation.types, strict=True):
        if fold(name) in spelled:
            raise InvalidInputError(
                f"the query {sql!r} gives two columns the name {name!r} (case doesn't count): use AS"
            )
        spelled.add(fold(name))
        columns[name] = canonical(str(kind))
    return columns


def _failure(error: duckdb.Error, what: str) -> InvalidInputError:
    if isinstance(error, duckdb.OutOfMemoryException):
        return InvalidInputError(f"{what} needs more memory than it may have: {error}")
    if isinstance(error, duckdb.PermissionException):
        return InvalidInputError(f"{what} reaches for a file, the network or an extension: {error}")
    reason = str(error).partition("\n")[0]  # below stands Firn's own SQL, which nobody wrote
    return InvalidInputError(f"{what} fails: {reason}")
