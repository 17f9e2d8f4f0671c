"""Sweep: delete the objects of a keyed table that nothing reads any more (paper: "Garbage collection")."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from firn.journal.manifest.model import CollectReport, Manifest
from firn.keyed.context import KeyedContext
from firn.keyed.maintain.alter import sweep_age_s
from firn.keyed.maintain.clones import let_go
from firn.units import parse_duration

SKEW_S = 60.0
"""How far the clocks of processes that make and sweep checkpoints may be apart."""


def sweep(
    table: KeyedContext, *, older_than: str | float | timedelta | None = None, dry_run: bool = False
) -> CollectReport:
    """Delete what neither the table nor a checkpoint of it names, by rules 16-21 of the manifest page.

    The inputs of a compaction go when it is longer ago than the table's `l0_min_age`, so snapshots and scans
    that are younger go on; expired checkpoints go a minute after they have expired. A clone that reads nothing of
    its parent any more lets go of it.

    Args:
        older_than: instead of `l0_min_age`. Anything smaller is your word that no writer of the table is stalled
            or reads by an old view; "0s" drops the minute for skewed clocks too.
        dry_run: only tell what would go.

    Cost: that of reading the table's metadata, 4 LISTs, 1 PUT, 1 HEAD, 1 GET a checkpoint, and the DELETEs. Where an
    older Firn has compacted within that age, or the age has grown, also 1 GET for each manifest that the current one
    doesn't tell of.

    Example:
        >>> import firn
        >>> table = firn.connect("memory://").create_table("delays", kind="keyed")
        >>> with table.open() as kv:
        ...     kv.put(b"DTW", b"66")
        >>> _ = table.compact()
        >>> report = table.sweep(older_than="0s")
        >>> len(report.l0), report.live_ssts
        (1, 1)
    """
    age_s: Callable[[Manifest], float] = partial(sweep_age_s, table)
    buffer_s = SKEW_S
    if older_than is not None:
        given_s = parse_duration(older_than)
        age_s, buffer_s = lambda _: given_s, min(SKEW_S, given_s)
    if not dry_run:
        let_go(table, age_s)
    return table.journal.collect(
        l0_min_age_s=age_s,
        buffer_s=buffer_s,
        dry_run=dry_run,
    )
