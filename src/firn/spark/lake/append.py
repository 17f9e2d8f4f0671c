"""Write a Spark DataFrame as files of a table: each partition's rows go to the bucket from its Python worker.

Nothing here commits: `firn.lake.write.append` and the verbs of `firn.lake.maintain` do, with the files that
successful task attempts returned. No log names the files of failed or doubled attempts, and sweep deletes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.arrow.engine import run_query
from firn.arrow.texts import unchecked
from firn.arrow.types import columns_of
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.columns import of_text
from firn.journal.model import ColumnTypes, KnownColumns, Namer, Snapshot
from firn.lake.context import LakeContext, Written
from firn.lake.maintain.matching.source import staging_spec
from firn.lake.write.append import agreed_columns
from firn.lake.write.write import WriteSpec, write_batches
from firn.names import fold
from firn.predicate.query import Query, whole_rows
from firn.spark.native.parquet import quote
from firn.spark.session.packing import BINS_PER_SLOT
from firn.spark.session.partitions import each_partition
from firn.spark.session.session import ARROW_BATCH_CONF, ARROW_BATCH_ROWS, conf, slots
from firn.spark.session.types import (
    columns_of_schema,
    handed_back,
    incoming_columns,
    recast,
    spark_arrow_schema,
    spark_schema,
)
from firn.spark.session.worker import settle_imports

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType


BATCH_BYTES_CONF = "spark.sql.execution.arrow.maxBytesPerBatch"
SPARKS_BATCH_BYTES = (None, "67108864b", "67108864", "2147483647")
"""Values of that setting where nobody has set it."""
NARROW_BATCH_ROWS = 16_384
NARROW_ROW_BYTES = 1024

DIRECT_PARTITIONS = 64
"""Partitions up to which each task writes all of them; above, rows of a partition are brought together first:
1,000 partitions written directly cost three times the memory and twice the files."""


def write_dataframe(
    table: LakeContext, frame: DataFrame, namer: Namer, *, query: str | None, by: Snapshot | None
) -> Written:
    """Write the rows as files that nobody sees yet. See `firn.spark.plan.SparkKind.load`.

    `query` is a SELECT over `_rows` in DuckDB's SQL, computed by DuckDB in tasks, row by row.
    Cost: 1 LIST sequence and the logs that aren't cached, for the snapshot by which rows are distributed and
    `batch_limits` set; 1 PUT a file. Each input partition makes at least one file of each table partition it has
    rows of.
    """
    spark = frame.sparkSession
    began = table.journal.moment() if by is None else None
    known = table.journal.known() if by is None else KnownColumns.of(by)
    if query is None:
        incoming = incoming_columns(frame.schema, known.columns)
    else:
        frame, given = queried(frame, query)
        kinds = {fold(name): kind for name, kind in known.columns.items()}
        incoming = incoming_columns(frame.schema, given)
        incoming = {name: of_text(kind, kinds.get(fold(name), kind)) for name, kind in incoming.items()}
    if not incoming:
        raise InvalidInputError(
            f"the DataFrame has no column with a type, so there is nothing to append to {table.name}"
        )
    aside = frozenset() if by is None else by.aside
    table, columns, all_columns = agreed_columns(
        table.at(known), known, incoming, began, frame.columns, aside=aside
    )
    texts = unchecked(columns_of_schema(frame.schema), incoming)
    spec = WriteSpec.of(table, columns, namer, aside=aside, texts=texts)
    spec = spec.checking(table.definition, all_columns)
    present = by or table.journal.snapshot()
    frame = distributed(table, present, frame.select(*[quote(name) for name in incoming]), spec)
    with conf(spark, batch_limits(frame, present)):
        return _written(table, frame, spec)


def stage_dataframe(table: LakeContext, frame: DataFrame, namer: Namer) -> Written:
    """Write the rows as they come, in types of their own, for a statement that reads them. 1 PUT a file, at least one
    each partition that isn't empty."""
    known = table.journal.known().columns
    incoming = incoming_columns(frame.schema, known)
    kinds = {fold(name): kind for name, kind in known.items()}
    columns = {name: incoming.get(name) or kinds.get(fold(name), "INTEGER") for name in frame.columns}
    frame = frame.select(*[quote(name) for name in incoming or columns])
    with conf(frame.sparkSession, {ARROW_BATCH_CONF: str(ARROW_BATCH_ROWS)}):
        return _written(table, frame, staging_spec(namer, columns))


def _written(table: LakeContext, frame: DataFrame, spec: WriteSpec) -> Written:
    parts = each_partition(
        frame,
        table.bucket,
        partial(write_batches, table.bucket, spec),
        description="firn: write",
        progress=table.engines.progress(f"write {table.name}"),
    )
    return Written([file for files in parts for file in files], spec.columns, spec.naming)


def batch_limits(frame: DataFrame, present: Snapshot) -> dict[str, str]:
    """Settings by which Spark hands rows over: how many at once, and whether it counts their bytes.

    Spark weighs every column anew after each row, to end a batch in time; that is half the time of handing
    over. Rows known to be narrow needn't be weighed: no binary or nested columns, and files so far of under a
    kilobyte a row. A limit of bytes that the user has set holds.
    """
    from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, VariantType

    wide = (ArrayType, BinaryType, MapType, StructType, VariantType)
    limit = frame.sparkSession.conf.get(BATCH_BYTES_CONF, None)
    rows = sum(file.rows or 0 for file in present.files)
    stored = sum(file.size for file in present.files if file.rows)
    if (
        limit not in SPARKS_BATCH_BYTES
        or any(isinstance(field.dataType, wide) for field in frame.schema)
        or stored > NARROW_ROW_BYTES * max(rows, 1)
    ):
        return {ARROW_BATCH_CONF: str(ARROW_BATCH_ROWS)}
    return {ARROW_BATCH_CONF: str(NARROW_BATCH_ROWS), BATCH_BYTES_CONF: "2147483647"}


def distributed(table: LakeContext, present: Snapshot, frame: DataFrame, spec: WriteSpec) -> DataFrame:
    """The DataFrame with the rows of each table partition in one task, if the table has many partitions.

    By the property `write_distribution`: `hash` always, `none` never, `auto` where the table has more than 64
    partitions now, or more than 64 buckets.
    """
    choice = table.definition.setting("write_distribution")
    keys = distribution_keys(spec, frame)
    if not keys or choice == "none":
        return frame
    if choice == "auto" and not _many_partitions(table, present, spec):
        return frame
    return frame.repartition(BINS_PER_SLOT * slots(frame.sparkSession), *keys)


def _many_partitions(table: LakeContext, present: Snapshot, spec: WriteSpec) -> bool:
    buckets = math.prod(f.argument or 1 for f in spec.partition.fields if f.transform == "bucket")
    return buckets > DIRECT_PARTITIONS or len(table.partitions_of(present)) > DIRECT_PARTITIONS


def distribution_keys(spec: WriteSpec, frame: DataFrame) -> list[Any]:
    """Spark expressions that are equal for rows of one partition. Buckets of texts and decimals have none:
    rows are brought together by the other fields."""
    from pyspark.sql import functions as F  # noqa: N812

    spelled = {fold(name): name for name in frame.columns}
    keys = []
    for field in spec.partition.fields:
        name = spelled.get(fold(field.source))
        if name is None:
            continue
        column = F.col(quote(name))
        if field.transform == "bucket":
            number = bucket_number(column, dict(frame.dtypes)[name], field.argument or 1)
            keys += [] if number is None else [number]
            continue
        if field.transform in ("year", "month", "day", "hour"):
            column = F.date_trunc(field.transform, column)
        elif field.transform == "truncate":
            text = dict(frame.dtypes)[name] == "string"
            column = (
                F.substring(column, 1, field.argument)
                if text
                else column - F.pmod(column, F.lit(field.argument))
            )
        keys.append(column)
    return keys


_SEED_ZERO = -1693959553
"""The integer that Spark's `hash`, whose seed is 42, takes to 0. It hashes column after column, each with the
hash so far as its seed: after this one, a long's hash is Murmur3 with seed 0, as Firn's buckets have it."""


def bucket_number(column: Column, kind: str, buckets: int) -> Column | None:
    """A column's bucket in Spark's SQL; None for types that Spark hashes otherwise."""
    from pyspark.sql import functions as F  # noqa: N812

    if kind in ("tinyint", "smallint", "int", "bigint"):
        long = column.cast("long")
    elif kind == "date":
        long = F.unix_date(column).cast("long")
    elif kind == "timestamp":
        long = F.unix_micros(column)
    else:
        return None
    return F.hash(F.lit(_SEED_ZERO), long).bitwiseAND(0x7FFFFFFF) % buckets


def queried(frame: DataFrame, text: str) -> tuple[DataFrame, ColumnTypes]:
    """The DataFrame's rows after a query, computed by DuckDB in tasks; also the types that DuckDB gives its columns.

    The query is DuckDB's, and Spark would answer otherwise: it truncates where DuckDB rounds. A task sees some of
    the rows, in no order, so each row's result must depend on that row alone.

    Raises:
        UnsupportedError: the query aggregates, orders, joins or in another way looks at several rows; or a column
            has a type that Spark can't hand back.
    """
    query = Query.parse(text, "_rows")
    query.check_row_by_row()
    names = list(frame.columns)
    empty = run_query(query.sql, {"_rows": spark_arrow_schema(frame.schema).empty_table()})
    if empty.num_rows:
        raise UnsupportedError(whole_rows(text, "an aggregate"))
    given = columns_of(empty.schema)
    schema = spark_schema(given)
    for name, kind in given.items():
        if not handed_back(kind):
            raise UnsupportedError(
                f"the query {text!r} gives the column {name!r} the type {kind}, which Spark can't hand back: "
                "cast it, for instance to VARCHAR."
            )
    wanted = spark_arrow_schema(_numbered(schema))
    sql = query.sql

    def compute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from firn.spark.lake.append import query_batches

        return query_batches(sql, names, batches, wanted)

    # mapInArrow takes a dot in a column's name for a field of a struct.
    numbered = frame.toDF(*[f"c{number}" for number in range(len(names))])
    return numbered.mapInArrow(compute, _numbered(schema)).toDF(*given), given


def _numbered(schema: StructType) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [StructField(f"c{number}", field.dataType) for number, field in enumerate(schema.fields)]
    )


def query_batches(
    sql: str, names: Sequence[str], batches: Iterator[pa.RecordBatch], wanted: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """In a worker: a query's result over each batch, in exactly the schema `wanted`."""
    for batch in batches:
        rows = pa.Table.from_batches([batch]).rename_columns(list(names))
        result = run_query(sql, {"_rows": rows}).rename_columns(wanted.names)
        yield from recast(result, wanted).to_batches(max_chunksize=ARROW_BATCH_ROWS)
    settle_imports()
