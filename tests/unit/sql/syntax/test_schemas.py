"""Names with the database's schema before them, in every clause."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import firn
from firn.errors import TableNotFoundError


@pytest.fixture
def db() -> firn.Database:
    db = firn.connect("memory://")
    db.create_table("t").append([{"n": 1, "s": {"a": 2}}, {"n": 2, "s": {"a": 3}}])
    db.create_table("firn").append([{"t": {"n": 7}}])  # a table of the schema's name: its columns are its own
    db.create_table("own").append([{"firn": {"t": {"n": 8}, "own": {"n": 9}}}])
    return db


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT firn.t.n FROM firn.t", [(1,), (2,)]),
        ("SELECT main.t.n FROM t", [(1,), (2,)]),
        ('SELECT "FIRN" /* - */ . "T".n FROM Main . T', [(1,), (2,)]),
        ("SELECT firn.t.* FROM firn.t WHERE main.t.s.a = 3", [(2, {"a": 3})]),
        (
            "SELECT firn.t.n FROM firn.t GROUP BY firn.t.n HAVING max(firn.t.n) > 0 ORDER BY firn.t.n DESC",
            [(2,), (1,)],
        ),
        ("SELECT é.n, firn.t.n FROM firn.t é JOIN firn.t ON é.n = firn.t.n + 1", [(2, 1)]),
        ("SELECT * EXCLUDE (firn.t.s) FROM firn.t", [(1,), (2,)]),
        ("SELECT max(firn.t.n) OVER (ORDER BY firn.t.n) FROM firn.t", [(1,), (2,)]),
        ("SELECT firn.t.n FROM firn.t AT (TIMESTAMP => '2999-01-01')", [(1,), (2,)]),
        ("WITH t AS (SELECT 5 AS n) SELECT firn.t.n FROM firn.t", [(1,), (2,)]),
        ("SELECT firn.t.n FROM firn", [(7,)]),
        ("SELECT firn.t.n FROM firn, t", [(7,), (7,)]),
        ("SELECT 'firn.t.n' AS x -- firn.t.n", [("firn.t.n",)]),
        ("FROM (DESCRIBE firn.t) SELECT column_name", [("n",), ("s",)]),
        ("SELECT firn.t.n, firn.own.n FROM own", [(8, 9)]),  # a column's fields, of the names of tables
    ],
)
def test_a_schema_before_a_table(db: firn.Database, query: str, expected: list[Any]) -> None:
    assert [tuple(row.values()) for row in db.sql(query)] == expected


@pytest.mark.parametrize(
    "query", ["SELECT other.t.n FROM t", "SELECT other.t.* FROM t", "FROM other.t", "FROM a.firn.t"]
)
def test_another_schema_is_refused(db: firn.Database, query: str) -> None:
    with pytest.raises(TableNotFoundError, match="without a schema"):
        db.sql(query)


def test_messages_have_the_text_as_written(db: firn.Database) -> None:
    with pytest.raises(firn.InvalidInputError, match=r"SELECT firn\.t\.n, no FROM firn\.t"):
        db.sql("SELECT firn.t.n,\nno FROM firn.t")


def test_a_schema_in_statements(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    for statement in (
        "CREATE TABLE firn.t (id BIGINT, n BIGINT)",
        "INSERT INTO main.t VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE firn.t SET firn.t.n = main.t.n + 10 WHERE firn.t.id = 1",
        "DELETE FROM firn.t WHERE firn.t.id = 2",
        "MERGE INTO firn.t USING firn.t AS s ON firn.t.id = s.id "
        "WHEN MATCHED AND firn.t.id = 3 THEN UPDATE SET n = s.n * 5",
    ):
        db.sql(statement)
    assert sorted(tuple(row.values()) for row in db.sql("FROM t")) == [(1, 11), (3, 15)]
