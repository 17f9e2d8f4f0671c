"""The log checkpoint: the bytes of many logs in one object, and what it knows of all others (rules 18, 19 and 22).

Frame, little-endian; everything after the fixed head is one zstd frame:

    b"FIRNCKP2" | crc32 of the rest: u32 | size unpacked: u64 | zstd(index length: u32, index, bodies)

The index is a JSON object: `of`, the prefix of the table's logs; `t`, the writer's clock before its LIST; `window`;
`logs`, [name, etag, length, modified_ms] of each log that no other replaces; `replaced`, the names from
`t` − `window` on that others replace. Version 1 is an array of [name, etag, length], of all logs. Losing or
corrupting a checkpoint costs speed, never correctness.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import orjson
import pyarrow as pa

from firn.bucket.base import Bucket, ObjectInfo
from firn.bucket.presence import find
from firn.errors import CorruptObjectError
from firn.journal.leaderless.format.layout import TableLayout

MAGIC_OF_ALL = b"FIRNCKP1"  # frozen: of tables without the feature `window`
MAGIC = b"FIRNCKP2"  # frozen
_HEAD = struct.Struct("<8sIQ")
_TIMED = re.compile(r"\d{13}_")

Bodies = Mapping[tuple[str, str], bytes]
"""(name, etag) → the log's bytes."""


@dataclass(frozen=True)
class Basis:
    """The log at one moment, on which a later view builds: it lists what is behind `start` alone.

    Args:
        at_ms: a clock before the LIST.
        window_ms: by how much a log may land later than its name says.
        logs: name → what a LIST said, of each log that no other replaced.
        replaced: the names of others, from `start` on.
    """

    at_ms: int
    window_ms: int
    logs: Mapping[str, ObjectInfo]
    replaced: frozenset[str]

    @cached_property
    def start(self) -> str:
        """Every log whose name is less had landed by then. The newest log that counted isn't: as long as the table is
        there, a LIST from here on shows it, or a later one."""
        return min(f"{max(self.at_ms - self.window_ms, 0):013d}", max(self.logs, default="9"))

    @staticmethod
    def of(
        at_ms: int, window_ms: int, listed: Mapping[str, ObjectInfo], names: Iterable[str]
    ) -> Basis | None:
        """Of a view: what was `listed`, and the names that nothing replaces. None if names don't sort by time."""
        if not all(_TIMED.match(name) for name in listed):
            return None
        found = Basis(at_ms, window_ms, {name: listed[name] for name in names}, frozenset())
        replaced = (name for name in listed if name >= found.start and name not in found.logs)
        return Basis(at_ms, window_ms, found.logs, frozenset(replaced))


@dataclass(frozen=True)
class Checkpoint:
    """A decoded checkpoint, and the ETag of its object, None if there is none. One of version 1 is no basis."""

    bodies: Bodies = field(default_factory=dict)
    basis: Basis | None = None
    etag: str | None = None


def encode(basis: Basis, bodies: Iterable[bytes], *, log_prefix: str) -> bytes:
    """Pack the logs of a basis, with their bodies in that order. Keys of the table's logs begin with `log_prefix`."""
    parts = list(bodies)
    logs = [
        [name, info.etag, len(body), info.modified_ms]
        for (name, info), body in zip(basis.logs.items(), parts, strict=True)
    ]
    index = {
        "of": log_prefix,
        "t": basis.at_ms,
        "window": basis.window_ms,
        "logs": logs,
        "replaced": sorted(basis.replaced),
    }
    return _packed(MAGIC, index, parts)


def encode_all(bodies: Iterable[tuple[str, str, bytes]]) -> bytes:
    """Pack (name, etag, body) triples, as version 1 has them."""
    triples = list(bodies)
    return _packed(MAGIC_OF_ALL, [[n, e, len(b)] for n, e, b in triples], [b for _, _, b in triples])


def _packed(magic: bytes, index: Any, bodies: Iterable[bytes]) -> bytes:
    packed = orjson.dumps(index)
    raw = struct.pack("<I", len(packed)) + packed + b"".join(bodies)
    rest = pa.Codec("zstd").compress(raw, asbytes=True)
    return bytes(_HEAD.pack(magic, zlib.crc32(rest), len(raw)) + rest)


def decode(data: bytes, *, where: str, log_prefix: str | None = None) -> Checkpoint:
    """Unpack either version. Keys of the table's logs begin with `log_prefix`; None takes that of any table.

    Raises:
        CorruptObjectError: any flipped or missing byte; or it is another table's.
    """
    try:
        magic, crc, size = _HEAD.unpack_from(data)
        rest = data[_HEAD.size :]
        if magic not in (MAGIC, MAGIC_OF_ALL) or zlib.crc32(rest) != crc:
            raise ValueError("wrong magic or checksum")
        raw = pa.Codec("zstd").decompress(rest, decompressed_size=size, asbytes=True)
        (length,) = struct.unpack_from("<I", raw)
        position = 4 + length
        index = orjson.loads(raw[4:position])
        basis = None if magic == MAGIC_OF_ALL else _basis(index, log_prefix)
        bodies = {}
        for name, etag, size, *_ in index if basis is None else index["logs"]:
            bodies[name, etag] = raw[position : position + size]
            position += size
        if position != len(raw):
            raise ValueError("index and bodies differ in length")
    except (
        struct.error,
        ValueError,
        KeyError,
        OSError,
        OverflowError,
        MemoryError,
        pa.ArrowException,
        TypeError,
    ) as error:
        raise CorruptObjectError(
            f"{where} is not a checkpoint ({error}); delete it, it is only a cache."
        ) from error
    return Checkpoint(bodies, basis)


def _basis(index: Mapping[str, Any], log_prefix: str | None) -> Basis:
    of = str(index["of"])
    if log_prefix is not None and of != log_prefix:  # a view would show the other table's rows without a LIST
        raise ValueError(f"it is that of {of}")
    logs = {
        name: ObjectInfo(of + name, size, etag, modified_ms)
        for name, etag, size, modified_ms in index["logs"]
    }
    return Basis(int(index["t"]), int(index["window"]), logs, frozenset(index["replaced"]))


def read(bucket: Bucket, layout: TableLayout) -> Checkpoint:
    """The table's checkpoint; an empty one where it is missing or damaged. 1 GET."""
    key = layout.checkpoint_key
    if (blob := find(bucket, key)) is None:
        return Checkpoint()
    try:
        found = decode(blob.data, where=bucket.uri(key), log_prefix=layout.log_prefix)
    except CorruptObjectError:
        found = Checkpoint()
    return replace(found, etag=blob.info.etag)
