"""Objects of a bucket that DuckDB reads itself: which, by how many requests, and what becomes of errors."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import firn
from firn.bucket.local import LocalBucket
from firn.errors import AccessDeniedError, CorruptObjectError, SnapshotTooOldError
from firn.reads import plan_read
from firn.sql import relation
from firn.sql.files import objects
from firn.sql.files.objects import WHOLE_BYTES, BucketFiles
from firn.sql.in_process import DuckQuery
from firn.sql.relation import BucketFile, relation_of

ROWS = 400_000


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> firn.Database:
    """A directory that is read as a bucket is: by requests."""
    monkeypatch.setattr(LocalBucket, "local_path", lambda self, key: None)
    monkeypatch.setattr(relation, "STREAMED_BYTES", 0)
    return firn.connect(tmp_path / "db")


def large(db: firn.Database, *, seed: int = 0) -> Any:
    """A table of one file that isn't fetched whole, in several row groups."""
    rng = random.Random(seed)
    table = db.create_table("large", sort_by=["k"], properties={"row_group_rows": 100_000})
    noise = [rng.random() for _ in range(ROWS)]
    table.append(pa.table({"k": range(ROWS), "a": noise, "b": noise[::-1], "s": ["x"] * ROWS}))
    (file,) = table.snapshot().files
    assert file.size > 4 * WHOLE_BYTES
    return table


@pytest.fixture
def spent(db: firn.Database) -> dict[str, int]:
    """What was asked of the bucket since it was last cleared."""

    class Spent(dict[str, int]):
        before = db.bucket.counters.as_dict()

        def clear(self) -> None:
            self.before = db.bucket.counters.as_dict()

        def __missing__(self, verb: str) -> int:
            return db.bucket.counters.since(self.before)[verb]

    return Spent()


def test_duckdb_reads_the_objects_of_a_snapshot(db: firn.Database) -> None:
    table = db.create_table("t", partition_by=["s"])
    for n in range(3):
        table.append([{"n": n, "s": "a b'c*[d]"}, {"n": -n, "s": "e"}])
    found = relation_of(plan_read(table), "firn:0", [])
    assert (found.files, found.streams) == ([], {})
    assert {file.key for file in found.objects.values()} == {file.path for file in table.snapshot().files}
    assert sorted(row["n"] for row in db.sql("SELECT n FROM t WHERE s <> 'e'")) == [0, 1, 2]


@pytest.mark.parametrize("streamed", [0, 1 << 16])
def test_a_small_file_is_one_request(
    db: firn.Database, spent: Any, streamed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relation, "STREAMED_BYTES", streamed)
    table = db.create_table("t")
    for n in range(5):
        table.append([{"n": n, "m": n}])
    result = db.sql("SELECT sum(n) AS n, sum(m) AS m FROM t")
    spent.clear()
    assert list(result) == [{"n": 10, "m": 10}]
    assert (spent["get"], spent["list"], spent["head"]) == (5, 0, 0)


def test_of_a_large_file_only_what_the_query_needs(db: firn.Database, spent: Any) -> None:
    table = large(db)
    size = table.snapshot().files[0].size
    result = db.sql("SELECT count(*) AS n, sum(a) > 0 AS some FROM large WHERE k BETWEEN 5 AND 9")
    spent.clear()
    assert list(result) == [{"n": 5, "some": True}]
    assert spent["get"] in (2, 3)  # the footer, and two columns of a row group, which may lie side by side
    assert (spent["list"], spent["head"]) == (0, 0)
    assert spent["bytes_in"] < size / 4


def test_a_table_that_stands_twice_has_its_footers_read_once_each(db: firn.Database, spent: Any) -> None:
    large(db)
    result = db.sql("WITH t AS (FROM large WHERE k < 3) SELECT count(*) AS n FROM t JOIN t AS u USING (k)")
    spent.clear()
    assert list(result) == [{"n": 3}]
    assert spent["get"] <= 4


def test_footers_are_fetched_ahead_and_dropped(
    db: firn.Database, spent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "KEPT_BYTES", 2000)
    table = db.create_table("t")
    for n in range(70):
        table.append([{"n": n}])
    result = db.sql("SELECT sum(n) AS n FROM t")
    spent.clear()
    assert list(result) == [{"n": 69 * 35}]
    assert 70 <= spent["get"] <= 140


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM read_text('firn://{db}/../secret')",
        "FROM read_parquet('{known}/../../x')",
        "FROM read_parquet('firn://firn%3A0/*')",
        "FROM read_parquet('firn://firn%3A0/t/_firn/table.json')",
        "FROM glob('firn://**')",
        "COPY (SELECT 1) TO '{known}'",
        "COPY (SELECT 1) TO 'firn://firn%3A0/new'",
        "COPY (SELECT 1) TO '{secret}'",
        "ATTACH '{secret}' AS s",
        "SET disabled_filesystems = ''",
    ],
)
def test_a_query_finds_nothing_but_the_snapshots_objects(
    db: firn.Database, text: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a\n1\n")
    table = db.create_table("t")
    table.append([{"n": 1}])
    before = {info.key: info.etag for info in db.bucket.list("").objects}
    query = DuckQuery(db, "SELECT * FROM t")
    (known,) = relation_of(query._look.reads["t"], "firn:0", []).objects
    with query._instance([]) as (duck, _):
        assert duck.execute(f"SELECT n FROM '{known}'").fetchall() == [(1,)]
        with pytest.raises(duckdb.Error):
            duck.execute(text.format(secret=secret, db=tmp_path / "db", known=known)).fetchall()
    assert secret.read_text() == "a\n1\n"
    assert before == {info.key: info.etag for info in db.bucket.list("").objects}


def test_the_file_system_alone_knows_exact_paths_only(db: firn.Database) -> None:
    db.bucket.put("x", b"0123")
    failures: list[BaseException] = []
    files = BucketFiles({"firn://0/x": BucketFile(db.bucket, "x", 4)}, failures)
    with files.open("firn://0/x") as file:
        assert (file.seek(1), file.read(2), file.tell(), file.seek(-1, 2), file.read()) == (
            1,
            b"12",
            3,
            3,
            b"3",
        )
        assert (file.seek(9), file.read(), file.seek(0), file.read(99)) == (9, b"", 0, b"0123")
    assert files.glob("firn://0/x") == ["firn://0/x"]
    for path in ("firn://0/y", "firn://0/./x", "firn://0/a/../x", "firn://0/*", "firn://0", "x", ""):
        for ask in (files.open, files.info, files.glob, files.modified, files.ls):
            with pytest.raises(FileNotFoundError):
                ask(path)
        assert not files.exists(path)
    with pytest.raises(PermissionError):
        files.open("firn://0/x", "wb")
    files.close()
    assert failures == []


def test_an_object_that_is_gone(db: firn.Database) -> None:
    table = db.create_table("t")
    table.append([{"n": 1}])
    result = db.sql("SELECT n FROM t")
    db.bucket.delete(table.snapshot().files[0].path)
    with pytest.raises(SnapshotTooOldError, match="forget_files"):
        list(result)


@pytest.mark.parametrize("rows", [1, ROWS])
def test_an_object_that_was_cut_short(db: firn.Database, rows: int) -> None:
    table = db.create_table("t")
    table.append(pa.table({"n": range(rows)}))
    path = table.snapshot().files[0].path
    db.bucket.put(path, db.bucket.get(path).data[:-100])
    with pytest.raises(CorruptObjectError, match="fewer than"):
        list(db.sql("SELECT n FROM t"))


def test_an_error_of_the_store_is_raised_as_it_is(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    large(db)
    result = db.sql("SELECT sum(a) FROM large")

    def refused(self: LocalBucket, key: str, start: int, length: int) -> bytes:
        raise AccessDeniedError(f"no way to {key}")

    monkeypatch.setattr(LocalBucket, "get_range", refused)
    with pytest.raises(AccessDeniedError, match="no way to large/"):
        list(result)


def test_a_message_of_duckdbs_names_the_object(db: firn.Database) -> None:
    table = db.create_table("t")
    table.append([{"n": 1}])
    path = table.snapshot().files[0].path
    db.bucket.put(path, b"x" * table.snapshot().files[0].size)
    with pytest.raises(firn.InvalidInputError) as raised:
        list(db.sql("SELECT n FROM t"))
    assert db.bucket.uri(path) in str(raised.value)
    assert "firn:" not in str(raised.value)


def test_a_reader_that_is_left_open_ends_with_the_process(tmp_path: Path) -> None:
    program = (
        "import firn\n"
        "from firn.bucket.local import LocalBucket\n"
        "LocalBucket.local_path = lambda self, key: None\n"
        "from firn.sql import relation\n"
        "relation.STREAMED_BYTES = 0\n"
        f"db = firn.connect({str(tmp_path / 'db')!r})\n"
        "db.create_table('t').append([{'n': n} for n in range(100)])\n"
        "rows = iter(db.sql('SELECT n FROM t'))\n"
        "batches = db.sql('SELECT n FROM t').to_batches()\n"
        "assert next(rows) == {'n': 0} and next(batches).num_rows\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
