"""The compactor: its epoch (rule 10), its SSTs and its commits (rules 11 to 13)."""

from __future__ import annotations

from collections.abc import Sequence

from firn.errors import UnsupportedError
from firn.journal.manifest.model import SSTInfo, View


class CompactorSession:
    """The right to compact a table, until another compactor takes it. `epoch`: this compactor's."""

    epoch: int

    @property
    def view(self) -> View:
        """The newest view that this session has made or read. No request."""
        raise UnsupportedError("not yet")

    def refresh(self) -> View:
        """Read anew. LIST + GET, and 1 GET a new manifest.

        Raises:
            FencedError: another compactor has taken over.
        """
        raise UnsupportedError("not yet")

    def next_sst_number(self) -> int:
        """A number for an SST, never given twice. No request. The number may be used by a task anywhere."""
        raise UnsupportedError("not yet")

    def reserve_ssts(self, count: int) -> range:
        """Numbers for tasks of other processes; those that stay unused are no harm. No request."""
        raise UnsupportedError("not yet")

    def sst_file(self, number: int) -> str:
        """What `SSTInfo.file` is for this number."""
        raise UnsupportedError("not yet")

    def sst_key(self, number: int) -> str:
        """The object's whole key in the bucket for this number."""
        raise UnsupportedError("not yet")

    def put_sst(self, number: int, data: bytes) -> None:
        """Put an SST up. 1 PUT. The same bytes again are fine; for other bytes take another number.

        Raises:
            ObjectExistsError: the number was used for other bytes.
        """
        raise UnsupportedError("not yet")

    def commit(
        self,
        *,
        adds: Sequence[SSTInfo],
        deletes: Sequence[SSTInfo],
        last_compacted: int,
        in_flight: int | None = None,
    ) -> View:
        """Make SSTs part of the table and others not, with all L0 up to `last_compacted` in them (rules 11 to 13).

        `last_compacted` is the one of the manifest where only SSTs are merged; -1 while no L0 is compacted. `in_flight`: the
        lowest number of this session whose SST isn't in any commit yet and shall be in a later one; None if there is none.
        2 PUTs; after a conflict also 1 GET and 1 PUT each.

        Raises:
            FencedError: another compactor has taken over; nothing of this is visible.
            InvalidInputError: a deleted SST isn't in the manifest, an added one is, or `last_compacted` wasn't walked.
        """
        raise UnsupportedError("not yet")
