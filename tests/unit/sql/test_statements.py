"""Statements that change tables, on all kinds: what they do, what they count, and what they refuse."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

import firn
from firn.database import engines
from firn.errors import (
    CardinalityError,
    DuplicateKeyError,
    FirnError,
    InvalidInputError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.predicate.parameters import literal, with_values
from firn.predicate.words import statements, words
from firn.sql.syntax.heads import read_statement
from firn.sql.syntax.statements import CreateTable, Insert, Merge, QueryStatement

CREATE = {
    "lake": "CREATE TABLE t (id BIGINT, city VARCHAR, n INTEGER)",
    "key": "CREATE TABLE t (id BIGINT, city VARCHAR, n INTEGER, PRIMARY KEY (id))",
    "keyed": "CREATE TABLE t (id BIGINT PRIMARY KEY, city VARCHAR, n INTEGER) WITH (kind = 'keyed')",
    "records": "CREATE TABLE t (_id VARCHAR, city VARCHAR, n INTEGER) WITH (kind = 'records')",
    "writer": "CREATE TABLE t (id BIGINT, city VARCHAR, n INTEGER) WITH (journal = 'writer')",
}


class Sql:
    """Statements of a test, in any kind of table: the id's column is called `id` in them."""

    def __init__(self, kind: str) -> None:
        self.db = firn.connect("memory://", writer="w" if kind == "writer" else None)
        self.kind = kind
        self(CREATE[kind])

    def __call__(self, text: str, *args: Any, **options: Any) -> firn.Result:
        if self.kind == "records":
            for before, after in (("(id", "(_id"), (" id", " _id"), (".id", "._id")):
                text = text.replace(before, after)
        return self.db.sql(text, *args, fence=True, **options)

    def counts(self, text: str, *args: Any, **options: Any) -> tuple[Any, ...]:
        outcome = self(text, *args, **options).outcome
        assert outcome is not None
        return (outcome.rows_inserted or 0, outcome.rows_updated or 0, outcome.rows_deleted or 0)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted((int(row[0]), *row[1:]) for row in map(tuple, map(dict.values, self("FROM t"))))


@pytest.fixture(params=list(CREATE))
def sql(request: pytest.FixtureRequest) -> Sql:
    return Sql(request.param)


def test_rows_come_change_and_go(sql: Sql) -> None:
    assert sql.counts("INSERT INTO t VALUES (1, 'Ann Arbor', 5), (2, 'Bonn', NULL)") == (2, 0, 0)
    assert sql.counts("INSERT INTO t (n, id) VALUES (?, ?)", [7, 3]) == (1, 0, 0)
    assert sql.counts("INSERT INTO t BY NAME SELECT 4 AS id, 'O''Hare' AS city") == (1, 0, 0)
    assert sql.rows() == [(1, "Ann Arbor", 5), (2, "Bonn", None), (3, None, 7), (4, "O'Hare", None)]
    assert sql.counts("UPDATE t SET n = coalesce(n, 0) + 1, city = upper(city) WHERE id <> 3") == (0, 3, 0)
    assert sql.rows() == [(1, "ANN ARBOR", 6), (2, "BONN", 1), (3, None, 7), (4, "O'HARE", 1)]
    assert sql.counts("DELETE FROM t AS x WHERE x.city LIKE '%O%' AND x.n = 1") == (0, 0, 2)
    assert sql.rows() == [(1, "ANN ARBOR", 6), (3, None, 7)]
    sql("TRUNCATE t")
    assert sql.rows() == []


def test_a_merge_with_every_clause(sql: Sql) -> None:
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)")
    source = [{"k": 1, "n": 10}, {"k": 2, "n": None}, {"k": 3, "n": 30}, {"k": 9, "n": 90}, {"k": 8, "n": -1}]
    found = sql.counts(
        """
        MERGE INTO t USING given AS s ON t.id = s.k  -- a comment; with a semicolon
        WHEN MATCHED AND s.n IS NULL THEN DELETE
        WHEN MATCHED AND s.n > 20 THEN DO NOTHING
        WHEN MATCHED THEN UPDATE SET n = t.n + s.n, city = 'new'
        WHEN NOT MATCHED AND s.n > 0 THEN INSERT (id, n) VALUES (s.k, CASE WHEN s.n > 1 THEN s.n ELSE 0 END)
        WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 0;
        """.replace("= s.k ", "= s.k::VARCHAR " if sql.kind == "records" else "= s.k "),
        tables={"given": source},
    )
    assert found == (1, 2, 1)
    assert sql.rows() == [(1, "new", 11), (3, "c", 3), (4, "d", 0), (9, None, 90)]


@pytest.mark.parametrize("kind", ["lake", "key", "keyed", "writer"])
def test_a_merge_takes_a_query_and_all_columns(kind: str) -> None:
    sql = Sql(kind)
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    source = "SELECT id, city, t.n + more.n AS n FROM t, more WHERE t.n = 2 UNION ALL SELECT 5, 'e', 5"
    update = (
        "UPDATE SET *" if kind != "key" else "UPDATE SET n = s.n"
    )  # that table would be upserted, uncounted
    merge = f"MERGE INTO t USING ({source}) s USING (id) WHEN MATCHED THEN {update} WHEN NOT MATCHED THEN INSERT *"
    assert sql.counts(f"WITH more AS (SELECT 10 AS n) {merge}") == (1, 1, 0)
    assert sql.rows() == [(1, "a", 1), (2, "b", 12), (5, "e", 5)]


def test_given_rows_have_their_columns_of_nulls(sql: Sql) -> None:
    """Of nothing but null, so that they have no type of their own."""
    sql("INSERT INTO t VALUES (1, 'a', 1)")
    known: dict[str, Any] = {"_id": "1"} if sql.kind == "records" else {"id": 1}
    given = {"s": [{**known, "city": None, "n": None}]}
    sql("UPDATE t SET n = s.n FROM s WHERE t.id = s.id", tables=given)
    assert sql.rows() == [(1, "a", None)]
    sql("MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET city = s.city", tables=given)
    assert sql.rows() == [(1, None, None)]


def test_delete_using_and_update_from(sql: Sql) -> None:
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    given = {"s": [{"m": 2}, {"m": 2}, {"m": 3}]}
    assert sql.counts("DELETE FROM t USING s WHERE t.n = s.m", tables=given) == (0, 0, 2)
    assert sql.counts(
        "UPDATE t SET n = s.m FROM (SELECT max(m) AS m FROM s) AS s WHERE t.n = 1", tables=given
    ) == (0, 1, 0)
    assert sql.rows() == [(1, "a", 3)]
    with pytest.raises(CardinalityError):
        sql("UPDATE t SET n = s.m FROM s WHERE true", tables=given)
    assert sql.rows() == [(1, "a", 3)]


@pytest.mark.parametrize("kind", ["keyed", "records"])
def test_on_conflict_takes_any_name_of_a_column(kind: str) -> None:
    db = firn.connect("memory://")
    key, id = ("_id", "'1'") if kind == "records" else ("id", "1")
    columns = "_id VARCHAR" if kind == "records" else "id BIGINT PRIMARY KEY"
    db.sql(f'CREATE TABLE t ({columns}, "q""t" BIGINT, "a\'b" BIGINT, "a.b" BIGINT) WITH (kind = \'{kind}\')')
    for n in (1, 2):
        db.sql(f"INSERT INTO t VALUES ({id}, {n}, {n}, {n}) ON CONFLICT ({key}) DO UPDATE", fence=True)
        db.sql(f"INSERT INTO t VALUES ({id}, 9, 9, 9) ON CONFLICT DO NOTHING", fence=True)
    db.sql('UPDATE t SET "a.b" = 3', fence=True)
    assert [tuple(row.values())[1:] for row in db.sql("FROM t")] == [(2, 2, 3)]


def test_columns_of_record_tables_are_no_json_schema() -> None:
    db = firn.connect("memory://")
    db.sql("CREATE TABLE t (\"$1\" BIGINT) WITH (kind = 'records')")
    assert list(db.sql("FROM t").columns) == ["_id", "$1"]
    with pytest.raises(InvalidInputError, match="rename it"):
        db.sql("CREATE TABLE u (n BIGINT, \"$ref\" VARCHAR) WITH (kind = 'records')")


@pytest.mark.parametrize("kind", ["keyed", "records"])
def test_on_conflict(kind: str) -> None:
    sql = Sql(kind)
    sql("INSERT INTO t VALUES (1, 'a', 1)")
    assert sql.counts("INSERT INTO t VALUES (1, 'z', 9), (2, 'b', 2) ON CONFLICT DO NOTHING") == (1, 0, 0)
    update = "ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n"
    assert sql.counts(f"INSERT INTO t VALUES (1, 'z', 9), (3, 'c', 3) {update}") == (1, 1, 0)
    assert sql.counts("INSERT INTO t VALUES (2, 'new', 5) ON CONFLICT DO UPDATE SET * WHERE t.n < 9") == (
        0,
        1,
        0,
    )
    assert sql.rows() == [(1, "a", 10), (2, "new", 5), (3, "c", 3)]
    with pytest.raises(UnsupportedError, match="names the key's columns"):
        sql("INSERT INTO t VALUES (1, 'z', 9) ON CONFLICT (city) DO NOTHING")


def test_on_conflict_of_lake_tables() -> None:
    keyed, plain = Sql("key"), Sql("lake")
    keyed("INSERT INTO t VALUES (1, 'a', 1)")
    keyed("INSERT INTO t VALUES (1, 'z', 9), (2, 'b', 2) ON CONFLICT (id) DO UPDATE")
    assert keyed.rows() == [(1, "z", 9), (2, "b", 2)]
    with pytest.raises(UnsupportedError, match="MERGE INTO"):
        plain("INSERT INTO t VALUES (1, 'z', 9) ON CONFLICT DO UPDATE")


def test_rows_are_put_in_place_of_others() -> None:
    sql = Sql("lake")
    sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2)")
    sql("INSERT INTO t REPLACE WHERE n = 2 SELECT 7, 'c', 2")
    assert sql.rows() == [(1, "a", 1), (7, "c", 2)]
    assert sql("INSERT OVERWRITE t SELECT * FROM t WHERE n = 1").outcome.op == "overwrite"  # type: ignore[union-attr]
    assert sql.rows() == [(1, "a", 1)]
    with pytest.raises(UnsupportedError, match="replaced one by one"):
        Sql("keyed")("INSERT OVERWRITE t SELECT 1, 'a', 1")


def test_types_of_literals_dont_widen_columns() -> None:
    db = firn.connect("memory://")
    db.sql("CREATE TABLE t (s SMALLINT, at TIMESTAMP, d DATE, x DOUBLE, b BIGINT)")
    db.sql("INSERT INTO t VALUES (1, now(), '2024-02-01', 1, 3), (2, '2024-01-01 10:00', NULL, 2.5, 4)")
    db.sql("INSERT INTO t (b) SELECT sum(b) FROM t")
    assert db.table("t").snapshot().columns == {  # type: ignore[union-attr]
        "s": "SMALLINT", "at": "TIMESTAMP", "d": "DATE", "x": "DOUBLE", "b": "BIGINT"
    }  # fmt: skip
    with pytest.raises(InvalidInputError, match="40000"):
        db.sql("INSERT INTO t (s) VALUES (40000)")
    db.sql("INSERT INTO t (b) VALUES (1.5)")  # as append does
    assert db.table("t").snapshot().columns["b"] != "BIGINT"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "values", "found"),
    [
        ("VARCHAR", "(1), (2.50)", ["1", "2.50"]),
        ("VARCHAR", "(true), ('x')", ["true", "x"]),
        ("VARCHAR", "(DATE '2024-01-01'), (TIMESTAMP '2024-01-01')", ["2024-01-01", "2024-01-01 00:00:00"]),
        ("DOUBLE", "(1.5), ('inf')", [1.5, float("inf")]),
        ("INTEGER", "('5' -- five\n), (2)", [5, 2]),
        ("DATE", "('2024-01-01'), (DATE '2024-01-02')", [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]),
        ("BLOB", "('a'), ('b'::BLOB)", [b"a", b"b"]),
        ("STRUCT(a DOUBLE, b VARCHAR)", "({'a': 1, 'b': 2}), ({'a': '2', 'b': 'x'})",
         [{"a": 1.0, "b": "2"}, {"a": 2.0, "b": "x"}]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("table", ["lake", "keyed"])
def test_each_value_is_cast_by_itself(table: str, kind: str, values: str, found: list[Any]) -> None:
    db = firn.connect("memory://")
    db.sql(f"CREATE TABLE t (k BIGINT, x {kind}, PRIMARY KEY (k)) WITH (kind = '{table}')")
    each = values.replace("(", "(1, ", 1).replace("), (", "), (2, ")
    db.sql(f"INSERT INTO t VALUES {each}", fence=True)
    assert [row["x"] for row in db.sql("FROM t ORDER BY k")] == found


def test_a_value_beside_a_cast_one_widens_its_column(db: firn.Database) -> None:
    db.sql("CREATE TABLE t (n INTEGER, m INTEGER)")
    db.sql("INSERT INTO t VALUES (2.5, '5'), (1, 2)")
    assert list(db.sql("FROM t")) == [{"n": Decimal("2.5"), "m": 5}, {"n": Decimal("1.0"), "m": 2}]
    for wrong in ("('x'), (1)", "(nosuch), (1)"):
        with pytest.raises(InvalidInputError, match=r"x|nosuch"):
            db.sql(f"INSERT INTO t (m) VALUES {wrong}")


def test_tables_are_made_told_and_dropped(db: firn.Database) -> None:
    texts = [
        "CREATE TABLE a (\n  date TIMESTAMP,\n  origin VARCHAR,\n  delay INTEGER\n)\nPARTITIONED BY (month(date))\n"
        "SORTED BY (date, delay DESC)\nWITH (target_size = '256MB');",
        "CREATE TABLE b (\n  id BIGINT,\n  \"at\" TIMESTAMP,\n  PRIMARY KEY (id)\n)\nWITH (version_by = 'at');",
        "CREATE TABLE c (\n  k VARCHAR,\n  n BIGINT,\n  PRIMARY KEY (k)\n)\n"
        "WITH (kind = 'keyed', merge_operator = 'add', ttl = '60000ms');",
        "CREATE TABLE d\nWITH (kind = 'records', indices = 'city, email unique, tags[]');",
    ]
    for text in texts:
        db.sql(text)
    told = [row["sql"] for name in "abcd" for row in db.sql(f"SHOW CREATE TABLE {name}")]
    assert told == texts
    assert [tuple(row.values()) for row in db.sql("SHOW TABLES")] == [
        ("a", "lake"), ("b", "lake"), ("c", "keyed"), ("d", "records")
    ]  # fmt: skip
    assert db.sql("CREATE TABLE IF NOT EXISTS a (z INTEGER)").outcome is not None
    with pytest.raises(TableExistsError):
        db.sql("CREATE TABLE a (z INTEGER)")
    assert [row["column_type"] for row in db.sql("DESCRIBE a")] == ["TIMESTAMP", "VARCHAR", "INTEGER"]
    db.sql("DROP TABLE a")
    db.sql("DROP TABLE IF EXISTS a")
    with pytest.raises(TableNotFoundError):
        db.sql("DROP TABLE a")


def test_a_table_of_a_query_is_there_whole_or_not_at_all(db: firn.Database) -> None:
    db.create_table("t").append([{"n": 1}, {"n": 2}])
    for kind, key in (("lake", ""), ("keyed", "(PRIMARY KEY (n))"), ("records", "")):
        with pytest.raises(InvalidInputError):
            db.sql(f"CREATE TABLE copy {key} WITH (kind = '{kind}') AS SELECT CAST('x' AS INT) AS n FROM t")
        assert db.tables() == ["t"]
    done = db.sql("CREATE TABLE copy AS SELECT n, n * 2 AS twice FROM t").outcome
    assert done is not None and done.rows_inserted == 2
    assert db.sql("SELECT sum(twice) AS s FROM copy").to_arrow()["s"].to_pylist() == [6]


def test_plans_and_summaries(db: firn.Database) -> None:
    db.create_table("t").append([{"n": 1}, {"n": 2}])
    assert "n > 1" in "\n".join(row["plan"] for row in db.sql("EXPLAIN SELECT * FROM t WHERE n > 1"))
    assert any("Time" in row["plan"] for row in db.sql("EXPLAIN ANALYZE SELECT count(*) FROM t"))
    assert [row["max"] for row in db.sql("SUMMARIZE t")] == ["2"]
    assert db.sql("SELECT count(*) AS n FROM (DESCRIBE SELECT 1 AS a, 2 AS b)").to_arrow()[
        "n"
    ].to_pylist() == [2]


def test_verbs_are_called(db: firn.Database) -> None:
    table = db.create_table("t")
    for n in range(3):
        table.append([{"n": n}])
    done = db.sql("CALL merge(t, target_size => '64MB')").outcome
    assert done is not None and (done.op, done.files_removed, done.files_added) == ("merge", 3, 1)
    (merged,) = db.sql("CALL merge(t)")
    assert merged["version"] is None and merged["bytes_added"] == 0 and merged["dry_run"] is False
    (swept,) = db.sql("CALL sweep(t, dry_run => true)")
    planned = table.sweep(dry_run=True)
    assert swept["op"] == "sweep" and swept["dry_run"] is True
    assert (swept["data_files"], swept["logs"], swept["bytes"]) == (
        len(planned.data_files),
        len(planned.logs),
        planned.bytes,
    )
    (checkpoint,) = db.sql("CALL checkpoint(t)")
    assert checkpoint["logs"] == table.checkpoint()
    with pytest.raises(InvalidInputError, match="there are merge, sweep"):
        db.sql("CALL drop_everything(t)")
    with pytest.raises(InvalidInputError, match=r"merge takes no nope\. It takes target_size, partitions"):
        db.sql("CALL merge(t, nope => 1)")
    with pytest.raises(InvalidInputError, match="takes no self"):
        db.sql("CALL merge(t, self => 1)")
    with pytest.raises(InvalidInputError, match=r"restore needs at => …\. It takes at, dry_run"):
        db.sql("CALL restore(t, Dry_Run => true)")
    with pytest.raises(InvalidInputError, match=r"isn't a literal: [^(]*$"):
        db.sql("CALL merge(t, target_size => (SELECT 1))")
    db.sql("CREATE TABLE people WITH (kind = 'records')")
    db.sql("INSERT INTO people VALUES ('ann', '{}')")
    copied = db.sql("CALL copy(people, target => 'history', changes => true)").outcome
    assert copied is not None and (copied.op, copied.rows_inserted) == ("copy", 1)
    assert [row["_kind"] for row in db.sql("FROM history")] == ["put"]
    db.sql("CREATE TABLE counts (id BIGINT PRIMARY KEY, n BIGINT) WITH (kind = 'keyed')")
    db.sql("INSERT INTO counts VALUES (1, 5)", fence=True)
    (kept,) = db.sql("CALL checkpoint(counts, name => 'first')")
    assert [kept["id"]] == [one.id for one in db.table("counts", kind="keyed").checkpoints()]
    (compacted,) = db.sql("CALL compact(counts)")
    assert (compacted["l0_files"], compacted["rows_out"]) == (1, 1)
    (collected,) = db.sql("CALL sweep(counts)")
    assert collected["ssts"] == 0 and collected["live_ssts"] == 1
    (swept,) = db.sql("CALL sweep(people)")
    assert swept["versions"] == swept["damaged"] == 0
    path = table.snapshot().files[0].path
    with pytest.raises(InvalidInputError, match="can be read, so t keeps it"):
        db.sql(f"CALL forget_files(t, paths => ['{path}'])")


def test_given_rows_are_tables_of_one_statement(db: firn.Database) -> None:
    frame = pa.table({"n": [1, 2]})
    assert db.sql("SELECT sum(n) AS s FROM Given", tables={"given": frame}).to_pandas()["s"].tolist() == [3]
    t = db.create_table("t")
    t.append([{"n": 5}])
    result = db.sql("SELECT a.n + b.n AS n FROM a, b", tables={"a": t.scan(), "b": db.sql("SELECT 1 AS n")})
    assert list(result) == [{"n": 6}] == list(result)
    with pytest.raises(TableNotFoundError):
        db.sql("FROM given")


def test_a_keyed_table_is_changed_by_its_writer(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.sql(CREATE["keyed"])
    with pytest.raises(InvalidInputError, match="fence=True"):
        db.sql("INSERT INTO t VALUES (1, 'a', 1)")
    with db.table("t", kind="keyed").open() as kv:
        kv.put(1, {"city": "a", "n": 1}, durable=False)
        db.sql("UPDATE t SET n = n + 1")
        assert kv.get(1) == {"city": "a", "n": 2}
        with pytest.raises(InvalidInputError, match="of the key of t"):
            db.sql("UPDATE t SET id = 5")


def test_rows_of_one_key_are_stored_and_counted_once(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.sql(CREATE["keyed"])
    rows = "VALUES (1, 'a', 1), (2, 'b', 1), (1, 'c', 2)"
    for statement in (f"INSERT INTO t {rows}", f"INSERT INTO t {rows} ON CONFLICT DO UPDATE"):
        done = db.sql(statement, fence=True).outcome
        assert done is not None and done.rows_inserted == 2
        assert sorted(tuple(row.values()) for row in db.sql("FROM t")) == [(1, "c", 2), (2, "b", 1)]


def test_records_with_any_field(db: firn.Database) -> None:
    db.sql("CREATE TABLE p WITH (kind = 'records', indices = 'email unique')")
    db.sql("INSERT INTO p (_id, email, age) VALUES ('a', 'a@x', 3), ('b', 'b@x', NULL)")
    db.sql("""INSERT INTO p (_id, document) VALUES ('c', '{"email": "c@x", "home": {"zip": 1}}')""")
    db.sql("UPDATE p SET age = NULL, home.zip = 2 WHERE _id <> 'b'")
    found = {row.id: dict(row.document) for row in db.table("p", kind="records").scan()}  # type: ignore[union-attr]
    assert found == {
        "a": {"email": "a@x", "home": {"zip": 2}}, "b": {"email": "b@x"}, "c": {"email": "c@x", "home": {"zip": 2}}
    }  # fmt: skip
    with pytest.raises(DuplicateKeyError):
        db.sql("INSERT INTO p (_id, email) VALUES ('d', 'a@x')")
    with pytest.raises(InvalidInputError, match="needs an _id"):
        db.sql("INSERT INTO p (email) VALUES ('q@x')")


def test_indexed_fields_are_columns(tmp_path: Path) -> None:
    db = firn.connect(tmp_path / "db", allow_files=[tmp_path])
    rows = {
        "a": {"email": "a@x", "age": 3, "tags": ["x"], "home": {"zip": "007"}, "more": None},
        "b": {"email": "b@x", "age": "?"},
    }
    for name in ("p", "q"):
        db.sql(
            f"CREATE TABLE {name} WITH (kind = 'records', indices = 'email unique, age, tags[], home.zip')"
        )
    db.table("p", kind="records").insert_many(rows)  # type: ignore[union-attr]

    def documents(name: str = "q") -> dict[str, Any]:
        return {row.id: row.document for row in db.table(name, kind="records").scan()}  # type: ignore[union-attr]

    found = list(db.sql("SELECT * EXCLUDE (document) FROM p ORDER BY Email"))
    assert found == [
        {"_id": "a", "age": "3", "email": "a@x", "home.zip": "007", "tags": '["x"]'},
        {"_id": "b", "age": "?", "email": "b@x", "home.zip": None, "tags": None},
    ]
    db.sql("INSERT INTO q SELECT * FROM p")
    assert documents() == rows  # in the types that they had
    db.sql("INSERT INTO q BY NAME SELECT _id, email, document FROM p ON CONFLICT DO UPDATE")
    assert documents() == rows
    db.sql("INSERT INTO q VALUES ('c', 5, 'c@x', NULL, NULL, '{\"n\": 1}')")
    with db.begin() as tx:
        tx.sql("UPDATE q SET Age = 6 WHERE email = 'c@x'")
        assert list(tx.sql("SELECT age FROM q WHERE _id = 'c'")) == [{"age": "6"}]
    assert documents()["c"] == {"n": 1, "age": 6, "email": "c@x"}
    for kind in ("csv", "json", "parquet"):
        db.sql("TRUNCATE q")
        db.sql(f"COPY p TO '{tmp_path}/p.{kind}'")
        db.sql(f"COPY q FROM '{tmp_path}/p.{kind}'")
        assert documents() == rows
    db.sql("UPDATE q SET document = '{\"n\": 2}' WHERE _id = 'b'")
    assert documents()["b"] == {"n": 2}
    with pytest.raises(InvalidInputError, match="sets a document to NULL"):
        db.sql("UPDATE q SET document = NULL")
    with pytest.raises(InvalidInputError, match="2 values for 6 columns of q: _id, age, email"):
        db.sql("INSERT INTO q VALUES ('d', '{}')")


def test_rows_alone_change_one_by_one(db: firn.Database) -> None:
    db.sql("CREATE TABLE p (n INTEGER) WITH (kind = 'records', isolation = 'row')")
    db.sql("INSERT INTO p VALUES ('a', 1), ('b', 2)")
    db.sql("UPDATE p SET n = n + 1 WHERE _id = 'a'")
    db.sql("DELETE FROM p WHERE _id = 'b'")
    assert list(db.sql("FROM p")) == [{"_id": "a", "n": 2}]
    with pytest.raises(UnsupportedError, match="one row of it"):
        db.sql("INSERT INTO p VALUES ('c', 1)")
        db.sql("UPDATE p SET n = 0")


REFUSED = [
    ("DELETE t", "FROM should stand here, and not 't' (line 1, column 8)"),
    ("INSERT INTO t VALUES (1)", "1 values for 3 columns of t"),
    ("INSERT INTO t (id, id) VALUES (1, 2)", "stands twice"),
    ("INSERT INTO t (nope) VALUES (1)", "no column 'nope'"),
    ("UPDATE t SET n = 1, n = 2", "set twice"),
    ("UPDATE t SET n = (SELECT 1)", "subquery"),
    ("UPDATE t SET n = getenv('HOME')", "getenv"),
    ("UPDATE t\nSET n = nope", "nope"),
    ("DELETE FROM t WHERE id IN (SELECT 1)", "subquery"),
    ("MERGE INTO t USING t AS s ON true", "WHEN MATCHED or WHEN NOT MATCHED"),
    ("MERGE INTO t USING (SELECT 1) ON true WHEN MATCHED THEN DELETE", "a query needs a name"),
    ("MERGE INTO t USING t AS s ON true WHEN MATCHED THEN INSERT *", "UPDATE or DELETE, DO NOTHING or ERROR"),
    ("MERGE INTO t USING t AS s ON true WHEN NOT MATCHED THEN DELETE", "INSERT, DO NOTHING or ERROR"),
    ("INSERT INTO t VALUES (1, 'a', 1) RETURNING id", "RETURNING"),
    ("INSERT INTO t DEFAULT VALUES", "the others get their defaults"),
    ("INSERT OR REPLACE INTO t VALUES (1, 'a', 1)", "ON CONFLICT DO UPDATE"),
    ("CREATE OR REPLACE TABLE t (a INT)", "INSERT OVERWRITE"),
    ("CREATE TABLE x (a INT UNIQUE)", "nobody would enforce"),
    ("CREATE TABLE x (a INT NOT NULL)", "NOT NULL of 'a'"),
    ("CREATE TABLE x (a INT) WITH (kind = 'no')", "there are 'lake'"),
    ("CREATE TABLE x (a NOTATYPE)", "NOTATYPE"),
    ("CREATE TABLE x (a INT) PARTITION BY (a)", "PARTITIONED BY, SORTED BY, WITH or AS"),
    ("CREATE TABLE x (a INT, A INT)", "the column 'A' stands twice"),
    ("CREATE VIEW v AS SELECT 1", "only tables"),
    ("ALTER TABLE t ADD COLUMN x INT, DROP nope", "no column 'nope'"),
    ("BEGIN", "Database.begin"),
    ("ATTACH 'x.db'", "this database alone"),
    ("SET threads = 1", "this database alone"),
    ("PRAGMA database_list", "this database alone"),
    ("SELECT 1; SELECT 2", "2 statements"),
    ("DROP TABLE other.t", "without a schema"),
    ("TRUNCATE t CASCADE", "should end here"),
    ("INSERT INTO t SELECT * FROM read_csv('/etc/passwd')", "read_csv"),
    ("MERGE INTO t USING (FROM glob('*')) s ON true WHEN MATCHED THEN DELETE", "glob"),
]


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_what_is_refused_changes_nothing(text: str, words: str) -> None:
    sql = Sql("lake")
    sql("INSERT INTO t VALUES (1, 'a', 1)")
    version = sql.db.table("t").version  # type: ignore[union-attr]
    with pytest.raises(FirnError) as failure:
        sql.db.sql(text)
    assert words in str(failure.value) and "firn:" not in str(failure.value)
    assert sql.db.table("t").version == version and sql.db.tables() == ["t"]  # type: ignore[union-attr]


def test_heads() -> None:
    assert read_statement("-- hi\nSELECT 1") == QueryStatement("-- hi\nSELECT 1")
    made = read_statement(
        'create table "My T" (a DECIMAL(4, 2), "b c" STRUCT(x INT, y VARCHAR[])) with (a.b = \'c\')'
    )
    assert isinstance(made, CreateTable)
    assert (made.table, made.columns) == ("My T", {"a": "DECIMAL(4, 2)", "b c": "STRUCT(x INT, y VARCHAR[])"})
    assert made.options == {"a.b": "c"}
    insert = read_statement(
        "INSERT INTO main.t (a) SELECT x FROM y JOIN z ON y.a = z.a ON CONFLICT DO NOTHING;"
    )
    assert isinstance(insert, Insert) and insert.query == "SELECT x FROM y JOIN z ON y.a = z.a"
    merge = read_statement(
        "MERGE INTO t USING s ON t.a = CASE WHEN s.b THEN 1 ELSE 2 END WHEN MATCHED THEN DELETE"
    )
    assert isinstance(merge, Merge) and merge.on.endswith("ELSE 2 END")


def test_scripts_keep_their_places() -> None:
    text = "SELECT ';' AS a; -- x;\n\n  SELECT é;\n;;"
    found = list(statements(text))
    assert [one.strip() for one in found] == ["SELECT ';' AS a", "SELECT é"]
    assert found[1].index("SELECT") == text.index("SELECT é")
    assert [word.text for word in words("é 'ü'")] == ["é", "'ü'"]


LITERALS: list[Any] = [
    None, True, 0, -5, 2**62, 1.5, -0.0, float("inf"), Decimal("1.10"), Decimal("-0.001"), Decimal("12E2"),
    "it's \\ $1 ?",
    "", b"\x00\xff", dt.date(2024, 2, 1), dt.datetime(2024, 2, 1, 3, 4, 5, 6),
    dt.time(1, 2, 3), dt.timedelta(days=-1),
    dt.timedelta(days=400, microseconds=3),
    dt.datetime(2024, 2, 1, tzinfo=dt.timezone.utc), UUID(int=5), [1, None, 3], {"a": 1, 'b"': ["x"]},
]  # fmt: skip


@pytest.fixture(scope="module")
def duck() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.mark.parametrize("value", LITERALS, ids=repr)
def test_parameters_are_literals_of_their_type(value: Any, duck: Any) -> None:
    text, bound = duck.execute(f"SELECT {literal(value)}, $1", [value]).fetchone()
    assert text == bound or (str(text), str(bound)) == ("nan", "nan")
    told = duck.execute(f"SELECT CAST({literal(value)} AS VARCHAR), CAST($1 AS VARCHAR)", [value]).fetchone()
    assert told[0] == told[1]  # 24 hours are equal to a day, and not the same


def test_parameters_that_dont_fit() -> None:
    assert (
        with_values("a = ? AND b = '?' -- ?\n AND c = ?", [1, "x"]) == "a = 1 AND b = '?' -- ?\n AND c = 'x'"
    )
    assert with_values("$b + $a + $b", {"a": 1, "b": 2}) == "2 + 1 + 2"
    for text, values in (("?", []), ("?", [1, 2]), ("$a", {"b": 1}), ("$2", [1])):
        with pytest.raises(InvalidInputError, match="parameter"):
            with_values(text, values)
    with pytest.raises(InvalidInputError, match="object can't be a parameter"):
        literal(object())


def test_ids_stand_once_in_an_insert() -> None:
    db = firn.connect("memory://")
    db.sql("CREATE TABLE t (n BIGINT) WITH (kind = 'records')")
    with pytest.raises(CardinalityError, match="several rows of the source have the id 'a'"):
        db.sql("INSERT INTO t VALUES ('a', 1), ('a', 2)")
    assert list(db.sql("FROM t")) == []


@pytest.mark.parametrize("text", ["SELECT '\ud800'", "INSERT INTO t VALUES ('\udfff')", "\ud800"])
def test_text_that_is_not_unicode(text: str) -> None:
    with pytest.raises(InvalidInputError, match="isn't Unicode"):
        firn.connect("memory://").sql(text)
    with pytest.raises(InvalidInputError, match="isn't Unicode"):
        firn.connect("memory://").sql(text, script=True)


def test_messages_stay_short() -> None:
    with pytest.raises(InvalidInputError) as found:
        firn.connect("memory://").sql("x" * 1_000_000)
    assert len(str(found.value)) < 1000


def test_quoted_columns_order_and_part_rows() -> None:
    db = firn.connect("memory://")
    db.sql(
        'CREATE TABLE t ("a b" DATE, "p,q" BIGINT, "z desc" BIGINT) PARTITIONED BY (month("a b"), "p,q") '
        'SORTED BY ("a b" DESC, "p,q", "z desc")'
    )
    text = db.sql("SHOW CREATE TABLE t").to_arrow()["sql"][0].as_py()
    db.sql("DROP TABLE t")
    db.sql(text)
    assert db.sql("SHOW CREATE TABLE t").to_arrow()["sql"][0].as_py() == text
    assert 'SORTED BY ("a b" DESC, "p,q"' in text


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ("a INTEGER, UNIQUE (a)", "can't be UNIQUE"),
        ("a INTEGER, CONSTRAINT x PRIMARY KEY (a)", "can't be CONSTRAINT"),
        ("a INTEGER PRIMARY KEY, b INTEGER PRIMARY KEY", "has its key already"),
        ("a INTEGER PRIMARY KEY, PRIMARY KEY (a)", "has its key already"),
    ],
)
def test_constraints_that_cannot_be(columns: str, says: str) -> None:
    with pytest.raises(FirnError, match=says):
        firn.connect("memory://").sql(f"CREATE TABLE t ({columns})")


@pytest.mark.parametrize(
    "value", ["?", "$size", "'2' || 'MB'", "concat('2', 'MB')", "concat($two, 'MB')", "$$2MB$$"]
)
def test_values_of_options_can_be_expressions(value: str) -> None:
    db = firn.connect("memory://")
    given = {"?": ["2MB"], "$size": {"size": "2MB"}, "concat($two, 'MB')": {"two": "2"}}.get(value)
    db.sql(f"CREATE TABLE t (n BIGINT) WITH (target_size = {value})", given)
    db.sql("CREATE TABLE u (n BIGINT)")
    db.sql(f"ALTER TABLE u SET (target_size = {value})", given)
    for name in ("t", "u"):
        assert "target_size = '2MB'" in db.sql(f"SHOW CREATE TABLE {name}").to_arrow()["sql"][0].as_py()
    with pytest.raises(InvalidInputError, match=r"no value for its parameter|isn't a literal"):
        db.sql(f"ALTER TABLE u SET (target_size = {value if given else 'getenv(1)'})")


def test_calls_take_times() -> None:
    db = firn.connect("memory://")
    db.sql("CREATE TABLE t (n BIGINT)")
    db.sql("INSERT INTO t VALUES (1)")
    then = db.table("t").history()[0].time
    db.sql("INSERT INTO t VALUES (2)")
    db.sql("CALL restore(t, at => ?)", [then])
    assert list(db.sql("FROM t")) == [{"n": 1}]
    db.sql("INSERT INTO t VALUES (3)")
    db.sql(f"CALL restore(t, at => TIMESTAMPTZ '{then.isoformat()}' + INTERVAL 0 DAY)")
    assert list(db.sql("FROM t")) == [{"n": 1}]


KINDS = {
    "UUID": "'00000000-0000-0000-0000-00000000000a'", "JSON": "'{}'", "ENUM('a', 'b')": "'a'",
    "INTEGER[3]": "[1, 2, 3]", "UHUGEINT": "7", "HUGEINT": "7", "TIMESTAMP_S": "'2024-01-01 00:00:00'",
    "STRUCT(d DATE, n SMALLINT)": "{'n': 5, 'd': '2024-01-01'}", "DOUBLE[]": "[1.5]", "MAP(VARCHAR, UUID)": "MAP {}",
}  # fmt: skip


def test_statements_keep_the_types_of_columns() -> None:
    db = firn.connect("memory://")
    names = {f"x{n}": (kind, value) for n, (kind, value) in enumerate(KINDS.items())}
    values = ", ".join(KINDS.values())
    cast = ", ".join(f"CAST({value} AS {kind}) AS {name}" for name, (kind, value) in names.items())
    texts = ", ".join(f"'y' AS {name}" for name in names)
    bare = ", ".join(f"{value} AS {name}" for name, (_, value) in names.items())
    same = " AND ".join(f"t.{name} = s.{name}" for name in names)
    db.sql(f"CREATE TABLE t (id INTEGER, {', '.join(f'{name} {kind}' for name, (kind, _) in names.items())})")
    db.sql(f"INSERT INTO t VALUES (1, {values})")
    db.sql(f"INSERT INTO t BY NAME SELECT {cast}, 2 AS id")
    merge = "MERGE INTO t USING (SELECT {} AS id, {}) s ON t.id = s.id {}"
    db.sql(merge.format(3, cast, "WHEN NOT MATCHED THEN INSERT *"))
    db.sql(merge.format(4, texts, f"WHEN NOT MATCHED THEN INSERT VALUES (4, {values})"))
    sets = ", ".join(f"{name} = s.{name}" for name in names)
    merged = db.sql(merge.format(3, bare, f"AND {same} WHEN MATCHED THEN UPDATE SET {sets}")).outcome
    assert merged is not None and merged.rows_updated == 1
    db.sql(f"UPDATE t SET {', '.join(f'{name} = {name}' for name in names)} WHERE id = 1")
    db.sql("INSERT OVERWRITE t FROM t")
    kinds = ", ".join(f"typeof({name}) AS {name}" for name in names)
    assert list(db.sql(f"SELECT DISTINCT {kinds}, count(*) AS n FROM t GROUP BY ALL")) == [
        {**{name: kind for name, (kind, _) in names.items()}, "n": 4}
    ]


def test_expressions_have_the_columns_types() -> None:
    """A HUGEINT is a decimal in Arrow, whose `//` rounds."""
    db = firn.connect("memory://")
    db.sql("CREATE TABLE t (id INTEGER, h HUGEINT)")
    db.sql("INSERT INTO t VALUES (1, 7), (2, 7)")
    db.sql("UPDATE t SET h = h // 2 WHERE id = 1 AND h // 2 = 3 AND typeof(h) = 'HUGEINT'")
    source = "(SELECT id, sum(h) AS h FROM t WHERE id = 2 GROUP BY id)"
    db.sql(
        f"MERGE INTO t USING {source} s ON t.h // 2 = s.h // 2 WHEN MATCHED THEN UPDATE SET h = s.h // 2 + 10"
    )
    assert [row["h"] for row in db.sql("SELECT h FROM t ORDER BY id")] == [3, 13]


def test_queries_of_verbs_compute_in_the_types_of_columns(db: firn.Database) -> None:
    db.sql("CREATE TABLE t (id INTEGER, h HUGEINT, u UUID, mood ENUM ('ok', 'sad'))")
    table: Any = db.table("t")
    for n in (1, 2):
        db.sql(f"INSERT INTO t SELECT {n}, 7, uuid(), 'sad'")
    whole = "h // 2 = 3 AND typeof(h) = 'HUGEINT' AND typeof(u) = 'UUID' AND mood > 'ok'"
    before = table.snapshot().columns
    table.merge(query=f"SELECT * FROM source_files WHERE {whole}")
    table.rewrite(query=f"SELECT * REPLACE (h // 2 AS h) FROM _rows WHERE {whole}")
    table.append(db.sql("SELECT id, h FROM t"), query="SELECT id, h // 2 AS h FROM _rows WHERE id = 1")
    assert table.snapshot().columns == before
    assert sorted((row["id"], row["h"]) for row in db.sql("FROM t")) == [(1, 1), (1, 3), (2, 3)]


def test_sources_have_values_that_python_has_none_for() -> None:
    db = firn.connect("memory://")
    source = "(SELECT 1 AS id, DATE 'infinity' AS d, TIMESTAMP '290000-01-01' AS at)"
    db.sql("CREATE TABLE t (id INTEGER, d DATE, at TIMESTAMP)")
    db.sql(f"INSERT INTO t FROM {source}")
    merge = "MERGE INTO t USING {} s ON t.d = s.d AND t.at = s.at WHEN MATCHED THEN UPDATE SET id = s.id + 1"
    assert db.sql(merge.format(source)).outcome.rows_updated == 1  # type: ignore[union-attr]
    with pytest.raises(CardinalityError, match="two rows of the source"):
        db.sql(merge.format(f"(FROM {source} UNION ALL FROM {source})"))
    with pytest.raises(InvalidInputError, match="'d' has a value that Python has none for"):
        list(db.sql("FROM t"))
    for kind, key in (("keyed", "id INTEGER PRIMARY KEY, "), ("records", "")):
        db.sql(f"CREATE TABLE {kind} ({key}d DATE) WITH (kind = '{kind}')")
        with pytest.raises(InvalidInputError, match="that Python has none for"):
            db.sql(f"INSERT INTO {kind} SELECT '1', DATE 'infinity'", fence=True)
        db.sql(f"INSERT INTO {kind} SELECT '1', DATE '2024-01-01'", fence=True)
        with pytest.raises(InvalidInputError, match="that Python has none for"):
            db.sql(f"UPDATE {kind} SET d = DATE 'infinity'", fence=True)


@pytest.mark.parametrize("on", ["t.l = s.l", "t.m = s.m", "t.s = s.s"])
def test_nested_columns_match(on: str) -> None:
    db = firn.connect("memory://")
    db.sql("CREATE TABLE t (id INTEGER, l INTEGER[], m MAP(VARCHAR, INTEGER), s STRUCT(a INTEGER))")
    db.sql("INSERT INTO t VALUES (1, [], MAP {}, {'a': 1}), (2, [1], MAP {'a': 1}, {'a': 2})")
    source = "(SELECT [] AS l, MAP {} AS m, {'a': 1} AS s, NULL AS n)"
    done = db.sql(
        f"MERGE INTO t USING {source} s ON {on} WHEN MATCHED THEN UPDATE SET id = 9, l = s.l, m = s.m"
    )
    assert done.outcome.rows_updated == 1  # type: ignore[union-attr]
    assert sorted(row["id"] for row in db.sql("FROM t")) == [2, 9]


@pytest.mark.parametrize("kind", ["keyed", "records"])
def test_maps_are_values_of_every_kind(kind: str) -> None:
    db = firn.connect("memory://")
    key = "id INTEGER PRIMARY KEY, " if kind == "keyed" else ""
    db.sql(f"CREATE TABLE t ({key}m MAP(VARCHAR, INTEGER)) WITH (kind = '{kind}')")
    db.sql("INSERT INTO t VALUES ('1', MAP {'a': 1})", fence=True)
    db.sql("UPDATE t SET m = map_concat(m, MAP {'b': 2})", fence=True)
    assert list(db.sql("SELECT m['a'] AS a, m['b'] AS b FROM t")) == [{"a": 1, "b": 2}]


def test_the_history_keeps_a_statement_without_its_values(db: firn.Database) -> None:
    for key in ("", ", PRIMARY KEY (id)"):
        db.sql(f"CREATE TABLE t (id BIGINT, city VARCHAR{key})")
        db.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        db.sql("UPDATE t SET city = 'secret' WHERE city = 'a'")
        db.sql("MERGE INTO t USING (VALUES (3, 'secret')) s(id, city) ON t.id = s.id "
               "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.city || 'secret')")  # fmt: skip
        said = [commit.summary.get("statement") for commit in db.table("t", kind="lake").history()][-2:]
        assert said[0] == "UPDATE t SET city = ? WHERE city = ?"
        assert str(said[1]).endswith("WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.city || ?)")
        assert "secret" not in str(said)
        db.drop_table("t")


def test_of_two_new_rows_with_one_id_the_first_is_kept_only_where_that_is_asked_for() -> None:
    db = firn.connect("memory://")
    db.create_table("r", kind="records", schema={"n": "BIGINT"})
    rows = "INSERT INTO r VALUES ('z', 1), ('z', 2) ON CONFLICT DO "
    with pytest.raises(CardinalityError, match="several rows of the source have the id 'z'"):
        db.sql(rows + "UPDATE")
    db.sql(rows + "NOTHING")
    assert [tuple(row.values()) for row in db.sql("FROM r")] == [("z", 1)]


def test_a_result_keeps_its_types_when_it_is_appended() -> None:
    db = firn.connect("memory://")
    kinds = {"id": "UUID", "doc": "JSON", "mood": "ENUM('a', 'b')", "n": "HUGEINT"}
    t, new = db.create_table("t", schema=kinds), db.create_table("new")
    db.sql("INSERT INTO t SELECT uuid(), '{}', 'a', 3")
    t.append(db.sql("FROM t"))
    new.append(db.sql("FROM t"))
    assert db.sql("FROM t").columns == db.sql("FROM new").columns == kinds


def test_tasks_of_a_statement_in_duckdbs_sql_run_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a session is active; verbs go to it."""
    asked = []
    monkeypatch.setattr(engines, "_active_session", lambda: asked.append(True))
    db = firn.connect(tmp_path)
    db.sql("CREATE TABLE t (n INTEGER)")
    db.sql("INSERT INTO t VALUES (1), (2)")
    for text in (
        "UPDATE t SET n = n + 1 WHERE n = 1",
        "MERGE INTO t USING (SELECT 2 AS n) s ON t.n = s.n WHEN MATCHED THEN DELETE",
        "DELETE FROM t WHERE n = 3",
        "CALL merge(t)",
    ):
        db.sql(text)
        assert asked == []
    db.sql("INSERT INTO t VALUES (1)")
    db.table("t").update(where="n = 1", set={"n": "2"})
    assert asked


def test_calls_that_cant_be_say_what_can() -> None:
    db = firn.connect("memory://")
    db.sql("CREATE TABLE t (n BIGINT)")
    db.sql("CREATE TABLE r (n BIGINT) WITH (kind = 'records')")
    for text, message in (
        ("sweep(t, dry => true)", "It takes older_than, orphans, dry_run[.]"),
        ("restore(t)", "restore needs at => "),
        ("copy(r)", "copy needs target => "),
        ("compact(r)", "r has no compact here; it has sweep, copy[.]"),
        ("compact(t)", "forget_files, copy[.]"),
    ):
        with pytest.raises(firn.FirnError, match=message):
            db.sql(f"CALL {text}")
