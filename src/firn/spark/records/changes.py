"""Reads of a record table's commits by Spark, for streams and for reads with the option `changes`.

With `changes` each put and delete of every commit is a row, told apart by `_kind` and ordered by `_seq`, the commit.
A stream without it gives the newest document of each row that a batch's commits have put; deletes aren't seen.
Tasks read the log themselves.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from firn.arrow.engine import filter_table
from firn.bucket.base import Bucket
from firn.clock import SystemClock
from firn.errors import CorruptObjectError, InvalidInputError, SnapshotTooOldError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.journal.position import BEGINNING
from firn.journal.sequence.history import history
from firn.predicate.predicate import Predicate
from firn.reads import Unit, spelled
from firn.records.documents.documents import ID, Documents
from firn.records.documents.tabular import row_columns
from firn.records.objects.store import RecordStore, Table
from firn.records.plan.read import ASKED_FOR, ROW_WEIGHT, RecordsRead
from firn.records.read.changes import (
    BATCH_ROWS,
    CHANGE_COLUMNS,
    Change,
    bounds,
    change_columns,
    change_table,
    changes,
    commit_number,
)
from firn.records.table import RecordTable

if TYPE_CHECKING:
    from firn.records.row_tables import RowTable
    from firn.spark.session.options import SourceOptions

UNIT_COMMITS: Final = 1000
"""Commits that a task reads at least: as many as one pack holds."""

FOLD_COMMITS: Final = 20_000
"""Up to so many commits, one task holds all their rows. Beyond, each of several tasks reads all commits, and holds a
part of the rows."""

QUIET_COMMITS: Final = 1000
"""After so many commits without a change of the table a stream goes on all the same, before a sweep takes them."""


@dataclass(frozen=True, slots=True)
class Commits:
    """A unit: the commits in (after, upto], and of `parts` parts of the ids the one of that number. Picklable."""

    after: int
    upto: int
    part: int = 0
    parts: int = 1

    def has(self, id: str) -> bool:
        return zlib.crc32(id.encode()) % self.parts == self.part


@dataclass(frozen=True)
class RecordChangesRead:
    """The commits in (after, upto], and what of a table's changes in them is wanted.

    `told`: each change is a row. Else each row that was put is one, with its newest document.
    """

    bucket: Bucket
    database: str
    state: Table
    after: int
    upto: int
    names: tuple[str, ...]
    told: bool = True
    asked: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    sql: str | None = None

    kind = "records"
    kept_by = "sweep's orphans"
    warnings = ()

    @staticmethod
    def of(
        table: RecordTable,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        since: Any = None,
        upto: Any = None,
    ) -> RecordChangesRead:
        """Every change between two versions. As `RecordTable.changes`, without reading them."""
        store = table.session.store
        state, begin, end = bounds(store, table.name, since, upto)
        known = change_columns(state.documents)
        read = RecordChangesRead(
            table.bucket, store.prefix, state, begin, end, spelled(table.name, known, columns)
        )
        return read if where is None else read.where(where)

    @property
    def table(self) -> str:
        return self.state.name

    @property
    def table_id(self) -> str:
        return str(self.state.layout.generation)

    @property
    def version(self) -> str:
        return str(self.upto)

    @property
    def known(self) -> ColumnTypes:
        own = {**row_columns(self.state.documents), **dict(self.fields)}
        more = CHANGE_COLUMNS if self.told else {name: ASKED_FOR[name] for name in self.asked}
        return {**own, **more}

    @property
    def columns(self) -> ColumnTypes:
        known = self.known
        return {name: known[name] for name in self.names}

    @property
    def asked_for(self) -> set[str]:
        """The columns that are wanted, or that the predicate has."""
        inside = Predicate.parse(self.sql, self.known).columns if self.sql is not None else frozenset[str]()
        return {*self.names, *inside}

    def select(self, names: Sequence[str]) -> RecordChangesRead:
        return replace(self, names=tuple(names))

    def where(self, sql: str) -> RecordChangesRead:
        parsed = Predicate.parse(sql, self.known).sql
        return replace(self, sql=parsed if self.sql is None else f"({self.sql}) AND ({parsed})")

    def pruned(self, predicates: Sequence[Predicate]) -> RecordChangesRead:
        return self

    def scope(self) -> Hashable:
        return self.after, self.upto

    def units(self) -> list[Unit]:
        """No request: tasks read the log."""
        commits = self.upto - self.after
        if not commits:
            return []
        if self.told:
            each = range(self.after, self.upto, UNIT_COMMITS)
            units = [Commits(start, min(start + UNIT_COMMITS, self.upto)) for start in each]
        else:
            parts = -(-commits // FOLD_COMMITS)
            units = [Commits(self.after, self.upto, part, parts) for part in range(parts)]
        return [Unit(unit, (unit.upto - unit.after) * ROW_WEIGHT) for unit in units]

    def for_tasks(self) -> RecordChangesRead:
        return self

    def rows(self, works: Sequence[Any]) -> Iterator[pa.Table]:
        """1 GET a commit, or a pack of them, and 1 a large document."""
        store = RecordStore(self.bucket, self.database, clock=SystemClock())
        wanted = self.asked_for or {ID}  # a table without columns has no rows
        columns = {name: kind for name, kind in self.known.items() if name in wanted}
        for work in works:
            each: Iterable[Change] = changes(store, self.state, work.after, work.upto)
            if not self.told:
                each = _newest_puts(each, work)
            each = iter(each)
            while piece := list(islice(each, BATCH_ROWS)):
                rows = change_table(piece, self.state.documents, columns)
                if self.sql is not None:
                    rows = filter_table(rows, self.sql, types=self.known)
                if rows.num_rows:
                    yield rows


def _newest_puts(each: Iterable[Change], unit: Commits) -> Iterable[Change]:
    """The last change of each row, if that is a put."""
    newest = {change.id: change for change in each if unit.has(change.id)}
    return [change for change in newest.values() if change.kind == "put"]


class RecordFollower:
    """A record table's changes, commit by commit. An offset is a commit's number, with that of the one which
    created the table, so that a table which was dropped and made again isn't taken for it."""

    def __init__(self, table: RecordTable | RowTable, plan: RecordsRead | RecordChangesRead) -> None:
        if not isinstance(table, RecordTable):
            raise UnsupportedError(
                f"{table.name} has isolation='row', which leaves no log of changes: read it in batches, or keep rows "
                "whose changes are followed in a table with isolation='snapshot'."
            )
        self.table = table
        self.plan = plan
        self._quiet = (0, 0)

    def beginning(self, options: SourceOptions) -> dict[str, Any]:
        if options.starting_time is not None:
            raise InvalidInputError(
                f"startingTime is for lake tables; {self.table.name} is a record table: give "
                '.option("since", COMMIT).'
            )
        if options.since is None:
            return dict(BEGINNING)
        # From the options alone: the offsets that follow tell who created the table.
        return {"firn": 1, "version": str(commit_number(options.since, "since"))}

    def target(self) -> str:
        return str(self.table.session.store.log.refresh().number)

    def advance(self, start: dict[str, Any], most: int | None, target: str | None) -> dict[str, Any]:
        begun, created = self._place(start), self._created(start)
        end = int(target) if target else self.table.session.store.log.head().number
        if begun is not None and begun < created:
            bounds(self.table.session.store, self.table.name, begun)  # says what is wrong
        if begun is None or begun < end:
            reached = end if begun is None else self._reached(begun, end, most)
            if reached is not None:
                return {"firn": 1, "version": str(reached), "created": created}
        return start

    def between(self, start: dict[str, Any], end: dict[str, Any]) -> RecordsRead | RecordChangesRead | None:
        begun, ended = self._place(start), self._place(end)
        if ended is None:
            return None
        created = self._created(end)
        plan, told = self.plan, isinstance(self.plan, RecordChangesRead)
        if begun is None and isinstance(plan, RecordsRead):
            read = RecordsRead.of(self.table, at=ended)
            self._must_fit(read.documents)
            return replace(
                read,
                documents=plan.documents,
                names=plan.names,
                asked=plan.asked,
                fields=plan.fields,
                sql=plan.sql,
                about_ids=plan.about_ids,
            )
        after = created if begun is None else begun
        read_changes = RecordChangesRead.of(self.table, since=after, upto=ended)
        self._must_fit(read_changes.state.documents)
        return replace(
            read_changes,
            state=replace(read_changes.state, documents=self._documents),
            names=plan.names,
            told=told,
            asked=plan.asked,
            fields=plan.fields,
            sql=plan.sql,
        )

    @property
    def _documents(self) -> Documents:
        """What documents may hold as the query began: its columns stay so until it is started again."""
        return self.plan.documents if isinstance(self.plan, RecordsRead) else self.plan.state.documents

    def _must_fit(self, now: Documents) -> None:
        """Refuse to read columns whose type has widened since: Spark has the old one."""
        own, widened = self._documents.columns or {}, now.columns or {}
        for name in sorted(self.plan.asked_for & own.keys() & widened.keys()):
            if own[name] != widened[name]:
                raise InvalidInputError(
                    f"{self.table.name}: the column {name!r} was {own[name]} when this query was started, and is "
                    f"{widened[name]} by now. Start the query again; it goes on from its checkpoint."
                )

    def _reached(self, begun: int, end: int, most: int | None) -> int | None:
        """Where the next batch ends: at `end`, or with the commit that is the `most`-th to change the table. None
        where nothing has changed it."""
        known = self._quiet[1] if self._quiet[0] == begun else begun
        found = 0
        for record in history(self.table.session.store.log, min(known, end), end):
            if any(write.table == self.table.name for write in record.writes):
                found += 1
                if most is None or found == most:
                    return record.number if most is not None else end
        if found or end - begun >= QUIET_COMMITS:
            return end
        self._quiet = begun, end
        return None

    def _created(self, offset: dict[str, Any]) -> int:
        """The commit that created the table, if it is still the one of that offset."""
        store = self.table.session.store
        created = store.table(self.table.name, store.log.refresh().catalog).state.since
        if offset.get("created", created) != created:
            raise SnapshotTooOldError(
                f"{self.table.name} was dropped and made again by commit {created} since the stream's checkpoint was "
                "written: what it holds are other rows. Begin with a new checkpoint."
            )
        return created

    def _place(self, offset: dict[str, Any]) -> int | None:
        """The commit of an offset; None for the beginning."""
        if offset == BEGINNING:
            return None
        version = offset.get("version")
        if not isinstance(version, str) or not version.isdigit():
            raise CorruptObjectError(
                f"{offset!r} in the stream's checkpoint is not a place in a record table: it was written for another "
                "table, or is damaged. Begin with a new checkpoint."
            )
        return int(version)
