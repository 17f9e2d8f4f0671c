"""Predicates that mean the same to DuckDB and to Spark.

`where` is DuckDB's SQL, wherever it is evaluated: a scan must not return other rows than a delete by the same
predicate removes. The engines agree on comparisons of columns with literals of their own kind; on much else
(functions, arithmetic, casts of values, single floats against decimals) they don't, or not in every session.
Such a predicate is left to tasks, which ask DuckDB.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firn.journal.model import ColumnTypes
from firn.predicate.domain import family_of
from firn.predicate.predicate import Predicate
from firn.predicate.pushdown import suits
from firn.predicate.trees import COMPARISONS, exp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UTC = frozenset(("UTC", "Etc/UTC", "GMT", "Z", "+00:00", "Etc/GMT", "UCT", "Zulu"))
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_ISO_TIME = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?)?")


def runs_in_spark(predicate: Predicate, known: ColumnTypes, spark: SparkSession) -> bool:
    """Whether Spark's answer to a predicate is DuckDB's. It compares instants in the session's time zone."""
    zoned = any("TIME ZONE" in known[name] for name in predicate.columns)
    if zoned and spark.conf.get("spark.sql.session.timeZone", "") not in _UTC:
        return False
    return engines_agree(predicate.ast, known)


def engines_agree(tree: exp.Expression, columns: ColumnTypes) -> bool:
    """Whether Spark, asked for this predicate in its own words, finds the rows that DuckDB does.

    >>> from firn.predicate.predicate import Predicate
    >>> columns = {"origin": "VARCHAR", "delay": "BIGINT"}
    >>> engines_agree(Predicate.parse("origin = 'DTW' AND NOT delay > 60", columns).ast, columns)
    True
    >>> engines_agree(Predicate.parse("delay // 60 > 1", columns).ast, columns)
    False
    """
    if isinstance(tree, (exp.Paren, exp.Not)):
        return engines_agree(tree.this, columns)
    if isinstance(tree, (exp.And, exp.Or)):
        return engines_agree(tree.left, columns) and engines_agree(tree.right, columns)
    if isinstance(tree, exp.Boolean):
        return True
    if isinstance(tree, exp.Column):
        return _kind(tree, columns) == "BOOLEAN"
    if isinstance(tree, exp.Is):
        return isinstance(tree.expression, exp.Null) and _kind(tree.this, columns) is not None
    if tree.key in COMPARISONS:
        left, right = tree.left, tree.right
        if isinstance(right, exp.Column):
            left, right = right, left
        return _comparable(left, [right], columns)
    if isinstance(tree, exp.In):
        plain = not any(tree.args.get(key) for key in ("query", "unnest", "field"))
        return plain and _comparable(tree.this, tree.expressions, columns)
    if isinstance(tree, exp.Between):
        return _comparable(tree.this, [tree.args["low"], tree.args["high"]], columns)
    return False


def _kind(node: exp.Expression, columns: ColumnTypes) -> str | None:
    """The type of a plain column; None for anything else, fields of structs too."""
    if not isinstance(node, exp.Column) or len(node.parts) != 1:
        return None
    return columns.get(node.name)


def _comparable(column: exp.Expression, values: list[exp.Expression], columns: ColumnTypes) -> bool:
    kind = _kind(column, columns)
    if kind is None or kind == "FLOAT":
        return False  # DuckDB rounds a decimal literal to a single float, Spark makes both doubles
    family = family_of(kind)
    return family not in ("other", "time") and all(
        suits(value, family) or _is_iso(value, family) for value in values
    )


def _is_iso(value: exp.Expression, family: str) -> bool:
    if not isinstance(value, exp.Literal) or not value.is_string:
        return False
    pattern = {"date": _ISO_DATE, "timestamp": _ISO_TIME, "timestamptz": _ISO_TIME}.get(family)
    return pattern is not None and pattern.fullmatch(value.name) is not None
