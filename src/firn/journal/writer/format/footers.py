"""Key-value metadata from the footers of Parquet objects: what data files and markers say of themselves."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from firn.bucket.base import Bucket
from firn.errors import CorruptObjectError

TAIL_BYTES = 64 << 10
"""Fetched from the end of an object; nearly every footer fits."""

_MAGIC = b"PAR1"


def read_pairs(bucket: Bucket, key: str, size: int) -> Mapping[bytes, bytes]:
    """The key-value metadata of an object of `size` bytes; empty if it has none.

    Cost: 1 ranged GET, or 2 if the footer has more than 64 KiB.

    Raises:
        ObjectNotFoundError: there is no such object.
        CorruptObjectError: it isn't Parquet, or not all of it.
    """
    length = min(size, TAIL_BYTES)
    tail = bucket.get_range(key, size - length, length) if length else b""
    if len(tail) < 12 or tail[-4:] != _MAGIC:
        raise _corrupt(bucket, key, f"its {size} bytes don't end in a footer")
    footer = int(struct.unpack("<I", tail[-8:-4])[0]) + 8
    if footer > size:
        raise _corrupt(bucket, key, "its footer is longer than all of it")
    if footer > length:
        tail = bucket.get_range(key, size - footer, footer)
    try:
        return dict(pq.read_metadata(pa.BufferReader(tail)).metadata or {})
    except (pa.ArrowException, OSError) as error:
        raise _corrupt(bucket, key, str(error).strip().splitlines()[0]) from error


def _corrupt(bucket: Bucket, key: str, why: str) -> CorruptObjectError:
    return CorruptObjectError(
        f"{bucket.uri(key)} can't be decoded as Parquet: {why}. Copy it back from a backup, or leave it."
    )
