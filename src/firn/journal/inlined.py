"""Rows that stand in a log, as JSON has them: what an append of few rows has instead of files.

Here they are plain values; `firn.arrow.json_columns` makes columns of them. See docs/design/0018-inlined-rows.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ROWS = "#rows"  # frozen
"""The end of the path under which the rows of a log are known. No object has such a key."""

_KEYS = frozenset(("n", "v"))


@dataclass(frozen=True, eq=False)
class InlinedRows:
    """Rows of one log, or of several alike: for each column of `columns` (physical name → DuckDB type name) the
    values of all `count` rows. `where` names the log, for errors. Picklable."""

    columns: Mapping[str, str]
    values: Sequence[Sequence[Any]]
    count: int
    where: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the log has it, beside its schema line."""
        return {"n": self.count, "v": self.values}

    @staticmethod
    def from_json(raw: Any, columns: Mapping[str, str], where: str) -> InlinedRows:
        """Raises `ValueError` for what isn't rows of these columns; whether values are of their types is seen when
        they are decoded."""
        if not isinstance(raw, dict) or raw.keys() != _KEYS:
            raise ValueError("its rows aren't an object of `n` and `v`")
        count, values = raw["n"], raw["v"]
        if type(count) is not int or count < 1 or not isinstance(values, list):
            raise ValueError("its rows have no count, or no values")
        if len(values) != len(columns):
            raise ValueError(f"its rows have {len(values)} columns, and its schema {len(columns)}")
        for name, column in zip(columns, values, strict=True):
            if not isinstance(column, list) or len(column) != count:
                raise ValueError(f"the column {name!r} of its rows hasn't {count} values")
        return InlinedRows(columns, values, count, where)


def joined(parts: Sequence[InlinedRows]) -> InlinedRows:
    """The rows of several parts with the same columns, one after the other."""
    first = parts[0]
    values = [[value for part in parts for value in part.values[at]] for at in range(len(first.columns))]
    where = f"one of {len(parts)} logs, the first of which is {first.where}"
    return InlinedRows(first.columns, values, sum(part.count for part in parts), where)
