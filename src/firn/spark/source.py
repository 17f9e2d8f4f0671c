"""The data source `firn` for batches: `spark.read.format("firn").load("./prod/flights")`, and back.

Spark makes these objects in short-lived Python processes on the driver, pickles them from one to the next,
and plans anew at every action; so a read is pinned to one snapshot as soon as Spark asks for the schema. A
temporary view `USING firn` stays at the snapshot of its creation, too.

| option | |
| --- | --- |
| `path`, or `url` and `table` | which table |
| `columns` | only these, between commas or as a JSON list (Spark doesn't tell a Python source) |
| `where` | a predicate in DuckDB's SQL |
| `at` | a version or a time; on writers' catalogs also a vector like `a=3,b=7`; on record tables a commit's number |
| `partitionBy`, `sortBy`, `journal` | for a table that a write creates |
| `writer` | the writer to commit as, to a table of writers' catalogs |
| `strict` | `true`: read no table while one of its writers can't be read |
| `changes` | `true`: each put, delete and merge operand of a keyed or record table, by `_kind`, in `_seq`'s order |
| `since` | changes after this version only |
| `startingTime`, `maxFilesPerTrigger` | for streams: see `firn.spark.streaming` |
| `store.<name>` | options of the store, as `firn.connect(options=)` takes them |

A schema that the user gives to Spark names columns of the table. If that is a record table without declared columns,
the schema names fields of documents, under types that these have.

Spark's own filters prune nothing: it keeps what a Python source has pruned by one filter for all later uses of the
same `load()`, filtered otherwise or not at all, which then lack rows. `where` has no such catch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, DataSourceWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter
    from pyspark.sql.types import StructType


from firn.spark.batch import TableReader, TableWriter, narrowed_to
from firn.spark.source_table import SourceTable


class TableSource(SourceTable):
    """One table as Spark's data source sees it; `pyspark_firn.DefaultSource` hands every call on to it."""

    def reader(self, schema: StructType) -> DataSourceReader:
        return TableReader(narrowed_to(self.pinned or self.plan(schema), schema), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return TableWriter(self, schema, overwrite)

    def stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        from firn.spark.streaming import stream_reader

        return stream_reader(self, schema)

    def stream_writer(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from firn.spark.streaming import TableStreamWriter

        return TableStreamWriter(self, schema, overwrite)
