"""What a query may take of this process: bytes that it reads, memory, a directory to spill into."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.sql import instance

SORTED = "SELECT i, md5(i::VARCHAR) AS hash FROM range(1000000) AS t(i) ORDER BY hash"
"""Needs more than the least memory."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = str(tmp_path_factory.mktemp("limits") / "db")
    with firn.connect(url) as db:
        rows = pa.table(
            {"a": ["x"] * 2000 + ["y"] * 2000, "b": [n * 2654435761 % 2**48 for n in range(4000)]}
        )
        db.create_table("t", partition_by=["a"]).append(rows)
        db.create_table("kv", kind="keyed", schema={"v": "VARCHAR"}, key={"k": "BIGINT"})
        db.sql("INSERT INTO kv SELECT b, md5(b::VARCHAR) FROM t", fence=True)
        people = db.create_table("people", kind="records")
        people.insert_many({f"p{n}": {"name": "n" * 1000} for n in range(3)})
    return url


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance, "memory_limit", lambda: 40 << 20)


@pytest.mark.parametrize(
    "query",
    ["FROM t", "SELECT sum(b) FROM t", "SELECT * FROM t WHERE b > 3 LIMIT 1", "SELECT * FROM t ORDER BY b LIMIT 1",
     "SELECT row_number() OVER () FROM t LIMIT 1", "SELECT * FROM t, t AS u LIMIT 1", "FROM kv", "FROM people"],
)  # fmt: skip
def test_a_query_that_would_read_too_much_is_refused(url: str, query: str) -> None:
    with firn.connect(url, in_process="1KB") as db:
        with pytest.raises(firn.QueryTooLargeError, match=r"would read about .* in_process allows 1.0 KB"):
            db.sql(query).to_arrow()
        assert db.sql(query, in_process="1GB").count() > 0


@pytest.mark.parametrize(
    "query",
    ["SELECT * FROM t LIMIT 3", "SELECT * FROM (FROM t) LIMIT 3", "SELECT count(*) FROM t", "EXPLAIN FROM t"],
)
def test_a_query_that_ends_early_is_not_refused(url: str, query: str) -> None:
    with firn.connect(url, in_process="1KB") as db:
        assert db.sql(query).to_arrow().num_rows
        assert db.sql("FROM t").count() == 4000
        assert "origin" not in repr(db.sql("FROM t"))


def test_the_refusal_names_what_leaves_files_out(url: str) -> None:
    with (
        firn.connect(url, in_process="8KB") as db,
        pytest.raises(firn.QueryTooLargeError, match="A condition on a that"),
    ):
        db.sql("FROM t").to_arrow()
    with firn.connect(url, in_process="20KB") as db:
        assert db.sql("FROM t WHERE a = 'x'").count() == 2000
        assert db.sql("SELECT b FROM t").to_arrow().num_rows == 4000
        with pytest.raises(firn.QueryTooLargeError):
            db.sql("FROM t").to_arrow()


@pytest.mark.usefixtures("little_memory")
def test_a_query_spills_and_close_removes_what_it_spilled(url: str, tmp_path: Path) -> None:
    with firn.connect(url, spill=tmp_path / "spill") as db:
        batches = db.sql(SORTED).to_batches()
        next(batches)
        (mine,) = (tmp_path / "spill").iterdir()
        assert list(mine.iterdir())
        assert (os.stat(tmp_path / "spill").st_mode & 0o777, os.stat(mine).st_mode & 0o777) == (0o700, 0o700)
        del batches
        assert db.sql(SORTED).count() == 1_000_000
    assert not list((tmp_path / "spill").iterdir())


@pytest.mark.usefixtures("little_memory")
def test_a_connection_that_is_let_go_of_leaves_nothing(url: str, tmp_path: Path) -> None:
    db = firn.connect(url, spill=tmp_path / "spill")
    assert db.sql("SELECT 1").count() == 1
    assert list((tmp_path / "spill").iterdir())
    del db
    gc.collect()
    assert not list((tmp_path / "spill").iterdir())


@pytest.mark.usefixtures("little_memory")
def test_after_close_nothing_spills(url: str, tmp_path: Path) -> None:
    """DuckDB would make the directory anew, for everybody to read, and nobody would remove it."""
    with firn.connect(url, spill=tmp_path / "spill") as db:
        result, begun = db.sql(SORTED), db.sql(SORTED).to_batches()
        next(begun)
    with pytest.raises(firn.DatabaseClosedError):
        result.to_batches()
    with pytest.raises(firn.DatabaseClosedError, match="spill is closed"):
        list(begun)
    assert not list((tmp_path / "spill").iterdir())


@pytest.mark.usefixtures("little_memory")
def test_without_a_directory_nothing_spills(url: str) -> None:
    with (
        firn.connect(url) as db,
        pytest.raises(
            firn.QueryTooLargeError, match=r'of memory that it may have: connect with spill="a dir'
        ),
    ):
        db.sql(SORTED).to_arrow()


@pytest.mark.usefixtures("little_memory")
def test_copy_keeps_to_the_memory_and_spills(url: str, tmp_path: Path) -> None:
    with firn.connect(url, allow_files=[tmp_path]) as db:
        out = (
            f"COPY (SELECT n, md5(n::VARCHAR) AS v FROM range(2000000) AS r(n)) TO '{tmp_path}/rows.parquet'"
        )
        with pytest.raises(firn.QueryTooLargeError, match="spill="):
            db.sql(f"{out} (ROW_GROUP_SIZE 2000000)")
    with firn.connect(url, allow_files=[tmp_path], spill=tmp_path / "spill") as db:
        assert db.sql(out).outcome


def test_a_text_reaches_nothing_by_the_directory(url: str, tmp_path: Path) -> None:
    with firn.connect(url, spill=tmp_path / "spill") as db:
        assert db.sql("SELECT 1").count() == 1
        (mine,) = (tmp_path / "spill").iterdir()
        (mine / "x.csv").write_text("a\n1\n")
        for text in (f"FROM '{mine}/x.csv'", f"FROM read_csv('{mine}/x.csv')", f"COPY t TO '{mine}/y.csv'"):
            with pytest.raises(firn.FirnError):
                db.sql(text).to_arrow()
        assert [file.name for file in mine.iterdir()] == ["x.csv"]


@pytest.mark.parametrize("wrong", ["much", -1, 1.5])
def test_a_size_that_is_none_is_refused_at_once(url: str, wrong: Any) -> None:
    with pytest.raises(firn.InvalidInputError, match=r"is not a size|in_process"):
        firn.connect(url, in_process=wrong)
    with firn.connect(url) as db, pytest.raises(firn.InvalidInputError, match=r"is not a size|in_process"):
        db.sql("SELECT 1", in_process=wrong)


def test_a_directory_that_cannot_be_one_is_refused(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        firn.connect(url, spill=tmp_path / "file") as db,
        pytest.raises(firn.InvalidInputError, match="spilled to"),
    ):
        db.sql("SELECT 1").count()
