"""What a report says of a table: collected once, from one snapshot, the history and one listing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import CommitInfo, Snapshot
from firn.journal.writer.federation.federation import Union, WriterInfo
from firn.journal.writer.journal import WriterJournal
from firn.lake.maintain.plan import plan_folds, plan_merge
from firn.lake.partition.placement import scattered_by
from firn.lake.results import Partition
from firn.lake.table import LakeTable
from firn.units import parse_size

CHANGES_DATA = ("merge", "rewrite", "delete", "remove", "overwrite", "restore", "forget")
"""Commits that replace or remove files: the ones that a report compares before and after."""


@dataclass(frozen=True)
class Step:
    """A piece of work that somebody measured: seconds, and requests by verb."""

    title: str
    seconds: float
    requests: Mapping[str, int] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True)
class Point:
    """One commit or sweep, with the table's live rows and files right after it (None: not known)."""

    time: datetime
    op: str
    version: str
    rows: int | None
    files: int
    rows_added: int | None
    rows_removed: int | None
    files_added: int
    files_removed: int
    bytes_added: int
    bytes_removed: int | None
    summary: Mapping[str, Any]


@dataclass(frozen=True)
class Stored:
    """Objects below the table's prefix, by what they are: (count, bytes). Of a table of writers' catalogs, `logs` and
    `other` are those of all tables of its writers."""

    live: tuple[int, int] = (0, 0)
    replaced: tuple[int, int] = (0, 0)
    logs: tuple[int, int] = (0, 0)
    other: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class TableFacts:
    """All that a report shows of one table."""

    name: str
    url: str
    version: str
    time: datetime | None
    rows: int | None
    file_sizes: tuple[int, ...]
    columns: Mapping[str, str]
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    properties: Mapping[str, Any]
    partitions: tuple[tuple[str, Partition], ...]
    points: tuple[Point, ...]
    stored: Stored
    mergeable: int
    merged_into: int
    target_size: int | str
    warnings: tuple[str, ...]
    writers: tuple[WriterInfo, ...] = ()

    @property
    def bytes(self) -> int:
        return sum(self.file_sizes)

    @property
    def files(self) -> int:
        return len(self.file_sizes)


def table_facts(table: LakeTable) -> TableFacts:
    """Collect a table's facts. 3 LIST sequences + the logs that aren't cached + 1 GET; of a table of writers'
    catalogs 1 LIST sequence a writer more, and 1 GET a transaction."""
    snapshot = table.snapshot()
    live = {f.path for f in snapshot.files}
    journal = table.journal
    union = journal.federation.load() if isinstance(journal, WriterJournal) else None
    held = {} if union is None else _files_by_writer(union, table.name)
    rows = [f.live_rows for f in snapshot.files]
    known_rows = None if None in rows else sum(r for r in rows if r is not None)
    merges = _merges(table, snapshot, held.values() if union is not None else [live])
    return TableFacts(
        name=table.name,
        url=table.bucket.uri(table.prefix),
        version=snapshot.version,
        time=snapshot.time,
        rows=known_rows,
        file_sizes=tuple(f.size for f in snapshot.files),
        columns=dict(snapshot.columns),
        partition_by=tuple(str(f) for f in table.partition_spec.fields),
        sort_by=table.descriptor.sort_by,
        properties=dict(table.descriptor.properties),
        partitions=tuple(table.partitions_of(snapshot).items()),
        points=tuple(history_points(table.history(), known_rows, len(snapshot.files))),
        stored=_stored(table, live, held),
        mergeable=sum(merges),
        merged_into=len(merges),
        target_size=table.descriptor.setting("target_size"),
        warnings=snapshot.warnings,
        writers=()
        if union is None
        else tuple(w for w in union.infos() if w.name in held or w.health == "broken"),
    )


def _files_by_writer(union: Union, table: str) -> dict[str, set[str]]:
    """The files of each writer that has the table."""
    tables = {name: version.state.tables.get(table) for name, version in union.versions.items()}
    return {name: set(state.files) for name, state in tables.items() if state is not None}


def _merges(table: LakeTable, snapshot: Snapshot, parts: Iterable[set[str]]) -> list[int]:
    """The files that each merge takes together, if every writer merged its own; each makes about one file of them."""
    size = parse_size(table.descriptor.setting("target_size"))
    found: list[int] = []
    for paths in parts:
        files = [f for f in snapshot.files if f.path in paths]
        if table.keys is not None:
            scattered = scattered_by(table.partition_spec, snapshot.files, snapshot.columns) is not None
            groups = plan_folds(files, places=table.places, scattered=scattered)
        else:
            groups = plan_merge(files, places=table.places, target_size=size)
        found += [len(group.files) for group in groups]
    return found


def history_points(history: Sequence[CommitInfo], rows_now: int | None, files_now: int) -> list[Point]:
    """The history with live rows and files after each commit.

    Counted backwards from what is live now: the log may have forgotten its oldest commits, not its newest.
    """
    points: list[Point] = []
    rows, files = rows_now, files_now
    for commit in reversed(history):
        swept = commit.op == "sweep"
        removed = commit.summary.get("rows_removed", None if commit.files_removed and not swept else 0)
        bytes_removed = commit.summary.get("bytes_removed", None if commit.files_removed and not swept else 0)
        added = 0 if swept else commit.rows_added
        points.append(
            Point(
                commit.time,
                commit.op,
                commit.version,
                rows,
                files,
                added,
                removed,
                commit.files_added,
                commit.files_removed,
                commit.bytes_added,
                bytes_removed,
                commit.summary,
            )
        )
        if not swept:
            rows = None if rows is None or added is None or removed is None else rows - added + removed
            files += commit.files_removed - commit.files_added
    points.reverse()
    return points


def _stored(table: LakeTable, live: set[str], writers: Iterable[str]) -> Stored:
    """1 LIST sequence; of a table of writers' catalogs 1 for each of them."""
    journal = table.journal
    if isinstance(journal, WriterJournal):
        layouts = [journal.federation.layout(writer) for writer in writers]
        prefixes = [f"{layout.root}/" for layout in layouts]
        logs = tuple(p for x in layouts for p in (x.transactions_prefix, x.claims_prefix, x.markers_prefix))
        data = tuple(layout.data_prefix for layout in layouts)
    else:
        prefixes, data = [f"{table.prefix}/"], ()
        logs = (journal.layout.log_prefix,) if isinstance(journal, LeaderlessJournal) else ()
    counts = {"live": (0, 0), "replaced": (0, 0), "logs": (0, 0), "other": (0, 0)}
    for info in (i for prefix in prefixes for i in table.bucket.list(prefix).objects):
        if info.key in live:
            kind = "live"
        elif table.places.directory_of(info.key) is not None:
            kind = "replaced"
        elif info.key.startswith(data):
            continue  # another table's
        else:
            kind = "logs" if info.key.startswith(logs) else "other"
        count, size = counts[kind]
        counts[kind] = (count + 1, size + info.size)
    return Stored(**counts)
