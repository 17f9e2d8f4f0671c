"""Random merges against a brute-force oracle, wherever their tasks run."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.errors import CardinalityError
from firn.journal.writer.journal import WriterJournal
from firn.lake.maintain.matching.clauses import MergeClause
from firn.lake.maintain.matching.source import Staging
from firn.lake.table import LakeTable

Row = dict[str, Any]
Test = Callable[[Row | None, Row | None], bool | None]

COLUMNS = {"id": "BIGINT", "g": "VARCHAR", "n": "INTEGER"}


def _more(t: Row | None, s: Row | None) -> bool | None:
    assert t is not None and s is not None
    return None if t["n"] is None or s["n"] is None else s["n"] > t["n"]


ON: list[tuple[str, Test]] = [
    ("t.id = s.id", lambda t, s: t["id"] is not None and t["id"] == s["id"]),  # type: ignore[index]
    (
        "t.id = s.id AND t.g = s.g",
        lambda t, s: t["id"] is not None and t["id"] == s["id"] and t["g"] == s["g"],
    ),  # type: ignore[index]
    (
        "t.id = s.id AND t.n > 2",
        lambda t, s: t["id"] is not None and t["id"] == s["id"] and (t["n"] or 0) > 2,
    ),  # type: ignore[index]
    ("t.id IS NOT DISTINCT FROM s.id", lambda t, s: t["id"] == s["id"]),  # type: ignore[index]
]
MATCHED: list[tuple[str | None, Test]] = [
    (None, lambda t, s: True),
    ("s.n > t.n", _more),
    ("t.g = 'a'", lambda t, s: t["g"] == "a"),  # type: ignore[index]
]
SOURCE_ONLY: list[tuple[str | None, Test]] = [
    (None, lambda t, s: True),
    ("s.n > 3", lambda t, s: (s["n"] or 0) > 3),
]  # type: ignore[index]
TARGET_ONLY: list[tuple[str | None, Test]] = [
    (None, lambda t, s: True),
    ("t.n < 3", lambda t, s: t["n"] is not None and t["n"] < 3),
]  # type: ignore[index]
VALUES: list[tuple[dict[str, str], Callable[[Row, Row | None], Row]]] = [
    ({"n": "coalesce(t.n, 0) + 1"}, lambda t, s: {"n": (t["n"] or 0) + 1}),
    ({"g": "'moved'", "n": "0"}, lambda t, s: {"g": "moved", "n": 0}),
]


def _rows(rng: random.Random, count: int, *, unique: bool = False) -> list[Row]:
    ids = (
        rng.sample(range(9), min(count, 9))
        if unique
        else [rng.choice([None, *range(8)]) for _ in range(count)]
    )
    return [{"id": id, "g": rng.choice("ab"), "n": rng.choice([None, *range(6)])} for id in ids]


def _clauses(rng: random.Random, keyed: bool) -> list[tuple[MergeClause, Test, Callable[..., Row] | None]]:
    found: list[tuple[MergeClause, Test, Callable[..., Row] | None]] = []
    for _ in range(rng.randint(0, 2)):
        sql, test = rng.choice(MATCHED)
        action = rng.choice(["update", "delete", "nothing", "all"])
        if action == "all" and not keyed:
            found.append((MergeClause("matched", "update", sql), test, lambda t, s: dict(s)))
        elif action in ("update", "all"):
            values, made = rng.choice(VALUES)
            found.append((MergeClause("matched", "update", sql, values), test, made))
        else:
            found.append((MergeClause("matched", action, sql), test, None))  # type: ignore[arg-type]
    for _ in range(rng.randint(0, 2)):
        sql, test = rng.choice(SOURCE_ONLY)
        found.append(
            (MergeClause("not matched", rng.choice(["insert", "insert", "nothing"]), sql), test, None)
        )  # type: ignore[arg-type]
    for _ in range(rng.randint(0, 1)):
        sql, test = rng.choice(TARGET_ONLY)
        if rng.random() < 0.5:
            found.append((MergeClause("not matched by source", "delete", sql), test, None))
        else:
            values, made = rng.choice(VALUES)
            found.append((MergeClause("not matched by source", "update", sql, values), test, made))
    return found or [(MergeClause("not matched", "insert"), lambda t, s: True, None)]


def _expected(
    rows: list[Row], source: list[Row], on: Test, clauses: list[Any]
) -> tuple[list[Row], Counter[str]] | None:
    """The rows afterwards, and what happened to how many; None where two source rows change one."""

    def first(when: str, t: Row | None, s: Row | None) -> Any:
        return next((c for c in clauses if c[0].when == when and c[1](t, s)), None)

    kept, counts, used = [], Counter[str](), set()
    for t in rows:
        pairs = [(number, s) for number, s in enumerate(source) if on(t, s)]
        used.update(number for number, _ in pairs)
        chosen = [(first("matched", t, s), s) for _, s in pairs]
        if not pairs:
            chosen = [(first("not matched by source", t, None), None)]  # type: ignore[list-item]
        changes = [(c, s) for c, s in chosen if c is not None and c[0].action != "nothing"]
        if len(changes) > 1:
            return None
        for (clause, _, made), s in changes:
            counts[clause.action] += 1
            if clause.action == "update":
                kept.append({**t, **made(t, s)})
        if not changes:
            kept.append(t)
    for number, s in enumerate(source):
        clause = None if number in used else first("not matched", None, s)
        if clause is not None and clause[0].action == "insert":
            counts["insert"] += 1
            kept.append(s)
    return kept, counts


def table_of(kind: str, db: firn.Database | None = None, name: str = "t") -> LakeTable:
    """A table to merge into, of a database of its own by default."""
    if db is None:
        db = firn.connect("memory://", writer="w" if kind == "writer" else None)
    options: dict[str, Any] = {
        "plain": {},
        "placed": {"partition_by": ["g"], "sort_by": ["n"]},
        "writer": {"journal": "writer"},
        "key": {"key": ["id"]},
    }[kind]
    return db.create_table(name, schema=COLUMNS, **options)


def _key(row: Row) -> tuple[str, ...]:
    return tuple(map(str, (row["id"], row["g"], row["n"])))


def stored(table: LakeTable) -> list[tuple[str, ...]]:
    return sorted(map(_key, table.scan().to_arrow().to_pylist()))


def check(
    kind: str,
    seed: int,
    db: firn.Database | None = None,
    given_as: Callable[[pa.Table], Any] = lambda rows: rows,
    *,
    retried: bool = False,
) -> None:
    """One random merge, whose source is given as some kind of rows. Attempts that are `retried` leave files."""
    rng = random.Random(f"{kind} {seed}")
    keyed = kind == "key"
    table = table_of(kind, db, f"t{seed}")
    rows: list[Row] = []
    for _ in range(rng.randint(0, 3)):
        some = _rows(rng, rng.randint(1, 5), unique=keyed)
        table.append(pa.Table.from_pylist(some, table.schema()))
        rows = [row for row in rows if not keyed or row["id"] not in {one["id"] for one in some}] + some
    if rows and rng.random() < 0.4:
        table.delete("n = 1")
        rows = [row for row in rows if row["n"] != 1]
    source = _rows(rng, rng.randint(0, 5), unique=keyed)
    sql, on = rng.choice(ON)
    clauses = _clauses(rng, keyed)
    expected = _expected(rows, source, on, clauses)
    if keyed and expected is not None and max(Counter(r["id"] for r in expected[0]).values(), default=0) > 1:
        return  # a row that the condition didn't match comes in under a key that is there: it replaces that row
    given = [clause for clause, _, _ in clauses]
    before = stored(table)
    data = given_as(pa.Table.from_pylist(source, table.schema()))
    if expected is None:
        with pytest.raises(CardinalityError, match="two rows of the source"):
            table.merge_into(data, on=sql, clauses=given)
        assert stored(table) == before
        return
    done = table.merge_into(data, on=sql, clauses=given)
    kept, counts = expected
    assert stored(table) == sorted(map(_key, kept)), (seed, sql, given)
    for part in {row["g"] for row in kept}:  # each in its partition
        found = table.scan(where=f"g = '{part}'").to_arrow().to_pylist()
        assert sorted(map(_key, found)) == sorted(_key(row) for row in kept if row["g"] == part), seed
    assert (done.rows_inserted, done.rows_updated, done.rows_deleted) == (
        counts["insert"], counts["update"], counts["delete"],
    )  # fmt: skip
    assert (done.version is None) == (not counts.total())
    assert retried or not left_over(table), "what was staged is gone"


def left_over(table: LakeTable) -> list[str]:
    """What statements have staged, and not deleted."""
    if isinstance(table.journal, WriterJournal):
        layout = table.journal.federation.layout(table.journal.own.writer)
        return [info.key for info in table.bucket.list(layout.staged_prefix).objects]
    return list(table.sweep(orphans="0s", dry_run=True).orphans)


def noted_sources(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The sources that merges from now on keep, in memory or staged."""
    kept: list[Any] = []
    keep = Staging.keep

    def noted(self: Staging, data: Any) -> Any:
        kept.append(keep(self, data))
        return kept[-1]

    monkeypatch.setattr(Staging, "keep", noted)
    return kept
