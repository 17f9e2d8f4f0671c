"""polars' lazy frames over scans and results: what they read, and when."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import firn

pl = pytest.importorskip("polars")


@pytest.fixture
def db() -> firn.Database:
    db = firn.connect("memory://")
    table = db.create_table("t", partition_by=["p"])
    for p in range(3):
        table.append([{"p": p, "n": 10 * p + i, "s": f"{i}"} for i in range(4)])
    return db


@pytest.fixture
def lazy(db: firn.Database, request: pytest.FixtureRequest) -> Any:
    if request.param == "scan":
        return db.table("t", kind="lake").scan(columns=["n", "s"], where="p > 0").to_polars(lazy=True)
    return db.sql("SELECT n, s FROM t WHERE p > 0").to_polars(lazy=True)


@pytest.mark.parametrize("lazy", ["scan", "sql"], indirect=True)
def test_answers(lazy: Any) -> None:
    assert isinstance(lazy, pl.LazyFrame)
    assert sorted(lazy.collect().rows()) == [(10 * p + i, f"{i}") for p in (1, 2) for i in range(4)]
    assert lazy.select(pl.len()).collect().item() == 8
    assert lazy.head(3).collect().height == 3
    assert lazy.filter(pl.col("n") >= 21).select("s").sort("s").collect()["s"].to_list() == ["1", "2", "3"]
    assert lazy.filter(pl.col("n") >= 11).head(2).collect().height == 2
    assert lazy.filter(pl.col("n") > 99).collect().is_empty()
    joined = lazy.join(lazy, on="n").select(pl.col("s_right").count()).collect().item()
    assert joined == 8


def test_a_scan_reads_what_is_needed_at_its_snapshot(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = db.table("t", kind="lake")
    frame = table.scan().to_polars(lazy=True)
    table.append([{"p": 9, "n": 99, "s": "new"}])
    asked = []
    real = firn.Scan.to_batches

    def seen(self: firn.Scan) -> Any:
        asked.append((list(self.columns), self.limit))
        return real(self)

    monkeypatch.setattr(firn.Scan, "to_batches", seen)
    assert frame.select("n").max().collect().item() == 23
    assert frame.head(2).collect().height == 2
    assert asked == [(["n"], None), (["p", "n", "s"], 2)]


def test_a_scans_limit_holds(db: firn.Database) -> None:
    scan = db.table("t", kind="lake").scan(limit=2)
    assert scan.to_polars(lazy=True).collect().height == 2
    assert scan.to_polars(lazy=True).head(1).collect().height == 1
    assert scan.to_polars().height == 2


def test_a_relation_on_a_connection_of_the_users(db: firn.Database) -> None:
    with duckdb.connect() as mine:
        mine.execute("CREATE TABLE names AS SELECT '1' AS s, 'one' AS name")
        relation = db.table("t", kind="lake").scan(where="p = 2").to_duckdb(mine)
        found = relation.query("t", "SELECT n, name FROM t JOIN names USING (s)")
        assert found.fetchall() == [(21, "one")]
