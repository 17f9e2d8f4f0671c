"""The envelope of metadata objects: one JSON object each, in one spelling only, with a checksum of itself.

Keys are sorted, there is no white space, and beside its own fields each object has `format`, `kind`, `features` and
`crc`: a CRC-32C of the same object without `crc`. Bytes that aren't exactly what encoding the decoded object
gives are refused, so no flipped bit goes unnoticed. Unknown fields are skipped unless a name in `features` that
this version doesn't know says that they matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import google_crc32c
import orjson

from firn.errors import CorruptObjectError, UnsupportedError

T = TypeVar("T")

FORMAT: Final = 1  # frozen


@dataclass(frozen=True)
class Envelopes:
    """The kinds of object of one journal: `owner` says whose they are, `remedies` by kind what to do about damage,
    `features` what this version knows of what objects may need."""

    owner: str
    remedies: Mapping[str, str]
    features: frozenset[str] = frozenset()

    def encode(self, kind: str, fields: Mapping[str, Any], needs: Iterable[str] = ()) -> bytes:
        """The object's bytes. Values may be `orjson.Fragment`s of JSON that is spelled as here. `needs` are features
        that a reader must know."""
        whole = {**fields, "kind": kind, "format": FORMAT, "features": sorted(needs)}
        return _dump({**whole, "crc": checksum(whole)})

    def decode(self, kind: str, data: bytes, where: str, read: Callable[[dict[str, Any]], T]) -> T:
        """What `read` makes of the object's fields; `where` is its full name, for messages.

        Raises:
            CorruptObjectError: it isn't what any Firn writes, or `read` raised ValueError, TypeError or KeyError.
            UnsupportedError: it needs a newer Firn.
        """
        try:
            return read(_open(kind, data, where, self.features))
        except (ValueError, TypeError, KeyError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise CorruptObjectError(
                f"{where} is not a {kind} of {self.owner}: {reason}. {self.remedies[kind]}"
            ) from error


def number(value: Any, *, least: int = 0) -> int:
    """The value, a ValueError unless it is an int from `least` on."""
    if type(value) is not int or value < least:
        raise ValueError(f"{value!r} isn't a number from {least} on")
    return value


def optional_number(value: Any) -> int | None:
    return None if value is None else number(value)


def text(value: Any) -> str:
    """The value, a ValueError unless it is a string."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} isn't text")
    return value


def truth(value: Any) -> bool:
    """The value, a ValueError unless it is true or false."""
    if type(value) is not bool:
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _open(kind: str, data: bytes, where: str, known: frozenset[str]) -> dict[str, Any]:
    raw = orjson.loads(data)
    if not isinstance(raw, dict):
        raise ValueError("it isn't a JSON object")
    crc = raw.pop("crc", None)
    plain = _dump(raw)
    if crc != int(google_crc32c.value(plain)) or _with_checksum(raw, plain, crc) != data:
        raise ValueError("its checksum is wrong")
    unknown = sorted(set(raw["features"]) - known)
    if raw["format"] != FORMAT or unknown:
        needs = f"the feature {unknown[0]!r}" if unknown else f"format {raw['format']}"
        raise UnsupportedError(
            f"{where} needs {needs}, which this version of Firn doesn't know. Upgrade Firn."
        )
    if raw["kind"] != kind:
        raise ValueError(f"it is a {raw['kind']}")
    return raw


def _with_checksum(fields: Mapping[str, Any], plain: bytes, crc: int) -> bytes:
    """The bytes of fields and their checksum; `plain` is what they are without."""
    if fields and min(fields) > "crc":
        return b'{"crc":%d,%b' % (crc, plain[1:])  # of most kinds, and in half the time
    return _dump({**fields, "crc": crc})


def _dump(fields: Mapping[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)


def checksum(fields: Mapping[str, Any]) -> int:
    """The CRC-32C of the fields as JSON with sorted keys."""
    return int(google_crc32c.value(_dump(fields)))
