"""Spark schedules; Arrow and DuckDB compute.

`session` finds or starts a session. `source`, `streaming` and `sql` know a table as a `TableRead` (`reads`) and ask
its kind for one (`plan`); `lake`, `keyed` and `records` answer. Nothing here imports pyspark before it is needed, so
that Firn works without it. Begin at `reads`.
"""

from __future__ import annotations

from firn.spark.session.session import active, active_or_start

__all__ = ["active", "active_or_start"]
