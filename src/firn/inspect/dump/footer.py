"""A Parquet file's metadata, read from its end only."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

FOOTER_GUESS = 64 * 1024


def decode_parquet(
    size: int,
    read: Callable[[int, int], bytes],
    fields: dict[str, Any],
    sections: dict[str, list[Any]],
    problems: list[str],
) -> Mapping[bytes, bytes]:
    """Add what the footer says; where it can't be read, why. Its key-value metadata, whole."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    tail = read(max(0, size - FOOTER_GUESS), min(size, FOOTER_GUESS))
    if len(tail) < 12 or tail[-4:] != b"PAR1":
        problems.append("the file doesn't end like a Parquet file: it was truncated, or is something else")
        fields["hex of its end"] = tail[-32:].hex(" ", 2)
        return {}
    if read(0, 4) != b"PAR1":
        problems.append("the file doesn't begin like a Parquet file")
    (length,) = struct.unpack("<I", tail[-8:-4])
    fields["footer"] = f"{length:,} bytes"
    if length + 12 > size:
        problems.append(f"its footer would be {length:,} bytes long, more than the file has")
        return {}
    if length + 8 > len(tail):
        tail = read(size - length - 8, length + 8)
    try:
        metadata = pq.read_metadata(pa.BufferReader(tail))  # the end alone is enough
        schema = metadata.schema.to_arrow_schema()
    except Exception as error:
        problems.append(f"its footer can't be decoded: {error}")
        return {}
    fields["rows"] = metadata.num_rows
    fields["row groups"] = metadata.num_row_groups
    fields["created by"] = metadata.created_by
    sections["columns"] = [f"{f.name}  {f.type}{'' if f.nullable else ' not null'}" for f in schema]
    pairs: Mapping[bytes, bytes] = metadata.metadata or {}
    for key, value in pairs.items():
        if key != b"ARROW:schema":
            fields[key.decode(errors="backslashreplace")] = value.decode(errors="backslashreplace")[:2000]
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        title = f"row group {number}: {group.num_rows:,} rows, {group.total_byte_size:,} bytes unpacked"
        sections[title] = [_chunk(group.column(i)) for i in range(group.num_columns)]
    return pairs


def _chunk(chunk: Any) -> str:
    sizes = f"{chunk.total_compressed_size:,} of {chunk.total_uncompressed_size:,} bytes"
    text = f"{chunk.path_in_schema}  {sizes}, {chunk.compression.lower()}, {'+'.join(sorted(set(chunk.encodings)))}"
    statistics = chunk.statistics if chunk.is_stats_set else None
    if statistics is None:
        return text
    if statistics.has_min_max:
        text += f", {statistics.min!s} … {statistics.max!s}"
    return text + (f", {statistics.null_count} nulls" if statistics.has_null_count else "")
