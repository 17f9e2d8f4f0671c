"""Queries in this process: answers as DuckDB gives them over the rows that a scan gives, on every kind of table."""

from __future__ import annotations

import datetime as dt
import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import firn
from firn.arrow import connections
from firn.arrow.types import arrow_type
from firn.bucket.local import LocalBucket
from firn.errors import InvalidInputError, NoSuchVerbError, TableNotFoundError, UnsupportedError
from firn.reads import plan_read
from firn.sql import relation
from firn.sql.in_process import DuckQuery
from firn.sql.instance import instance
from firn.sql.limits import QueryLimits
from firn.sql.relation import MANY_FILES, Stream, relation_of
from firn.units import size_text

NAN = float("nan")


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        if isinstance(value, float):
            return "NaN" if math.isnan(value) else float(f"{value:.9e}")
        if isinstance(value, dict):
            return tuple((k, plain(v)) for k, v in value.items())
        return tuple(map(plain, value)) if isinstance(value, list) else value

    return sorted((tuple(map(plain, row.values())) for row in table.to_pylist()), key=repr)


JUDGE = duckdb.connect()
"""Of all tests: to open one takes longer than most queries. Each cursor has its own tables and settings."""


def asked(query: str, **tables: pa.Table) -> list[tuple[Any, ...]]:
    """What DuckDB says over the rows themselves."""
    with JUDGE.cursor() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            duck.register(name, rows)
        return rows_of(duck.sql(query).to_arrow_table())


# -- files that DuckDB reads itself, and what Firn reads for it

COLUMNS = {
    "k": "BIGINT",
    "n": "INTEGER",
    "x": "DOUBLE",
    "f": "FLOAT",
    "s": "VARCHAR",
    "d": "DATE",
    "t": "TIMESTAMP",
    "z": "TIMESTAMP WITH TIME ZONE",
    "m": "DECIMAL(12,2)",
    "b": "BLOB",
    "h": "HUGEINT",
    "l": "DOUBLE[]",
    "o": "STRUCT(a DOUBLE, b VARCHAR)",
    "ok": "BOOLEAN",
}


def random_rows(rng: random.Random, count: int) -> pa.Table:
    def maybe(make: Any) -> list[Any]:
        return [None if rng.random() < 0.15 else make() for _ in range(count)]

    day = dt.date(2024, 1, 1)
    noon = dt.datetime(2024, 1, 1, 12)
    floats = (1.5, -0.0, 0.0, 2.25, NAN, math.inf, -math.inf, 7.0)
    arrays = {
        "k": pa.array([rng.randrange(12) for _ in range(count)], pa.int64()),
        "n": pa.array(maybe(lambda: rng.randrange(-5, 6)), pa.int32()),
        "x": pa.array(maybe(lambda: rng.choice(floats)), pa.float64()),
        "f": pa.array(maybe(lambda: rng.choice(floats)), pa.float32()),
        "s": pa.array(maybe(lambda: rng.choice(["", "a", "it's", "Ä", "zz"])), pa.string()),
        "d": pa.array(maybe(lambda: day + dt.timedelta(rng.randrange(90))), pa.date32()),
        "t": pa.array(maybe(lambda: noon + dt.timedelta(hours=rng.randrange(999))), pa.timestamp("us")),
        "z": pa.array(
            maybe(lambda: noon + dt.timedelta(hours=rng.randrange(999))), pa.timestamp("us", "UTC")
        ),
        "m": pa.array(maybe(lambda: Decimal(rng.randrange(-999, 999)) / 100), pa.decimal128(12, 2)),
        "b": pa.array(maybe(lambda: rng.choice([b"", b"\x00", b"a"])), pa.binary()),
        "h": pa.array(maybe(lambda: Decimal(rng.randrange(10**30))), pa.decimal128(38, 0)),
        "l": pa.array(maybe(lambda: [rng.choice(floats)] * rng.randrange(3)), pa.list_(pa.float64())),
        "o": pa.array(
            maybe(lambda: {"a": rng.choice(floats), "b": rng.choice(["p", None])}),
            pa.struct([("a", pa.float64()), ("b", pa.string())]),
        ),
        "ok": pa.array([rng.random() < 0.5 for _ in range(count)], pa.bool_()),
    }
    return pa.table(arrays)


TERMS = [
    "k = 3",
    "k IN (1, 2, 11)",
    "n > 2",
    "n BETWEEN -1 AND 1",
    "x > 5",
    "x >= 'NaN'::DOUBLE",
    "x = 'NaN'",
    "NOT (x <= 2)",
    "f < 1",
    "isnan(f)",
    "s = 'it''s'",
    "s LIKE 'a%'",
    "s <> ''",
    "d >= DATE '2024-02-01'",
    "t < TIMESTAMP '2024-01-20'",
    "z >= TIMESTAMPTZ '2024-01-10 00:00:00+02'",
    "m > 1.5",
    "b = 'a'",
    "h > 10",
    "o.a > 3",
    "o.a = 'NaN'",
    "l[1] > 3",
    "ok",
    "n IS NULL",
    "n IS NOT NULL",
    "coalesce(n, 0) = 0",
    "k = 1 OR n = 2 AND ok",
    "x IS DISTINCT FROM f",
    "k % 3 = 0",
]
OUTPUTS = [
    "*",
    "k, count(*) AS c, sum(n) AS n, max(x) AS hi, min(x) AS lo GROUP BY k",
    "max(f) AS f, min(f) AS g, max(o.a) AS a",
    "max(d) AS d, min(t) AS t, max(z) AS z, sum(m) AS m, max(h) AS h, sum(h) AS hh",
    "DISTINCT s, ok",
    "k, row_number() OVER (PARTITION BY k ORDER BY n, s, x, f, d, t, z, m, b, h) AS r",
    "o, l",
    "count(*) AS c",
    "list_sort(list(n)) AS ns, string_agg(s, ',' ORDER BY s) AS ss",
    "typeof(h) AS h, typeof(m) AS m, typeof(z) AS z LIMIT 1",
]


def random_query(rng: random.Random) -> str:
    output = rng.choice(OUTPUTS)
    where = rng.choice(TERMS)
    for _ in range(rng.randrange(2)):
        where = f"({where}) {rng.choice(['AND', 'OR'])} ({rng.choice(TERMS)})"
    group = ""
    if " GROUP BY " in output:
        output, _, by = output.partition(" GROUP BY ")
        group = f" GROUP BY {by}"
    limit = ""
    if " LIMIT " in output:
        output, _, rows = output.partition(" LIMIT ")
        limit = f" LIMIT {rows}"
    shape = rng.randrange(4)
    if shape == 0 and output == "*" and not group:
        on = "a.k = b.k" + rng.choice(["", " AND a.n = 2", " AND b.x > 5"])
        side = rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"])
        return f"SELECT a.k, a.s FROM t a {side} t b ON {on} WHERE a.ok IS NOT FALSE"
    if shape == 1:
        return f"WITH c AS (SELECT * FROM t WHERE {where}) SELECT {output} FROM c{group}{limit}"
    return f"SELECT {output} FROM t WHERE {where}{group}{limit}"


def grown(table: Any, rng: random.Random) -> None:
    """Appends, soft deletes, merges; files before and after a column came, and before one was widened."""
    narrow = random_rows(rng, 20).drop_columns(["z", "o"])
    table.append(narrow.set_column(narrow.schema.get_field_index("n"), "n", narrow["n"].cast(pa.int16())))
    for _ in range(rng.randrange(2, 5)):
        table.append(random_rows(rng, rng.randrange(1, 40)))
        step = rng.randrange(4)
        if step == 0:
            table.delete(rng.choice(["k = 4", "s = 'a'", "x > 2", "n IS NULL", "d < DATE '2024-01-20'"]))
        elif step == 1:
            table.merge()
    table.append(random_rows(rng, 5))


SOON = ((0, 0), (2, 2), (3, 0), (4, 1))


@pytest.mark.parametrize(
    ("seed", "store"),
    [
        # SOON has each store, partitions and none, a key (3), and soft deletes in files that DuckDB reads (4).
        pytest.param(seed, store, marks=() if (seed, place) in SOON else pytest.mark.long)
        for seed in range(8)
        for place, store in enumerate(("directory", "bucket", "memory"))
    ],
)
def test_random_queries(seed: int, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"{seed} {store}")
    if store == "bucket":
        monkeypatch.setattr(LocalBucket, "local_path", lambda self, key: None)
        monkeypatch.setattr("firn.sql.relation.STREAMED_BYTES", 0)
    if seed % 2:
        monkeypatch.setattr("firn.sql.relation.MANY_FILES", 1)
    db = firn.connect("memory://" if store == "memory" else tmp_path / "db", writer="w1")
    if seed % 4 == 3:
        table = db.create_table("t", key=["k", "ok"], journal=rng.choice(["leaderless", "writer"]))
    else:
        by = [["s"], ["month(d)"], []][seed % 3]
        table = db.create_table("t", partition_by=by, journal=rng.choice(["leaderless", "writer"]))
    grown(table, rng)
    rows = table.scan().to_arrow()
    for _ in range(25):
        query = random_query(rng)
        result = db.sql(query)
        expected = asked(query, t=rows)
        assert rows_of(result.to_arrow()) == expected, query
        assert result.count() == len(expected), query


def test_duckdb_reads_local_files_itself(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t", partition_by=["s"])
    table.append(random_rows(random.Random(1), 50))
    table.append(random_rows(random.Random(2), 50))
    relation = relation_of(plan_read(table), "t", [])
    assert (len(relation.files), relation.streams) == (len(table.snapshot().files), {})


def test_many_files_with_the_same_columns_are_looked_at_once(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)

    def unions(*columns: str) -> bool:
        return "union_by_name" in relation_of(plan_read(table, columns=columns), "t", []).sql

    table = db.create_table("t", schema={"k": "INTEGER", "late": "VARCHAR", "l": "BIGINT[]"})
    for k in range(MANY_FILES):
        table.append([{"k": k, "l": [k]}])
    assert (unions("k"), unions("l")) == (False, True)
    table.append([{"k": 1 << 40, "late": "x", "l": []}])  # as BIGINT
    assert (unions("k"), unions("late")) == (True, True)
    assert list(db.sql("SELECT max(k) AS k, min(late) AS late FROM t")) == [{"k": 1 << 40, "late": "x"}]
    table.merge()
    table = db.create_table("u")
    for k in range(MANY_FILES):
        table.append(
            pa.table({"k": pa.array([k + (1 << 40) * (k == 0)], pa.int64() if k % 2 == 0 else pa.int8())})
        )
    assert not unions("k")  # the first file has the widest type
    assert list(db.sql("SELECT sum(k) - 1099511627776 AS k FROM u")) == [{"k": sum(range(MANY_FILES))}]


def test_verified_files_have_the_footers_of_the_log(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t")
    for n in (1, 2):
        table.append([{"n": n, "s": "text"}])
    file = table.snapshot().files[0]
    body = bytearray(table.bucket.get(file.path).data)
    at = body.rindex(b"created_by") if b"created_by" in body else body.rindex(b"parquet-cpp")
    body[at] ^= 1  # nothing that a reader looks at
    table.bucket.put(file.path, bytes(body))
    assert list(db.sql("SELECT sum(n) AS n FROM t")) == [{"n": 3}]
    with pytest.raises(firn.CorruptObjectError, match="footer is wrong"):
        list(db.sql("SELECT sum(n) AS n FROM t", verify=True))
    assert list(db.sql("SELECT 1; SELECT n FROM t WHERE n = 2", script=True, verify=True)) == [{"n": 2}]
    with pytest.raises(UnsupportedError, match="verify"):
        db.sql("FROM t", verify=True, engine="spark")


@pytest.mark.parametrize(
    ("where", "files"), [("k = 2", 1), ("k >= 2", 2), ("k + 0 = 2", 3), ("k = 1 OR v = 30", 2)]
)
def test_conditions_leave_files_out(where: str, files: int, tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t")
    for k in (1, 2, 3):
        table.append([{"k": k, "v": 10 * k}])
    query = DuckQuery(db, f"SELECT * FROM t WHERE {where}")
    assert len(relation_of(query._look.reads["t"], "t", []).files) == files


def test_a_table_that_stands_twice_is_read_where_either_wants_rows(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t")
    for k in (1, 2, 3):
        table.append([{"k": k, "v": k % 2}])
    query = DuckQuery(db, "SELECT a.k, b.k FROM t a JOIN t b USING (v) WHERE a.k = 1 AND b.k = 3")
    assert len(relation_of(query._look.reads["t"], "t", []).files) == 2
    assert pa.Table.from_batches(query.batches()).to_pylist() == [{"k": 1, "k_1": 3}]


FLOATS = {
    "x": ("DOUBLE", lambda v: v, ["x"]),
    "f": ("FLOAT", lambda v: v, ["f"]),
    "l": ("DOUBLE[]", lambda v: [v], ["l[1]", "list_max(l)"]),
    "o": ("STRUCT(a DOUBLE)", lambda v: {"a": v}, ["o.a"]),
    "lo": ("STRUCT(a DOUBLE)[]", lambda v: [{"a": v}], ["lo[1].a"]),
    "ol": ("STRUCT(a DOUBLE[])", lambda v: {"a": [v]}, ["ol.a[1]"]),
    "m": ("MAP(VARCHAR, DOUBLE)", lambda v: [("p", v)], ["m['p']", "map_values(m)[1]"]),
    "mk": ("MAP(DOUBLE, BIGINT)", lambda v: [(v, 1)], ["map_keys(mk)[1]"]),
}


@pytest.mark.parametrize("name", FLOATS)
def test_nans_that_statistics_of_files_leave_out(name: str, tmp_path: Path) -> None:
    kind, make, expressions = FLOATS[name]
    db = firn.connect(tmp_path)
    rows = pa.table({"k": [1, 2, 3], name: pa.array([make(v) for v in (NAN, 1.0, 2.0)], arrow_type(kind))})
    db.create_table("t").append(rows)
    for value in expressions:
        for condition in (
            "{} > 3",
            "NOT ({} <= 2)",
            "{} = 'NaN'::DOUBLE",
            "isnan({})",
            "{} NOT BETWEEN 0 AND 5",
        ):
            assert list(db.sql(f"SELECT k FROM t WHERE {condition.format(value)}")) == [{"k": 1}], condition
        (found,) = db.sql(f"SELECT max({value}) AS hi, min({value}) AS lo FROM t")
        assert (math.isnan(found["hi"]), found["lo"]) == (True, 1.0)


def test_every_kind_of_table_in_one_query(tmp_path: Path) -> None:
    db = firn.connect(tmp_path, writer="w1")
    db.create_table("flights").append(
        [{"origin": o, "delay": n} for n, o in enumerate(["DTW", "DTW", "HNL"])]
    )
    db.create_table("more", journal="writer").append([{"origin": "DTW", "more": 7}])
    with db.create_table(
        "counts", kind="keyed", key={"origin": "VARCHAR"}, schema={"n": "BIGINT"}
    ).open() as kv:
        kv.put("DTW", {"n": 2})
        kv.put("HNL", {"n": 1}, durable=False)
    airports = db.create_table("airports", kind="records", schema={"city": "VARCHAR"})
    airports.insert_many({"DTW": {"city": "Detroit"}, "HNL": {"city": "Honolulu"}})
    db.create_table("notes", kind="records", isolation="row").insert("DTW", {"text": "windy"})
    result = db.sql(
        "SELECT city, sum(delay) AS delay, any_value(n) AS n, any_value(more) AS more, "
        "any_value(document->>'$.text') AS text FROM flights JOIN counts USING (origin) "
        "JOIN airports a ON a._id = origin LEFT JOIN notes b ON b._id = origin LEFT JOIN more USING (origin) "
        "GROUP BY 1 ORDER BY 1"
    )
    assert list(result) == [
        {"city": "Detroit", "delay": 1, "n": 2, "more": 7, "text": "windy"},
        {"city": "Honolulu", "delay": 2, "n": 1, "more": None, "text": None},
    ]
    assert sorted(result.versions) == ["airports", "counts", "flights", "more", "notes"]


def test_record_tables_are_read_at_one_commit(db: firn.Database) -> None:
    for name in ("one", "other"):
        db.create_table(name, kind="records", schema={"n": "BIGINT"}).insert("a", {"n": 1})
    result = db.sql("SELECT x.n + y.n AS n FROM one x JOIN other y USING (_id)")
    with db.begin() as tx:
        tx.update("one", "a", {"n": 5})
        tx.update("other", "a", {"n": -5})
    assert [list(result), result.versions["one"]] == [[{"n": 2}], result.versions["other"]]
    assert list(db.sql("SELECT x.n + y.n AS n FROM one x JOIN other y USING (_id)")) == [{"n": 0}]


# -- results


def test_outputs_agree(db: firn.Database) -> None:
    db.create_table("t").append([{"n": n} for n in range(30)])
    result = db.sql("SELECT n, n * 2 AS m FROM t ORDER BY n;")
    whole = result.to_arrow()
    assert whole.num_rows == result.count() == len(list(result)) == 30
    assert result.to_pandas()["m"].tolist() == result.to_polars()["m"].to_list() == whole["m"].to_pylist()
    assert pa.table(result).equals(whole)
    assert result.to_duckdb().fetchall() == [tuple(row.values()) for row in whole.to_pylist()]
    with duckdb.connect() as mine:
        assert result.to_duckdb(mine).aggregate("count(*)").fetchall() == [(30,)]
    assert result.head(2).to_pylist() == [{"n": 0, "m": 0}, {"n": 1, "m": 2}]
    assert result.schema() == whole.schema
    assert "19 " in repr(result)
    assert "<th>n<br><small>BIGINT</small></th>" in result._repr_html_()
    assert "t at " in result.explain()
    assert result.warnings == ()
    with pytest.raises(NoSuchVerbError, match="to_spark"):
        result.collect()


def test_a_plan_tells_its_engine_versions_and_files(tmp_path: Path) -> None:
    db = firn.connect(tmp_path / "db")
    table = db.create_table("t")
    keyed = db.create_table("latest", key=["k"], partition_by=["k"])
    for k in (1, 2, 3):
        version = table.append([{"k": k}]).version
        keyed.append([{"k": k}])
    db.create_table("people", kind="records", schema={"k": "BIGINT"})
    query = """
        SELECT * FROM t JOIN people USING (k) JOIN latest USING (k), t AT (VERSION => ?) s
        WHERE t.k > 1 AND latest.k = 2
    """
    about, _, plan = db.sql(query, [version]).explain().partition("\n\n")
    sizes = [f.size for f in table.snapshot().files]
    kept = f"{size_text(sum(sizes[1:]))} of {size_text(sum(sizes))}"
    assert [line.partition(": ")[0] for line in about.splitlines()] == [
        "engine duckdb",
        f"t at {table.version}",
        "people at 1",
        f"latest at {keyed.version}",
        f"t AT (VERSION => {version}) at {version}",
    ]
    told = [line.rpartition(": ")[2] for line in about.splitlines()]
    assert told[:3] == ["the default", f"2 of 3 files, {kept}", "records table"]
    assert [text[:15] for text in told[3:]] == ["1 of 3 files, 5", "3 of 3 files, 1"]
    assert "Result" in plan
    rows = [row["plan"] for row in db.sql(f"EXPLAIN {query}", [version])]
    assert rows[:5] == about.splitlines()
    assert (
        db.sql("EXPLAIN ANALYZE FROM t", engine="duckdb").to_arrow()["plan"][0].as_py()
        == "engine duckdb: engine= of the call"
    )
    said = firn.connect(tmp_path / "db", engine="duckdb").sql("FROM t").explain()
    assert said.startswith("engine duckdb: engine= of the connection\n")
    with db.begin() as tx:
        assert (
            tx.sql("FROM people").explain().startswith("engine duckdb: a transaction runs in this process\n")
        )


@pytest.mark.parametrize("value", ["DATE '10000-01-01'", "TIMESTAMP 'infinity'", "[TIMESTAMPTZ '-infinity']"])
def test_values_that_python_has_none_for(value: str, db: firn.Database) -> None:
    result = db.sql(f"SELECT {value} AS x")
    with pytest.raises(InvalidInputError, match="'x' has a value that Python has none for"):
        list(result)
    assert result.to_arrow().num_rows == 1
    text = value.split("'")[1]
    assert text in repr(result) and text in result._repr_html_()


def test_integers_of_128_bits_without_a_sign(db: firn.Database) -> None:
    assert list(db.sql("SELECT 5::UHUGEINT AS n")) == [{"n": 5}]
    with pytest.raises(InvalidInputError, match="'n' is UHUGEINT and has a value above"):
        db.sql("SELECT 340282366920938463463374607431768211455::UHUGEINT AS n").to_arrow()


def test_polars_has_no_intervals(db: firn.Database) -> None:
    result = db.sql("SELECT 1 AS n, [INTERVAL 1 DAY] AS i")
    for read in (polars.from_arrow, polars.DataFrame):
        with pytest.raises(UnsupportedError, match=r"'i' is INTERVAL.*VARCHAR"):
            read(result)
    assert pa.table(result).num_rows == 1
    with pytest.raises(UnsupportedError, match=r"'x' is INTERVAL\[\]"):
        db.sql("SELECT [INTERVAL 1 DAY] AS x").to_polars()


def test_empty_maps_have_a_type(db: firn.Database) -> None:
    assert list(db.sql("SELECT MAP {} AS m, [MAP {}] AS l")) == [{"m": [], "l": [[]]}]


def test_parameters_of_numpy_and_pandas(db: firn.Database) -> None:
    given = {
        "n": np.int64(5),
        "x": np.array([1.5]),
        "at": np.datetime64("2024-01-01T00:00:00", "ns"),
        "no": pd.NaT,
    }
    db.create_table("flights", schema={"day": "DATE"})
    for place in ("(SELECT 1)", "flights AT (VERSION => '0')"):
        text = f"SELECT $n + 1 AS n, $x AS x, $at AS at, $no AS no FROM (SELECT 1) LEFT JOIN {place} ON true"
        assert list(db.sql(text, given)) == [{"n": 6, "x": [1.5], "at": dt.datetime(2024, 1, 1), "no": None}]
    local = dt.time(12, tzinfo=dt.timezone(dt.timedelta(hours=5)))
    db.sql("CREATE TABLE spoken (at VARCHAR)")
    db.sql("INSERT INTO spoken SELECT CAST(? AS VARCHAR)", [local])
    assert list(db.sql("FROM spoken")) == [{"at": "12:00:00+05"}]


def test_a_result_stays_at_its_versions(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t")
    table.append([{"n": 1}])
    result = db.sql("SELECT sum(n) AS n FROM t")
    table.append([{"n": 10}])
    table.merge()
    assert list(result) == [{"n": 1}]
    assert list(db.sql("SELECT sum(n) AS n FROM t")) == [{"n": 11}]
    assert [type(row["n"]) for row in db.sql("SELECT sum(n) AS n FROM t")] == [int]


@pytest.mark.parametrize("store", ["directory", "bucket", "memory"])
def test_files_that_were_swept_before_the_first_row(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if store == "bucket":
        monkeypatch.setattr(LocalBucket, "local_path", lambda self, key: None)
        monkeypatch.setattr("firn.sql.relation.STREAMED_BYTES", 0)
    if store == "directory":
        monkeypatch.setattr("firn.sql.relation.MANY_FILES", 1)
    db = firn.connect("memory://" if store == "memory" else tmp_path)
    table = db.create_table("t", properties={"tombstone_grace": "0s"})
    table.append([{"n": 1}])
    table.append([{"n": 2}])
    result = db.sql("SELECT sum(n) AS n FROM t")
    old = result.versions
    table.merge()
    table.sweep()
    assert (list(result), result.versions != old) == ([{"n": 3}], True)


def test_columns_that_share_a_name_get_numbers(db: firn.Database) -> None:
    db.create_table("t").append([{"a": 1, "b": 2}])
    result = db.sql("SELECT a.*, b.*, 5 AS A, 6 AS a_1 FROM t a, t b")
    assert list(result.columns) == ["a", "b", "a_2", "b_1", "A_3", "a_1"]
    assert list(result) == [dict(zip(result.columns, (1, 2, 1, 2, 5, 6), strict=True))]
    assert (result.count(), result.head(1).num_rows) == (1, 1)


@pytest.mark.parametrize("verb", ["DESCRIBE", "SUMMARIZE"])
def test_all_columns_are_described(verb: str, db: firn.Database) -> None:
    db.create_table("t").append([{"n": 1, "m": "x"}])
    assert [row["column_name"] for row in db.sql(f"SELECT column_name FROM ({verb} t)")] == ["n", "m"]


def test_many_columns_of_one_name(db: firn.Database) -> None:
    columns = list(db.sql(f"SELECT {', '.join(['1 AS a'] * 5000)}, 2 AS a_7").columns)
    assert len(set(columns)) == 5001 and columns[:2] == ["a", "a_1"] and columns[-1] == "a_7"


def test_thousands_of_terms(db: firn.Database) -> None:
    db.create_table("flights").append([{"n": 1}])
    assert list(db.sql("FROM flights WHERE " + " AND ".join(["n = 1"] * 3000))) == [{"n": 1}]


@pytest.mark.parametrize(
    ("begin", "end"), [("(FROM ", ")"), ("(WITH a AS (SELECT 1) FROM ", ")"), ("(", ")")]
)
def test_text_is_nested_too_deeply(begin: str, end: str, db: firn.Database) -> None:
    for depth in (2000, 10_000):
        with pytest.raises(InvalidInputError, match="nested too deeply"):
            db.sql(f"FROM {begin * depth}(SELECT 1){end * depth}")
    assert db.sql("SELECT '" + "(" * 2000 + "' AS x").count() == 1


def test_the_clock_stands_still(db: firn.Database) -> None:
    result = db.sql(
        "SELECT now() AS a, current_timestamp AS b, current_date AS c, today() AS d, localtimestamp AS e, "
        "get_current_timestamp() AS f, age(DATE '2020-01-01') AS g FROM range(3)"
    )
    first = result.to_arrow()
    assert first.equals(result.to_arrow())
    row = first.to_pylist()[0]
    assert row["a"] == row["b"] == row["f"] == row["e"].replace(tzinfo=dt.timezone.utc)
    assert row["c"] == row["d"] == row["a"].date()
    assert (
        db.sql("SELECT age(DATE '2021-01-01', DATE '2020-01-01') AS g, typeof(now()) AS t").head(1).num_rows
        == 1
    )


@pytest.mark.parametrize(
    ("query", "parameters", "expected"),
    [
        ("SELECT ? AS a, ? AS b", [1, "x"], [{"a": 1, "b": "x"}]),
        ("SELECT $a AS a, $b AS b", {"a": None, "b": [1, 2]}, [{"a": None, "b": [1, 2]}]),
        ("SELECT count(*) AS n FROM t WHERE k = $1", [2], [{"n": 1}]),
        ("SELECT $1 = 'NaN'::DOUBLE AS n", [NAN], [{"n": True}]),
        ("SELECT $1 AS d", [Decimal("1.10")], [{"d": Decimal("1.10")}]),
    ],
)
def test_parameters_are_values(query: str, parameters: Any, expected: Any) -> None:
    db = firn.connect("memory://")
    db.create_table("t").append([{"k": 1}, {"k": 2}])
    assert list(db.sql(query, parameters)) == expected


# -- errors


@pytest.mark.parametrize(
    ("query", "error", "says"),
    [
        ("SELECT * FROM flihgts", TableNotFoundError, "Did you mean 'flights'"),
        ("SELECT nosuch FROM flights", InvalidInputError, "nosuch"),
        ("SELECT sum(b) FROM flights", InvalidInputError, "No function matches"),
        ("SELECT ? FROM flights", InvalidInputError, "parameter"),
        ("SELECT * FROM t, T", InvalidInputError, "can't tell apart"),
        ("SELECT count(*) FROM empty", InvalidInputError, "'empty' has no columns yet"),
        ("SELECT * FROM sqlite_master", TableNotFoundError, "sqlite_master"),
        ("SELECT * FROM '/etc/passwd'", (TableNotFoundError, InvalidInputError), "passwd"),
    ],
)
def test_bad_queries_are_refused_at_once(db: firn.Database, query: str, error: Any, says: str) -> None:
    db.create_table("flights").append([{"a": 1, "b": "x"}])
    db.create_table("empty")
    for name in ("t", "T"):
        db.create_table(name).append([{"a": 1}])
    with pytest.raises(error, match=says):
        db.sql(query)


def test_ctrl_c_interrupts_a_query() -> None:
    """DuckDB makes a RuntimeError of it, if it is what has to answer the signal."""
    for said, raised in (("Query interrupted", KeyboardInterrupt), ("something else", RuntimeError)):
        with pytest.raises(raised), instance(QueryLimits(), [], {}, []):
            raise RuntimeError(said)


@pytest.mark.parametrize("place", ["_schema", "_rows"])
def test_ctrl_c_while_duckdb_asks_for_rows(
    db: firn.Database, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    class Interrupted(Stream):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            setattr(self, place, type("Never", (), {"__getattr__": interrupted, "__call__": interrupted})())

    db.create_table("t").append([{"n": 1}])
    result = db.sql("SELECT n FROM t")
    with monkeypatch.context() as patch:
        patch.setattr(relation, "Stream", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            result.to_arrow()
    assert result.count() == 1


def test_types_that_results_dont_have(db: firn.Database) -> None:
    for value in ("'101'::BIT", "'12:00:00+01'::TIMETZ", "[1::VARIANT]", "(1, 2)"):
        with pytest.raises(UnsupportedError, match=r"'x' the type .* write CAST\(… AS VARCHAR\)"):
            db.sql(f"SELECT {value} AS x")
        assert db.sql(f"SELECT CAST({value} AS VARCHAR) AS x").columns == {"x": "VARCHAR"}
    with pytest.raises(UnsupportedError, match="or name its fields"):
        db.sql("SELECT (1, 2) AS x")


def test_a_call_behind_a_column(db: firn.Database) -> None:
    db.create_table("t").append([{"name": "a"}])
    with pytest.raises(InvalidInputError, match=r"write upper\(t\.name\) or \(t\.name\)\.upper\(\)"):
        db.sql("SELECT t.name.upper() FROM t")
    assert [tuple(row.values()) for row in db.sql("SELECT upper(t.name), (t.name).upper() FROM t")] == [
        ("A", "A")
    ]


def test_a_result_shows_its_types(db: firn.Database) -> None:
    least = -(2**127)
    result = db.sql(f"SELECT ({least})::HUGEINT AS h, 'a'::ENUM('a') AS e, '1'::JSON AS j")
    assert all(word in repr(result) for word in ("int128", "enum", "json"))
    assert str(least) in result._repr_html_()


def test_there_are_two_engines(db: firn.Database) -> None:
    for call in (lambda: db.sql("SELECT 1", engine="polars"), lambda: firn.connect("memory://", engine="")):  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="'duckdb' or 'spark'"):
            call()


def test_an_error_of_a_row_comes_with_the_rows(db: firn.Database) -> None:
    db.create_table("t").append([{"s": "1"}, {"s": "x"}])
    result = db.sql("SELECT CAST(s AS INTEGER) AS n FROM t")
    with pytest.raises(InvalidInputError, match="Could not convert string 'x'"):
        result.to_arrow()


def test_a_query_in_which_duckdbs_optimizer_fails(tmp_path: Path) -> None:
    """DuckDB 2.0.1 has an internal error here, over columns that are computed from those of a file."""
    db = firn.connect(tmp_path)
    db.sql(
        "CREATE TABLE t AS SELECT i AS id, i % 3 AS k, i::DOUBLE AS x, [i::DOUBLE] AS l FROM range(10) r(i)"
    )
    db.sql("CREATE TABLE u AS SELECT i AS n, 'nan'::DOUBLE AS x FROM range(3) r(i)")
    query = (
        "SELECT a.id, b.id AS other FROM t a, LATERAL (SELECT * FROM t b WHERE a.id = b.k) b "
        "LEFT JOIN u c ON b.id = c.n WHERE c.x > b.x ORDER BY ALL"
    )
    assert list(db.sql(query)) == [{"id": n, "other": n} for n in range(3)]
    assert (db.sql(query).count(), len(db.sql(query).head(2))) == (3, 2)
    assert list(db.sql("SELECT count(*) AS n FROM t, u")) == [{"n": 30}]  # on a DuckDB that works


def test_an_error_of_the_store_is_raised_as_it_is(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    table = db.create_table("t")
    table.append([{"n": 1}])
    result = db.sql("SELECT * FROM t")
    table.bucket.put(table.snapshot().files[0].path, b"PAR1 no more")
    with pytest.raises(firn.CorruptObjectError):
        result.to_arrow()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_text('{db}/../secret')",
        "COPY (SELECT 1) TO '{secret}'",
        "SELECT * FROM parquet_metadata('{db}/t/x')",
        "SELECT * FROM '{secret}'",
        "ATTACH '{secret}' AS s",
        "SET disabled_filesystems = ''",
    ],
)
def test_the_settings_alone_keep_a_query_inside(text: str, tmp_path: Path) -> None:
    """The second wall: even a text that was never checked finds no file but the snapshot's."""
    secret = tmp_path / "secret"
    secret.write_text("a\n1\n")
    db = firn.connect(tmp_path / "db")
    db.create_table("t").append([{"n": 1}])
    query = DuckQuery(db, "SELECT * FROM t")
    with query._instance([]) as (duck, _), pytest.raises(duckdb.Error):
        duck.execute(text.format(secret=secret, db=tmp_path / "db")).fetchall()
    assert secret.read_text() == "a\n1\n"


def test_a_kept_duckdb_shows_nothing_of_the_query_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Sequence[str]] = []

    def connect(**options: Any) -> Any:
        opened.append(options["files"])
        return open_duckdb(**options)

    open_duckdb = connections.connect
    monkeypatch.setattr(connections, "connect", connect)
    mine, theirs = firn.connect(tmp_path / "mine"), firn.connect(tmp_path / "theirs")
    for number, db in enumerate((mine, theirs, mine, theirs)):
        db.create_table(f"t{number // 2}").append([{"n": number}])
    query = "SELECT n, today() = current_date AS today FROM t0"
    for db, n in [(mine, 0), (theirs, 1)] * 2:
        assert list(db.sql(query)) == [{"n": n, "today": True}]
    assert [len(files) for files in opened] == [1, 1]  # each reaches the files of its database alone
    assert list(mine.sql("SELECT (SELECT n FROM t0) + (SELECT n FROM t1) AS n")) == [{"n": 2}]
    assert len(opened) == 3
    assert list(mine.sql("FROM t1")) == [{"n": 2}]
    assert len(opened) == 3
    with pytest.raises(TableNotFoundError):
        mine.sql("FROM t2")
    batches = mine.sql("FROM t1").to_batches()
    next(batches)
    assert list(mine.sql("FROM t1")) == [{"n": 2}]  # beside one that is open
    assert len(opened) == 4


def test_a_kept_duckdb_ends_with_the_directory_that_it_spills_to(tmp_path: Path) -> None:
    with firn.connect(tmp_path / "db", spill=tmp_path / "spill") as db:
        db.create_table("t").append([{"n": 1}])
        assert list(db.sql("FROM t")) == [{"n": 1}]
        where = db.engines.limits.spill
        assert where is not None
        path = where.path()
        assert [key for key in connections._idle if key[2] == path]
    assert [key for key in connections._idle if key[2] == path] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_read_rows_on(tmp_path: Path) -> None:
    """It has none of the threads that would compute them, and would wait for ever."""
    db = firn.connect(tmp_path)
    table = db.create_table("t")
    for _ in range(20):
        table.append({"n": list(range(50_000))})
    result = db.sql("SELECT n FROM t")
    begun = result.to_batches()
    read = next(begun).num_rows
    child = os.fork()
    if not child:
        try:
            list(begun)
        except firn.InvalidInputError as error:
            os._exit(0 if "forked" in str(error) and result.count() == 1_000_000 else 2)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert read + sum(batch.num_rows for batch in begun) == 1_000_000


def test_no_jvm_and_no_spark(tmp_path: Path) -> None:
    program = (
        "import sys, firn\n"
        f"db = firn.connect({str(tmp_path / 'db')!r})\n"
        "db.create_table('t').append([{'n': 1}])\n"
        "assert list(db.sql('SELECT n FROM t')) == [{'n': 1}]\n"
        "assert 'pyspark' not in sys.modules and 'py4j' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
