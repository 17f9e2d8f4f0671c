"""The heads of statements that change a table's definition: ALTER TABLE and COMMENT ON.

Their actions become the arguments of the verb `alter`. Several, with commas between, are one call of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firn.errors import TableNotFoundError
from firn.journal.typenames import quoted
from firn.names import fold
from firn.predicate.select import SCHEMAS, shown
from firn.predicate.words import WordReader
from firn.sql.syntax.definition_parts import (
    new_column,
    not_null_as_check,
    option_name,
    options,
    refused,
    sort_part,
    text_or_null,
    twice,
)
from firn.sql.syntax.statements import AlterTable, IfThere, Statement

ACTIONS = ("RENAME", "ADD", "DROP", "ALTER", "SET", "RESET", "UNSET")
"""Words that begin an action. A column of such a name behind a comma needs quotes."""


class _Actions:
    """Reads the actions of one statement into the arguments of `alter`."""

    def __init__(self, r: WordReader, table: str) -> None:
        self.r, self.table = r, table
        self.changes: dict[str, Any] = {}
        self.conditions: list[IfThere] = []

    def read(self) -> None:
        while True:
            self._action()
            if not self.r.take(","):
                break

    def _action(self) -> None:
        r = self.r
        at = r.at
        if r.take("RENAME"):
            self._rename(at)
        elif r.take("ADD"):
            self._add(at)
        elif r.take("DROP"):
            self._drop(at)
        elif r.take("ALTER"):
            self._alter_columns()
        elif r.take("SET"):
            self._set(at)
        elif r.take("RESET"):
            self._reset()
        elif r.take("UNSET", "TBLPROPERTIES"):
            r.take("IF", "EXISTS")
            self._properties_back()
        elif r.peek() in _INSTEAD:
            raise refused(r, at, f"ALTER TABLE has no {r.peek()}. {_INSTEAD[r.peek()]}")
        else:
            raise r.error("RENAME, ADD, DROP, ALTER COLUMN, SET or RESET should stand here")

    def _put(self, keyword: str, name: str, value: Any, at: int) -> None:
        """An argument by name. `at` is where its action says the name."""
        given = self.changes.setdefault(keyword, {})
        if fold(name) in map(fold, given):
            raise twice(self.r, at, repr(name))
        given[name] = value

    def _each(self, read: Callable[[], None]) -> None:
        """One thing or several: in a bracket, or with commas before what doesn't begin an action."""
        r = self.r
        bracket = r.take("(")
        read()
        while r.peek() == "," and (bracket or r.peek(1) not in ACTIONS):
            r.take(",")
            read()
        if bracket:
            r.expect(")")

    def _rename(self, at: int) -> None:
        r = self.r
        if r.take("TO"):
            new, table = quoted(r.name()), quoted(self.table)
            copy = f"Write CREATE TABLE {new} AS SELECT * FROM {table}, then DROP TABLE {table}."
            raise refused(r, at, f"a table keeps its name, by which its files are found. {copy}")
        r.take("COLUMN")
        at, old = self._column()
        r.expect("TO")
        self._put("rename", old, r.name(), at)

    def _add(self, at: int) -> None:
        r = self.r
        if r.take("CONSTRAINT"):
            at, name = r.at, r.name()
            if r.peek() != "CHECK":
                raise refused(r, r.at, f"a constraint can't be {r.peek()}: nobody would enforce it. {_CHECK}")
            r.expect("CHECK")
            self._put("checks", name, r.inside(), at)
            return
        if r.peek() in ("CHECK", "UNIQUE", "PRIMARY", "FOREIGN"):
            keys = (
                "" if r.peek() == "CHECK" else "A key is given in CREATE TABLE, and nobody enforces others. "
            )
            raise refused(r, at, f"there is no ADD {r.peek()}. {keys}{_CHECK}")
        self._no_partition_field(at)
        if not r.take("COLUMN"):
            r.take("COLUMNS")
        if_not_exists = r.take("IF", "NOT", "EXISTS")

        def one() -> None:
            at = r.at
            column = new_column(r)
            self._put("add", column.name, column.given, at)
            if column.comment is not None:
                self._put("comments", column.name, column.comment, at)
            if if_not_exists:
                keywords = ("add", "comments") if column.comment is not None else ("add",)
                self.conditions.append(IfThere(column.name, keywords, there=False))

        self._each(one)

    def _drop(self, at: int) -> None:
        r = self.r
        if r.take("CONSTRAINT"):
            if_exists = r.take("IF", "EXISTS")
            at, name = r.at, r.name()
            self._put("checks", name, None, at)
            if if_exists:
                self.conditions.append(IfThere(name, ("checks",), there=True))
            return
        self._no_partition_field(at)
        if not r.take("COLUMN"):
            r.take("COLUMNS")
        if_exists = r.take("IF", "EXISTS")
        dropped = self.changes.setdefault("drop", [])

        def one() -> None:
            at, name = self._column()
            if fold(name) in map(fold, dropped):
                raise twice(self.r, at, repr(name))
            dropped.append(name)
            if if_exists:
                self.conditions.append(IfThere(name, ("drop",), there=True))

        self._each(one)

    def _alter_columns(self) -> None:
        self.r.take("COLUMN")
        self._alter_column()
        while self.r.peek() == "," and self.r.peek(1) not in ACTIONS:
            self.r.take(",")
            self._alter_column()

    def _alter_column(self) -> None:
        r = self.r
        at, column = self._column()
        here = r.at
        if r.take("SET", "DATA", "TYPE") or r.take("SET", "TYPE") or r.take("TYPE"):
            self._put("types", column, r.span(",", "USING", "COLLATE"), at)
            if r.peek() == "USING":
                raise refused(
                    r,
                    r.at,
                    "no rows are written anew for a type. Leave USING out; CALL rewrite(…) casts rows.",
                )
        elif r.take("COMMENT"):
            self._put("comments", column, text_or_null(r), at)
        elif r.take("SET", "DEFAULT") or r.take("DROP", "DEFAULT"):
            raise refused(
                r,
                here,
                "a default is of rows that were written without the column, and never changes. Drop the column and "
                f"add it anew: DROP COLUMN {quoted(column)}, ADD COLUMN {quoted(column)} … DEFAULT ….",
            )
        elif r.take("SET", "NOT", "NULL") or r.take("DROP", "NOT", "NULL"):
            raise refused(r, here, not_null_as_check(column))
        else:
            raise r.error("TYPE or COMMENT should stand here")

    def _set(self, at: int) -> None:
        r = self.r
        if r.take("PARTITIONED", "BY"):
            self._whole("partition_by", r.spans(), at)
        elif r.take("SORTED", "BY") or r.take("ORDER", "BY"):
            self._whole("sort_by", [sort_part(text) for text in r.spans()], at)
        elif r.take("TBLPROPERTIES") or r.peek() == "(":
            at = r.at
            for name, value in options(r).items():
                self._put("set_properties", name, value, at)
        else:
            raise r.error("(property = value), PARTITIONED BY (…) or SORTED BY (…) should stand here")

    def _reset(self) -> None:
        r = self.r
        at = r.at
        if r.take("PARTITIONED", "BY"):
            self._whole("partition_by", [], at)
        elif r.take("SORTED", "BY") or r.take("ORDER", "BY"):
            self._whole("sort_by", [], at)
        else:
            self._properties_back()

    def _properties_back(self) -> None:
        r = self.r
        r.expect("(")
        while True:
            at = r.at
            self._put("set_properties", option_name(r), None, at)
            if not r.take(","):
                break
        r.expect(")")

    def _whole(self, keyword: str, value: list[str], at: int) -> None:
        if keyword in self.changes:
            raise twice(self.r, at, {"partition_by": "PARTITIONED BY", "sort_by": "SORTED BY"}[keyword])
        self.changes[keyword] = value

    def _column(self) -> tuple[int, str]:
        """A column of the table, and where its name stands."""
        r = self.r
        at, name = r.at, r.name()
        if r.peek() == ".":
            raise refused(
                r, at, "a column is named without its table, and fields inside of structs stay as they are."
            )
        return at, name

    def _no_partition_field(self, at: int) -> None:
        if self.r.peek() == "PARTITION" and self.r.peek(1) == "FIELD":
            raise refused(self.r, at, f"fields of partitions don't come and go alone. {_PARTITIONS}")


_CHECK = "Write ADD CONSTRAINT name CHECK (predicate)."

_PARTITIONS = "Say all that the table is partitioned by: SET PARTITIONED BY (day(date), origin)."

_INSTEAD = {
    "REPLACE": _PARTITIONS,
    "WRITE": "Write SET SORTED BY (date DESC, id).",
    "CLUSTER": "Write SET SORTED BY (date DESC, id).",
    "CHANGE": "Write RENAME COLUMN a TO b, or ALTER COLUMN c TYPE t.",
    "MODIFY": "Write ALTER COLUMN c TYPE t.",
    "COMMENT": "Write COMMENT ON TABLE t IS 'text'.",
    "UNSET": "Write RESET (property), or UNSET TBLPROPERTIES (property).",
}


def _alter(r: WordReader, _: str) -> Statement:
    r.expect("ALTER")
    r.expect("TABLE")
    if_exists = r.take("IF", "EXISTS")
    table = r.table()
    actions = _Actions(r, table)
    actions.read()
    return AlterTable(table, if_exists, actions.changes, tuple(actions.conditions))


def _comment(r: WordReader, _: str) -> Statement:
    r.expect("COMMENT")
    r.expect("ON")
    if r.take("TABLE"):
        table = r.table()
        r.expect("IS")
        return AlterTable(table, changes={"comment": text_or_null(r) or ""})
    if not r.take("COLUMN"):
        raise r.error("TABLE or COLUMN should stand here")
    names = [r.name()]
    while r.take("."):
        names.append(r.name())
    if len(names) == 3 and fold(names[0]) in SCHEMAS:
        del names[0]
    if len(names) == 1:
        raise r.error("the table's name should stand before the column's: COMMENT ON COLUMN t.c")
    if len(names) > 2:
        raise TableNotFoundError(
            f"the statement {shown(r.text)} names the table {names[1]!r} of {names[0]!r}; name a table of this "
            "database, without a schema, and a column of it."
        )
    r.expect("IS")
    return AlterTable(names[0], changes={"comments": {names[1]: text_or_null(r)}})


ALTER_HEADS = {"ALTER": _alter, "COMMENT": _comment}
