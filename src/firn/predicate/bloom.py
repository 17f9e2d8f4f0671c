"""Bloom filters: which values a column of a file, or of a row group, surely doesn't hold.

They are Parquet's (`firn.arrow.bloom`): one layout for the filters inside of the files, which Spark and others
read, and for the small ones that travel with the file's marker. The layout, and what the marker holds, are in
docs/format/bloom.md.

A column's entry in the marker is `[type, filters]`: its DuckDB type in the file, and for each row group the
filter as text, or the checksum of the one inside the file. An entry that isn't understood, or whose checksum
is wrong, says nothing.
"""

from __future__ import annotations

import binascii
import zlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from firn.arrow.bloom import BLOCK_BYTES, Bloom, hash64
from firn.errors import InvalidInputError
from firn.journal import typenames
from firn.predicate.domain import DAY, Interval, family_of

RATE = 0.01
"""The rate of false positives that filters are made for."""

MOST_RATE = 0.02
"""Filters that came out worse stay out of the marker."""

COLUMN_BYTES = 8 << 10
"""Bytes of a column's filters in a file's marker, at most: some 6,000 values."""

FILE_BYTES = 16 << 10
"""Bytes of all filters in a file's marker, at most."""

MOST_VALUES = 200
"""More values than this aren't looked for: some filter takes one of them for present by chance."""

Encode = Callable[[Any], "bytes | None"]
Blooms = Mapping[str, Any]
"""Column → its entry, as it was read; nothing about its form is sure."""
NO_BLOOMS: Blooms = MappingProxyType({})


# -- values


def has_filters(kind: str) -> bool:
    """Whether columns of this DuckDB type can have filters: integers but HUGEINT, text, BLOB, dates,
    timestamps of microseconds, decimals of at most 18 digits. Not floats, where 0.0 equals -0.0.

    >>> has_filters("BIGINT"), has_filters("DECIMAL(9,2)"), has_filters("DOUBLE")
    (True, True, False)
    """
    return _encoder(kind) is not None


def hash_of(value: Any, kind: str) -> int | None:
    """The hash of a value, as `firn.predicate.domain` has it, in a file's column of type `kind`.

    None if such a column can't hold it.

    >>> hash_of(5, "INTEGER") == hash_of(5, "BIGINT"), hash_of(2**40, "INTEGER")
    (False, None)
    """
    encode = _encoder(kind)
    if encode is None:
        raise InvalidInputError(f"columns of type {kind} have no Bloom filters")
    data = encode(value)
    return None if data is None else hash64(data)


def _comparable(kind: str, now: str) -> bool:
    """Whether a value of a column that is `now` this type equals a file's of type `kind` exactly where their
    hashes are taken to be equal."""
    then, present = family_of(kind), family_of(now)
    if then == "integer":
        return present in ("integer", "decimal")
    if then == "decimal" and present == "decimal":
        old, new = typenames.parse(kind), typenames.parse(now)
        # a cast to fewer digits behind the point would round
        return (
            isinstance(old, typenames.Decimal)
            and isinstance(new, typenames.Decimal)
            and old.scale <= new.scale
        )
    if then in ("timestamp", "timestamptz"):
        return kind == now
    return then == present


@lru_cache(maxsize=256)
def _encoder(kind: str) -> Encode | None:
    """How a column's values are laid out for the hash: as in Parquet's plain encoding."""
    if kind in _WIDTHS:
        return _integers(_WIDTHS[kind], signed=not kind.startswith("U"))
    if kind in _ENCODERS:
        return _ENCODERS[kind]
    parsed = typenames.parse(kind)
    if isinstance(parsed, typenames.Decimal) and parsed.precision <= 18:
        return _decimals(4 if parsed.precision <= 9 else 8, parsed.scale)
    return None


def _integers(width: int, *, signed: bool) -> Encode:
    bits = 8 * width
    lowest, highest = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def encode(value: int | Decimal) -> bytes | None:
        number = int(value)
        if number != value or not lowest <= number <= highest:
            return None
        return number.to_bytes(width, "little", signed=signed)

    return encode


def _decimals(width: int, scale: int) -> Encode:
    whole = _integers(width, signed=True)

    def encode(value: Decimal) -> bytes | None:
        sign, digits, exponent = Decimal(value).as_tuple()
        # not by scaleb(), which rounds to the precision of the thread's context
        number = int("".join(map(str, digits)))
        shift = int(exponent) + scale
        if shift >= 0:
            number *= 10**shift
        elif number % 10**-shift:
            return None
        else:
            number //= 10**-shift
        return whole(-number if sign else number)

    return encode


def _days(value: int) -> bytes | None:
    return None if value % DAY else _integers(4, signed=True)(value // DAY)


_WIDTHS = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER"), 4),
    **dict.fromkeys(("BIGINT", "UBIGINT"), 8),
}
_ENCODERS: Mapping[str, Encode] = {
    "VARCHAR": lambda value: str(value).encode(),
    "BLOB": bytes,
    "DATE": _days,
    "TIMESTAMP": _integers(8, signed=True),
    "TIMESTAMP WITH TIME ZONE": _integers(8, signed=True),
}


# -- filters


def checksum(kind: str, bits: bytes) -> int:
    """CRC-32 of a column's type and a filter of it: one flipped bit in either could hide rows. Frozen."""
    return zlib.crc32(bits, zlib.crc32(kind.encode()))


def to_text(kind: str, bits: bytes) -> str:
    """A filter as the marker has it. Frozen: Base64 of the checksum, 4 bytes little-endian, and the bits."""
    return binascii.b2a_base64(checksum(kind, bits).to_bytes(4, "little") + bits, newline=False).decode()


def from_text(kind: str, text: str) -> bytes | None:
    """The bits of `to_text`; None for anything else."""
    try:
        data = binascii.a2b_base64(text)
    except ValueError:
        return None
    bits = data[4:]
    if not bits or len(bits) % BLOCK_BYTES or int.from_bytes(data[:4], "little") != checksum(kind, bits):
        return None
    return bits


# -- asking


class Points:
    """The values that a predicate compares a column with, hashed once for each type that files have it in.

    Args:
        kind: the column's DuckDB type now.
        points: where the values lie, sorted; one that isn't a single point may be anywhere.
    """

    def __init__(self, kind: str, points: Sequence[Interval]) -> None:
        self._kind = kind
        self._points = points
        self._hashes: dict[str, list[int | None] | None] = {}
        self._lows = [p.low for p in points]
        self._exact = [p.low == p.high for p in points]

    def may_be_in(self, entry: Any, first: int, high: Any) -> bool:
        """False only if the filters of `entry` rule out all values from the `first` on that aren't above
        `high` (None: no bound)."""
        if not isinstance(entry, (list, tuple)) or len(entry) != 2:
            return True
        kind, filters = entry
        if not isinstance(kind, str) or not isinstance(filters, (list, tuple)) or not filters:
            return True
        stop = len(self._points) if high is None else bisect_right(self._lows, high)
        if stop - first > MOST_VALUES or not all(self._exact[first:stop]):
            return True
        hashes = self._hashes_for(kind)
        if hashes is None:
            return True
        wanted = [hashed for hashed in hashes[first:stop] if hashed is not None]
        for each in filters:
            bits = (
                each if isinstance(each, bytes) else from_text(kind, each) if isinstance(each, str) else None
            )
            if bits is None or any(map(Bloom(bits).may_contain, wanted)):
                return True
        return False

    def _hashes_for(self, kind: str) -> list[int | None] | None:
        if kind not in self._hashes:
            self._hashes[kind] = self._hashed(kind)
        return self._hashes[kind]

    def _hashed(self, kind: str) -> list[int | None] | None:
        try:
            if not has_filters(kind) or not _comparable(kind, self._kind):
                return None
        except InvalidInputError:  # no name of a type
            return None
        return [
            hash_of(point.low, kind) if exact else None
            for point, exact in zip(self._points, self._exact, strict=True)
        ]
