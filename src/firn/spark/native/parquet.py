"""Limits of Spark's own Parquet reader, and how it has to be asked.

Spark's reader fails on some types, reads some names as empty files without a word, and skips row groups by
statistics that say nothing of NaNs. Each rule here was found by experiment, and is in the suite.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes, DataFile, Places
from firn.journal.typenames import Scalar, Struct, Type, parse
from firn.lake.prune.nans import holds_floats
from firn.lake.prune.soft_deletes import deletes_by_name
from firn.lake.read.decode import ReadSpec
from firn.predicate.domain import family_of, written_as
from firn.spark.session.session import DISCOVERY_CONF, DISCOVERY_THRESHOLD, conf, is_connect
from firn.spark.session.types import natively_readable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_GLOB = re.compile(r"[\[\]{}*?\\]")


def reads_natively(file: DataFile, needed: ColumnTypes, places: Places, spec: ReadSpec) -> bool:
    """Whether Spark's Parquet reader gives these columns of the file exactly as the table has them."""
    if not spec.reads_exactly(file, needed):
        return False  # from other columns than those of their names
    if not deletes_by_name(file.deletes, file.reads, spec.table_columns):
        return False
    name = file.path.rpartition("/")[2]
    if name.startswith(("_", ".")):
        return False  # Spark takes it for hidden and reads nothing, without a word
    if places.directory_of(file.path) is None:
        return _registered_reads_natively(file, needed)
    stored, ours, physical = file.types, file.rows is not None, spec.naming.physical
    return all(
        natively_readable(stored.get(physical(column), kind), kind, ours=ours)
        for column, kind in needed.items()
    )


# Arrow has half floats and nanoseconds under these names too, which Spark can't read, and milliseconds, with
# which it compares finer literals wrongly.
_AMBIGUOUS = ("FLOAT", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def _registered_reads_natively(file: DataFile, needed: ColumnTypes) -> bool:
    """A registered file may come from any writer, and the log doesn't tell its types: only what statistics
    settle goes to Spark's reader, which fails on Arrow's null type, as a column without values may be."""
    for column, kind in needed.items():
        entry = file.stats.get(column)
        if entry is None or kind in _AMBIGUOUS or not natively_readable(kind, kind, ours=False):
            return False
        if written_as(entry) != family_of(kind):
            return False
    return True


def escape_glob(path: str) -> str:
    """A path that Spark takes literally.

    >>> escape_glob("/data/a[1]*/part.parquet")
    '/data/a\\\\[1\\\\]\\\\*/part.parquet'
    """
    return _GLOB.sub(lambda found: "\\" + found[0], path)


def hadoop_uri(bucket: Bucket, key: str) -> str:
    uri = bucket.uri(key)
    return "s3a://" + uri.removeprefix("s3://") if uri.startswith("s3://") else uri


_obstacles: dict[tuple[int, str], str | None] = {}


def hadoop_obstacle(spark: SparkSession, root: str, uri: str) -> str | None:
    """Why the session's Hadoop can't read this object; None if it can.

    It needs the scheme, and credentials and an endpoint that find the object. Asked once a bucket, by one request;
    pyspark itself comes without S3, GCS and Azure.
    """
    if is_connect(spark):
        return f"a Spark Connect client can't ask if the server reaches it; {NATIVE_CONF}=always says that it does"
    known = (id(spark), root)
    if known not in _obstacles:
        from py4j.protocol import Py4JJavaError

        jvm, hadoop = spark._jvm, spark._jsc.hadoopConfiguration()
        try:
            path = jvm.org.apache.hadoop.fs.Path(uri)
            found = bool(path.getFileSystem(hadoop).exists(path))
            _obstacles[known] = None if found else f"Spark's Hadoop doesn't find {uri}: check its endpoint"
        except Py4JJavaError as error:
            _obstacles[known] = f"Spark's Hadoop says: {_first_line(str(error.java_exception))}"
    return _obstacles[known]


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "nothing")


def guard(name: str, kind: str, shown: str | None = None) -> str:
    """A column as an expression of the same value that Spark doesn't push to its Parquet reader.

    Arrow leaves NaNs out of Parquet's statistics, and Spark skips row groups by them: `x > 5` would lose the
    NaNs, which are greater, with their row group.

    >>> guard("x", "FLOAT")
    "nanvl(`x`, float('NaN')) AS `x`"
    """
    return f"{_guarded(quote(name), parse(kind))} AS {quote(shown or name)}"


def _guarded(path: str, kind: Type) -> str:
    if isinstance(kind, Scalar) and kind.name in ("FLOAT", "DOUBLE"):
        return f"nanvl({path}, {kind.name.lower()}('NaN'))"
    if isinstance(kind, Struct) and holds_floats(str(kind)):
        fields = [f"{_text(name)}, {_guarded(f'{path}.{quote(name)}', inner)}" for name, inner in kind.fields]
        return f"CASE WHEN {path} IS NOT NULL THEN named_struct({', '.join(fields)}) END"
    return path


def _text(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def quote(name: str) -> str:
    """A column's name as Spark's expressions take it, dots and all."""
    return "`" + name.replace("`", "``") + "`"


NATIVE_CONF = "spark.firn.nativeScan"
"""Spark setting: `auto` (the default), `always` or `never` use Spark's own Parquet reader."""

# Whatever the session says: a missing file is no empty one, days before 1582 are proleptic Gregorian, and pages that
# have a checksum are held to it.
_READ_OPTIONS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "parquet.page.verify-checksum.enabled": "true",
}


def native_paths(bucket: Bucket, keys: Sequence[str], spark: SparkSession) -> list[str] | None:
    """Objects as Spark's Hadoop names them, or None where it can't reach them, or isn't to be asked. The log says
    why the rows of a whole table go through tasks, once a bucket."""
    mode = spark.conf.get(NATIVE_CONF, "auto")
    if mode not in ("auto", "always", "never"):
        raise InvalidInputError(f"{NATIVE_CONF} is {mode!r}; it can be auto, always or never.")
    if mode == "never" or not keys:
        return None
    if spark.conf.get("spark.sql.caseSensitive", "false") == "true":
        # a file that spells a column otherwise would read as null
        say_why_tasks(bucket, "spark.sql.caseSensitive is true")
        return None
    local = [bucket.local_path(key) for key in keys]
    if all(path is not None for path in local):
        return [escape_glob(path) for path in local if path is not None]
    uris = [hadoop_uri(bucket, key) for key in keys]
    obstacle = None if mode == "always" else hadoop_obstacle(spark, bucket.url, uris[0])
    if obstacle is not None:
        say_why_tasks(bucket, obstacle)
        return None
    return [escape_glob(uri) for uri in uris]


_log = logging.getLogger("firn")
_said: set[tuple[str, str]] = set()


def say_why_tasks(bucket: Bucket, why: str) -> None:
    """Log once why rows of a bucket go through Python tasks, which takes three to four times as long."""
    if (bucket.url, why) not in _said:
        _said.add((bucket.url, why))
        _log.warning("Spark reads %s through Python tasks and not by its own reader: %s", bucket.url, why)


def parquet_frame(spark: SparkSession, schema: StructType, paths: Sequence[str]) -> DataFrame:
    """Files by Spark's own reader."""
    if is_connect(spark):
        # Planned on the server at each action, so the setting has to stay; the session is this client's own.
        if int(spark.conf.get(DISCOVERY_CONF, "32")) < DISCOVERY_THRESHOLD:
            spark.conf.set(DISCOVERY_CONF, str(DISCOVERY_THRESHOLD))
        planning: Any = nullcontext()
    else:
        planning = conf(spark, {DISCOVERY_CONF: str(DISCOVERY_THRESHOLD)})
    with planning:
        reader = spark.read.schema(schema).options(**_READ_OPTIONS)
        try:
            frame: DataFrame = reader.parquet(*paths)
        except Exception as error:
            if _NO_FILE_SYSTEM.search(str(error)) is None:
                raise
            scheme = paths[0].partition(":")[0]
            raise UnsupportedError(
                f"Spark has no file system for {scheme}: paths like {paths[0]}. Start it with the jar that has it "
                "(for s3a spark.jars.packages=org.apache.hadoop:hadoop-aws of its Hadoop's version), or set "
                f"{NATIVE_CONF} to auto."
            ) from error
    return frame


_NO_FILE_SYSTEM = re.compile(
    r"No FileSystem for scheme|ClassNotFoundException|UNSUPPORTED_FILE_SYSTEM|NoClassDefFound"
)
