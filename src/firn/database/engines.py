"""Where a database's work runs: on Spark or in this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from firn.bucket.base import Bucket
from firn.concurrency.once import Once
from firn.errors import DatabaseClosedError, InvalidInputError, UnsupportedError
from firn.runner import LocalRunner, Progress, Runner, must_run_here
from firn.units import Size, parse_size

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from firn.sql.files.allowed import AllowedFiles
    from firn.sql.limits import QueryLimits, Watch

SPARK_FROM_BYTES = 64 * 2**20
"""A plan that reads more runs on Spark even if no session is active yet."""


class DatabaseEngines:
    """Spark where a session is active or given or the plan is large, this process otherwise.

    Args:
        limits: gives these engines the limits of their queries, when one runs.
    """

    def __init__(
        self,
        bucket: Bucket,
        url: str,
        spark: SparkSession | None,
        runner: Runner | None,
        limits: Callable[[object], QueryLimits],
    ) -> None:
        self._bucket, self._url, self._spark, self._runner = bucket, url, spark, runner
        self._limits = Once(lambda: limits(self))
        self.closed = False
        self.on_progress: Progress | None = None
        self.on_query: Watch | None = None

    @property
    def limits(self) -> QueryLimits:
        """What a query may take of this process."""
        return self._limits() if self.on_query is None else replace(self._limits(), watch=self.on_query)

    def must_be_open(self) -> None:
        """`DatabaseClosedError` if the connection is closed."""
        if self.closed:
            raise DatabaseClosedError(f"the connection to {self._url} is closed: connect again.")

    def session(self) -> SparkSession:
        from firn.spark.session.session import active_or_start

        return self._spark or active_or_start()

    def runner(self, input_bytes: int) -> Runner:
        if self._runner is not None:
            return self._runner
        if must_run_here() or not self._bucket.capabilities.shareable:
            return LocalRunner()
        spark = self._spark or _active_session()
        if spark is None and input_bytes > SPARK_FROM_BYTES and _spark_installed():
            spark = self.session()
        if spark is None:
            return LocalRunner()
        from firn.spark.session.runner import SparkRunner

        return SparkRunner(spark)

    def progress(self, title: str) -> Progress | None:
        return self.on_progress

    def is_dataframe(self, data: Any) -> bool:
        return type(data).__module__.startswith("pyspark.sql")

    def to_spark(self, table: Any, *, columns: Sequence[str] | None, where: str | None, at: Any) -> Any:
        from firn.spark.plan import spark_kind

        return spark_kind(table).frame(table, self.session, columns=columns, where=where, at=at)

    def load(self, table: Any, frame: Any, **options: Any) -> Any:
        if not table.bucket.capabilities.shareable:
            raise UnsupportedError(
                f"{self._url} lives in this process only, where Spark's tasks can't write. Use a directory."
            )
        from firn.spark.plan import spark_kind

        return spark_kind(table).load(table, frame, **options)

    def appended(self, table: Any) -> None:
        from firn.lake.keep.keeper import appended

        appended(table)


def query_limits(
    bucket: Bucket,
    prefix: str,
    options: Mapping[str, Any],
    in_process: Size | None,
    spill: str | os.PathLike[str] | None,
    allow_files: Sequence[str | os.PathLike[str]],
) -> Callable[[object], QueryLimits]:
    """Gives a connection's engines the limits of their queries; a connection that runs none doesn't load them.

    Raises:
        InvalidInputError: `in_process` is no size, or `allow_files` no list.
    """
    most = None if in_process is None else parse_size(in_process)
    if isinstance(allow_files, (str, os.PathLike)):
        raise InvalidInputError(
            f"allow_files={os.fspath(allow_files)!r}: give a list, even of one directory."
        )

    def files() -> AllowedFiles:
        from firn.sql.files.allowed import AllowedFiles

        return AllowedFiles(allow_files, (bucket, prefix), options)

    def limits(owner: object) -> QueryLimits:
        from firn.sql.limits import QueryLimits

        return QueryLimits.of(bucket, most, spill, files, owner)

    return limits


def _active_session() -> Any:
    """The active Spark session, without importing Spark where nobody has."""
    import sys

    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def _spark_installed() -> bool:
    import importlib.util

    return importlib.util.find_spec("pyspark") is not None
