"""The connection to DuckDB that one statement computes with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from firn.arrow.connections import connect, connection, interruptible
from firn.concurrency.cancelling import ended_by_cancelling
from firn.journal.model import ColumnTypes
from firn.journal.typenames import quoted
from firn.sql.limits import QueryLimits, memory_limit, threads
from firn.sql.relation import BucketFile

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1 << 16

REQUEST_THREADS = 16
"""Threads of a query over objects in a bucket: most of them wait for the store."""

FRAGILE = ("projection_pullup",)
"""Optimizers of DuckDB's that can fail. 2.0 loses count of columns in this one, where joins stand in subqueries over
tables whose columns are cast, as Firn's are."""


@contextmanager
def instance(
    limits: QueryLimits,
    files: Sequence[str],
    objects: Mapping[str, BucketFile],
    failures: list[BaseException],
    *,
    alone: bool = False,
    careful: bool = False,
) -> Iterator[Any]:
    """A connection of this statement's own to a DuckDB that reaches `files`, and `objects` by their paths. It is
    closed at the end.

    Without `objects`, a DuckDB that was kept may do: it reaches the files of an earlier statement, too, if these
    include `files`. That the statement names none of them is for the check of its text. Nothing else is in reach,
    but for the directory to spill into.

    Args:
        failures: takes the errors of objects, of which DuckDB passes on the text alone.
        alone: whether the DuckDB is this statement's, too: it reaches no other files, and isn't kept.
        careful: whether to go without what an internal error of DuckDB's may come from.
    """
    memory, spill = memory_limit(), None if limits.spill is None else limits.spill.path()
    with ExitStack() as stack:
        if not (objects or alone or careful or limits.watch is not None):
            made = stack.enter_context(connection(memory, threads=threads(), files=files, spill=spill))
        else:
            stored = None
            if objects:
                from firn.sql.files.objects import BucketFiles  # fsspec is loaded for buckets only

                stored = stack.enter_context(closing(BucketFiles(objects, failures)))
            made = connect(
                memory=memory,
                threads=REQUEST_THREADS if objects else threads(),
                files=[*files, *objects],
                file_system=stored,
                spill=spill,
                progress=limits.watch is not None,
                without=FRAGILE if careful else (),
            )
            stack.enter_context(closing(made))
        if limits.watch is not None:
            stack.callback(limits.watch, None)
            limits.watch(made.query_progress)
        with interruptible():
            yield made


def rows_of(duck: Any, text: str, parameters: Any = None) -> Iterator[pa.RecordBatch]:
    """The rows of a query while it runs. If the task that waits for the next ones is cancelled, it is interrupted."""
    with ended_by_cancelling(duck.interrupt):
        reader = duck.sql(text, params=parameters).to_arrow_reader(BATCH_ROWS)
    while True:
        with ended_by_cancelling(duck.interrupt):
            batch = next(reader, None)
        if batch is None:
            return
        yield batch


def renamed(text: str, names: Sequence[str], kinds: ColumnTypes) -> str:
    """A query of another's rows under other names, those in `kinds` cast to these types.

    >>> print(renamed("SELECT 1, 2", ["a", "b"], {"b": "DOUBLE"}))
    SELECT c0 AS a, CAST(c1 AS DOUBLE) AS b FROM (
    SELECT 1, 2
    ) AS s(c0, c1)
    """
    columns = [f"c{number}" for number in range(len(names))]
    picked = ", ".join(
        f"{f'CAST({column} AS {kinds[name]})' if name in kinds else column} AS {quoted(name)}"
        for column, name in zip(columns, names, strict=True)
    )
    return f"SELECT {picked} FROM (\n{text}\n) AS s({', '.join(columns)})"
