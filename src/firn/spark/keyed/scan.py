"""A keyed table's read as a Spark DataFrame.

Where a group of files that share no key with others is one compacted file, Spark's own reader reads the columns it
needs. Tasks merge the other groups.

A compacted file holds live rows, and deletes and expired entries that a filter leaves out. Keys are stored encoded;
the columns of a typed key that a query uses are decoded by Spark's own functions, or where these can't by one over
Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.errors import UnsupportedError
from firn.keyed.encoding.entries import PUT
from firn.keyed.maintain.key_shares import KeyRange
from firn.keyed.plan.key_ranges import EVERYTHING
from firn.keyed.plan.read import KeyedRead
from firn.keyed.plan.units import KeyFile
from firn.spark.frames import frame_of_tasks
from firn.spark.keyed.key_sql import key_expressions
from firn.spark.native.agreement import runs_in_spark
from firn.spark.native.parquet import guard, native_paths, parquet_frame, quote
from firn.spark.session.types import natively_readable, recast, spark_arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from firn.keyed.encoding.keys import Keys

FILTERED_RANGES = 16
"""Up to so many ranges of keys, Spark's reader is told each of them; beyond, only the first key and the last."""


def read_to_spark(read: KeyedRead, spark: SparkSession) -> DataFrame:
    """The read's rows: a union of what Spark reads and what tasks do.

    They stay readable until compaction has replaced a file and sweep deleted it; those of a checkpoint as long as it
    is kept.

    Raises:
        UnsupportedError: a column whose type Spark lacks.

    Cost: Spark's reader asks for footers and column chunks; a task makes 1 ranged GET a file for its index, and 1 a
    span of blocks.
    """
    groups = read.groups()
    # Whether an older file lacks a column with a default, or has a narrower type, only tasks find out.
    clock = max((read.definition.since.get(name, 0) for name in read.needed), default=0)

    def is_plain(group: Sequence[KeyFile]) -> bool:
        return len(group) == 1 and group[0].plain and group[0].clock >= clock

    plain = [group[0] for group in groups if is_plain(group)]
    paths = (
        native_paths(read.bucket, [file.key for file in plain], spark)
        if _reads_natively(read, spark)
        else None
    )
    parts: list[DataFrame] = []
    if paths is not None:
        # A filter costs the columns that it reads, so files that need none go by themselves.
        for hides in (False, True):
            mine = [path for path, file in zip(paths, plain, strict=True) if file.hides == hides]
            if mine:
                parts.append(_native(read, mine, hides, spark))
        groups = [group for group in groups if not is_plain(group)]
    units = read.units_of(groups)
    if units or not parts:
        parts.append(frame_of_tasks(read, units, spark))
    return reduce(lambda frame, part: frame.unionByName(part), parts)


def _reads_natively(read: KeyedRead, spark: SparkSession) -> bool:
    """Whether Spark's reader gives the values that a merge does, and understands the predicate as DuckDB does."""
    values = [kind for name, kind in read.needed.items() if name in read.value_columns]
    if not all(natively_readable(kind, kind, ours=True) for kind in values):
        return False
    return read.predicate is None or runs_in_spark(read.predicate, read.known, spark)


def _native(read: KeyedRead, paths: Sequence[str], hides: bool, spark: SparkSession) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    values = {name: kind for name, kind in read.needed.items() if name in read.value_columns}
    called = {name: read.definition.stored.get(name, name) for name in values}
    own = {called[name]: kind for name, kind in values.items()}
    stored = {"key": "BLOB", "kind": "TINYINT", "expire_at": "BIGINT", **own}
    frame = parquet_frame(spark, spark_schema(stored), paths)
    if hides:
        seen = F.col("expire_at").isNull() | (F.col("expire_at") > F.lit(read.now_ms))
        frame = frame.where((F.col("kind") == F.lit(PUT)) & seen)
    if read.ranges != EVERYTHING:
        frame = frame.where(_within(read, F.col("key")))
    found = _key_columns(read) if read.keys.typed else {"key": F.col("key")}
    found |= {name: F.expr(guard(called[name], kind)).alias(name) for name, kind in values.items()}
    if read.predicate is None:
        return frame.select(*[found[name] for name in read.columns])
    frame = frame.select(*[found[name] for name in read.needed]).where(read.predicate.spark_sql)
    return frame.select(*[quote(name) for name in read.columns])


def _key_columns(read: KeyedRead) -> dict[str, Any]:
    """The columns of a typed key that the read needs, decoded."""
    from pyspark.sql import functions as F  # noqa: N812

    wanted = [name for name in read.key_columns if name in read.needed]
    schema = spark_schema(read.key_columns)
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    texts = key_expressions("key", read.key_columns, types, wanted)
    if texts is not None:
        return {name: F.expr(texts[name]).alias(name) for name in wanted}
    decoded = _decoder(read.keys)(F.col("key"))
    return {name: decoded.getField(name).alias(name) for name in wanted}


def _within(read: KeyedRead, key: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    ranges = read.ranges
    if len(ranges) > FILTERED_RANGES:
        ranges = (KeyRange(ranges[0].start, ranges[-1].end),)
    tests = []
    for one in ranges:
        test = F.lit(True)
        if one.start is not None:
            test = test & (key >= F.lit(bytearray(one.start)))
        if one.end is not None:
            test = test & (key < F.lit(bytearray(one.end)))
        tests.append(test)
    return reduce(lambda left, right: left | right, tests)


def _decoder(keys: Keys) -> Any:
    """A function of Spark's from an encoded key to a struct of its columns."""
    from pyspark.sql import functions as F  # noqa: N812

    if not hasattr(F, "arrow_udf"):
        raise UnsupportedError("typed keys need pyspark 4.1 or later")
    schema = spark_schema(keys.columns or {})
    wanted = spark_arrow_schema(schema)

    def decode(encoded: pa.Array) -> pa.Array:
        columns = keys.decode_array(encoded)
        rows = recast(pa.RecordBatch.from_arrays(columns, names=wanted.names), wanted)
        return rows.combine_chunks().to_struct_array().combine_chunks()

    return F.arrow_udf(decode, schema)
