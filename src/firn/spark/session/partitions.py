"""Work on each partition of a DataFrame, in Python tasks: its results, its errors and its requests."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.errors import FirnError
from firn.runner import Progress
from firn.spark.session.job import run_job
from firn.spark.session.worker import settle_imports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Done = TypeVar("Done")


class PartitionOutcome(Generic[Done]):
    """What became of a task's work, in a worker. An error that a retry can't mend is kept as a value."""

    def __init__(self, bucket: Bucket, work: Callable[[], Done]) -> None:
        before = bucket.counters.as_dict()
        self.error: FirnError | None = None
        try:
            self.result = work()
        except FirnError as failure:
            self.error = failure
        settle_imports()
        self.counters = bucket.counters.since(before)


def each_partition(
    frame: DataFrame,
    bucket: Bucket,
    work: Callable[[Iterator[pa.RecordBatch]], Done],
    *,
    description: str,
    progress: Progress | None = None,
) -> list[Done]:
    """The result of `work` for the rows of each partition, whose requests are added to the bucket's.

    Raises the `FirnError` of the first partition that has one.

    Args:
        work: picklable, and so is what it returns.
    """
    names = frame.columns
    # mapInArrow takes a dot in a column's name for a field of a struct.
    frame = frame.toDF(*[f"c{number}" for number in range(len(names))])

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        outcome = PartitionOutcome(bucket, lambda: work(batch.rename_columns(names) for batch in batches))
        yield pa.RecordBatch.from_arrays([pa.array([pickle.dumps(outcome)], pa.binary())], ["r"])

    collect = frame.mapInArrow(run, "r binary").collect
    rows: list[Any] = run_job(frame.sparkSession, collect, description=description, progress=progress)
    outcomes: list[PartitionOutcome[Done]] = [pickle.loads(row["r"]) for row in rows]
    for outcome in outcomes:
        bucket.counters.add(**outcome.counters)
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    if progress is not None:  # what a job of a few tasks did between two looks
        progress(len(outcomes), len(outcomes))
    return [outcome.result for outcome in outcomes]
