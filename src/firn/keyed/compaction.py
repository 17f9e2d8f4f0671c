"""Compaction: runs in, one run in their place out.

A plan names the runs; the driver cuts the key space into shares by the files' indices, maps `compact_task` over
them on any Runner and commits what they wrote by one compare-and-swap (paper: "Compaction updates to manifest").
Nobody sees an SST before that, and a crash anywhere leaves only objects that sweep deletes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from firn.errors import UnsupportedError

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable
    from firn.runner import Runner


@dataclass(frozen=True)
class CompactionReport:
    """What a compaction did, or with `dry_run` would begin with.

    `l0_bytes` are those of `bytes_in` that came from L0: what writers had flushed. `version` is the view's
    afterwards, None where there was nothing to do.
    """

    version: str | None
    rounds: int = 0
    tasks: int = 0
    l0_files: int = 0
    l0_bytes: int = 0
    ssts_in: int = 0
    ssts_out: int = 0
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dry_run: bool = False

    @property
    def write_amplification(self) -> float:
        """Bytes written for each byte that writers had flushed; 0.0 where no L0 was read."""
        return self.bytes_out / self.l0_bytes if self.l0_bytes else 0.0


def compact(
    table: KeyedTable, *, full: bool = False, runner: Runner | None = None, dry_run: bool = False
) -> CompactionReport:
    """Compact all of L0, then whatever the table's policy asks for; with `full` everything into one bottom run.

    Takes the compactor's epoch, so another compactor ends with `FencedError`.
    """
    raise UnsupportedError(f"{table.name} can't be compacted by this version")
