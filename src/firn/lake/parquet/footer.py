"""Footers of Parquet objects: where they are, whether they are what was written, and what it is called if not."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from firn.bucket.base import Bucket, BytesLike
from firn.deferred import DeferredModule
from firn.errors import (
    AccessDeniedError,
    CorruptObjectError,
    FirnError,
    ObjectNotFoundError,
    StoreUnavailableError,
    UnsupportedError,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq
else:
    pq = DeferredModule("pyarrow.parquet")

FOOTER_BYTES = 128 << 10
"""Fetched from the end of an object; nearly every footer fits."""


class Footer(NamedTuple):
    """A footer and its `footer_crc`."""

    metadata: pq.FileMetaData
    crc: int


def read_footer(
    bucket: Bucket, key: str, size: int, *, crc: int | None = None, body: BytesLike | None = None
) -> Footer:
    """The footer of an object of `size` bytes, or of its `body` where that is at hand.

    Cost: 1 ranged GET, or 2 if it has more than 128 KiB; none for a body.

    Raises:
        ObjectNotFoundError: there is no such object.
        CorruptObjectError: it isn't Parquet, or not all of it, or the footer's checksum isn't `crc`. Without
            one to compare with, a damaged footer may pass.
    """
    if body is not None:
        data = memoryview(body)
        return _footer(bucket, key, len(data), crc, lambda start, length: data[start : start + length])
    path = bucket.local_path(key)
    if path is None:
        return _footer(bucket, key, size, crc, lambda start, length: bucket.get_range(key, start, length))
    bucket.counters.add(get=1)
    with decoding(bucket, key), open(path, "rb", buffering=0) as file:
        number = file.fileno()
        size = os.fstat(number).st_size

        def read(start: int, length: int) -> bytes:
            data = os.pread(number, length, start)
            bucket.counters.add(bytes_in=len(data))
            return data

        return _footer(bucket, key, size, crc, read)


def check_footer(bucket: Bucket, key: str, body: BytesLike, *, crc: int | None = None) -> None:
    """Look that an object's body ends in a footer, and in the one of this checksum; errors as for `read_footer`."""
    data = memoryview(body)
    _tail(bucket, key, len(data), crc, lambda start, length: data[start : start + length])


def footer_crc(data: BytesLike) -> int:
    """CRC-32 of a file's footer with the 8 bytes of length and magic behind it. Frozen: logs hold it.

    Parquet has checksums for pages and none for the footer, where one flipped bit can rename a column.
    """
    return zlib.crc32(memoryview(data)[-_length(data) :])


def corrupt(bucket: Bucket, key: str, why: str) -> CorruptObjectError:
    """The error for an object that can't be decoded."""
    return CorruptObjectError(
        f"{bucket.uri(key)} can't be decoded as Parquet: {why}. Its bytes aren't those that were written: copy the "
        "object back from a backup or an older version of it."
    )


def missing(bucket: Bucket, key: str) -> ObjectNotFoundError:
    """The error for an object that isn't there."""
    return ObjectNotFoundError(f"there is no object {bucket.uri(key)}.")


@contextmanager
def data_file(bucket: Bucket, key: str) -> Iterator[None]:
    """Errors say what to do where this file of a table is missing or damaged."""
    try:
        yield
    except (ObjectNotFoundError, CorruptObjectError) as error:
        text = str(error)
        if bucket.uri(key) not in text:  # it is about another file, which said it for itself
            raise
        if isinstance(error, ObjectNotFoundError):
            raise ObjectNotFoundError(
                f"there is no object {bucket.uri(key)}, and the table's log has it. Copy it back from a backup; or "
                f"let it go, with its rows, by forget_files([{key!r}]) or `firn forget-files TABLE {key}`."
            ) from error
        raise CorruptObjectError(
            f"{text} Or let it go, with its rows, by forget_files([{key!r}]) or `firn forget-files TABLE {key}`."
        ) from error


@contextmanager
def decoding(bucket: Bucket, key: str) -> Iterator[None]:
    """Failures of Parquet's as `CorruptObjectError`, those of the file system's as what they are."""
    try:
        yield
    except (FirnError, MemoryError):
        raise
    except FileNotFoundError as error:
        raise missing(bucket, key) from error
    except PermissionError as error:
        raise AccessDeniedError(f"{bucket.uri(key)} may not be read: {error.strerror}") from error
    except pa.ArrowNotImplementedError as error:
        # A type that Arrow lacks: the object may be whole, and of use to another reader. Before the next clause,
        # as this is an ArrowException, too.
        raise UnsupportedError(
            f"{bucket.uri(key)} uses a part of Parquet that can't be read: {error}"
        ) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise StoreUnavailableError(f"{bucket.uri(key)} can't be read: {error}") from error
        raise corrupt(bucket, key, str(error).strip().splitlines()[0]) from error


def _length(tail: BytesLike) -> int:
    """How many bytes at the end are the footer, as they say themselves."""
    length: int = struct.unpack("<I", bytes(tail[-8:-4]))[0]
    return length + 8


def _footer(
    bucket: Bucket, key: str, size: int, crc: int | None, read: Callable[[int, int], BytesLike]
) -> Footer:
    tail, found = _tail(bucket, key, size, crc, read)
    with decoding(bucket, key):
        return Footer(pq.read_metadata(pa.BufferReader(tail)), found)


def _tail(
    bucket: Bucket, key: str, size: int, crc: int | None, read: Callable[[int, int], BytesLike]
) -> tuple[BytesLike, int]:
    """The end of an object with all of its footer, and the footer's checksum."""
    length = min(size, FOOTER_BYTES)
    tail = read(size - length, length) if length else b""
    if len(tail) < length:
        raise corrupt(bucket, key, "it is shorter than the table's log says")
    if length < 12 or bytes(tail[-4:]) != b"PAR1" or _length(tail) > size:
        raise corrupt(bucket, key, f"its {size} bytes don't end in a footer")
    if length < _length(tail):
        tail = read(size - _length(tail), _length(tail))
    found = footer_crc(tail)
    if crc is not None and found != crc:
        raise corrupt(bucket, key, "the checksum of its footer is wrong")
    return tail, found
