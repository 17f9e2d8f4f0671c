"""Results of verbs of keyed tables: reports of loads, and figures of open writers and readers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoadReport:
    """`version` is the view's after the load; `runs` how many runs the rows became."""

    version: str
    rows: int
    ssts: int
    bytes: int
    runs: int = 1


@dataclass(frozen=True)
class WriterStats:
    """An open writer in figures; counts since it was opened.

    `unflushed_bytes` is what a crash would lose of puts that weren't durable, about. `stalls` counts puts that had to
    wait for room, `retries` tries of flushes that the store failed. `last_error` is that of the background's
    last try.
    """

    epoch: int
    flushes: int
    flushed_bytes: int
    unflushed_bytes: int
    memtables: int
    l0: int
    ssts: int
    runs: int
    stalls: int
    retries: int
    compactions: int
    cache_bytes: int
    cache_hits: int
    cache_misses: int
    last_error: str | None


@dataclass(frozen=True)
class ReaderStats:
    """An open reader in figures: what it reads, and the table's cache, which all handles in the process share.

    `refreshes` counts looks for newer flushes since it was opened.
    """

    version: str
    l0: int
    ssts: int
    runs: int
    refreshes: int
    cache_bytes: int
    cache_hits: int
    cache_misses: int
