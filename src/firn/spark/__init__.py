"""Spark: it schedules; Arrow and DuckDB compute.

`session` finds or starts a session, `runner` maps maintenance tasks over it, `append` and `scan` move
DataFrames in and out of lake tables, `source` and `streaming` are the data source `firn`, `sql` runs queries.
Nothing here imports pyspark before it is needed, so that Firn works without it. Start reading in `scan`.
"""

from __future__ import annotations

from firn.spark.session import active, active_or_start

__all__ = ["active", "active_or_start"]
