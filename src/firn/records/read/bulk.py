"""Many rows of a table at once, for who lists them in one process and reads them in others.

A `TableAt` or `LoneRows` can be pickled, as far as the bucket can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from firn.bucket.base import Bucket, ObjectInfo
from firn.clock import SystemClock
from firn.concurrency.parallel import in_flight
from firn.errors import InvalidInputError
from firn.journal.backoff import whole
from firn.journal.definition import check_generation
from firn.journal.sequence import Head, RowWrite
from firn.journal.sequence.catalog import after
from firn.journal.sequence.history import history
from firn.records.apply.apply import keep_up
from firn.records.names.layout import RecordLayout
from firn.records.objects.listing import row_objects
from firn.records.objects.row import Version
from firn.records.objects.single_version_row import decode_row
from firn.records.objects.store import RecordStore, Table
from firn.records.read.changes import commit_number
from firn.records.read.snapshot import RecordSnapshot, etag_of

Write = tuple[int, RowWrite]
"""A write and its commit's number."""

Place = tuple[int, str]
"""Where a write is found again: the number of its commit, and the row's id."""


@dataclass(frozen=True, slots=True)
class Found:
    """A row as it was read: its document's JSON, and the number of its version: the commit, or which of the row."""

    id: str
    seq: int
    body: bytes
    mark: str = field(default="", repr=False)

    def etag(self, table: str) -> str:
        """Its ETag, as users get it."""
        return self.mark or etag_of(table, self.id, self.seq)


def snapshot_at(store: RecordStore, at: Any = None) -> RecordSnapshot:
    """The database after a commit, by its number; as it is now for None. As `SequenceLog.refresh`; of the past 1 GET
    more where the record isn't in memory.

    Raises:
        InvalidInputError: what isn't the number of a commit that there is.
        SnapshotTooOldError: the log doesn't reach back to it.
    """
    wanted = None if at is None else commit_number(at, "at")
    head = store.log.refresh()
    keep_up(store)
    if wanted is None or wanted == head.number:
        return RecordSnapshot(store, head)
    if wanted > head.number:
        raise InvalidInputError(f"at={at!r}: the last commit is {head.number}.")
    records = store.log.records(wanted - 1, wanted) if wanted else []
    return RecordSnapshot(store, Head(wanted, head.validated_s, after(records[0]) if records else {}))


class ManyRows(Protocol):
    """A table's rows, by the keys of their objects."""

    @property
    def bucket(self) -> Bucket: ...

    @property
    def layout(self) -> RecordLayout: ...

    def listed(self, begins: str = "") -> list[ObjectInfo]:
        """The objects of all rows but those in `lately`, in the order of their names. 1 LIST sequence and 1 GET,
        which tells that the table wasn't dropped meanwhile.

        Args:
            begins: what their names begin with, as `names.id_part` makes them.

        Raises:
            TableNotFoundError: it was.
        """
        ...

    def keys(self, ids: Iterable[str]) -> list[str]:
        """The objects of these rows, but of those in `lately`. No request."""
        ...

    def read(self, keys: Sequence[str]) -> list[Found]:
        """The rows that there are of these objects. 1 GET each, many at once; if one isn't there, 1 GET more.

        Raises:
            TableNotFoundError: the table was dropped.
        """
        ...

    def lately(self) -> list[Write]:
        """The newest writes of rows whose objects may not have them yet. No request."""
        ...

    def read_lately(self, writes: Sequence[Write]) -> list[Found]:
        """The rows that some of these make."""
        ...

    def again(self, places: Collection[Place]) -> list[Write]:
        """Some of `lately`, read from the log, by who isn't handed them. As `history`, from the first to the last."""
        ...

    def lean(self) -> ManyRows:
        """Without `lately`: all that `read` and `read_lately` need."""
        ...


@dataclass(frozen=True)
class TableAt:
    """A table at a snapshot: the log's newest writes of rows that may not be in their objects yet (rule 10), and all
    that is needed to read the others. How far rows are applied was looked at before any object is."""

    bucket: Bucket
    database: str
    layout: RecordLayout
    since: int
    snapshot: int
    changes: Mapping[str, Write] = field(default_factory=dict)

    @staticmethod
    def of(at: RecordSnapshot, table: Table) -> TableAt:
        """No request."""
        store, since = at.store, table.state.since
        lately = store.log.changes(table.name, at.number)
        changes = {id: change for id, change in lately.items() if change[0] > since}
        return TableAt(store.bucket, store.prefix, table.layout, since, at.number, changes)

    def listed(self, begins: str = "") -> list[ObjectInfo]:
        skipped = {self.layout.row(id) for id in self.changes}
        found = [info for info in row_objects(self.bucket, self.layout, begins) if info.key not in skipped]
        _check_there(self)
        return found

    def keys(self, ids: Iterable[str]) -> list[str]:
        return [self.layout.row(id) for id in ids if id not in self.changes]

    def read(self, keys: Sequence[str]) -> list[Found]:
        """1 GET a large document more.

        Raises:
            SnapshotTooOldError: the version of the snapshot was collected.
        """
        rows = self._store().rows_at(keys)
        if None in rows:
            _check_there(self)
        seen = [(row.id, row.at(self.snapshot)) for row in rows if row is not None]
        return self._found(
            [(id, version.seq, version) for id, version in seen if version and version.seq > self.since]
        )

    def lately(self) -> list[Write]:
        return list(self.changes.values())

    def read_lately(self, writes: Sequence[Write]) -> list[Found]:
        """No request, but 1 GET a large document. Raises as `read`."""
        return self._found([(write.id, seq, write) for seq, write in writes])

    def again(self, places: Collection[Place]) -> list[Write]:
        wanted, seqs = set(places), [seq for seq, _ in places]
        return [
            (record.number, write)
            for record in history(self._store().log, min(seqs) - 1, max(seqs))
            for write in record.writes
            if write.table == self.layout.table and (record.number, write.id) in wanted
        ]

    def lean(self) -> TableAt:
        return replace(self, changes={})

    def _found(self, versions: Sequence[tuple[str, int, Version | RowWrite]]) -> list[Found]:
        there = [found for found in versions if found[2].body is not None or found[2].ref is not None]
        large = [version for _, _, version in there if version.body is None]
        store = self._store()
        bodies = iter(in_flight(store.body, large, store.in_flight))
        return [Found(id, seq, v.body if v.body is not None else next(bodies)) for id, seq, v in there]

    def _store(self) -> RecordStore:
        return RecordStore(self.bucket, self.database, clock=SystemClock())


@dataclass(frozen=True)
class LoneRows:
    """The rows of a table with isolation="row": each as it is when it is read."""

    bucket: Bucket
    layout: RecordLayout

    def listed(self, begins: str = "") -> list[ObjectInfo]:
        found = row_objects(self.bucket, self.layout, begins)
        _check_there(self)
        return found

    def keys(self, ids: Iterable[str]) -> list[str]:
        return [self.layout.row(id) for id in ids]

    def read(self, keys: Sequence[str]) -> list[Found]:
        clock, found = SystemClock(), []
        blobs = self.bucket.get_many(keys)
        if None in blobs:
            _check_there(self)
        for blob in blobs:
            if blob is not None:
                blob = whole(self.bucket, blob, clock)
                info = blob.info
                row = decode_row(blob.data, info.etag, key=info.key, where=self.bucket.uri(info.key))
                if row.body is not None:
                    found.append(Found(row.id, row.version.number, row.body, row.version.to_text()))
        return found

    def lately(self) -> list[Write]:
        return []

    def read_lately(self, writes: Sequence[Write]) -> list[Found]:
        return []

    def again(self, places: Collection[Place]) -> list[Write]:
        return []

    def lean(self) -> LoneRows:
        return self


def _check_there(rows: ManyRows) -> None:
    """Refuse rows of a table that was dropped: those that are gone already would be missing in silence. 1 GET."""
    check_generation(rows.bucket, rows.layout.prefix, rows.layout.generation)
