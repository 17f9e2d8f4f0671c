"""Entries: one version of one key each, and the Arrow form of a run of them.

A run is entries sorted by key, each key's versions newest first: a memtable that was frozen, an L0 object, the SSTs
of one sorted run. See docs/format/keyed-entries.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from firn.errors import InvalidInputError

PUT: Final = 0  # frozen
DELETE: Final = 1  # frozen
MERGE: Final = 2  # frozen

BULK_POSITION: Final = 1 << 31
"""Entries of one flush stand below this position, those of bulk loads at it or above. Frozen."""


LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999: engines have no later times."""


class Entry(NamedTuple):
    """One version of one key.

    `value` is as it is stored: bytes, or a tuple of column values; None for a delete. `expire_at` is in Unix
    milliseconds; from then on a put counts as a delete and a merge operand as absent.
    """

    key: bytes
    seq: int
    kind: int
    expire_at: int | None
    value: object

    def expired(self, now_ms: int) -> bool:
        """Whether it has expired by `now_ms`."""
        return self.expire_at is not None and self.expire_at <= now_ms


def seq_of(number: int, position: int) -> int:
    """The `seq` of the entry at `position` of the memtable that becomes L0 `number`.

    >>> seq_of(0, 5) == (1 << 32) + 5
    True
    """
    return (number + 1) << 32 | position


def number_of(seq: int) -> int:
    """The L0 number in a `seq`; for a bulk load, the last that was compacted before it, or more.

    >>> number_of(seq_of(7, 12))
    7
    """
    return (seq >> 32) - 1


def bulk_seq(max_seq: int, last_compacted: int) -> int:
    """The `seq` of all rows of a bulk load: above all that is compacted, below all L0 to come.

    Args:
        max_seq: the greatest of all SSTs; 0 where there is none.
        last_compacted: the last L0 number that is compacted, -1 for none.

    >>> bulk_seq(seq_of(3, 9), 3) < seq_of(4, 0), number_of(bulk_seq(0, -1))
    (True, -1)
    """
    return max(max_seq, (last_compacted + 1) << 32 | BULK_POSITION) + 1


def expiry(now_ms: int, ttl_ms: int) -> int:
    """When something ends that lives for so long from now on, in Unix milliseconds.

    Raises:
        InvalidInputError: after the year 9999.

    >>> expiry(1_000, 500)
    1500
    """
    if now_ms + ttl_ms > LAST_MS:
        raise InvalidInputError(
            f"a ttl of {ttl_ms / 1000:g} s ends after the year 9999; leave the ttl out for what never ends."
        )
    return now_ms + ttl_ms
