"""sqlglot's classes of trees, loaded when a predicate, or a query with conditions, is first looked into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from firn.deferred import DeferredModule

if TYPE_CHECKING:
    from sqlglot import exp as exp
else:
    exp = DeferredModule("sqlglot.expressions")

COMPARISONS: Final[Mapping[str, str]] = {
    "eq": "=",
    "neq": "<>",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
}
"""The operators of comparisons, by the `key` of sqlglot's class."""
