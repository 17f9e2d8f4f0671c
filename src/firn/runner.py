"""Runner: map a function over independent tasks, and who chooses one. The in-process ones are here; Spark's runner is
`firn.spark.session.runner`.

A maintenance job is a plan of tasks and a pure function over a bucket. The function is a module-level
callable `fn(bucket, context, task) -> result`; function, context, tasks and results are picklable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from firn.bucket.base import Bucket
from firn.errors import UnsupportedError

Context = TypeVar("Context")
Task = TypeVar("Task")
Done = TypeVar("Done")

Progress = Callable[[int, int], None]
"""Called with (tasks done, tasks in all) after each task or bin."""


class Runner(Protocol):
    """Maps tasks; the order of results is the order of tasks."""

    @property
    def distributed(self) -> bool:
        """True where tasks run in other processes, so the bucket must be shareable."""
        ...

    def map(
        self,
        fn: Callable[[Bucket, Context, Task], Done],
        tasks: Sequence[Task],
        *,
        bucket: Bucket,
        context: Context,
        weights: Sequence[int],
        progress: Progress | None = None,
    ) -> list[Done]:
        """Run all tasks. `weights` are bytes of input a task, for packing. The first FirnError of a
        task is raised here with its own type; requests that tasks made are added to `bucket.counters`."""
        ...


class LocalRunner:
    """Tasks in threads of this process: pyarrow and duckdb release the GIL while they work.

    Example:
        >>> from firn.bucket import open_bucket
        >>> b = open_bucket("memory://")
        >>> LocalRunner().map(lambda bucket, k, x: k * x, [1, 2], bucket=b, context=10, weights=[1, 1])
        [10, 20]
    """

    distributed = False

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or min(8, os.cpu_count() or 1)

    def map(
        self,
        fn: Callable[[Bucket, Context, Task], Done],
        tasks: Sequence[Task],
        *,
        bucket: Bucket,
        context: Context,
        weights: Sequence[int],
        progress: Progress | None = None,
    ) -> list[Done]:
        if len(tasks) <= 1 or self.threads == 1:
            return list(self._serial(fn, tasks, bucket, context, progress))
        results: list[Any] = [None] * len(tasks)
        with ThreadPoolExecutor(self.threads, thread_name_prefix="firn-task") as pool:
            # The heaviest first: the last task to finish is then a light one.
            order = sorted(range(len(tasks)), key=lambda i: -weights[i])
            futures = {pool.submit(fn, bucket, context, tasks[i]): i for i in order}
            try:
                for done, future in enumerate(as_completed(futures), 1):
                    results[futures[future]] = future.result()
                    if progress is not None:
                        progress(done, len(tasks))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return results

    @staticmethod
    def _serial(
        fn: Callable[[Bucket, Context, Task], Done],
        tasks: Sequence[Task],
        bucket: Bucket,
        context: Context,
        progress: Progress | None,
    ) -> Iterator[Done]:
        for done, task in enumerate(tasks, 1):
            yield fn(bucket, context, task)
            if progress is not None:
                progress(done, len(tasks))


_here: ContextVar[bool] = ContextVar("firn_here", default=False)


@contextmanager
def in_this_process() -> Iterator[None]:
    """Tasks of verbs that are called in the block run in this process, however large they are: those of a statement
    in DuckDB's SQL. A runner that the connection was given counts all the same."""
    token = _here.set(True)
    try:
        yield
    finally:
        _here.reset(token)


def must_run_here() -> bool:
    """Whether a caller asked for `in_this_process`."""
    return _here.get()


class Engines(Protocol):
    """What a table asks of the engine above it, whatever its kind: where tasks run, and what to do with a DataFrame.

    `firn.database.engines` has a database's; tables themselves import no Spark.
    """

    closed: bool
    """Whether the connection whose engines these are was closed."""

    def runner(self, input_bytes: int) -> Runner:
        """The runner for a plan that reads so many bytes."""
        ...

    def progress(self, title: str) -> Progress | None:
        """Where to report a long plan's progress, if anywhere."""
        ...

    def is_dataframe(self, data: Any) -> bool:
        """Whether `data` is a DataFrame of the cluster's."""
        ...

    def to_spark(self, table: Any, *, columns: Sequence[str] | None, where: str | None, at: Any) -> Any:
        """A DataFrame of some columns of a table's rows, of those that satisfy a predicate."""
        ...

    def load(self, table: Any, frame: Any, **options: Any) -> Any:
        """Put a cluster's DataFrame into the table. `SparkKind.load` of the kind has the options and the result."""
        ...

    def appended(self, table: Any) -> None:
        """Take note of an append to a lake table that keeps itself: this process looks after it from now on."""
        ...


class InProcess:
    """No cluster: tasks run in threads of this process."""

    closed = False

    def __init__(self, runner: Runner | None = None) -> None:
        self._runner = runner or LocalRunner()

    def runner(self, input_bytes: int) -> Runner:
        return self._runner

    def progress(self, title: str) -> Progress | None:
        return None

    def must_be_open(self) -> None:
        """It always is: there is no connection to close."""

    def is_dataframe(self, data: Any) -> bool:
        return False

    def to_spark(self, table: Any, *, columns: Sequence[str] | None, where: str | None, at: Any) -> Any:
        raise _without_database(table.name)

    def load(self, table: Any, frame: Any, **options: Any) -> Any:
        raise _without_database(table.name)

    def appended(self, table: Any) -> None:
        """Nobody keeps it."""


def _without_database(table: str) -> UnsupportedError:
    """For a verb that needs a cluster, of a table that was made without a database to find one."""
    return UnsupportedError(f"{table} was made without a database: get it by firn.connect(…).table(…)")
