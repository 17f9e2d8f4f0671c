"""Sequence numbers: which of two versions of a key is newer, in 63 bits.

The upper bits are those of a flush, the lower ones a place in it, and the upper half of the places is for bulk loads
behind it. Tables of Firn 0.1 have 32 bits for places, which leaves 2^31 flushes: eight months at 100 a second. With
the feature `wide-seq` they are 24, which leaves 2^39: 174 years.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from firn.errors import UnsupportedError

WIDE_SEQ: Final = "wide-seq"
"""The feature's name in a definition; bit 0 in the trailer of SSTs. Frozen."""


@dataclass(frozen=True)
class Seqs:
    """How the sequence numbers of one table are made. `bits` are those of the place.

    >>> WIDE.of(0, 5) == (1 << 24) + 5
    True
    >>> WIDE.number(WIDE.of(7, 12))
    7
    """

    bits: int

    @property
    def half(self) -> int:
        """Entries of one flush stand below this place, those of bulk loads at it or above."""
        return 1 << self.bits - 1

    @property
    def mask(self) -> int:
        """The bits of the place."""
        return (1 << self.bits) - 1

    @property
    def last_number(self) -> int:
        """The last flush that has sequence numbers."""
        return (1 << 63 - self.bits) - 2

    def of(self, number: int, position: int) -> int:
        """The seq of the entry at a place of the memtable that becomes an L0 object.

        Raises:
            UnsupportedError: the table has had all its flushes.
        """
        if number > self.last_number:
            raise UnsupportedError(
                f"flush {number:,} is more than a table of this format can have. Load what it holds into a new one: "
                "db.create_table(…).load(table.reader().scan().to_arrow()); new tables have room for 2^39 flushes."
            )
        return (number + 1) << self.bits | position

    def number(self, seq: int) -> int:
        """The L0 number in a seq; for a bulk load, the last that was compacted before it."""
        return (seq >> self.bits) - 1

    def bulk(self, max_seq: int, last_compacted: int) -> int:
        """The seq of all rows of a bulk load: above all that is compacted, below all L0 to come.

        Args:
            max_seq: the greatest of all SSTs; 0 where there is none.
            last_compacted: the last L0 number that is compacted, -1 for none.

        Raises:
            UnsupportedError: there were too many loads since the last flush.

        >>> WIDE.bulk(WIDE.of(3, 9), 3) < WIDE.of(4, 0), WIDE.number(WIDE.bulk(0, -1))
        (True, -1)
        """
        seq = max(max_seq, self.of(last_compacted, self.half)) + 1
        if self.number(seq) > last_compacted:
            raise UnsupportedError(
                f"{self.half:,} loads in a row are all that fit behind one flush: put or delete any key, then load."
            )
        return seq


NARROW: Final = Seqs(32)
WIDE: Final = Seqs(24)
