"""The Bloom filter of an SST: which keys it surely doesn't hold.

It is Parquet's split-block filter with its hash, XXH64 of the key's bytes, so that the layout is known and proven.
One filter covers the file: a reader has it whole in memory, and filters of blocks would answer no better.
"""

from __future__ import annotations

from collections.abc import Sequence

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
_STEP = 1 << 18

key_hash = xxhash.xxh64_intdigest
"""The hash of a key, 64 bits: taken once, it asks the filters of many SSTs."""


def build(hashes: Sequence[npt.NDArray[np.uint64]], bits: int) -> bytes:
    """A filter over all the hashes with `bits` bits each, about.

    >>> import numpy as np
    >>> filter = Bloom(build([np.array([key_hash(b"DTW")], dtype=np.uint64)], 10))
    >>> filter.may_contain(key_hash(b"DTW")), filter.may_contain(key_hash(b"ORD"))
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


class Bloom:
    """A filter as it is asked. One without a byte takes every key for present."""

    __slots__ = ("_blocks", "_words")

    def __init__(self, data: bytes) -> None:
        self._blocks = len(data) // BLOCK_BYTES
        self._words = memoryview(data).cast("I")

    @property
    def nbytes(self) -> int:
        return self._words.nbytes

    def may_contain(self, hashed: int) -> bool:
        """False only if no key of this hash was put in."""
        blocks = self._blocks
        if not blocks:
            return True
        words = self._words
        at = (((hashed >> 32) * blocks) >> 32) * WORDS
        x = hashed & _LOW
        # Unrolled: the loop would take three times as long, and most absent keys fail at the first or second word.
        return bool(
            words[at] >> ((x * _S0 & _LOW) >> 27) & 1
            and words[at + 1] >> ((x * _S1 & _LOW) >> 27) & 1
            and words[at + 2] >> ((x * _S2 & _LOW) >> 27) & 1
            and words[at + 3] >> ((x * _S3 & _LOW) >> 27) & 1
            and words[at + 4] >> ((x * _S4 & _LOW) >> 27) & 1
            and words[at + 5] >> ((x * _S5 & _LOW) >> 27) & 1
            and words[at + 6] >> ((x * _S6 & _LOW) >> 27) & 1
            and words[at + 7] >> ((x * _S7 & _LOW) >> 27) & 1
        )
