"""`Database`: a bucket prefix and the tables below it. A new kind of table is added to `_KINDS`."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from firn.bucket import open_bucket, split_url
from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, TableNotFoundError, UnsupportedError
from firn.journal.leaderless import LeaderlessJournal, Settings
from firn.journal.lock import ExclusiveLock
from firn.lake.descriptor import (
    Descriptor,
    check_properties,
    create_descriptor,
    descriptor_key,
    read_descriptor,
)
from firn.lake.engines import Engines
from firn.lake.inputs import declared_columns
from firn.lake.partition import PartitionSpec
from firn.lake.table import LakeTable
from firn.runner import LocalRunner, Progress, Runner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

SPARK_FROM_BYTES = 64 * 2**20
"""A plan that reads more runs on Spark even if no session is active yet."""

_NAME = re.compile(r"[A-Za-z0-9.\-][A-Za-z0-9_.\-]{0,99}")


def connect(
    url: str | os.PathLike[str],
    *,
    options: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
    runner: Runner | None = None,
    lock: ExclusiveLock | None = None,
) -> Database:
    """Open a database: a prefix of a bucket, or a directory. Nothing is read or written yet.

    Args:
        url: `s3://bucket/prefix`, `gs://…`, `az://container/…`, a directory, or `memory://` (a fresh one;
            `memory://name` is shared within the process).
        options: obstore's configuration names (`aws_region`, `endpoint`, …) and client options
            (`allow_http`, `timeout`, …). Credentials come from the usual environment unless given here.
        spark: the session for pipeline work; else the active one, or one that Firn starts when it needs it.
        runner: where maintenance tasks run, instead of Spark or this process.
        lock: an exclusive lock from outside, for stores without conditional puts; see `firn.ExclusiveLock`.

    Raises:
        InvalidInputError: a scheme or an option that isn't known.

    Example:
        >>> import firn
        >>> db = firn.connect("memory://")
        >>> db.create_table("events", partition_by=["day(ts)"]).name
        'events'
        >>> db.tables()
        ['events']
    """
    return Database(url, options=options, spark=spark, runner=runner, lock=lock)


def split_table_url(url: str) -> tuple[str, str]:
    """A table's URL as its database's URL and its name.

    >>> split_table_url("./prod/flights")
    ('./prod', 'flights')
    """
    base, _, name = url.rstrip("/").rpartition("/")
    if not base or base.endswith(":/"):
        raise InvalidInputError(
            f"{url!r} isn't a table's URL: it needs a database and a table, like ./prod/flights."
        )
    return base, name


class Database:
    """Tables of one prefix. Made by `connect`; safe to share between threads."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        options: Mapping[str, Any] | None = None,
        spark: SparkSession | None = None,
        runner: Runner | None = None,
        lock: ExclusiveLock | None = None,
    ) -> None:
        self.url = os.fspath(url)
        self.options = dict(options or {})
        self.lock = lock
        root, self.prefix = split_url(self.url)
        self.bucket: Bucket = open_bucket(root, options=self.options)
        self.engines: Engines = _DatabaseEngines(self, spark, runner)

    def __repr__(self) -> str:
        return f"<Database {self.url}>"

    def create_table(
        self,
        name: str,
        *,
        kind: str = "lake",
        schema: pa.Schema | Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        journal: str = "leaderless",
        properties: Mapping[str, Any] | None = None,
    ) -> LakeTable:
        """Create a table.

        Args:
            name: letters, digits, `_ - .`, at most 100, not beginning with `_`.
            kind: "lake".
            schema: an Arrow schema, or DuckDB type names by column; else the first append decides.
            partition_by: columns or transforms: `col`, `year(col)`, `month(col)`, `day(col)`, `hour(col)`,
                `bucket(16, col)`, `truncate(4, col)`.
            sort_by: columns by which each file is sorted, like `"date"` or `"delay desc"`.
            journal: "leaderless".
            properties: see docs/howto/properties.md.

        Raises:
            TableExistsError: the name is taken.
            InvalidInputError: a name, type, transform or property that can't be.

        Cost: 1 PUT + 1 LIST.
        """
        check_name(name)
        if kind not in _KINDS:
            raise InvalidInputError(f"kind={kind!r}: there are {', '.join(map(repr, _KINDS))}.")
        if journal not in _JOURNALS:
            raise InvalidInputError(f"journal={journal!r}: there are {', '.join(map(repr, _JOURNALS))}.")
        properties = dict(properties or {})
        check_properties(properties)
        columns = declared_columns(schema)
        spec = PartitionSpec.parse(partition_by, columns)
        descriptor = Descriptor(name, kind, journal, columns, spec, parse_sort(sort_by, columns), properties)
        prefix = self._prefix(name)
        if read := read_descriptor(self.bucket, prefix):
            if not read.dropped:
                create_descriptor(self.bucket, prefix, descriptor)  # raises, with the usual message
            self._erase(name)
        elif self._has_log(prefix):
            # A table of the reference's: defining it keeps its data.
            descriptor = descriptor if properties.get("shared") else _shared(descriptor)
        return self._open(create_descriptor(self.bucket, prefix, descriptor))

    def table(self, name: str) -> LakeTable:
        """Open a table. 1 GET; where there is no definition, 1 LIST to find a log of the reference's.

        Raises:
            TableNotFoundError: no such table; the message names similar ones.
        """
        check_name(name)
        prefix = self._prefix(name)
        descriptor = read_descriptor(self.bucket, prefix)
        if descriptor is None and self._has_log(prefix):
            descriptor = _shared(Descriptor(name))
        if descriptor is None or descriptor.dropped:
            close = difflib.get_close_matches(name, self.tables(), n=3)
            hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise TableNotFoundError(f"there is no table {name!r} in {self.url}.{hint}")
        return self._open(descriptor)

    def tables(self) -> list[str]:
        """Names of all tables, sorted. 1 LIST + 1 GET a directory; a second LIST for those without definition."""
        root = f"{self.prefix}/" if self.prefix else ""
        names = [n for n in self.bucket.list_dirs(root) if _NAME.fullmatch(n)]
        blobs = self.bucket.get_many([descriptor_key(self._prefix(n)) for n in names])
        found = []
        for name, blob in zip(names, blobs, strict=True):
            if blob is None:
                if self._has_log(self._prefix(name)):
                    found.append(name)
            elif not Descriptor.decode(blob.data, blob.info.key).dropped:
                found.append(name)
        return sorted(found)

    def drop_table(self, name: str) -> None:
        """Delete a table and all its objects, at once and for good: no grace, no way back.

        The definition goes first to a state in which nobody opens the table; a crash leaves it there, and
        dropping or creating it again ends the work. Registered files outside the table stay.
        """
        table = self.table(name)
        key = descriptor_key(table.prefix)
        from dataclasses import replace

        self.bucket.put(key, replace(table.descriptor, dropped=True).encode())
        self._erase(name)

    def sql(self, query: str) -> DataFrame:
        """Run one SELECT over the database's tables on Spark; a Spark DataFrame.

        The dialect is DuckDB's, translated for Spark. Each table is read at one snapshot, pruned by the
        conjuncts of the query's predicates that are safe to push.

        Raises:
            TableNotFoundError: a table that isn't there.
            InvalidInputError: a query that can't be parsed, or isn't a SELECT.
        """
        from firn.spark.sql import run_sql

        engines = self.engines
        assert isinstance(engines, _DatabaseEngines)
        return run_sql(engines.session(), query, self)

    # -- parts

    def _prefix(self, name: str) -> str:
        return f"{self.prefix}/{name}" if self.prefix else name

    def _has_log(self, prefix: str) -> bool:
        return "_log" in self.bucket.list_dirs(f"{prefix}/")

    def _erase(self, name: str) -> None:
        """Delete a dropped table's objects, its definition last."""
        prefix = self._prefix(name) + "/"
        key = descriptor_key(self._prefix(name))
        self.bucket.delete_many(i.key for i in self.bucket.list(prefix).objects if i.key != key)
        self.bucket.delete(key)

    def _open(self, descriptor: Descriptor) -> LakeTable:
        return _KINDS[descriptor.kind](self, descriptor)

    def _open_lake(self, descriptor: Descriptor) -> LakeTable:
        prefix = self._prefix(descriptor.name)
        log_bucket, log_root = None, None
        if (log_url := descriptor.setting("log_url")) is not None:
            root, log_prefix = split_url(log_url)
            log_bucket = open_bucket(root, options=self.options)
            log_root = f"{log_prefix}/{descriptor.name}" if log_prefix else descriptor.name
        journal = LeaderlessJournal(
            self.bucket,
            prefix,
            log_bucket=log_bucket,
            log_root=log_root,
            declared=descriptor.columns,
            settings=Settings.from_properties(descriptor.properties),
            lock=self.lock,
        )
        return LakeTable(self.bucket, prefix, descriptor, journal, self.engines)


_KINDS = {"lake": Database._open_lake}
_JOURNALS = ("leaderless",)


class _DatabaseEngines:
    """Spark where a session is active or given or the plan is large, this process otherwise."""

    def __init__(self, db: Database, spark: SparkSession | None, runner: Runner | None) -> None:
        self._db, self._spark, self._runner = db, spark, runner
        self.on_progress: Progress | None = None

    def session(self) -> SparkSession:
        from firn.spark.session import active_or_start

        return self._spark or active_or_start()

    def runner(self, input_bytes: int) -> Runner:
        if self._runner is not None:
            return self._runner
        if not self._db.bucket.capabilities.shareable:
            return LocalRunner()
        spark = self._spark or _active_session()
        if spark is None and input_bytes > SPARK_FROM_BYTES and _spark_installed():
            spark = self.session()
        if spark is None:
            return LocalRunner()
        from firn.spark.runner import SparkRunner

        return SparkRunner(spark)

    def progress(self, title: str) -> Progress | None:
        return self.on_progress

    def is_dataframe(self, data: Any) -> bool:
        return type(data).__module__.startswith("pyspark.sql")

    def write(self, table: LakeTable, data: Any, *, query: str | None, maintenance: bool) -> Any:
        if not table.bucket.capabilities.shareable:
            raise UnsupportedError(
                f"{self._db.url} lives in this process only, where Spark's tasks can't write. Use a directory."
            )
        from firn.spark.append import write_dataframe

        return write_dataframe(table, data, query=query, maintenance=maintenance)

    def to_spark(self, scan: Any) -> Any:
        from firn.spark.scan import to_spark

        return to_spark(scan, self.session())


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


def _shared(descriptor: Descriptor) -> Descriptor:
    from dataclasses import replace

    return replace(descriptor, properties={**descriptor.properties, "shared": "icedb"})


def check_name(name: str) -> None:
    """Refuse names that could leave the database's prefix or clash with Firn's own."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or set(name) <= {"."}:
        raise InvalidInputError(
            f"{name!r} can't name a table: use letters, digits, '_', '-' and '.', at most 100, not "
            "beginning with '_'."
        )


def parse_sort(sort_by: Sequence[str], columns: Mapping[str, str]) -> tuple[str, ...]:
    """Check a sort order: `col`, `col asc` or `col desc`."""
    if isinstance(sort_by, str):
        raise InvalidInputError(f"sort_by={sort_by!r}: pass a list, like ['date'].")
    for item in sort_by:
        column, _, direction = item.rpartition(" ")
        if direction.lower() not in ("asc", "desc"):
            column = item
        if columns and column not in columns:
            raise InvalidInputError(
                f"sort_by names {column!r}, which isn't in the schema: {', '.join(columns)}."
            )
    return tuple(sort_by)
