"""Bloom filters inside of Parquet files: asked of the writer, taken from what it wrote, read for row groups.

Parquet gives its filters no checksum, so only those are believed whose checksum the file's marker has.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from firn.arrow.bloom import BLOCK_BYTES, false_positive_rate
from firn.deferred import DeferredModule
from firn.errors import UnsupportedError
from firn.predicate.bloom import (
    COLUMN_BYTES,
    FILE_BYTES,
    MOST_RATE,
    RATE,
    Blooms,
    checksum,
    to_text,
)

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from firn.lake.parquet.source import ParquetSource
else:
    pq = DeferredModule("pyarrow.parquet")

# The header's last fields in Thrift's compact protocol: split blocks, XXH64, not compressed. Frozen: Parquet's.
_KIND = bytes.fromhex("1c1c0000") * 3 + b"\0"
_FIRST_FIELD = 0x15  # the filter's size, as a varint of 32 bits

WORTH = 4
"""Filters of a remote file are fetched where what they may spare is so many times their size."""


@lru_cache(maxsize=1)
def _is_there() -> bool:
    return "bloom_filter_options" in inspect.signature(pq.write_table).parameters


def writer_options(columns: Iterable[str], *, rows: int) -> dict[str, Any]:
    """Options of `pyarrow.parquet.ParquetWriter` to write filters of these columns for row groups of at most
    `rows` rows; it makes them smaller where there are fewer values.

    Raises:
        UnsupportedError: this version of pyarrow writes none.
    """
    chosen = {name: {"ndv": max(1, rows), "fpp": RATE} for name in columns}
    if not chosen:
        return {}
    if not _is_there():
        raise UnsupportedError(
            f"the table property bloom_filters needs pyarrow 26 or later, and this is {pa.__version__}: upgrade "
            "it to write to the table. Reading works with any."
        )
    return {"bloom_filter_options": chosen}


def marker_entries(data: Any, metadata: pq.FileMetaData, kinds: Mapping[str, str]) -> dict[str, list[Any]]:
    """The filters of a file as its marker has them.

    Args:
        data: the whole file, to be sliced.
        metadata: its footer.
        kinds: the columns that have filters and their DuckDB types; those that matter most first.
    """
    places = _leaves(metadata)
    found: dict[str, list[Any]] = {}
    room = FILE_BYTES
    for name, kind in kinds.items():
        filters: list[bytes] = []
        for group in range(metadata.num_row_groups):
            place = _place(metadata, group, places[name])
            bits = None if place is None else parse(bytes(data[place[0] : sum(place)]))
            if bits is not None:
                filters.append(bits)
        if not filters or len(filters) < metadata.num_row_groups:
            continue
        size = sum(map(len, filters))
        if size <= min(COLUMN_BYTES, room) and max(map(false_positive_rate, filters)) <= MOST_RATE:
            room -= size
            found[name] = [kind, [to_text(kind, bits) for bits in filters]]
        else:
            found[name] = [kind, [checksum(kind, bits) for bits in filters]]
    return found


def filters_of(metadata: pq.FileMetaData, columns: Iterable[str]) -> tuple[int, int] | None:
    """Where the filters of these columns begin in a file, and over how many bytes they lie; None without any."""
    leaves = _leaves(metadata)
    places = [
        place
        for name in columns
        if name in leaves
        for group in range(metadata.num_row_groups)
        if (place := _place(metadata, group, leaves[name])) is not None
    ]
    if not places:
        return None
    start = min(at for at, _ in places)
    return start, max(map(sum, places)) - start


def parse(data: bytes) -> bytes | None:
    """The bits of a filter in a Parquet file, header included; None for kinds that Parquet may add later.

    >>> parse(bytes.fromhex("15401c1c00001c1c00001c1c000000") + bytes(32)) == bytes(32)
    True
    """
    if len(data) < 2 or data[0] != _FIRST_FIELD:
        return None
    number = shift = 0
    for at in range(1, min(6, len(data))):
        number |= (data[at] & 0x7F) << shift
        shift += 7
        if data[at] < 0x80:
            break
    else:
        return None
    start = at + 1 + len(_KIND)
    size = number >> 1
    if number & 1 or size % BLOCK_BYTES or not size or len(data) != start + size:
        return None
    return data[start:] if data[at + 1 : start] == _KIND else None


def row_group_blooms(
    source: ParquetSource, groups: Sequence[int], names: Mapping[str, str], *, spared: int
) -> Mapping[int, Blooms]:
    """By row group, the entries of some columns; for `Pruner.may_match_stats`.

    Args:
        names: the columns' names in the file, and under which they are wanted.
        spared: bytes that needn't be fetched if the filters rule out all of the groups.

    Cost: none where the marker holds the filters or the file is at hand; else 1 `get_ranges` call, unless the
    filters are too large for what they may spare.
    """
    count = source.metadata.num_row_groups
    places = _leaves(source.metadata)
    found: dict[int, dict[str, Any]] = {group: {} for group in groups}
    inside: list[tuple[int, str, str, int]] = []
    ranges: list[tuple[int, int]] = []
    for name, wanted in names.items():
        entry = source.blooms.get(name)
        if not isinstance(entry, list) or len(entry) != 2:
            continue
        kind, filters = entry
        if not isinstance(kind, str) or not isinstance(filters, list) or len(filters) != count:
            continue
        for group in groups:
            each = filters[group]
            if isinstance(each, str):
                found[group][wanted] = [kind, [each]]
            elif isinstance(each, int) and name in places:
                place = _place(source.metadata, group, places[name])
                if place is not None:
                    inside.append((group, wanted, kind, each))
                    ranges.append(place)
    if not inside or (source.is_remote and WORTH * sum(length for _, length in ranges) > spared):
        return found
    for (group, wanted, kind, expected), body in zip(inside, source.read_ranges(ranges), strict=True):
        bits = parse(body)
        if bits is not None and checksum(kind, bits) == expected:
            found[group][wanted] = [kind, [bits]]
    return found


def _leaves(metadata: pq.FileMetaData) -> dict[str, int]:
    leaves = (metadata.schema.column(at) for at in range(metadata.num_columns))
    return {leaf.path: at for at, leaf in enumerate(leaves) if leaf.path == leaf.name}


def _place(metadata: pq.FileMetaData, group: int, leaf: int) -> tuple[int, int] | None:
    """Where a filter begins, and its length."""
    column = metadata.row_group(group).column(leaf)
    # versions of pyarrow that write no filters don't tell of them either
    offset = getattr(column, "bloom_filter_offset", None)
    length = getattr(column, "bloom_filter_length", None)
    return None if offset is None or length is None else (offset, length)
