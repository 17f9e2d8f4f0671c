"""The clauses of a MERGE: which rows, and what is done with them. Readers of statements need no more of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from firn.errors import InvalidInputError
from firn.names import fold

When = Literal["matched", "not matched", "not matched by source"]
Action = Literal["update", "insert", "delete", "nothing", "error"]


@dataclass(frozen=True)
class MergeClause:
    """One WHEN of a merge: which rows, and what is done with them.

    Args:
        when: "matched": a pair of a target row and a source row; "not matched": a source row without a target row;
            "not matched by source": a target row without a source row.
        action: "update" and "delete" the target row, "insert" the source row, do "nothing", or raise an "error".
        condition: an expression; the first clause whose condition is true counts, and null isn't true.
        values: expressions by column of the target; None takes all columns from the source, by name.

    Example:
        >>> MergeClause("matched", "update", "s.at > t.at", {"n": "t.n + s.n"}).action
        'update'
    """

    when: When
    action: Action
    condition: str | None = None
    values: Mapping[str, str] | None = None

    def check(self) -> None:
        """Raise `InvalidInputError` for an action that rows of this sort can't have."""
        actions = _ACTIONS.get(self.when)
        if actions is None:
            raise InvalidInputError(f"when={self.when!r}: a merge knows {', '.join(map(repr, _ACTIONS))}.")
        if self.action not in actions:
            raise InvalidInputError(
                f"a clause of a merge can't {self.action!r} when {self.when}; it can {', '.join(map(repr, actions))}."
            )


_ACTIONS: dict[str, tuple[str, ...]] = {
    "matched": ("update", "delete", "nothing", "error"),
    "not matched": ("insert", "nothing", "error"),
    "not matched by source": ("update", "delete", "nothing", "error"),
}


def clauses_of(
    matched: str | Mapping[str, str] | None,
    not_matched: str | Mapping[str, str] | None,
    not_matched_by_source: str | Mapping[str, str] | None,
) -> list[MergeClause]:
    """Clauses by what happens to each sort of rows; values by column mean an update, or an insert."""
    found = []
    allowed: tuple[tuple[When, Any, Action, tuple[str, ...]], ...] = (
        ("matched", matched, "update", ("update", "delete")),
        ("not matched", not_matched, "insert", ("insert",)),
        ("not matched by source", not_matched_by_source, "update", ("delete",)),
    )
    for when, given, action, words in allowed:
        if isinstance(given, Mapping):
            found.append(MergeClause(when, action, values=given))
        elif given is not None:
            if given not in words:
                raise InvalidInputError(
                    f"when {when}: {given!r} isn't {' or '.join(map(repr, words))}, nor expressions by column."
                )
            found.append(MergeClause(when, cast("Action", given)))
    if not found:
        raise InvalidInputError(
            "a merge needs a clause: when_matched=, when_not_matched= or when_not_matched_by_source=."
        )
    return found


def named_columns(texts: Iterable[str], columns: Iterable[str], table: str) -> list[str]:
    """Those of a table's columns that expressions may read, by any name that stands in them; all of them where the
    parser can't tell. `table` is what they call the table."""
    from sqlglot import exp

    from firn.predicate.dialect import parse

    named: set[str] = set()
    for text in texts:
        try:
            tree = parse(text, "expression", into=exp.Condition)
        except InvalidInputError:
            return list(columns)
        whole_row = any(
            len(node.parts) == 1 and fold(node.name) == fold(table) for node in tree.find_all(exp.Column)
        )
        if whole_row or tree.find(exp.Star, exp.Columns):
            return list(columns)
        named |= {fold(node.name) for node in tree.find_all(exp.Identifier)}
    return [name for name in columns if fold(name) in named]
