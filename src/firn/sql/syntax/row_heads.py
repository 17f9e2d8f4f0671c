"""The heads of statements that change rows: INSERT, UPDATE, DELETE, MERGE, TRUNCATE and COPY."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.typenames import quoted
from firn.lake.maintain.matching.clauses import MergeClause, When
from firn.names import fold
from firn.predicate.select import shown
from firn.predicate.words import WordReader, words
from firn.sql.syntax.statements import CopyFrom, CopyTo, Insert, Merge, Statement, Truncate
from firn.sql.syntax.time_travel import clause_end, constant

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


def value_of(text: str, r: WordReader) -> Any:
    """The value of an expression over nothing; None for one with a parameter, whose value isn't there yet."""
    if any(one.text in ("?", "$") for one in words(text)):
        return None
    word = WordReader(text)
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
    raise InvalidInputError(
        f"the statement {shown(r.text)}: {shown(text)} isn't a literal: a number, a text in single quotes, true or "
        "false."
    )


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
            f"the statement {shown(r.text)}: name columns that have values, INSERT INTO {table} (column) VALUES (…); "
            "the others get their defaults."
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


ROW_HEADS = {
    "TRUNCATE": _truncate,
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "MERGE": _merge,
    "COPY": _copy,
}
