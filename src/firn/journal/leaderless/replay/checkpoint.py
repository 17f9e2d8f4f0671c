"""A replay cache: the bytes of many logs in one object, found by name and ETag (rules 18 and 19).

Frame, little-endian; everything after the fixed head is one zstd frame:

    b"FIRNCKP1" | crc32 of the rest: u32 | size unpacked: u64 | zstd(index length: u32, index, bodies)

The index is a JSON array of [name, etag, length]. It covers logs by name and ETag, not by time: a log that
appears late is simply not in it, one that cleanup changed has another ETag. Losing or corrupting a
checkpoint costs speed, never correctness.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

import orjson
import pyarrow as pa

from firn.bucket.base import Bucket
from firn.errors import CorruptObjectError, ObjectNotFoundError

MAGIC = b"FIRNCKP1"  # frozen
_HEAD = struct.Struct("<8sIQ")


def encode(bodies: Iterable[tuple[str, str, bytes]]) -> bytes:
    """Pack (name, etag, body) triples."""
    index, parts = [], []
    for name, etag, body in bodies:
        index.append([name, etag, len(body)])
        parts.append(body)
    packed_index = orjson.dumps(index)
    raw = struct.pack("<I", len(packed_index)) + packed_index + b"".join(parts)
    rest = pa.Codec("zstd").compress(raw, asbytes=True)
    return bytes(_HEAD.pack(MAGIC, zlib.crc32(rest), len(raw)) + rest)


def decode(data: bytes, *, where: str) -> dict[tuple[str, str], bytes]:
    """Unpack to (name, etag) → body.

    Raises:
        CorruptObjectError: any flipped or missing byte.
    """
    try:
        magic, crc, size = _HEAD.unpack_from(data)
        rest = data[_HEAD.size :]
        if magic != MAGIC or zlib.crc32(rest) != crc:
            raise ValueError("wrong magic or checksum")
        raw = pa.Codec("zstd").decompress(rest, decompressed_size=size, asbytes=True)
        (length,) = struct.unpack_from("<I", raw)
        position = 4 + length
        bodies = {}
        for name, etag, size in orjson.loads(raw[4:position]):
            bodies[name, etag] = raw[position : position + size]
            position += size
        if position != len(raw):
            raise ValueError("index and bodies differ in length")
    except (
        struct.error,
        ValueError,
        OSError,
        OverflowError,
        MemoryError,
        pa.ArrowException,
        TypeError,
    ) as error:
        raise CorruptObjectError(
            f"{where} is not a checkpoint ({error}); delete it, it is only a cache."
        ) from error
    return bodies


def read(bucket: Bucket, key: str) -> Mapping[tuple[str, str], bytes]:
    """The checkpoint's bodies; nothing where it is missing or damaged. 1 GET."""
    try:
        return decode(bucket.get(key).data, where=bucket.uri(key))
    except (ObjectNotFoundError, CorruptObjectError):
        return {}
