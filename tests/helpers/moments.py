"""Moments of commits: tests that need an order of two commits see to it that their times differ."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from firn.journal.model import KnownColumns
from firn.lake.table import LakeTable


def next_millisecond() -> None:
    """Return in a later millisecond: two commits of one, by two handles, have no order of their own."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == now:
        pass


def append_late(table: LakeTable, rows: list[dict[str, Any]], known: Mapping[str, str] | None = None) -> None:
    """Append in a later millisecond, as a process that looked when the table had the columns `known`, or none."""
    next_millisecond()
    columns = KnownColumns(dict(known or {}))
    table.journal.known = lambda **_: columns  # type: ignore[method-assign]
    table.append(rows)
    del table.journal.known
