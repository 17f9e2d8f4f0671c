"""The Spark session: the one that is active, or a local one with good settings.

The settings that Firn's own sessions get are those the measurements in the design notes were made with;
a session that somebody else started is used as it is, and left as it was.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firn.errors import UnsupportedError
from firn.spark.session.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARROW_BATCH_ROWS = 131_072
"""Rows of an Arrow batch between the JVM and Python: 10,000, Spark's default, costs half the throughput."""

DISCOVERY_THRESHOLD = 100_000
"""Files up to which the driver plans a native scan without a job of its own."""

ARROW_BATCH_CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"
DISCOVERY_CONF = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def active() -> SparkSession | None:
    """The session that this process uses already, classic or Connect; None if there is none."""
    try:
        from pyspark.sql import SparkSession
        from pyspark.sql.utils import is_remote
    except ImportError:
        return None
    if is_remote():
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        remote: SparkSession | None = ConnectSession.getActiveSession()
        return remote
    session: SparkSession | None = SparkSession.getActiveSession()
    if session is None:
        # "Active" belongs to a thread; the process's only session serves its other threads as well.
        session = SparkSession._instantiatedSession
        if session is not None and session.sparkContext._jsc is None:
            return None  # it was stopped
    return session


def active_or_start(
    *, master: str | None = None, app_name: str = "firn", config: Mapping[str, str] | None = None
) -> SparkSession:
    """The active session, or a local one that is started now.

    Args:
        master: where to start; all cores of this machine, each task tried up to 4 times, if None.
        app_name: the name Spark shows.
        config: settings that win over Firn's. They only count when a session is started.

    Raises `UnsupportedError` where pyspark or a Java 17 is missing.

    Example:
        >>> spark = active_or_start()
        >>> spark.conf.get("spark.sql.session.timeZone")
        'UTC'
    """
    session = active()
    if session is not None:
        return session
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise UnsupportedError("this needs Spark: pip install 'firn[spark]'") from error
    if os.environ.get("SPARK_REMOTE") or "PYSPARK_GATEWAY_PORT" in os.environ:
        # A Connect server or spark-submit: the session is theirs to configure. A server that starts here, for
        # SPARK_REMOTE=local[2], has workers of its own: they run this Python and this Firn.
        variables = {
            "PYTHONPATH": _python_path(),
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or sys.executable,
        }
        if os.environ.get("SPARK_REMOTE", "").startswith("local"):
            variables["JAVA_HOME"] = find_java()
        with environment(**variables):
            submitted: SparkSession = SparkSession.builder.getOrCreate()
        return submitted
    settings = local_settings(master or f"local[{os.cpu_count() or 1},4]", app_name) | dict(config or {})
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    python = os.environ.get("PYSPARK_PYTHON") or sys.executable
    variables = {"JAVA_HOME": find_java(), "PYTHONPATH": _python_path(), "PYSPARK_PYTHON": python}
    for name in _LOGGERS:
        logging.getLogger(name).disabled = True
    with environment(**variables), _no_orphan():
        started: SparkSession = builder.getOrCreate()
    return started


_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""pyspark writes an error to standard error as JSON with all of Java's frames, beside the error that it raises."""


def local_settings(master: str, app_name: str) -> dict[str, str]:
    """The settings of a session that Firn starts."""
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    return {
        "spark.master": master,
        "spark.app.name": app_name,
        "spark.driver.memory": f"{_driver_memory_mb()}m",
        "spark.driver.maxResultSize": "0",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j} -XX:-UsePerfData",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        ARROW_BATCH_CONF: str(ARROW_BATCH_ROWS),
        DISCOVERY_CONF: str(DISCOVERY_THRESHOLD),
    }


def is_connect(spark: SparkSession) -> bool:
    """True for a Spark Connect session, which has no SparkContext."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


_connect_slots: weakref.WeakKeyDictionary[SparkSession, int] = weakref.WeakKeyDictionary()


def slots(spark: SparkSession) -> int:
    """How many tasks run at once; on Spark Connect found out by one small job a session."""
    if not is_connect(spark):
        return max(1, int(spark.sparkContext.defaultParallelism))
    if spark not in _connect_slots:
        from pyspark.sql.functions import spark_partition_id

        # A Connect client isn't told; a range without a number of partitions has one a slot.
        partitions = spark.range(100_000).select(spark_partition_id().alias("p")).distinct()
        _connect_slots[spark] = max(1, int(partitions.count()))
    return _connect_slots[spark]


_conf_lock = threading.Lock()
_conf_held: dict[tuple[int, str], tuple[int, str | None]] = {}
"""(session, setting) → how many blocks hold it, and what it was before the first."""


@contextmanager
def conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set session settings for a block and put back what was there.

    Settings belong to the session, not to a thread: if blocks overlap, the last to end puts back.
    """
    with _conf_lock:
        for name, value in settings.items():
            holders, before = _conf_held.get((id(spark), name), (0, spark.conf.get(name, None)))
            _conf_held[id(spark), name] = holders + 1, before
            spark.conf.set(name, value)
    try:
        yield
    finally:
        with _conf_lock:
            for name in settings:
                holders, before = _conf_held.pop((id(spark), name))
                if holders > 1:
                    _conf_held[id(spark), name] = holders - 1, before
                elif before is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, before)


def _driver_memory_mb() -> int:
    """A quarter of the machine, between 1 and 8 GiB: the rows live in the Python workers, not in the JVM."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 2048
    return max(1024, min(8192, total // 4 >> 20))


def _python_path() -> str:
    """The workers' import path: where this Firn is, first, so that they run the same one."""
    source = str(Path(__file__).resolve().parents[3])
    known = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != source]
    return os.pathsep.join([source, *known])


@contextmanager
def _no_orphan() -> Iterator[None]:
    """End the JVM if its launch doesn't: interrupted while it waits for the JVM's port, pyspark removes the
    directory that the JVM would write it to, and the JVM, failing at that, would stay for ever."""
    from pyspark import SparkContext, java_gateway

    launched: list[subprocess.Popen[bytes]] = []
    original = java_gateway.Popen

    def launch(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        with interrupt_later():  # a process that was begun and not handed back couldn't be ended
            launched.append(original(*args, **options))
        return launched[-1]

    java_gateway.Popen = launch
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in launched:
                process.kill()
                process.wait()
        raise
    finally:
        java_gateway.Popen = original


@contextmanager
def interrupt_later() -> Iterator[None]:
    """Answer a Ctrl-C that comes in the block after it. Only the main thread ever sees one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler if before is None else before)
    if came:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Environment variables for the JVM that starts inside the block; this process's are put back."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                del os.environ[name]
            else:
                os.environ[name] = old
