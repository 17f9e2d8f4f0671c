"""Spark finds this package by its name and registers `DefaultSource`: `spark.read.format("firn")` just works.

Spark imports every package called `pyspark_*` when it looks for data sources, and one that fails to import
breaks the look-up of all of them. So nothing but pyspark is imported here; Firn is, once a method is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from firn.spark.source import TableSource

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):  # type: ignore[misc]
    """The data source `firn`: lake tables, for batches and streams. See `firn.spark.source`."""

    @classmethod
    def name(cls) -> str:
        return "firn"

    def schema(self) -> StructType:
        return self._table.schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        return self._table.reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return self._table.writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return self._table.stream_reader(schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        return self._table.stream_writer(schema, overwrite)

    @property
    def _table(self) -> TableSource:
        from firn.database.database import connect, split_table_url
        from firn.spark.session.options import SourceOptions
        from firn.spark.source import TableSource

        # Spark pickles this object after schema(): what it pins there, every later action reads.
        state: dict[str, Any] = self.__dict__
        if "_source" not in state:
            options = SourceOptions.parse(dict(self.options), split_table_url)
            state["_source"] = TableSource(options, connect)
        source: TableSource = state["_source"]
        return source
