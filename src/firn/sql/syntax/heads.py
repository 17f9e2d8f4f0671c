"""`read_statement`, which tells statements apart by their heads, and the heads of those that change definitions.

Queries and expressions stay text, which the engine reads; what stands between them is read here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firn.errors import UnsupportedError
from firn.names import fold
from firn.predicate.select import shown
from firn.predicate.words import Word, WordReader
from firn.sql.syntax.alter_heads import ALTER_HEADS
from firn.sql.syntax.definition_parts import options, refused, sort_part
from firn.sql.syntax.row_heads import ROW_HEADS, value_of
from firn.sql.syntax.statements import (
    CallStatement,
    CreateTable,
    DropTable,
    QueryStatement,
    ShowCreateTable,
    ShowTables,
    Statement,
)


def read_statement(text: str, each: Sequence[Word] | None = None) -> Statement:
    """Tell which statement a text is, and read its head. `each` are its words, by default those of DuckDB's SQL.

    Raises:
        InvalidInputError: text that isn't a statement, with line and column.
        UnsupportedError: statements that other databases have; the message says what to write instead.
    """
    r = WordReader(text, each)
    head = r.peek()
    if head == "EXPLAIN":
        r.take("EXPLAIN")
        analyze = r.take("ANALYZE")
        return QueryStatement(r.rest(), explain=True, analyze=analyze)
    if head == "SHOW":
        return _show(r)
    prefix = ""
    if head == "WITH":
        body = r.span("INSERT", "UPDATE", "DELETE", "MERGE")
        if not r.ended:
            prefix = f"{body} "
        head = r.peek()
    if head in _HEADS:
        found = _HEADS[head](r, prefix)
        r.end()
        return found
    if head in _INSTEAD:
        raise UnsupportedError(f"the statement {shown(text)}: there is no {head} here. {_INSTEAD[head]}")
    return QueryStatement(text)


def _show(r: WordReader) -> Statement:
    r.expect("SHOW")
    if r.take("CREATE", "TABLE"):
        shown_table = ShowCreateTable(r.table())
        r.end()
        return shown_table
    if r.take("TABLES") or r.take("ALL", "TABLES"):
        r.end()
        return ShowTables()
    return QueryStatement(r.text)


def _create(r: WordReader, _: str) -> Statement:
    r.expect("CREATE")
    if r.peek() == "OR":
        raise UnsupportedError(
            f"the statement {shown(r.text)}: a drop is at once and for good, so a crash would lose the table. "
            "INSERT OVERWRITE replaces all rows and keeps the history."
        )
    if r.peek() != "TABLE":
        raise UnsupportedError(f"the statement {shown(r.text)}: only tables can be created.")
    r.expect("TABLE")
    if_not_exists = r.take("IF", "NOT", "EXISTS")
    table = r.table()
    columns: dict[str, str] = {}
    not_null: list[str] = []
    key: tuple[str, ...] = ()
    if r.take("("):
        while True:
            if r.peek() in _CONSTRAINTS and r.peek() != "GENERATED":  # a word that can be a column's name
                raise _constraint(r, table)
            if key and r.peek() == "PRIMARY":
                raise r.error("the table has its key already")
            if r.take("PRIMARY", "KEY"):
                key = tuple(r.names())
            else:
                name = r.name()
                if fold(name) in map(fold, columns):
                    raise r.error(f"the column {name!r} stands twice")
                columns[name] = r.span(",", "PRIMARY", "NOT", "NULL", "COMMENT", *_CONSTRAINTS)
                while not r.ended and r.peek() not in (",", ")"):
                    if key and r.peek() == "PRIMARY":
                        raise r.error("the table has its key already")
                    if r.take("PRIMARY", "KEY"):
                        key = (name,)
                    elif r.take("NOT", "NULL"):
                        not_null.append(name)
                    elif not r.take("NULL"):
                        raise _constraint(r, table, f"{name} {columns[name]}")
            if r.peek() in _CONSTRAINTS:
                raise _constraint(r, table)
            if not r.take(","):
                break
        r.expect(")")
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    said: dict[str, Any] = {}
    query = None
    while not r.ended:
        if not partition_by and r.take("PARTITIONED", "BY"):
            partition_by = tuple(r.spans())
        elif not sort_by and (r.take("SORTED", "BY") or r.take("ORDER", "BY")):
            sort_by = tuple(map(sort_part, r.spans()))
        elif r.take("WITH"):
            said.update(options(r))
        elif r.take("AS"):
            query = r.rest()
        elif r.peek() == "COMMENT":
            raise _constraint(r, table)
        else:
            raise r.error("PARTITIONED BY, SORTED BY, WITH or AS should stand here")
    return CreateTable(
        table, if_not_exists, columns, tuple(not_null), key, partition_by, sort_by, said, query
    )


_CONSTRAINTS = ("UNIQUE", "REFERENCES", "FOREIGN", "GENERATED", "DEFAULT", "CHECK", "CONSTRAINT", "COLLATE")


def _constraint(r: WordReader, table: str, column: str = "") -> UnsupportedError:
    """The refusal of what comes next; `column` is the column before it, with its type."""
    word, name = r.peek(), column.partition(" ")[0]
    instead = {
        "DEFAULT": f"Leave the column out, and write ALTER TABLE {table} ADD COLUMN {column} DEFAULT …",
        "CHECK": f"Write ALTER TABLE {table} ADD CONSTRAINT name CHECK (…)",
        "COMMENT": f"Write COMMENT ON COLUMN {table}.{name} IS '…'"
        if name
        else f"Write COMMENT ON TABLE {table} IS '…'",
    }
    if word == "CONSTRAINT" and r.peek(2) == "CHECK":
        word = "CHECK"
    if word in instead:
        return refused(r, r.at, f"CREATE TABLE has no {word}. {instead[word]} behind it.")
    return refused(
        r,
        r.at,
        f"a column can't be {word}: nobody would enforce it. PRIMARY KEY and NOT NULL of its columns are what a "
        "table can have; a record table has unique indexes.",
    )


def _drop(r: WordReader, _: str) -> Statement:
    r.expect("DROP")
    if r.peek() != "TABLE":
        raise UnsupportedError(f"the statement {shown(r.text)}: only tables can be dropped.")
    r.expect("TABLE")
    if_exists = r.take("IF", "EXISTS")
    return DropTable(r.table(), if_exists)


def _call(r: WordReader, _: str) -> Statement:
    r.expect("CALL")
    verb = fold(r.name())
    r.expect("(")
    table = r.string() if r.peek()[:1] == "'" else r.table()
    arguments: dict[str, Any] = {}
    while r.take(","):
        name = fold(r.name())
        if not (r.take("=>") or r.take(":=")):
            raise r.error("name => value should stand here")
        if name in arguments:
            raise r.error(f"the argument {name} stands twice before")
        arguments[name] = value_of(r.span(","), r)
    r.expect(")")
    return CallStatement(verb, table, arguments)


_HEADS = {
    **ROW_HEADS,
    **ALTER_HEADS,
    "CREATE": _create,
    "DROP": _drop,
    "CALL": _call,
}

_BLOCK = "Pass script=True for several statements; or use Database.begin, whose transaction has sql()."

_OUTSIDE_TEXT = """
PRAGMA SET RESET USE ATTACH DETACH INSTALL LOAD EXPORT IMPORT PREPARE EXECUTE DEALLOCATE CHECKPOINT GRANT REVOKE
"""

_INSTEAD = {
    "BEGIN": _BLOCK,
    "START": _BLOCK,
    "COMMIT": _BLOCK,
    "ROLLBACK": _BLOCK,
    "VACUUM": "CALL sweep('table') deletes what no version needs.",
    "ANALYZE": "Statistics are written with each file.",
    "REPLACE": "Write INSERT INTO … ON CONFLICT DO UPDATE.",
    "UPSERT": "Write INSERT INTO … ON CONFLICT DO UPDATE.",
    **dict.fromkeys(_OUTSIDE_TEXT.split(), "Statements reach the tables of this database alone."),
}
