"""A database's record tables in a bucket, as transactions, appliers and collectors share them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import WeakSet

from firn.bucket.base import Blob, Bucket, at_once
from firn.bucket.keys import key_below
from firn.clock import Clock
from firn.errors import CorruptObjectError, SnapshotTooOldError, TableNotFoundError
from firn.journal.backoff import Backoff, find_whole, whole
from firn.journal.sequence import FRESHNESS_S, Catalog, GroupCommit, RowWrite, SequenceLog, TableState
from firn.journal.sequence.codec import WHOLE_BYTES
from firn.journal.sequence.truncation import LARGEST_BYTES as PACK_BYTES
from firn.records.definition.definition import RecordDefinition, read_definition
from firn.records.documents.documents import Documents
from firn.records.names.layout import RecordLayout
from firn.records.names.names import check_id
from firn.records.objects.row import Row, Version, decode_row, encode_row
from firn.records.objects.staged import checked

MAX_LAG: Final = 64
"""L of rule 21: who sees that more records wait to be applied applies them before it goes on."""

DROPS: Final = 16

Definitions = Callable[[str], RecordDefinition | None]


@dataclass(frozen=True)
class Table:
    """A table as it was at a snapshot."""

    name: str
    state: TableState
    documents: Documents
    layout: RecordLayout
    inline: int

    def encode(self, id: str, document: Mapping[str, Any]) -> bytes:
        """A document's body, with all of its indexed fields such as an index holds.

        Raises:
            InvalidInputError: what the table's schema, its indices or JSON don't allow.
        """
        body = self.documents.encode(check_id(id), document)
        if self.state.fields:
            kept = self.documents.decode(body)
            for name, index in self.state.fields.items():
                self.documents.index_values(id, kept, name, each=index.each)
        return body


@dataclass(frozen=True)
class StoredRow:
    """A row as it was read, and the ETag by which it may be replaced: None where there was none."""

    row: Row
    etag: str | None


class SnapshotReader(Protocol):
    """A reader at a snapshot, as long as it is open."""

    @property
    def snapshot(self) -> int: ...

    @property
    def is_open(self) -> bool: ...


def _same_definition(one: TableState, other: TableState) -> bool:
    return one is other or (
        (one.documents is other.documents or one.documents == other.documents)
        and one.properties == other.properties
        and one.comments == other.comments
    )


def _nobody() -> None:
    """Nobody wants to know."""


class RecordStore:
    """One database's record tables. Making one costs no request; it is safe to share between threads.

    Args:
        bucket: where the database is.
        prefix: its key prefix, without a trailing slash; "" for the bucket's root.
        clock: time, for waits, timeouts and the age of what is known.
        freshness_s: see `SequenceLog`.
        max_lag: rule 21.
        drops: how many versions that nobody reads an applier drops from a row at once; fewer are for collections.
        pack_bytes: see `truncate`.
        whole_bytes: see `SequenceLog`.
        definitions: how the definition of a table is found; from its `table.json` by default.
    """

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        *,
        clock: Clock,
        freshness_s: float = FRESHNESS_S,
        max_lag: int = MAX_LAG,
        drops: int = DROPS,
        pack_bytes: int = PACK_BYTES,
        whole_bytes: int = WHOLE_BYTES,
        definitions: Definitions | None = None,
    ) -> None:
        self.bucket, self.prefix, self.clock = bucket, prefix, clock
        self.max_lag, self.drops, self.pack_bytes = max_lag, drops, pack_bytes
        self.committed: Callable[[], object] = _nobody
        """Told when this process has committed something: by who applies it in the background."""
        self.closed = False
        """Whether the connection that made it was closed."""
        self.log = SequenceLog(bucket, prefix, clock=clock, freshness_s=freshness_s, whole_bytes=whole_bytes)
        self.group = GroupCommit(self.log)
        self.applying: AbstractContextManager[object] = threading.Lock()
        """Held by the thread of this process that applies commits: two would do the same work."""
        self.widest = 0
        """Versions of the row that has the most, of those that were written lately: for who applies commits."""
        self._definitions = definitions or self._read_definition
        self._mutex = threading.Lock()
        self._known: dict[tuple[str, int], RecordDefinition] = {}
        self._opened: dict[str, RecordDefinition] = {}
        self._altered: dict[tuple[str, int, int], tuple[TableState, RecordDefinition]] = {}
        self._readers: WeakSet[SnapshotReader] = WeakSet()

    @property
    def in_flight(self) -> int:
        """How many requests are sent at once."""
        return at_once(self.bucket)

    def backoff(self) -> Backoff:
        return Backoff(self.clock)

    def reads(self, reader: SnapshotReader) -> None:
        """Let no collection of this process take what a reader sees, as long as it is open and held by somebody."""
        with self._mutex:
            self._readers.add(reader)

    def oldest_read(self) -> int | None:
        """The oldest snapshot that somebody in this process reads at."""
        with self._mutex:
            return min((r.snapshot for r in self._readers if r.is_open), default=None)

    def knows(self, definition: RecordDefinition) -> None:
        """Take the definition of a table that was opened: it needn't be read once more."""
        if definition.state == "ready" and not definition.dropped:
            with self._mutex:
                self._opened[definition.name] = definition

    def table(self, name: str, catalog: Catalog) -> Table:
        """A table by the definitions of a snapshot. 1 GET for the first time.

        Raises:
            TableNotFoundError: there is none.
        """
        state = catalog.get(name)
        definition = None if state is None else self._definition(name, state)
        if state is None or definition is None:
            raise TableNotFoundError(
                f"{name!r} is no record table of {self.bucket.uri(self.prefix)}: it was dropped, or never created"
            )
        definition = self.definition_in(definition, state)
        layout = definition.layout(key_below(self.prefix, name))
        return Table(name, state, definition.documents, layout, definition.settings.inline)

    def definition_in(self, created: RecordDefinition, state: TableState) -> RecordDefinition:
        """A table's definition at a snapshot: one object as long as it stays so, as a JSON schema takes long to
        read. No request."""
        if not state.is_altered:
            return created
        key = (created.name, state.since, state.altered)
        with self._mutex:
            known = self._altered.get(key)
        # The number alone doesn't tell: what it stood for may have lost the race for it.
        if known is None or not _same_definition(known[0], state):
            known = (state, created.as_in(state))
        elif known[0] is not state:
            known = (state, known[1])
        with self._mutex:
            self._altered[key] = known
        return known[1]

    def layout(self, table: str, generation: int) -> RecordLayout:
        """Names of a table's objects for those who need no definition: whole entries aren't made by it."""
        return RecordLayout(key_below(self.prefix, table), table, "", generation)

    def row(self, layout: RecordLayout, id: str) -> StoredRow:
        """A row's object. 1 GET.

        Raises:
            CorruptObjectError: it is damaged, or another row's.
        """
        key = layout.row(id)
        blob = find_whole(self.bucket, key, self.clock)
        if blob is None:
            return StoredRow(Row(id), None)
        return StoredRow(self._decoded(blob), blob.info.etag)

    def rows(self, keys: Sequence[str]) -> list[Row]:
        """The rows that there are of these keys. 1 GET each, many at once."""
        return [row for row in self.rows_at(keys) if row is not None]

    def rows_at(self, keys: Sequence[str]) -> list[Row | None]:
        """The row of each of these keys, or None. 1 GET each, many at once."""
        return [
            None if blob is None else self._decoded(whole(self.bucket, blob, self.clock))
            for blob in self.bucket.get_many(keys)
        ]

    def whole_rows(self, keys: Sequence[str]) -> tuple[list[Row], dict[str, CorruptObjectError]]:
        """The same, and what is wrong with those that are damaged, by their keys."""
        rows, damaged = [], {}
        for blob in self.bucket.get_many(keys):
            if blob is not None:
                try:
                    rows.append(self._decoded(whole(self.bucket, blob, self.clock)))
                except CorruptObjectError as error:
                    damaged[blob.info.key] = error
        return rows, damaged

    def put_row(self, layout: RecordLayout, row: Row, etag: str | None) -> str:
        """Replace the version of a row's object that was read; the new ETag. 1 PUT.

        Raises:
            ObjectChangedError, ObjectExistsError: another is there.
            OutcomeUnknownError: no answer came.
        """
        key, data = layout.row(row.id), encode_row(row)
        if etag is None:
            return self.bucket.put_if_absent(key, data)
        return self.bucket.put_if_match(key, data, etag)

    def put_entries(self, layout: RecordLayout, versions: Iterable[Version]) -> None:
        """Put the index entries of versions of a row. 1 PUT each."""
        entries = [layout.entry_of_stem(stem, each.seq) for each in versions for stem in each.entries]
        self.bucket.put_many([(entry, b"") for entry in entries])

    def body(self, version: Version | RowWrite) -> bytes:
        """The body of a version that has one. No request, or 1 GET for a staged one.

        Raises:
            SnapshotTooOldError: it was collected.
            CorruptObjectError: it isn't what was staged.
        """
        if version.body is not None:
            return version.body
        assert version.ref is not None
        key = self.log.store.layout.body_key(version.ref)
        blob = self.log.store.find(key)
        if blob is None:
            raise SnapshotTooOldError(
                f"{self.bucket.uri(key)} was removed with its version of the row; begin another transaction"
            )
        return checked(version.ref, blob.data, self.bucket.uri(key))

    def _decoded(self, blob: Blob) -> Row:
        return decode_row(blob.data, key=blob.info.key, where=self.bucket.uri(blob.info.key))

    def _definition(self, name: str, state: TableState) -> RecordDefinition | None:
        """None: the table was dropped since, or its creator never got to the end."""
        if self._is_gone(name, state):
            return None
        with self._mutex:
            known, opened = self._known.get((name, state.since)), self._opened.get(name)
        if known is None:
            usable = opened is not None and opened.generation == state.generation
            known = opened if usable else self._definitions(name)
            if known is None or known.dropped or known.state != "ready":
                return None
            if known.generation != state.generation:
                return None
            with self._mutex:
                self._known[name, state.since] = known
        return known

    def _is_gone(self, name: str, state: TableState) -> bool:
        """Whether the end of the log, as it is known, has the table no more: its rows are gone, and would be missing
        in silence. No request."""
        head = self.log.known
        if head is None or state.since > head.number:
            return False
        now = head.catalog.get(name)
        return now is None or now.since != state.since

    def _read_definition(self, name: str) -> RecordDefinition | None:
        return read_definition(self.bucket, key_below(self.prefix, name), clock=self.clock)
