"""Statements as they are read: one frozen class each, and `read_statement`, which tells them apart by their heads.

Queries and expressions stay text, which the engine reads; what stands between them is read here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.typenames import quoted
from firn.lake.maintain.merge_clauses import MergeClause, When
from firn.names import fold
from firn.predicate.parameters import literal
from firn.predicate.select import shown
from firn.predicate.words import Word, WordReader
from firn.sql.time_travel import clause_end, constant

QUERY_WORDS = (
    "SELECT",
    "FROM",
    "VALUES",
    "WITH",
    "TABLE",
    "PIVOT",
    "UNPIVOT",
    "(",
    "DESCRIBE",
    "DESC",
    "SUMMARIZE",
)


@dataclass(frozen=True)
class QueryStatement:
    """A query of the engine; `explain` asks for its plan, `analyze` for that of a run."""

    text: str
    explain: bool = False
    analyze: bool = False


@dataclass(frozen=True)
class ShowTables:
    """The names of all tables, and their kinds."""


@dataclass(frozen=True)
class ShowCreateTable:
    table: str


@dataclass(frozen=True)
class CreateTable:
    """`columns` are types by name; `options` what WITH says; `query` fills the table."""

    table: str
    if_not_exists: bool = False
    columns: dict[str, str] = field(default_factory=dict)
    not_null: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    query: str | None = None

    @property
    def text(self) -> str:
        """The statement as SQL, but for a query."""
        lines = [f"  {quoted(name)} {kind}" for name, kind in self.columns.items()]
        if self.key:
            lines.append(f"  PRIMARY KEY ({', '.join(map(quoted, self.key))})")
        text = f"CREATE TABLE {quoted(self.table)}"
        if lines:
            text += " (\n" + ",\n".join(lines) + "\n)"
        orders = tuple(map(_ordered, self.sort_by))
        for clause, values in (("PARTITIONED BY", self.partition_by), ("SORTED BY", orders)):
            if values:
                text += f"\n{clause} ({', '.join(values)})"
        options = ", ".join(f"{name} = {literal(value)}" for name, value in self.options.items())
        return f"{text}\nWITH ({options});" if options else f"{text};"


@dataclass(frozen=True)
class DropTable:
    table: str
    if_exists: bool = False


@dataclass(frozen=True)
class Insert:
    """`conflict` is None, "nothing" or "update"; `assignments` what DO UPDATE SET says, None for all columns."""

    table: str
    query: str
    columns: tuple[str, ...] = ()
    by_name: bool = False
    overwrite: Literal["no", "all", "partitions"] = "no"
    replace_where: str | None = None
    conflict: Literal["nothing", "update"] | None = None
    conflict_columns: tuple[str, ...] = ()
    assignments: dict[str, str] | None = None
    conflict_where: str | None = None


@dataclass(frozen=True)
class Merge:
    """A MERGE, or an UPDATE or DELETE, which are the same with one clause: `op` says which.

    `source` is the text of a table or of a query in brackets; None where there is none, and `on` alone decides.
    """

    op: Literal["merge_into", "update", "delete"]
    table: str
    alias: str
    source: str | None
    source_alias: str
    on: str
    clauses: tuple[MergeClause, ...]
    using: tuple[str, ...] = ()


@dataclass(frozen=True)
class AlterTable:
    """`properties` are values by name, None for the default again; `types` are those of columns."""

    table: str
    if_exists: bool = False
    properties: dict[str, Any] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Truncate:
    table: str


@dataclass(frozen=True)
class CallStatement:
    """`CALL verb(table, name => value)`."""

    verb: str
    table: str
    arguments: dict[str, Any]


@dataclass(frozen=True)
class CopyFrom:
    """Rows of files, into these columns of a table: by their names if none are named."""

    table: str
    path: str
    columns: tuple[str, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class CopyTo:
    """Rows of a query into one file."""

    query: str
    path: str
    options: Mapping[str, Any]


Statement = (
    QueryStatement
    | ShowTables
    | ShowCreateTable
    | CreateTable
    | AlterTable
    | DropTable
    | Insert
    | Merge
    | Truncate
    | CallStatement
    | CopyFrom
    | CopyTo
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
                raise _constraint(r)
            if key and r.peek() == "PRIMARY":
                raise r.error("the table has its key already")
            if r.take("PRIMARY", "KEY"):
                key = tuple(r.names())
            else:
                name = r.name()
                if fold(name) in map(fold, columns):
                    raise r.error(f"the column {name!r} stands twice")
                columns[name] = r.span(",", "PRIMARY", "NOT", "NULL", *_CONSTRAINTS)
                while not r.ended and r.peek() not in (",", ")"):
                    if key and r.peek() == "PRIMARY":
                        raise r.error("the table has its key already")
                    if r.take("PRIMARY", "KEY"):
                        key = (name,)
                    elif r.take("NOT", "NULL"):
                        not_null.append(name)
                    elif not r.take("NULL"):
                        raise _constraint(r)
            if r.peek() in _CONSTRAINTS:
                raise _constraint(r)
            if not r.take(","):
                break
        r.expect(")")
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    options: dict[str, str] = {}
    query = None
    while not r.ended:
        if not partition_by and r.take("PARTITIONED", "BY"):
            partition_by = tuple(r.spans())
        elif not sort_by and (r.take("SORTED", "BY") or r.take("ORDER", "BY")):
            sort_by = tuple(map(_order, r.spans()))
        elif r.take("WITH"):
            options.update(_options(r))
        elif r.take("AS"):
            query = r.rest()
        else:
            raise r.error("PARTITIONED BY, SORTED BY, WITH or AS should stand here")
    return CreateTable(
        table, if_not_exists, columns, tuple(not_null), key, partition_by, sort_by, options, query
    )


_CONSTRAINTS = ("UNIQUE", "REFERENCES", "FOREIGN", "GENERATED", "DEFAULT", "CHECK", "CONSTRAINT", "COLLATE")


def _order(text: str) -> str:
    """A part of a sort order as `create_table` takes it: a column, and its direction."""
    r = WordReader(text)
    if r.peek()[:1] not in ('"', "`"):
        return text
    name = r.name()
    return f"{name} {r.rest()}" if not r.ended else name


def _ordered(text: str) -> str:
    """The other way round."""
    name, _, last = text.rpartition(" ")
    if name and last.upper() in ("ASC", "DESC"):
        return f"{quoted(name)} {last}"
    return quoted(text)


def _constraint(r: WordReader) -> UnsupportedError:
    return UnsupportedError(
        f"the statement {shown(r.text)}: a column can't be {r.peek()}: nobody would enforce it. PRIMARY KEY and NOT "
        "NULL of its columns are what a table can have; a record table has unique indexes."
    )


def _options(r: WordReader) -> dict[str, Any]:
    r.expect("(")
    found: dict[str, Any] = {}
    while True:
        name = _option_name(r)
        r.expect("=")
        found[name] = value_of(r.span(","), r)
        if not r.take(","):
            break
    r.expect(")")
    return found


def _option_name(r: WordReader) -> str:
    name = r.name() if r.peek()[:1] != "'" else r.string()
    while r.take("."):
        name += "." + r.name()
    return name


def _option_names(r: WordReader) -> list[str]:
    r.expect("(")
    found = [_option_name(r)]
    while r.take(","):
        found.append(_option_name(r))
    r.expect(")")
    return found


def value_of(text: str, r: WordReader) -> Any:
    """The value of an expression over nothing; None for a parameter, whose value isn't there yet."""
    word = WordReader(text)
    if word.peek()[:1] in ("?", "$"):
        return None
    if word.peek()[:1] == "'":
        value: Any = word.string()
        if word.ended:
            return value
    if word.peek() in ("TRUE", "FALSE", "NULL") and not word.peek(1):
        return {"TRUE": True, "FALSE": False, "NULL": None}[word.peek()]
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    with suppress(InvalidInputError, UnsupportedError):
        return constant(text, "value")
    raise r.error(f"{text!r} isn't a literal: a number, a text in single quotes, true or false")


def _alter(r: WordReader, _: str) -> Statement:
    r.expect("ALTER")
    r.expect("TABLE")
    if_exists = r.take("IF", "EXISTS")
    table = r.table()
    if r.take("SET", "TBLPROPERTIES") or (r.peek(1) == "(" and r.take("SET")):
        return AlterTable(table, if_exists, properties=_options(r))
    if (
        r.take("UNSET", "TBLPROPERTIES", "IF", "EXISTS")
        or r.take("UNSET", "TBLPROPERTIES")
        or r.take("RESET")
    ):
        return AlterTable(table, if_exists, properties=dict.fromkeys(_option_names(r)))
    if r.take("ALTER"):
        r.take("COLUMN")
        column = r.name()
        if r.take("SET", "DATA", "TYPE") or r.take("TYPE"):
            return AlterTable(table, if_exists, types={column: r.rest()})
    raise UnsupportedError(
        f"the statement {shown(r.text)}: this ALTER TABLE isn't there yet. There are SET (property = value), RESET "
        "(property) and ALTER COLUMN c TYPE t; LakeTable.append of rows that have a new column adds it."
    )


def _drop(r: WordReader, _: str) -> Statement:
    r.expect("DROP")
    if r.peek() != "TABLE":
        raise UnsupportedError(f"the statement {shown(r.text)}: only tables can be dropped.")
    r.expect("TABLE")
    if_exists = r.take("IF", "EXISTS")
    return DropTable(r.table(), if_exists)


def _truncate(r: WordReader, _: str) -> Statement:
    r.expect("TRUNCATE")
    r.take("TABLE")
    return Truncate(r.table())


def _insert(r: WordReader, prefix: str) -> Statement:
    r.expect("INSERT")
    overwrite: Literal["no", "all", "partitions"] = "no"
    if r.peek() == "OR":
        raise UnsupportedError(
            f"the statement {shown(r.text)}: write INSERT INTO … ON CONFLICT DO UPDATE, or DO NOTHING."
        )
    if r.take("OVERWRITE"):
        r.take("INTO")
        r.take("TABLE")
        overwrite = "all"
    else:
        r.expect("INTO")
    table = r.table()
    if overwrite == "all" and r.take("PARTITIONS"):
        overwrite = "partitions"
    by_name = r.take("BY", "NAME") or (r.take("BY", "POSITION") and False)
    columns: tuple[str, ...] = ()
    if r.peek() == "(" and r.peek(1) not in (*QUERY_WORDS, "("):
        columns = tuple(r.names())
        if by_name:
            raise r.error("BY NAME and a list of columns exclude each other")
    replace_where = (
        r.span("SELECT", "FROM", "VALUES", "WITH", "TABLE") if r.take("REPLACE", "WHERE") else None
    )
    if r.take("DEFAULT"):
        raise UnsupportedError(
            f"the statement {shown(r.text)}: columns have no defaults; write VALUES (NULL, …)."
        )
    query = prefix + r.span("ON", "RETURNING")
    while r.peek() == "ON" and r.peek(1) != "CONFLICT":  # that of a join
        r.take("ON")
        query += " ON " + r.span("ON", "RETURNING")
    conflict: Literal["nothing", "update"] | None = None
    conflict_columns: tuple[str, ...] = ()
    assignments: dict[str, str] | None = None
    conflict_where = None
    if r.take("ON", "CONFLICT"):
        if r.peek() == "(":
            conflict_columns = tuple(r.names())
        r.expect("DO")
        if r.take("NOTHING"):
            conflict = "nothing"
        else:
            r.expect("UPDATE")
            conflict = "update"
            if r.take("SET") and not r.take("*"):
                assignments = _assignments(r, (table,), "WHERE", "RETURNING")
            if r.take("WHERE"):
                conflict_where = r.span("RETURNING")
    _no_returning(r)
    return Insert(
        table, query, columns, by_name, overwrite, replace_where, conflict, conflict_columns, assignments,
        conflict_where,
    )  # fmt: skip


def _assignments(r: WordReader, target: tuple[str, ...], *stops: str) -> dict[str, str]:
    """`column = expression`, …; the target's name may stand before a column, and a dot in a path."""
    found: dict[str, str] = {}
    while True:
        name = r.name()
        while r.take("."):
            name = r.name() if fold(name) in map(fold, target) else f"{name}.{r.name()}"
        r.expect("=")
        if name in found:
            raise r.error(f"the column {name} is set twice before")
        found[name] = r.span(",", *stops)
        if not r.take(","):
            return found


def _update(r: WordReader, prefix: str) -> Statement:
    r.expect("UPDATE")
    table = r.table()
    alias = r.alias("SET") or table
    r.expect("SET")
    values = _assignments(r, (table, alias), "FROM", "WHERE", "RETURNING")
    source, source_alias = _source(r, prefix) if r.take("FROM") else (None, "")
    on = r.span("RETURNING") if r.take("WHERE") else "true"
    _no_returning(r)
    return Merge(
        "update", table, alias, source, source_alias, on, (MergeClause("matched", "update", None, values),)
    )


def _delete(r: WordReader, prefix: str) -> Statement:
    r.expect("DELETE")
    r.expect("FROM")
    table = r.table()
    alias = r.alias("USING", "WHERE", "RETURNING") or table
    source, source_alias = _source(r, prefix) if r.take("USING") else (None, "")
    on = r.span("RETURNING") if r.take("WHERE") else "true"
    _no_returning(r)
    return Merge("delete", table, alias, source, source_alias, on, (MergeClause("matched", "delete"),))


def _source(r: WordReader, prefix: str) -> tuple[str, str]:
    """A table or a query in brackets, as text, and the name that it has in the statement."""
    if r.peek() == "(":
        query = prefix + r.inside()
        alias = r.alias("ON", "USING", "WHERE", "WHEN", "RETURNING")
        if alias is None:
            raise r.error("a query needs a name, as in (SELECT …) AS s")
        if r.peek() == "(":
            names = ", ".join(map(quoted, r.names()))
            query = f"SELECT * FROM (\n{query}\n) AS {quoted(alias)}({names})"
        return query, alias
    before = r.at
    name = r.table()
    r.go(clause_end(r.words, r.at))
    written = r.since(before)
    alias = r.alias("ON", "USING", "WHERE", "WHEN", "RETURNING") or name
    before = r.at
    r.go(clause_end(r.words, before))
    if r.at > before:  # t AS s AT (VERSION => v)
        written += f" {r.since(before)}"
    if r.peek() == ",":
        raise r.error("one table or query is the source: join several in brackets, (SELECT …) AS s")
    return f"{prefix}SELECT * FROM {written}", alias


def _merge(r: WordReader, prefix: str) -> Statement:
    r.expect("MERGE")
    r.expect("INTO")
    table = r.table()
    alias = r.alias("USING") or table
    r.expect("USING")
    source, source_alias = _source(r, prefix)
    using: tuple[str, ...] = ()
    on = ""
    if r.take("USING"):
        using = tuple(r.names())
    else:
        r.expect("ON")
        on = r.span("WHEN", "RETURNING")
    clauses = []
    while r.take("WHEN"):
        clauses.append(_clause(r, (table, alias)))
    if not clauses:
        raise r.error("WHEN MATCHED or WHEN NOT MATCHED should stand here")
    _no_returning(r)
    return Merge("merge_into", table, alias, source, source_alias, on, tuple(clauses), using)


def _clause(r: WordReader, target: tuple[str, ...]) -> MergeClause:
    when: When = "matched"
    if r.take("NOT"):
        when = "not matched"
    r.expect("MATCHED")
    if when == "not matched" and r.take("BY"):
        if r.take("SOURCE"):
            when = "not matched by source"
        else:
            r.expect("TARGET")
    condition = r.span("THEN") if r.take("AND") else None
    r.expect("THEN")
    if r.take("DO", "NOTHING"):
        return MergeClause(when, "nothing", condition)
    if r.take("ERROR"):
        return MergeClause(when, "error", condition)
    if r.take("DELETE") and when != "not matched":
        return MergeClause(when, "delete", condition)
    if when != "not matched" and r.take("UPDATE"):
        if r.take("SET") and not r.take("*"):
            return MergeClause(when, "update", condition, _assignments(r, target, "WHEN", "RETURNING"))
        r.take("BY", "NAME")
        if when == "not matched by source":
            raise r.error("a row without a source needs SET column = expression")
        return MergeClause(when, "update", condition)
    if when == "not matched" and r.take("INSERT"):
        if r.take("*") or r.take("BY", "NAME") or r.peek() in ("", "WHEN"):
            return MergeClause(when, "insert", condition)
        columns = r.names() if r.peek() == "(" else []
        r.expect("VALUES")
        values = r.spans()
        if columns and len(columns) != len(values):
            raise r.error(f"{len(columns)} columns and {len(values)} values")
        names = columns or [str(number) for number in range(len(values))]
        return MergeClause(when, "insert", condition, dict(zip(names, values, strict=True)))
    allowed = "INSERT" if when == "not matched" else "UPDATE or DELETE"
    raise r.error(f"{allowed}, DO NOTHING or ERROR should stand here")


def _no_returning(r: WordReader) -> None:
    if r.peek() == "RETURNING":
        raise UnsupportedError(
            f"the statement {shown(r.text)}: there is no RETURNING; select the rows afterwards."
        )


def _call(r: WordReader, _: str) -> Statement:
    r.expect("CALL")
    verb = fold(r.name())
    r.expect("(")
    table = r.string() if r.peek()[:1] == "'" else r.table()
    arguments: dict[str, Any] = {}
    while r.take(","):
        name = r.name()
        if not (r.take("=>") or r.take(":=")):
            raise r.error("name => value should stand here")
        arguments[name] = value_of(r.span(","), r)
    r.expect(")")
    return CallStatement(verb, table, arguments)


def _copy(r: WordReader, prefix: str) -> Statement:
    r.expect("COPY")
    if r.peek() == "(":
        query = prefix + r.inside()
        r.expect("TO")
        return CopyTo(query, _path(r), _copy_options(r))
    table = r.table()
    columns = tuple(r.names()) if r.peek() == "(" else ()
    if r.take("FROM"):
        return CopyFrom(table, _path(r), columns, _copy_options(r))
    r.expect("TO")
    picked = ", ".join(map(quoted, columns)) or "*"
    return CopyTo(f"SELECT {picked} FROM {quoted(table)}", _path(r), _copy_options(r))


def _path(r: WordReader) -> str:
    """A file's path; empty for a parameter, whose value isn't in the text yet."""
    if r.peek()[:1] in ("?", "$"):
        r.span("(", "WITH")
        return ""
    return r.string()


def _copy_options(r: WordReader) -> dict[str, Any]:
    """`(FORMAT csv, HEADER, DELIM ';')`: a value may be a bare word, or missing for true."""
    found: dict[str, Any] = {}
    r.take("WITH")
    if not r.take("("):
        return found
    while True:
        name = fold(r.name())
        r.take("=")
        if r.peek() in (",", ")"):
            found[name] = True
        else:
            value = r.span(",")
            bare = value.isidentifier() and value.upper() not in ("TRUE", "FALSE", "NULL")
            found[name] = value if bare else value_of(value, r)
        if not r.take(","):
            break
    r.expect(")")
    return found


_HEADS = {
    "COPY": _copy,
    "CREATE": _create,
    "ALTER": _alter,
    "DROP": _drop,
    "TRUNCATE": _truncate,
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "CALL": _call,
}

_BLOCK = "Pass script=True for several statements; or use Database.begin, whose transaction has sql()."

_OUTSIDE_TEXT = """
PRAGMA SET RESET USE ATTACH DETACH INSTALL LOAD EXPORT IMPORT PREPARE EXECUTE DEALLOCATE CHECKPOINT COMMENT GRANT
REVOKE
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
