"""The tail of an SST as bytes: the index, the Bloom filter, and the trailer that finds and checks them.

They stand between the last row group and Parquet's footer, where nothing of Parquet points, so that one ranged GET
of the file's end fetches all three. docs/format/sst.md is the page; every constant here is frozen.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xxhash

from firn.arrow.bloom import BLOCK_BYTES
from firn.bucket.base import BytesLike
from firn.errors import UnsupportedError
from firn.keyed.sst.index import SstIndex

FORMAT = 1
WIDE_SEQ = 1
"""A flag that a reader must know: the entries' `seq` are wide. Frozen."""

FEATURES = WIDE_SEQ
"""All that this version knows."""

MAGIC = b"FIRNSST1"
PARQUET_MAGIC = b"PAR1"

_TRAILER = struct.Struct("<IIQQ8s")  # format, features, bytes of the index, checksum, magic
_CHECKED = _TRAILER.size - 16
_HEAD = struct.Struct("<QqQQqQQIIIII")
"""rows, max seq, tombstones, merges, min expire, bytes of all blocks, checksum of the footer, bytes of the footer,
blocks, bytes of the lows, bytes of the greatest key, blocks of the Bloom filter."""

_NEVER = (1 << 63) - 1
_CONTINUED = 1

checksum = xxhash.xxh3_64_intdigest
"""The checksum of blocks, index and footer: XXH3, 64 bits."""


class DamagedError(ValueError):
    """Bytes that aren't a whole SST; says which part. The reader knows the object's name, and raises it anew."""


@dataclass(frozen=True)
class Tail:
    """The end of an SST, decoded."""

    index: SstIndex
    bloom: bytes
    footer: bytes
    """Parquet's own, with its length and magic."""


def encode_tail(index: SstIndex, bloom: bytes, footer: BytesLike, features: int = 0) -> bytes:
    """The bytes between the last block and the footer."""
    lows = b"".join(index.lows)
    parts = [
        _HEAD.pack(
            index.rows,
            index.max_seq,
            index.tombstones,
            index.merges,
            _NEVER if index.min_expire is None else index.min_expire,
            index.ends[-1],
            checksum(footer),
            len(footer),
            index.blocks,
            len(lows),
            len(index.max_key),
            len(bloom) // BLOCK_BYTES,
        ),
        np.array(index.ends, dtype="<u8").tobytes(),
        np.array(index.checksums, dtype="<u8").tobytes(),
        np.array(index.block_rows, dtype="<u4").tobytes(),
        np.cumsum([len(low) for low in index.lows]).astype("<u4").tobytes(),
        bytes(_CONTINUED if more else 0 for more in index.continued),
        lows,
        index.max_key,
        bloom,
    ]
    body = b"".join(parts)
    start = _TRAILER.pack(FORMAT, features, len(body), 0, MAGIC)[:_CHECKED]
    return body + start + struct.pack("<Q", checksum(body + start)) + MAGIC


def tail_length(lows: Sequence[bytes], max_key: bytes, bloom: bytes) -> int:
    """How many bytes `encode_tail` will make for an index with these keys."""
    arrays = len(lows) * (8 + 8 + 4 + 4 + 1)
    return _HEAD.size + arrays + sum(map(len, lows)) + len(max_key) + len(bloom) + _TRAILER.size


def tail_bytes(end: BytesLike, size: int) -> int:
    """How many bytes of a file of `size` bytes its tail and footer have, told by the file's `end`.

    That is at most `len(end)` if the tail is whole in it. The end must have the trailer at least, else the answer
    is how many bytes that takes.

    Raises:
        DamagedError: this isn't the end of an SST.
    """
    view = memoryview(end)
    if len(view) < 12 or bytes(view[-4:]) != PARQUET_MAGIC:
        raise DamagedError(f"its {size} bytes don't end in a Parquet footer")
    footer = struct.unpack("<I", view[-8:-4])[0] + 8
    least = footer + _TRAILER.size
    if least > size:
        raise DamagedError("the length of its footer is wrong")
    if least > len(view):
        return int(least)
    _, _, length, _, magic = _TRAILER.unpack(view[len(view) - least : len(view) - footer])
    if magic != MAGIC:
        raise DamagedError("there is no block index in front of its footer")
    if least + length > size:
        raise DamagedError("the length of its block index is wrong")
    return int(least + length)


def decode_tail(end: BytesLike, size: int) -> Tail:
    """The tail out of the last `tail_bytes` of a file of `size` bytes, or more of them; everything checked.

    Raises:
        DamagedError: a checksum or a length is wrong.
        UnsupportedError: a later version of Firn wrote it.
    """
    view = memoryview(end)[len(end) - tail_bytes(end, size) :]
    footer_bytes = struct.unpack("<I", view[-8:-4])[0] + 8
    body = view[: len(view) - footer_bytes - _TRAILER.size]
    trailer = view[len(body) : len(view) - footer_bytes]
    footer = bytes(view[len(view) - footer_bytes :])
    version, features, _, expected, _ = _TRAILER.unpack(trailer)
    if checksum(bytes(view[: len(body) + _CHECKED])) != expected:
        raise DamagedError("the checksum of its block index is wrong")
    if version != FORMAT or features & ~FEATURES:
        raise UnsupportedError(
            f"it has format {version} with features {features:#x}, and this version of Firn reads format {FORMAT} "
            f"with features {FEATURES:#x}: upgrade Firn"
        )
    rows, max_seq, tombstones, merges, expire, *places = _HEAD.unpack(body[: _HEAD.size])
    blocks_end, footer_sum, footer_size, count, low_bytes, max_bytes, blooms = places
    if footer_size != footer_bytes or blocks_end + len(view) != size:
        raise DamagedError(f"it has {size} bytes, and its block index tells of {blocks_end + len(view)}")
    if checksum(footer) != footer_sum:
        raise DamagedError("the checksum of its Parquet footer is wrong")
    at = _HEAD.size

    def take(length: int) -> memoryview:
        nonlocal at
        part = body[at : at + length]
        at += length
        return part

    ends = np.frombuffer(take(8 * count), dtype="<u8").tolist()
    checksums = np.frombuffer(take(8 * count), dtype="<u8").tolist()
    block_rows = np.frombuffer(take(4 * count), dtype="<u4").tolist()
    low_ends = np.frombuffer(take(4 * count), dtype="<u4").tolist()
    flags = bytes(take(count))
    lows = bytes(take(low_bytes))
    index = SstIndex(
        rows=rows,
        max_seq=max_seq,
        tombstones=tombstones,
        merges=merges,
        min_expire=None if expire == _NEVER else expire,
        max_key=bytes(take(max_bytes)),
        lows=tuple(lows[a:b] for a, b in zip([0, *low_ends], low_ends, strict=False)),
        continued=tuple(bool(flag & _CONTINUED) for flag in flags),
        ends=tuple(ends),
        block_rows=tuple(block_rows),
        checksums=tuple(checksums),
    )
    return Tail(index, bytes(take(blooms * BLOCK_BYTES)), footer)
