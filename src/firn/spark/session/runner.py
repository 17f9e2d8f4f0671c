"""SparkRunner: maintenance tasks on executors, packed into a few bins, one bin a Spark task.

Rows never cross the JVM: a bin is a pickled list of tasks, and what comes back is a pickled list of results.
The same plan runs on a classic session and on Spark Connect, which has no RDDs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from firn.bucket.base import Bucket
from firn.errors import FirnError, InvalidInputError, UnsupportedError
from firn.runner import Progress
from firn.spark.session.job import run_job
from firn.spark.session.packing import bin_count, chunk, pack
from firn.spark.session.session import active_or_start, is_connect, slots
from firn.spark.session.worker import settle_imports

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

Context = TypeVar("Context")
Task = TypeVar("Task")
Done = TypeVar("Done")

BROADCAST_BYTES = 8 << 20
"""Work above this goes by broadcast on a classic session: a 64 MB closure takes 0.7 s, a broadcast 0.14 s."""

MESSAGE_BYTES = 64 << 20
"""Work above this takes several jobs on Spark Connect, whose messages end at 128 MiB."""


class BinOutcome(NamedTuple):
    """The result of a bin: results by task index, the error that ended it, and its requests."""

    results: list[tuple[int, Any]]
    failed: tuple[int, FirnError] | None
    counters: dict[str, int]


class SparkRunner:
    """Runs a plan's tasks on Spark; implements `firn.runner.Runner`.

    Args:
        spark: the session; the active one, or a local one that is started, if None.

    A task that raises a `FirnError` isn't tried again: its bucket has retried already, and the error arrives
    with its own type. Anything else is Spark's to retry, and arrives as Spark's exception.

    Example:
        >>> from firn.bucket import open_bucket
        >>> import tempfile
        >>> runner = SparkRunner()
        >>> runner.map(lambda bucket, k, x: k * x, [1, 2, 3], bucket=open_bucket(tempfile.mkdtemp()),
        ...            context=10, weights=[1, 1, 1])
        [10, 20, 30]
    """

    distributed = True

    def __init__(self, spark: SparkSession | None = None) -> None:
        self.spark = spark if spark is not None else active_or_start()

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        return slots(self.spark)

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
        """Run all tasks; the results in the tasks' order. See `firn.runner.Runner.map`.

        `progress` is called in tasks, as bins complete. Ctrl-C cancels what runs before it is raised.
        """
        if not tasks:
            return []
        if len(weights) != len(tasks):
            raise InvalidInputError(f"{len(tasks)} tasks came with {len(weights)} weights")
        if not bucket.capabilities.shareable:
            raise UnsupportedError(f"{bucket.url} lives in this process, out of reach of Spark's workers")
        from pyspark import cloudpickle

        shared = cloudpickle.dumps((fn, bucket, context))
        bins = pack(weights, bin_count(weights, self.slots))
        payloads = _payloads(tasks, bins, MESSAGE_BYTES if is_connect(self.spark) else None)
        description = f"firn: {getattr(fn, '__name__', 'tasks').strip('_')}"
        outcomes: list[BinOutcome] = []
        for run in self._jobs(payloads):
            before, total = len(outcomes), len(payloads)

            def ticks(done: int, _: int, before: int = before, total: int = total) -> None:
                if progress is not None:
                    progress(len(tasks) * (before + done) // total, len(tasks))

            outcomes += self._run(shared, [payloads[i] for i in run], description, progress and ticks)
        for outcome in outcomes:
            bucket.counters.add(**outcome.counters)
        failures = [outcome.failed for outcome in outcomes if outcome.failed is not None]
        if failures:
            raise min(failures, key=lambda failure: failure[0])[1]
        if progress is not None:
            progress(len(tasks), len(tasks))
        by_task = dict(pair for outcome in outcomes for pair in outcome.results)
        return [by_task[index] for index in range(len(tasks))]

    def _jobs(self, payloads: Sequence[bytes]) -> list[range]:
        if is_connect(self.spark):
            return chunk([len(payload) for payload in payloads], MESSAGE_BYTES)
        return [range(len(payloads))]

    def _run(
        self, shared: bytes, payloads: list[bytes], description: str, ticks: Progress | None
    ) -> list[BinOutcome]:
        broadcast: Any = None
        work: Any = payloads
        if not is_connect(self.spark) and sum(map(len, payloads)) > BROADCAST_BYTES:
            broadcast = work = self.spark.sparkContext.broadcast(payloads)

        def run_bins(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            from firn.spark.session.runner import run_bin

            bins = getattr(work, "value", work)
            for batch in batches:
                numbers = batch.column(0).to_pylist()
                answers = [run_bin(shared, bins[number]) for number in numbers]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(numbers, pa.int64()), pa.array(answers, pa.binary())], ["i", "r"]
                )

        n = len(payloads)
        frame = self.spark.range(0, n, 1, n).mapInArrow(run_bins, "i long, r binary")
        try:
            rows = run_job(self.spark, frame.collect, description=description, progress=ticks)
        finally:
            if broadcast is not None:
                broadcast.unpersist()
        return [pickle.loads(row["r"]) for row in sorted(rows, key=lambda row: int(row["i"]))]


def run_bin(shared: bytes, payload: bytes) -> bytes:
    """In a worker: the bin's tasks one after another, until one of them raises a `FirnError`."""
    fn, bucket, context = pickle.loads(shared)
    before = bucket.counters.as_dict()
    results: list[tuple[int, Any]] = []
    failed: tuple[int, FirnError] | None = None
    index = -1
    try:
        for index, task in pickle.loads(payload):
            results.append((index, fn(bucket, context, task)))
    except FirnError as error:
        failed = (index, error)
    settle_imports()
    return pickle.dumps(BinOutcome(results, failed, bucket.counters.since(before)))


def _payloads(tasks: Sequence[Any], bins: Sequence[Sequence[int]], limit: int | None) -> list[bytes]:
    """Each bin pickled; a bin above the limit is halved until it fits or holds a single task."""
    from pyspark import cloudpickle

    payloads: list[bytes] = []
    waiting = [list(indices) for indices in reversed(bins)]
    while waiting:
        indices = waiting.pop()
        payload = cloudpickle.dumps([(index, tasks[index]) for index in indices])
        if limit is not None and len(payload) > limit and len(indices) > 1:
            middle = len(indices) // 2
            waiting += [indices[middle:], indices[:middle]]
        else:
            payloads.append(payload)
    return payloads
