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
    there was nothing to do. Rows are None where nobody counted them: in files of the reference, and those that
    a soft delete takes. `files_marked` are files that stay, with a soft delete on them; `files` are the paths
    of those and of the removed ones. `foreign_files` are files of other writers that match too, and are theirs to
    change."""

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
    files_marked: int = 0
    foreign_files: int = 0


@dataclass(frozen=True)
class DropReport:
    """What dropping a table deleted, or would delete.

    `objects` are keys, `bytes` their sizes' sum. Of a table with a log of its own: all its objects, those of a log
    in another store by their URLs. Of a table of writers' catalogs: the data files that the writer's part has, which
    stay until `prune` and `sweep`. `writer` is that writer, and `still_has` are the others that have a part of it.
    """

    objects: tuple[str, ...] = ()
    bytes: int = 0
    writer: str | None = None
    still_has: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True)
class Partition:
    """One partition of a snapshot: values by field name, as its directory spells them (None is null)."""

    values: Mapping[str, str | None]
    files: int
    rows: int | None
    bytes: int
