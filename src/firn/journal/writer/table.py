"""`WriterTable`: one table over the writers' catalogs, as it is read: the union of all writers."""

from __future__ import annotations

import math
import operator
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from firn.bucket.base import Bucket
from firn.bucket.keys import key_below
from firn.clock import Clock
from firn.degraded import warn_degraded
from firn.errors import NotFoundError, TableNotFoundError
from firn.journal.agreement import Rules
from firn.journal.entries import PROPERTY, Entries
from firn.journal.model import CommitInfo, KnownColumns, Snapshot
from firn.journal.writer.commit.local_writer import Author
from firn.journal.writer.federation.definition import WriterDefinition, definition_of, each_definition
from firn.journal.writer.federation.federation import Federation, Union
from firn.journal.writer.federation.union import EMPTY_VERSION, agreement_of, history_of
from firn.journal.writer.federation.union import snapshot_of as union_snapshot
from firn.journal.writer.format.layout import WriterPlaces
from firn.journal.writer.format.state import CatalogState, clock_above
from firn.journal.writer.settings import WriterSettings

RECENT = 200
"""The transactions of a writer that a message may read."""


class WriterTable:
    """A table of a federation. `own` is None on connections that only read; `union` is what it was found in."""

    def __init__(
        self,
        federation: Federation,
        own: Author | None,
        table: str,
        definition: WriterDefinition,
        *,
        rules: Rules,
        settings: WriterSettings,
        clock: Clock,
        notes: Sequence[str] = (),
        union: Union | None = None,
    ) -> None:
        self.federation, self.table, self._definition = federation, table, definition
        self.rules, self._created_settings, self.clock, self.notes = rules, settings, clock, tuple(notes)
        self._own = own
        self._bases = {definition.base}
        self._mutex = threading.Lock()
        self._latest: tuple[_Seen, Snapshot] | None = None
        self._others: tuple[float, Union] | None = None
        self._greatest = 0
        if union is not None:
            self._others = clock.monotonic(), union

    @property
    def bucket(self) -> Bucket:
        return self.federation.bucket

    @property
    def places(self) -> WriterPlaces:
        return WriterPlaces(self.federation.prefix, self.federation.name, self.table)

    def now_ms(self) -> int:
        """The time by the clock that stamps commits."""
        return self.clock.now_ms()

    @property
    def definition(self) -> Entries:
        """The changes of the definition by all writers, as far as this connection has read."""
        return self._definition.entries

    @property
    def settings(self) -> WriterSettings:
        return self._created_settings.changed(self.definition.of(PROPERTY))

    def snapshot(self, at: str | int | datetime | None = None) -> Snapshot:
        """The union of all writers now, or as of `at`: a time, a version, or a revision of one writer.

        Cost: 1 LIST and 1 a writer, in parallel, and 1 GET a new transaction; more for an `at`, see `History.at`.

        Raises:
            SnapshotTooOldError: `at` was pruned.
            NotFoundError: there is no such version, or no writer had the table then.
        """
        if at is None:
            union = self._load()
        else:
            union = self.union_at(at)
        return self.snapshot_of(union)

    def union_at(self, at: str | int | datetime) -> Union:
        """All writers as of `at`.

        Raises:
            NotFoundError: none of them had the table then.
        """
        union = self.federation.at(at, own=None if self._own is None else self._own.writer)
        if not self._is_in(union) and not union.broken and at != EMPTY_VERSION:
            raise NotFoundError(
                f"{self.federation.bucket.uri(self.federation.prefix)} has no table {self.table} as of {at}. Name a "
                "later time, or a version that history() or `firn log` shows."
            )
        return union

    def history(self) -> list[CommitInfo]:
        """The commits of all writers to the table, as far as they aren't pruned, by time. 1 GET a transaction."""
        union = self.federation.load()
        self._learn(union)
        self._warn(union)
        return self._lines(union, sys.maxsize)

    def recent_history(self) -> list[CommitInfo]:
        """`history` of the newest `RECENT` transactions of each writer."""
        return self._lines(self.federation.load(), RECENT)

    def _lines(self, union: Union, newest: int) -> list[CommitInfo]:
        lines = [
            line
            for writer, version in union.versions.items()
            for line in history_of(
                self.federation.history(writer).transactions(max(0, version.head.revision - newest)),
                self.federation.layout(writer),
                self.table,
            )
        ]
        return sorted(lines, key=lambda line: (line.time, line.version))

    def moment(self) -> float:
        return self.clock.monotonic()

    def check(self, union: Union) -> None:
        """Refuse to go on where the table was dropped, whether the next one of its name is there or not.

        Raises:
            TableNotFoundError: no writer defines it any more.
        """
        if union.versions and not union.broken and not self._is_in(union):
            raise self._dropped()

    def known(self, *, since: float | None = None) -> KnownColumns:
        """The state of all writers as of at most `schema_refresh` ago, or at the moment `since`, and of this one
        now."""
        union = self._recent(since)
        if self._own is not None:
            union = union.with_state(self._own.state)
        self._learn(union)
        entries = self._definition.entries
        found = agreement_of(union, self.table, self.rules, entries)
        return KnownColumns(found.columns, found.naming, entries, found.set_aside)

    def _load(self) -> Union:
        return self.federation.load() if self._own is None else self._own.load()

    def _recent(self, since: float | None = None) -> Union:
        """The state of all writers that appends go by. A transaction reads those of its begin, but looks where it is
        asked for what is known `since`: columns may have been altered."""
        own = self._own
        with self._mutex:
            now = self.clock.monotonic()
            if (
                self._others is None
                or (since is not None and self._others[0] < since)
                or (now - self._others[0]) * 1000 >= self.settings.schema_refresh_ms
            ):
                if since is not None and own is not None:
                    self._others = now, own.newest()
                    self._learn(self._others[1])
                else:
                    past = own is not None and own.reads_past
                    self._others = -math.inf if past else now, self._load()
                self._note(self._others[1])
            return self._others[1]

    def _note(self, union: Union) -> None:
        """Rows of these writers were seen: later commits of this connection win over them."""
        tables = (version.state.tables.get(self.table) for version in union.versions.values())
        self._greatest = max(self._greatest, *(0 if table is None else table.greatest for table in tables), 0)

    def snapshot_of(self, union: Union) -> Snapshot:
        """The table in a union of writers."""
        self._learn(union)
        key = _Seen(union, self.table)
        with self._mutex:
            if self._latest is None or not self._latest[0].is_same(key):
                found = union_snapshot(union, self.table, self.rules)
                self._latest = key, replace(found, warnings=(*found.warnings, *self.notes))
                self._note(union)
                self._warn(union)
            return self._latest[1]

    def _warn(self, union: Union) -> None:
        for text in union.degraded:
            warn_degraded(self.bucket.uri(key_below(self.federation.prefix, self.table)), text)

    def _above_seen(self, state: CatalogState, clock: str) -> str:
        """The clock with a number above all rows that this connection has seen. So a change of another writer's
        row, whose revisions may be far ahead, wins over the row that it read; an append wins over rows as of at
        most `schema_refresh` ago."""
        own = state.tables.get(self.table)
        with self._mutex:
            return clock_above(clock, max(self._greatest, 0 if own is None else own.greatest))

    def _is_in(self, union: Union) -> bool:
        """Whether a writer defines this very table. Several may have created it without knowing of each other."""
        bases = {each.base for each in each_definition(union, self.table).values()}
        if bases.isdisjoint(self._bases):
            return False
        self._bases |= bases
        return True

    def _dropped(self) -> TableNotFoundError:
        return TableNotFoundError(
            f"{self.bucket.uri(key_below(self.federation.prefix, self.table))} was dropped since it was opened. If "
            "there is a new table of that name, open it with db.table(); else create it."
        )

    def _learn(self, union: Union) -> None:
        """Take note of what writers have changed of the definition."""
        self.check(union)
        found = definition_of(union, self.table)
        entries = self._definition.entries.joined(found.entries)
        if entries is not self._definition.entries:
            self._definition = replace(self._definition, entries=entries)


class _Seen:
    """The parts of a union that make up a table's snapshot."""

    def __init__(self, union: Union, table: str) -> None:
        self._said = (
            union.warnings,
            [(writer, version.head.uuid) for writer, version in union.versions.items()],
        )
        self._tables = [version.state.tables.get(table) for version in union.versions.values()]

    def is_same(self, other: _Seen) -> bool:
        """By identity of the writers' tables: comparing them would take as long as a snapshot."""
        return self._said == other._said and all(map(operator.is_, self._tables, other._tables))
