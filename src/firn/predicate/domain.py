"""One ordered domain a column: where statistics and literals meet, so that comparing them is comparing Python
values.

| family | domain |
| --- | --- |
| boolean, integer, float, decimal | bool, int, float, Decimal |
| string | str, which Python orders by code point, as DuckDB does UTF-8 |
| date, timestamp, timestamptz, time | int, microseconds |
| binary | bytes |

A literal becomes an `Interval` that surely holds the value that the engine compares with. It is one point
where the comparison is exact, and wider where a cast on either side may round.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from firn.journal import typenames
from firn.predicate.stats import Entry

Family = Literal[
    "boolean",
    "integer",
    "float",
    "decimal",
    "string",
    "date",
    "timestamp",
    "timestamptz",
    "time",
    "binary",
    "other",
]

DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1)
# The widest spread of UTC offsets: a session may be in any zone when it reads a literal that names none.
_ANY_ZONE = 26 * 3_600_000_000

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_FAMILIES: dict[str, Family] = {
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys([f"U{name}" for name in _INTEGERS], "integer"),
    "BOOLEAN": "boolean",
    "FLOAT": "float",
    "DOUBLE": "float",
    "VARCHAR": "string",
    "BLOB": "binary",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP_NS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
}


def family_of(name: str) -> Family:
    """The family of a DuckDB type. Types whose order isn't plain (ENUM, UUID, nested) are "other".

    >>> family_of("UINTEGER"), family_of("DECIMAL(5,2)"), family_of("BIGINT[]")
    ('integer', 'decimal', 'other')
    """
    kind = typenames.parse(name)
    if isinstance(kind, typenames.Decimal):
        return "decimal"
    return _FAMILIES.get(str(kind), "other")


class Interval(NamedTuple):
    """A range of the domain that holds a value; one point (`low == high`) where the value is known."""

    low: Any
    high: Any


class Constant(NamedTuple):
    """A literal, or what a constant expression came to.

    `kind` is a family, or "double" or "single" for a DOUBLE or FLOAT, or "text" for a string literal, which
    takes on the type of its column. The value is in the family's domain; `zoned` tells of a timestamptz that its
    text named an offset.
    """

    kind: str
    value: Any
    zoned: bool = False


# -- statistics into the domain

Bounds = tuple[Any, Any]
UNKNOWN: Bounds = (None, None)


def decoder(name: str) -> Callable[[Entry], Bounds]:
    """How to read an entry's bounds for a column of this type now, whatever type the file was written with.

    Unknown where a value's place in the domain isn't certain: text that was a number then, for example.
    """
    return _DECODERS[family_of(name)]


def written_as(entry: Entry) -> Family | None:
    """The family of the column in the file, as far as its statistics tell."""
    if len(entry) > 3:
        tag: Family = entry[3]
        return tag
    known: dict[type, Family] = {bool: "boolean", int: "integer", float: "float", str: "string"}
    value = entry[0] if entry[0] is not None else entry[1]
    return known.get(type(value))


def _plain(kind: type) -> Callable[[Entry], Bounds]:
    def decode(entry: Entry) -> Bounds:
        if len(entry) > 3:
            return UNKNOWN
        low, high = entry[0], entry[1]
        return (low if type(low) is kind else None), (high if type(high) is kind else None)

    return decode


def _tagged(tag: str, scale: int = 1) -> Callable[[Entry], Bounds]:
    def decode(entry: Entry) -> Bounds:
        if len(entry) < 4 or entry[3] != tag:
            return UNKNOWN
        low, high = entry[0], entry[1]
        return (low * scale if type(low) is int else None), (high * scale if type(high) is int else None)

    return decode


def _decimals(entry: Entry) -> Bounds:
    low, high = entry[0], entry[1]
    if len(entry) > 3:
        return (_decimal(low), _decimal(high)) if entry[3] == "decimal" else UNKNOWN
    return (Decimal(low) if type(low) is int else None), (Decimal(high) if type(high) is int else None)


def _decimal(text: Any) -> Decimal | None:
    try:
        value = Decimal(text) if type(text) is str else None
    except ArithmeticError:
        return None
    return value if value is not None and value.is_finite() else None


def _integers(entry: Entry) -> Bounds:
    low, high = entry[0], entry[1]
    if len(entry) == 3:
        return (low if type(low) is int else None), (high if type(high) is int else None)
    decimals = _decimals(entry)  # HUGEINT is stored as a decimal
    return (
        None if decimals[0] is None else math.floor(decimals[0]),
        None if decimals[1] is None else math.ceil(decimals[1]),
    )


def _floats(entry: Entry) -> Bounds:
    low, high = entry[0], entry[1]
    if len(entry) == 3:
        if type(low) is float and type(high) is float:
            return low, high
        if type(low) is int and type(high) is int:
            return _rounded(low, -math.inf), _rounded(high, math.inf)
        return (low if type(low) is float else None), (high if type(high) is float else None)
    low, high = _decimals(entry)
    return (
        None if low is None else math.nextafter(float(low), -math.inf),
        None if high is None else math.nextafter(float(high), math.inf),
    )


def _rounded(value: int, toward: float) -> float:
    return float(value) if abs(value) <= 2**53 else math.nextafter(float(value), toward)


_DECODERS: dict[Family, Callable[[Entry], Bounds]] = {
    "boolean": _plain(bool),
    "integer": _integers,
    "float": _floats,
    "decimal": _decimals,
    "string": _plain(str),
    "date": _tagged("date", DAY),
    "timestamp": _tagged("timestamp"),
    "timestamptz": _tagged("timestamptz"),
    "time": _tagged("time"),
    "binary": lambda entry: UNKNOWN,
    "other": lambda entry: UNKNOWN,
}

# -- literals into the domain


def intervals(constants: Sequence[Constant], name: str) -> list[Interval] | None:
    """Where constants lie that are compared, together, with a column of this type.

    Together, because the engine casts all of an IN list or BETWEEN to one type, so that one double among the
    integers rounds them all. None if one of them may be compared otherwise than in the column's own domain.
    """
    family = family_of(name)
    place = _PLACES.get(family)
    if place is None:
        return None
    kinds = {constant.kind for constant in constants}
    company = _Company(typenames.parse(name), len(kinds) > 1, "single" in kinds)
    found = []
    for constant in constants:
        interval = place(constant, company)
        if interval is None:
            return None
        found.append(interval)
    return found


class _Company(NamedTuple):
    """The operands that a constant is compared with: a column's type, and others of its own kind or mixed ones."""

    kind: Any
    mixed: bool
    single: bool  # a FLOAT among them, to which engines may cast integers and decimals


def _around(value: Any, single: bool) -> Interval | None:
    """The interval within one step of a float's rounding."""
    try:
        number = float(value)
    except OverflowError:
        return None
    if not math.isfinite(number):
        return None
    if not single:
        return Interval(math.nextafter(number, -math.inf), math.nextafter(number, math.inf))
    if abs(number) > 3.4e38:
        return None
    packed: float = struct.unpack("<f", struct.pack("<f", number))[0]
    margin = max(abs(packed) * 2.0**-23, 2.0**-149)
    return Interval(packed - margin, packed + margin)


_NUMBERS = ("integer", "decimal", "double", "single")


def _place_integer(constant: Constant, beside: _Company) -> Interval | None:
    if constant.kind == "integer" and not beside.mixed and abs(constant.value) < 2**127:
        return Interval(constant.value, constant.value)
    return _around(constant.value, beside.single) if constant.kind in _NUMBERS else None


def _place_float(constant: Constant, beside: _Company) -> Interval | None:
    if constant.kind not in _NUMBERS:
        return None
    single = str(beside.kind) == "FLOAT"
    exact = constant.kind in ("double", "single") or (
        constant.kind == "integer" and abs(constant.value) <= (2**24 if single else 2**53)
    )
    if exact and not beside.mixed and math.isfinite(constant.value):
        return Interval(float(constant.value), float(constant.value))
    return _around(constant.value, single or beside.single)


def _place_decimal(constant: Constant, beside: _Company) -> Interval | None:
    if constant.kind not in _NUMBERS:
        return None
    if constant.kind in ("double", "single") or beside.mixed or beside.kind.precision > 19:
        return _around(constant.value, beside.single)
    value = Decimal(constant.value)
    # with at most 19 digits on either side of either point, the common type has room for all
    fits = len(value.as_tuple().digits) <= 19 and -19 <= int(value.as_tuple().exponent) <= 0
    return Interval(value, value) if fits else _around(value, beside.single)


def _place_string(constant: Constant, beside: _Company) -> Interval | None:
    if constant.kind not in ("text", "string"):
        return None
    return Interval(constant.value, constant.value)


def _place_boolean(constant: Constant, beside: _Company) -> Interval | None:
    return Interval(constant.value, constant.value) if constant.kind == "boolean" else None


def _place_date(constant: Constant, beside: _Company) -> Interval | None:
    if constant.kind in ("date", "timestamp"):
        return Interval(constant.value, constant.value)
    found = _read_time(constant)
    if found is None or found.zone or found.clock:
        return None
    return Interval(found.low, found.high)


def _place_timestamp(constant: Constant, beside: _Company) -> Interval | None:
    if constant.kind in ("date", "timestamp"):
        low = high = constant.value
    else:
        found = _read_time(constant)
        if found is None or found.zone:
            return None
        low, high = found.low, found.high
    if str(beside.kind) != "TIMESTAMP":  # the literal may be rounded to the column's unit
        low, high = low - 1_000_000, high + 1_000_000
    return Interval(low, high)


def _place_timestamptz(constant: Constant, beside: _Company) -> Interval | None:
    if constant.kind in ("date", "timestamp", "timestamptz"):
        margin = 0 if constant.zoned else _ANY_ZONE
        return Interval(constant.value - margin, constant.value + margin)
    found = _read_time(constant)
    if found is None:
        return None
    margin = 0 if found.zone else _ANY_ZONE
    return Interval(found.low - margin, found.high + margin)


def _place_time(constant: Constant, beside: _Company) -> Interval | None:
    return Interval(constant.value, constant.value) if constant.kind == "time" else None


def _place_binary(constant: Constant, beside: _Company) -> Interval | None:
    if constant.kind == "binary":
        return Interval(constant.value, constant.value)
    # DuckDB reads \xFF in text as one byte, and refuses what isn't ASCII
    if constant.kind != "text" or beside.mixed or "\\" in constant.value or not constant.value.isascii():
        return None
    data = constant.value.encode()
    return Interval(data, data)


_PLACES: dict[Family, Callable[[Constant, _Company], Interval | None]] = {
    "boolean": _place_boolean,
    "integer": _place_integer,
    "float": _place_float,
    "decimal": _place_decimal,
    "string": _place_string,
    "date": _place_date,
    "timestamp": _place_timestamp,
    "timestamptz": _place_timestamptz,
    "time": _place_time,
    "binary": _place_binary,
}


class _Moment(NamedTuple):
    low: int
    high: int
    clock: bool
    zone: bool


_TIME_TEXT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?"
)


def _read_time(constant: Constant) -> _Moment | None:
    return read_time(constant.value) if constant.kind == "text" else None


def read_time(text: str) -> _Moment | None:
    """The moment of a date or time in the one form that all engines agree on; None for any other.

    Microseconds since 1970, in UTC where the text has an offset; `high` is one more where digits are cut off.
    """
    match = _TIME_TEXT.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    digits = (fraction or "").ljust(6, "0")
    try:
        moment = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int(digits[:6]),
        )
        if zone and zone != "Z":
            sign = -1 if zone[0] == "-" else 1
            tail = zone[1:].replace(":", "")
            offset = timedelta(hours=int(tail[:2]), minutes=int(tail[2:] or 0))
            timezone(sign * offset)  # raises for what is no offset
            moment -= sign * offset
    except (ValueError, OverflowError):
        return None
    low = (moment - _EPOCH) // timedelta(microseconds=1)
    return _Moment(low, low + bool(digits[6:].strip("0")), hour is not None, zone is not None)
