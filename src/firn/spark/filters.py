"""Filters that Spark pushes to a data source, as a predicate in Firn's SQL.

Only what means the same to DuckDB and to Spark is taken: comparisons of plain columns with values of the
column's own type. Spark evaluates every filter again, so leaving one out costs time, never rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from firn.errors import FirnError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import Decimal as DecimalType
from firn.journal.typenames import parse
from firn.lake.predicate import Predicate

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_INTEGERS = frozenset(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"))

_COMPARISONS = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_TEXT_TESTS = {"StringStartsWith": "starts_with", "StringEndsWith": "suffix", "StringContains": "contains"}


def pushed_sql(filters: Sequence[Filter], columns: ColumnTypes) -> str | None:
    """The conjunction of the filters that are understood; None if none is."""
    parts = []
    for one in filters:
        sql = _sql(one, columns)
        if sql is not None and _binds(sql, columns):
            parts.append(sql)
    return " AND ".join(f"({part})" for part in parts) or None


def _binds(sql: str, columns: ColumnTypes) -> bool:
    try:
        Predicate.parse(sql, columns)
    except FirnError:
        return False
    return True


def _sql(one: Filter, columns: ColumnTypes) -> str | None:
    name = type(one).__name__
    if name == "Not":
        inner = _sql(one.child, columns)
        return None if inner is None else f"NOT ({inner})"
    path = one.attribute
    if len(path) != 1 or path[0] not in columns:
        return None
    column, kind = '"' + path[0].replace('"', '""') + '"', columns[path[0]]
    if name == "IsNull":
        return f"{column} IS NULL"
    if name == "IsNotNull":
        return f"{column} IS NOT NULL"
    if name in _COMPARISONS:
        value = literal(one.value, kind)
        return None if value is None else f"{column} {_COMPARISONS[name]} {value}"
    if name == "In":
        values = [literal(value, kind) for value in one.value if value is not None]
        if not values or None in values or len(values) < len(one.value):
            return None
        return f"{column} IN ({', '.join(value for value in values if value is not None)})"
    if name in _TEXT_TESTS and kind == "VARCHAR" and isinstance(one.value, str):
        return f"{_TEXT_TESTS[name]}({column}, {_quoted(one.value)})"
    return None


def literal(value: Any, kind: str) -> str | None:
    """A value as a DuckDB literal of a column's own type; None where the engines might not agree on it."""
    if kind == "BOOLEAN":
        return str(value).upper() if isinstance(value, bool) else None
    if kind in _INTEGERS:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(parse(kind), DecimalType):
        return f"CAST('{value}' AS {kind})" if isinstance(value, Decimal) and value.is_finite() else None
    if kind == "DOUBLE":
        finite = isinstance(value, float) and value == value and abs(value) != float("inf")
        return f"CAST('{value!r}' AS DOUBLE)" if finite else None
    if kind == "VARCHAR":
        return _quoted(value) if isinstance(value, str) and "\0" not in value else None
    if kind == "BLOB" and isinstance(value, (bytes, bytearray)):
        return "CAST('" + "".join(f"\\x{byte:02X}" for byte in value) + "' AS BLOB)"
    if kind == "DATE":
        plain = isinstance(value, date) and not isinstance(value, datetime)
        return f"DATE '{value.isoformat()}'" if plain else None
    if kind == "TIMESTAMP" and isinstance(value, datetime) and value.tzinfo is None:
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if kind == "TIMESTAMP WITH TIME ZONE" and isinstance(value, datetime) and value.tzinfo is not None:
        text = value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(sep=" ")
        return f"TIMESTAMPTZ '{text}+00'"
    return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
