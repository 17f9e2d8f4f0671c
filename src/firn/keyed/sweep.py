"""Sweep: delete the objects of a keyed table that nothing reads any more (paper: "Garbage collection")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from firn.errors import UnsupportedError

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable


@dataclass(frozen=True)
class SweepReport:
    """Keys deleted, by what they were ("l0", "fences", "ssts", "manifests", "snapshots"); how many objects live."""

    deleted: Mapping[str, tuple[str, ...]]
    live: Mapping[str, int]
    dry_run: bool = False


def sweep(
    table: KeyedTable,
    *,
    l0_min_age: str | float | timedelta | None = None,
    buffer: str | float | timedelta | None = None,
    dry_run: bool = False,
) -> SweepReport:
    """Delete what neither the table nor a checkpoint of it names, by rules 16-20 of the manifest page."""
    raise UnsupportedError(f"{table.name} can't be swept by this version")
