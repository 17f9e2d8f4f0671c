"""A table's columns: which types widen to which, and what a table and an append agree on.

The safe widenings form an order, and `join` is its least upper bound, so it doesn't matter in which order
logs are read. Every value of a type is a value of all wider ones, exactly:

- TINYINT < SMALLINT < INTEGER < BIGINT < HUGEINT; an unsigned type below the signed one twice as wide, and
  UBIGINT with a signed type is DECIMAL(20,0);
- integers below every DECIMAL with digits enough, and DECIMAL(p,s) below those with as many digits on both
  sides of the point; DECIMAL(p,0) below HUGEINT;
- FLOAT, and integers up to 32 bits (UINTEGER isn't one: with INTEGER it makes BIGINT), below DOUBLE;
- TIMESTAMP_S < TIMESTAMP_MS < TIMESTAMP (not TIMESTAMP_NS, whose years end in 2262); TIME < TIME_NS;
- ENUM, JSON and UUID below VARCHAR;
- lists by item, a fixed size below any; maps by key and value; structs by field, with the union of fields;
- NULL below everything.

Pure: knows neither Arrow nor DuckDB. Names are DuckDB's, see `firn.journal.typenames`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Literal, get_args

from firn.errors import SchemaConflictError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import NULL, Decimal, Enum, List, Map, Scalar, Struct, Type, parse
from firn.names import fold

OnConflict = Literal["aside", "error", "widen", "skip-file"]
"""The treatment of files whose types don't join. "skip-file", an old name, is read as "aside"."""

ON_CONFLICT: tuple[OnConflict, ...] = get_args(OnConflict)


@lru_cache(maxsize=4096)
def join(a: str, b: str) -> str | None:
    """The narrowest type that holds every value of both exactly, or None where there is none.

    Commutative, associative and idempotent, but for the order of a struct's fields: `a`'s come first.

    >>> join("INTEGER", "BIGINT"), join("INTEGER", "DECIMAL(5,2)"), join("BIGINT", "DOUBLE")
    ('BIGINT', 'DECIMAL(12,2)', None)
    """
    joined = _join(parse(a), parse(b))
    return None if joined is None else str(joined)


def widens_to(a: str, b: str) -> bool:
    """Whether every value of `a` is one of `b`, exactly; structs may have their fields in another order and case.

    >>> widens_to("INTEGER", "BIGINT"), widens_to("STRUCT(B DATE, a INTEGER)", "STRUCT(a BIGINT, b DATE)")
    (True, True)
    """
    return join(b, a) == b  # a struct's fields as in the first


@lru_cache(maxsize=4096)
def join_loose(a: str, b: str) -> str:
    """A type for both at any price: `join`, else DOUBLE for numbers, else VARCHAR, item by item where nested.

    Numbers may be rounded on the way to DOUBLE, and anything becomes its text on the way to VARCHAR.

    >>> join_loose("BIGINT", "DOUBLE"), join_loose("DATE[]", "BIGINT[]")
    ('DOUBLE', 'VARCHAR[]')
    """
    return str(_join_loose(parse(a), parse(b)))


def check_new_names(current: ColumnTypes, incoming: ColumnTypes) -> None:
    """Refuse new columns whose names look like those of values that are set aside."""
    for name in incoming:
        if "~" in name and name not in current:
            raise SchemaConflictError(
                f"{name!r} can't name a new column: names with '~' are of values that were set aside, as their types "
                "didn't fit, until resolve() makes them and their column one. Choose another name"
            )


@lru_cache(maxsize=4096)
def of_text(has: str, wanted: str) -> str:
    """`has`, with the types of texts that `wanted` has in the places where `has` is plain text.

    >>> of_text("STRUCT(id VARCHAR, n INTEGER)", "STRUCT(id UUID, n BIGINT)")
    'STRUCT(id UUID, n INTEGER)'
    """
    return str(_of_text(parse(has), parse(wanted)))


def _of_text(has: Type, wanted: Type) -> Type:
    if isinstance(has, List) and isinstance(wanted, List):
        return List(_of_text(has.item, wanted.item), has.size)
    if isinstance(has, Map) and isinstance(wanted, Map):
        return Map(_of_text(has.key, wanted.key), _of_text(has.value, wanted.value))
    if isinstance(has, Struct) and isinstance(wanted, Struct):
        parts = {fold(name): kind for name, kind in wanted.fields}
        return Struct(tuple((name, _of_text(kind, parts.get(fold(name), kind))) for name, kind in has.fields))
    return wanted if has == _VARCHAR and _is_text(wanted) else has


@lru_cache(maxsize=4096)
def converts(a: str, b: str) -> bool:
    """Whether every value of type `a` can be read as one of `b`, be it rounded: numbers as FLOAT and DOUBLE, anything
    as VARCHAR.

    >>> converts("BIGINT", "DOUBLE"), converts("DATE", "VARCHAR"), converts("VARCHAR", "BIGINT")
    (True, True, False)
    """
    if widens_to(a, b) or join_loose(b, a) == b:
        return True
    return b == "FLOAT" and _is_number(parse(a))


def older_types(stored: ColumnTypes, columns: ColumnTypes) -> dict[str, str]:
    """The columns that were stored under another type than the table has by now, with that type: an engine that
    reads Parquet by itself may not be able to read them as the wider one.

    >>> older_types({"X": "INTEGER", "y": "DATE"}, {"x": "BIGINT", "y": "DATE"})
    {'x': 'INTEGER'}
    """
    if stored == columns:
        return {}
    spelled = {fold(name): name for name in columns}
    return {
        spelled[fold(name)]: kind
        for name, kind in stored.items()
        if columns.get(spelled.get(fold(name), "")) not in (None, kind)
    }


def evolve(
    current: ColumnTypes,
    incoming: ColumnTypes,
    *,
    allow_widening: bool,
    explicit: Collection[str] = (),
) -> dict[str, str]:
    """The table's columns after an append of `incoming`: its own first, then the new ones.

    A narrower incoming type leaves the table's as it is; a wider one widens it where `allow_widening`, which
    is off for tables shared with the reference: to it, two names of types for one column are a conflict.
    Columns whose type is `explicit` keep it, and take in what converts.
    Raises `SchemaConflictError`, before anything is written, for types that don't join, for a refused
    widening, and for a new column that differs only by case from another.

    >>> evolve({"x": "INTEGER"}, {"y": "DATE", "x": "BIGINT"}, allow_widening=True)
    {'x': 'BIGINT', 'y': 'DATE'}
    """
    after = {name: parse(kind) for name, kind in current.items() if parse(kind) != NULL}
    spelled = {fold(name): name for name in after}
    for name, text in incoming.items():
        kind = parse(text)
        if kind == NULL:
            continue
        there = spelled.setdefault(fold(name), name)
        if there != name:
            raise SchemaConflictError(
                f"the column {name!r} differs from {there!r} only by case, and SQL can't tell them apart: "
                f"rename it to {there!r}, or to something else"
            )
        before = after.get(name)
        joined = kind if before is None else _join(before, kind)
        if before is not None and joined != before and name in explicit and converts(str(kind), str(before)):
            joined = before
        if joined is None:
            raise SchemaConflictError(
                f"column {name!r} is {before} in the table and {kind} in the data, and no type holds the "
                "values of both exactly: cast the data, or append it under another column name"
            )
        if before is not None and joined != before and not allow_widening:
            raise SchemaConflictError(
                f"column {name!r} is {before} in the table and {kind} in the data, and a table that is "
                f"shared with the reference can't be widened to {joined}: cast the data to {before}"
            )
        after[name] = joined
    return {name: str(kind) for name, kind in after.items()}


_SIGNED = {name: rank for rank, name in enumerate(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"))}
_UNSIGNED = {name: rank for rank, name in enumerate(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"))}
# An unsigned type asks for the digits of the signed one that holds it. With fewer (3 for UTINYINT),
# UINTEGER and INTEGER would have two least upper bounds, BIGINT and DECIMAL(10,0).
_DIGITS = dict(zip((*_SIGNED, *_UNSIGNED), (3, 5, 10, 19, 39, 5, 10, 19, 20), strict=True))
_FLOATS = ("FLOAT", "DOUBLE")
_CHAINS = (("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP"), ("TIME", "TIME_NS"))
_TEXTS = ("VARCHAR", "JSON", "UUID")
_DOUBLE, _HUGEINT, _VARCHAR = Scalar("DOUBLE"), Scalar("HUGEINT"), Scalar("VARCHAR")


def _join(a: Type, b: Type) -> Type | None:
    if a == b:
        return a
    if NULL in (a, b):
        return b if a == NULL else a
    if isinstance(a, List) and isinstance(b, List):
        item = _join(a.item, b.item)
        return None if item is None else List(item, a.size if a.size == b.size else None)
    if isinstance(a, Map) and isinstance(b, Map):
        key, value = _join(a.key, b.key), _join(a.value, b.value)
        return None if key is None or value is None else Map(key, value)
    if isinstance(a, Struct) and isinstance(b, Struct):
        return _join_structs(a, b, _join)
    if _is_number(a) and _is_number(b):
        return _join_numbers(a, b)
    if _is_text(a) and _is_text(b):
        return _VARCHAR
    for chain in _CHAINS:
        if str(a) in chain and str(b) in chain:
            return Scalar(chain[max(chain.index(str(a)), chain.index(str(b)))])
    return None


def _join_loose(a: Type, b: Type) -> Type:
    joined = _join(a, b)
    if joined is not None:
        return joined
    if isinstance(a, List) and isinstance(b, List):
        return List(_join_loose(a.item, b.item), a.size if a.size == b.size else None)
    if isinstance(a, Map) and isinstance(b, Map):
        key = _join(a.key, b.key)  # two keys may become one by rounding: never loosely
        return _VARCHAR if key is None else Map(key, _join_loose(a.value, b.value))
    if isinstance(a, Struct) and isinstance(b, Struct):
        return _join_structs(a, b, _join_loose) or _VARCHAR
    return _DOUBLE if _is_number(a) and _is_number(b) else _VARCHAR


def _join_structs(a: Struct, b: Struct, join: Callable[[Type, Type], Type | None]) -> Struct | None:
    fields: dict[str, tuple[str, Type]] = {fold(name): (name, kind) for name, kind in a.fields}
    for name, kind in b.fields:
        spelling, before = fields.get(fold(name), (name, NULL))
        joined = join(before, kind)
        if joined is None:
            return None
        fields[fold(name)] = (spelling, joined)
    return Struct(tuple(fields.values()))


def _is_number(kind: Type) -> bool:
    return isinstance(kind, Decimal) or str(kind) in _DIGITS or str(kind) in _FLOATS


def _is_text(kind: Type) -> bool:
    return isinstance(kind, Enum) or str(kind) in _TEXTS


def _join_numbers(a: Type, b: Type) -> Type | None:
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return _decimal(a, b.precision - b.scale, b.scale)
    if isinstance(b, Decimal):
        a, b = b, a
    if isinstance(a, Decimal):
        if b == _HUGEINT:
            return _HUGEINT if a.scale == 0 else None
        return _decimal(a, _DIGITS[str(b)], 0) if str(b) in _DIGITS else None
    if str(a) in _FLOATS or str(b) in _FLOATS:
        exact = all(str(kind) in _FLOATS or _DIGITS[str(kind)] <= 10 for kind in (a, b))
        return _DOUBLE if exact else None
    return _join_integers(str(a), str(b))


def _decimal(a: Decimal, digits: int, scale: int) -> Decimal | None:
    scale = max(a.scale, scale)
    precision = max(a.precision - a.scale, digits) + scale
    return Decimal(precision, scale) if precision <= 38 else None


def _join_integers(a: str, b: str) -> Type:
    ranks: Mapping[str, int]
    for ranks in (_SIGNED, _UNSIGNED):
        if a in ranks and b in ranks:
            return Scalar(max(a, b, key=ranks.__getitem__))
    signed, unsigned = (a, b) if a in _SIGNED else (b, a)
    if unsigned == "UBIGINT":
        return _HUGEINT if signed == "HUGEINT" else Decimal(20, 0)
    rank = max(_SIGNED[signed], _UNSIGNED[unsigned] + 1)
    return Scalar(next(name for name, at in _SIGNED.items() if at == rank))


_TIMES = {"TIMESTAMP", "TIMESTAMP WITH TIME ZONE"}

_INTEGERS = frozenset(
    f"{sign}{size}" for sign in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
)


def is_cast(has: str, wanted: str) -> bool:
    """Whether SQL's INSERT casts a value to its column's type, rather than widen the column as `append` does.

    Literals and sums are wider integers than columns, or decimals; texts are how SQL writes dates; now() has a zone.

    >>> is_cast("HUGEINT", "BIGINT"), is_cast("VARCHAR", "DATE"), is_cast("DOUBLE", "BIGINT")
    (True, True, False)
    """
    return has != wanted and _casts(parse(has), parse(wanted))


def _casts(has: Type, wanted: Type) -> bool:
    """Whether the types are the same, or values of one are cast to the other; nested ones part by part."""
    if isinstance(has, List) and isinstance(wanted, List):
        return _casts(has.item, wanted.item)
    if isinstance(has, Map) and isinstance(wanted, Map):
        return _casts(has.key, wanted.key) and _casts(has.value, wanted.value)
    if isinstance(has, Struct) and isinstance(wanted, Struct):
        parts = {fold(name): kind for name, kind in wanted.fields}
        same = parts.keys() == {fold(name) for name, _ in has.fields}
        return same and all(_casts(kind, parts[fold(name)]) for name, kind in has.fields)
    return has == wanted or _is_leaf_cast(str(has), str(wanted))


def _is_leaf_cast(has: str, wanted: str) -> bool:
    pair = {has, wanted}
    if pair <= _INTEGERS or pair & {"VARCHAR", '"NULL"'} or pair == _TIMES:
        return True
    exact = has in _INTEGERS or has.startswith("DECIMAL")
    return (exact and wanted in ("FLOAT", "DOUBLE")) or (has in _INTEGERS and wanted.startswith("DECIMAL"))
