"""Checkpoints: views of a keyed table that stay readable until they expire (the paper's snapshots)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from firn.errors import UnsupportedError

if TYPE_CHECKING:
    from firn.journal.manifest.model import View
    from firn.keyed.table import KeyedTable


@dataclass(frozen=True)
class Checkpoint:
    """A view that sweep spares. `expires_ms` is Unix milliseconds, None for never; `version` the view's."""

    name: str | None
    id: str
    version: str
    expires_ms: int | None
    _table: KeyedTable = field(repr=False, compare=False)

    def refresh(self, ttl: str | float | timedelta | None) -> Checkpoint:
        """Let it live for `ttl` from now on; None for ever. Raises `SnapshotTooOldError` if it has expired."""
        raise UnsupportedError(f"checkpoint {self.id} can't be refreshed by this version")

    def delete(self) -> None:
        """Let it go: what only it names goes with the next sweep."""
        raise UnsupportedError(f"checkpoint {self.id} can't be deleted by this version")


def checkpoint(
    table: KeyedTable, name: str | None = None, ttl: str | float | timedelta | None = None
) -> Checkpoint:
    """Keep the table as it is now, all that is flushed, readable for `ttl`."""
    raise UnsupportedError(f"{table.name} can't be checkpointed by this version")


def checkpoints(table: KeyedTable) -> list[Checkpoint]:
    """Those that haven't expired, oldest first."""
    raise UnsupportedError(f"{table.name} has no checkpoints in this version")


def view_at(table: KeyedTable, at: Any) -> View:
    """The view of a checkpoint, given by name, by id or as itself."""
    raise UnsupportedError(f"{table.name} has no checkpoints in this version")
