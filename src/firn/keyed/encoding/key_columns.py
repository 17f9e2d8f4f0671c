"""Typed keys as whole Arrow columns: encoded without a loop over rows, and decoded again.

Same bytes as `key_cells`, value by value. Rows of encoded keys lie one behind the other in Arrow's buffer, so a
column of text is cut out by offsets that point into it: its bytes are copied once.
"""

from __future__ import annotations

from binascii import unhexlify
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.errors import CorruptObjectError, InvalidInputError
from firn.keyed.encoding.key_cells import (
    BLOB,
    DATE,
    DECIMAL,
    ESCAPED,
    FALSE,
    FLOAT,
    NULL,
    TERMINATOR,
    TEXT,
    TRUE,
    UINT,
    UUID_FORM,
    UUID_TEXT,
    WIDTHS,
    KeyCell,
)

_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[Any]
_SIGN = np.uint64(1 << 63)
_NO_UUID = "00000000-0000-0000-0000-000000000000"
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_PLACES = np.flatnonzero(np.frombuffer(_NO_UUID.encode(), np.uint8) != ord("-"))


def encode_columns(cells: Sequence[KeyCell], columns: Sequence[pa.Array]) -> pa.Array:
    """The encoded keys of columns, which have the Arrow types of the cells' kinds.

    Raises:
        InvalidInputError: a value that isn't one of its column's type: text that is no UUID.
    """
    parts = [_encoded(cell, column) for cell, column in zip(cells, columns, strict=True)]
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def _encoded(cell: KeyCell, column: pa.Array) -> pa.Array:
    if not len(column):
        return pa.array([], pa.binary())
    if cell.tag in (TEXT, BLOB):
        whole = _texts(cell.tag, column)
    elif cell.tag == TRUE:
        flags = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
        whole = _fixed(np.where(flags, np.uint8(TRUE), np.uint8(FALSE)).reshape(-1, 1))
    else:
        whole = _fixed(_tagged(cell.tag, _words(cell, column)))
    if column.null_count:
        return pc.if_else(column.is_null(), pa.scalar(bytes((NULL,)), pa.binary()), whole)
    return whole


def _texts(tag: int, column: pa.Array) -> pa.Array:
    plain = pc.fill_null(column.cast(pa.binary()), b"")
    if pc.any(pc.match_substring(plain, b"\0")).as_py():
        plain = pc.replace_substring(plain, b"\0", ESCAPED)
    empty = pa.scalar(b"", pa.binary())
    return pc.binary_join_element_wise(
        pa.scalar(bytes((tag,)), pa.binary()), plain, pa.scalar(TERMINATOR, pa.binary()), empty
    )


def _words(cell: KeyCell, column: pa.Array) -> Any:
    """The column's values as unsigned numbers that sort as they do: one, or of the wide kinds several a row."""
    tag = cell.tag
    if tag == UUID_TEXT:
        return _uuids(cell, column)
    if tag == DECIMAL:
        column = pc.fill_null(column, pa.scalar(Decimal(0), column.type))
        try:
            column.validate(full=True)  # Arrow lets programs build numbers of too many digits
        except pa.ArrowInvalid as error:
            raise InvalidInputError(
                f"the key column {cell.name!r}, which is {cell.kind}, holds a number of more digits: correct the data"
            ) from error
        low_high = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)
        low_high = low_high[column.offset : column.offset + len(column)]
        return np.stack([low_high[:, 1] ^ _SIGN, low_high[:, 0]], axis=1)
    if tag == FLOAT:
        numbers = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False) + 0.0
        bits = numbers.view(np.uint64)
        words = np.where(bits & _SIGN, ~bits, bits | _SIGN)
        words[np.isnan(numbers)] = np.uint64((1 << 64) - 1)
        return words
    if tag == UINT:
        return pc.fill_null(column.cast(pa.uint64()), 0).to_numpy(zero_copy_only=False)
    if tag == DATE:
        days = pc.fill_null(column.cast(pa.int32()), 0).to_numpy(zero_copy_only=False)
        return days.view(np.uint32) ^ np.uint32(1 << 31)
    return pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False).view(np.uint64) ^ _SIGN


def _uuids(cell: KeyCell, column: pa.Array) -> _Bytes:
    """The 16 bytes of each UUID in a column of text."""
    fits = pc.match_substring_regex(column, f"^{UUID_FORM}$")
    if (wrong := pc.index(fits, False).as_py()) >= 0:
        cell.encode(column[wrong].as_py())  # which raises
    digits = pc.replace_substring(pc.fill_null(column, _NO_UUID), "-", "").buffers()[2]
    whole = unhexlify(memoryview(digits)[: 32 * len(column)])
    return np.frombuffer(whole, np.uint8).reshape(len(column), 16)


def _tagged(tag: int, words: _Words) -> _Bytes:
    big = np.ascontiguousarray(words.astype(words.dtype.newbyteorder(">"), copy=False))
    rows = np.empty((len(words), 1 + WIDTHS.get(tag, 8)), np.uint8)
    rows[:, 0] = tag
    rows[:, 1:] = big.view(np.uint8).reshape(len(words), -1)
    return rows


def _fixed(rows: _Bytes) -> pa.Array:
    """An Arrow array of rows of equal length."""
    count, width = rows.shape
    offsets = (
        np.arange(0, (count + 1) * width, width, dtype=np.int32) if width else np.zeros(count + 1, np.int32)
    )
    return _binary(offsets, np.ascontiguousarray(rows).reshape(-1))


def _binary(offsets: npt.NDArray[np.int32], data: _Bytes) -> pa.Array:
    return pa.Array.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def decode_columns(cells: Sequence[KeyCell], encoded: pa.Array) -> list[pa.Array]:
    """The columns of an array of encoded keys.

    Raises:
        CorruptObjectError: one isn't an encoded key of these cells.
    """
    count = len(encoded)
    if encoded.null_count:
        raise corrupt(cells)
    if encoded.type != pa.binary():  # an engine may have others
        encoded = encoded.cast(pa.binary())
    _, offset_buffer, data_buffer = encoded.buffers()
    offsets = (
        np.frombuffer(offset_buffer, np.int32)[encoded.offset : encoded.offset + count + 1] if count else None
    )
    if offsets is None:
        return [pa.array([], cell.arrow) for cell in cells]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    data = data[: offsets[-1]]
    at = offsets[:-1].astype(np.int64)
    ends = offsets[1:]
    columns = []
    try:
        for cell in cells:
            column, at = _decoded(cell, data, at)
            columns.append(column)
            if (at > ends).any():
                raise corrupt(cells)
    except (IndexError, pa.ArrowInvalid):
        raise corrupt(cells) from None
    if (at != ends).any():
        raise corrupt(cells)
    return columns


def _decoded(
    cell: KeyCell, data: _Bytes, at: npt.NDArray[np.int64]
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """One column, and where the next begins in each row."""
    tags = data[at]
    at = at + 1
    nulls = tags == NULL
    if cell.tag == TRUE:
        if not (nulls | (tags == TRUE) | (tags == FALSE)).all():
            raise IndexError
        return pa.array(tags == TRUE, mask=nulls), at
    if not (nulls | (tags == cell.tag)).all():
        raise IndexError
    mask = nulls if nulls.any() else None
    if cell.tag in (TEXT, BLOB):
        return _decoded_texts(cell, data, at, mask)
    width = WIDTHS.get(cell.tag, 8)
    from_ = at if mask is None else np.where(mask, 0, at)
    if len(data) < width and (mask is None or not mask.all()):
        raise IndexError
    if len(data) < width:
        return pa.nulls(len(at), cell.arrow), at
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    raw = windows[np.minimum(from_, len(windows) - 1) if mask is not None else from_]
    column = _column(cell, np.ascontiguousarray(raw))
    if mask is not None:
        column = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
    if cell.tag == DECIMAL:
        column.validate(full=True)
    column = column.cast(cell.arrow)
    return column, at + width if mask is None else np.where(mask, at, at + width)


def _column(cell: KeyCell, raw: _Bytes) -> pa.Array:
    """The values in rows of bytes behind the tag; anything for rows that are null."""
    if cell.tag == UUID_TEXT:
        texts = np.full((len(raw), len(_NO_UUID)), ord("-"), np.uint8)
        texts[:, _PLACES] = _DIGITS[np.stack([raw >> 4, raw & 15], axis=2).reshape(len(raw), 32)]
        return _fixed(texts)
    size = min(WIDTHS.get(cell.tag, 8), 8)
    words = raw.view(f">u{size}").astype(f"<u{size}")
    if cell.tag == DECIMAL:
        low_high = np.stack([words[:, 1], words[:, 0] ^ _SIGN], axis=1)
        return pa.Array.from_buffers(cell.arrow, len(raw), [None, pa.py_buffer(low_high)])
    words = words.reshape(-1)
    if cell.tag == UINT:
        return pa.array(words)
    if cell.tag == DATE:
        return pa.array((words ^ np.uint32(1 << 31)).view(np.int32))
    if cell.tag == FLOAT:
        return pa.array(np.where(words & _SIGN, words ^ _SIGN, ~words).view(np.float64))
    return pa.array((words ^ _SIGN).view(np.int64))


def _decoded_texts(
    cell: KeyCell, data: _Bytes, at: npt.NDArray[np.int64], mask: npt.NDArray[np.bool_] | None
) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    zeros = np.flatnonzero(data[:-1] == 0)
    # Behind the start of a text, the first zero byte that isn't escaped is its terminator.
    stops = zeros[data[zeros + 1] != ESCAPED[1]]
    found = np.searchsorted(stops, at)
    present = found if mask is None else found[~mask]
    if len(present) and present.max(initial=0) >= len(stops):
        raise IndexError
    ends = stops[np.minimum(found, len(stops) - 1)] if len(stops) else at
    if mask is not None:
        ends = np.where(mask, at, ends)
    elif (data[ends + 1] != 0).any():
        raise IndexError
    # Texts and the gaps between them, in turn: offsets that only rise, so that Arrow takes every other one.
    offsets = np.empty(2 * len(at), np.int32)
    offsets[0::2] = at
    offsets[1::2] = ends
    plain = _binary(offsets, data).take(pa.array(np.arange(0, len(offsets) - 1, 2)))
    if pc.any(pc.match_substring(plain, b"\0")).as_py():
        plain = pc.replace_substring(plain, ESCAPED, b"\0")
    if mask is not None:
        plain = pc.if_else(pa.array(mask), pa.scalar(None, pa.binary()), plain)
    return plain.cast(cell.arrow), ends + 2 if mask is None else np.where(mask, at, ends + 2)


def corrupt(cells: Sequence[KeyCell]) -> CorruptObjectError:
    """The error for bytes that aren't an encoded key of these columns."""
    names = ", ".join(f"{cell.name} {cell.kind}" for cell in cells)
    return CorruptObjectError(
        f"a run holds a key that isn't an encoded key of the columns {names}: its SST wasn't written for this table, "
        "or is damaged"
    )
