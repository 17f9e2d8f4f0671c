"""Answers of a table's verbs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """A merge, update, rewrite, delete, overwrite, removal or restore.

    Attributes:
        op: what it was.
        version: the version that it made; None for a dry run, and where there was nothing to do.
        rows_inserted, rows_updated, rows_deleted: the rows that came, changed and went, as the caller counts them. A
            row that was only written anew is none of these. A query's rows are all inserted, and those that it read
            deleted. None where nobody counted: in files of the reference, what a soft delete takes, and in a dry run
            what only writing would tell.
        files_added, files_removed, bytes_added, bytes_removed: the files that came and went.
        files: the paths of the removed files, and of those that a soft delete marks.
        files_marked: files that stay, with a soft delete on them.
        foreign_files: files of other writers that match too, and are theirs to change.
        moved_files: files that stay, in directories of partitions that were removed: values of the partition's column
            are set aside there, so their rows are in none of them. `delete(where)` finds these rows.
    """

    op: str
    version: str | None = None
    rows_inserted: int | None = 0
    rows_updated: int | None = 0
    rows_deleted: int | None = 0
    files_added: int = 0
    files_removed: int = 0
    bytes_added: int = 0
    bytes_removed: int = 0
    files: tuple[str, ...] = ()
    dry_run: bool = False
    files_marked: int = 0
    foreign_files: int = 0
    moved_files: int = 0


def joined(results: Sequence[ChangeResult]) -> ChangeResult:
    """The answer of a verb that made several commits, the last of which is its version."""
    if len(results) == 1:
        return results[0]

    def rows(name: str) -> int | None:
        counts = [getattr(result, name) for result in results]
        return None if None in counts else sum(counts)

    return ChangeResult(
        results[-1].op,
        next((r.version for r in reversed(results) if r.version is not None), None),
        rows_inserted=rows("rows_inserted"),
        rows_updated=rows("rows_updated"),
        rows_deleted=rows("rows_deleted"),
        files_added=sum(r.files_added for r in results),
        files_removed=sum(r.files_removed for r in results),
        bytes_added=sum(r.bytes_added for r in results),
        bytes_removed=sum(r.bytes_removed for r in results),
        files=tuple(path for r in results for path in r.files),
        foreign_files=max(r.foreign_files for r in results),
    )


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


@dataclass(frozen=True)
class AppenderStats:
    """What an appender has done.

    Attributes:
        rows: rows that are durable.
        commits: batches that are, those too that were committed before.
        pending: rows that aren't durable yet.
        retries: tries that failed, of all batches.
        rejected: rows that didn't fit, and were handed to `on_reject`.
        version: the table's version that the last commit made; None before the first.
        last_error: the error of the last try of a batch; None if it went well.
    """

    rows: int
    commits: int
    pending: int
    retries: int
    rejected: int
    version: str | None
    last_error: str | None
