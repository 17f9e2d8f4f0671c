"""INSERT … VALUES: each value is cast to its column's type by itself, as DuckDB does.

As a query of its own, a list of values has one type a column for all rows: 1 beside 2.50 would be 1.00 in a column of
text, and 'nan' beside 1.5 an error in one of doubles.
"""

from __future__ import annotations

from collections.abc import Sequence

from firn.errors import InvalidInputError
from firn.journal.columns import is_cast
from firn.predicate.domain import family_of
from firn.predicate.words import WordReader
from firn.sql.kinds.kind import SourceRows, Target
from firn.sql.syntax.statements import Insert


def inserted_rows(target: Target, statement: Insert) -> SourceRows:
    """The rows of an INSERT in DuckDB's SQL. Cost: a list that has to be cast is bound two or three times.

    Raises:
        InvalidInputError: as of a query.
    """
    names = [target.column(name) for name in statement.columns] or list(target.columns)
    kinds = [target.columns.get(name) for name in names]
    rows = None if statement.by_name else value_rows(statement.query)
    if rows is None or any(len(row) != len(kinds) for row in rows):
        return target.source(statement.query)
    try:
        source = target.source(statement.query)
    except InvalidInputError:
        own = _own_kinds(target, rows, kinds)
        if not any(own):
            raise
        return target.source(cast_rows(rows, own))
    own = [
        kind if kind is not None and _is_changed(has, kind) else None
        for has, kind in zip(source.columns.values(), kinds, strict=True)
    ]
    return target.source(cast_rows(rows, own)) if any(own) and len(rows) > 1 else source


def _own_kinds(
    target: Target, rows: Sequence[Sequence[str]], kinds: Sequence[str | None]
) -> list[str | None]:
    """The types of the columns to which each of their values is cast, whatever the others are; None for the other
    columns, which a value may widen."""
    each = target.source(f"VALUES ({', '.join(value for row in rows for value in row)})")
    found = list(each.columns.values())
    return [
        kind
        if kind is not None and all(has == kind or is_cast(has, kind) for has in found[at :: len(kinds)])
        else None
        for at, kind in enumerate(kinds)
    ]


def value_rows(query: str) -> list[list[str]] | None:
    """The texts of the values in a list of values; None for another query.

    >>> value_rows("VALUES (1, f(2, 3)), ('a', (4))"), value_rows("VALUES (1) LIMIT 1"), value_rows("SELECT 1")
    ([['1', 'f(2, 3)'], ["'a'", '(4)']], None, None)
    """
    words = WordReader(query)
    if not words.take("VALUES"):
        return None
    try:
        rows = [words.spans()]
        while words.take(","):
            rows.append(words.spans())
    except InvalidInputError:  # DuckDB says what is wrong with it
        return None
    return rows if words.ended else None


def cast_rows(rows: Sequence[Sequence[str]], kinds: Sequence[str | None]) -> str:
    """A list of values, each cast to its column's type where there is one.

    >>> print(cast_rows([["1", "2.50"]], [None, "VARCHAR"]))
    VALUES (1, CAST(2.50
    AS VARCHAR))
    """
    texts = [
        ", ".join(
            value if kind is None else f"CAST({value}\nAS {kind})"
            for value, kind in zip(row, kinds, strict=True)
        )
        for row in rows
    ]
    return f"VALUES {', '.join(f'({text})' for text in texts)}"


def _is_changed(has: str, kind: str) -> bool:
    """Whether a value may be another one in the type that all rows have, before it is cast to its column's."""
    return is_cast(has, kind) and family_of(has) not in ("integer", "string")
