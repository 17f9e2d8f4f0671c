"""DuckDB inside tasks: queries and filters over Arrow tables at hand, and over nothing else.

A query comes from a user and runs in whoever's process the task is in, so its connection has no way out: no
files, no network, no extensions, no Python variables, and a configuration that is locked. What it may read
is what the call passes in.
"""

from __future__ import annotations

import atexit
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from firn.arrow.types import conform
from firn.concurrency.forked import after_fork, keep_alive, unheld
from firn.errors import InvalidInputError
from firn.journal.typenames import canonical
from firn.names import fold

MEMORY = 1 << 30
"""Bytes that one query may take for sorting, joining and grouping, apart from the tables passed in."""


def run_query(
    sql: str,
    tables: Mapping[str, pa.Table | pa.RecordBatchReader],
    *,
    memory: int = MEMORY,
    what: str | None = None,
) -> pa.Table:
    """The result of one SELECT over `tables`, by name. Errors call it `what`, where nobody wrote its text.

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
    failures: list[Exception] = []
    with _connection(memory) as connection:
        try:
            _check_select(connection, sql)
            for name, table in tables.items():
                connection.register(name, _scannable(name, table, sql, failures))
            relation = connection.sql(sql)
            columns = _result_columns(relation, sql)
            return conform(relation.to_arrow_table(), columns)
        except duckdb.Error as error:
            if failures:
                raise failures[0] from None
            raise _failure(error, what or f"the query {sql!r}") from None
        finally:
            for name in tables:
                connection.unregister(name)


def filter_table(
    table: pa.Table, predicate_sql: str, *, negate: bool = False, memory: int = MEMORY
) -> pa.Table:
    """The rows for which a predicate is true, or with `negate` those for which it is false or null.

    Keeps the order of the rows and the Arrow types of all columns as they are. Raises `InvalidInputError`
    with DuckDB's message for a predicate that isn't one expression over the table's columns. Costs about
    1 ms besides the work, no requests.

    >>> filter_table(pa.table({"x": [1, None, 3]}), "x > 1", negate=True)["x"].to_pylist()
    [1, None]
    """
    mask = row_mask(table, predicate_sql, negate=negate, memory=memory)
    kept = pc.sum(mask).as_py() or 0
    return table if kept == table.num_rows else table.filter(mask)


def row_mask(
    table: pa.Table, predicate_sql: str, *, negate: bool = False, memory: int = MEMORY
) -> pa.ChunkedArray:
    """For each row whether a predicate is true, or with `negate` whether it is false or null; no nulls.

    Errors and cost as for `filter_table`.

    >>> row_mask(pa.table({"x": [1, None, 3]}), "x > 1").to_pylist()
    [False, False, True]
    """
    truth = "IS NOT TRUE" if negate else "IS TRUE"
    with _connection(memory) as connection:
        try:
            relation = connection.from_arrow(table).project(f"(\n{predicate_sql}\n) {truth} AS keep")
            mask = relation.to_arrow_table()
        except duckdb.Error as error:
            raise _failure(error, f"the predicate {predicate_sql!r}") from None
    if mask.num_columns != 1 or mask.num_rows != table.num_rows:
        raise InvalidInputError(
            f"the predicate {predicate_sql!r} isn't one condition on each row: write something like x > 1"
        )
    return mask.column(0)


def filter_batches(
    batches: Iterable[pa.RecordBatch], predicate_sql: str, *, negate: bool = False, memory: int = MEMORY
) -> Iterator[pa.RecordBatch]:
    """`filter_table` for batches that come one after the other; those without a row left are dropped.

    Costs about 1 ms a batch besides the work, so batches should have some 100,000 rows.
    """
    for batch in batches:
        kept = filter_table(pa.Table.from_batches([batch]), predicate_sql, negate=negate, memory=memory)
        yield from kept.combine_chunks().to_batches()


_SETTINGS: Mapping[str, str | int] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",  # nothing spills: a query's rows must not end up on a disk nobody thought of
}

_idle: dict[int, list[Any]] = {}
"""By the memory that they may take."""
_idle_lock = unheld(threading.Lock())
_KEPT = 16


def _in_child() -> None:
    """A connection's threads aren't copied by a fork: it is neither used nor let go of, which would wait for them."""
    for connection in (c for pool in _idle.values() for c in pool):
        keep_alive(connection)
    _idle.clear()


after_fork(_in_child)


@contextmanager
def _connection(memory: int) -> Iterator[Any]:
    """A connection for this call alone, to a database of its own; opening one costs 20 ms, so they are kept.

    It isn't kept after an interrupt or a failing reader.
    """
    with _idle_lock:
        pool = _idle.setdefault(memory, [])
        connection = pool.pop() if pool else None
    if connection is None:
        connection = connect(memory=memory, threads=2)  # tasks run side by side already
    reusable = False
    try:
        yield connection
        reusable = True
    except InvalidInputError:
        reusable = True
        raise
    finally:
        with _idle_lock:
            if reusable and len(pool) < _KEPT:
                pool.append(connection)


@atexit.register
def _close_idle() -> None:
    """A connection that outlives the interpreter's modules complains of leaks as it goes."""
    with _idle_lock:
        pools = [_idle.pop(key) for key in list(_idle)]
    for connection in (c for pool in pools for c in pool):
        connection.close()


def connect(*, memory: int = MEMORY, threads: int = 1) -> Any:
    """A new in-memory DuckDB: the one place where Firn opens one, so that planning and tasks agree.

    It has no way out, and its configuration is locked. Texts without an offset are times in UTC, whatever the
    machine's zone; this is set globally, as cursors don't inherit what a session sets.
    """
    config = {**_SETTINGS, "memory_limit": f"{memory}B", "threads": threads}
    connection = duckdb.connect(":memory:", config=config)
    for setting in (
        "GLOBAL TimeZone = 'UTC'",
        "GLOBAL Calendar = 'gregorian'",
        "disabled_filesystems = 'LocalFileSystem'",
        "lock_configuration = true",
    ):
        connection.sql(f"SET {setting}")
    return connection


def _check_select(connection: Any, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type.name != "SELECT":
        raise InvalidInputError(f"the query {sql!r} isn't one SELECT statement: write exactly one")


def _scannable(
    name: str, table: pa.Table | pa.RecordBatchReader, sql: str, failures: list[Exception]
) -> pa.Table | pa.RecordBatchReader:
    if isinstance(table, pa.Table):
        return table
    if len(re.findall(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)) > 1:
        return table.read_all()  # a reader reads once, and some versions take its end for an empty table

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            yield from table
        except Exception as error:
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
