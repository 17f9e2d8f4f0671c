"""Which conjuncts of a query prune which table: the rule, case by case, on parsed text alone."""

from __future__ import annotations

import pytest
from sqlglot import exp

from firn.predicate.dialect import parse, to_duckdb
from firn.predicate.pushdown import conjuncts_by_table, used_columns
from firn.sql.tables import table_nodes

COLUMNS = {
    "f": {
        "k": "BIGINT",
        "v": "BIGINT",
        "s": "VARCHAR",
        "d": "DATE",
        "x": "DOUBLE",
        "t": "TIMESTAMP",
        "b": "BOOLEAN",
        "y": "BLOB",
    },
    "g": {"k": "BIGINT", "w": "BIGINT", "name": "VARCHAR"},
}


def pruned(query: str) -> dict[str, list[str]]:
    """Table alias → what prunes it."""
    tree = parse(query, "query")
    nodes = {id(node): node for node in table_nodes(tree)}

    def columns_of(node: exp.Table) -> dict[str, str] | None:
        return COLUMNS[node.name] if id(node) in nodes else None

    return {
        nodes[number].alias_or_name: sorted(to_duckdb(conjunct) for conjunct in found)
        for number, found in conjuncts_by_table(tree, columns_of).items()
    }


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM f WHERE k = 1", {"f": ['"k" = 1']}),
        (
            "SELECT * FROM f WHERE 1 < K AND (v >= -2 AND s <> 'a')",
            {"f": ["\"s\" <> 'a'", '"v" >= -2', '1 < "k"']},
        ),
        (
            "SELECT * FROM f WHERE k IN (1, 2) AND v BETWEEN 1 AND 2",
            {"f": ['"k" IN (1, 2)', '"v" BETWEEN 1 AND 2']},
        ),
        ("SELECT * FROM f WHERE k IS NOT NULL", {"f": ['NOT "k" IS NULL']}),
        ("SELECT * FROM f WHERE k = 1 OR k = 3 OR v IN (4)", {"f": ['"k" = 1 OR "k" = 3 OR "v" IN (4)']}),
        ("SELECT * FROM f WHERE d >= DATE '2001-01-01'", {"f": ["\"d\" >= CAST('2001-01-01' AS DATE)"]}),
        ("SELECT * FROM f AS a WHERE a.k = 1", {"a": ['"k" = 1']}),
        ("SELECT * FROM f WHERE s LIKE 'a%'", {"f": ["\"s\" LIKE 'a%'"]}),
        # Text of which both engines make the same bytes stands for bytes; other text doesn't
        ("SELECT * FROM f WHERE y = 'a'", {"f": ["\"y\" = 'a'"]}),
        (
            r"SELECT * FROM f WHERE y > '\xFF'::BLOB AND y <> 'é' AND y < '\xFF'",
            {"f": [r"""!y! > CAST('\xFF' AS BLOB)""".replace("!", '"')]},
        ),
        (r"SELECT * FROM f WHERE s LIKE 'a\%' OR s LIKE k", {}),
        ("SELECT * FROM f WHERE b = true", {"f": ['"b" = TRUE']}),
        # ON of inner joins, each side its own
        (
            "SELECT * FROM f JOIN g ON f.k = g.k AND f.v > 1 AND g.w < 5 WHERE name = 'a'",
            {"f": ['"v" > 1'], "g": ["\"name\" = 'a'", '"w" < 5']},
        ),
        # WHERE above an outer join: it isn't true for the nulls that the join makes up
        ("SELECT * FROM f LEFT JOIN g ON f.k = g.k WHERE g.w = 1", {"g": ['"w" = 1']}),
        ("SELECT * FROM f FULL JOIN g ON f.k = g.k WHERE f.v = 1", {"f": ['"v" = 1']}),
        ("SELECT * FROM f, g WHERE f.k = 1 AND g.k = 2", {"f": ['"k" = 1'], "g": ['"k" = 2']}),
        # each SELECT its own: subqueries, CTEs, set operations, correlated ones
        ("WITH c AS (SELECT * FROM f WHERE k = 1) SELECT * FROM c WHERE v = 2", {"f": ['"k" = 1']}),
        ("SELECT * FROM (SELECT * FROM f WHERE k = 1) AS q WHERE q.v = 2", {"f": ['"k" = 1']}),
        (
            "SELECT k FROM f WHERE k = 1 UNION ALL SELECT k FROM g WHERE w = 2",
            {"f": ['"k" = 1'], "g": ['"w" = 2']},
        ),
        (
            "SELECT * FROM f WHERE k NOT IN (SELECT g.k FROM g WHERE g.w = 3) AND v = 1",
            {"f": ['"v" = 1'], "g": ['"w" = 3']},
        ),
        (
            "SELECT * FROM f a JOIN f b ON a.k = b.k WHERE a.v = 1 AND b.v = 2",
            {"a": ['"v" = 1'], "b": ['"v" = 2']},
        ),
        ("SELECT * FROM f JOIN (SELECT 1 AS one) q ON true WHERE f.k = 1", {"f": ['"k" = 1']}),
    ],
)
def test_prunes(query: str, expected: dict[str, list[str]]) -> None:
    assert pruned(query) == expected


@pytest.mark.parametrize(
    "query",
    [
        # true for nulls, or for rows without the value
        "SELECT * FROM f WHERE k IS NULL",
        "SELECT * FROM f WHERE k = 1 OR k IS NULL",
        "SELECT * FROM f WHERE coalesce(k, 1) = 1",
        "SELECT * FROM f WHERE k IS NOT DISTINCT FROM 1",
        "SELECT * FROM f WHERE NOT (k = 1)",
        "SELECT * FROM f WHERE k IS DISTINCT FROM 1",
        "SELECT * FROM f WHERE CASE WHEN k = 1 THEN true END",
        "SELECT * FROM f WHERE k + 1 = 2",
        "SELECT * FROM f WHERE k = v",
        "SELECT * FROM f WHERE k = NULL",
        # ON where a join is outer; kinds of join with rules of their own
        "SELECT * FROM f LEFT JOIN g ON f.k = g.k AND f.v = 1 AND g.w = 1",
        "SELECT * FROM f RIGHT JOIN g ON f.k = g.k AND f.v = 1",
        "SELECT * FROM f FULL JOIN g ON f.k = g.k AND g.w = 1",
        "SELECT * FROM f JOIN g ON f.k = g.k AND g.w = 1 LEFT JOIN f AS h ON h.k = g.k",
        "SELECT * FROM f ASOF JOIN g ON f.k >= g.k WHERE w = 1",
        "SELECT * FROM f ANTI JOIN g ON f.k = g.k AND g.w = 1",
        "SELECT * FROM f SEMI JOIN g ON f.k = g.k WHERE v = 1",
        "SELECT * FROM f POSITIONAL JOIN g WHERE f.v = 1",
        # more than one table, or which one is unknown
        "SELECT * FROM f JOIN g ON true WHERE k = 1",
        "SELECT * FROM f JOIN g ON true WHERE f.v = 1 OR g.w = 1",
        "SELECT * FROM f JOIN (SELECT 1 AS v) q ON true WHERE v = 1",
        "SELECT * FROM f FULL JOIN g USING (k) WHERE k = 1",
        "SELECT * FROM f AS a, f AS a WHERE a.k = 1",
        "SELECT * FROM f AS a(v, k) WHERE a.k = 1",
        "SELECT * FROM f WHERE nosuch = 1",
        "SELECT * FROM f WHERE g.k = 1",
        # another SELECT's predicates
        "WITH c AS (SELECT * FROM f) SELECT * FROM c WHERE c.k = 1",
        "SELECT * FROM (SELECT * FROM f LIMIT 3) WHERE k = 1",
        "SELECT *, row_number() OVER (ORDER BY k) AS n FROM f QUALIFY n = 1",
        "SELECT k FROM f GROUP BY k HAVING k = 1",
        "SELECT * FROM g WHERE EXISTS (SELECT 1 FROM f WHERE g.w = 1)",
        # samples, pivots, lateral and unnested sources
        "SELECT * FROM f TABLESAMPLE 10% WHERE k = 1",
        "SELECT * FROM f WHERE k = 1 USING SAMPLE 3",
        "SELECT * FROM f PIVOT (sum(v) FOR s IN ('a', 'b')) WHERE k = 1",
        "SELECT * FROM f, LATERAL (SELECT f.k + 1 AS n) q WHERE f.k = 1",
        "SELECT * FROM f, unnest([1, 2]) u(n) WHERE f.k = 1",
        # literals of another family
        "SELECT * FROM f WHERE k = '1'",
        "SELECT * FROM f WHERE s = 1",
        "SELECT * FROM f WHERE d >= '2001-01-01'",
        "SELECT * FROM f WHERE d >= TIMESTAMP '2001-01-01 00:00:00'",
        "SELECT * FROM f WHERE k IN (1, 'a')",
        "SELECT * FROM f WHERE t = DATE '2001-01-01'",
        "SELECT * FROM f WHERE b = 1",
        # a name that the SELECT list gives to something else
        "SELECT v * 2 AS k FROM f WHERE k = 1",
        # nested joins
        "SELECT * FROM (f JOIN g ON f.k = g.k) WHERE f.v = 1",
    ],
)
def test_prunes_nothing(query: str) -> None:
    assert pruned(query) == {}


def test_a_struct_field_of_the_same_name_is_not_the_column() -> None:
    tree = parse("SELECT * FROM f WHERE s.k = 1", "query")
    assert conjuncts_by_table(tree, lambda node: {"s": "STRUCT(k BIGINT)", "k": "BIGINT"}) == {}


@pytest.mark.parametrize(
    ("query", "used"),
    [
        ("SELECT k FROM f WHERE v > 1", ["k", "v"]),
        ("SELECT count(*) FROM f", ["k"]),
        ("SELECT count(*) FROM f JOIN g USING (k)", ["k"]),
        ("SELECT K FROM f ORDER BY 1", ["k"]),
        ("SELECT * FROM f", list(COLUMNS["f"])),
        ("SELECT count(*) FROM (SELECT f.* FROM f)", list(COLUMNS["f"])),
        ("SELECT count(*) FROM f NATURAL JOIN g", list(COLUMNS["f"])),
        ("SELECT f FROM f", list(COLUMNS["f"])),
        ("SELECT a FROM f AS a", list(COLUMNS["f"])),
        ("SELECT main.f FROM f", list(COLUMNS["f"])),
        ("FROM f", list(COLUMNS["f"])),
        # columns by their places
        ("SELECT #2 FROM f", list(COLUMNS["f"])),
        ("SELECT k FROM f WHERE #2 = 5", list(COLUMNS["f"])),
        ("SELECT f.v FROM f f(v)", list(COLUMNS["f"])),
        ("SELECT k FROM ((f)) AS a(v, k)", list(COLUMNS["f"])),
        ("WITH c(v, k) AS (SELECT k, v FROM f) SELECT k FROM c", ["k", "v"]),
    ],
)
def test_used_columns(query: str, used: list[str]) -> None:
    assert used_columns(parse(query, "query"))(COLUMNS["f"]) == used


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM f", ["f"]),
        ('SELECT * FROM "my table" JOIN f ON true', ["my table", "f"]),
        ("WITH f AS (SELECT * FROM f) SELECT * FROM f", ["f"]),
        ("WITH a AS (SELECT * FROM f), b AS (SELECT * FROM a) SELECT * FROM b, A", ["f"]),
        ("WITH RECURSIVE r AS (SELECT k FROM f UNION ALL SELECT k FROM r) SELECT * FROM r", ["f"]),
        ("SELECT * FROM (WITH g AS (SELECT 1) SELECT * FROM g) JOIN g ON true", ["g"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a", ["b"]),
        ("SELECT (SELECT max(k) FROM g) FROM f", ["g", "f"]),
        ("SELECT 1", []),
    ],
)
def test_ctes_shadow_tables_where_they_are_visible(query: str, tables: list[str]) -> None:
    assert sorted(node.name for node in table_nodes(parse(query, "query"))) == sorted(tables)


def test_bytes_with_escapes_are_the_same_bytes_in_spark() -> None:
    from firn.predicate.dialect import to_spark

    tree = parse(r"SELECT * FROM f WHERE y IN ('a\x00\xff'::BLOB, 'b')", "query")
    assert to_spark(tree) == "SELECT * FROM `f` WHERE `y` IN (X'6100ff', 'b')"


def test_a_column_in_the_place_of_a_unit_of_time_is_used() -> None:
    """sqlglot takes it for the unit itself, and writes short ones out."""
    tree = parse("SELECT date_trunc(unit, at), date_diff(h, at, at) FROM t", "query")
    assert used_columns(tree)(dict.fromkeys(("unit", "h", "hour", "at", "x"), "VARCHAR"))[:2] == ["unit", "h"]
    assert "x" not in used_columns(tree)({"at": "TIMESTAMP", "x": "BIGINT"})
