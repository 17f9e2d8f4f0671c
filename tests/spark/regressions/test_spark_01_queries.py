"""`append(query=…)` took DuckDB's text to Spark, which answers otherwise: 2.7 as BIGINT was 2 there, and is 3."""

from __future__ import annotations

import datetime as dt
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import firn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_query_stores_what_it_stores_of_arrow_rows(spark: SparkSession, db: firn.Database) -> None:
    rows = [
        {"id": i, "x": x, "s": s, "d": d, "a.b": i}
        for i, (x, s, d) in enumerate(
            [(1.6, "aaa", dt.date(2001, 1, 31)), (2.7, "hello", None), (None, None, None)]
        )
    ]
    query = (
        "SELECT id, CAST(x AS BIGINT) AS x, x::INT::UTINYINT AS u, regexp_replace(s, 'a', 'b') AS s, "
        "left(s, -2) AS l, date_diff('month', d, DATE '2001-02-01') AS m, \"a.b\" + 1 AS \"a.b\", "
        "[x, 1] AS list, {'f': x} AS struct, '{x}' AS braces, x * 2::UBIGINT AS big FROM _rows WHERE id < 5"
    )
    arrow, frames = db.create_table("arrow"), db.create_table("frames")
    arrow.append(rows, query=query)
    frame = spark.createDataFrame(rows, "id long, x double, s string, d date, `a.b` long")
    frames.append(frame.repartition(2), query=query)
    assert frames.snapshot().columns == arrow.snapshot().columns
    by_id = itemgetter("id")
    assert sorted(frames.scan().to_arrow().to_pylist(), key=by_id) == arrow.scan().to_arrow().to_pylist()


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("SELECT sum(v) AS v FROM _rows", "aggregate"),
        ("SELECT geomean(v) AS v FROM _rows", "aggregate"),
        ("SELECT g, count(*) AS n FROM _rows GROUP BY g", "GROUP"),
        ("SELECT DISTINCT g FROM _rows", "DISTINCT"),
        ("SELECT v FROM _rows ORDER BY v", "ORDER"),
        ("SELECT v FROM _rows LIMIT 1", "LIMIT"),
        ("SELECT row_number() OVER () AS n FROM _rows", "window"),
        ("SELECT v FROM _rows WHERE v IN (SELECT max(v) FROM _rows)", "subquery"),
        ("SELECT a.v FROM _rows a JOIN _rows b ON a.v = b.v", "JOIN"),
        ("SELECT v FROM _rows UNION ALL SELECT v FROM _rows", "UNION"),
        ("WITH r AS (SELECT v FROM _rows) SELECT v FROM r", "WITH"),
        ("SELECT v FROM _rows USING SAMPLE 1", "SAMPLE"),
        ("SELECT v FROM _rows TABLESAMPLE 10%", "sample"),
        ("SELECT TIME '12:00' AS t FROM _rows", "TIME"),
    ],
)
def test_a_query_that_looks_at_several_rows_is_refused(
    spark: SparkSession, db: firn.Database, query: str, part: str
) -> None:
    table = db.create_table("queried", schema={"v": "BIGINT"})
    with pytest.raises(firn.UnsupportedError, match=part):
        table.append(spark.range(0, 10, 1, 3).selectExpr("id % 2 AS g", "id AS v"), query=query)
    assert not list(Path(db.url).rglob("*.parquet"))
