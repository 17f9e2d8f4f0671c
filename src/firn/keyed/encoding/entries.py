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
