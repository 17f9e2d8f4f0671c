"""Random statements on tables of each kind, and the same text on a table of DuckDB's own."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from answers import Answers
from random_queries import Queries

import firn
from firn.errors import FirnError
from firn.sql.script import SqlScript
from seeds import seeds

CREATE = {
    "lake": "CREATE TABLE t (_id VARCHAR, g VARCHAR, n INTEGER, x DOUBLE, d DATE) PARTITIONED BY (g) SORTED BY (n)",
    "key": "CREATE TABLE t (_id VARCHAR, g VARCHAR, n INTEGER, x DOUBLE, d DATE, PRIMARY KEY (_id))",
    "keyed": "CREATE TABLE t (_id VARCHAR PRIMARY KEY, g VARCHAR, n INTEGER, x DOUBLE, d DATE) WITH (kind = 'keyed')",
    "records": "CREATE TABLE t (_id VARCHAR, g VARCHAR, n INTEGER, x DOUBLE, d DATE) WITH (kind = 'records')",
    "writer": "CREATE TABLE t (_id VARCHAR, g VARCHAR, n INTEGER, x DOUBLE, d DATE) WITH (journal = 'writer')",
}
CONDITIONS = [
    "t.n > 3", "t.g = 'a'", "t.x IS NULL", "t.n BETWEEN 2 AND 5 OR t.g IS NULL", "NOT (t.n < 4)",
    "t.d >= DATE '2024-02-01'",

    "t._id IN ('1', '3', '5')", "t.g LIKE 'b%'", "length(t._id) + t.n > 4", "t.x > 'NaN'::DOUBLE OR t.x = 'NaN'",
    "true",
    "t.g IS DISTINCT FROM 'a'", "coalesce(t.n, 0) % 2 = 0", "CASE WHEN t.n > 2 THEN t.g = 'a' ELSE t.n IS NULL END",
]  # fmt: skip
VALUES = {
    "n": ["t.n + 1", "NULL", "coalesce(t.n, 0) * 2", "length(t._id)", "CAST(7.6 AS INTEGER)", "9"],
    "g": ["upper(t.g)", "'b'", "NULL", "t.g || '!'", "'it''s; -- no'"],
    "x": ["t.n / 2", "'NaN'", "NULL", "t.x + 0.5", "1"],
    "d": ["DATE '2024-03-05'", "NULL", "t.d + 1", "'2024-01-31'"],
}  # fmt: skip


COLUMNS = {"_id": "VARCHAR", "g": "VARCHAR", "n": "INTEGER", "x": "DOUBLE", "d": "DATE"}

NAN = {True: ["'NaN'::DOUBLE"], False: []}
"""JSON has no NaN."""


class Pair:
    """One table of Firn's and one of DuckDB's, which get the same statements."""

    def __init__(self, kind: str, seed: int) -> None:
        self.rng = random.Random(f"{kind} {seed}")
        self.kind, self.said = kind, [CREATE[kind]]
        self.db = firn.connect("memory://", writer="w" if kind == "writer" else None)
        self.db.sql(CREATE[kind])
        self.duck = duckdb.connect()
        self.duck.execute("CREATE TABLE t (_id VARCHAR, g VARCHAR, n INTEGER, x DOUBLE, d DATE)")
        self.next = 0
        self.answers = Answers(self.db, self.duck)
        self.queries = Queries(self.rng, {"t": COLUMNS}, "n")

    @property
    def unique(self) -> bool:
        return self.kind in ("key", "keyed", "records")

    def row(self, id: str) -> str:
        pick = self.rng.choice
        n, x = pick(["NULL", "1", "4", "8"]), pick(["NULL", "2.5", "-1", *NAN[self.kind != "records"]])
        return f"('{id}', {pick(['NULL', repr('a'), repr('b')])}, {n}, {x}, {pick(['NULL', repr('2024-02-29')])})"

    def new_id(self) -> str:
        self.next += 1
        return str(self.next)

    def statement(self) -> str:
        pick = self.rng.choice
        kind = pick(["insert", "insert", "update", "update", "delete", "merge", "merge", "select"])
        if kind == "insert":
            rows = ", ".join(self.row(self.new_id()) for _ in range(self.rng.randint(1, 4)))
            return f"INSERT INTO t VALUES {rows}"
        if kind == "select" and self.rng.random() < 0.5:
            return (
                f"INSERT INTO t BY NAME SELECT '{self.new_id()}' AS _id, max(n) AS n, NULL::DATE AS d FROM t"
            )
        if kind == "select":
            return "DELETE FROM t USING (SELECT max(n) AS m FROM t) s WHERE t.n = s.m"
        if kind == "update":
            return f"UPDATE t SET {self.assigned()} WHERE {pick(CONDITIONS)}"
        if kind == "delete":
            return f"DELETE FROM t WHERE {pick(CONDITIONS)} AND {pick(CONDITIONS)}"
        known = [str(n) for n in range(1, self.next + 1)] or ["0"]
        ids = self.rng.sample(known, min(3, len(known)))
        absent = [self.new_id() for _ in range(2)]
        rows = ", ".join(self.row(id) for id in [*ids, *absent])
        matched = pick(["DELETE", "DO NOTHING", f"UPDATE SET {self.assigned()}"])
        unmatched = pick(["DELETE", f"UPDATE SET {self.assigned()}"])
        clauses = [
            f"WHEN MATCHED AND {pick(CONDITIONS)} THEN {matched}",
            f"WHEN MATCHED AND s.n > coalesce(t.n, 0) THEN UPDATE SET n = s.n, x = s.x, {self.assigned('g')}",
            "WHEN NOT MATCHED AND s.n IS NOT NULL THEN INSERT (_id, n, g) VALUES (s._id, s.n + 1, s.g)",
            "WHEN NOT MATCHED THEN INSERT VALUES (s._id, s.g, s.n, s.x, s.d)",
            f"WHEN NOT MATCHED BY SOURCE AND {pick(CONDITIONS)} THEN {unmatched}",
        ]
        chosen = [clause for clause in clauses if self.rng.random() < 0.6] or clauses[:1]
        extra = pick(["", "", " AND t.n > 2", f" AND ({pick(CONDITIONS)})"]) if not self.unique else ""
        return (
            f"MERGE INTO t USING (SELECT * FROM (VALUES {rows}) v(_id, g, n, x, d)) AS s "
            f"ON t._id = s._id{extra} {' '.join(chosen)}"
        )

    def assigned(self, *names: str) -> str:
        found = []
        for name in names or self.rng.sample(list(VALUES), self.rng.randint(1, 2)):
            values = [text for text in VALUES[name] if self.kind != "records" or "NaN" not in text]
            found.append(f"{name} = {self.rng.choice(values)}")
        return ", ".join(found)

    def run(self) -> None:
        text = self.statement()
        self.said.append(text)
        script = ";\n".join(self.said)
        ours, theirs = _failure(self.duck.execute, text), _failure(self.db.sql, text, fence=True)
        assert (ours is None) == (theirs is None), f"{ours}\n{theirs}\n{script}"
        assert self.rows(self.db) == self.theirs(), script

    def ask(self) -> None:
        """A query of any shape."""
        self.answers.check(self.queries.query(), ";\n".join(self.said))

    def run_block(self) -> None:
        """Some statements in a transaction of both, which is committed, rolled back, or fails."""
        before = self.rows(self.db)
        with SqlScript(self.db) as script:
            for run in (script.sql, self.duck.execute):
                run("BEGIN")
            self.said.append("BEGIN")
            for _ in range(self.rng.randint(1, 3)):
                self.said.append(self.statement())
                text = ";\n".join(self.said)
                ours, theirs = _failure(self.duck.execute, self.said[-1]), _failure(script.sql, self.said[-1])
                assert (ours is None) == (theirs is None), f"{ours}\n{theirs}\n{text}"
                assert script.in_block == (theirs is None)
                if theirs is not None:
                    break
                assert self.rows(script) == self.theirs(), text
                assert self.rows(self.db) == before, text
            end = "COMMIT" if script.in_block and self.rng.random() < 0.7 else "ROLLBACK"
            self.said.append(end)
            self.duck.execute(end)
            if script.in_block:
                script.sql(end)
        assert self.rows(self.db) == self.theirs(), ";\n".join(self.said)

    def rows(self, ours: Any) -> list[str]:
        return sorted(repr(tuple(row.values())) for row in ours.sql(QUERY))

    def theirs(self) -> list[str]:
        return sorted(map(repr, self.duck.execute(QUERY).fetchall()))


QUERY = "SELECT _id, g, n, x, d FROM t ORDER BY ALL"


def _failure(run: Callable[..., Any], *given: Any, **options: Any) -> Exception | None:
    try:
        run(*given, **options)
    except (duckdb.Error, FirnError) as error:
        return error
    return None


@pytest.mark.parametrize("kind", list(CREATE))
@pytest.mark.parametrize("seed", seeds(4, short=1))
def test_the_same_text_does_the_same(kind: str, seed: int) -> None:
    pair = Pair(kind, seed)
    for _ in range(10):
        pair.run()
        pair.ask()


@pytest.mark.parametrize("kind", ["records", "writer"])
@pytest.mark.parametrize("seed", seeds(4, short=1))
def test_transactions_do_the_same(kind: str, seed: int) -> None:
    pair = Pair(kind, 1000 + seed)
    for _ in range(5):
        pair.run_block()
