"""Truncation (rule 22): old records move into packs, and the log stays short."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from firn.errors import ObjectExistsError, OutcomeUnknownError
from firn.journal.sequence.catalog import after
from firn.journal.sequence.codec import encode_pack, is_large
from firn.journal.sequence.log import SequenceLog
from firn.journal.sequence.model import Horizon, LogRecord, Pack

LARGEST: Final = 1000
"""Records in one pack at most."""

LARGEST_BYTES: Final = 4 << 20
"""About how many bytes of them, unless a single record has more: a reader that needs one record reads the whole
pack, in one request."""

FIRST: Final = 8
"""Records that are read at once before it is known how large they are."""

WIDEST: Final = 128
"""Records that are read at once at most."""


@dataclass(frozen=True, slots=True)
class Truncated:
    """The result of a truncation: up to which record, and how many objects it deleted."""

    lo: int
    deleted: int


def truncate(log: SequenceLog, *, largest: int = LARGEST, largest_bytes: int = LARGEST_BYTES) -> Truncated:
    """Move all records that nobody's snapshot and no applier needs into packs, and delete them.

    As `refresh`; per pack 2 GETs of the horizon and 2 PUTs; 1 GET and 1 DELETE a record; 1 LIST sequence of what is
    left. Packs end where they get large, and no more of the log than two of them is in memory.

    Raises:
        CorruptObjectError: a record is missing.
    """
    store, deleted, backoff = log.store, 0, log.store.backoff()
    head = log.refresh()
    while True:
        horizon = log.learn(store.horizon())
        limit = min(horizon.horizon, log.applied, head.number - 1)
        if horizon.lo >= limit:
            return Truncated(horizon.lo, deleted + _sweep(log, horizon.lo))
        last = _pack(log, horizon.lo + 1, min(limit, horizon.lo + largest), largest_bytes)
        if last is not None:
            catalog = after(last)
            # Later records may refer to a record that is deleted now.
            kept = catalog if is_large(catalog, log.whole_bytes) else None
            store.raise_horizon(Horizon(lo=last.number, applied=log.applied, catalog=kept))
            deleted += _delete(log, range(horizon.lo + 1, last.number + 1))
        elif not backoff.wait():
            raise store.incomplete()


def _pack(log: SequenceLog, first: int, last: int, largest_bytes: int = LARGEST_BYTES) -> LogRecord | None:
    """Put a pack of records from `first` on, up to `last` or until it is large; its last record, or that of the
    pack that is there. None: the log was truncated meanwhile."""
    store, backoff = log.store, log.store.backoff()
    records = _read(log, first, last, largest_bytes)
    if not records:
        return None
    pack = Pack(tuple(records))
    while True:
        try:
            data = encode_pack(pack, whole_bytes=log.whole_bytes)
            store.bucket.put_if_absent(store.layout.pack_key(first), data)
            return pack.records[-1]
        except (ObjectExistsError, OutcomeUnknownError):
            there = store.pack(first)
        if there is not None:
            return there.records[-1]
        if not backoff.wait():
            return None


def _read(log: SequenceLog, first: int, last: int, largest_bytes: int) -> list[LogRecord]:
    """Records from `first` on, at least one, up to `last` or as many as have so many bytes; a few at a time, as many
    as the ones before let expect. None at all if one is missing."""
    records: list[LogRecord] = []
    size, width = 0, FIRST
    while first + len(records) <= last:
        at = first + len(records)
        numbers = range(at, min(at + width, last + 1))
        there = log.store.records(numbers)
        for number in numbers:
            if number not in there:
                return []
            size += there[number].weight
            if records and size > largest_bytes:
                return records
            records.append(there[number])
        width = max(1, min(WIDEST, (largest_bytes - size) * len(records) // max(size, 1)))
    return records


def _delete(log: SequenceLog, numbers: range) -> int:
    """Delete the objects of these records, which are in a pack, by their names: a LIST is of the whole log, and there
    may be many packs. How many they are."""
    log.store.bucket.delete_many([log.store.layout.record_key(number) for number in numbers])
    return len(numbers)


def _sweep(log: SequenceLog, lo: int) -> int:
    """Delete remaining records up to `lo`: a truncation crashed, or they landed late. Returns how many there
    were."""
    store = log.store
    keys = [info.key for info in store.bucket.list(store.layout.records_prefix).objects]
    old = [key for key in keys if (number := store.layout.parse_record(key)) is not None and number <= lo]
    store.bucket.delete_many(old)
    return len(old)
