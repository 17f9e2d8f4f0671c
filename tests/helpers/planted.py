"""Looks for planted values in every object of a bucket: in its name, its bytes, and in all that is packed there."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from firn.bucket.base import Bucket

Value = str | int | bytes

_MOST = 1 << 26
_ZSTD, _GZIP, _PARQUET = b"\x28\xb5\x2f\xfd", b"\x1f\x8b\x08", b"PAR1"


def found_in(bucket: Bucket, values: Iterable[Value]) -> list[tuple[str, Value]]:
    """The objects that hold one of these values, wherever in them; texts and numbers should be long and random."""
    forms = {value: _forms(value) for value in values}
    found = []
    for info in bucket.list("").objects:
        body = bucket.get(info.key).data
        parts = [unquote(info.key).encode("utf-8", "surrogatepass"), *unpacked(body)]
        found += [
            (info.key, v)
            for v, looks in forms.items()
            if any(form in part for form in looks for part in parts)
        ]
    return found


def unpacked(data: bytes) -> Iterator[bytes]:
    """The bytes, and what is packed in them: frames of zstd and gzip, pages of Parquet, rows of Arrow files."""
    yield data
    if data[:4] == _PARQUET == data[-4:]:
        yield from _cells(data)
    for magic, unpack in ((_ZSTD, _unzstd), (_GZIP, _gunzip)):
        at = data.find(magic)
        while at >= 0:
            inner = unpack(data[at:])
            if inner:
                yield from unpacked(inner)
            at = data.find(magic, at + 1)


def _cells(data: bytes) -> Iterator[bytes]:
    """The values of a Parquet file, which some encodings tear apart; and the schema that Arrow keeps in it."""
    with pq.ParquetFile(io.BytesIO(data)) as file:
        for column in file.read().columns:
            yield repr(column.to_pylist()).encode("utf-8", "surrogatepass")
        schema = (file.metadata.metadata or {}).get(b"ARROW:schema")
        if schema is not None:
            yield bytes(ipc.read_message(base64.b64decode(schema)).metadata)


def _unzstd(data: bytes) -> bytes:
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            pieces = []
            while sum(map(len, pieces)) < _MOST and (piece := stream.read(1 << 16)):
                pieces.append(piece)
    except (OSError, pa.ArrowInvalid):
        pass  # behind the frame comes something else
    return b"".join(pieces)


def _gunzip(data: bytes) -> bytes:
    try:
        return zlib.decompressobj(31).decompress(data, _MOST)
    except zlib.error:
        return b""


def _forms(value: Value) -> set[bytes]:
    """How a value may stand in bytes."""
    if isinstance(value, bytes):
        return {value, base64.b64encode(value).rstrip(b"="), value.hex().encode()}
    if isinstance(value, str):
        data = value.encode("utf-8")
        return {data, data.hex().encode(), *_base64(data), value.encode("utf-16-le")}
    least = max(8, (value.bit_length() + 8) // 8)
    sorting = (value + (1 << 63)) & ((1 << 64) - 1)
    return {
        str(value).encode(),
        value.to_bytes(least, "little", signed=True),
        value.to_bytes(least, "big", signed=True),
        sorting.to_bytes(8, "big"),
    }


def _base64(data: bytes) -> Iterator[bytes]:
    """Of a text in the middle of a longer one, at each of the three places where it may begin."""
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + data)
        yield coded[(before * 8 + 5) // 6 + 1 : -4]
