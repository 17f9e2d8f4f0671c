"""The memtable: what a writer holds until it is an L0 object.

A log of entries and a dict of each key's newest position, so that puts and gets don't search; keys are sorted only
when somebody scans, and at the end by Arrow. One thread writes, any number read meanwhile without a lock: an entry
is whole before the dict names it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from sortedcontainers import SortedList

from firn.errors import InvalidInputError
from firn.keyed.encoding.entries import MERGE, PUT, Entry
from firn.keyed.encoding.seqs import NARROW, Seqs
from firn.keyed.encoding.values import Values
from firn.keyed.merge.operators import Operator
from firn.keyed.merge.order import key_order
from firn.keyed.merge.run_buffers import bisect_keys

OVERHEAD: Final = 192
"""Bytes of memory that an entry takes besides those of its key and value, about: what Python needs for objects."""

Positions = list[int] | range
T = TypeVar("T")

_FIRST_ROWS: Final = 64  # a scan may stop after a few
_MOST_ROWS: Final = 16_384


class Memtable:
    """Entries that become L0 object `number`.

    Args:
        number: of the L0 object; entries' `seq` is made of it.
        values: the table's values.
        operator: merges operands early where that saves memory; they stay apart without one.
        seqs: how the table's `seq` are made.

    >>> memtable = Memtable(0, Values())
    >>> seq = memtable.put(b"k", b"v")
    >>> memtable.get(b"k")
    [Entry(key=b'k', seq=4294967296, kind=0, expire_at=None, value=b'v')]
    """

    def __init__(
        self, number: int, values: Values, operator: Operator | None = None, *, seqs: Seqs = NARROW
    ) -> None:
        self.number = number
        self.values = values
        self.operator = operator
        self.bytes = 0
        """About how much memory the entries take."""
        self._base = seqs.of(number, 0)
        self._early = operator is not None and operator.compact
        self._count = 0  # entries that are whole
        self._newest: dict[bytes, int] = {}
        self._keys: list[bytes] = []
        self._values: list[object] = []
        self._kinds = bytearray()
        self._expires: list[int | None] = []
        self._before: list[int] = []  # the key's version before this one, -1 for none
        self._below: dict[
            int, int
        ] = {}  # of an operand merged early: the version that the merged ones stand on
        self._ordered: SortedList[bytes] = SortedList()
        self._ordered_to = 0  # how many entries' keys are in it
        self._order = threading.Lock()
        self._kept: tuple[int, pa.RecordBatch] | None = None

    def __len__(self) -> int:
        """The number of entries, older versions too."""
        return self._count

    @property
    def last_seq(self) -> int:
        """The `seq` of the newest entry; just below the memtable's first where there is none."""
        return self._base + self._count - 1

    def put(self, key: bytes, value: object, kind: int = PUT, expire_at: int | None = None) -> int:
        """Add the newest version of a key; its `seq`.

        Args:
            key: encoded.
            value: as stored; None for a delete.
            expire_at: Unix milliseconds, or None.
        """
        return self.extend(((key, value, kind, expire_at),))

    def extend(self, entries: Iterable[tuple[bytes, object, int, int | None]]) -> int:
        """Add entries (key, stored value, kind, expire_at), the later the newer; the `seq` of the last.

        `last_seq` moves when all are in, so a reader up to a `last_seq` sees all of them or none.
        """
        self._kept = None
        keys, values, kinds, expires = self._keys, self._values, self._kinds, self._expires
        newest, before = self._newest, self._before
        plain = not self.values.typed
        size = self.values.size
        total = 0
        at = first = len(keys)
        for key, value, kind, expire_at in entries:
            previous = newest.get(key, -1)
            if kind == MERGE and self._early and previous >= 0 and expires[previous] == expire_at:
                value, kind = self._merged(at, previous, value)
            before.append(previous)
            values.append(value)
            kinds.append(kind)
            expires.append(expire_at)
            keys.append(key)
            newest[key] = at
            at += 1
            total += len(key)
            if value is not None:
                total += len(value) if plain else size(value)  # type: ignore[arg-type]
        self.bytes += total + OVERHEAD * (at - first)
        self._count = at
        return self._base + at - 1

    def get(self, key: bytes, upto_seq: int | None = None) -> list[Entry]:
        """A key's versions, newest first, down to the first that isn't a merge operand; [] if there is none.

        Args:
            upto_seq: leaves out newer versions.
        """
        at = self._newest.get(key, -1)
        if at < 0:
            return []
        if upto_seq is not None:
            upto = upto_seq - self._base
            before = self._before
            while at > upto:
                at = before[at]
        found = []
        while at >= 0:
            kind = self._kinds[at]
            found.append(Entry(key, self._base + at, kind, self._expires[at], self._values[at]))
            if kind != MERGE:
                break
            at = self._below.get(at, self._before[at])
        return found

    def scan(
        self,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        reverse: bool = False,
        upto_seq: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The entries with start ≤ key < end as batches of a run, or exactly backwards with `reverse`.

        Each key has what `get` gives. Entries that come while the scan runs are left out.
        """
        upto = self._count - 1 if upto_seq is None else min(upto_seq - self._base, self._count - 1)
        rows = _FIRST_ROWS
        while True:
            run = self._run(upto, build=rows == _MOST_ROWS)
            if run is not None:
                yield from _range(run, start, end, reverse)
                return
            keys = self._slice(start, end, reverse, rows)
            if positions := self._positions(keys, upto):
                yield self._batch(positions[::-1] if reverse else positions)
            if len(keys) < rows:
                return
            if reverse:
                end = keys[0]
            else:
                start = keys[-1] + b"\0"
            rows = min(2 * rows, _MOST_ROWS)

    def freeze(self) -> pa.RecordBatch:
        """The run that is flushed: of each key, what `get` gives. Nothing may be put any more.

        Older versions are left out: a reader up to an older `seq` still holds the memtable. The run isn't kept:
        while it is on its way to the bucket, the memtable would take twice its room.
        """
        run = self._run(self._count - 1, build=False)
        return self._sorted(self._count - 1) if run is None else run

    def _run(self, upto: int, *, build: bool) -> pa.RecordBatch | None:
        """All entries up to a position as a run, which is kept until the next put; None if it isn't here yet."""
        kept = self._kept
        if kept is not None and kept[0] == upto:
            return kept[1]
        if not build:
            return None
        run = self._sorted(upto)
        self._kept = upto, run
        return run

    def _sorted(self, upto: int) -> pa.RecordBatch:
        rows = self._batch(self._standing(upto))
        order, _ = key_order(rows.column(0))  # stable, so a key's versions stay newest first
        return rows.take(pa.array(order))

    def _slice(self, start: bytes | None, end: bytes | None, reverse: bool, rows: int) -> list[bytes]:
        """Up to `rows` of the keys in a range, ascending: the first ones, or the last with `reverse`."""
        with self._order:
            ordered = self._ordered
            count = self._count
            if self._ordered_to < count:
                fresh = range(self._ordered_to, count)
                ordered.update([self._keys[at] for at in fresh if self._before[at] < 0])
                self._ordered_to = count
            low = 0 if start is None else ordered.bisect_left(start)
            high = len(ordered) if end is None else ordered.bisect_left(end)
            if reverse:
                low = max(low, high - rows)
            else:
                high = min(high, low + rows)
            return list(ordered.islice(low, high))

    def _standing(self, upto: int) -> Positions:
        """The positions that `get` gives of all keys, each key's newest first."""
        count = upto + 1
        before = self._before[:count]
        if max(before, default=-1) < 0:  # no key twice
            return range(count)
        if MERGE in self._kinds[:count]:
            return self._positions(list(self._newest), upto)
        newer = np.array(before, np.int64)
        standing = np.ones(count, np.bool_)
        standing[newer[newer >= 0]] = False
        found: list[int] = np.flatnonzero(standing).tolist()
        return found

    def _positions(self, keys: Iterable[bytes], upto: int) -> list[int]:
        """The positions that `get` gives of each key in turn, newest first."""
        newest, kinds, before, below = self._newest, self._kinds, self._before, self._below
        found = []
        for key in keys:
            at = newest[key]
            while at > upto:
                at = before[at]
            while at >= 0:
                found.append(at)
                if kinds[at] != MERGE:
                    break
                at = below.get(at, before[at])
        return found

    def _batch(self, positions: Positions) -> pa.RecordBatch:
        """The entries at these positions as a batch of a run."""
        if not positions:
            return self.values.empty

        def chosen(column: Sequence[T]) -> Sequence[T]:
            if isinstance(positions, range):
                return column[positions.start : positions.stop]
            return [column[at] for at in positions]

        columns = [
            pa.array(chosen(self._keys), pa.binary()),
            pa.array(np.array(positions, np.int64) + self._base),
            pa.array(np.frombuffer(bytes(chosen(self._kinds)), np.int8)),
            pa.array(chosen(self._expires), pa.int64()),
            *self.values.to_arrays(chosen(self._values)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.values.run_schema)

    def _merged(self, at: int, previous: int, operand: object) -> tuple[object, int]:
        """The value and kind of an operand on top of a version with the same expiry."""
        operator, kind = self.operator, self._kinds[previous]
        assert operator is not None
        if kind == MERGE:
            both = operator.combine((self._values[previous], operand))
            if both is None:
                return operand, MERGE
            self._below[at] = self._below.get(previous, self._before[previous])
            return both, MERGE
        base = self._values[previous] if kind == PUT else None
        return operator.merge(base, (operand,)), PUT


def checked_weight(
    entries: Sequence[tuple[bytes, object, int, int | None]], values: Values, most: int, name: str
) -> int:
    """By how much entries would raise `bytes`.

    Raises:
        InvalidInputError: by more than `most`.
    """
    size = values.size
    weight = sum([len(key) + size(value) for key, value, _, _ in entries]) + OVERHEAD * len(entries)
    if weight > most:
        raise InvalidInputError(
            f"a batch of {weight:,} bytes is too large for {name}: at most {most:,} fit, with {OVERHEAD} for each "
            "entry. Write it in several batches; each of them is all or nothing."
        )
    return weight


def _range(
    rows: pa.RecordBatch, start: bytes | None, end: bytes | None, reverse: bool
) -> Iterator[pa.RecordBatch]:
    """The rows of a run with start ≤ key < end; backwards in parts, for callers that want only the last ones."""
    low = 0 if start is None else bisect_keys(rows.column(0), start)
    high = len(rows) if end is None else bisect_keys(rows.column(0), end)
    if not reverse:
        if low < high:
            yield rows.slice(low, high - low)
        return
    size = _FIRST_ROWS
    while low < high:
        first = max(low, high - size)
        yield rows.take(pa.array(np.arange(high - 1, first - 1, -1)))
        high, size = first, min(2 * size, _MOST_ROWS)
