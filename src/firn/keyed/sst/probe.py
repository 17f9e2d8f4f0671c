"""One key's entries out of a block's bytes, without decoding the rest of them.

Many a block is read for a single key and never again. The cells of its row are then taken from its pages: plain
pages of values that all have one length are searched as they are, and other columns of little size decoded. Where
neither helps, nor is known how, the answer is that the block has to be decoded as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from firn.keyed.encoding.entries import PUT, Entry
from firn.keyed.merge.run_buffers import bisect_keys
from firn.keyed.sst.index import SstIndex

Decode = Callable[[Sequence[str]], Any]
"""The columns with these names of the block, as a `pyarrow.Table`."""

_CODECS = {"UNCOMPRESSED": None, "ZSTD": "zstd", "LZ4": "lz4_raw"}
_HEADER = 40  # bytes of a page's header that tell what is needed, or more
_LENGTH = 4  # of what says how long a value is, in front of it


class Probe:
    """Looks for keys in the blocks of one SST whose values are bytes. Safe for several threads."""

    def __init__(self, index: SstIndex, metadata: Any) -> None:
        self._metadata = metadata
        # Kinds and expiries that the whole file has none of needn't be looked at.
        self._rest: list[str] = []
        if index.tombstones or index.merges:
            self._rest.append("kind")
        if index.min_expire is not None:
            self._rest.append("expire_at")

    def entries(
        self, data: memoryview, start: int, block: int, key: bytes, decode: Decode
    ) -> list[Entry] | None:
        """All entries of a key, newest first, if its block is one of a kind that this reads; else None.

        `data` is the block's bytes, which are known to be whole, and `start` where they begin in the file.
        """
        group = self._metadata.row_group(block)
        rows = group.num_rows
        key_chunk, seq_chunk, value_chunk = (group.column(at) for at in (0, 1, group.num_columns - 1))
        keys = _texts(_plain(data, start, key_chunk, rows), rows)
        found = None if keys is None else _rows_of(keys, key)
        if found is not None and not found:
            return []
        values = _texts(_plain(data, start, value_chunk, rows), rows, optional=True)
        if found is None and values is None:
            return None
        numbers = _plain(data, start, seq_chunk, rows)
        wanted = list(self._rest)
        if found is None:
            wanted.append("key")
        if numbers is None:
            wanted.append("seq")
        if values is None:
            wanted.append("value")
        rest: dict[str, Any] = {}
        if wanted:
            table = decode(wanted)
            rest = {name: table.column(at).combine_chunks() for at, name in enumerate(table.column_names)}
        if found is None:
            found = range(bisect_keys(rest["key"], key), bisect_keys(rest["key"], key + b"\0"))
        seqs, kinds, expires = rest.get("seq"), rest.get("kind"), rest.get("expire_at")
        return [
            Entry(
                key,
                _number(numbers, row) if seqs is None else seqs[row].as_py(),
                PUT if kinds is None else kinds[row].as_py(),
                None if expires is None else expires[row].as_py(),
                rest["value"][row].as_py() if values is None else values.at(row),
            )
            for row in found
        ]


class _Values(NamedTuple):
    """Values of one length, each behind that length, from some place on."""

    data: bytes | memoryview
    start: int
    width: int

    def at(self, row: int) -> bytes:
        begin = self.start + row * (_LENGTH + self.width) + _LENGTH
        return bytes(self.data[begin : begin + self.width])


def _rows_of(keys: _Values, key: bytes) -> range:
    """The rows of a key, in a column of ascending ones."""
    start, width = keys.start, keys.width
    if len(key) != width:
        return range(0)
    data = keys.data if isinstance(keys.data, bytes) else keys.data.tobytes()
    step, wanted = _LENGTH + width, width.to_bytes(_LENGTH, "little") + key
    at = data.find(wanted, start)
    while at >= 0 and (at - start) % step:  # it stands across two keys
        at = data.find(wanted, at + 1)
    if at < 0:
        return range(0)
    end = at + step
    while data.startswith(wanted, end):
        end += step
    return range((at - start) // step, (end - start) // step)


def _plain(data: memoryview, start: int, chunk: Any, rows: int) -> bytes | memoryview | None:
    """The only page of a column chunk, if its values are plain in it."""
    codec = _CODECS.get(chunk.compression, "")
    begin = chunk.data_page_offset - start
    length = chunk.total_compressed_size
    if codec == "" or chunk.has_dictionary_page:
        return None
    sizes = _page(data[begin : begin + _HEADER], rows)
    if sizes is None or sizes[1] >= length:
        return None
    unpacked, packed = sizes
    page = data[begin + length - packed : begin + length]
    if codec is None:
        return page
    try:
        found: bytes = pa.Codec(codec).decompress(page, unpacked, asbytes=True)
    except (pa.ArrowException, OSError):
        return None
    return found


def _texts(page: bytes | memoryview | None, rows: int, *, optional: bool = False) -> _Values | None:
    """A page's values, if they are all there and have one length."""
    if page is None:
        return None
    at = 0
    if optional:
        # Behind what says which are there; if some aren't, the first one's length doesn't fit the number of rows.
        at = _LENGTH + int.from_bytes(page[:_LENGTH], "little")
    step, odd = divmod(len(page) - at, rows)
    if odd or step < _LENGTH:
        return None
    lengths = np.ndarray((rows,), "<u4", page, at, (step,))
    width = step - _LENGTH
    return _Values(page, at, width) if (lengths == width).all() else None


def _number(page: bytes | memoryview | None, row: int) -> int:
    assert page is not None
    return int.from_bytes(page[8 * row : 8 * row + 8], "little", signed=True)


def _page(header: memoryview, rows: int) -> tuple[int, int] | None:
    """How many bytes a page has, unpacked and packed, by its header in Thrift's compact form; None if it isn't a
    plain page of all rows as Parquet 1 has them."""
    at = 0

    def number(field: int) -> int:
        nonlocal at
        if header[at] != field:
            return -1
        at += 1
        value = shift = 0
        while True:
            byte = header[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value >> 1  # zigzag; none of these is negative but the checksum, which isn't used

    try:
        # Type; sizes unpacked and packed; the checksum, if there; then of a struct the rows and the encoding.
        if number(0x15) != 0:
            return None
        unpacked, packed = number(0x15), number(0x15)
        if header[at] == 0x15:
            number(0x15)
            following = 0x1C
        else:
            following = 0x2C
        if header[at] != following:
            return None
        at += 1
        if number(0x15) != rows or number(0x15) != 0 or unpacked < 0 or packed < 0:
            return None
    except IndexError:
        return None
    return unpacked, packed
