"""Facts of a lake table for a report: collected once, from one snapshot, the history and one listing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from firn.bucket.base import ObjectInfo
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import CommitInfo, Snapshot
from firn.journal.writer.federation.federation import Union, WriterInfo
from firn.journal.writer.journal import WriterJournal
from firn.lake.maintain.plan import plan_folds, plan_merge
from firn.lake.partition.placement import is_scattered
from firn.lake.read.placed import placed
from firn.lake.results import Partition
from firn.lake.table import LakeTable

CHANGES_DATA = ("merge", "rewrite", "delete", "remove", "overwrite", "restore", "forget")
"""Commits that replace or remove files: the ones that a report compares before and after."""

Weights = Mapping[str, tuple[int, int]]
"""Objects by what they are: (count, bytes)."""


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

    commit: CommitInfo
    rows: int | None
    files: int

    @property
    def rows_removed(self) -> int | None:
        return _removed(self.commit, "rows_removed")

    @property
    def bytes_removed(self) -> int | None:
        return _removed(self.commit, "bytes_removed")


@dataclass(frozen=True)
class TableFacts:
    """All that a report shows of one table. `merges` are the files that each merge would take together, if every
    writer merged its own; each makes about one file of them. Where writers have catalogs, `stored` counts those of
    all tables of the writers under `logs` and `other`."""

    table: LakeTable
    snapshot: Snapshot
    partitions: Mapping[str, Partition]
    points: Sequence[Point]
    stored: Weights
    merges: Sequence[int]
    writers: Sequence[WriterInfo] = ()

    @property
    def url(self) -> str:
        return self.table.bucket.uri(self.table.prefix)

    @property
    def rows(self) -> int | None:
        return _live_rows(self.snapshot)

    @property
    def bytes(self) -> int:
        return sum(f.size for f in self.snapshot.objects)

    @property
    def files(self) -> int:
        return len(self.snapshot.objects)

    @property
    def target_size(self) -> int:
        return self.table.context.definition.target_size


def table_facts(table: LakeTable) -> TableFacts:
    """Collect a table's facts. 3 LIST sequences + the logs that aren't cached + 1 GET; of a table of writers'
    catalogs 1 LIST sequence a writer more, and 1 GET a transaction."""
    snapshot = table.snapshot()
    live = {f.path for f in snapshot.files}
    journal = table.journal
    union = journal.federation.load() if isinstance(journal, WriterJournal) else None
    held = {} if union is None else _files_by_writer(union, table.name)
    return TableFacts(
        table=table,
        snapshot=snapshot,
        partitions=_partitions(table, snapshot),
        points=history_points(table.history(), _live_rows(snapshot), len(snapshot.objects)),
        stored=_stored(table, live, held),
        merges=_merges(table, snapshot, [live] if union is None else held.values()),
        writers=[] if union is None else [w for w in union.infos() if w.name in held or w.health == "broken"],
    )


def _live_rows(snapshot: Snapshot) -> int | None:
    rows = [f.live_rows for f in snapshot.files]
    return None if None in rows else sum(r for r in rows if r is not None)


def _files_by_writer(union: Union, table: str) -> dict[str, set[str]]:
    """The files of each writer that has the table."""
    tables = {name: version.state.tables.get(table) for name, version in union.versions.items()}
    return {name: set(state.files) for name, state in tables.items() if state is not None}


def _partitions(table: LakeTable, snapshot: Snapshot) -> dict[str, Partition]:
    """By their directories; those of older partitionings are told apart."""
    seen = table.context.at(snapshot)
    present = seen.partition_spec
    return {
        place.directory if present.of_id(place.spec) is present else f"{place.directory} (older)": partition
        for place, partition in seen.partitions_of(placed(seen, snapshot)).items()
    }


def _merges(table: LakeTable, snapshot: Snapshot, parts: Iterable[set[str]]) -> list[int]:
    size = table.context.definition.target_size
    found: list[int] = []
    for paths in parts:
        files = [f for f in snapshot.objects if f.path in paths]
        if table.keys is not None:
            scattered = is_scattered(table.partition_spec, snapshot.files, snapshot.columns, snapshot.naming)
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
        points.append(Point(commit, rows, files))
        if commit.op != "sweep":
            added, removed = commit.rows_added, points[-1].rows_removed
            rows = None if rows is None or added is None or removed is None else rows - added + removed
            files += commit.files_removed - commit.files_added
    return points[::-1]


def _removed(commit: CommitInfo, what: str) -> int | None:
    """A sweep removes nothing that is live."""
    number: int | None = commit.summary.get(
        what, None if commit.files_removed and commit.op != "sweep" else 0
    )
    return number


def _stored(table: LakeTable, live: set[str], writers: Iterable[str]) -> Weights:
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
    found: dict[str, list[ObjectInfo]] = {"live": [], "replaced": [], "logs": [], "other": []}
    for info in (i for prefix in prefixes for i in table.bucket.list(prefix).objects):
        if info.key in live:
            found["live"].append(info)
        elif table.places.directory_of(info.key) is not None:
            found["replaced"].append(info)
        elif not info.key.startswith(data):  # another table's
            found["logs" if info.key.startswith(logs) else "other"].append(info)
    return weights(found)


def weights(found: Mapping[str, Sequence[ObjectInfo]]) -> Weights:
    return {kind: (len(infos), sum(info.size for info in infos)) for kind, infos in found.items()}
