"""Spark schedules; Arrow and DuckDB compute.

`session` finds or starts a session. `source` and `streaming` know a table as a `TableRead` (`firn.reads`), and ask
its kind for what Spark needs besides (`plan`); `lake`, `keyed` and `records` answer. Nothing here imports pyspark
before it is needed, so that Firn works without it. Begin at `plan`, then `frames`.
"""

from __future__ import annotations

from firn.spark.session.session import active, active_or_start

__all__ = ["active", "active_or_start"]
