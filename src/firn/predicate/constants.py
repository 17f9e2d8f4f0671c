"""Constants in predicates: literals as they stand, other expressions without columns as DuckDB sees them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from firn.predicate import binder
from firn.predicate.dialect import to_duckdb
from firn.predicate.domain import DAY, Constant, read_time
from firn.predicate.trees import exp


def constant_of(node: exp.Expression) -> Constant | None:
    """The constant that a node is; None for what isn't one, for null, and for what has no plain order."""
    if isinstance(node, exp.Paren):
        return constant_of(node.this)
    if isinstance(node, exp.Literal):
        return Constant("text", node.name) if node.is_string else _number(node.name)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        found = _number(node.this.name)
        return None if found is None else Constant(found.kind, -found.value)
    if isinstance(node, exp.Boolean):
        return Constant("boolean", bool(node.this))
    if node.find(exp.Column, exp.Identifier, exp.Collate) is not None:
        return None  # under a collation a text equals others, too
    scalar = binder.constant(to_duckdb(node))
    return None if scalar is None or not scalar.is_valid else _typed(scalar, _is_zoned(node))


def _number(text: str) -> Constant | None:
    """As DuckDB types it: an integer, with a point a decimal, with an exponent a double."""
    try:
        if "e" in text.lower():
            return Constant("double", float(text))
        return Constant("decimal", Decimal(text)) if "." in text else Constant("integer", int(text))
    except (ValueError, ArithmeticError):
        return None


def _typed(scalar: pa.Scalar, zoned: bool) -> Constant | None:
    kind = scalar.type
    if pt.is_boolean(kind):
        return Constant("boolean", scalar.as_py())
    if pt.is_integer(kind):
        return Constant("integer", scalar.as_py())
    if pt.is_floating(kind):
        return Constant("double" if pt.is_float64(kind) else "single", scalar.as_py())
    if pt.is_decimal(kind):
        return Constant("decimal", scalar.as_py())
    if pt.is_string(kind) or pt.is_large_string(kind):
        return Constant("string", scalar.as_py())
    if pt.is_binary(kind):
        return Constant("binary", scalar.as_py())
    if pt.is_date32(kind):
        return Constant("date", scalar.cast(pa.int32()).as_py() * DAY)
    if pt.is_timestamp(kind):
        value = _microseconds(scalar.cast(pa.int64()).as_py(), kind.unit)
        if value is None:
            return None
        return Constant("timestamp", value) if kind.tz is None else Constant("timestamptz", value, zoned)
    if pt.is_time64(kind):
        value = _microseconds(scalar.cast(pa.int64()).as_py(), kind.unit)
        return None if value is None else Constant("time", value)
    return None


def _microseconds(count: Any, unit: str) -> int | None:
    if unit == "ns":
        return None if count % 1000 else int(count) // 1000
    return int(count) * {"s": 1_000_000, "ms": 1000, "us": 1}[unit]


def _is_zoned(node: exp.Expression) -> bool:
    """Whether a timestamp names its own offset, so that it is the same moment in every session."""
    if not isinstance(node, exp.Cast) or not isinstance(node.this, exp.Literal):
        return False
    found = read_time(node.this.name)
    return found is not None and found.zone
