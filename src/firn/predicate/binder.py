"""Asks DuckDB, while planning, what an expression means: whether it binds, and what a constant is worth.

The rows are read elsewhere, by tasks. Here is one idle in-memory DuckDB a process, single-threaded and
without access to files or the network.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa

from firn.arrow.connections import connect, interruptible
from firn.concurrency.forked import after_fork, keep_alive, unheld
from firn.errors import InvalidInputError
from firn.journal.typenames import quoted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


_opened: list[DuckDBPyConnection] = []
_opening = unheld(threading.Lock())


def _in_child() -> None:
    """A DuckDB that was inherited may hold locks of threads long gone, and its end would wait for its own."""
    for connection in _opened:
        keep_alive(connection)
    _opened.clear()


after_fork(_in_child)


@contextmanager
def cursor() -> Iterator[DuckDBPyConnection]:
    """A connection of one's own to the idle DuckDB, which is closed at the end."""
    with _opening:
        if not _opened:
            _opened.append(connect())
        opened = _opened[0].cursor()
    with closing(opened), interruptible():
        yield opened


def check(expression: str, columns: Mapping[str, str], *, source: str) -> None:
    """Refuse a boolean expression over typed columns that DuckDB would refuse in a task.

    `source` is the text to quote. Raises `InvalidInputError` with DuckDB's reason. About a millisecond.
    """
    nulls = [f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns.items()]
    select = f"SELECT 1 FROM (SELECT {', '.join(nulls) or '1'}) WHERE {expression}"
    planned = False
    try:
        with cursor() as duck:
            duck.execute("EXPLAIN " + select).fetchall()
            planned = True
            # A constant that isn't of the column's type, like delay > 'x', fails at the first row, whatever it holds.
            # A row of plain nulls would be folded away.
            row = [f"unnest(CAST([NULL] AS {kind}[])) AS {quoted(name)}" for name, kind in columns.items()]
            duck.execute(f"SELECT 1 FROM (SELECT {', '.join(row) or '1'}) WHERE {expression}").fetchall()
    except duckdb.Error as error:
        if not planned or isinstance(error, duckdb.ConversionException):
            reason = str(error).split("\n", 1)[0]
            raise InvalidInputError(f"the predicate {source!r} doesn't fit the columns: {reason}") from error


def constant(expression: str) -> pa.Scalar | None:
    """The value of an expression without columns, typed as DuckDB types it; None where it has none."""
    try:
        with cursor() as duck:
            value = duck.sql(f"SELECT {expression} AS v").to_arrow_table()
    except duckdb.Error:
        return None
    return value["v"][0]


def cast_or_none(values: pa.Array, kind: str) -> pa.Array | None:
    """Texts cast to a DuckDB type, or None if one of them isn't of that type."""
    with cursor() as duck:
        duck.register("_texts", pa.table({"v": values}))
        try:
            found = duck.sql(f"SELECT CAST(v AS {kind}) AS v FROM _texts").to_arrow_table()["v"]
        except duckdb.Error:
            return None
        finally:
            duck.unregister("_texts")
        return found.combine_chunks()
