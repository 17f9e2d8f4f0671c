"""Bloom filters as Parquet has them: which values are surely not among those that were put in.

They are Parquet's split-block filters with its hash, bit for bit: blocks of 8 words of 32 bits, of which a value
sets one bit each. The rooms above decide which bytes are hashed, and where filters are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import xxhash

WORDS = 8  # frozen: a block's words of 32 bits
BLOCK_BYTES = 4 * WORDS
_SALT = (  # frozen: Parquet's
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
_S0, _S1, _S2, _S3, _S4, _S5, _S6, _S7 = _SALT
_LOW = 0xFFFFFFFF
_STEP = 1 << 15  # hashes at once: each takes 200 bytes of temporaries

hash64 = xxhash.xxh64_intdigest
"""The hash of a value's bytes, 64 bits: taken once, it asks any number of filters. Frozen: Parquet's."""

T = TypeVar("T")


def build(hashes: Sequence[npt.NDArray[np.uint64]], bits: int) -> bytes:
    """A filter over all the hashes with `bits` bits each, about.

    >>> import numpy as np
    >>> filter = Bloom(build([np.array([hash64(b"DTW")], dtype=np.uint64)], 10))
    >>> filter.may_contain(hash64(b"DTW")), filter.may_contain(hash64(b"ORD"))
    (True, False)
    """
    count = sum(map(len, hashes))
    blocks = max(1, -(-count * bits // (8 * BLOCK_BYTES)))
    flags = np.zeros(blocks * WORDS * 32, dtype=np.bool_)
    salt = np.array(_SALT, dtype=np.uint32)
    lane = np.arange(WORDS, dtype=np.int64) * 32
    for each in hashes:
        for start in range(0, len(each), _STEP):
            part = each[start : start + _STEP]
            block = ((part >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)
            bit = (part.astype(np.uint32)[:, None] * salt) >> np.uint32(27)
            flags[(block.astype(np.int64)[:, None] * (WORDS * 32) + lane + bit).ravel()] = True
    return np.packbits(flags, bitorder="little").tobytes()


def false_positive_rate(bits: bytes) -> float:
    """The share of absent values that a filter can't tell from present ones: exactly, from its bits."""
    words = np.unpackbits(np.frombuffer(bits, np.uint8)).reshape(-1, 8, 32).sum(axis=2) / 32
    return float(words.prod(axis=1).mean())


class Bloom:
    """A filter as it is asked. One without a byte takes every value for present."""

    __slots__ = ("blocks", "nbytes", "pairs")

    def __init__(self, bits: bytes) -> None:
        self.nbytes = len(bits)
        # Two words at a time: half as many operations, and most absent values fail at the first pair.
        self.pairs = memoryview(bits or b"\xff" * BLOCK_BYTES).cast("Q")
        self.blocks = self.pairs.nbytes // BLOCK_BYTES

    def may_contain(self, hashed: int) -> bool:
        """False only if no value of this hash was put in."""
        pairs, x = self.pairs, hashed & _LOW
        at = ((hashed >> 32) * self.blocks >> 32) << 2
        # Unrolled: a loop over the words would take three times as long.
        pair = pairs[at]
        if not (pair >> ((x * _S0 & _LOW) >> 27) & 1 and pair >> ((x * _S1 & _LOW) >> 27 | 32) & 1):
            return False
        pair = pairs[at + 1]
        if not (pair >> ((x * _S2 & _LOW) >> 27) & 1 and pair >> ((x * _S3 & _LOW) >> 27 | 32) & 1):
            return False
        pair = pairs[at + 2]
        if not (pair >> ((x * _S4 & _LOW) >> 27) & 1 and pair >> ((x * _S5 & _LOW) >> 27 | 32) & 1):
            return False
        pair = pairs[at + 3]
        return bool(pair >> ((x * _S6 & _LOW) >> 27) & 1 and pair >> ((x * _S7 & _LOW) >> 27 | 32) & 1)


def passing(filters: Iterable[tuple[memoryview, int, T]], hashed: int) -> Iterator[T]:
    """The values beside those filters, given as `pairs` and `blocks`, that may contain a hash; in their order.

    Asks as far as the caller looks, each filter in half the time of `may_contain`.

    >>> all, none = Bloom(b""), Bloom(bytes(32))
    >>> list(passing([(all.pairs, all.blocks, "a"), (none.pairs, none.blocks, "b")], 66))
    ['a']
    """
    high, x = hashed >> 32, hashed & _LOW
    first = 1 << ((x * _S0 & _LOW) >> 27) | 1 << ((x * _S1 & _LOW) >> 27 | 32)
    second = third = fourth = 0
    for pairs, blocks, beside in filters:
        at = (high * blocks >> 32) << 2
        if pairs[at] & first != first:
            continue
        if not second:
            second = 1 << ((x * _S2 & _LOW) >> 27) | 1 << ((x * _S3 & _LOW) >> 27 | 32)
            third = 1 << ((x * _S4 & _LOW) >> 27) | 1 << ((x * _S5 & _LOW) >> 27 | 32)
            fourth = 1 << ((x * _S6 & _LOW) >> 27) | 1 << ((x * _S7 & _LOW) >> 27 | 32)
        if (
            pairs[at + 1] & second == second
            and pairs[at + 2] & third == third
            and pairs[at + 3] & fourth == fourth
        ):
            yield beside
