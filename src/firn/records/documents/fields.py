"""Columns that a table declares: what a field of its documents may hold, and how that is kept in JSON.

Each type is a pair of functions: Python value → JSON, which refuses what the type can't hold, and back. Times
and dates are ISO 8601 in JSON, decimals text, bytes base64; all else is itself. Back also takes the JSON of narrower
types (`widens`): documents stay as they were written when their column's type changes.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import orjson

from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError
from firn.journal.columns import join, join_loose
from firn.journal.typenames import Decimal as DecimalType
from firn.journal.typenames import List, Map, Scalar, Struct, Type, parse
from firn.records.names.names import check_unicode

Convert: TypeAlias = Callable[[Any, str], Any]


@dataclass(frozen=True)
class FieldType:
    """One type. `to_json(value, path)` raises `InvalidInputError` that names the path; `from_json` gives back what
    `to_json` made.

    `kind` is the sort of value that an index of it holds, None where it can't be indexed; `item` is the type of a
    list's elements.
    """

    name: str
    to_json: Convert
    from_json: Callable[[Any], Any]
    kind: type | None = None
    item: FieldType | None = None

    @property
    def as_json(self) -> bool:
        """Whether JSON has its values as they are; for VARCHAR, unless they were written as of another type."""
        return self.from_json in (_same, _as_text)


def widens(a: str, b: str) -> bool:
    """Whether all JSON that was written as of type `a` can be read as of `b`; numbers as DOUBLE may be rounded.

    It is transitive: what was widened twice is read, too.

    >>> widens("INTEGER", "DECIMAL(12,2)"), widens("DATE", "VARCHAR"), widens("DOUBLE", "FLOAT")
    (True, True, False)
    """
    return a == b or join(a, b) == b or join_loose(a, b) == b


def field_type(name: str) -> FieldType:
    """The type of a DuckDB name.

    Raises:
        InvalidInputError: no document can hold it.

    >>> day = field_type("DATE")
    >>> day.to_json(dt.date(2026, 1, 31), "$.day"), day.from_json("2026-01-31")
    ('2026-01-31', datetime.date(2026, 1, 31))
    """
    return _field_type(parse(name))


def _field_type(kind: Type) -> FieldType:
    if isinstance(kind, Scalar):
        if kind.name in _INTEGERS:
            return FieldType(kind.name, _integer(kind.name, *_INTEGERS[kind.name]), _same, int)
        if found := _SCALARS.get(kind.name):
            return found
    if isinstance(kind, DecimalType):
        return FieldType(str(kind), _decimal(kind), Decimal, Decimal)
    if isinstance(kind, List) and kind.size is None:
        return _list(kind)
    if isinstance(kind, Struct):
        return _struct(kind)
    if isinstance(kind, Map) and str(kind.key) == "VARCHAR":
        return _map(kind)
    raise InvalidInputError(
        f"a document can't hold {kind}. There are: {', '.join([*_INTEGERS, *_SCALARS])}, DECIMAL(p,s), lists, "
        "STRUCT(…) and MAP(VARCHAR, …)."
    )


def refused(value: Any, path: str, name: str) -> InvalidInputError:
    """The error for a value that a column can't hold."""
    return InvalidInputError(f"{path} is {name} by the table's schema, and can't be {shown(value)}.")


def _same(value: Any) -> Any:
    return value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _integer(name: str, lowest: int, highest: int) -> Convert:
    def convert(value: Any, path: str) -> int:
        if type(value) is not int or not lowest <= value <= highest:
            raise refused(value, path, name)
        return value

    return convert


def _bool(value: Any, path: str) -> bool:
    if type(value) is not bool:
        raise refused(value, path, "BOOLEAN")
    return value


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise refused(value, path, "VARCHAR")
    check_unicode(value, path)
    return value


def _double(value: Any, path: str) -> float:
    if type(value) not in (int, float) or not _finite(value) or float(value) != value:
        raise refused(value, path, "DOUBLE")
    return float(value)


def _float(value: Any, path: str) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", _double(value, path)))[0]
    except OverflowError:
        raise refused(value, path, "FLOAT") from None
    return rounded


def _finite(value: int | float) -> bool:
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**1000


def _date(value: Any, path: str) -> str:
    if not isinstance(value, dt.date) or isinstance(value, dt.datetime):
        raise refused(value, path, "DATE")
    return value.isoformat()


def _timestamp(value: Any, path: str) -> str:
    if not isinstance(value, dt.datetime) or value.tzinfo is not None:
        raise refused(value, path, "TIMESTAMP, which names no zone,")
    return value.replace(fold=0).isoformat(timespec="microseconds")


def _timestamp_tz(value: Any, path: str) -> str:
    if not isinstance(value, dt.datetime):
        raise refused(value, path, "TIMESTAMP WITH TIME ZONE")
    try:
        moment = (
            value.replace(tzinfo=dt.timezone.utc)
            if value.tzinfo is None
            else value.astimezone(dt.timezone.utc)
        )
    except OverflowError:
        raise refused(value, path, "TIMESTAMP WITH TIME ZONE") from None
    return moment.isoformat(timespec="microseconds")


def _blob(value: Any, path: str) -> str:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise refused(value, path, "BLOB")
    return base64.b64encode(value).decode()


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value, validate=True)


def _decimal(kind: DecimalType) -> Convert:
    def convert(value: Any, path: str) -> str:
        if type(value) is int:
            value = Decimal(value)
        if not isinstance(value, Decimal) or not value.is_finite():
            raise refused(value, path, str(kind))
        digits, exponent = value.as_tuple().digits, value.as_tuple().exponent
        assert isinstance(exponent, int)
        whole = int("".join(map(str, digits)) or "0")
        shift = exponent + kind.scale
        if shift > 2 * kind.precision and whole:
            raise refused(value, path, str(kind))
        scaled, rest = (
            (whole * 10 ** max(shift, 0), 0) if shift >= 0 else divmod(whole, 10 ** min(-shift, 10_000))
        )
        if rest or scaled >= 10**kind.precision:
            raise refused(value, path, str(kind))
        text = f"{scaled:0{kind.scale + 1}}"
        text = f"{text[: -kind.scale]}.{text[-kind.scale :]}" if kind.scale else text
        return f"-{text}" if value < 0 else text

    return convert


def _list(kind: List) -> FieldType:
    item = _field_type(kind.item)

    def convert(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            raise refused(value, path, str(kind))
        return [None if v is None else item.to_json(v, f"{path}[{at}]") for at, v in enumerate(value)]

    return FieldType(
        str(kind), convert, lambda value: [None if v is None else item.from_json(v) for v in value], item=item
    )


def _struct(kind: Struct) -> FieldType:
    types = {name: _field_type(inner) for name, inner in kind.fields}
    return FieldType(
        str(kind),
        lambda value, path: to_json(value, types, path, str(kind)),
        lambda value: from_json(value, types),
    )


def _map(kind: Map) -> FieldType:
    inner = _field_type(kind.value)

    def convert(value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise refused(value, path, str(kind))
        return {
            _text(key, path): None if v is None else inner.to_json(v, f"{path}.{key}")
            for key, v in value.items()
        }

    return FieldType(
        str(kind),
        convert,
        lambda value: {key: None if v is None else inner.from_json(v) for key, v in value.items()},
    )


def to_json(value: Any, types: Mapping[str, FieldType], path: str, name: str) -> dict[str, Any]:
    """The JSON of an object with these fields; what it lacks stays missing.

    Raises:
        InvalidInputError: it isn't an object, has another field, or a value that its field can't hold.
    """
    if not isinstance(value, Mapping):
        raise refused(value, path, name)
    found = {}
    for key, inner in value.items():
        kind = types.get(key)
        if kind is None:
            raise InvalidInputError(
                f"{path} has the field {key!r}, which isn't in the table's schema: {', '.join(types)}."
            )
        found[key] = None if inner is None else kind.to_json(inner, f"{path}.{key}")
    return found


def from_json(value: Mapping[str, Any], types: Mapping[str, FieldType]) -> dict[str, Any]:
    """The values of an object with these fields, in their order; what it lacks is None."""
    return {
        key: None if value.get(key) is None else kind.from_json(value[key]) for key, kind in types.items()
    }


_INTEGERS: Mapping[str, tuple[int, int]] = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
}

_SCALARS: Mapping[str, FieldType] = {
    "BOOLEAN": FieldType("BOOLEAN", _bool, _same, bool),
    "FLOAT": FieldType("FLOAT", _float, float, float),
    "DOUBLE": FieldType("DOUBLE", _double, float, float),
    "VARCHAR": FieldType("VARCHAR", _text, _as_text, str),
    "DATE": FieldType("DATE", _date, dt.date.fromisoformat, dt.date),
    "TIMESTAMP": FieldType("TIMESTAMP", _timestamp, dt.datetime.fromisoformat, dt.datetime),
    "TIMESTAMP WITH TIME ZONE": FieldType(
        "TIMESTAMP WITH TIME ZONE", _timestamp_tz, dt.datetime.fromisoformat, dt.datetime
    ),
    "BLOB": FieldType("BLOB", _blob, _bytes, bytes),
}
