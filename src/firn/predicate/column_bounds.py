"""Bounds that a predicate sets on single columns: values, the least and the greatest, what text begins with.

A term that isn't understood (an OR, a function) bounds nothing. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

from firn.journal.model import ColumnTypes
from firn.predicate.constants import constant_of
from firn.predicate.domain import DAY, Interval, family_of, intervals
from firn.predicate.predicate import Predicate, conjuncts
from firn.predicate.trees import exp

_EPOCH = datetime(1970, 1, 1)
_MIRRORED = {"lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte", "eq": "eq"}


class Test(NamedTuple):
    """One conjunct over one column: it is one of `points`, or from `low` to `high` (None: unbounded), or text that
    begins with `prefix`."""

    column: str
    points: tuple[Any, ...] | None = None
    low: Any = None
    high: Any = None
    prefix: str | None = None


def tests_of(predicate: Predicate, columns: ColumnTypes) -> Iterator[Test]:
    for tree in conjuncts(predicate.ast):
        found = _test(tree, columns)
        if found is not None:
            yield found


def _test(node: exp.Expression, columns: ColumnTypes) -> Test | None:
    if node.key in _MIRRORED:
        kind = node.key
        column, value = _column(node.this, columns), node.expression
        if column is None:
            column, value, kind = _column(node.expression, columns), node.this, _MIRRORED[kind]
        placed = None if column is None else _placed([value], columns[column])
        if column is None or placed is None:
            return None
        if kind in ("lt", "lte"):
            return Test(column, high=_value(placed[0].high, columns[column], math.floor))
        if kind in ("gt", "gte"):
            return Test(column, low=_value(placed[0].low, columns[column], math.ceil))
        return _equal(column, placed, columns[column])
    column = _column(node.this, columns) if isinstance(node.this, exp.Expression) else None
    if column is None:
        return None
    if isinstance(node, exp.In) and not any(node.args.get(key) for key in ("query", "unnest", "field")):
        placed = _placed(node.expressions, columns[column])
        return None if placed is None else _equal(column, placed, columns[column])
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        placed = _placed([node.args["low"], node.args["high"]], columns[column])
        if placed is None:
            return None
        low = _value(placed[0].low, columns[column], math.ceil)
        return Test(column, low=low, high=_value(placed[1].high, columns[column], math.floor))
    if isinstance(node, (exp.Like, exp.StartsWith)) and columns[column] == "VARCHAR":
        return _beginning(node, column)
    return None


def _column(node: exp.Expression, columns: ColumnTypes) -> str | None:
    node = node.unnest()
    if isinstance(node, exp.Column) and len(node.parts) == 1 and node.name in columns:
        return str(node.name)
    return None


def _placed(values: Sequence[exp.Expression], kind: str) -> list[Interval] | None:
    constants = [constant_of(value) for value in values]
    known = [constant for constant in constants if constant is not None]
    return intervals(known, kind) if known and len(known) == len(constants) else None


def _equal(column: str, placed: Sequence[Interval], kind: str) -> Test | None:
    """One of several values; a range around them where a cast may round one."""
    if all(one.low == one.high for one in placed):
        points = [_value(one.low, kind, None) for one in placed]
        if None not in points:
            return Test(column, points=tuple(dict.fromkeys(points)))
    low = _value(min(one.low for one in placed), kind, math.ceil)
    return Test(column, low=low, high=_value(max(one.high for one in placed), kind, math.floor))


def _beginning(node: exp.Expression, column: str) -> Test | None:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or node.args.get("negate"):
        return None
    if isinstance(node, exp.StartsWith):
        return Test(column, prefix=pattern.name)
    text = pattern.name
    if "\\" in text:
        return None
    ends = [at for at in (text.find("%"), text.find("_")) if at >= 0]
    return Test(column, prefix=text[: min(ends)]) if ends else Test(column, points=(text,))


def _value(value: Any, kind: str, rounded: Any) -> Any:
    """A value of the domain as a key has it; None where there is no such, which bounds nothing."""
    family = family_of(kind)
    if family == "integer" and isinstance(value, (int, float)) and not isinstance(value, bool):
        if isinstance(value, float):
            return rounded(value) if rounded is not None and math.isfinite(value) else None
        return value
    if family in ("string", "binary", "boolean"):
        return value
    if family == "decimal" and isinstance(value, Decimal):
        return value
    if family in ("date", "timestamp", "timestamptz"):
        try:
            if family == "date":
                if value % DAY and rounded is None:
                    return None
                return date(1970, 1, 1) + timedelta(
                    days=value // DAY + (rounded is math.ceil and value % DAY > 0)
                )
            moment = _EPOCH + timedelta(microseconds=value)
        except OverflowError:
            return None
        return moment if family == "timestamp" else moment.replace(tzinfo=timezone.utc)
    return None


def points_of(tests: Sequence[Test]) -> tuple[Any, ...] | None:
    """The values that a column may have, if its tests name them."""
    found: tuple[Any, ...] | None = None
    for test in tests:
        if test.points is not None:
            found = test.points if found is None else tuple(p for p in found if p in test.points)
    return found
