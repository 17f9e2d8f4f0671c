"""What a query may say: DuckDB's own parser reads it, and nothing but the tables is in reach."""

from __future__ import annotations

import duckdb
import pytest

from firn.errors import InvalidInputError, TableNotFoundError
from firn.predicate.functions import FUNCTIONS
from firn.predicate.select import condition, position, read_select


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT 1", ()),
        ("FROM t", ("t",)),
        ("VALUES (1), (2)", ()),
        ('SELECT * FROM main.t, "a name"', ("t", "a name")),
        ("SELECT (SELECT max(x) FROM u) FROM t WHERE EXISTS (FROM v)", ("u", "t", "v")),
        ("FROM t UNION ALL FROM u", ("t", "u")),
        ("PIVOT t ON y IN (1, 2) USING sum(x)", ("t",)),
        ("WITH t AS (SELECT 1) SELECT * FROM T", ()),
        ("WITH t AS (SELECT 1) SELECT * FROM main.t", ("t",)),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ("t",)),
        ("SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t), t", ("t",)),
        ("WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t) FROM t", ()),
        ("WITH a AS (FROM b), b AS (SELECT 1) FROM a", ("b",)),
        ("SELECT ? FROM t WHERE x = ?", ("t",)),
        ("SELECT * FROM range(3), unnest([1]), generate_series(1, 2)", ()),
    ],
)
def test_the_tables_that_a_query_names(query: str, tables: tuple[str, ...]) -> None:
    assert sorted(read_select(query).tables) == sorted(tables)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("SELECT 1;", "SELECT 1"),
        ("SELECT ';' -- ;\n, 2 /* ; */ ; -- end", "SELECT ';' -- ;\n, 2 /* ; */ "),
        ("SELECT 'é;', 1 ;", "SELECT 'é;', 1 "),
    ],
)
def test_the_end_of_a_statement_is_no_part_of_it(query: str, text: str) -> None:
    assert read_select(query).text == text


REFUSED = [
    ("", "is empty"),
    ("  -- nothing\n", "0 statements|is empty"),
    ("SELEC 1", r"syntax error at or near .SELEC. \(line 1, column 1\)"),
    ("SELECT 1,\n  FROM FROM t", r"line 2, column"),
    ("SELECT 1; SELECT 2", "2 statements"),
    ("DELETE FROM t", "isn't a SELECT"),
    ("CREATE TABLE t AS SELECT 1", "isn't a SELECT"),
    ("COPY (SELECT 1) TO 'x'", "isn't a SELECT"),
    ("ATTACH 'x'", "isn't a SELECT"),
    ("INSTALL httpfs", "isn't a SELECT"),
    ("SET threads = 1", "isn't a SELECT"),
    ("PRAGMA version", "isn't a SELECT"),
    ("SELECT * FROM (SHOW TABLES)", "isn't a SELECT"),
    ("SHOW TABLES", "isn't a SELECT"),
    ("PIVOT t ON y USING sum(x)", "A PIVOT needs its values"),
    ("SELECT * FROM read_csv('/etc/passwd')", "the table function read_csv"),
    ("SELECT * FROM READ_PARQUET('x')", "the table function read_parquet"),
    ("SELECT * FROM glob('*')", "the table function glob"),
    ("SELECT * FROM duckdb_settings()", "the table function duckdb_settings"),
    ("SELECT * FROM query('SELECT 1')", "the table function query"),
    ("SELECT (SELECT max(x) FROM read_blob('/etc/passwd'))", "the table function read_blob"),
    ("SELECT current_setting('threads')", r"calls current_setting.*\(line 1, column 8\)"),
    ("SELECT getvariable('x')", "calls getvariable"),
    ("SELECT getenv('HOME')", "calls getenv"),
    ("SELECT nextval('s')", "calls nextval"),
    ("SELECT sleep_ms(1000)", "calls sleep_ms"),
    ("SELECT write_log('x')", "calls write_log"),
    ("SELECT x FROM t WHERE json_serialize_sql('SELECT 1') IS NOT NULL", "calls json_serialize_sql"),
    ("SELECT list_transform([1], x -> sleep_ms(x))", "calls sleep_ms"),
    ("SELECT sum(x) OVER (ORDER BY getvariable('y')) FROM t", "calls getvariable"),
    ("SELECT system.main.now()", "calls now"),
    ("SELECT * FROM t AT (VERSION => 1)", "a version of 't'"),
]


@pytest.mark.parametrize(("query", "says"), REFUSED)
def test_what_reaches_outside_is_refused(query: str, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        read_select(query)


@pytest.mark.parametrize(
    "name", ["information_schema.tables", "pg_catalog.pg_class", "system.main.t", "other.t"]
)
def test_other_schemas_are_refused(name: str) -> None:
    with pytest.raises(TableNotFoundError, match="without a schema"):
        read_select(f"SELECT * FROM {name}")


def test_deep_texts_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"nested too deeply|isn't SQL"):
        read_select("SELECT " + "(" * 5000 + "1" + ")" * 5000)


def test_every_function_that_may_be_called_is_duckdbs() -> None:
    known = {
        name for (name,) in duckdb.sql("SELECT DISTINCT function_name FROM duckdb_functions()").fetchall()
    }
    syntax = {"coalesce", "grouping", "grouping_id", "ifnull", "unnest", "localtime", "localtimestamp"}
    assert FUNCTIONS - known <= syntax | {"current_date", "current_timestamp"}


OUTSIDE = (
    "read_",
    "current_setting",
    "getvariable",
    "duckdb_",
    "pragma_",
    "write_log",
    "sleep",
    "nextval",
    "getenv",
)


def test_no_function_that_reaches_outside_is_listed() -> None:
    assert not [name for name in FUNCTIONS if name.startswith(OUTSIDE)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("f.x = 1", '("X" = 1)', True),
        ("x BETWEEN 1 AND 2", '"x" BETWEEN 1 AND 2', True),
        ("a = 1 OR b = 2 AND c", "(a = 1) OR ((b = 2) AND c)", True),
        ("a = 1 OR b = 2 AND c", "((a = 1) OR (b = 2)) AND c", False),
        ("x = 1", "x = 2", False),
        ("x = 'a'", "x = 'A'", False),
        ("a.x = 1", "b.y = 1", False),
    ],
)
def test_conditions_are_equal_as_duckdb_reads_them(one: str, other: str, same: bool) -> None:
    assert (condition(one) == condition(other)) is same
    assert (
        condition(other) in read_select(f"SELECT * FROM f WHERE {one}").conditions
    ) is same or " AND " in one


def test_positions_count_characters() -> None:
    text = "SELECT 'é',\n  b"
    assert position(text, len("SELECT 'é',\n  ".encode())) == "line 2, column 3"
