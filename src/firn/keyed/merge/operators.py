"""Merge operators: what a key's value becomes when operands are merged onto it.

Built in are "add", "max", "min", "append" and "json_merge"; on typed rows they work column by column. A
"module:function" names one of the user's own, marked with `merge_operator`, so that other processes find it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, overload

from firn.keyed.encoding.values import Values
from firn.keyed.merge.builtin_operators import by_column, resolve

Spec = str | Mapping[str, str]
"""What `create_table(merge_operator=…)` takes: an operator's name, or names by value column."""

F = TypeVar("F", bound=Callable[..., Any])


class Operator(Protocol):
    """Merges operands in their stored form.

    `compact`: a result is no larger than its operands, so merging early never costs memory.
    """

    compact: bool

    def check(self, stored: object) -> None:
        """`InvalidInputError` where a put or merge of this value would make the key unreadable."""

    def merge(self, base: object, operands: Sequence[object]) -> object:
        """The value that operands, oldest first, make of `base`; of nothing where that is None."""

    def combine(self, operands: Sequence[object]) -> object:
        """One operand that does what these do, oldest first; None where none does."""


@overload
def merge_operator(function: F) -> F: ...
@overload
def merge_operator(*, associative: bool) -> Callable[[F], F]: ...
def merge_operator(function: F | None = None, *, associative: bool = True) -> F | Callable[[F], F]:
    """Mark a function of one's own as a merge operator.

    It is called with the value so far (bytes or a dict; None for nothing) and one operand, and returns the value.
    Only marked functions can be named by a table: its definition lies in the bucket, and a process that writes there
    shouldn't choose which of a program's functions are called.

    Args:
        associative: operands may be merged among themselves, the older one as the value so far, before what they
            stand on is known.

    >>> @merge_operator
    ... def longest(value, operand):
    ...     return operand if value is None or len(operand) > len(value) else value
    >>> longest(b"a", b"bc")
    b'bc'
    """

    def mark(marked: F) -> F:
        marked.__firn_merge__ = associative  # type: ignore[attr-defined]
        return marked

    return mark if function is None else mark(function)


def operator_of(merge: Spec | None, values: Values) -> Operator | None:
    """The operator of a table, by what it was created with; None for none.

    Args:
        merge: "add", "max", "min", "append", "json_merge", "module:function" of a marked function, or a mapping of
            value columns to these; columns that a mapping leaves out keep the newest value that isn't null.

    Raises:
        InvalidInputError: no such operator, or one that doesn't go with the values.
    """
    return None if merge is None else resolve(merge, values)


def suited(merge: str, values: Values) -> dict[str, str]:
    """The value columns that a built-in operator suits, with its name.

    >>> suited("add", Values({"flights": "BIGINT", "city": "VARCHAR"}))
    {'flights': 'add'}
    """
    return {name: merge for name, operator in by_column(merge, values).items() if operator is not None}
