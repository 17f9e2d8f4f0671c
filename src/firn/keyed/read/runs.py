"""The sorted runs of a manifest: SSTs whose keys don't overlap, the newest run first. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from firn.journal.manifest.model import SSTInfo

Run = tuple[SSTInfo, ...]
"""The SSTs of one sorted run, in key order."""


def runs_of(ssts: Iterable[SSTInfo]) -> list[Run]:
    """Sorted runs, newest first: level ascending, run descending; each run's SSTs in key order."""
    by_age: dict[tuple[int, int], list[SSTInfo]] = {}
    for sst in ssts:
        by_age.setdefault((sst.level, -sst.run), []).append(sst)
    return [tuple(sorted(by_age[age], key=lambda sst: sst.min_key)) for age in sorted(by_age)]
