"""One column of a typed key: Python values to bytes that sort as the values do.

The tags and forms are frozen; docs/format/keyed-keys.md has them. `key_columns` does the same for Arrow's columns,
and back.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final
from uuid import UUID

from firn.arrow.pyvalues import shown
from firn.arrow.types import arrow_type
from firn.errors import InvalidInputError

NULL: Final = 0x01  # frozen, as all tags
FALSE: Final = 0x02
TRUE: Final = 0x03
INT: Final = 0x10
UINT: Final = 0x11
FLOAT: Final = 0x12
DECIMAL: Final = 0x13
DATE: Final = 0x18
TIMESTAMP: Final = 0x19
TIMESTAMPTZ: Final = 0x1A
UUID_TEXT: Final = 0x1B
TEXT: Final = 0x20
BLOB: Final = 0x21

TERMINATOR: Final = b"\x00\x00"  # frozen
ESCAPED: Final = b"\x00\xff"  # frozen: a zero byte within text or bytes

TAGS: Final[Mapping[str, int]] = {
    "BOOLEAN": TRUE,
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT"), INT),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), UINT),
    **dict.fromkeys(("FLOAT", "DOUBLE"), FLOAT),
    "DECIMAL": DECIMAL,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "UUID": UUID_TEXT,
    "VARCHAR": TEXT,
    "BLOB": BLOB,
}

WIDTHS: Final[Mapping[int, int]] = {TRUE: 0, DATE: 4, DECIMAL: 16, UUID_TEXT: 16}
"""Bytes behind a tag; 8 where it isn't told, and for `TEXT` and `BLOB` up to the terminator."""

KEY_TYPES: Final = "key-types"
"""The feature of definitions whose keys have a column of `LATER`. Frozen."""
LATER: Final = (DECIMAL, UUID_TEXT)

UUID_FORM: Final = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"

_SIGN = 1 << 63
_WIDE_SIGN = 1 << 127
_ALL = (1 << 64) - 1
_EPOCH = datetime(1970, 1, 1)
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=timezone.utc)
_EPOCH_DAY = date(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_DOUBLE = struct.Struct(">d")
_WORD = struct.Struct(">Q")
_HEAD = struct.Struct(">BQ")
_DAY = struct.Struct(">BI")
_DECIMAL = re.compile(r"DECIMAL\(\d+,\d+\)")
_UUID = re.compile(UUID_FORM)
_BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}


class KeyCell:
    """One column of a key: Python values to bytes."""

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        tag = tag_of(kind)
        assert tag is not None
        self.tag = tag
        self.arrow = arrow_type(kind)
        bits = _BITS.get(kind.removeprefix("U"), 64)
        self._low, self._high, self._offset = -(1 << bits - 1), (1 << bits - 1) - 1, _SIGN
        if self.tag == UINT:
            self._low, self._high, self._offset = 0, (1 << bits) - 1, 0
        elif self.tag == DECIMAL:
            self._high = 10**self.arrow.precision - 1
            self._low, self._offset = -self._high, _WIDE_SIGN
            self._exact = Context(prec=self.arrow.precision, traps=[Inexact, InvalidOperation])
        self._encode: Callable[[Any], bytes | None] = {
            TRUE: self._bool,
            INT: self._int,
            UINT: self._int,
            FLOAT: self._float,
            DATE: self._date,
            TIMESTAMP: self._timestamp,
            TIMESTAMPTZ: self._timestamp,
            DECIMAL: self._decimal,
            UUID_TEXT: self._uuid,
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
        offset = self._offset

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
                f"{shown(value)} doesn't fit the key column {self.name!r}, which is {self.kind}{self._takes}"
            )
        return encoded

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
        return _HEAD.pack(self.tag, number + self._offset)

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

    def _decimal(self, value: Any) -> bytes | None:
        if isinstance(value, bool) or not (isinstance(value, Decimal) or hasattr(value, "__index__")):
            return None
        number = value if isinstance(value, Decimal) else Decimal(value.__index__())
        if not number.is_finite():
            return None
        try:
            number = number.quantize(Decimal((0, (1,), -self.arrow.scale)), context=self._exact)
        except (Inexact, InvalidOperation):
            return None
        unscaled = int(number.scaleb(self.arrow.scale, self._exact))
        return b"\x13" + (unscaled + self._offset).to_bytes(16, "big")

    def _uuid(self, value: Any) -> bytes | None:
        if isinstance(value, str) and _UUID.fullmatch(value):
            value = UUID(value)
        return b"\x1b" + value.bytes if isinstance(value, UUID) else None

    @property
    def _takes(self) -> str:
        """The values that the column takes, for messages: where they can be written in several ways."""
        if self.tag == UUID_TEXT:
            return ": give a uuid.UUID, or text like '6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38'"
        if self.tag == DECIMAL:
            whole = self.arrow.precision - self.arrow.scale
            return (
                f": give a decimal.Decimal or an int with at most {whole} digits before the point and "
                f"{self.arrow.scale} behind it"
            )
        return ""

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


def tag_of(kind: str) -> int | None:
    """The tag of a DuckDB type; None for one that keys can't have.

    >>> tag_of("DECIMAL(5,2)") == DECIMAL, tag_of("BIGINT[]")
    (True, None)
    """
    return TAGS.get("DECIMAL" if _DECIMAL.fullmatch(kind) else kind)


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
