"""MERGE INTO and UPDATE of lake tables against a brute-force oracle, with each rule's mutation noticed."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import firn
from firn.errors import (
    CardinalityError,
    FirnError,
    InvalidInputError,
    LockHeldError,
    LockLostError,
    UnsupportedError,
)
from firn.journal.leaderless import LeaderlessJournal, journal
from firn.journal.leaderless.maintain import session
from firn.journal.leaderless.maintain.session import MaintenanceSession
from firn.journal.leaderless.replay.loader import Scope
from firn.lake.definition.definition import LakeDefinition
from firn.lake.maintain import change, merge_into
from firn.lake.maintain.matching.clauses import MergeClause, When
from firn.lake.maintain.matching.files import deciding_columns
from firn.lake.maintain.matching.matching import CLAUSE, ROW, SOURCE_ROW, Matching
from firn.lake.maintain.matching.source import MergeSource, SourceInMemory, Staging
from firn.lake.maintain.tasks import TaskResult
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import SimStore
from merge_oracle import COLUMNS, check, stored, table_of


@pytest.mark.parametrize(
    ("kind", "seeds"),
    [
        ("plain", range(30)),  # what takes a rule left out to be noticed
        *((kind, range(10)) for kind in ("placed", "writer", "key")),
        *(
            pytest.param(k, range(10, 60), marks=pytest.mark.long)
            for k in ("plain", "placed", "writer", "key")
        ),
    ],
)
def test_random_merges(kind: str, seeds: range) -> None:
    for seed in seeds:
        check(kind, seed)


# -- each rule left out (docs/design/0014-merge-into.md), and what notices it


def _last_clause_counts(patch: pytest.MonkeyPatch) -> None:
    choice = Matching.choice
    patch.setattr(Matching, "choice", lambda self, when: _backwards(choice(self, when)))


def _backwards(case: str) -> str:
    if not case.startswith("CASE"):
        return case
    body, _, rest = case.removeprefix("CASE").rpartition(" ELSE ")
    parts = body.split(" WHEN ")[1:]
    return "CASE" + "".join(f" WHEN {part}" for part in reversed(parts)) + f" ELSE {rest}"


def _null_is_true(patch: pytest.MonkeyPatch) -> None:
    choice = Matching.choice

    def loose(self: Matching, when: When) -> str:
        clauses = [replace(c, condition=f"coalesce(({c.condition or 'true'}), true)") for c in self.clauses]
        return choice(replace(self, clauses=clauses), when)

    patch.setattr(Matching, "choice", loose)


def _with_on(patch: pytest.MonkeyPatch, change: Callable[[str], str]) -> None:
    patch.setattr(merge_into, "check_bound", lambda m: object.__setattr__(m, "on", change(m.on)))


def _null_equals_null(patch: pytest.MonkeyPatch) -> None:
    _with_on(patch, lambda on: on.replace(" = ", " IS NOT DISTINCT FROM "))


def _only_equality_decides(patch: pytest.MonkeyPatch) -> None:
    _with_on(patch, lambda on: on.partition(" AND ")[0])


def _source_alone_chooses_files(patch: pytest.MonkeyPatch) -> None:
    of = Matching.of

    def chosen(self: Matching, when: When) -> Any:
        asked = sys._getframe(1).f_code.co_name == "_looked_at"
        return [] if when == "not matched by source" and asked else of(self, when)

    patch.setattr(Matching, "of", chosen)


def _each_file_tells_what_is_unmatched(patch: pytest.MonkeyPatch) -> None:
    real = merge_into._inserts
    patch.setattr(merge_into, "_inserts", lambda table, m, found: real(table, m, found[:1]))


def _two_pairs_change_a_row(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        merge_into, "_changes", lambda table, m, pairs, op: m.with_action(pairs, "update", "delete")
    )


def _rows_are_counted_after_some_are_dropped(patch: pytest.MonkeyPatch) -> None:
    changed = Matching.changed

    def late(self: Matching, rows: pa.Table, changes: pa.Table) -> pa.Table:
        left = changed(self, rows, self.with_action(changes, "delete"))
        updates = self.with_action(changes, "update")
        return changed(self, left, updates.filter(pc.less(updates[ROW], left.num_rows)))

    patch.setattr(Matching, "changed", late)


def _rows_stay_in_their_partition(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Matching, "set_columns", lambda self: set())


def _all_attempts_count(patch: pytest.MonkeyPatch) -> None:
    _attempts(patch, lambda first, last: replace(last, adds=[*first.adds, *last.adds]))


def _attempts(patch: pytest.MonkeyPatch, counted: Callable[[TaskResult, TaskResult], TaskResult]) -> None:
    """Each task is run twice, as one that is retried."""
    real = change.run_tasks

    def twice(*given: Any) -> list[Any]:
        both = zip(real(*given), real(*given), strict=True)
        return [counted(*pair) if isinstance(pair[0], TaskResult) else pair[1] for pair in both]

    patch.setattr(change, "run_tasks", twice)
    patch.setattr(merge_into, "run_tasks", twice)


def _snapshot_before_the_lock(patch: pytest.MonkeyPatch) -> None:
    real = LeaderlessJournal.exclusive

    @contextmanager
    def early(self: LeaderlessJournal, op: str) -> Iterator[Any]:
        loaded = self.loader.load(scope=Scope.ALL)
        with real(self, op) as session:
            session._loaded = loaded
            yield session

    patch.setattr(LeaderlessJournal, "exclusive", early)


def _each_task_computes_the_source(patch: pytest.MonkeyPatch) -> None:
    keep = Staging.keep

    class Moving(SourceInMemory):
        def __init__(self, staging: Staging, data: Any) -> None:
            self._again: Callable[[], MergeSource] = lambda: keep(staging, data)
            first = self._again()
            self.types, self.parts = first.types, tuple(first.parts)

        def read(self, *given: Any) -> pa.Table:
            return self._again().read(*given)

        def take(self, *given: Any) -> pa.Table:
            return self._again().take(*given)

    patch.setattr(Staging, "keep", lambda self, data: Moving(self, data))


def _publish_by_a_plain_put(patch: pytest.MonkeyPatch) -> None:
    def plain(self: MaintenanceSession, lease: Any, log: Any, revived: Any) -> None:
        lease.check()
        self.table.log_bucket.put(self.table.layout.log_key(log.name), session.encode(log))

    patch.setattr(MaintenanceSession, "_publish_fenced", plain)


def _oracle(kind: str = "plain") -> Callable[[], None]:
    def run() -> None:
        for seed in range(150):
            check(kind, seed)

    return run


def a_change_before_the_lock_is_seen() -> None:
    table = firn.connect("memory://").create_table("t")
    table.append([{"id": 1, "n": 1}])
    real = journal.exclusive
    with pytest.MonkeyPatch.context() as patch:

        def late(log: Any, op: str, **options: Any) -> Any:
            patch.undo()
            table.update("id = 1", {"n": "n + 10"})
            return real(log, op, **options)

        patch.setattr(journal, "exclusive", late)
        table.merge_into([{"id": 1}], on=["id"], when_matched={"n": "t.n + 1"})
    assert _values(table) == [(1, 12)]


class Anew:
    """Rows that are others each time that they are computed."""

    def __init__(self, rows: Callable[[], pa.Table]) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._rows().__arrow_c_stream__(requested_schema)


def random_is_computed_once() -> None:
    rng = random.Random(5)
    table = firn.connect("memory://").create_table("t", schema={"id": "BIGINT", "r": "DOUBLE"})
    for first in (0, 10):
        table.append([{"id": n} for n in range(first, first + 10)])
    rows = Anew(lambda: pa.table({"id": range(30), "r": [rng.random() for _ in range(30)]}))
    clauses = [
        MergeClause("matched", "update", "s.r < 0.5", {"r": "s.r"}),
        MergeClause("not matched", "insert", "s.r < 0.5"),
    ]
    table.merge_into(rows, on=["id"], clauses=clauses)
    assert all(r is None or r < 0.5 for _, r in _values(table))


def a_source_that_moves_is_read_once() -> None:
    rng = random.Random(5)
    table = firn.connect("memory://").create_table("t", schema={"id": "BIGINT", "n": "BIGINT"})
    table.append([{"id": n} for n in range(10)])
    rows = Anew(lambda: pa.table({"id": rng.sample(range(20), 20)}))
    table.merge_into(
        rows, on=["id"], when_matched={"n": "s.id"}, when_not_matched={"id": "s.id", "n": "s.id"}
    )
    assert _values(table) == [(n, n) for n in range(20)]


def a_merge_that_lost_its_lock_changes_nothing() -> None:
    store = SimStore()

    def opened(name: str) -> LakeTable:
        bucket = store.bucket(name)
        log = LeaderlessJournal(bucket, "db/t", clock=bucket.clock, renew_in_background=False)
        return LakeTable(bucket, "db/t", LakeDefinition("t"), log, InProcess(LocalRunner(threads=1)))

    slow = opened("slow")
    slow.append([{"id": 1, "n": 1}])
    encode = session.encode
    with pytest.MonkeyPatch.context() as patch:

        def stalled(log: Any) -> bytes:
            patch.undo()
            opened("fast").update("id = 1", {"n": "n + 10"})
            return encode(log)

        patch.setattr(session, "encode", stalled)
        with suppress(LockLostError):
            slow.merge_into([{"id": 1}], on=["id"], when_matched={"n": "t.n + 1"})
    assert _values(opened("later")) == [(1, 11)]


RULES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], None]]] = {
    "the first clause counts": (_last_clause_counts, _oracle()),
    "null isn't true": (_null_is_true, _oracle()),
    "null equals nothing": (_null_equals_null, _oracle()),
    "the whole condition decides": (_only_equality_decides, _oracle()),
    "rows without a source row choose files": (_source_alone_chooses_files, _oracle()),
    "all files tell what is unmatched": (_each_file_tells_what_is_unmatched, _oracle()),
    "one pair changes a row": (_two_pairs_change_a_row, _oracle()),
    "rows are counted first": (_rows_are_counted_after_some_are_dropped, _oracle()),
    "rows go to the partition of their values": (_rows_stay_in_their_partition, _oracle("placed")),
    "attempts that failed don't count": (_all_attempts_count, _oracle()),
    "the lock comes before the snapshot": (_snapshot_before_the_lock, a_change_before_the_lock_is_seen),
    "the source is computed once": (_each_task_computes_the_source, random_is_computed_once),
    "the source stays where it is": (_each_task_computes_the_source, a_source_that_moves_is_read_once),
    "publishing is fenced": (_publish_by_a_plain_put, a_merge_that_lost_its_lock_changes_nothing),
}
"""What leaves a rule out, and the test that holds with it. Rows that soft deletes took, and one commit for all
clauses, have tests of their own below."""


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_left_out_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutate, test = RULES[rule]
    mutate(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception, FirnError)):
        test()


@pytest.mark.parametrize(
    "test",
    [
        a_change_before_the_lock_is_seen,
        random_is_computed_once,
        a_source_that_moves_is_read_once,
        a_merge_that_lost_its_lock_changes_nothing,
    ],
)
def test_each_of_these_holds(test: Callable[[], None]) -> None:
    test()


@pytest.mark.parametrize("kind", ["plain", "placed"])
def test_attempts_of_tasks_that_failed_count_for_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _attempts(monkeypatch, lambda first, last: last)
    for seed in range(10):
        check(kind, seed, retried=True)


def test_a_merge_reads_only_files_that_may_match() -> None:
    table = firn.connect("memory://").create_table("t")
    for first in range(0, 1000, 100):
        table.append([{"id": n, "n": 0} for n in range(first, first + 100)])
    before = table.bucket.counters.get
    done = table.merge_into(
        [{"id": 250, "n": 7}], on=["id"], when_matched="update", when_not_matched="insert"
    )
    assert (done.files_removed, done.rows_updated, done.rows_inserted) == (1, 1, 0)
    assert table.bucket.counters.get - before < 18, "ten logs, the lock, one file twice"


def test_a_source_may_be_a_scan_of_the_table_itself() -> None:
    table = firn.connect("memory://").create_table("t")
    table.append([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    table.merge_into(table.scan(where="id = 1"), on=["id"], when_matched={"n": "t.n + s.n"})
    assert _values(table) == [(1, 2), (2, 2)]


def test_set_casts_and_insert_widens_for_fractions() -> None:
    table = firn.connect("memory://").create_table("t", schema={"id": "BIGINT", "n": "SMALLINT"})
    table.append([{"id": 1, "n": 1}])
    with pytest.raises(InvalidInputError, match="100000"):
        table.merge_into([{"id": 1}], on=["id"], when_matched={"n": "100000"})
    table.merge_into([{"id": 1, "n": 5.0}], on=["id"], when_matched="update")
    assert table.snapshot().columns == {"id": "BIGINT", "n": "SMALLINT"}
    rows = pa.table({"id": [2], "n": pa.array([100_000], pa.int32())})
    with pytest.raises(InvalidInputError, match="100000"):
        table.merge_into(rows, on=["id"], when_not_matched="insert")
    table.merge_into([{"id": 2, "n": 2.5}], on=["id"], when_not_matched="insert")
    assert table.snapshot().columns["n"] == "DOUBLE" and _values(table) == [(1, 5), (2, 2.5)]


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"on": "t.id = s.id"}, InvalidInputError, "needs a clause"),
        ({"on": "t.id = s.nope", "when_matched": "delete"}, InvalidInputError, "nope"),
        ({"on": "t.id IN (SELECT 1)", "when_matched": "delete"}, UnsupportedError, "subquery"),
        ({"on": "t.id = s.id)) FROM t --", "when_matched": "delete"}, InvalidInputError, "isn't SQL"),
        ({"on": "read_text('/etc/passwd') = ''", "when_matched": "delete"}, InvalidInputError, "read_text"),
        ({"on": "getenv('HOME') = s.id", "when_matched": "delete"}, InvalidInputError, "getenv"),
        ({"on": ["id"], "when_matched": {"nope": "1"}}, InvalidInputError, "no column 'nope'"),
        ({"on": ["id"], "when_matched": "update"}, InvalidInputError, "no column 'n', which"),
        ({"on": ["id"], "when_matched": "insert"}, InvalidInputError, "when_matched"),
        (
            {"on": ["id"], "when_matched": {"n": "row_number() OVER ()"}},
            UnsupportedError,
            "more than one row",
        ),
        (
            {"on": ["id"], "clauses": [MergeClause("matched", "error")]},
            InvalidInputError,
            "calls a row an error",
        ),
    ],
)
def test_what_cant_be_changes_nothing(options: dict[str, Any], kind: type[Exception], words: str) -> None:
    table = firn.connect("memory://").create_table("t")
    table.append([{"id": 1, "n": 1}])
    version = table.version
    with pytest.raises(kind, match=words):
        table.merge_into([{"id": 1}], **options)
    assert table.version == version and table.merge().version is None, "the lock is free"


def test_other_writers_rows_match_and_stay() -> None:
    bucket = "memory://merge-into-writers"
    a, b = (firn.connect(bucket, writer=w) for w in "ab")
    mine = a.create_table("t", journal="writer")
    mine.append([{"id": 1, "n": 1}])
    b.table("t").append([{"id": 2, "n": 2}])
    done = mine.merge_into(
        [{"id": n, "n": 9} for n in (1, 2, 3)], on=["id"], when_matched="update", when_not_matched="insert"
    )
    assert (done.rows_inserted, done.rows_updated, done.foreign_files) == (1, 1, 1)
    assert _values(mine) == [(1, 9), (2, 2), (3, 9)]


def test_a_key_may_stand_once_in_a_source() -> None:
    table = firn.connect("memory://").create_table("t", key=["id"])
    twice = [{"id": 1, "n": 1}, {"id": 1, "n": 2}]
    with pytest.raises(CardinalityError, match="have the key"):
        table.merge_into(twice, on=["id"], when_matched="update", when_not_matched="insert")
    table.merge_into([{"id": 1, "n": 1}], on=["id"], when_matched="update", when_not_matched="insert")
    assert [commit.op for commit in table.history()] == ["append"], "no lock, no read: an upsert"
    with pytest.raises(InvalidInputError, match="part of the key"):
        table.merge_into([{"id": 1}], on=["id"], when_matched={"id": "5"})


def _values(table: LakeTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        (MergeClause("not matched", "delete"), "can't 'delete' when not matched"),
        (MergeClause("matched", "insert"), "can't 'insert' when matched"),
        (MergeClause("matched ", "delete"), "knows 'matched', 'not matched'"),  # type: ignore[arg-type]
        (MergeClause("not matched by source", "update"), "needs values"),
        (MergeClause("not matched by source", "update", None, {"n": "s.n"}), '"s"'),
        (MergeClause("matched", "update", None, {"n": "1", "N": "2"}), "set twice"),
    ],
)
def test_a_clause_that_cant_be_changes_nothing(clause: MergeClause, words: str) -> None:
    table = firn.connect("memory://").create_table("t")
    table.append([{"id": 1, "n": 1}])
    with pytest.raises(InvalidInputError, match=words):
        table.merge_into([{"id": 2, "n": 2}], on=["id"], clauses=[clause])
    assert _values(table) == [(1, 1)] and table.merge().version is None, "the lock is free"


def test_star_lacks_no_column_of_a_table_with_a_key() -> None:
    table = firn.connect("memory://").create_table("t", key=["id"])
    table.append([{"id": 1, "n": 1, "m": 2}])
    with pytest.raises(InvalidInputError, match="no column 'm'"):
        table.merge_into([{"id": 1, "n": 5}], on=["id"], when_matched="update", when_not_matched="insert")
    assert _values(table) == [(1, 1, 2)]


@pytest.mark.parametrize(
    ("on", "op"),
    [
        ("t.id = s.id", "append"),
        ('(s."ID" = t.id)', "append"),
        ("t.id = s.n", "merge_into"),
        ("t.id = t.id", "merge_into"),
        ("t.id = s.id AND t.n > 5", "merge_into"),
        ("t.id IS NOT DISTINCT FROM s.id", "merge_into"),
    ],
)
def test_a_condition_of_the_key_alone_is_an_upsert(on: str, op: str) -> None:
    table = firn.connect("memory://").create_table("t", key=["id"])
    table.append([{"id": 1, "n": 1}])
    table.merge_into([{"id": 1, "n": 1}], on=on, when_matched="update", when_not_matched="insert")
    assert table.history()[-1].op == op


def test_an_upsert_takes_columns_in_another_case() -> None:
    table = firn.connect("memory://").create_table("t", schema={"id": "BIGINT", "n": "BIGINT"}, key=["id"])
    given = [{"N": 1, "ID": 1, "more": 2}]
    table.merge_into(given, on="t.id = s.id", when_matched="update", when_not_matched="insert")
    assert table.history()[-1].op == "append"
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "n": 1, "more": 2}]


@pytest.mark.parametrize("key", [None, ["id"]])
@pytest.mark.parametrize("name", ["~source row", "~Row", "~clause"])
def test_columns_that_are_called_as_a_merges_own_are_refused(name: str, key: list[str] | None) -> None:
    table = firn.connect("memory://").create_table("t", schema={"id": "BIGINT", name: "BIGINT"}, key=key)
    if key is None:
        with pytest.raises(UnsupportedError, match="rename it"):
            table.update("true", {name: "2"})
    for on in ("t.id = s.id", "t.id + 0 = s.id"):
        with pytest.raises(UnsupportedError, match="rename it"):
            table.merge_into([{"id": 1, name: 2}], on=on, when_matched="update", when_not_matched="insert")


@pytest.mark.parametrize(
    ("on", "condition", "columns"),
    [
        ("t.id = s.id", None, "id"),
        ("id = s.id", "G = 'a'", "id g"),
        ("true", None, "id"),
        ("t = s", None, "id g n"),
        ("t['n'] = 1", None, "id g n"),
        ("t.id = s.id", "COLUMNS('n') > 1", "id g n"),
    ],
)
def test_the_first_pass_reads_what_decides(on: str, condition: str | None, columns: str) -> None:
    matching = Matching("t", "s", on, [MergeClause("matched", "delete", condition)], None, COLUMNS)
    assert " ".join(deciding_columns(matching)) == columns


def test_rows_that_a_soft_delete_took_dont_match_nor_come_back() -> None:
    table = table_of("writer")
    table.append(pa.Table.from_pylist([{"id": n, "g": "a", "n": n} for n in range(4)], table.schema()))
    assert table.delete("n = 0").files_marked == 1
    source = pa.Table.from_pylist([{"id": n, "g": "s", "n": 9} for n in (0, 2)], table.schema())
    done = table.merge_into(
        source, on="t.id = s.id", when_matched={"n": "s.n"}, when_not_matched={"id": "s.id", "g": "s.g"}
    )
    assert (done.rows_inserted, done.rows_updated) == (1, 1)
    assert stored(table) == [
        ("0", "s", "None"), ("1", "a", "1"), ("2", "a", "9"), ("3", "a", "3"),
    ]  # fmt: skip


def test_an_append_beside_a_merge_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    table = firn.connect("memory://").create_table("t", properties={"lock_wait": "0s"})
    table.append([{"id": 1, "n": 1}])
    real = merge_into.run_tasks

    def beside(*args: Any) -> Any:
        monkeypatch.undo()
        table.append([{"id": 2, "n": 2}])
        with pytest.raises(LockHeldError):
            table.merge_into([{"id": 1}], on=["id"], when_matched="delete")
        return real(*args)

    monkeypatch.setattr(merge_into, "run_tasks", beside)
    done = table.merge_into(
        [{"id": 1, "n": 5}, {"id": 3, "n": 3}], on=["id"], when_matched="update", when_not_matched="insert"
    )
    assert (done.rows_inserted, done.rows_updated) == (1, 1)
    assert _values(table) == [(1, 5), (2, 2), (3, 3)]
    assert [commit.op for commit in table.history()] == ["append", "append", "merge_into"], "one commit"


def test_a_table_without_columns_matches_nothing() -> None:
    table = firn.connect("memory://").create_table("t")
    with pytest.raises(InvalidInputError, match="no columns yet"):
        table.merge_into([{"id": 1}], on=["id"], when_not_matched="insert")
    table.append([{"id": 1}])
    assert table.merge_into([{"id": 2}], on=["id"], when_not_matched="insert").rows_inserted == 1


@pytest.mark.parametrize(
    "kind", ["UUID", "HUGEINT", "DECIMAL(9,2)", "BLOB", "INTEGER[]", "STRUCT(a VARCHAR)", "BOOLEAN"]
)
def test_a_row_is_replaced_whatever_its_type(kind: str) -> None:
    table = firn.connect("memory://").create_table("t", schema={"id": "BIGINT", "old": kind, "new": kind})
    value = {"UUID": "uuid()", "BLOB": "'x'::BLOB", "INTEGER[]": "[1]", "STRUCT(a VARCHAR)": "{'a': 'x'}"}
    table.append([{"id": n} for n in range(4)])
    table.update("true", {"old": value.get(kind, "1"), "new": "NULL"})
    before = {row["id"]: row["old"] for row in table.scan().to_arrow().to_pylist()}
    clauses = [
        MergeClause("matched", "delete", "t.id = 3"),
        MergeClause("matched", "update", "t.id = 2", {"old": "NULL"}),
        MergeClause("matched", "update", None, {"new": "t.old"}),
    ]
    table.merge_into([{"id": n} for n in (1, 2, 3)], on=["id"], clauses=clauses)
    assert before[0] is not None and _values(table) == [
        (0, before[0], None), (1, before[1], before[1]), (2, None, None),
    ]  # fmt: skip


def test_batches_of_a_file_change_by_its_numbers() -> None:
    clauses = [MergeClause("matched", "delete"), MergeClause("matched", "update", None, {"n": "t.n + 10"})]
    matching = Matching("t", "s", "true", clauses, None, {"n": "INTEGER"})
    batches = [pa.table({"n": pa.array(part, pa.int32())}) for part in ([0, 1], [2, 3, 4], [5])]
    changes = pa.table({ROW: [4, 1, 2, 5], SOURCE_ROW: [-1] * 4, CLAUSE: [1, 0, 1, 0]})
    made = [rows["n"].to_pylist() for rows in matching.in_batches(batches, changes)]
    assert made == [[0], [12, 3, 14], []]


def test_conditions_of_rows_without_a_source_row_choose_files() -> None:
    table = firn.connect("memory://").create_table("t")
    for first in range(0, 1000, 100):
        table.append([{"id": n, "n": 0} for n in range(first, first + 100)])
    clauses = [
        MergeClause("matched", "update"),
        MergeClause("not matched by source", "nothing", "t.id < 300"),
        MergeClause("not matched by source", "delete", "t.id >= 899 AND n = 0"),
    ]
    before = table.bucket.counters.get
    done = table.merge_into([{"id": 250, "n": 7}, {"id": 950, "n": 7}], on=["id"], clauses=clauses)
    assert (done.files_removed, done.rows_updated, done.rows_deleted) == (3, 2, 100)
    assert table.bucket.counters.get - before < 22, "ten logs, the lock, three files twice"


def test_a_merge_by_key_reads_only_files_that_may_hold_the_keys() -> None:
    table = firn.connect("memory://").create_table("t", key=["id"])
    for first in range(0, 1000, 100):
        table.append([{"id": n, "n": n} for n in range(first, first + 100)])
    table.upsert([{"id": 250, "n": 5}])
    before = table.bucket.counters.get
    done = table.merge_into(
        [{"id": 250}, {"id": 2000}],
        on=["id"],
        when_matched={"n": "t.n + 1"},
        when_not_matched={"id": "s.id", "n": "0"},
    )
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    assert table.bucket.counters.get - before < 20, "eleven logs, the lock, two files"
    assert table.scan(where="id IN (250, 2000)").to_arrow().sort_by("id")["n"].to_pylist() == [6, 0]


@pytest.mark.parametrize("on", ["t.id = s.id", "t.id = s.id AND s.n < 3", "s.other = t.id"])
def test_a_repeated_key_of_the_source_is_an_error_in_each_merge(on: str) -> None:
    table = firn.connect("memory://").create_table("t", key=["id"])
    table.append([{"id": 1, "n": 1}])
    twice = [{"id": 5, "other": 5, "n": 1}, {"id": 5, "other": 5, "n": 4}]
    with pytest.raises(CardinalityError, match="have the key"):
        table.merge_into(twice, on=on, when_matched={"n": "s.n"})
    assert _values(table) == [(1, 1)]


def test_the_source_has_an_alias_of_its_own() -> None:
    db = firn.connect("memory://")
    db.create_table("t").append([{"id": 1, "n": 1}])
    with pytest.raises(InvalidInputError, match="another alias"):
        db.sql("MERGE INTO t USING t ON t.id = t.id WHEN MATCHED THEN DELETE")


def test_values_of_rows_without_a_source_name_the_target_alone() -> None:
    table = firn.connect("memory://").create_table("t")
    table.append([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    done = table.merge_into(
        [{"id": 1, "n": 10}],
        on=["id"],
        when_matched={"n": "s.n + t.n"},
        when_not_matched_by_source={"n": "n * 3"},
    )
    assert done.rows_updated == 2
    assert sorted(row["n"] for row in table.scan().to_arrow().to_pylist()) == [6, 11]


def test_one_column_of_the_source_equals_two_of_the_key() -> None:
    table = firn.connect("memory://").create_table("t", key=["a", "b"])
    table.append([{"a": 1, "b": 1, "n": 0}, {"a": 1, "b": 2, "n": 0}])
    done = table.merge_into([{"x": 1, "n": 5}], on="t.a = s.x AND t.b = s.x", when_matched={"n": "s.n"})
    assert done.rows_updated == 1
    assert sorted(row["n"] for row in table.scan().to_arrow().to_pylist()) == [0, 5]
    with pytest.raises(CardinalityError):
        table.merge_into([{"x": 1}, {"x": 1}], on="t.a = s.x AND t.b = s.x", when_matched="delete")


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint64()])
def test_whole_numbers_of_any_width_leave_files_out(
    kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = firn.connect("memory://").create_table("t")
    for part in range(5):
        table.append(
            pa.table({"id": pa.array(range(part * 10, part * 10 + 10)), "n": pa.nulls(10, pa.int64())})
        )
    rows = pa.table({"id": pa.array([7, 100], kind), "n": [1, 2]})
    looked: list[int] = []
    may_match = merge_into.may_match

    def counting(*given: Any) -> Any:
        files = may_match(*given)
        looked.append(len(files))
        return files

    monkeypatch.setattr(merge_into, "may_match", counting)
    for on in ("t.id = s.id", "t.id + 0 = s.id"):
        assert table.merge_into(rows, on=on, when_matched={"n": "s.n"}).rows_updated == 1
    assert looked == [1, 5]
