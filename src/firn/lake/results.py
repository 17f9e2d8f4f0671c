"""What the verbs of a table answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class AppendResult:
    """An append: its version; `duplicate` where the batch id had been committed before."""

    version: str
    files: int
    rows: int
    bytes: int
    duplicate: bool = False


@dataclass(frozen=True)
class ChangeResult:
    """A merge, rewrite, delete, overwrite, removal or restore. `version` is None for a dry run and where
    there was nothing to do. Rows are None where files of the reference don't tell them."""

    op: str
    version: str | None
    files_removed: int
    files_added: int
    rows_removed: int | None
    rows_added: int | None
    bytes_removed: int
    bytes_added: int
    files: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True)
class Partition:
    """One partition of a snapshot: values by field name, as its directory spells them (None is null)."""

    values: Mapping[str, str | None]
    files: int
    rows: int | None
    bytes: int
