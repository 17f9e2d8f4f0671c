"""Names with the database's schema before them: `firn.t` and `main.t` mean t, wherever they stand in a text.

DuckDB knows the tables of a query without a schema, or in `main`. So the words of others give way to blanks, and all
else stays where it is: errors name the lines and columns of the text as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from firn.errors import TableNotFoundError
from firn.names import fold
from firn.predicate.select import SCHEMAS, Select, read_select, shown
from firn.predicate.words import Word, words
from firn.sql.syntax.time_travel import Parameters, time_travel

if TYPE_CHECKING:
    from firn.sql.syntax.statements import Statement

_STANDS = re.compile(r"\b(?:firn|main)[\"`]?\s*\.", re.IGNORECASE)

_STAR = re.compile(r"\.\s*\*")


def read_query(text: str, said: str | None = None, columns: Collection[str] = ()) -> Select:
    """Check one SELECT as `read_select` does, and leave schemas' names out of it. `columns` are names of columns, in
    small letters, which before a field aren't a schema's.

    Raises:
        TableNotFoundError: a table of another schema.
    """
    if _STAR.search(text):
        text = _plain_stars(text, said or text)  # which DuckDB's parser doesn't read
    select = read_select(text, said)
    if not _STANDS.search(text):
        return select
    each = words(text)
    known = {fold(name).partition(" at (")[0] for name in select.tables}
    found = _blanked(text, _before_columns(each, known, {*select.aliases, *columns}))
    for at, word in enumerate(each):
        if len(text[: word.start].encode()) in select.schemas or _is_described(each, at):
            found = found[: word.start] + "main".ljust(word.end - word.start) + found[word.end :]
    return read_select(found, said) if found != text else select


def tables_in(text: str, parameters: Parameters = None) -> list[str]:
    """The tables that a query names, by their own names where it asks for a version."""
    plain, past, _ = time_travel(text, parameters)
    found = read_query(plain, text if past else None).tables
    return [past[name].table if name in past else name for name in found]


def read_plainly(text: str, statement: Statement, each: Sequence[Word] | None = None) -> str:
    """The text of a statement without the schemas before columns of the table that it changes, and of its source."""
    from firn.sql.syntax.statements import Insert, Merge

    if not _STANDS.search(text) or not isinstance(statement, (Insert, Merge)):
        return text
    names, others = {fold(statement.table)}, set[str]()
    if isinstance(statement, Merge):
        others = {fold(statement.alias), fold(statement.source_alias)}
        names |= others
    return _blanked(text, _before_columns(words(text) if each is None else each, names, others))


def _plain_stars(text: str, said: str) -> str:
    """The text with `t.*` for `firn.t.*`."""
    each, found = words(text), []
    for at in range(len(each) - 4):
        follow = [word.text for word in each[at + 1 : at + 5]]
        if (at and each[at - 1].text == ".") or follow[::2] != [".", "."] or follow[3] != "*":
            continue
        if _name(each[at]) not in SCHEMAS:
            raise unknown_schema(said, each[at].text, each[at + 2].text)
        found.append((each[at], each[at + 2]))
    return _blanked(text, found)


def unknown_schema(text: str, schema: str, table: str) -> TableNotFoundError:
    """For a column of a table that the query doesn't read."""
    return TableNotFoundError(
        f"the query {shown(text)} names a column of {schema}.{table}, and reads no such table: name one that stands "
        "in its FROM, without a schema."
    )


def _before_columns(
    each: Sequence[Word], tables: Collection[str], others: Collection[str]
) -> Iterator[tuple[Word, Word]]:
    """Schemas, and the tables behind them, of columns of these tables. A name of `others` isn't the schema's."""
    for at in range(len(each) - 3):
        if at and each[at - 1].text == ".":
            continue
        schema = _name(each[at])
        dots = each[at + 1].text == "." and each[at + 3].text == "."
        if dots and schema in SCHEMAS and schema not in others and _name(each[at + 2]) in tables:
            yield each[at], each[at + 2]


def _is_described(each: Sequence[Word], at: int) -> bool:
    """Whether it is the schema in `DESCRIBE firn.t`, whose place DuckDB doesn't tell."""
    head = at > 0 and each[at - 1].key in ("DESCRIBE", "DESC", "SUMMARIZE", "SHOW")
    return head and at + 2 < len(each) and each[at + 1].text == "." and _name(each[at]) in SCHEMAS


def _name(word: Word) -> str:
    return fold(word.text.strip('"`'))


def _blanked(text: str, places: Collection[tuple[Word, Word]] | Iterator[tuple[Word, Word]]) -> str:
    for first, behind in places:
        blank = re.sub(r"[^\n]", " ", text[first.start : behind.start])
        text = text[: first.start] + blank + text[behind.start :]
    return text
