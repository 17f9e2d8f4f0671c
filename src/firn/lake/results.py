"""Answers of a table's verbs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
    """A merge, rewrite, delete, overwrite, removal or restore. `version` is None for a dry run and where there was
    nothing to do. `rows_deleted` are the rows that a delete or a removal took, as its caller counts them;
    `rows_removed` and `rows_added` those of the files that went and came, rows that were only written anew
    among them. Rows are None where nobody counted them: in files of the reference, and those that a soft delete
    takes. `files_marked` are files that stay, with a soft delete on them; `files` are the paths of those and of
    the removed ones. `foreign_files` are files of other writers that match too, and are theirs to change.
    `moved_files` are files that stay, in directories of partitions that were removed: values of the partition's
    column are set aside there, so their rows are in none of them. `delete(where)` finds these rows."""

    op: str
    version: str | None
    rows_deleted: int | None = field(default=None, kw_only=True)
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
    moved_files: int = 0


@dataclass(frozen=True)
class LostFile:
    """A data file that can't be read, by what the table's log says of it: how many rows it had, deleted ones too,
    its partition, the least and greatest value of its columns, and the soft deletes on it. None is unknown. `why` is
    how it can't be read."""

    path: str
    why: str
    rows: int | None
    bytes: int
    partition: Mapping[str, str | None]
    bounds: Mapping[str, tuple[Any, Any]]
    soft_deletes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ForgetResult:
    """The files that `forget_files` let go of; `version` is None for a dry run.

    Rows are None where the log doesn't know them. `uncovers` is True for a table with a key: rows of the lost files
    may have hidden older versions, and deletions in them older rows, which are seen again.
    """

    version: str | None
    files: tuple[LostFile, ...]
    rows: int | None
    bytes: int
    uncovers: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class MendReport:
    """The objects that `mend_table` wrote anew, or would write, by their URLs."""

    objects: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True)
class DropReport:
    """The objects that dropping a table deleted, or would delete.

    `objects` are keys, `bytes` their sizes' sum. If the table has a log of its own, these are all its objects but the
    definition that stays; those of a log in another store are URLs. If the table is one of writers' catalogs, these
    are the data files that the writer's part has, which stay until `prune` and `sweep`. `writer` is that writer, and
    `still_has` are the others that have a part of it.
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
