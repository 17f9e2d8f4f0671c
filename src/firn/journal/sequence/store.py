"""The log's objects, read and decoded, and the horizon raised. Nothing here decides anything."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from firn.bucket.base import Blob, Bucket
from firn.clock import Clock
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    ObjectChangedError,
    ObjectExistsError,
    OutcomeUnknownError,
)
from firn.journal.backoff import Backoff, find_whole, whole_or_none
from firn.journal.sequence.codec import decode_horizon, decode_pack, decode_record, encode_horizon
from firn.journal.sequence.layout import SequenceLayout
from firn.journal.sequence.model import Catalog, Horizon, LogRecord, Pack


class Catalogs:
    """The catalogs that were seen last, each by the record whose object has it. Safe to share between threads."""

    KEPT: Final = 16

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._known: dict[int, Catalog] = {}

    def get(self, base: int) -> Catalog | None:
        with self._mutex:
            found = self._known.pop(base, None)
            if found is not None:
                self._known[base] = found  # which was used last
            return found

    def keep(self, base: int, catalog: Catalog) -> None:
        with self._mutex:
            self._known[base] = catalog
            if len(self._known) > self.KEPT:
                del self._known[next(iter(self._known))]


class _Truncated(Exception):
    """A record was truncated before the catalog that it refers to was found."""


@dataclass(frozen=True)
class SequenceStore:
    """One database's log in a bucket."""

    bucket: Bucket
    layout: SequenceLayout
    clock: Clock
    catalogs: Catalogs = field(default_factory=Catalogs, compare=False)

    def backoff(self) -> Backoff:
        return Backoff(self.clock)

    def record(self, number: int) -> LogRecord | None:
        """The object of that number, whether the horizon lets it count or not; None if there is none. 1 GET, and 1
        where it refers to a record for its catalog that this process hasn't seen: of that, or of the horizon."""
        key = self.layout.record_key(number)
        blob = self.find(key)
        return None if blob is None else self._decoded(number, blob)

    def records(self, numbers: Sequence[int]) -> dict[int, LogRecord]:
        """Those that there are. 1 GET each, many at once, and those of `record`."""
        blobs = self.bucket.get_many([self.layout.record_key(number) for number in numbers])
        there = {}
        for number, blob in zip(numbers, blobs, strict=True):
            found = whole_or_none(self.bucket, blob, self.clock)
            record = None if found is None else self._decoded(number, found)
            if record is not None:
                there[number] = record
        return there

    def last(self, after: int) -> int:
        """The greatest number above `after` that there is an object of, or `after`. 1 LIST sequence."""
        start = self.layout.record_key(after) if after else None
        listing = self.bucket.list(self.layout.records_prefix, after=start)
        numbers = (self.layout.parse_record(info.key) for info in listing.objects)
        return max((number for number in numbers if number is not None), default=after)

    def horizon(self) -> Horizon:
        """The horizon, which holds for all clients (rule 2). 1 GET."""
        return self._horizon()[0]

    def raise_horizon(self, wanted: Horizon) -> Horizon:
        """Raise its fields to those of `wanted`, where they are lower; what it is then. 1 GET, 0 or 1 PUT.

        Raises:
            ConflictError: others raise it all the time.
        """
        backoff = self.backoff()
        while True:
            found, etag = self._horizon()
            raised = Horizon(
                max(found.horizon, wanted.horizon),
                max(found.lo, wanted.lo),
                max(found.applied, wanted.applied),
                wanted.catalog if wanted.lo > found.lo else found.catalog,
            )
            if raised == found:
                return found
            try:
                self._put_horizon(raised, etag)
                return raised
            except (ObjectExistsError, ObjectChangedError, OutcomeUnknownError):
                # Whether it was raised by this or by others is all the same: look again.
                if not backoff.wait():
                    raise ConflictError(
                        f"{self.bucket.uri(self.layout.horizon_key)} is changed by others all the time; retry"
                    ) from None

    def pack_with(self, number: int) -> Pack | None:
        """The pack that holds that record, None if there is none. 1 LIST sequence, 1 GET."""
        firsts = (
            self.layout.parse_pack(info.key) for info in self.bucket.list(self.layout.packs_prefix).objects
        )
        first = max((first for first in firsts if first is not None and first <= number), default=None)
        pack = None if first is None else self.pack(first)
        return pack if pack is not None and number <= pack.hi else None

    def pack(self, first: int) -> Pack | None:
        """The pack that begins with that record, None if there is none. 1 GET."""
        blob = self.find(self.layout.pack_key(first))
        return None if blob is None else decode_pack(first, blob.data, where=self.bucket.uri(blob.info.key))

    def has_lost_horizon(self) -> bool:
        """Whether commits are there and the first is not, though no horizon says that any were truncated. 1 LIST
        sequence, and 2 GETs where there are commits."""
        return self.last(0) > 0 and self.record(1) is None and self.find(self.layout.horizon_key) is None

    def incomplete(self) -> CorruptObjectError:
        """For a log that isn't whole however often it is read: no truncation takes that long. GET, LIST."""
        if self.has_lost_horizon():
            return CorruptObjectError(
                f"{self.bucket.uri(self.layout.horizon_key)} is missing, and so is commit 1, though later ones are "
                "there. Copy back from a backup what it has of the two."
            )
        low = self.horizon().lo
        names = (
            self.layout.parse_record(i.key) for i in self.bucket.list(self.layout.records_prefix).objects
        )
        there = {number for number in names if number is not None and number > low}
        first = next(number for number in count(low + 1) if number not in there)
        more = max(there, default=low) - low - len(there) - 1
        lost = self.bucket.uri(self.layout.record_key(first) if more >= 0 else self.layout.packs_prefix)
        also = f" and {more} more" if more > 0 else ""
        return CorruptObjectError(
            f"the log has gaps: {lost}{also}: commits that aren't applied, or aren't in a pack, are missing. Copy "
            "their objects back from a backup."
        )

    def find(self, key: str) -> Blob | None:
        """An object, whole; None if there is none. 1 GET."""
        return find_whole(self.bucket, key, self.clock)

    def now_ms(self) -> int:
        """The store's own time, of a moment ago: when an object was written that exists for this alone. PUT, HEAD."""
        self.backoff().persist(lambda: self.bucket.put(self.layout.clock_key, b""), OutcomeUnknownError)
        return self.bucket.head(self.layout.clock_key).modified_ms

    def _horizon(self) -> tuple[Horizon, str | None]:
        blob = self.find(self.layout.horizon_key)
        if blob is None:
            return Horizon(), None
        return decode_horizon(blob.data, where=self.bucket.uri(blob.info.key)), blob.info.etag

    def _put_horizon(self, horizon: Horizon, etag: str | None) -> None:
        key, data = self.layout.horizon_key, encode_horizon(horizon)
        if etag is None:
            self.bucket.put_if_absent(key, data)
        else:
            self.bucket.put_if_match(key, data, etag)

    def _decoded(self, number: int, blob: Blob) -> LogRecord | None:
        """None: it was truncated since, and the catalog that it refers to isn't there any more."""

        def catalog_of(base: int) -> Catalog:
            return self.catalogs.get(base) or self._catalog(base, number)

        try:
            where = self.bucket.uri(blob.info.key)
            record = decode_record(number, blob.data, where=where, catalog_of=catalog_of)
        except _Truncated:
            return None
        if not record.base:
            self.catalogs.keep(number, record.catalog)
        return record

    def _catalog(self, base: int, number: int) -> Catalog:
        """The catalog that record `base` has, or had. Even a ghost in its place has the same catalog, as its writer
        knew all records before it. A record that is still there while `base` was truncated has the horizon's."""
        found = self.record(base)
        if found is None:
            horizon = self.horizon()
            if horizon.lo >= number:
                raise _Truncated
            if horizon.lo < base or horizon.catalog is None:
                raise self.incomplete()
            self.catalogs.keep(base, horizon.catalog)
            return horizon.catalog
        return found.catalog
