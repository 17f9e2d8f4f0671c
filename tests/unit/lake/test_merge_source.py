"""Sources of merges that are staged: what is written, read and left."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.clock import SystemClock
from firn.errors import AppendExpiredError, CardinalityError, InvalidInputError
from firn.journal.leaderless.journal import LeaderlessJournal
from firn.journal.writer.format.layout import WriterLayout
from firn.lake.maintain.matching import source as merge_source
from firn.lake.maintain.matching.source import StagedSource, Staging
from firn.lake.maintain.rebuild import rebuild
from firn.lake.table import LakeTable
from firn.runner import LocalRunner
from merge_oracle import check, left_over, noted_sources

DAY_S = 86_400


@pytest.fixture
def staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every source is staged, each row in a part of its own."""
    real = merge_source.staging_spec
    monkeypatch.setattr(merge_source, "IN_MEMORY_BYTES", 0)
    monkeypatch.setattr(merge_source, "staging_spec", lambda *given: replace(real(*given), target_size=1))


class Elsewhere(LocalRunner):
    """Tasks get what would reach another process."""

    distributed = True
    longest = 0

    def map(self, fn: Any, tasks: Sequence[Any], *, bucket: Any, context: Any, **options: Any) -> list[Any]:
        sent = [pickle.dumps(one) for one in (context, *tasks)]
        self.longest = max([self.longest, *map(len, sent)])
        context, *tasks = map(pickle.loads, sent)
        return super().map(fn, tasks, bucket=bucket, context=context, **options)


def stock(writer: bool = False, url: Path | str = "memory://", **options: Any) -> LakeTable:
    db = firn.connect(url, writer="w" if writer else None, **options)
    table = db.create_table("t", journal="writer" if writer else "leaderless")
    table.append([{"id": n, "n": n} for n in range(4)])
    return table


def rows_of(table: LakeTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


@pytest.mark.parametrize("kind", ["plain", "placed", "writer", "key"])
def test_random_merges_of_staged_sources(kind: str, staged: None) -> None:
    for seed in range(12):
        check(kind, seed)


def test_a_part_costs_a_put_and_a_delete(staged: None) -> None:
    table = stock()
    table.snapshot()
    spent = []
    for limit in (10**9, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(merge_source, "IN_MEMORY_BYTES", limit)
            before = table.bucket.counters.as_dict()
            table.merge_into([{"id": 1}, {"id": 2}, {"id": 9}], on=["id"], when_matched={"n": "t.n + 1"})
            after = table.bucket.counters.as_dict()
            spent.append({verb: after[verb] - before[verb] for verb in ("put", "delete")})
    assert spent[1] == {"put": spent[0]["put"] + 3, "delete": spent[0]["delete"] + 3}


def test_a_stream_is_staged_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_source, "IN_MEMORY_BYTES", 20)
    table = stock()
    batches = [pa.record_batch({"id": [n, n + 1], "n": [70, 71]}) for n in (0, 2, 4)]
    reader = pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
    kept = noted_sources(monkeypatch)
    done = table.merge_into(reader, on=["id"], when_matched="update", when_not_matched="insert")
    assert isinstance(kept[0], StagedSource) and (done.rows_updated, done.rows_inserted) == (4, 2)
    assert rows_of(table) == [(n, 70 + n % 2) for n in range(6)]


def test_tasks_elsewhere_never_carry_the_source(tmp_path: Path) -> None:
    runner = Elsewhere(threads=1)
    table = stock(url=tmp_path, runner=runner)
    text = "long " * 20_000
    rows = [{"id": n, "n": n + 10, "text": text + str(n)} for n in (2, 3, 7)]
    table.merge_into(
        rows, on=["id"], when_matched={"n": "length(s.text)"}, when_not_matched={"id": "s.id", "n": "s.n"}
    )
    assert rows_of(table) == [(0, 0), (1, 1), (2, 100_001), (3, 100_001), (7, 17)]
    assert 0 < runner.longest < 20_000 and not left_over(table)


def test_tasks_read_the_columns_that_they_need(staged: None, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[str, ...]] = []
    spec = StagedSource._spec

    def noted(self: StagedSource, columns: Any) -> Any:
        read.append(tuple(columns))
        return spec(self, columns)

    monkeypatch.setattr(StagedSource, "_spec", noted)
    table = stock()
    table.merge_into(
        [{"id": n, "n": n, "more": n, "unused": n} for n in (2, 3, 7)],
        on="t.id = s.id AND s.n > 2",
        when_matched={"n": "s.more"},
        when_not_matched={"id": "s.id"},
    )
    assert set(read) == {("id",), ("id", "n"), ("more",)}


@pytest.mark.parametrize("writer", [False, True])
def test_a_failure_leaves_nothing(writer: bool, staged: None) -> None:
    table = stock(writer)
    with pytest.raises(CardinalityError):
        table.merge_into([{"id": 1}, {"id": 1}], on=["id"], when_matched="delete")
    with pytest.raises(InvalidInputError, match="nope"):
        table.merge_into([{"id": 1}], on="t.id = s.nope", when_matched="delete")
    assert not left_over(table)


def lost(table: LakeTable) -> list[str]:
    """The parts of a merge that died."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Staging, "__exit__", lambda *error: None)
        with pytest.raises(CardinalityError):
            table.merge_into([{"id": 1}, {"id": 1}], on=["id"], when_matched="delete")
    return left_over(table)


@pytest.mark.parametrize("writer", [False, True])
def test_sweep_takes_what_died_once_it_is_old(
    writer: bool, staged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stock(writer)
    parts = lost(table)
    assert len(parts) == 2
    for n in (8, 9):
        table.append([{"id": n, "n": n}])
    assert not table.sweep(older_than="0s").orphans, "as young as those of a merge under way"
    bucket = type(table.bucket)
    monkeypatch.setattr(bucket, "list", _older(bucket.list, 8 * DAY_S * 1000))
    assert set(table.sweep().orphans) == set(parts)
    monkeypatch.undo()
    assert not left_over(table) and len(rows_of(table)) == 6


def _older(list_: Callable[..., Any], ms: int) -> Callable[..., Any]:
    """A LIST whose objects are older by so much."""

    def listed(self: Any, *args: Any, **options: Any) -> Any:
        found = list_(self, *args, **options)
        aged = [replace(info, modified_ms=info.modified_ms - ms) for info in found.objects]
        return replace(found, objects=tuple(aged))

    return listed


def test_a_sweep_keeps_what_a_running_statement_of_a_writer_has_staged(
    staged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stock(writer=True)
    keep = Staging.keep

    def swept(self: Staging, data: Any) -> Any:
        found = keep(self, data)
        assert not table.sweep(older_than="0s", orphans="0s").orphans
        return found

    monkeypatch.setattr(Staging, "keep", swept)
    assert table.merge_into([{"id": 1, "n": 5}], on=["id"], when_matched="update").rows_updated == 1


def test_rebuild_takes_no_staged_rows(staged: None, tmp_path: Path) -> None:
    def opened() -> LakeTable:
        return firn.connect(tmp_path, writer="w").table("t")

    firn.connect(tmp_path, writer="w").create_table("t", journal="writer")
    opened().append([{"id": n, "n": n} for n in range(4)])
    opened().append([{"id": 4, "n": 4}])
    table = opened()
    layout = WriterLayout("", "w", tmp_path.name)
    assert len(lost(table)) == 2
    for prefix in (layout.transactions_prefix, layout.claims_prefix):
        table.bucket.delete_many([info.key for info in table.bucket.list(prefix).objects])
    assert not rebuild(table.bucket, layout, LocalRunner()).unreadable
    assert rows_of(opened()) == [(n, n) for n in range(5)]


@pytest.mark.parametrize("writer", [False, True])
def test_a_source_that_is_too_old_publishes_nothing(
    writer: bool, staged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stock(writer)
    take = StagedSource.take

    def slow(self: StagedSource, *args: Any) -> Any:
        now = SystemClock().monotonic() + 8 * DAY_S
        monkeypatch.setattr(SystemClock, "monotonic", lambda self: now)
        monkeypatch.setattr("firn.journal.writer.commit.pending.seconds_awake_or_not", lambda clock: now)
        return take(self, *args)

    monkeypatch.setattr(StagedSource, "take", slow)
    with pytest.raises(AppendExpiredError, match=r"this merge_into of .*t began 691200 s ago"):
        table.merge_into([{"id": 1, "n": 5}], on=["id"], when_not_matched="insert", when_matched="update")
    monkeypatch.undo()
    assert rows_of(table) == [(n, n) for n in range(4)]


@pytest.mark.parametrize("options", [{}, {"key": ["id"]}])
def test_a_source_that_was_swept_publishes_nothing(
    options: dict[str, Any], staged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = firn.connect("memory://").create_table("t", **options)
    table.append([{"id": 1, "n": 1}])
    keep = Staging.keep

    def swept(self: Staging, data: Any) -> Any:
        found = keep(self, data)
        assert isinstance(found, StagedSource)
        table.bucket.delete(found.files[0].path)
        return found

    monkeypatch.setattr(Staging, "keep", swept)
    with pytest.raises(AppendExpiredError, match="swept by a shorter orphans="):
        table.merge_into([{"id": 1, "n": 5}], on=["id"], when_matched="update", when_not_matched="insert")
    assert rows_of(table) == [(1, 1)]


@pytest.mark.parametrize("kind", ["UUID", "HUGEINT", "DECIMAL(9,2)", "BLOB", "INTEGER[]", "TIMESTAMP_NS"])
def test_a_staged_source_keeps_its_types(kind: str, staged: None) -> None:
    db = firn.connect("memory://")
    db.sql(f"CREATE TABLE t (id BIGINT, x {kind}, said VARCHAR)")
    value = {"UUID": "uuid()", "BLOB": "'x'::BLOB", "INTEGER[]": "[1]", "TIMESTAMP_NS": "'2020-01-01'"}
    db.sql(f"INSERT INTO t SELECT 1, CAST({value.get(kind, '7')} AS {kind}), NULL")
    db.sql(
        "MERGE INTO t USING (SELECT id + n AS id, x FROM t, range(2) r(n)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET said = typeof(s.x) WHEN NOT MATCHED THEN INSERT (id, x) VALUES (s.id, s.x)"
    )
    first, second = db.sql("SELECT x, said FROM t ORDER BY id")
    assert first["x"] == second["x"] is not None and first["said"] == kind


@pytest.mark.parametrize(
    ("source", "before"),
    [
        ("(SELECT 1 AS id, 9 AS n)", True),
        ("other", True),
        ("(SELECT id, n + 1 AS n FROM T)", False),
        ("(SELECT 1 AS id, (SELECT max(n) FROM firn.t) AS n)", False),
        ("(SELECT id, 9 AS n FROM t AT (TIMESTAMP => now()))", False),
    ],
)
def test_a_source_that_does_not_read_the_table_is_computed_before_the_lock(
    source: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = firn.connect("memory://")
    for name in ("t", "other"):
        db.create_table(name).append([{"id": 1, "n": 1}])
    order: list[str] = []
    keep, exclusive = Staging.keep, LeaderlessJournal.exclusive

    def kept(self: Staging, data: Any) -> Any:
        order.append("source")
        return keep(self, data)

    def locked(self: LeaderlessJournal, op: str) -> Any:
        order.append("lock")
        return exclusive(self, op)

    monkeypatch.setattr(Staging, "keep", kept)
    monkeypatch.setattr(LeaderlessJournal, "exclusive", locked)
    db.sql(f"MERGE INTO t USING {source} AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n")
    assert order == (["source", "lock"] if before else ["lock", "source"])
