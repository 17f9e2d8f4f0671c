"""DuckDB inside tasks: what it computes, and what it can't reach."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.arrow.engine import filter_table, run_query
from firn.errors import InvalidInputError, StoreUnavailableError

ROWS = pa.table({"a": [1, 2, None, 4], "s": ["x", None, "y", "z"]})


def test_a_query_over_two_tables() -> None:
    names = pa.table({"id": [1, 2], "name": ["one", "two"]})
    got = run_query("SELECT name, s FROM t JOIN n ON a = id ORDER BY a", {"t": ROWS, "n": names})
    assert got.to_pylist() == [{"name": "one", "s": "x"}, {"name": "two", "s": None}]


def test_rows_keep_their_order() -> None:
    many = pa.table({"a": range(500_000)})
    assert run_query("SELECT a FROM t WHERE a % 3 = 0", {"t": many})["a"].to_pylist() == list(
        range(0, 500_000, 3)
    )


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("sum(a)", pa.decimal128(38, 0)),
        ("count(*)", pa.int64()),
        ("avg(a)", pa.float64()),
        ("sum(1.5::DECIMAL(5,2))", pa.decimal128(38, 2)),
        ("max(s)", pa.string()),
        ("list(a)", pa.list_(pa.int64())),
        ("max(TIMESTAMPTZ '2020-01-01 00:00:00+02')", pa.timestamp("us", "UTC")),
        ("max('a'::ENUM('a', 'b'))", pa.string()),
        ("max(uuid())", pa.string()),
        ("any_value('{}'::JSON)", pa.string()),
        ("max({'a': 1::HUGEINT})", pa.struct([("a", pa.decimal128(38, 0))])),
        ("any_value(MAP {'k': 1})", pa.map_(pa.string(), pa.int32())),
        ("any_value([1, 2]::INT[2])", pa.list_(pa.int32(), 2)),
        ("any_value(NULL)", pa.null()),
        ("max(INTERVAL 1 DAY)", pa.month_day_nano_interval()),
    ],
)
def test_result_types_are_those_of_tables_and_stay_without_rows(expression: str, kind: pa.DataType) -> None:
    for condition in ("true", "false"):
        got = run_query(f"SELECT {expression} AS x FROM t HAVING {condition}", {"t": ROWS})
        assert got.schema.field("x").type == kind
        assert got.num_rows == (condition == "true")


def test_views_and_large_types_come_back_plain() -> None:
    odd = pa.table(
        {"v": pa.array(["a"], pa.string_view()), "l": pa.array([[b"b"]], pa.large_list(pa.binary_view()))}
    )
    assert run_query("SELECT * FROM t", {"t": odd}).schema.types == [pa.string(), pa.list_(pa.binary())]


def test_times_are_utc() -> None:
    day = "SELECT CAST(TIMESTAMPTZ '2020-06-01 00:30:00+02' AS DATE)::VARCHAR AS d"
    assert run_query(day, {}).to_pylist() == [{"d": "2020-05-31"}]


def test_a_type_without_arrow_names_the_column() -> None:
    with pytest.raises(Exception, match=r"column 'b'.*BIT"):
        run_query("SELECT '101'::BIT AS b", {})


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="use AS"):
        run_query("SELECT a, a AS A FROM t", {"t": ROWS})


def test_a_reader_is_streamed_once() -> None:
    reader = pa.RecordBatchReader.from_batches(ROWS.schema, iter(ROWS.to_batches()))
    assert run_query("SELECT sum(a) AS x FROM t", {"t": reader}).to_pylist() == [{"x": Decimal(7)}]


def test_a_reader_that_the_query_reads_twice_gives_all_rows_twice() -> None:
    reader = pa.RecordBatchReader.from_batches(ROWS.schema, iter(ROWS.to_batches()))
    query = "SELECT count(*) AS n FROM t AS x JOIN T AS y ON x.a = y.a"
    assert run_query(query, {"t": reader}).to_pylist() == [{"n": 3}]


def test_a_readers_own_error_comes_out() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise StoreUnavailableError("the bucket is away")

    reader = pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    with pytest.raises(StoreUnavailableError, match="the bucket is away"):
        run_query("SELECT sum(a) FROM t", {"t": reader})
    assert run_query("SELECT 1 AS x", {}).to_pylist() == [{"x": 1}]


def test_a_reader_may_filter_while_a_query_reads_it() -> None:
    def kept() -> Iterator[pa.RecordBatch]:
        for batch in ROWS.to_batches():
            yield from filter_table(pa.Table.from_batches([batch]), "a > 1").to_batches()

    reader = pa.RecordBatchReader.from_batches(ROWS.schema, kept())
    assert run_query("SELECT count(*) AS n FROM t", {"t": reader}).to_pylist() == [{"n": 2}]


def test_tables_are_gone_after_the_call() -> None:
    run_query("SELECT * FROM secret", {"secret": ROWS})
    with pytest.raises(InvalidInputError, match="secret"):
        run_query("SELECT * FROM secret", {})
    with pytest.raises(InvalidInputError):
        run_query("SELECT nonsense FROM secret", {"secret": ROWS})
    with pytest.raises(InvalidInputError, match="secret"):
        run_query("SELECT * FROM secret", {})


def test_python_variables_are_out_of_reach() -> None:
    hidden = ROWS
    assert hidden.num_rows
    with pytest.raises(InvalidInputError, match="hidden"):
        run_query("SELECT * FROM hidden", {})


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM read_blob('{file}')",
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM parquet_metadata('{file}')",
        "SELECT * FROM read_json('{file}')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM glob('{dir}/*')",
        "SELECT * FROM '{file}'",
        "FROM '{file}'",
        "SELECT * FROM query('FROM ''{file}''')",
        "SELECT * FROM query_table('{file}')",
        "SELECT (SELECT count(*) FROM '{file}') FROM t",
        "SELECT * FROM read_parquet('https://127.0.0.1:9/x.parquet')",
        "SELECT * FROM read_csv('s3://bucket/x.csv')",
        "SELECT getenv('HOME')",
        "COPY t TO '{dir}/out.csv'",
        "COPY (SELECT 1) TO '{dir}/out.parquet' (FORMAT parquet)",
        "EXPORT DATABASE '{dir}/out'",
        "IMPORT DATABASE '{dir}/out'",
        "ATTACH '{dir}/out.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "LOAD '{dir}/x.duckdb_extension'",
        "SET enable_external_access = true",
        "RESET lock_configuration",
        "SET temp_directory = '{dir}'",
        "PRAGMA enable_profiling",
        "CREATE TABLE x AS SELECT 1",
        "CREATE SECRET s (TYPE s3)",
        "DROP VIEW t",
        "EXPLAIN SELECT 1",
        "SELECT 1; COPY t TO '{dir}/out.csv'",
        "SELECT 1; SELECT 2",
        "",
        "-- nothing",
        "not sql at all",
    ],
)
def test_a_query_reaches_nothing_but_its_tables(query: str, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "x.parquet")
    text = query.format(file=tmp_path / "x.parquet", dir=tmp_path)
    with pytest.raises(InvalidInputError) as caught:
        run_query(text, {"t": ROWS})
    assert text in str(caught.value) or repr(text) in str(caught.value)
    assert os.listdir(tmp_path) == ["x.parquet"]
    assert run_query("SELECT count(*) AS n FROM t", {"t": ROWS}).to_pylist() == [{"n": 4}]


def test_a_predicate_reaches_nothing_either(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "x.parquet")
    for predicate in (
        f"a IN (SELECT a FROM '{tmp_path}/x.parquet')",
        "true); COPY (SELECT 1) TO '/dev/null'; SELECT (true",
        "EXISTS (SELECT * FROM read_text('/etc/hostname'))",
    ):
        with pytest.raises(InvalidInputError, match="predicate"):
            filter_table(ROWS, predicate)


def test_a_query_that_needs_too_much_memory_says_so_and_spills_nothing() -> None:
    many = pa.table({"a": range(3_000_000)})
    with pytest.raises(InvalidInputError, match="needs more memory"):
        run_query("SELECT a, count(*) AS n FROM t GROUP BY a ORDER BY n, a", {"t": many}, memory=20 << 20)


def test_threads_query_side_by_side() -> None:
    got: list[object] = []

    def work(number: int) -> None:
        table = pa.table({"a": [number]})
        got.extend(run_query("SELECT a FROM t", {"t": table})["a"][0].as_py() == number for _ in range(20))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [True] * 80


def test_filter_keeps_order_and_types() -> None:
    table = pa.table({"a": [3, None, 1, 2], "d": pa.array(["p", "q", "p", "r"]).dictionary_encode()})
    got = filter_table(table, "a >= 2")
    assert got.to_pylist() == [{"a": 3, "d": "p"}, {"a": 2, "d": "r"}]
    assert got.schema == table.schema
    assert filter_table(table, "a >= 2", negate=True)["a"].to_pylist() == [None, 1]


def test_filter_keeps_order_over_many_row_groups() -> None:
    many = pa.table({"a": range(700_000)})
    assert filter_table(many, "a % 7 = 0")["a"].to_pylist() == list(range(0, 700_000, 7))


def test_filter_that_keeps_all_copies_nothing() -> None:
    assert filter_table(ROWS, "true") is ROWS
    assert filter_table(ROWS, "NULL", negate=True) is ROWS
    assert filter_table(ROWS, "false").num_rows == 0
    assert filter_table(ROWS.slice(0, 0), "a > 1").schema == ROWS.schema


def test_filter_understands_comments_and_subqueries() -> None:
    assert filter_table(ROWS, "a > 1 -- and no more")["a"].to_pylist() == [2, 4]
    assert filter_table(ROWS, "s IN (SELECT 'x')")["a"].to_pylist() == [1]


@pytest.mark.parametrize(
    "predicate",
    ["", "b = 1", "a >", "count(*) > 1", "true) IS TRUE AS x, (true", "a, s", "unnest([true, false])"],
)
def test_what_is_no_condition_on_rows_is_refused(predicate: str) -> None:
    with pytest.raises(InvalidInputError, match="predicate"):
        filter_table(ROWS, predicate)


@given(st.lists(st.none() | st.integers(-3, 3), max_size=30), st.integers(-3, 3))
def test_a_filter_and_its_negation_share_out_the_rows(values: list[int | None], limit: int) -> None:
    table = pa.table({"a": pa.array(values, pa.int64()), "row": range(len(values))})
    kept = filter_table(table, f"a > {limit}")["row"].to_pylist()
    rest = filter_table(table, f"a > {limit}", negate=True)["row"].to_pylist()
    assert kept == [row for row, value in enumerate(values) if value is not None and value > limit]
    assert sorted(kept + rest) == list(range(len(values)))
