"""Partition transforms: from a column to the codes and texts of its partition values.

`identity`, `year`, `month`, `day`, `hour`, `bucket` and `truncate`, with the meaning that Iceberg gives them.
Times count from 1970 and floor, so that earlier ones fall right; zoned times are taken in UTC. The bucket
hash is frozen: Murmur3 (32 bits, x86, seed 0) of a value's bytes, without its sign bit, modulo the number of
buckets.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from firn.deferred import DeferredModule
from firn.errors import InvalidInputError
from firn.predicate.domain import Family, family_of

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")

TIMES = ("year", "month", "day", "hour")
NAMES = ("identity", *TIMES, "bucket", "truncate")
PARAMETERISED = ("bucket", "truncate")

Codes = npt.NDArray[np.int64]
Encoded = tuple[Codes, list[str | None]]
"""For each row the number of its text, and the distinct texts (None for null)."""

_ACCEPTS: dict[str, tuple[Family, ...]] = {
    "identity": (
        "boolean",
        "integer",
        "float",
        "decimal",
        "string",
        "date",
        "timestamp",
        "timestamptz",
        "time",
    ),
    "year": ("date", "timestamp", "timestamptz"),
    "month": ("date", "timestamp", "timestamptz"),
    "day": ("date", "timestamp", "timestamptz"),
    "hour": ("timestamp", "timestamptz"),
    "bucket": ("integer", "decimal", "string", "date", "timestamp", "timestamptz", "time"),
    "truncate": ("integer", "decimal", "string"),
}
_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}
_WIDE = Context(prec=80)  # Python's own has 28 digits, a DECIMAL up to 38
_HOUR, _DAY = 3_600_000_000, 86_400_000_000


def check_type(transform: str, column: str, kind: str) -> None:
    """Raise `InvalidInputError` if a transform doesn't take columns of this DuckDB type."""
    texts = kind in ("UUID", "JSON") or kind.startswith("ENUM(")
    family = "string" if texts and not kind.endswith("]") else family_of(kind)
    if kind == "BLOB" and transform == "bucket":
        return
    if family not in _ACCEPTS[transform]:
        families = ", ".join(_ACCEPTS[transform])
        raise InvalidInputError(
            f"{transform} can't partition by the column {column!r}, which is {kind}; it takes these kinds of "
            f"columns: {families}."
        )


def encode(transform: str, argument: int | None, data: pa.ChunkedArray) -> Encoded:
    """Partition values of a column: codes per row, and their texts.

    Costs one pass over the rows; texts are made once a distinct value.
    """
    array = _plain(data)
    if pt.is_nested(array.type):
        raise InvalidInputError(f"{transform} can't partition values of type {array.type}.")
    if transform in TIMES:
        codes, texts = _encode_times(array, transform)
    elif transform == "bucket":
        codes, texts = _encode_buckets(array, argument or 1)
    elif transform == "truncate":
        codes, texts = _encode_truncated(array, argument or 1)
    else:
        indices, distinct = _factorize(array)
        codes, texts = indices, _texts(distinct)
    return _with_nulls(array, *_merged(codes, texts))


def _plain(data: pa.ChunkedArray) -> pa.Array:
    """One array of a type without dictionary or extension."""
    kind = data.type
    if pt.is_dictionary(kind):
        data = data.cast(kind.value_type)
    elif isinstance(kind, pa.BaseExtensionType):
        data = pa.chunked_array([chunk.storage for chunk in data.chunks], type=kind.storage_type)
    if pt.is_string_view(data.type) or pt.is_large_string(data.type):
        data = data.cast(pa.string() if data.nbytes < 2**31 else pa.large_string())
    array = data.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], type=array.type)
    return array


def _with_nulls(array: pa.Array, codes: Codes, texts: list[str | None]) -> Encoded:
    if array.null_count:
        mask = array.is_null().to_numpy(zero_copy_only=False)
        codes = np.where(mask, len(texts), codes)
        texts = [*texts, None]
    return codes, texts


def _merged(codes: Codes, texts: Sequence[str]) -> tuple[Codes, list[str | None]]:
    """One code a text: 0.0 and -0.0, or all NaNs, are one partition."""
    numbers: dict[str, int] = {}
    renumbered = [numbers.setdefault(text, len(numbers)) for text in texts]
    if len(numbers) < len(texts):
        codes = np.asarray(renumbered, np.int64)[codes]
    return codes, list(numbers)


def _factorize(array: pa.Array) -> tuple[Codes, pa.Array]:
    """Codes and distinct values; a null has any code."""
    encoded = array.dictionary_encode()
    indices = encoded.indices
    if indices.null_count:
        indices = indices.fill_null(0)
    return indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary


def _factorize_numbers(numbers: npt.NDArray[Any]) -> tuple[Codes, list[int]]:
    codes, distinct = _factorize(pa.array(numbers))
    return codes, distinct.to_pylist()


def _texts(distinct: pa.Array) -> list[str]:
    kind = distinct.type
    if pt.is_floating(kind):
        distinct = pc.add(distinct, pa.scalar(0, kind))  # -0.0 becomes 0.0
    if pt.is_timestamp(kind):
        per_second = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}[kind.unit]
        return [_time_text(n, per_second, kind.tz is not None) for n in distinct.cast(pa.int64()).to_pylist()]
    if pt.is_date(kind):
        days = distinct.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [time_text("day", day) for day in days]
    if pt.is_decimal(kind):
        return [format(value, "f") for value in distinct.to_pylist()]
    if pt.is_string(kind) or pt.is_large_string(kind):
        return list(distinct.to_pylist())
    if not (pt.is_integer(kind) or pt.is_boolean(kind) or pt.is_floating(kind) or pt.is_time(kind)):
        raise InvalidInputError(
            f"values of type {kind} can't be partition values; use bucket, or another column."
        )
    return list(distinct.cast(pa.string()).to_pylist())


def _time_text(count: int, per_second: int, zoned: bool) -> str:
    """As DuckDB prints it: `2001-01-05 13:00:00.5`, with `+00` behind it where it has a zone."""
    seconds, parts = divmod(count, per_second)
    day, clock = divmod(seconds, 86_400)
    text = f"{time_text('day', day)} {clock // 3600:02d}:{clock // 60 % 60:02d}:{clock % 60:02d}"
    if parts:
        text += "." + str(parts).rjust(len(str(per_second)) - 1, "0").rstrip("0")
    return text + "+00" if zoned else text


# -- times


def _encode_times(array: pa.Array, transform: str) -> tuple[Codes, list[str]]:
    days_wanted = transform != "hour"
    if pt.is_timestamp(array.type):
        counts = _numbers(array.cast(pa.int64()))
        if array.type.unit == "ns":
            unit = (_DAY if days_wanted else _HOUR) * 1000
        else:
            unit = (_DAY if days_wanted else _HOUR) // _MICROSECONDS[array.type.unit]
        counts = np.floor_divide(counts, unit)
    elif pt.is_date(array.type) and days_wanted:
        counts = _numbers(array.cast(pa.date32()).cast(pa.int32())).astype(np.int64)
    else:
        raise InvalidInputError(f"{transform} can't partition values of type {array.type}; it takes times.")
    codes, distinct = _factorize_numbers(counts)
    if transform in ("year", "month"):
        days = np.asarray(distinct, "datetime64[D]")
        distinct = days.astype(f"datetime64[{transform[0].upper()}]").astype(np.int64).tolist()
    return codes, [time_text(transform, number) for number in distinct]


def _numbers(array: pa.Array) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = (array.fill_null(0) if array.null_count else array).to_numpy(
        zero_copy_only=False
    )
    return found


def time_text(transform: str, number: int) -> str:
    """The text of the year, month, day or hour that is so many after the one in which 1970 began.

    >>> time_text("month", -1), time_text("hour", 13)
    ('1969-12', '1970-01-01-13')
    """
    if transform == "year":
        return str(1970 + number)
    if transform == "month":
        return f"{_year(1970 + number // 12)}-{number % 12 + 1:02d}"
    if transform == "hour":
        return f"{time_text('day', number // 24)}-{number % 24:02d}"
    month = int(np.datetime64(number, "D").astype("datetime64[M]").astype(np.int64))
    return f"{time_text('month', month)}-{number - _first_day(month) + 1:02d}"


def _first_day(month: int) -> int:
    return int(np.datetime64(month, "M").astype("datetime64[D]").astype(np.int64))


_TIME_TEXTS = {
    "year": re.compile(r"(-?\d{1,7})"),
    "month": re.compile(r"(-?\d{4,7})-(\d\d)"),
    "day": re.compile(r"(-?\d{4,7})-(\d\d)-(\d\d)"),
    "hour": re.compile(r"(-?\d{4,7})-(\d\d)-(\d\d)-(\d\d)"),
}


def time_range(transform: str, text: str) -> tuple[int, int] | None:
    """Begin and end (exclusive) of a year, month, day or hour, in microseconds since 1970; None for no such.

    >>> time_range("hour", "1970-01-01-01")
    (3600000000, 7200000000)
    """
    match = _TIME_TEXTS[transform].fullmatch(text)
    if match is None:
        return None
    year, month, day, hour = (*map(int, match.groups()), *(1, 1, 0)[len(match.groups()) - 1 :])
    if not (1 <= month <= 12 and day >= 1 and hour <= 23):
        return None
    months = (year - 1970) * 12 + month - 1
    first = _first_day(months) + day - 1
    if transform in ("day", "hour"):
        begin = first * _DAY + hour * _HOUR
        return (
            (begin, begin + (_HOUR if transform == "hour" else _DAY))
            if first < _first_day(months + 1)
            else None
        )
    return first * _DAY, _first_day(months + (12 if transform == "year" else 1)) * _DAY


def _year(year: int) -> str:
    return f"{year:04d}" if year >= 0 else f"-{-year:04d}"


# -- buckets


def _encode_buckets(array: pa.Array, buckets: int) -> tuple[Codes, list[str]]:
    kind = array.type
    if pt.is_integer(kind) or pt.is_timestamp(kind) or pt.is_date(kind) or pt.is_time(kind):
        hashes = _hash_longs(_longs(array)).astype(np.int64)
        codes = (hashes & 0x7FFFFFFF) % buckets
    else:
        indices, distinct = _factorize(array)
        codes = np.asarray([_hash(v) & 0x7FFFFFFF for v in distinct.to_pylist()], np.int64) % buckets
        codes = codes[indices] if len(codes) else indices
    numbers, distinct_buckets = _factorize_numbers(codes)
    return numbers, [str(bucket) for bucket in distinct_buckets]


def _longs(array: pa.Array) -> npt.NDArray[Any]:
    """The numbers that Iceberg hashes: integers and days as they are, times in microseconds."""
    kind = array.type
    if pt.is_timestamp(kind) or pt.is_time(kind):
        if pt.is_time32(kind):
            array = array.cast(pa.int32())
        counts = _numbers(array.cast(pa.int64()))
        return counts // 1000 if kind.unit == "ns" else counts * _MICROSECONDS[kind.unit]
    if pt.is_date(kind):
        array = array.cast(pa.date32()).cast(pa.int32())
    numbers = _numbers(array)
    return numbers if numbers.dtype == np.uint64 else numbers.astype(np.int64)


def _hash_longs(numbers: npt.NDArray[Any]) -> npt.NDArray[np.uint32]:
    """Murmur3 of 8-byte little-endian integers, all at once."""
    halves = np.ascontiguousarray(numbers).view(np.uint64)
    state = np.zeros(len(halves), np.uint32)
    for half in (halves.astype(np.uint32), (halves >> np.uint64(32)).astype(np.uint32)):
        half = _rotated(half * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(state ^ half, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(8)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ (state >> np.uint32(shift))) * np.uint32(factor)
    hashed: npt.NDArray[np.uint32] = state ^ (state >> np.uint32(16))
    return hashed


def _rotated(words: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    rotated: npt.NDArray[np.uint32] = (words << np.uint32(by)) | (words >> np.uint32(32 - by))
    return rotated


def _hash(value: Any) -> int:
    """The signed Murmur3 hash of one value, as Iceberg defines it.

    >>> _hash(34), _hash("iceberg"), _hash(Decimal("14.20"))
    (2017239379, 1210000089, -500754589)
    """
    if isinstance(value, int):
        value = struct.pack("<Q", value & 0xFFFF_FFFF_FFFF_FFFF)
    elif isinstance(value, Decimal):
        unscaled = int(value.scaleb(-int(value.as_tuple().exponent), _WIDE))
        # the least bytes that hold the number and its sign
        length = (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
        value = unscaled.to_bytes(length, "big", signed=True)
    hashed: int = mmh3.hash(value)
    return hashed


def bucket_of(value: Any, buckets: int) -> int:
    """The bucket of one value: an int (also a day, or microseconds), str, bytes or Decimal of its full scale.

    >>> bucket_of(34, 16), bucket_of("iceberg", 16)
    (3, 9)
    """
    return (_hash(value) & 0x7FFFFFFF) % buckets


# -- truncation


def _encode_truncated(array: pa.Array, width: int) -> tuple[Codes, list[str]]:
    kind = array.type
    if pt.is_string(kind) or pt.is_large_string(kind):
        codes, distinct = _factorize(pc.utf8_slice_codeunits(array, 0, width))
        return codes, distinct.to_pylist()
    if pt.is_integer(kind):
        codes, parts = _factorize_numbers(np.floor_divide(_longs(array), width))
        return codes, [str(part * width) for part in parts]
    if pt.is_decimal(kind):
        codes, distinct = _factorize(array)
        return codes, [format(_truncated(value, width), "f") for value in distinct.to_pylist()]
    raise InvalidInputError(
        f"truncate can't partition values of type {kind}; it takes integers, decimals and text."
    )


def _truncated(value: Decimal, width: int) -> Decimal:
    scale = -int(value.as_tuple().exponent)
    unscaled = int(value.scaleb(scale, _WIDE))
    return Decimal(unscaled // width * width).scaleb(-scale, _WIDE)
