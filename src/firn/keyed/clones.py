"""Clones: a new table that begins as another was, without a byte copied.

Its first manifest names the parent's objects by their keys, and a checkpoint of the parent pins them as long as the
clone reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firn.errors import UnsupportedError

if TYPE_CHECKING:
    from firn.keyed.definition import KeyedDefinition
    from firn.keyed.table import KeyedTable


def clone(table: KeyedTable, name: str, at: Any = None) -> KeyedDefinition:
    """Create the table `name` as this one is now, or was at a checkpoint; its definition."""
    raise UnsupportedError(f"{table.name} can't be cloned by this version as {name}")


def clones_of(table: KeyedTable) -> list[str]:
    """Names of the tables that still read this one's objects."""
    raise UnsupportedError(f"{table.name} has no clones in this version")


def release(table: KeyedTable) -> None:
    """Unpin the parent of a clone: before the clone is dropped, or once it reads nothing of its parent."""
    raise UnsupportedError(f"{table.name} is no clone in this version")
