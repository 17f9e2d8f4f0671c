from __future__ import annotations

import pickle
import threading

import duckdb
import pytest
from sqlglot.dialects.duckdb import DuckDB

from firn.errors import InvalidInputError, UnsupportedError
from firn.predicate.binder import constant
from firn.predicate.dialect import parse
from firn.predicate.grammar import ExpressionSQL, FirnSQL
from firn.predicate.predicate import Predicate, Query, parse_rewrite

COLUMNS = {
    "a": "BIGINT",
    "b": "VARCHAR",
    "c": "BOOLEAN",
    "ts": "TIMESTAMP",
    "tz": "TIMESTAMP WITH TIME ZONE",
    "s": "STRUCT(x BIGINT, y STRUCT(z VARCHAR))",
    "l": "BIGINT[]",
    "Flight Date": "DATE",
}


@pytest.mark.parametrize(
    ("text", "sql", "columns"),
    [
        ("A > 1 and `B` = 'x'", '"a" > 1 AND "b" = \'x\'', {"a", "b"}),
        (
            "\"flight date\" >= DATE '2001-01-01';",
            "\"Flight Date\" >= CAST('2001-01-01' AS DATE)",
            {"Flight Date"},
        ),
        ("c", '"c"', {"c"}),
        ("S.x = 1 AND s.y.z = 'q'", '"s"."x" = 1 AND "s"."y"."z" = \'q\'', {"s"}),
        (
            "len(list_filter(l, x -> x > a)) > 0",
            'LENGTH(LIST_FILTER("l", LAMBDA "x" : "x" > "a")) > 0',
            {"a", "l"},
        ),
        ("a = 1 -- why", '"a" = 1', {"a"}),
        ("1 = 1", "1 = 1", set()),
        ("a = 1 is true", '("a" = 1) IS TRUE', {"a"}),
        ("c or not c and a = 1", '"c" OR (NOT "c" AND "a" = 1)', {"a", "c"}),
        ("a + 1 * 2 = -3", '("a" + (1 * 2)) = -3', {"a"}),
    ],
)
def test_parse_gives_duckdb_text_in_the_tables_spelling(text: str, sql: str, columns: set[str]) -> None:
    predicate = Predicate.parse(text, COLUMNS)
    assert predicate.sql == sql
    assert predicate.columns == columns
    assert Predicate.parse(predicate.sql, COLUMNS) == predicate


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        (" ; ", "empty"),
        ("-- nothing", "empty"),
        ("a = 1; DROP TABLE x", "more than one statement"),
        ("a = ", "isn't SQL"),
        ("a = (1", "isn't SQL"),
        ("SELECT 1", "isn't SQL"),
        ("a = 1 ORDER BY a", "isn't SQL"),
        ("a AS x", "isn't SQL"),
        ("nope = 1", "'nope' isn't a column.*there are: a, b, c"),
        ('b = "x"', "'x' isn't a column.*single quotes"),
        ("rowid = 1", "'rowid' isn't a column"),
        ("t.a = 1", "'t' isn't a column"),
        ("a = ?", "parameter"),
        ("a = $1", "parameter"),
        ("a = :x", "parameter"),
        ("a IN (SELECT 1)", "subquery"),
        ("a = (SELECT 1)", "subquery"),
        ("EXISTS (SELECT 1)", "subquery"),
        ("sum(a) > 1", "aggregate SUM"),
        ("list(a) = [1]", "aggregate"),
        ("row_number() OVER () = 1", "window function"),
        ("unnest(l) = 1", "several rows"),
        ("* = 1", r"\*"),
        ("COLUMNS(*) > 1", r"\*"),
        ("read_text('/etc/passwd') = 'x'", "table function"),
        ("frobnicate(a) = 1", "frobnicate"),
        ("b > 1", "Cannot compare"),
        ("a > ts", "Cannot compare"),
        ("s.q = 1", "q"),
        ("NOT " * 3000 + "c", "nested too deeply"),
    ],
)
def test_parse_refuses_and_says_why(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        Predicate.parse(text, COLUMNS)


@pytest.mark.parametrize(
    "text",
    [
        "now() > ts",
        "current_timestamp > tz",
        "ts > current_date",
        "today() > ts",
        "random() < 0.5",
        "rand() < 0.5",
        "uuid() = b",
        "gen_random_uuid() = b",
        "get_current_time() IS NULL",
        "getvariable('x') = 1",
        "current_setting('x') = 'y'",
        "age(ts) IS NULL",
        "current_user = b",
        "localtimestamp > ts",
        "getenv('HOME') = b",
    ],
)
def test_what_changes_between_tasks_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="changes from one task to the next"):
        Predicate.parse(text, COLUMNS)


def test_every_function_that_duckdb_calls_inconsistent_is_refused() -> None:
    names = duckdb.connect().execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() "
        "WHERE function_type = 'scalar' AND stability <> 'CONSISTENT' "
        # these hang on the session's zone alone, which is UTC in every task
        "AND parameter_types::VARCHAR NOT SIMILAR TO '.*(TIMESTAMPTZ|WITH TIME ZONE).*' "
        "AND function_name NOT IN ('make_timestamptz', 'timezone')"
    )
    found = [name for (name,) in names.fetchall()]
    assert len(found) > 10
    for name in found:
        with pytest.raises(InvalidInputError, match="changes from one task to the next"):
            Predicate.parse(f"{name}() IS NULL", COLUMNS)


def test_columns_that_differ_by_case_need_their_exact_name() -> None:
    columns = {"x": "BIGINT", "X": "BIGINT", "aB": "BIGINT", "Ab": "BIGINT", "Ä": "BIGINT"}
    assert Predicate.parse("ä = 2", columns).columns == {"Ä"}
    with pytest.raises(InvalidInputError, match="'aB' and 'Ab'"):
        Predicate.parse("ab = 1", columns)


def test_hostile_column_names_are_quoted() -> None:
    name = 'a"; DROP TABLE x; --'
    predicate = Predicate.parse('"a""; DROP TABLE x; --" = 1', {name: "BIGINT"})
    assert predicate.columns == {name}
    assert predicate.sql == '"a""; DROP TABLE x; --" = 1'


def test_types_of_a_later_duckdb_are_left_to_the_tasks() -> None:
    assert Predicate.parse("g IS NOT NULL", {"g": "GEOMETRY_3D"}).columns == {"g"}


def test_conjuncts_flatten_and_keep_their_columns() -> None:
    parts = Predicate.parse("(a > 1 AND b = 'x') AND (c OR a = 2) AND s.x = 3", COLUMNS).conjuncts()
    assert [(p.sql, set(p.columns)) for p in parts] == [
        ('"a" > 1', {"a"}),
        ("\"b\" = 'x'", {"b"}),
        ('"c" OR "a" = 2', {"a", "c"}),
        ('"s"."x" = 3', {"s"}),
    ]


def test_spark_text_keeps_the_meaning() -> None:
    def spark(text: str) -> str:
        return Predicate.parse(text, COLUMNS).spark_sql

    assert spark("\"Flight Date\" = '2001-01-01' AND starts_with(b, 'it''s')") == (
        "`Flight Date` = '2001-01-01' AND STARTSWITH(`b`, 'it\\'s')"
    )
    assert spark("ts > TIMESTAMP '2001-01-01'") == "`ts` > CAST('2001-01-01' AS TIMESTAMP_NTZ)"
    assert spark("tz > TIMESTAMPTZ '2001-01-01 00:00Z'") == "`tz` > CAST('2001-01-01 00:00Z' AS TIMESTAMP)"
    assert spark("l[1] = 2") == "`l`[0] = 2"
    # a backslash is itself in DuckDB's patterns, and an escape in Spark's
    assert spark("b LIKE 'a\\%'") == "`b` LIKE 'a\\\\\\\\%'"


@pytest.mark.parametrize("text", ["b SIMILAR TO 'x.*'", "a = 1 OR b GLOB 'x*'"])
def test_what_spark_lacks_is_refused_when_it_is_asked_for(text: str) -> None:
    predicate = Predicate.parse(text, COLUMNS)
    with pytest.raises(UnsupportedError, match="no counterpart in Spark"):
        _ = predicate.spark_sql


def test_predicates_and_queries_pickle_however_deep() -> None:
    predicate = Predicate.parse(" OR ".join(f"a = {n}" for n in range(2000)), COLUMNS)
    again = pickle.loads(pickle.dumps(predicate))
    assert again == predicate
    assert again.ast == predicate.ast
    query = Query.parse("SELECT a FROM _rows", "_rows")
    assert pickle.loads(pickle.dumps(query)) == query


def test_threads_parse_at_once() -> None:
    found: list[str] = []

    def parse(number: int) -> None:
        found.extend(Predicate.parse(f"a = {number} AND b < 'x'", COLUMNS).sql for _ in range(5))

    threads = [threading.Thread(target=parse, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 40


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM _rows",
        "FROM _rows WHERE a > 1",
        "WITH x AS (SELECT a FROM _rows) SELECT * FROM x UNION ALL SELECT a FROM _ROWS",
        "SELECT * REPLACE (upper(b) AS b) FROM _rows QUALIFY row_number() OVER (PARTITION BY a ORDER BY ts DESC) = 1",
        "SELECT * EXCLUDE (a) FROM _rows ORDER BY ALL",
        "SELECT unnest(l) FROM _rows",
        "SELECT (SELECT max(a) FROM _rows) FROM _rows",
        "SELECT * FROM (VALUES (1)) t, _rows",
        "(SELECT * FROM _rows)",
        "-- hello\nSELECT a FROM _rows;",
    ],
)
def test_queries_over_the_rows_run_in_duckdb(text: str) -> None:
    query = Query.parse(text, "_rows")
    connection = duckdb.connect()
    columns = ", ".join(f'"{name}" {kind}' for name, kind in COLUMNS.items())
    connection.execute(f"CREATE TABLE _rows ({columns})")
    ran = connection.execute(query.sql)
    meant = connection.cursor().execute(text)
    assert [c[:2] for c in ran.description] == [c[:2] for c in meant.description]
    assert Query.parse(query.sql, "_rows") == query


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("DROP TABLE _rows", "isn't a SELECT"),
        ("INSERT INTO _rows SELECT 1", "isn't a SELECT"),
        ("COPY _rows TO 'x'", "isn't a SELECT"),
        ("ATTACH 'x'", "isn't a SELECT"),
        ("PIVOT _rows ON a USING sum(b)", "isn't a SELECT"),
        ("SELECT 1", "never reads _rows"),
        ("SELECT * FROM _rows; SELECT 1", "more than one"),
        ("SELECT * FROM _rows WHERE a = ?", "parameter"),
        ("SELECT * FROM 'x.parquet'", "the only table there is _rows"),
        ("SELECT * FROM read_parquet('x')", "table function READ_PARQUET"),
        ("SELECT * FROM _rows, glob('*')", "table function"),
        ("SELECT * FROM _rows, query('SELECT 1')", "table function"),
        ("SELECT 1 FROM _rows WHERE EXISTS (SELECT 1 FROM read_text('x'))", "table function"),
        ("SELECT * FROM main._rows", "the only table"),
        ("SELECT * FROM information_schema.tables", "the only table"),
        ("SELECT * FROM _rows JOIN other USING (a)", "the only table"),
        ("WITH _rows AS (SELECT 1) SELECT * FROM _rows", "hides the rows"),
        ("SELECT * INTO x FROM _rows", "does more than select"),
        ("SELECT getenv('HOME') FROM _rows", "reaches outside"),
        ("SELECT FROM WHERE", "isn't SQL"),
    ],
)
def test_queries_that_read_anything_else_are_refused(text: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        Query.parse(text, "_rows")


def test_a_constant_that_cant_be_computed_has_no_value() -> None:
    """It fails on the rows that it is asked of, if there are any: no file is left out for it."""
    assert constant("9223372036854775807 + 1") is None
    assert constant("1 + 1").as_py() == 2


def test_rewrite_takes_a_predicate_or_a_query() -> None:
    assert isinstance(parse_rewrite("selected > 1", {"selected": "BIGINT"}), Predicate)
    for text in (
        "SELECT * FROM _rows",
        "  with x as (from _rows) from x",
        "(SELECT * FROM _rows)",
        "/* x */ from _rows",
    ):
        assert isinstance(parse_rewrite(text, COLUMNS), Query)


def test_other_programs_commands_are_refused_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidInputError, match="neither a SELECT nor an expression"):
        parse("SHOW secrets LIKE 'secret'", "query")
    assert caplog.records == []


def test_nothing_is_derived_from_sqlglots_parser() -> None:
    """Where sqlglot is compiled, that ends with an error."""
    assert ExpressionSQL.Parser is FirnSQL.Parser is DuckDB.Parser
    assert ExpressionSQL.Generator is DuckDB.Generator
