"""Soft deletes: what they cost, what every reader makes of them, and how they end."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from firn.errors import CorruptObjectError, InvalidInputError, UnsupportedError
from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.model import Commit, DataFile, SoftDelete, with_deletes
from firn.lake.maintain.plan import plan_merge
from firn.lake.prune.soft_deletes import frozen, living, predicates
from firn.lake.read.read import ReadSpec, read_file
from firn.lake.table import LakeTable
from firn.predicate.predicate import Predicate


def make(url: str = "memory://", partition_by: list[str] | None = None, **properties: Any) -> LakeTable:
    columns = {"k": "BIGINT", "s": "VARCHAR"} if partition_by else None
    return firn.connect(url, writer="w").create_table(
        "t", journal="writer", schema=columns, partition_by=partition_by or [], properties=properties
    )


def rows(table: LakeTable, **scan: Any) -> list[dict[str, Any]]:
    return table.scan(**scan).to_arrow().to_pylist()


def marks(table: LakeTable) -> list[tuple[str, ...]]:
    return [file.deletes for file in table.snapshot().files]


NUMBERS = [{"k": 1, "s": "a"}, {"k": 2, "s": None}, {"k": 3, "s": "c"}, {"k": None, "s": "d"}]


# -- deleting


def test_a_soft_delete_reads_no_data_and_takes_no_row_for_which_it_is_null() -> None:
    table = make()
    table.append(NUMBERS)
    table.snapshot()
    before = table.bucket.counters.as_dict()
    result = table.delete("s <> 'a'")
    spent = table.bucket.counters.since(before)
    # the writers there are and what is new of this one; then the marker, the claim, the claim before, the commit
    assert {v: spent[v] for v in ("list", "get", "put", "head")} == {"list": 2, "get": 1, "put": 3, "head": 0}
    assert (result.files_marked, result.files_removed, result.files_added) == (1, 0, 0)
    assert result.rows_deleted is None and result.files == (table.snapshot().files[0].path,)
    assert rows(table) == NUMBERS[:2]


def test_statistics_leave_files_out_and_remove_whole_ones() -> None:
    table = make(partition_by=["s"])
    table.append([{"k": k, "s": s} for s in "ab" for k in (1, 2)])
    table.append([{"k": k, "s": "a"} for k in (8, 9)])
    plan = table.delete("s = 'a' and k > 1", dry_run=True)
    assert marks(table) == [()] * 3 and plan.version is None and plan.dry_run
    result = table.delete("s = 'a' and k > 1")
    assert (result.files_marked, result.files_removed) == (plan.files_marked, plan.files_removed) == (1, 1)
    assert result.files == plan.files and len(plan.files) == 2
    assert sorted((r["k"], r["s"]) for r in rows(table)) == [(1, "a"), (1, "b"), (2, "b")]
    assert table.scan(where="s = 'a'").count() == 1
    assert table.delete("k > 100").version is None
    assert table.delete("k > 1 AND s = 'a'").version is not None  # other words, so another predicate
    assert table.delete("s = 'a' and k > 1").version is None


def test_later_rows_are_untouched_and_older_versions_stay() -> None:
    table = make()
    first = table.append(NUMBERS).version
    table.delete("k >= 2")
    table.append([{"k": 5, "s": "later"}])
    assert {r["k"] for r in rows(table)} == {1, None, 5}
    assert rows(table, at=first) == NUMBERS
    table.delete("k >= 5 or s = 'd'")
    assert [r["k"] for r in rows(table)] == [1]


@pytest.mark.parametrize(
    "where", ["nope = 1", "k >", "k = (SELECT 1)", "no_such(k) = 1", "random() < 0.5", ""]
)
def test_a_predicate_that_doesnt_fit_is_refused(where: str) -> None:
    table = make()
    table.append(NUMBERS)
    with pytest.raises(InvalidInputError):
        table.delete(where)
    assert marks(table) == [()]


def test_a_leaderless_table_refuses_them_and_says_what_to_do() -> None:
    table = firn.connect("memory://").create_table("t")
    table.append(NUMBERS)
    with pytest.raises(UnsupportedError, match=r"t can't keep soft deletes.*soft=False"):
        table.delete("k = 1", soft=True)
    assert table.delete("k = 1").files_added == 1
    path = table.snapshot().files[0].path
    with (
        table.journal.exclusive("delete") as session,
        pytest.raises(UnsupportedError, match="t: a leaderless log keeps no soft deletes"),
    ):
        session.publish(Commit("delete", soft_deletes=[SoftDelete("k = 2", (path,))]))
    assert table.scan().count() == 3


# -- reading


def test_every_reader_agrees_with_duckdb_on_random_predicates(tmp_path: Path) -> None:
    table = make(str(tmp_path))
    dice = random.Random(7)
    truth = duckdb.connect()
    truth.execute("CREATE TABLE t (f INTEGER, k BIGINT, s VARCHAR, x DOUBLE)")
    for number in range(4):
        data = pa.Table.from_pylist(
            [
                {
                    "f": number,
                    "k": dice.choice([None, *range(9)]),
                    "s": dice.choice(["a", "b", None]),
                    "x": dice.choice([0.0, -1.5, float("nan"), None]),
                }
                for _ in range(40)
            ],
            pa.schema([("f", pa.int32()), ("k", pa.int64()), ("s", pa.string()), ("x", pa.float64())]),
        )
        kept = data.select(["f", "k", "s"]) if number == 2 else data  # a file that lacks a column
        table.append(kept)
        truth.register("fresh", kept)
        truth.execute("INSERT INTO t BY NAME SELECT * FROM fresh")
    texts = [
        "k = {}",
        "k < {} AND s = 'a'",
        "x > {} OR k = 3",
        "s IS NULL AND k <> {}",
        "f = {} AND x IS NULL",
    ]
    for _ in range(12):
        where = dice.choice(texts).format(dice.randrange(9))
        table.delete(where)
        truth.execute(f"DELETE FROM t WHERE {where}")
        look = dice.choice(texts).format(dice.randrange(9))
        for asked in (None, look):
            sql = f"SELECT f, k, s FROM t WHERE {asked or 'true'} ORDER BY ALL"
            expected = truth.execute(sql).fetchall()
            scan = table.scan(columns=["f", "k", "s"], where=asked)
            found = duckdb.from_arrow(scan.to_arrow()).order("ALL").fetchall()
            assert found == expected, (asked, marks(table))
            assert scan.count() == len(expected)
            assert sum(batch.num_rows for batch in table.scan(where=asked).to_batches()) == len(expected)
    assert max(len(deletes) for deletes in marks(table)) > 3


def test_row_groups_that_are_deleted_whole_arent_read(tmp_path: Path) -> None:
    table = make(str(tmp_path), row_group_rows=10_000)
    noise = random.Random(5)
    table.append(pa.table({"n": range(50_000), "pad": [noise.randbytes(40).hex() for _ in range(50_000)]}))
    table.delete("n >= 15000")
    before = table.bucket.counters.as_dict()["bytes_in"]
    assert table.scan().to_arrow()["n"].to_pylist() == list(range(15_000))
    first = table.bucket.counters.as_dict()["bytes_in"] - before
    assert first < table.snapshot().files[0].size / 2
    table.delete("n < 10000", soft=False)
    assert marks(table) == [()] and table.scan().count() == 5000


def test_count_reads_what_predicates_need_and_no_more(tmp_path: Path) -> None:
    table = make(str(tmp_path))
    table.append(pa.table({"n": range(1000), "pad": ["x" * 500 + str(n) for n in range(1000)]}))
    table.append(pa.table({"n": range(2000, 2100), "pad": ["y"] * 100}))
    table.delete("n % 10 = 0 and n < 1500")
    before = table.bucket.counters.as_dict()["bytes_in"]
    assert table.scan().count() == 1000
    assert table.scan(where="n < 1500").count() == 900
    assert table.scan(where="n >= 2000").count() == 100
    assert table.bucket.counters.as_dict()["bytes_in"] - before < 50_000
    parts = table.partitions()
    assert [(p.rows, p.files) for p in parts] == [(None, 2)]


def test_other_engines_arent_given_files_whose_deleted_rows_they_would_show(tmp_path: Path) -> None:
    table = make(str(tmp_path))
    table.append(NUMBERS)
    table.append([{"k": 100, "s": "z"}])
    table.delete("k = 1")
    marked = next(f for f in table.snapshot().files if f.deletes)
    with pytest.raises(UnsupportedError, match=rf"1 of the 2 files of t .*{marked.path}.*merge\(\)"):
        table.scan().uris()
    assert len(table.scan(where="k = 100").uris()) == 1
    assert "4 rows, 1 soft deletes" in table.scan().explain()
    table.merge()
    assert duckdb.read_parquet(table.scan().uris()).count("*").fetchall() == [(4,)]


# -- columns and types that change


def test_a_predicate_means_what_it_meant_when_columns_widen() -> None:
    """0.1 as a FLOAT is no 0.1 as a DOUBLE, and a time of seconds is no text."""
    table = make()
    table.append(pa.table({"f": pa.array([0.1, 0.5, 0.1], pa.float32()), "n": [1, 2, 3]}))
    table.delete("f = 0.1 and n < 3")
    assert [r["n"] for r in rows(table)] == [2, 3]
    table.append(pa.table({"f": pa.array([0.1]), "n": [1]}))
    assert table.snapshot().columns == {"f": "DOUBLE", "n": "BIGINT"}
    assert [r["n"] for r in rows(table)] == [2, 3, 1]
    assert table.scan().count() == 3 and table.scan(where="n = 1").count() == 1
    table.merge()
    assert [r["n"] for r in rows(table)] == [2, 3, 1]


def test_a_loosely_widened_column_is_still_compared_as_what_it_was() -> None:
    table = make(on_conflict="widen")
    table.append([{"n": n} for n in (5, 30, 200)])
    file = table.snapshot().files[0]
    marked = with_deletes(file, frozen(Predicate.parse("n > 25", {"n": "BIGINT"}), {"n": "BIGINT"}))
    snapshot = replace(table.snapshot(), columns={"n": "VARCHAR"}, loose=frozenset("n"))
    found = list(read_file(table.bucket, marked, ReadSpec.of(snapshot)))
    assert [t["n"].to_pylist() for t in found] == [["5"]]


def test_a_text_that_came_without_casts_is_taken_over_todays_types() -> None:
    table = make()
    table.append(pa.table({"n": pa.array([1, 2, 3], pa.int32())}))
    table.append(pa.table({"n": [2**40]}))
    (old, new), known = table.snapshot().files, table.snapshot().columns
    spec = ReadSpec.of(table.snapshot())
    found = [t.to_pydict() for t in read_file(table.bucket, with_deletes(old, "n > 2", "N = 1"), spec)]
    assert (found, known) == ([{"n": [2]}], {"n": "BIGINT"})
    assert list(read_file(table.bucket, with_deletes(new, "n > 2"), spec)) == []


def test_a_column_that_the_table_has_no_more_is_null() -> None:
    table = make()
    table.append([{"k": 1}, {"k": 2}])
    file, spec = table.snapshot().files[0], ReadSpec.of(table.snapshot())
    for text in (
        "gone = 5 OR k = 1",
        "CAST(\"gone\" AS DATE) > DATE '2000-01-01' OR k = 1",
        "k = 1 AND g.a IS NULL",
    ):
        found = [t.to_pydict() for t in read_file(table.bucket, with_deletes(file, text), spec)]
        assert found == [{"k": [2]}], text


KINDS = {
    "TINYINT": "5",
    "UBIGINT": "5",
    "HUGEINT": "5",
    "DECIMAL(10,2)": "1.50",
    "FLOAT": "0.1",
    "DOUBLE": "0.1",
    "BOOLEAN": "true",
    "VARCHAR": "'x'",
    "DATE": "DATE '2001-01-01'",
    "TIME": "TIME '12:00:00'",
    "TIMESTAMP": "TIMESTAMP '2001-01-01 00:00:00'",
    "TIMESTAMP_S": "'2001-01-01 00:00:00'",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ '2001-01-01 00:00:00+00'",
    "UUID": "'00000000-0000-0000-0000-000000000001'",
    "BLOB": "'a'::BLOB",
    "STRUCT(a INTEGER)": "{'a': 1}",
    "INTEGER[]": "[1]",
}


@pytest.mark.parametrize("kind", KINDS)
def test_casts_to_todays_type_are_taken_off_again(kind: str) -> None:
    """Else nothing would be pruned by them, and Spark's own reader would be left out."""
    columns = {'a "b': kind, "other": "BIGINT"}
    predicate = Predicate.parse(f'"A ""b" = {KINDS[kind]} OR other > 5', columns)
    text = frozen(predicate, columns)
    assert [p.sql for p in predicates([text], columns, "file")] == [predicate.sql]
    assert text != predicate.sql
    if "STRUCT" not in kind and "[" not in kind:
        wider = predicates([text], {**columns, 'a "b': "VARCHAR"}, "file")[0]
        assert wider.columns == predicate.columns and (wider.sql == predicate.sql) == (
            kind in ("VARCHAR", "UUID")
        )


def test_a_predicate_that_fails_on_a_row_leaves_the_row_and_the_file_readable() -> None:
    table = make()
    table.append([{"s": "1"}, {"s": "x"}, {"s": "2"}])
    table.delete("CAST(s AS INTEGER) = 1")
    assert [r["s"] for r in rows(table)] == ["x", "2"] and table.scan().count() == 2
    with pytest.raises(InvalidInputError, match="Could not convert"):
        table.delete("CAST(s AS INTEGER) = 2", soft=False)
    table.merge()
    assert marks(table) == [()] and [r["s"] for r in rows(table)] == ["x", "2"]


@pytest.mark.parametrize(
    "text", ["k >", "k = (SELECT 1)", "no_such(k) = 1", "sum(k) > 1", "k = 1; k = 2", "x.y.z("]
)
def test_a_predicate_that_cant_be_read_is_an_error_that_names_the_file(text: str) -> None:
    table = make()
    before = table.append(NUMBERS).version
    file = table.snapshot().files[0]
    with table.journal.exclusive("delete") as session:
        session.publish(Commit("delete", soft_deletes=[SoftDelete(text, (file.path,))]))
    for read in (
        table.scan().to_arrow,
        table.scan(where="k = 1").to_arrow,
        lambda: list(table.scan().to_batches()),
        table.scan().count,
        table.scan(where="k = 1").count,
        table.merge,
        lambda: table.delete("k = 1", soft=False),
        lambda: table.rewrite("k = 1"),
    ):
        with pytest.raises(
            CorruptObjectError, match=f"{file.path} has a soft delete that can't be evaluated"
        ):
            read()
    assert table.restore(before).version is not None and table.scan().count() == 4


def test_hundreds_of_predicates_on_one_file() -> None:
    table = make()
    table.append([{"k": k} for k in range(400)])
    file, spec = table.snapshot().files[0], ReadSpec.of(table.snapshot())
    marked = with_deletes(file, *(f"k = {k}" for k in range(300)))
    assert [t["k"].to_pylist() for t in read_file(table.bucket, marked, spec)] == [list(range(300, 400))]


def test_comments_and_ors_cant_leak_out_of_a_predicate() -> None:
    text = living("k = 1 OR k = 2 -- all", ["k = 1 OR s = 'x' -- or"], {"k": "BIGINT", "s": "VARCHAR"}, "f")
    assert text is not None
    kept = duckdb.sql(f"SELECT k FROM (VALUES (1, 'a'), (2, 'a'), (2, 'x'), (3, 'a')) t(k, s) WHERE {text}")
    assert kept.fetchall() == [(2,)]


# -- folding


def test_merge_takes_a_file_with_predicates_alone_and_large_as_it_is() -> None:
    def file(name: str, size: int, *texts: str) -> DataFile:
        return with_deletes(DataFile(f"t/_data/{name}", size, 0, {"rows": 1}), *texts)

    files = [file("a", 1000, "k = 1"), file("b", 2000), file("c", 10)]
    groups = plan_merge(files, places=TableLayout("t", "t"), target_size=1000)
    assert [[f.path[-1] for f in g.files] for g in groups] == [["a"]]
    table = make()
    table.append([{"k": k} for k in range(10)])
    assert table.merge(dry_run=True).files_removed == 0
    table.delete("k < 5")
    assert table.merge(dry_run=True, target_size=1).files_removed == 1
    result = table.merge(target_size=1)
    assert (result.files_removed, result.bytes_added > 0, set(marks(table))) == (1, True, {()})
    assert table.merge(target_size=1).version is None


def test_merge_by_a_query_sees_live_rows_only() -> None:
    table = make()
    table.append(NUMBERS)
    table.append(NUMBERS)
    table.delete("k = 3")
    table.merge(query="SELECT k, max(s) AS s FROM source_files GROUP BY k")
    assert sorted(rows(table), key=repr) == sorted([NUMBERS[0], NUMBERS[1], NUMBERS[3]], key=repr)


def test_a_merge_of_nothing_but_deleted_rows_leaves_no_file() -> None:
    table = make()
    table.append(NUMBERS)
    table.delete("k IS NULL OR k > 1 OR s = 'a'")
    assert marks(table) != [] and rows(table) == []
    table.merge()
    assert table.snapshot().files == ()


def stored(table: LakeTable) -> list[int]:
    """Rows in the live files, whatever is deleted."""
    bodies = [table.bucket.get(f.path).data for f in table.snapshot().files]
    return sorted(n or 0 for body in bodies for n in pq.read_table(pa.BufferReader(body))["k"].to_pylist())


def test_what_rewrites_a_file_leaves_deleted_rows_behind() -> None:
    table = make()
    table.append(NUMBERS)
    table.delete("k = 1")
    result = table.delete("k = 2", soft=False)
    assert (marks(table), stored(table)) == ([()], [0, 3]) and result.rows_deleted is None
    table.delete("k = 3")
    assert stored(table) == [0, 3]
    table.rewrite("true")
    assert (marks(table), stored(table)) == ([()], [0])
    assert rows(table) == [NUMBERS[3]]
    table.delete("s = 'd'", soft=False)
    table.append(NUMBERS)
    table.delete("k = 1")
    table.overwrite([{"k": 2, "s": "new"}], where="k = 2")
    assert marks(table) == [(), ()] and stored(table) == [0, 2, 3]


def test_rewrite_by_a_select_sees_live_rows_only() -> None:
    table = make()
    table.append(NUMBERS)
    table.delete("k < 3")
    table.rewrite("SELECT k, upper(s) AS s FROM _rows")
    assert rows(table) == [{"k": 3, "s": "C"}, {"k": None, "s": "D"}] and marks(table) == [()]


def test_restore_brings_back_what_a_soft_delete_took_and_keeps_what_was_deleted_before() -> None:
    table = make()
    full = table.append(NUMBERS).version
    less = table.delete("k = 1").version
    table.delete("k = 2")
    table.append([{"k": 9, "s": None}])
    table.restore(less)
    assert [r["k"] for r in rows(table)] == [2, 3, None] and marks(table) == [()]
    table.restore(full)
    assert rows(table) == NUMBERS
    table.overwrite([{"k": 7}])
    table.restore(less)
    assert [r["k"] for r in rows(table)] == [2, 3, None]


# -- predicates that can't be kept


@pytest.mark.parametrize("where", ["k = ANY([1, 3])", "NOT (k <> ALL([1, 3]))", "k = SOME([1, 3])"])
def test_any_and_all_rewrite(where: str) -> None:
    """DuckDB makes subqueries of them, which can't stand in a TRY."""
    table = make()
    table.append(NUMBERS)
    with pytest.raises(UnsupportedError, match="ANY or ALL, which no soft delete can keep"):
        table.delete(where, soft=True)
    assert table.delete(where, dry_run=True).files_marked == 0
    assert table.delete(where).rows_deleted == 2
    assert rows(table) == [NUMBERS[1], NUMBERS[3]]


def test_any_and_all_that_were_kept_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(str(tmp_path))
    table.append(NUMBERS)
    monkeypatch.setattr("firn.lake.maintain.delete.can_be_kept", lambda predicate: True)
    assert table.delete("k = ANY([1, 3])").files_marked == 1
    assert rows(table) == [NUMBERS[1], NUMBERS[3]]
    assert list(firn.connect(str(tmp_path), writer="w").sql("FROM t")) == [NUMBERS[1], NUMBERS[3]]
