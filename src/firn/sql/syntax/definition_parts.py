"""Parts of definitions, which CREATE TABLE and ALTER TABLE have in common: columns, options, sort orders."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, NamedTuple

from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.typenames import quoted
from firn.names import fold
from firn.predicate.select import shown
from firn.predicate.words import WordReader, words
from firn.sql.syntax.row_heads import value_of
from firn.sql.syntax.time_travel import constant


class NewColumn(NamedTuple):
    """`given` is its type, or the type and a default, as `alter(add=…)` takes it."""

    name: str
    given: str | tuple[str, Any]
    comment: str | None = None


def options(r: WordReader) -> dict[str, Any]:
    """Values by name in a bracket."""
    r.expect("(")
    found: dict[str, Any] = {}
    while True:
        at, name = r.at, option_name(r)
        if fold(name) in map(fold, found):
            raise twice(r, at, repr(name))
        r.expect("=")
        found[name] = value_of(r.span(","), r)
        if not r.take(","):
            break
    r.expect(")")
    return found


def sort_part(text: str) -> str:
    """A part of a sort order as verbs take it: a column, and its direction."""
    r = WordReader(text)
    if r.peek()[:1] not in ('"', "`"):
        return text
    name = r.name()
    return f"{name} {r.rest()}" if not r.ended else name


def new_column(r: WordReader) -> NewColumn:
    """`c TYPE [DEFAULT literal] [COMMENT 'text']`.

    Raises:
        InvalidInputError: something else.
        UnsupportedError: what columns don't have; the message says what to write instead.
    """
    at, name = r.at, r.name()
    if r.peek() == ".":
        raise refused(r, at, "fields inside of structs can't be added: write the struct's column anew.")
    if r.peek() in ("", ",", ")", *_BEHIND_TYPE):
        raise r.error("a type should stand here")
    kind = r.span(",", *_BEHIND_TYPE)
    default = comment = None
    while not r.ended and r.peek() not in (",", ")"):
        at, word = r.at, r.peek()
        if default is None and r.take("DEFAULT"):
            default = _default(r)
        elif comment is None and r.take("COMMENT"):
            comment = text_or_null(r)
        elif r.take("NOT", "NULL"):
            raise refused(r, at, not_null_as_check(name))
        elif word == "CHECK":
            raise refused(r, at, "a check has a name: write ADD CONSTRAINT name CHECK (…) beside it.")
        elif word in ("FIRST", "AFTER"):
            raise refused(r, at, "a new column comes last: leave this out, and name columns in queries.")
        elif word in _BEHIND_TYPE and word not in ("DEFAULT", "COMMENT", "NULL"):
            raise refused(r, at, f"a new column can't be {word}: nobody would enforce it.")
        elif not r.take("NULL"):
            raise r.error("DEFAULT, COMMENT or a comma should stand here")
    return NewColumn(name, kind if default is None else (kind, default), comment)


_BEHIND_TYPE = (
    "DEFAULT", "COMMENT", "NOT", "NULL", "CHECK", "UNIQUE", "PRIMARY", "REFERENCES", "GENERATED", "COLLATE",
    "CONSTRAINT", "FIRST", "AFTER", "USING",
)  # fmt: skip


def _default(r: WordReader) -> Any:
    """A default: a number, a truth value, or else text, which the verb casts to the column's type."""
    if r.peek() == "NULL":
        raise r.error("a value should stand here (leave DEFAULT out for NULL)")
    text = r.span(",", *_BEHIND_TYPE)
    if text[:1] in ("?", "$"):
        return ""  # the value isn't there yet
    if _calls(text):
        raise InvalidInputError(
            f"the statement {shown(r.text)}: the default {shown(text)} isn't a literal: a number, a text in single "
            "quotes, true, false, or a literal of a type, like DATE '2026-01-31'."
        )
    value = value_of(text, r)
    if isinstance(value, float):
        is_all = _number(text) in (None, Decimal(repr(value)))
        return value if is_all else text  # more digits than a float has
    if value is None:
        raise InvalidInputError(
            f"the statement {shown(r.text)}: the default {shown(text)} is NULL, as it is anyway. Leave DEFAULT out."
        )
    return value if isinstance(value, (bool, int, str)) else constant(f"CAST(({text}) AS VARCHAR)", "default")


def _calls(text: str) -> bool:
    """Whether an expression has functions, whose value would be another one each time."""
    each = ["", *(word.key for word in words(text)), ""]
    for before, word, after in zip(each, each[1:], each[2:], strict=False):
        if word in _MOMENTS or (
            after == "(" and word.isidentifier() and word not in _LITERALS and before not in ("AS", "::")
        ):
            return True
    return False


_LITERALS = ("CAST", "TRY_CAST", "FROM_HEX", "TO_MICROSECONDS")
"""What parameters become."""

_MOMENTS = ("CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_TIME", "LOCALTIMESTAMP", "LOCALTIME")


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except ArithmeticError:
        return None


def text_or_null(r: WordReader) -> str | None:
    """A text in quotes, or NULL."""
    if r.take("NULL"):
        return None
    if r.peek()[:1] in ("?", "$"):  # a parameter, whose value isn't there yet
        r.span(",")
        return None
    if r.is_foreign and "\\" in r.peek():
        raise r.error("a text without backslashes, which other SQL reads differently, should stand here")
    return r.string()


def not_null_as_check(column: str) -> str:
    check = f"ADD CONSTRAINT {quoted(column + '_there')} CHECK ({quoted(column)} IS NOT NULL)"
    return f"a column's type has no NOT NULL. Write {check}, and DROP CONSTRAINT to take it back."


def option_name(r: WordReader) -> str:
    name = r.name() if r.peek()[:1] != "'" else r.string()
    while r.take("."):
        name += "." + r.name()
    return name


def refused(r: WordReader, at: int, reason: str) -> UnsupportedError:
    return UnsupportedError(f"the statement {shown(r.text)} ({r.place(at)}): {reason}")


def twice(r: WordReader, at: int, what: str) -> InvalidInputError:
    return InvalidInputError(
        f"the statement {shown(r.text)} ({r.place(at)}): {what} stands twice. Say each thing once."
    )
