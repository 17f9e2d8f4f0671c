"""Lost files: data files that are missing or damaged, and how the table lets them go."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from firn.errors import FirnError, InvalidInputError, StoreError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import Commit, DataFile, Snapshot
from firn.lake.context import LakeContext
from firn.lake.partition.partition import values_of
from firn.lake.read.decode import ReadSpec
from firn.lake.read.read import read_file
from firn.lake.results import ForgetResult, LostFile

_EPOCH = datetime(1970, 1, 1)


def forget_files(table: LakeContext, paths: str | Sequence[str], *, dry_run: bool) -> ForgetResult:
    """See `LakeTable.forget_files`."""
    paths = [paths] if isinstance(paths, str) else paths
    if not paths:
        raise InvalidInputError("forget_files needs at least one path.")
    journal = table.journal
    if isinstance(journal, LeaderlessJournal) and any(map(journal.is_log, paths)):
        if not all(map(journal.is_log, paths)):
            raise InvalidInputError(
                "forget_files takes damaged logs, or data files: name the logs first, and the files in a call "
                "of their own, as the table can be read by then."
            )
        gone = journal.forget_logs(paths, dry_run=dry_run)
        lost = [LostFile(log.key, str(log.error).partition(". ")[0], None, log.size, {}, {}) for log in gone]
        return _result(table, lost, dry_run=dry_run, version=None if dry_run else journal.snapshot().version)
    if dry_run:
        return _result(table, _judge(table, table.journal.snapshot(), paths), dry_run=True)
    with table.journal.exclusive("forget") as session:
        lost = _judge(table, session.snapshot, paths)
        result = _result(table, lost, dry_run=False)
        commit = Commit(
            "forget",
            removes=[file.path for file in lost],
            summary={"rows_removed": result.rows, "bytes_removed": result.bytes},
        )
        return _result(table, lost, dry_run=False, version=session.publish(commit))


def _judge(table: LakeContext, snapshot: Snapshot, paths: Sequence[str]) -> list[LostFile]:
    """The files, if all of them are live, lost, and this connection's."""
    live = {file.path: file for file in snapshot.files}
    root = table.bucket.uri("")
    keys = dict.fromkeys(path.removeprefix(root) for path in paths)
    for key in keys:
        if key not in live:
            near = difflib.get_close_matches(key, live, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise InvalidInputError(
                f"{table.name} has no file {key} now: nothing was changed. It was let go, replaced or removed, "
                f"or never was the table's. Name files as the error does that says they are lost.{hint}"
            )
        if not table.journal.owns(key):
            raise InvalidInputError(
                f"{table.bucket.uri(key)} is another writer's file: nothing was changed. Connect as that writer, "
                "which alone can let it go."
            )
    return [_lost(table, snapshot, live[key]) for key in keys]


def _lost(table: LakeContext, snapshot: Snapshot, file: DataFile) -> LostFile:
    """The log's knowledge of a file that can't be read. 1 GET for a small file, else a few ranged ones."""
    try:
        for _ in read_file(table.bucket, file, ReadSpec.of(snapshot)):
            pass
    except StoreError:
        raise  # nobody knows whether the file is lost
    except FirnError as error:
        return LostFile(
            file.path,
            str(error).partition(". ")[0],
            file.rows,
            file.size,
            values_of(file, table.places),
            {name: readable_bounds(entry) for name, entry in file.stats.items()},
            file.deletes,
        )
    raise InvalidInputError(
        f"{table.bucket.uri(file.path)} can be read, so {table.name} keeps it: nothing was changed. Rows that "
        "aren't wanted go by delete(where)."
    )


def _result(
    table: LakeContext, files: Sequence[LostFile], *, dry_run: bool, version: str | None = None
) -> ForgetResult:
    rows = [file.rows for file in files]
    return ForgetResult(
        version,
        tuple(files),
        None if None in rows else sum(count for count in rows if count is not None),
        sum(file.bytes for file in files),
        uncovers=table.keys is not None,
        dry_run=dry_run,
    )


def readable_bounds(entry: Sequence[Any]) -> tuple[Any, Any]:
    """Least and greatest value of a column by its statistics, None where it isn't known.

    >>> readable_bounds([0, 31, 0, "date"]), readable_bounds([-31, None, 0])
    ((datetime.date(1970, 1, 1), datetime.date(1970, 2, 1)), (-31, None))
    """
    family = entry[3] if len(entry) > 3 else None
    low, high = (None if bound is None else _value(bound, family) for bound in entry[:2])
    return low, high


def _value(bound: Any, family: str | None) -> Any:
    try:
        match family:
            case "date":
                return date(1970, 1, 1) + timedelta(days=bound)
            case "timestamp":
                return _EPOCH + timedelta(microseconds=bound)
            case "timestamptz":
                return _EPOCH.replace(tzinfo=timezone.utc) + timedelta(microseconds=bound)
            case "time":
                return (_EPOCH + timedelta(microseconds=bound)).time()
            case "decimal":
                return Decimal(bound)
    except OverflowError:  # beyond what Python's dates hold
        pass
    return bound
