"""Shows that work goes on: progress bars, and Spark starting without its chatter."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any, cast

from firn.cli.terminal import output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firn.bucket.base import Bucket
    from firn.database.database import Database


@contextmanager
def progress(db: Database, title: str) -> Iterator[None]:
    """A bar on standard error while the block works, as soon as tasks report; nothing without a terminal."""
    console = output.stderr()
    if not console.is_terminal:
        yield
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    engines = cast("Any", db.engines)  # the protocol of the lake doesn't say where reports go
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bars:
        task = bars.add_task(title, total=None)
        engines.on_progress = lambda done, total: bars.update(task, completed=done, total=total)
        try:
            yield
        finally:
            engines.on_progress = None


@contextmanager
def spinner(title: str) -> Iterator[None]:
    """A spinner on standard error for work that reports no steps; nothing without a terminal."""
    console = output.stderr()
    if console.is_terminal:
        with console.status(title):
            yield
    else:
        yield


@contextmanager
def working(db: Database, *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """A line on standard error about statements that take longer than a second: the time, and how far they are where
    that is known. It goes with the block, or when the function that the block is given is called: before an answer is
    printed. Nothing without a terminal, or if `quiet`."""
    if quiet or not output.stderr_is_terminal():
        yield lambda: None
        return
    line = WorkLine(sys.stderr)
    engines = cast("Any", db.engines)
    engines.on_progress, engines.on_query = line.tasks, line.query
    try:
        yield line.end
    finally:
        engines.on_progress = engines.on_query = None
        line.end()


class WorkLine:
    """Says how long work has taken, and how far it is, until it ends."""

    first_s = 1.0
    """After how many seconds it is there."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream, self._began, self._done = stream, time.monotonic(), threading.Event()
        self._lock, self._shown = threading.Lock(), False
        self._percent: Callable[[], float] | None = None
        self._tasks = ""
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def query(self, percent: Callable[[], float] | None) -> None:
        """See `QueryLimits.watch`."""
        with self._lock:  # a query isn't asked any more once it has ended
            self._percent = percent

    def tasks(self, done: int, total: int) -> None:
        """See `firn.runner.Progress`."""
        self._tasks = f", {done:,} of {total:,} tasks"

    def end(self) -> None:
        """Take the line away. Again is fine."""
        self._done.set()
        self._thread.join()
        if self._shown:
            self._shown = False
            self._stream.write(_CLEARED)
            self._stream.flush()

    def _follow(self) -> None:
        wait_s = self.first_s
        while not self._done.wait(wait_s):
            self._shown = True
            self._stream.write(f"{_CLEARED}{self.text()}")
            self._stream.flush()
            wait_s = 0.2

    def text(self) -> str:
        """What the line says now."""
        with self._lock:
            percent = -1.0 if self._percent is None else self._percent()
        far = f", {percent:.0f} %" if 0 <= percent <= 100 else self._tasks
        return f"{time.monotonic() - self._began:.0f} s{far}"


_CLEARED = "\r\x1b[2K"


def start_spark(*, brief: bool = False) -> SparkSession:
    """The session for this command. The JVM and its workers print to a file that nobody sees,
    unless FIRN_TRACEBACK is set: a child process inherits definition 2 at its start and keeps it.

    Args:
        brief: for a minute's work on small data: the JVM's second compiler, made for long-running programs,
            would cost more than it brings.
    """
    from firn.spark.session.session import active_or_start, environment

    options = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -XX:TieredStopAtLevel=1".strip()
    with environment(JAVA_TOOL_OPTIONS=options) if brief else nullcontext():
        if os.environ.get("FIRN_TRACEBACK"):
            return active_or_start()
        with _stderr_in_file(), spinner("starting Spark"):
            return active_or_start()


@contextmanager
def _stderr_in_file() -> Iterator[None]:
    """LakeDefinition 2, which child processes inherit, leads to a file; `sys.stderr` stays with the terminal."""
    before = sys.stderr
    before.flush()
    saved = os.dup(2)
    hidden: IO[bytes]
    with tempfile.TemporaryFile() as hidden, os.fdopen(os.dup(2), "w") as terminal:
        os.dup2(hidden.fileno(), 2)
        # A stream of somebody else's, like a test's, isn't definition 2.
        if before is sys.__stderr__:
            sys.stderr = terminal
        try:
            yield
        finally:
            sys.stderr = before
            os.dup2(saved, 2)
            os.close(saved)


class Meter:
    """Seconds and requests of a piece of work."""

    def __init__(self, bucket: Bucket) -> None:
        self._counters = bucket.counters
        self._before = self._counters.as_dict()
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._started, 3)

    @property
    def requests(self) -> dict[str, int]:
        """By verb, with `bytes_in` and `bytes_out`."""
        return self._counters.since(self._before)

    def plain(self) -> dict[str, Any]:
        """The end of the JSON of every command that works on a table."""
        return {"requests": self.requests, "seconds": self.seconds}

    def note(self) -> None:
        """The same for a person, on standard error."""
        total = sum(count for name, count in self.requests.items() if not name.startswith("bytes"))
        output.note(f"{output.plural(total, 'request')}, {self.seconds:.1f} s")
