"""The table of advice: queries."""

from __future__ import annotations

import firn
from advice import advises


def test_a_result_has_outputs(db: firn.Database) -> None:
    db.create_table("t").append([{"n": 1}])
    result = db.sql("SELECT * FROM t")
    with advises(
        "to_spark() gives a Spark DataFrame, to_arrow(), to_pandas(), to_polars() and ", names="collect"
    ):
        result.collect()
    assert result.to_arrow().num_rows == len(result.to_pandas()) == result.to_polars().height == 1


def test_tables_change_by_their_own_verbs(db: firn.Database) -> None:
    table = db.create_table("t")
    table.append([{"n": 1}, {"n": 2}])
    with advises("isn't a SELECT, which is all that sql() runs", names="DELETE FROM t"):
        db.sql("DELETE FROM t WHERE n = 1")
    with advises("isn't a SELECT, which is all that sql() runs", names="DESCRIBE t"):
        db.sql("DESCRIBE t")
    table.delete("n = 1")
    assert list(db.sql("SELECT * FROM t")) == [{"n": 2}]


def test_older_versions_are_scanned(db: firn.Database) -> None:
    table = db.create_table("t")
    first = table.append([{"n": 1}]).version
    table.append([{"n": 2}])
    with advises("; scan(at=…) reads an older one", names="'t'"):
        db.sql(f"SELECT * FROM t AT (VERSION => '{first}')")
    assert table.scan(at=first).count() == 1


def test_a_query_that_lost_its_files_runs_again(db: firn.Database) -> None:
    table = db.create_table("t", properties={"tombstone_grace": "0s"})
    for _ in range(80):
        table.append({"n": list(range(50_000))})
    query = "SELECT n FROM t"
    batches = db.sql(query).to_batches()
    next(batches)
    table.merge()
    table.sweep()
    with advises("Run the query again, or keep old versions for longer, by the table's ", names=query):
        list(batches)
    assert db.sql(query).count() == 80 * 50_000
