"""The text of a query in DuckDB's SQL, read by DuckDB's own parser: what it names, and what it may not do.

The text that was checked is the text that runs: nothing is generated from a tree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from firn.errors import InvalidInputError, TableNotFoundError, UnsupportedError
from firn.names import fold
from firn.predicate.binder import cursor
from firn.predicate.dialect import readable_depth
from firn.predicate.functions import FUNCTIONS, TABLE_FUNCTIONS

SCHEMAS = frozenset(("firn", "main"))
"""Schemas that may stand before a table's name: all of them mean the database."""

_NOT_OF_A_ROW = ("unnest", "generate_subscripts")

_SHOWN = 100

MAX_DEPTH = 1000
"""Brackets in one another."""


@dataclass(frozen=True)
class Select:
    """One checked SELECT.

    `tables` are the names that it reads, as it spells them; those of its CTEs are left out. `conditions` are the
    terms that its WHERE and ON clauses join by AND, as DuckDB reads them: see `condition`. `aliases` are the other
    names in it, in small letters, and `schemas` the bytes at which a table with a schema begins.
    """

    text: str
    tables: tuple[str, ...]
    conditions: frozenset[str]
    aliases: frozenset[str]
    schemas: frozenset[int]


def read_select(text: str, said: str | None = None) -> Select:
    """Check one SELECT (or VALUES, FROM first, DESCRIBE or SUMMARIZE) in DuckDB's SQL.

    `said`: the statement that the text was made for, for messages.

    Raises:
        InvalidInputError: text that DuckDB doesn't read, with line and column; several statements, or another one
            than SELECT; a function that reaches outside of the tables.
        TableNotFoundError: a table of a schema.
    """
    if not text.strip():
        raise InvalidInputError("the query is empty; write one, like SELECT * FROM flights.")
    _check_depth(text)
    with readable_depth("query", text), cursor() as duck:
        try:
            read = json.loads(duck.execute("SELECT json_serialize_sql($1)", [text]).fetchone()[0])
            if read["error"]:
                raise _unreadable(said or text, read, positioned=said is None)
            if len(read["statements"]) != 1:
                raise InvalidInputError(
                    f"the query holds {len(read['statements'])} statements; write one, without ';': {shown(text)}."
                )
            for node in _nodes(read["statements"][0]):
                _check(said or text, node)
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInputError(
                f"the query {shown(text)} isn't SQL that DuckDB reads: {reason}"
            ) from None
    tree = read["statements"][0]
    if tree["node"].get("from_table", {}).get("type") == "SHOW_REF":
        text = f"SELECT * FROM ({_without_end(text)}\n)"
    clauses = [node.get(key) for node in _nodes(tree) for key in ("where_clause", "condition")]
    conditions = frozenset(_plain(term) for clause in clauses if clause for term in _terms(clause))
    named = [node for node in _nodes(tree) if node.get("type") == "BASE_TABLE"]
    return Select(
        _without_end(text),
        tuple(dict.fromkeys(_tables(tree, frozenset()))),
        conditions,
        frozenset(_aliases(tree)),
        frozenset(node["query_location"] for node in named if node["schema_name"]),
    )


def condition(sql: str) -> str | None:
    """A condition as DuckDB reads it: equal for equal ones, however they are written. Names of columns count without
    what stands before them. None for what it doesn't read."""
    with cursor() as duck:
        read = json.loads(
            duck.execute("SELECT json_serialize_sql($1)", [f"SELECT 1 WHERE {sql}"]).fetchone()[0]
        )
    return None if read["error"] else _plain(read["statements"][0]["node"]["where_clause"])


def conditions(sql: str) -> frozenset[str]:
    """The terms that AND joins in a condition, each as `condition` has it; none where DuckDB doesn't read it."""
    with cursor() as duck:
        read = json.loads(
            duck.execute("SELECT json_serialize_sql($1)", [f"SELECT 1 WHERE (\n{sql}\n)"]).fetchone()[0]
        )
    if read["error"]:
        return frozenset()
    return frozenset(_plain(term) for term in _terms(read["statements"][0]["node"]["where_clause"]))


def check_expression(text: str) -> None:
    """Check an expression in DuckDB's SQL: no subquery, and no function that reaches outside of its row.

    Raises:
        InvalidInputError: text that isn't one expression, with line and column.
        UnsupportedError: a subquery.
    """
    select = f"SELECT (\n{text}\n)"
    read_select(select, text)
    with cursor() as duck:
        tree = json.loads(duck.execute("SELECT json_serialize_sql($1)", [select]).fetchone()[0])
    node = tree["statements"][0]["node"]
    if (
        node["type"] != "SELECT_NODE"
        or len(node["select_list"]) != 1
        or node["from_table"]["type"] != "EMPTY"
    ):
        raise InvalidInputError(f"{shown(text)} isn't one expression.")
    parts = list(_nodes(node["select_list"]))
    if any(part.get("class") == "WINDOW" or part.get("function_name") in _NOT_OF_A_ROW for part in parts):
        raise UnsupportedError(
            f"the expression {shown(text)} looks at more than one row: compute that in the source, (SELECT …) AS s."
        )
    if any(part.get("class") == "SUBQUERY" for part in parts):
        raise UnsupportedError(
            f"the expression {shown(text)} has a subquery: put it into the source, (SELECT …) AS s, and join "
            "it there."
        )


def position(text: str, at: int) -> str:
    """Line and column of a place in a text, in characters, both from 1. `at`: bytes of UTF-8."""
    before = text.encode()[:at].decode(errors="ignore")
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"


def shown(text: str) -> str:
    """A query as messages quote it."""
    line = " ".join(text.split())
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + "…")


def _check_depth(text: str) -> None:
    """DuckDB's parser runs out of stack where queries in brackets are nested by tens of thousands, and ends the
    process."""
    if text.count("(") <= MAX_DEPTH:
        return
    data, depth = text.encode(), 0
    for at, kind in duckdb.tokenize(text):
        if kind == duckdb.token_type.operator:
            depth += (data[at : at + 1] == b"(") - (data[at : at + 1] == b")")
        if depth > MAX_DEPTH:
            raise InvalidInputError(
                f"the query {shown(text)} is nested too deeply: it has more than {MAX_DEPTH} brackets in one another."
            )


def _without_end(text: str) -> str:
    """Less the semicolon that ends it, and what comes after."""
    data = text.encode()
    for at, _ in duckdb.tokenize(text):
        if data[at : at + 1] == b";":
            return data[:at].decode()
    return text


def _unreadable(text: str, read: dict[str, Any], *, positioned: bool) -> InvalidInputError:
    if read.get("error_type") == "not implemented":
        return InvalidInputError(
            f"the query {shown(text)} isn't a SELECT, nor another statement of sql(): docs/howto/sql.md lists "
            "them. A PIVOT needs its values, as in PIVOT t ON year IN (2023, 2024) USING sum(n)."
        )
    known = positioned and read.get("position")
    where = f" ({position(text, int(read['position']))})" if known else ""
    reason = str(read.get("error_message"))
    reason = reason if len(reason) <= 5 * _SHOWN else reason[: 5 * _SHOWN] + "…"
    return InvalidInputError(f"the query {shown(text)} isn't SQL that DuckDB reads: {reason}{where}.")


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)


def _tables(tree: Any, ctes: frozenset[str]) -> Iterator[str]:
    """The names of tables in the places where they don't mean a CTE."""
    if isinstance(tree, list):
        for one in tree:
            yield from _tables(one, ctes)
    if not isinstance(tree, dict):
        return
    if tree.get("type") == "BASE_TABLE" and (tree["schema_name"] or fold(tree["table_name"]) not in ctes):
        yield tree["table_name"]
    if tree.get("type") == "RECURSIVE_CTE_NODE":
        ctes |= {fold(tree["cte_name"])}
    for entry in (tree.get("cte_map") or {}).get("map", []):  # each sees those before it
        yield from _tables(entry["value"], ctes)
        ctes |= {fold(entry["key"])}
    for name, part in tree.items():
        if name != "cte_map":
            yield from _tables(part, ctes)


def _aliases(tree: Any) -> Iterator[str]:
    """What a query names besides the tables behind a schema."""
    for node in _nodes(tree):
        if alias := node.get("alias"):
            yield fold(alias)
        if node.get("type") == "BASE_TABLE" and not node["schema_name"]:
            yield fold(node["table_name"])
        for entry in (node.get("cte_map") or {}).get("map", []):
            yield fold(entry["key"])


def _terms(clause: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if clause.get("type") == "CONJUNCTION_AND":
        for child in clause["children"]:
            yield from _terms(child)
    else:
        yield clause


def _plain(node: Any) -> str:
    """A part of DuckDB's tree without places in the text."""

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(one) for one in part]
        if not isinstance(part, dict):
            return part
        found = {key: plain(value) for key, value in part.items() if not key.startswith("query_location")}
        if "column_names" in found:
            found["column_names"] = fold(found["column_names"][-1])
        return found

    return json.dumps(plain(node), sort_keys=True)


def _check(text: str, node: dict[str, Any]) -> None:
    """The wall: what a query may read and call."""
    kind = node.get("type")
    if kind == "BASE_TABLE":
        _check_table(text, node)
    elif kind == "SHOW_REF" and node.get("query") is None:
        raise InvalidInputError(
            f"the query {shown(text)} isn't a SELECT. SHOW TABLES is a statement of its own."
        )
    elif kind == "TABLE_FUNCTION":
        name = fold(node["function"]["function_name"])
        if name not in TABLE_FUNCTIONS:
            raise InvalidInputError(
                f"the query {shown(text)} reads the table function {name}; it can read tables of the database, and "
                f"{', '.join(sorted(TABLE_FUNCTIONS))}."
            )
    name = str(node.get("function_name") or "")
    path = ".".join(part for part in (node.get("catalog"), node.get("schema")) if part)
    if path and fold(name) in FUNCTIONS:
        raise InvalidInputError(
            f"the query {shown(text)} calls {name} behind {path}, which is read as a schema: write {name}({path}) "
            f"or ({path}).{name}(){_place(text, node)}."
        )
    if name and (path or fold(name) not in FUNCTIONS):
        raise InvalidInputError(
            f"the query {shown(text)} calls {name}, which isn't among the functions of values that queries may call"
            f"{_place(text, node)}."
        )


def _check_table(text: str, node: dict[str, Any]) -> None:
    if node.get("catalog_name") or fold(node.get("schema_name") or "main") not in SCHEMAS:
        path = ".".join(part for part in (node.get("catalog_name"), node.get("schema_name")) if part)
        raise TableNotFoundError(
            f"the query {shown(text)} reads {path}.{node['table_name']}; name a table of this database, without a "
            "schema."
        )
    if node.get("at_clause") is not None:
        raise InvalidInputError(
            f"the query {shown(text)} asks for a version of {node['table_name']!r} in a way that isn't known: write "
            "AT (VERSION => v) or AT (TIMESTAMP => e) behind the table's name."
        )


def _place(text: str, node: dict[str, Any]) -> str:
    at = node.get("query_location")
    return f" ({position(text, at)})" if isinstance(at, int) and at < len(text.encode()) else ""
