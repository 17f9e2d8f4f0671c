"""The frame around every object of a catalog: it reveals objects that are cut short, flipped or too new.

    magic, 8 bytes | format version: u32 | payload length: u64 | CRC-32C of all the rest: u32 | payload

Little-endian. The checksum covers the magic, the version, the length and the payload, so that no bit of the
object is outside of it. This head stays as it is in all versions to come.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import google_crc32c

from firn.errors import CorruptObjectError, UnsupportedError

TRANSACTION: Final = b"FIRNWTXN"  # frozen
CHECKPOINT: Final = b"FIRNWCKP"  # frozen
FIRST_VERSION: Final = 1  # frozen
NEWEST_VERSION: Final = 2  # frozen
"""A frame has the version of its catalog's format by then. 2 came with rows that stand in the catalog."""

_HEAD = struct.Struct("<8sIQ")
_CRC = struct.Struct("<I")
OVERHEAD: Final = _HEAD.size + _CRC.size

_WHAT = {TRANSACTION: "transaction", CHECKPOINT: "checkpoint"}
_REMEDY = {
    TRANSACTION: "Copy it back from a backup, or rebuild the catalog from its data files with `firn rebuild`",
    CHECKPOINT: "It only saves time: delete it, and readers begin at an older one",
}


def pack(magic: bytes, payload: bytes, version: int = FIRST_VERSION) -> bytes:
    """The object's bytes."""
    head = _HEAD.pack(magic, version, len(payload))
    return head + _CRC.pack(_checksum(head, payload)) + payload


def unpack(magic: bytes, data: bytes, *, where: str) -> tuple[bytes, int]:
    """The payload, and the frame's version; `where` is the object's URL, for messages.

    Raises:
        CorruptObjectError: another magic, a wrong length or checksum.
        UnsupportedError: whole, and of a newer format.
    """
    if len(data) < OVERHEAD:
        raise corrupt(magic, where, f"it has {len(data)} bytes, a whole one at least {OVERHEAD}")
    found, version, length = _HEAD.unpack_from(data)
    if found != magic:
        raise corrupt(magic, where, f"it begins with {found!r}")
    payload = data[OVERHEAD:]
    if length != len(payload):
        raise corrupt(magic, where, f"it holds {len(payload)} bytes after its head, which says {length}")
    (crc,) = _CRC.unpack_from(data, _HEAD.size)
    if crc != _checksum(data[: _HEAD.size], payload):
        raise corrupt(magic, where, "its checksum is wrong")
    if not FIRST_VERSION <= version <= NEWEST_VERSION:
        raise UnsupportedError(
            f"{where} has format version {version}; this version of Firn reads up to {NEWEST_VERSION}. Upgrade Firn "
            "to open the catalog."
        )
    return payload, version


class FrameHead(NamedTuple):
    """A decoded head, unchecked; `actual` is the checksum that the object has."""

    magic: bytes
    version: int
    length: int
    crc: int
    actual: int


def read_head(data: bytes) -> FrameHead | None:
    """The head of an object that may be damaged; None where it is too short for one."""
    if len(data) < OVERHEAD:
        return None
    magic, version, length = _HEAD.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _HEAD.size)
    return FrameHead(magic, version, length, crc, _checksum(data[: _HEAD.size], data[OVERHEAD:]))


def corrupt(magic: bytes, where: str, why: str) -> CorruptObjectError:
    """The error for an object that isn't what its name says."""
    return CorruptObjectError(f"{where} is not a {_WHAT[magic]} of this catalog: {why}. {_REMEDY[magic]}.")


def _checksum(head: bytes, payload: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.value(head), payload))
