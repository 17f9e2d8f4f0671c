"""How Parquet is to encode the columns of an SST."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firn.errors import InvalidInputError
from firn.keyed.encoding.columns import ENTRY_COLUMNS

Compression = Literal["zstd", "lz4"] | None

ZSTD_LEVEL = 1

_DELTA = ("seq", "kind", "expire_at")
"""Written as differences and not compressed: they take next to nothing that way, and nothing to unpack."""

SMALL_KEYS, SMALL_SEQS = 4, 16
"""How many times the bytes of their keys, and of their `seq`, the rows have at least for these to be small: every
read looks into them, lz4 unpacks keys six times as fast as zstd, and plain numbers needn't be unpacked."""

_SAMPLES, _SAMPLE_BYTES = 16, 4096
_WORTH = 15 / 16
"""The part of a sample that compression must come down to, to be worth unpacking at every read."""


def encoding(rows: pa.RecordBatch, compression: Compression) -> dict[str, Any]:
    """The options of `pyarrow.parquet.ParquetWriter` for an SST that begins with `rows`.

    Columns of bytes that don't become smaller, as what is compressed or encrypted already, are left as they are.

    Raises:
        InvalidInputError: there is no such compression.
    """
    if compression not in ("zstd", "lz4", None):
        raise InvalidInputError(f"the compression {compression!r} isn't one of zstd, lz4 and None")
    schema = rows.schema
    plain = {*_DELTA} if compression else set(_leaves(schema))
    values = [field for field in schema if field.name not in ENTRY_COLUMNS]
    for field in values:
        if (
            compression
            and pa.types.is_binary(field.type)
            and not _shrinks(rows.column(field.name), compression)
        ):
            plain.add(field.name)
    codecs = {name: "none" if name in plain else compression for name in _leaves(schema)}
    delta = list(_DELTA)
    if all(codec == "none" for name, codec in codecs.items() if name != "key"):
        # Keys and seqs are small beside the values, so they may as well be encoded for the fastest look.
        if codecs["key"] == "zstd" and SMALL_KEYS * rows.column(0).nbytes <= rows.nbytes:
            codecs["key"] = "lz4"
        if SMALL_SEQS * rows.column(1).nbytes <= rows.nbytes and _differ(rows.column(1)):
            delta.remove("seq")
    # Nobody prunes by bytes, and their bounds, of every block, would be most of the footer.
    bounded = [f.name for f in values if not pa.types.is_nested(f.type) and not pa.types.is_binary(f.type)]
    text = [field.name for field in values if pa.types.is_string(field.type)]
    packed = [name for name, codec in codecs.items() if codec == "zstd"]
    return {
        "compression": codecs,
        "compression_level": dict.fromkeys(packed, ZSTD_LEVEL) if compression == "zstd" else None,
        "use_dictionary": text or False,
        "column_encoding": dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        "write_statistics": ["key", *bounded],
        # Engines that read the file without its tail, as Spark does, see damage by these.
        "write_page_checksum": True,
        "store_schema": False,
    }


def _differ(seqs: pa.Array) -> bool:
    """Whether there are several; a bulk load has one, which takes no room as differences."""
    ends = pc.min_max(seqs)
    return bool(ends["min"] != ends["max"])


def _shrinks(column: pa.Array, compression: str) -> bool:
    """Whether compression is worth its time, by parts of the column's bytes."""
    offsets = column.buffers()[1]
    ends = memoryview(offsets).cast("i")
    low, high = ends[column.offset], ends[column.offset + len(column)]
    if low == high:
        return True
    data = memoryview(column.buffers()[2])[low:high]
    if len(data) > _SAMPLES * _SAMPLE_BYTES:
        step = (len(data) - _SAMPLE_BYTES) // (_SAMPLES - 1)
        sample = b"".join(data[at * step : at * step + _SAMPLE_BYTES] for at in range(_SAMPLES))
    else:
        sample = bytes(data)
    codec = pa.Codec("lz4_raw" if compression == "lz4" else compression)
    return len(codec.compress(sample, asbytes=True)) <= _WORTH * len(sample)


@lru_cache(maxsize=64)
def _leaves(schema: pa.Schema) -> tuple[str, ...]:
    """The paths of all Parquet columns, by which a codec is given to each."""
    if not any(pa.types.is_nested(field.type) for field in schema):
        return tuple(schema.names)
    written: list[pq.FileMetaData] = []
    pq.write_table(schema.empty_table(), pa.BufferOutputStream(), metadata_collector=written)
    return tuple(written[0].schema.column(at).path for at in range(written[0].num_columns))
