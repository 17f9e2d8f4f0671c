"""Tables at older versions in the text of a query: each becomes a name of its own, which is pinned at that version.

`t AT (VERSION => v)` and `t AT (TIMESTAMP => e)` are DuckDB's words. `t VERSION AS OF v`, `t TIMESTAMP AS OF e` and
`t FOR SYSTEM_TIME AS OF e` are those of Spark and of the SQL standard. Both engines read all of them here.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from firn.errors import InvalidInputError
from firn.names import fold
from firn.predicate.binder import cursor
from firn.predicate.parameters import with_values
from firn.predicate.select import SCHEMAS, check_expression, shown
from firn.predicate.words import Word, words

Parameters = Sequence[Any] | Mapping[str, Any] | None


@dataclass(frozen=True)
class Past:
    """A table at an older version: a version's name, or a time."""

    table: str
    at: str | dt.datetime


Evaluate = Callable[[str], Any]
"""Gives the value of an expression."""


def time_travel(text: str, parameters: Parameters = None) -> tuple[str, dict[str, Past], Parameters]:
    """The text of a query for DuckDB without its versions, the tables that it reads at one by their new names, and
    the parameters that are left: none where versions are named, as the text then has their values."""
    if not _clauses(words(text)):
        return text, {}, parameters
    said = with_values(text, parameters)
    found, past = without_versions(said, words(said), '"', constant)
    return found, past, None


def without_versions(
    text: str, each: Sequence[Word], quote: str, evaluate: Evaluate
) -> tuple[str, dict[str, Past]]:
    """The text with a new name in each place that asks for a version, and what these names mean.

    Args:
        each: the words of the text, by the engine's tokenizer.
        quote: stands around the engine's names.

    Raises:
        InvalidInputError: a version that isn't a name or a number, or a time that isn't one.
    """
    pieces, at = [], 0
    past: dict[str, Past] = {}
    for clause in _clauses(each):
        table = each[clause.name]
        name = table.text.strip('"`')
        value = evaluate(text[each[clause.value[0]].start : each[clause.value[1] - 1].end])
        place = f"{name} AT ({clause.unit} => {value})"
        past[place] = Past(name, _version(text, clause.unit, value))
        alias = "" if clause.alias else f" AS {quote}{name}{quote}"
        renamed = quote + place.replace(quote, quote * 2) + quote
        begin = table.start
        if each[clause.name - 1].text == "." and fold(each[clause.name - 2].text) in SCHEMAS:
            begin = each[clause.name - 2].start
        between = text[table.end : each[clause.first].start]
        pieces += [text[at:begin], f"{renamed}{between}{alias}"]
        at = each[clause.end - 1].end
    return "".join([*pieces, text[at:]]), past


@dataclass(frozen=True)
class _Clause:
    """Places of words: the table's name, the clause's first and the one after its last, and the value's."""

    unit: str
    name: int
    first: int
    end: int
    value: tuple[int, int]
    alias: bool


def clause_end(each: Sequence[Word], at: int) -> int:
    """Where the words go on behind a clause that begins here; there, if none does."""
    opened = _opened(each, at)
    end = None if opened is None else _after(each, opened[1], opened[2])
    return at if opened is None or end is None else end + opened[2]


def _clauses(each: Sequence[Word]) -> list[_Clause]:
    found: list[_Clause] = []
    for first in range(1, len(each)):
        opened = _opened(each, first) if not found or first >= found[-1].end else None
        if opened is None or not _is_name(each[first - 1]):
            continue
        unit, value, closes = opened
        end = _after(each, value, closes)
        if end is None:
            continue
        name = first - 1
        aliased = first > 2 and each[first - 2].key not in _BEFORE
        if aliased:
            name = first - 2 - (each[first - 2].key == "AS")
        if name < 1 or each[name - 1].key not in _BEFORE or not _is_name(each[name]):
            continue
        if each[name].key in _NO_TABLES:
            continue
        aliased |= each[name - 1].key in _ALIASED
        last = end + closes
        follows = last < len(each) and (
            each[last].key == "AS" or (_is_name(each[last]) and each[last].key not in _FOLLOWING)
        )
        found.append(_Clause(unit, name, first, last, (value, end), aliased or follows))
    return found


def _opened(each: Sequence[Word], at: int) -> tuple[str, int, bool] | None:
    """The unit of a clause that begins here, where its value begins, and whether a bracket closes it."""
    keys = [word.key for word in each[at : at + 5]]
    if keys[:2] == ["AT", "("] and keys[2:3] in (["VERSION"], ["TIMESTAMP"]):
        if keys[3:5] == ["=", ">"]:
            return keys[2], at + 5, True
        return (keys[2], at + 4, True) if keys[3:4] in (["=>"], [":="]) else None
    skipped = keys[:1] == ["FOR"]
    if keys[skipped : skipped + 3] in ([unit, "AS", "OF"] for unit in _UNITS):
        return _UNITS[keys[skipped]], at + skipped + 3, False
    return None


def _after(each: Sequence[Word], at: int, closes: bool) -> int | None:
    """Where a value ends: at the bracket that closes the clause, else after one literal, call or bracket."""
    if closes:
        return _closing(each, at)
    if at >= len(each):
        return None
    if each[at].text in ("$", ":"):  # before a parameter's name
        return at + 2 if at + 1 < len(each) else None
    if each[at].key in ("TIMESTAMP", "TIMESTAMPTZ", "DATE"):
        return at + 2 if at + 1 < len(each) else None
    if each[at].text == "(" or (at + 1 < len(each) and each[at + 1].text == "(" and _is_name(each[at])):
        closing = _closing(each, at + 1 + (each[at].text != "("))
        return None if closing is None else closing + 1
    return at + 1 if each[at].text[:1] in "'$?0123456789" or each[at].key in _VALUES else None


def _closing(each: Sequence[Word], at: int) -> int | None:
    depth = 0
    for number in range(at, len(each)):
        depth += each[number].text in ("(", "[", "{")
        if each[number].text in (")", "]", "}"):
            if not depth:
                return number
            depth -= 1
    return None


def _is_name(word: Word) -> bool:
    return word.text[:1] in '"`' or word.key[:1].isalpha() or word.key[:1] == "_"


def constant(expression: str, what: str = "version") -> Any:
    """The value of an expression over no table, in DuckDB's SQL."""
    check_expression(expression)
    with cursor() as duck:
        try:
            return duck.execute(f"SELECT (\n{expression}\n)").fetchone()[0]
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInputError(f"the {what} {shown(expression)} can't be: {reason}") from None


def _version(text: str, unit: str, value: Any) -> str | dt.datetime:
    if unit == "VERSION" and isinstance(value, (str, int)) and not isinstance(value, bool):
        return str(value)
    if unit == "TIMESTAMP":
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            value = dt.datetime.combine(value, dt.time())
        if isinstance(value, str):
            try:
                value = dt.datetime.fromisoformat(value.replace("Z", "+00:00"))
            except ValueError:
                value = None
        if isinstance(value, dt.datetime):
            return value if value.tzinfo is not None else value.replace(tzinfo=dt.timezone.utc)
    raise InvalidInputError(
        f"the query {shown(text)} reads a table at a version that can't be: VERSION takes the name of a version, "
        "TIMESTAMP a time, like '2026-01-31 12:00:00'."
    )


_UNITS = {
    "VERSION": "VERSION",
    "SYSTEM_VERSION": "VERSION",
    "TIMESTAMP": "TIMESTAMP",
    "SYSTEM_TIME": "TIMESTAMP",
}

_VALUES = frozenset(("CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIMESTAMP", "NULL", "TRUE", "FALSE"))
"""Words that are values."""

_ALIASED = frozenset(("TABLE", "DESCRIBE", "DESC", "SUMMARIZE", ":"))
"""Words after which a table's name has no other name, or has it already: `FROM f: flights`."""

_BEFORE = _ALIASED | {"FROM", "JOIN", ",", "(", "USING", "INTO", ".", "LATERAL", "PIVOT", "UNPIVOT"}
"""What stands before a table's name."""

_NO_TABLES = frozenset(("SELECT", "DISTINCT", "ALL", "FROM"))
"""Words that can stand between what stands before a table's name and `version AS of`, two names of a column."""

_FOLLOWING_TEXT = """
WHERE GROUP ORDER LIMIT OFFSET FETCH HAVING QUALIFY WINDOW UNION INTERSECT EXCEPT MINUS JOIN INNER LEFT RIGHT FULL
CROSS NATURAL ASOF POSITIONAL SEMI ANTI LATERAL ON USING TABLESAMPLE PIVOT UNPIVOT SELECT WHEN SET CLUSTER DISTRIBUTE
SORT RETURNING
"""

_FOLLOWING = frozenset(_FOLLOWING_TEXT.split())
"""Words after a table that aren't its other name."""
