"""Values of parameters as literals in the text of a statement, each in its type."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

from firn.errors import InvalidInputError
from firn.journal.typenames import quoted
from firn.predicate.select import shown
from firn.predicate.words import Word, words


def plain(value: Any) -> Any:
    """A parameter as Python's own types have it; those of numpy are others.

    >>> import numpy
    >>> plain({"n": numpy.int64(5), "many": numpy.array([1.5])})
    {'n': 5, 'many': [1.5]}
    """
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if type(value).__name__ in ("NaTType", "NAType"):  # of pandas
        return None
    if type(value).__module__ != "numpy" or not hasattr(value, "dtype"):
        return value
    if "[ns]" in str(value.dtype):  # Python's times have microseconds
        value = value.astype(f"{value.dtype.kind}8[us]")
    return value.tolist()


def with_values(
    text: str,
    parameters: Sequence[Any] | Mapping[str, Any] | None,
    each: Sequence[Word] | None = None,
) -> str:
    """The text with each `?`, `$1` and `$name` replaced by its value. `each` are its words, by default those of
    DuckDB's SQL.

    Raises:
        InvalidInputError: a parameter without a value, a value without a parameter, or one of no SQL type.
    """
    if parameters is None:
        parameters = ()
    given = dict(parameters) if isinstance(parameters, Mapping) else dict(enumerate(parameters, 1))
    used: set[Any] = set()
    pieces = []
    at = asked = 0
    for word in _marks(words(text) if each is None else each):
        asked += word.text == "?"
        name: Any = asked if word.text == "?" else word.text[1:]
        if not isinstance(parameters, Mapping):
            name = int(name) if str(name).isdigit() else name
        if name not in given:
            raise InvalidInputError(
                f"the statement {shown(text)} has no value for its parameter {word.text}."
            )
        used.add(name)
        pieces += [text[at : word.start], literal(given[name])]
        at = word.end
    if unused := [name for name in given if name not in used]:
        raise InvalidInputError(
            f"the statement {shown(text)} has no parameter for the value of {unused[0]!r}."
        )
    return "".join([*pieces, text[at:]])


def names_in(text: str) -> set[str]:
    """The names of the parameters in a text.

    >>> sorted(names_in("SELECT $n, $many, '$no' -- $neither"))
    ['many', 'n']
    """
    return {word.text[1:] for word in _marks(words(text)) if word.text != "?"}


def _marks(each: Sequence[Word]) -> list[Word]:
    found = []
    for number, word in enumerate(each):
        if word.text == "?":
            found.append(word)
        elif word.text == "$" and number + 1 < len(each) and each[number + 1].start == word.end:
            after = each[number + 1]
            found.append(Word("$" + after.text, word.start, after.end))
        elif re.fullmatch(r"\$\w+", word.text):
            found.append(word)
    return found


def literal(value: Any) -> str:
    """A Python value as DuckDB's SQL; a time without a zone is UTC.

    >>> literal("it's"), literal([1, None]), literal(dt.date(2024, 2, 1))
    ("'it''s'", '[1, NULL]', "DATE '2024-02-01'")
    """
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"({value})" if value < 0 else str(value)
    if isinstance(value, float):
        word = repr(value) if math.isfinite(value) else str(value)
        return f"CAST('{word}' AS DOUBLE)"
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise InvalidInputError(f"{value!r} can't be a parameter: a DECIMAL is finite. Give a float.")
        scale = max(0, -int(value.as_tuple().exponent))
        digits = max(len(format(value, "f").lstrip("-").replace(".", "").lstrip("0")), scale)
        digits = max(digits, min(scale + 1, 38))  # one before the point, as a text of it has
        return f"CAST('{value:f}' AS DECIMAL({digits}, {scale}))"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"from_hex('{bytes(value).hex()}')"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
        return f"{kind} '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, dt.time):
        return f"{'TIME' if value.tzinfo is None else 'TIMETZ'} '{value.isoformat()}'"
    if isinstance(value, dt.timedelta):
        rest = value - dt.timedelta(value.days)  # DuckDB keeps days apart, as 24 hours needn't be one
        return f"(to_days({value.days}) + to_microseconds({rest // dt.timedelta(microseconds=1)}))"
    if isinstance(value, UUID):
        return f"CAST('{value}' AS UUID)"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quoted(str(key))}: {literal(one)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(literal, value)) + "]"
    raise InvalidInputError(
        f"{type(value).__name__} can't be a parameter: give a number, a text, bytes, a date or time, a list or "
        "a dict."
    )
