"""One column of a typed key: a Python value to bytes that sort as the values do, and back.

The tags and forms are frozen; docs/format/keyed-keys.md has them. `key_columns` does the same for Arrow's columns.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

from firn.arrow.pyvalues import shown
from firn.arrow.types import arrow_type
from firn.errors import InvalidInputError

NULL: Final = 0x01  # frozen, as all tags
FALSE: Final = 0x02
TRUE: Final = 0x03
INT: Final = 0x10
UINT: Final = 0x11
FLOAT: Final = 0x12
DATE: Final = 0x18
TIMESTAMP: Final = 0x19
TIMESTAMPTZ: Final = 0x1A
TEXT: Final = 0x20
BLOB: Final = 0x21

TERMINATOR: Final = b"\x00\x00"  # frozen
ESCAPED: Final = b"\x00\xff"  # frozen: a zero byte within text or bytes

TAGS: Final[Mapping[str, int]] = {
    "BOOLEAN": TRUE,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), INT),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), UINT),
    **dict.fromkeys(("FLOAT", "DOUBLE"), FLOAT),
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "VARCHAR": TEXT,
    "BLOB": BLOB,
}

_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DOUBLE = struct.Struct(">d")
_WORD = struct.Struct(">Q")
_HEAD = struct.Struct(">BQ")
_DAY = struct.Struct(">BI")
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}


class KeyCell:
    """One column of a key: a Python value to bytes and back."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.tag = TAGS[kind]
        self.arrow = arrow_type(kind)
        bits = _BITS.get(kind.removeprefix("U"), 64)
        self._low, self._high = (
            (0, (1 << bits) - 1) if self.tag == UINT else (-(1 << bits - 1), (1 << bits - 1) - 1)
        )
        self._encode: Callable[[Any], bytes | None] = {
            TRUE: self._bool,
            INT: self._int,
            UINT: self._int,
            FLOAT: self._float,
            DATE: self._date,
            TIMESTAMP: self._timestamp,
            TIMESTAMPTZ: self._timestamp,
            TEXT: self._text,
            BLOB: self._blob,
        }[self.tag]
        self.encode: Callable[[Any], bytes] = self._any
        """A value's bytes; `InvalidInputError` where it doesn't fit the column."""
        if self.tag in (INT, UINT):
            self.encode = self._plain_int()
        elif self.tag == TEXT:
            self.encode = self._plain_text()

    def _plain_int(self) -> Callable[[Any], bytes]:
        """`encode`, quick for what nearly all values are."""
        pack, tag, low, high, other = _HEAD.pack, self.tag, self._low, self._high, self._any
        offset = 0 if tag == UINT else _SIGN

        def encode(value: Any) -> bytes:
            if type(value) is int and low <= value <= high:
                return pack(tag, value + offset)
            return other(value)

        return encode

    def _plain_text(self) -> Callable[[Any], bytes]:
        other = self._any

        def encode(value: Any) -> bytes:
            if type(value) is str and value.isascii() and "\0" not in value:
                return b"\x20%b\x00\x00" % value.encode()
            return other(value)

        return encode

    def _any(self, value: Any) -> bytes:
        if value is None:
            return b"\x01"
        encoded = self._encode(value)
        if encoded is None:
            raise InvalidInputError(
                f"{shown(value)} doesn't fit the key column {self.name!r}, which is {self.kind}"
            )
        return encoded

    def decode(self, data: bytes, at: int) -> tuple[Any, int]:
        tag = data[at]
        at += 1
        if tag == NULL:
            return None, at
        if self.tag == TRUE and tag in (TRUE, FALSE):
            return tag == TRUE, at
        if tag != self.tag:
            raise ValueError(tag)
        if tag in (TEXT, BLOB):
            end = _end(data, at)
            plain = data[at:end].replace(ESCAPED, b"\0")
            return (plain.decode() if tag == TEXT else plain), end + 2
        if tag == DATE:
            (days,) = struct.unpack_from(">I", data, at)
            return _EPOCH_DAY + timedelta(days=days - (1 << 31)), at + 4
        (word,) = _WORD.unpack_from(data, at)
        at += 8
        if tag in (INT, UINT):
            number = word - _SIGN if tag == INT else word
            if not self._low <= number <= self._high:
                raise ValueError(number)
            return number, at
        if tag == FLOAT:
            bits = word ^ _SIGN if word & _SIGN else word ^ _ALL
            return _DOUBLE.unpack(_WORD.pack(bits))[0], at
        micros = timedelta(microseconds=word - _SIGN)
        return (_EPOCH if tag == TIMESTAMP else _EPOCH_UTC) + micros, at

    def _bool(self, value: Any) -> bytes | None:
        if isinstance(value, bool):
            return b"\x03" if value else b"\x02"
        return None

    def _int(self, value: Any) -> bytes | None:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            return None
        number = value.__index__()
        if not self._low <= number <= self._high:
            return None
        return _HEAD.pack(self.tag, number if self.tag == UINT else number + _SIGN)

    def _float(self, value: Any) -> bytes | None:
        if isinstance(value, bool) or not hasattr(value, "__float__") or isinstance(value, str):
            return None
        try:
            number = float(value)
        except OverflowError:
            return None
        if self.kind == "FLOAT":
            number = _single(number)
        if number != value and number == number and self.kind != "FLOAT":
            return None  # an integer that a double can't hold
        return _HEAD.pack(FLOAT, float_word(number))

    def _date(self, value: Any) -> bytes | None:
        if not isinstance(value, date) or isinstance(value, datetime):
            return None
        return _DAY.pack(DATE, (value - _EPOCH_DAY).days + (1 << 31))

    def _timestamp(self, value: Any) -> bytes | None:
        if not isinstance(value, datetime) or getattr(value, "nanosecond", False) or value != value:
            return None
        if self.tag == TIMESTAMPTZ:  # a naive time is UTC, as everywhere
            moment = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
            return _HEAD.pack(TIMESTAMPTZ, (moment - _EPOCH_UTC) // _MICROSECOND + _SIGN)
        if value.tzinfo is not None:
            return None
        return _HEAD.pack(TIMESTAMP, (value - _EPOCH) // _MICROSECOND + _SIGN)

    def _text(self, value: Any) -> bytes | None:
        if not isinstance(value, str):
            return None
        try:
            return b"\x20" + value.encode().replace(b"\0", ESCAPED) + TERMINATOR
        except UnicodeEncodeError:
            return None

    def _blob(self, value: Any) -> bytes | None:
        if not isinstance(value, bytes | bytearray | memoryview):
            return None
        return b"\x21" + bytes(value).replace(b"\0", ESCAPED) + TERMINATOR


def float_word(number: float) -> int:
    """The 64 bits of a double, turned so that they sort as numbers do; -0.0 is 0.0, and NaN the greatest."""
    if number != number:
        return _ALL
    (bits,) = _WORD.unpack(_DOUBLE.pack(number + 0.0))  # + 0.0 makes -0.0 positive
    return int(bits ^ _ALL if bits & _SIGN else bits | _SIGN)


def _single(number: float) -> float:
    try:
        return float(struct.unpack(">f", struct.pack(">f", number))[0])
    except OverflowError:
        return number


def _end(data: bytes, at: int) -> int:
    """Where the terminator of text or bytes that begin at `at` is."""
    while True:
        zero = data.index(b"\0", at)
        if data[zero + 1] == 0xFF:
            at = zero + 2
        elif data[zero + 1] == 0:
            return zero
        else:
            raise ValueError(zero)
