"""Spark: it schedules; Arrow and DuckDB compute.

`session` finds or starts a session, `runner` maps maintenance tasks over it, `append` and `keyed_load` write
DataFrames. `reads` is what the data source `firn` (`source`, `streaming`) and queries (`sql`) know of a table;
`lake_read` and `keyed_read` are its two kinds. Nothing here imports pyspark before it is needed, so that Firn works
without it. Start reading in `reads`.
"""

from __future__ import annotations

from firn.spark.session.session import active, active_or_start

__all__ = ["active", "active_or_start"]
