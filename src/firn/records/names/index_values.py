"""Values of indexed fields as directories. Frozen: docs/format/records.md has the encoding.

Text is its NFC, percent-encoded, so that names that begin alike are listed by their beginning. Everything else
begins with `!`, which text never does, and sorts as the values do.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
import unicodedata
from decimal import Decimal
from typing import Final, TypeAlias
from urllib.parse import unquote

from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError
from firn.records.names.names import HASHED, check_unicode, digest, edges, head, quoted

IndexValue: TypeAlias = bool | int | float | Decimal | dt.date | dt.datetime | str | bytes | None
"""The values that an indexed field may hold."""

VALUE_BYTES: Final = 200
"""Bytes of a value in a path. Frozen."""

HEAD_BYTES: Final = VALUE_BYTES - 32 - len(HASHED)
"""Bytes of a longer text that are kept before its hash. Frozen."""

NULL: Final = "!0"
EMPTY: Final = "!s"
"""The empty text: a directory needs a name."""

LOWEST_INT: Final = -(2**63)
HIGHEST_INT: Final = 2**64 - 1

_NUMBER = "!n"
_DECIMAL = "!m"
_DATE = "!d"
_TIME = "!t"
_BYTES = "!x"
_SIGN = 1 << 63
_ALL = (1 << 64) - 1
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MICROSECOND = dt.timedelta(microseconds=1)
_EXPONENT = 500  # added to exponents of decimals: those of DECIMAL(38, …) are within ±76
_COMPLEMENT = str.maketrans("0123456789", "9876543210")


def value_path(value: IndexValue) -> str:
    """A value as its two directories: the first two characters, and all of it.

    >>> value_path("Ann Arbor"), value_path("é"), value_path(True), value_path(None)
    ('An/Ann%20Arbor', '%C3%A9_/%C3%A9', '!b/!b1', '!0/!0')
    >>> value_path(1.5)
    '!n/!nbff8000000000000000'
    """
    segment = encode_value(value)
    return f"{level_of(normal(value)) if isinstance(value, str) and value else segment[:2]}/{segment}"


def encode_value(value: IndexValue) -> str:
    """A value as one segment of a path. Two values have one segment iff they are equal, up to hashing.

    Raises:
        InvalidInputError: no index holds such a value; NaN is none either.
    """
    if isinstance(value, str):
        return _text(normal(value))
    if value is None:
        return NULL
    if isinstance(value, bool):
        return f"!b{value:d}"
    if isinstance(value, int | float):
        return _NUMBER + _number(value)
    if isinstance(value, Decimal):
        return _DECIMAL + _decimal(value)
    if isinstance(value, dt.datetime):
        return f"{_TIME}{(zoned(value) - _EPOCH) // _MICROSECOND + _SIGN:016x}"
    if isinstance(value, dt.date):
        return f"{_DATE}{value.toordinal() - _EPOCH.toordinal() + (1 << 31):08x}"
    if isinstance(value, bytes):
        return _bytes(value)
    raise InvalidInputError(
        f"{shown(value)} can't be looked up in an index: give text, a number, a bool, a date, a datetime, bytes "
        "or None."
    )


def order_key(value: IndexValue) -> tuple[int, str]:
    """By which values sort: null, bools, dates, decimals, numbers, times, bytes, text. Equal ones have one key.

    >>> sorted(["b", 2, None, "a", 1.5, True], key=order_key)
    [None, True, 1.5, 2, 'a', 'b']
    """
    if isinstance(value, str):
        return 1, normal(value)
    return 0, _BYTES + value.hex() if isinstance(value, bytes) else encode_value(value)


def order_keys_of(segment: str) -> tuple[tuple[int, str], tuple[int, str]]:
    """The keys, from which to which, of the values that a segment may stand for: most tell their value.

    >>> order_keys_of("Ann%20Arbor"), order_keys_of("!b1")
    (((1, 'Ann Arbor'), (1, 'Ann Arbor')), ((0, '!b1'), (0, '!b1')))
    """
    if segment == EMPTY:
        return (1, ""), (1, "")
    known, hashed, _ = segment.partition(HASHED)
    rank = 0 if segment.startswith("!") else 1
    text = unquote(known, errors="replace") if rank else known
    return (rank, text), (rank, text_after(text) if hashed else text)


def text_after(beginning: str) -> str:
    """A text behind all that begin like this.

    >>> text_after("ab") > "ab\U0010ffff", text_after("ab") <= "ac"
    (True, True)
    """
    for at in range(len(beginning) - 1, -1, -1):
        if beginning[at] < "\U0010ffff":
            return beginning[:at] + chr(ord(beginning[at]) + 1)
    return "\U0010ffff" * 1024


def normal(text: str) -> str:
    """Text in the form that indices and predicates compare: NFC. `InvalidInputError` if it isn't Unicode."""
    check_unicode(text, "the text")
    return unicodedata.normalize("NFC", text)


def zoned(time: dt.datetime) -> dt.datetime:
    """A time with a zone; one that names none is UTC."""
    return time.replace(tzinfo=dt.timezone.utc) if time.tzinfo is None else time


def level_of(text: str) -> str:
    """The first level of a text in normal form: its first two characters, padded with `_`.

    >>> level_of("DTW"), level_of("x"), level_of("..")
    ('DT', 'x_', '%2E%2E')
    """
    return edges(quoted(text[:2].ljust(2, "_")))


def level_text(level: str) -> str | None:
    """The two characters of a first level; None for what isn't text."""
    return None if level.startswith("!") else unquote(level, errors="replace")


def text_head(segment: str) -> tuple[str, bool] | None:
    """The text of a value's segment, and whether that is all of it; None for what isn't text.

    >>> text_head("Ann%20Arbor"), text_head(encode_value("x" * 300))[1], text_head("!b1")
    (('Ann Arbor', True), False, None)
    """
    if segment == EMPTY:
        return "", True
    if segment.startswith("!"):
        return None
    kept, hashed, _ = segment.partition(HASHED)
    return unquote(kept, errors="replace"), not hashed


def text_prefix(text: str) -> str:
    """How the segments of all texts begin that begin with `text`, which is in normal form."""
    kept = quoted(head(text, HEAD_BYTES))
    if kept.startswith("."):
        kept = "%2E" + kept[1:]
    # The dot at the end of a text is escaped, and this may be the end.
    return kept.rstrip(".")


def _text(text: str) -> str:
    if not text:
        return EMPTY
    encoded = edges(quoted(text))
    if len(encoded) <= VALUE_BYTES:
        return encoded
    kept = quoted(head(text, HEAD_BYTES))
    if kept.startswith("."):
        kept = "%2E" + kept[1:]
    return f"{kept}{HASHED}{digest(text.encode(), 32)}"


def _bytes(value: bytes) -> str:
    encoded = _BYTES + value.hex()
    if len(encoded) <= VALUE_BYTES:
        return encoded
    return f"{encoded[:HEAD_BYTES]}{HASHED}{digest(value, 32)}"


def _number(value: int | float) -> str:
    """The turned bits of the greatest double that isn't above the value, and what an int has above that."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError(f"{value} can't be looked up in an index: JSON has no such number.")
        double, rest = value, 0
    else:
        if not LOWEST_INT <= value <= HIGHEST_INT:
            raise InvalidInputError(f"{value} has more than the 64 bits of a number in an index.")
        double = float(value)
        if int(double) > value:
            double = math.nextafter(double, -math.inf)
        rest = value - int(double)
    bits = struct.unpack(">Q", struct.pack(">d", double or 0.0))[0]
    return f"{bits ^ _ALL if bits & _SIGN else bits ^ _SIGN:016x}{rest:03x}"


def _decimal(value: Decimal) -> str:
    """Sign, exponent and digits; complements where the number is negative, and `z` where they end."""
    if not value.is_finite():
        raise InvalidInputError(f"{value} can't be looked up in an index: it isn't a number.")
    if not value:
        return "1"
    digits = "".join(map(str, value.as_tuple().digits)).rstrip("0")
    exponent = value.adjusted() + _EXPONENT
    if len(digits) > 76 or not 0 <= exponent <= 999:
        raise InvalidInputError(f"{shown(value)} has more digits than a number in an index.")
    text = f"{exponent:03}{digits}"
    return f"2{text}" if value > 0 else f"0{text.translate(_COMPLEMENT)}z"
