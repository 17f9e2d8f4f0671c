"""SQL in transactions: what a block sees, what it may change, and what becomes of it after an error."""

from __future__ import annotations

from typing import Any

import pytest

import firn
from firn.errors import (
    ConflictError,
    DuplicateKeyError,
    FirnError,
    InvalidInputError,
    TransactionClosedError,
    UnsupportedError,
)
from firn.sql.script import SqlScript


@pytest.fixture
def db() -> firn.Database:
    db = firn.connect("memory://", writer="me")
    stock = db.create_table("stock", kind="records", schema={"pairs": "BIGINT"})
    stock.insert_many({"skis": {"pairs": 5}, "poles": {"pairs": 7}})
    db.create_table("lake").append([{"a": 1}])
    for name in ("cpu", "mem"):
        db.create_table(name, journal="writer", schema={"a": "BIGINT"})
    return db


def stock(db: Any) -> dict[str, int]:
    return {row["_id"]: row["pairs"] for row in db.sql("SELECT * FROM stock")}


def column(result: firn.Result) -> list[Any]:
    return [value for row in result for value in row.values()]


def test_a_transaction_sees_its_own_writes_and_nobody_elses(db: firn.Database) -> None:
    with db.begin() as tx:
        assert tx.sql("UPDATE stock SET pairs = pairs - ? WHERE _id = 'skis'", [1]).outcome.rows_updated == 1  # type: ignore[union-attr]
        tx.sql("INSERT INTO stock VALUES ('boots', 3)")
        tx.sql("DELETE FROM stock USING given g WHERE stock._id = g.id", tables={"given": [{"id": "poles"}]})
        db.table("stock").insert("late", {"pairs": 1})
        assert stock(tx) == {"boots": 3, "skis": 4}
        assert column(tx.sql("SELECT pairs FROM stock WHERE _id = 'skis'")) == [4]
        assert column(tx.sql("SELECT count(*) FROM stock, lake")) == [2]
        assert stock(db) == {"late": 1, "poles": 7, "skis": 5}
    assert stock(db) == {"boots": 3, "late": 1, "skis": 4}


def test_one_row_costs_one_get(db: firn.Database) -> None:
    with db.begin() as tx:
        read = tx.sql("SELECT pairs FROM stock WHERE _id = 'skis'")
        list(read)
        assert tx._footprint.reads == {("stock", "skis")}


def test_what_sql_reads_counts_for_serializable_transactions(db: firn.Database) -> None:
    with pytest.raises(ConflictError), db.begin(serializable=True) as tx:
        total = column(tx.sql("SELECT sum(pairs) FROM stock"))[0]
        tx.sql("INSERT INTO stock VALUES ('all', ?)", [int(total)])
        db.sql("UPDATE stock SET pairs = 0 WHERE _id = 'poles'")
    assert stock(db) == {"poles": 0, "skis": 5}


def test_transact_runs_sql_again_after_a_conflict(db: firn.Database) -> None:
    rivals = [True]

    def work(tx: Any) -> Any:
        tx.sql("UPDATE stock SET pairs = pairs + 1 WHERE _id = 'skis'")
        if rivals:
            rivals.pop()
            db.sql("UPDATE stock SET pairs = 10 WHERE _id = 'skis'")

    db.transact(work)
    assert stock(db)["skis"] == 11


def test_a_statement_that_fails_changes_nothing(db: firn.Database) -> None:
    with db.begin() as tx:
        tx.sql("UPDATE stock SET pairs = 1 WHERE _id = 'skis'")
        with pytest.raises(DuplicateKeyError):
            tx.sql("INSERT INTO stock VALUES ('new', 1), ('skis', 2)")
        assert stock(tx) == {"poles": 7, "skis": 1}
        result = tx.sql("FROM stock")
    assert stock(db) == {"poles": 7, "skis": 1}
    with pytest.raises(TransactionClosedError):
        list(result)
    with pytest.raises(TransactionClosedError):
        tx.sql("FROM lake")


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM lake WHERE a = 1", "can't change lake"),
        ("INSERT INTO cpu VALUES (1)", "can't change cpu"),
        ("CREATE TABLE t (a INTEGER)", "no definitions"),
        ("DROP TABLE lake", "no definitions"),
        ("CALL sweep(stock)", "no sweep"),
    ],
)
def test_what_a_transaction_over_records_refuses(db: firn.Database, statement: str, says: str) -> None:
    with db.begin() as tx:
        tx.sql("UPDATE stock SET pairs = 1")
        with pytest.raises(UnsupportedError, match=says):
            tx.sql(statement)
    assert stock(db) == {"poles": 1, "skis": 1}
    assert db.tables() == ["cpu", "lake", "mem", "stock"] and db.table("lake").scan().count() == 1


def test_writers_tables_change_in_one_commit(db: firn.Database) -> None:
    with db.writer_transaction() as tx:
        tx.sql("INSERT INTO cpu VALUES (1), (2)")
        tx.sql("INSERT INTO mem SELECT a + 1 FROM cpu")
        tx.sql("UPDATE cpu SET a = a * 10 WHERE a = 2")
        tx.sql("MERGE INTO mem USING cpu ON mem.a = cpu.a WHEN NOT MATCHED THEN INSERT *")
        assert column(tx.sql("SELECT a FROM mem ORDER BY a")) == [1, 2, 3, 20]
        assert column(tx.sql("SELECT a FROM lake")) == [1]
        assert column(db.sql("SELECT a FROM cpu")) == []
        with pytest.raises(UnsupportedError, match="can't change lake"):
            tx.sql("DELETE FROM lake")
    assert tx.version == "me=3"
    assert column(db.sql("SELECT a FROM cpu ORDER BY a")) == [1, 20]
    with pytest.raises(ZeroDivisionError), db.writer_transaction() as tx:
        tx.sql("DELETE FROM cpu")
        raise ZeroDivisionError
    assert column(db.sql("SELECT count(*) FROM cpu")) == [2]


def test_versions_of_statements_are_commits(db: firn.Database) -> None:
    outcome = db.sql("UPDATE stock SET pairs = 0 WHERE _id = 'skis'").outcome
    assert outcome is not None and outcome.version == db.sql("FROM stock").versions["stock"]


@pytest.mark.parametrize(
    ("script", "skis"),
    [
        ("BEGIN; UPDATE stock SET pairs = pairs - 1; UPDATE stock SET pairs = pairs - 1; COMMIT", 3),
        ("START TRANSACTION; FROM lake; DELETE FROM stock WHERE _id = 'poles'; END TRANSACTION", 5),
        ("begin work; UPDATE stock SET pairs = 0; rollback; SELECT 1", 5),
        ("UPDATE stock SET pairs = $n; BEGIN; UPDATE stock SET pairs = pairs + $n; ABORT", 2),
    ],
)
def test_scripts_have_blocks(db: firn.Database, script: str, skis: int) -> None:
    db.sql(script, {"n": 2} if "$n" in script else None, script=True)
    assert stock(db)["skis"] == skis


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("BEGIN; UPDATE stock SET pairs = 0", "COMMIT is missing"),
        ("BEGIN; UPDATE stock SET pairs = 0; SELECT nope; COMMIT", "nope"),
        ("BEGIN; UPDATE stock SET pairs = 0; INSERT INTO lake VALUES (2); COMMIT", "can't change lake"),
        ("BEGIN; INSERT INTO lake VALUES (2); COMMIT", "has no transactions"),
        ("BEGIN; INSERT INTO cpu VALUES (2); UPDATE stock SET pairs = 0; COMMIT", "can't change stock"),
        ("BEGIN; SELECT * FROM stock; INSERT INTO cpu VALUES (2); COMMIT", "can't change cpu"),
        ("BEGIN; CREATE TABLE t (a INTEGER); COMMIT", "definitions"),
        ("BEGIN; BEGIN", "there is a transaction already"),
        ("COMMIT", "there is no transaction"),
        ("BEGIN SERIALIZABLE", "should end here"),
        ("SELECT $m", "no value for its parameter|\\$m|no statement has \\$n"),
        (" ; ", "there is no statement"),
    ],
)
def test_a_script_that_fails_leaves_nothing(db: firn.Database, script: str, says: str) -> None:
    with pytest.raises(FirnError, match=says):
        db.sql(script, {"n": 2} if "$m" in script else None, script=True)
    assert stock(db) == {"poles": 7, "skis": 5}
    assert db.table("lake").scan().count() == 1 and db.table("cpu").scan().count() == 0
    db.sql("UPDATE stock SET pairs = 1 WHERE _id = 'skis'")


@pytest.mark.parametrize(("name", "value"), [("in_process", 1), ("in_process", 0), ("verify", True)])
def test_a_transaction_drops_no_option_in_silence(db: firn.Database, name: str, value: Any) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(UnsupportedError, match=f"{name}={value!r}: statements of a transaction"):
        db.sql("BEGIN; UPDATE stock SET pairs = 0; COMMIT", script=True, **options)
    assert stock(db) == {"poles": 7, "skis": 5}
    db.sql("BEGIN; SELECT count(*) FROM lake; COMMIT", script=True, **options)  # without a transaction


def test_fence_is_for_the_statements_around_a_transaction(db: firn.Database) -> None:
    db.create_table("kv", kind="keyed", key={"k": "BIGINT"}, schema={"v": "BIGINT"})
    db.sql("BEGIN; UPDATE stock SET pairs = 0; COMMIT; INSERT INTO kv VALUES (1, 1)", script=True, fence=True)
    with pytest.raises(UnsupportedError, match="can't change kv"):
        db.sql("BEGIN; FROM stock; INSERT INTO kv VALUES (2, 2); COMMIT", script=True, fence=True)


def test_a_script_shares_its_parameters_out(db: firn.Database) -> None:
    db.sql(
        "UPDATE stock SET pairs = $n; UPDATE stock SET pairs = pairs + $nn; SELECT '$n'",
        {"n": 1, "nn": 2},
        script=True,
    )
    assert {row["pairs"] for row in db.sql("FROM stock")} == {3}
    with pytest.raises(InvalidInputError, match=r"no statement has \$z"):
        db.sql("SELECT '$z'", {"z": 1}, script=True)
    with pytest.raises(InvalidInputError, match="parameters by name"):
        db.sql("SELECT ?", [1], script=True)


def test_queries_before_the_last_run_too(db: firn.Database) -> None:
    guard = "SELECT CASE WHEN min(pairs) < 0 THEN error('sold out') END FROM stock"
    with pytest.raises(InvalidInputError, match="sold out"):
        db.sql(f"BEGIN; UPDATE stock SET pairs = pairs - 6; {guard}; COMMIT", script=True)
    assert stock(db) == {"poles": 7, "skis": 5}
    left = db.sql(f"BEGIN; UPDATE stock SET pairs = pairs - 5; {guard}; COMMIT; FROM stock", script=True)
    assert sorted(row["pairs"] for row in left) == [0, 2]


def test_a_block_can_begin_with_an_older_version(db: firn.Database) -> None:
    commit = db.sql("FROM stock").versions["stock"]
    for text in ("FROM stock AT (VERSION => $v)", "FROM stock VERSION AS OF $v"):
        with pytest.raises(InvalidInputError, match="is read at its transaction's snapshot"):
            db.sql(f"BEGIN; {text}; COMMIT", {"v": commit}, script=True)
    db.sql("CREATE TABLE flights (n BIGINT)")
    db.sql("BEGIN; FROM flights VERSION AS OF '0'; UPDATE stock SET pairs = 9; COMMIT", script=True)
    assert {row["pairs"] for row in db.sql("FROM stock")} == {9}


def test_begin_is_for_scripts(db: firn.Database) -> None:
    with pytest.raises(UnsupportedError, match="script=True"):
        db.sql("BEGIN")


def test_a_script_reads_records_at_one_commit(db: firn.Database) -> None:
    with SqlScript(db) as script:
        script.sql("BEGIN")
        assert stock(script)["skis"] == 5 and script.in_block
        db.sql("UPDATE stock SET pairs = 0")
        assert stock(script)["skis"] == 5
        script.sql("UPDATE stock SET pairs = pairs + 1 WHERE _id = 'skis'")
        with pytest.raises(ConflictError):
            script.sql("COMMIT")
        assert not script.in_block
    with pytest.raises(InvalidInputError):
        db.sql("BEGIN; FROM stock", script=True)
