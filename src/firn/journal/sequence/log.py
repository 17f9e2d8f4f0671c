"""One process's knowledge of a database's log (rules 6 to 9): its end, what is applied, and the latest records.

One `SequenceLog` serves all transactions of a process. No lock is held during a request.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from firn.bucket.base import Bucket
from firn.clock import Clock, seconds_awake_or_not
from firn.errors import SnapshotTooOldError
from firn.journal.sequence.catalog import after
from firn.journal.sequence.codec import WHOLE_BYTES, is_large
from firn.journal.sequence.layout import SequenceLayout
from firn.journal.sequence.model import Catalog, Head, Horizon, LogRecord, LogTransaction
from firn.journal.sequence.opening import OpenedLog, Probed, open_log, probe
from firn.journal.sequence.overlay import Change, Overlay
from firn.journal.sequence.store import SequenceStore

FRESHNESS_S: Final = 30.0
"""R: how long the horizon isn't asked for again, and how long a collector waits. All clients of a database agree."""

FAR: Final = 128
"""Behind by that many records, a process opens the log anew: it needs those that aren't applied, and no others."""

KEPT: Final = 1024
"""Records that a process keeps in memory beyond those that aren't applied, for transactions that began long ago."""

KEPT_BYTES: Final = 64 << 20
"""Bytes of documents in these, about."""


class SequenceLog:
    """One process's view of a log. Making one costs no request; it is safe to share between threads.

    Args:
        bucket: where the database is.
        prefix: the database's key prefix, without a trailing slash; "" for the bucket's root.
        clock: time, for the age of what is known and waits between retries.
        freshness_s: R of the protocol; 0 asks for the horizon each time.
        far: behind by how many records the log is opened anew.
        kept: about how many applied records stay in memory, as long as these have no more than `kept_bytes`.
        whole_bytes: of a catalog that is larger records name another one that has it. All clients agree.
    """

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        *,
        clock: Clock,
        freshness_s: float = FRESHNESS_S,
        far: int = FAR,
        kept: int = KEPT,
        kept_bytes: int = KEPT_BYTES,
        whole_bytes: int = WHOLE_BYTES,
    ) -> None:
        self.store = SequenceStore(bucket, SequenceLayout(prefix), clock)
        self.freshness_s = freshness_s
        self.far = far
        self.whole_bytes = whole_bytes
        self.put_s = 0.0
        """How long the last put of a record that this process won took."""
        self._kept, self._kept_bytes = kept, kept_bytes
        self._sized: tuple[Catalog, bool] | None = None
        self._mutex = threading.Lock()
        self._head: Head | None = None
        self._lost = True
        self._records: dict[int, LogRecord] = {}
        self._bytes = 0
        self._overlay = Overlay()
        self._overlaid: deque[LogRecord] = deque()
        self._applied = 0
        self._horizon = 0
        self._done: set[int] = set()
        self._own: set[int] = set()
        self._written: dict[str, dict[str, int]] = {}

    # -- the end of the log

    def head(self) -> Head:
        """The end as it is known. No request, but for a process that knows nothing yet: as `refresh`."""
        return self._known() or self.refresh()

    @property
    def known(self) -> Head | None:
        """The end as it is known; None for a process that knows nothing yet. No request."""
        return self._known()

    def refresh(self, *, taken: int = 0, far: int | None = None) -> Head:
        """The end as it is now (rules 6 to 9): the next snapshot. 1 GET and 1 a new record, up to as many again if
        there are several; 1 more for the horizon if nobody has asked for it within `freshness_s`. At first, and
        behind by more than `far`: as `open_log`.

        Args:
            taken: the greatest number that the caller knows to be a record's.
            far: behind by how many the log is opened anew, for a caller that needs all records in between.

        Raises:
            CorruptObjectError: records are missing that nobody has applied.
        """
        backoff = self.store.backoff()
        while True:
            known = self._known()
            behind = 0
            if known is not None:
                probed = self._probe(known.number, certain=max(0, taken - known.number), most=far or self.far)
                if probed.began_s is not None:
                    if not self.is_ghost(known, known.number + 1):
                        return self._adopt(probed.records, probed.began_s)
                    continue
                # Records or ghosts, the end isn't before them.
                behind = known.number + len(probed.records)
            opened = open_log(self.store, behind, self.now_s)
            if opened is not None:
                return self._replace(opened)
            if not backoff.wait():
                raise self.store.incomplete()

    def advance(self, record: LogRecord, sent_s: float) -> Head:
        """Take in a record that this process put itself, by a request first sent at `sent_s`."""
        self.own(record.number)
        if not record.base:
            self.store.catalogs.keep(record.number, record.catalog)
        return self._adopt([record], sent_s)

    def own(self, number: int) -> None:
        """This process has committed that record, and is to apply it."""
        with self._mutex:
            self._own.add(number)

    def forget(self) -> None:
        """Take the end from the bucket at the next request, as a process that begins does: cheaper than one record
        after another where others have committed many. Records that are known to be applied stay known. No
        request."""
        with self._mutex:
            self._lost = True

    def is_fresh(self, head: Head) -> bool:
        """Whether nobody can have collected or truncated beyond that head yet. No request."""
        return self.now_s() - head.validated_s < self.freshness_s

    def must_reach(self, head: Head) -> None:
        """Raise unless all that a reader at that head may have listed was there (rule 11). 0 or 1 GET.

        Raises:
            SnapshotTooOldError: versions that only older snapshots can read may be gone.
        """
        if self.is_fresh(head):
            return
        horizon = self.learn(self.store.horizon())
        if horizon.horizon > head.number:
            raise SnapshotTooOldError(
                f"{self.store.bucket.uri(self.store.layout.prefix)}: the snapshot at commit {head.number} is older "
                f"than what is kept, commit {horizon.horizon}; begin another transaction"
            )

    def is_ghost(self, known: Head, number: int) -> bool:
        """Whether objects from `number` on, which didn't exist at `known`, are no records, as the log was truncated
        beyond (rules 6 and 17). 0 or 1 GET; if so, the process begins anew with its next request."""
        if self.is_fresh(known) or self.learn(self.store.horizon()).lo < number:
            return False
        with self._mutex:
            self._lost = True
        return True

    # -- what is applied

    @property
    def applied(self) -> int:
        """All records up to here are in rows and indices, as far as this process knows."""
        with self._mutex:
            return self._applied

    @property
    def lag(self) -> int:
        """How many records at most aren't applied yet."""
        with self._mutex:
            return 0 if self._head is None else self._head.number - self._applied

    def pending(self, *, own: bool = False) -> list[LogRecord]:
        """The records that aren't applied, as far as this process knows, ascending; all, or those that it has
        committed itself."""
        with self._mutex:
            if own and not self._own:
                return []
            there = (record for record in self._overlaid if record.number not in self._done)
            return [record for record in there if not own or record.number in self._own]

    def unapplied(self, table: str, id: str, upto: int) -> list[Change]:
        """All writes of a row in (applied, upto], ascending."""
        with self._mutex:
            return self._overlay.history(table, id, self._applied, upto)

    @property
    def horizon(self) -> int:
        """The horizon: versions that only snapshots before this commit can read may be deleted, as far as this
        process knows (rule 23)."""
        with self._mutex:
            return self._horizon

    def mark_applied(self, number: int) -> None:
        """All of that record is in rows and indices, acknowledged (rule 20)."""
        with self._mutex:
            self._learn_applied(0, [number])

    def learn(self, horizon: Horizon) -> Horizon:
        """Take in what the horizon says is applied, and what nobody reads any more."""
        with self._mutex:
            self._horizon = max(self._horizon, horizon.horizon)
            self._learn_applied(horizon.applied, ())
        return horizon

    def written(self, table: str, id: str) -> int:
        """The last record up to `applied` that wrote a row, of those in memory; 0 for none. A row that is read from
        now on has that version, or a later one. No request."""
        with self._mutex:
            return self._written.get(table, {}).get(id, 0)

    def written_rows(self, table: str) -> dict[str, int]:
        """The same of all rows of a table that have one, by id. No request."""
        with self._mutex:
            return dict(self._written.get(table, {}))

    @property
    def remembered(self) -> int:
        """All records behind this one, up to the end as it is known, are in memory."""
        with self._mutex:
            at = 0 if self._head is None else self._head.number
            while at in self._records:
                at -= 1
            return at

    def next_record(self, head: Head, group: Iterable[LogTransaction]) -> LogRecord:
        """The record that is to follow that head, with what is known to be applied (rule 1). No request."""
        with self._mutex:
            applied = min(self._applied, head.number)
            done = tuple(sorted(number for number in self._done if number <= head.number))
        base = head.base if head.base and self._is_large(head.catalog) else 0
        return LogRecord(head.number + 1, tuple(group), applied, done, head.catalog, base)

    # -- records

    def newest(self, table: str, id: str, upto: int) -> Change | None:
        """The row's last write that may not be in its object yet, up to a snapshot (rule 10). No request.

        Writes that are not here are in the row if that is read from now on: how far rows are applied is read once.
        """
        with self._mutex:
            return self._overlay.newest(table, id, self._applied, upto)

    def changes(self, table: str, upto: int) -> dict[str, Change]:
        """The same of all rows of a table, by id. No request."""
        with self._mutex:
            return self._overlay.changes(table, self._applied, upto)

    def records(self, after: int, upto: int) -> list[LogRecord]:
        """The records in (after, upto], of which the last is known to exist. No request for those in memory; else
        1 GET each and 1 for the horizon, and 1 LIST sequence and 1 GET a pack.

        Raises:
            SnapshotTooOldError: one is neither in the log nor in a pack any more.
        """
        with self._mutex:
            found = {n: self._records[n] for n in range(after + 1, upto + 1) if n in self._records}
        missing = [n for n in range(after + 1, upto + 1) if n not in found]
        if missing:
            found.update(self._fetch(missing))
        return [found[n] for n in range(after + 1, upto + 1)]

    def now_s(self) -> float:
        """The clock by which heads are validated."""
        return seconds_awake_or_not(self.store.clock)

    # -- how it comes to know

    def _is_large(self, catalog: Catalog) -> bool:
        """Whether records refer to it. Asked for each record, and looked at once."""
        sized = self._sized
        if sized is None or sized[0] is not catalog:
            sized = self._sized = (catalog, is_large(catalog, self.whole_bytes))
        return sized[1]

    def _probe(self, known: int, *, certain: int = 0, most: int | None = None) -> Probed:
        """The records that follow."""
        return probe(self.store, known, self.now_s, certain=certain, most=most)

    def _known(self) -> Head | None:
        with self._mutex:
            return None if self._lost else self._head

    def _replace(self, opened: OpenedLog) -> Head:
        """Take all from the bucket; what other threads have learned meanwhile counts if it is more."""
        with self._mutex:
            self._learn_applied(opened.applied, [n for record in opened.records for n in record.done])
            if self._head is None or opened.head.number >= self._head.number:
                self._head = opened.head
                self._overlay, self._overlaid = Overlay(), deque()
                for record in opened.records:
                    self._remember(record)
            self._lost = False
            return self._head

    def _adopt(self, records: Sequence[LogRecord], validated_s: float) -> Head:
        """Take in records that follow one another up to the end as it was at `validated_s`; the end as known."""
        with self._mutex:
            assert self._head is not None
            for record in records:
                if record.number == self._head.number + 1:
                    self._head = Head(record.number, validated_s, after(record), record.base_after)
                    self._remember(record)
                    self._learn_applied(record.applied, record.done)
            last = records[-1].number if records else self._head.number
            if last == self._head.number and validated_s > self._head.validated_s:
                self._head = replace(self._head, validated_s=validated_s)
            return self._head

    def _remember(self, record: LogRecord) -> None:
        known = self._records.pop(record.number, None)
        self._bytes -= 0 if known is None else known.weight
        self._records[record.number] = record
        if record.number > self._applied:
            self._overlay.add(record)
            self._overlaid.append(record)
        else:
            self._note_written(record)
        self._bytes += record.weight
        if len(self._records) <= 2 * self._kept and self._bytes <= 2 * self._kept_bytes:
            return
        while len(self._records) > self._kept or self._bytes > self._kept_bytes:
            oldest = next(iter(self._records))
            if oldest > self._applied:
                return
            evicted = self._records.pop(oldest)
            self._bytes -= evicted.weight
            self._forget_written(evicted)

    def _learn_applied(self, applied: int, done: Iterable[int]) -> None:
        self._applied = max(self._applied, applied)
        self._done.update(done)
        while self._applied + 1 in self._done:
            self._applied += 1
        self._done = {number for number in self._done if number > self._applied}
        self._own = {number for number in self._own if number > self._applied}
        while self._overlaid and self._overlaid[0].number <= self._applied:
            record = self._overlaid.popleft()
            self._overlay.forget(record)
            if record.number in self._records:
                self._note_written(record)

    def _note_written(self, record: LogRecord) -> None:
        for write in record.writes:
            rows = self._written.setdefault(write.table, {})
            rows[write.id] = max(record.number, rows.get(write.id, 0))

    def _forget_written(self, record: LogRecord) -> None:
        for write in record.writes:
            rows = self._written.get(write.table, {})
            if rows.get(write.id) == record.number:
                del rows[write.id]

    def _fetch(self, numbers: Sequence[int]) -> Mapping[int, LogRecord]:
        """Records of the past, from the log or from packs. The horizon says which objects are records, so it is read
        after them."""
        there = self.store.records(numbers)
        lo = self.learn(self.store.horizon()).lo
        found = {number: record for number, record in there.items() if number > lo}
        for number in numbers:
            if number not in found:
                pack = self.store.pack_with(number)
                if pack is None:
                    raise SnapshotTooOldError(
                        f"{self.store.bucket.uri(self.store.layout.record_key(number))} was truncated, and no pack "
                        "of records has it any more; begin another transaction"
                    )
                found.update((record.number, record) for record in pack.records)
        return found
