"""Connections to DuckDB without a way out: no files, no network, no extensions, a configuration that is locked.

This is the one place where Firn opens DuckDB, so that planning and tasks agree.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from firn.concurrency.forked import after_fork, keep_alive, unheld
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY = 1 << 30
"""Bytes that one query may take for sorting, joining and grouping, apart from the tables passed in."""

NEAR_BYTES = 1 << 20
"""Ranges of an object that are nearer are one request: a second would take longer than what lies between."""

_SETTINGS: Mapping[str, str | int] = {
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}


@dataclass(frozen=True, eq=False)
class _Kept:
    """A database that is open, and the files that it may read."""

    database: Any
    files: frozenset[str]


_idle: dict[tuple[int, int, str | None], list[_Kept]] = {}
"""By the memory and the threads that they may take, and where they spill."""
_idle_lock = unheld(threading.Lock())
_KEPT, _KEPT_WITH_FILES = 16, 4


def _in_child() -> None:
    """A connection's threads aren't copied by a fork: it is neither used nor let go of, which would wait for them."""
    for kept in (one for pool in _idle.values() for one in pool):
        keep_alive(kept)
    _idle.clear()


after_fork(_in_child)


@contextmanager
def connection(
    memory: int = MEMORY, *, threads: int = 2, files: Sequence[str] = (), spill: str | None = None
) -> Iterator[Any]:
    """A connection for this call alone: nobody sees what it registers, nor its temporary views. See `connect`.

    Opening a database takes 15 ms, so it is kept for later calls that need no other files; not after an interrupt or
    a failing reader.
    """
    wanted, limits = frozenset(files), (memory, threads, spill)
    with _idle_lock:
        pool = _idle.setdefault(limits, [])
        kept = next((one for one in reversed(pool) if one.files >= wanted), None)
        if kept is not None:
            pool.remove(kept)
    if kept is None:
        kept = _Kept(connect(memory=memory, threads=threads, files=files, spill=spill), wanted)
    ended = [kept]
    cursor = kept.database.cursor()
    try:
        with interruptible():
            yield cursor
        ended = []
    except InvalidInputError:
        ended = []
        raise
    finally:
        cursor.close()
        with interruptible():
            ended = ended if ended or _answers(kept.database) else [kept]
        if not ended:
            with _idle_lock:
                pool.append(kept)
                keeps = _idle.get(limits) is pool  # else it was closed meanwhile
                ended = pool[: (-_KEPT_WITH_FILES if wanted else -_KEPT) if keeps else None]
                del pool[: len(ended)]
        for one in ended:
            one.database.close()


def _answers(database: Any) -> bool:
    """Whether a database still works: an internal error of DuckDB's ends it."""
    try:
        database.execute("SELECT 1")
    except duckdb.Error:
        return False
    return True


@contextmanager
def interruptible() -> Iterator[None]:
    """Have Ctrl-C be a `KeyboardInterrupt`: where it meets a running query, DuckDB raises a `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        if str(error) != "Query interrupted":
            raise
        raise KeyboardInterrupt from None


def close_spilling(spill: str) -> None:
    """Close what is kept for a directory that nobody will spill to again: each has threads and memory of its own."""
    _close_idle(lambda where: where == spill)


@atexit.register
def _close_idle(of: Callable[[str | None], bool] = lambda where: True) -> None:
    """A connection that outlives the interpreter's modules complains of leaks as it goes."""
    with _idle_lock:
        pools = [_idle.pop(key) for key in list(_idle) if of(key[2])]
    for kept in (one for pool in pools for one in pool):
        kept.database.close()


def connect(
    *,
    memory: int = MEMORY,
    threads: int = 1,
    files: Sequence[str] = (),
    file_system: Any = None,
    spill: str | None = None,
    progress: bool = False,
    without: Sequence[str] = (),
) -> Any:
    """A new in-memory DuckDB. It may read `files`, by their exact paths, and nothing else outside.

    A `file_system` of fsspec's has those files whose paths begin with its protocol. Such a connection, and the
    readers of its results, have to be closed before the interpreter ends. `spill` is a directory for rows that don't
    fit into memory. With `progress` it can be asked how far a query is. `without` are optimizers that it goes
    without, as far as it has them.

    Texts without an offset are times in UTC, whatever the machine's zone; this is set globally, as cursors don't
    inherit what a session sets.
    """
    config = {**_SETTINGS, "memory_limit": f"{memory}B", "threads": threads, "temp_directory": spill or ""}
    if files:  # which are told before the way out is closed
        del config["enable_external_access"]
    connection = duckdb.connect(":memory:", config=config)
    if without:
        with suppress(duckdb.Error):  # of a version that has no optimizer of that name
            connection.sql(f"SET disabled_optimizers = '{','.join(without)}'")
    if file_system is not None:
        connection.register_filesystem(file_system)
    settings = ["GLOBAL TimeZone = 'UTC'", "GLOBAL Calendar = 'gregorian'"]
    if files:
        paths = ", ".join("'" + path.replace("'", "''") + "'" for path in files)
        settings += [f"allowed_paths = [{paths}]", "enable_external_access = false"]
    if file_system is not None:
        settings.insert(0, "parquet_metadata_cache = true")  # each look at a file would ask for its footer
        with suppress(duckdb.CatalogException):  # DuckDB 2.0 has it
            connection.sql(f"SET parquet_prefetch_column_gap = {NEAR_BYTES}")
    if progress:
        settings += ["enable_progress_bar = true", "enable_progress_bar_print = false"]
    remote = all(file_system is not None and path.startswith(f"{file_system.protocol}://") for path in files)
    if remote and spill is None:
        settings.append("disabled_filesystems = 'LocalFileSystem'")
    for setting in (*settings, "lock_configuration = true"):
        connection.sql(f"SET {setting}")
    return connection


def relation_on(connection: duckdb.DuckDBPyConnection | None, rows: pa.Table) -> duckdb.DuckDBPyRelation:
    """Rows as a relation of a user's connection, or of DuckDB's default one.

    Raises:
        InvalidInputError: it isn't a connection.
    """
    if connection is not None and not isinstance(connection, duckdb.DuckDBPyConnection):
        raise InvalidInputError(f"connection={connection!r} isn't a connection of DuckDB.")
    return (connection or duckdb).from_arrow(rows)
