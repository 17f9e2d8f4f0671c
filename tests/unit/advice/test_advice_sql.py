"""The table of advice: queries."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from advice import advises
from firn.sql import instance


def test_a_result_has_outputs(db: firn.Database) -> None:
    db.create_table("t").append([{"n": 1}])
    result = db.sql("SELECT * FROM t")
    with advises(
        "to_spark() gives a Spark DataFrame, to_arrow(), to_pandas(), to_polars() and ", names="collect"
    ):
        result.collect()
    assert result.to_arrow().num_rows == len(result.to_pandas()) == result.to_polars().height == 1


def test_other_statements_are_listed(db: firn.Database) -> None:
    db.create_table("t").append([{"year": 2023, "n": 1}])
    with advises("as in PIVOT t ON year IN (2023, 2024) USING sum(n)", names="PIVOT t ON year"):
        db.sql("PIVOT t ON year USING sum(n)")
    assert len(db.sql("PIVOT t ON year IN (2023, 2024) USING sum(n)").columns) == 2
    with advises("SHOW TABLES is a statement of its own", names="(SHOW TABLES)"):
        db.sql("SELECT * FROM (SHOW TABLES)")
    assert db.sql("SHOW TABLES").count() == 1


def test_a_keyed_table_is_changed_by_its_writer(db: firn.Database) -> None:
    table = db.create_table("stock", kind="keyed", key={"id": "BIGINT"}, schema={"n": "BIGINT"})
    insert = "INSERT INTO stock VALUES (1, 5)"
    with advises("Open it (open()), or say that whoever ", names="stock"):
        db.sql(insert)
    db.sql(insert, fence=True)
    with table.open() as kv:
        db.sql(insert)
        assert kv.get(1) == {"n": 5}


def test_a_query_that_reads_too_much_is_told_what_to_do(db: firn.Database) -> None:
    table = db.create_table("t", partition_by=["a"])
    table.append({"a": [1] * 3000 + [2] * 3000, "n": [n * 2654435761 % 2**48 for n in range(6000)]})
    with advises(
        " that leaves files out makes it less, and so do fewer columns; else give a larger in_process, or ",
        names="A condition on a",
    ):
        db.sql("FROM t", in_process="30KB").to_arrow()
    assert db.sql("FROM t WHERE a = 1", in_process="30KB").count() == 3000
    assert db.sql("FROM t", in_process="1MB").to_arrow().num_rows == 6000


def test_a_query_that_needs_too_much_memory_spills(
    db: firn.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance, "memory_limit", lambda: 40 << 20)
    query = "SELECT i, md5(i::VARCHAR) AS hash FROM range(1000000) AS t(i) ORDER BY hash"
    with advises(': connect with spill="a directory", or use ', names="ORDER BY hash"):
        db.sql(query).count()
    with firn.connect("memory://", spill=tmp_path) as spilling:
        assert spilling.sql(query).to_arrow().num_rows == 1_000_000


def test_versions_are_written_behind_names(db: firn.Database) -> None:
    table = db.create_table("t")
    first = table.append([{"n": 1}]).version
    table.append([{"n": 2}])
    with advises("write AT (VERSION => v) or AT (TIMESTAMP => e) behind the table's name", names="'t'"):
        db.sql(f"SELECT * FROM t x(n) AT (VERSION => '{first}')")
    assert db.sql(f"SELECT * FROM t AT (VERSION => '{first}')").count() == 1


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


def test_statements_of_two_dialects_name_their_parameters(db: firn.Database) -> None:
    db.create_table("t").append([{"n": 1}])
    update = "UPDATE t SET n = n * {}"
    with advises("give its parameters by name, ", names="UPDATE t"):
        db.sql(update.format("?"), [2], engine="spark")
    db.sql(update.format("$more"), {"more": 2}, engine="spark")
    assert list(db.sql("FROM t")) == [{"n": 2}]


def test_a_query_whose_columns_changed_is_asked_again(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t", properties={"tombstone_grace": "0s"})
    table.append([{"n": 1}])
    table.append([{"n": 2}])
    late, counted = db.sql("FROM t"), db.sql("SELECT count(*) AS n FROM t")
    table.alter(rename={"n": "m"})
    table.merge()
    table.sweep()
    with advises("versions give it other columns: run the query again.", names="'FROM t'"):
        late.to_arrow()
    assert db.sql("FROM t").count() == 2
    assert list(counted) == [{"n": 2}]
