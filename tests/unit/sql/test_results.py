"""Results that are asked for their rows after tables were dropped or connections ended, and by tasks that end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.errors import DatabaseClosedError, TableNotFoundError, TransactionClosedError
from firn.sql import instance

TABLES: Mapping[str, Mapping[str, Any]] = {
    "records": {"schema": {"n": "BIGINT"}},
    "records without transactions": {"schema": {"n": "BIGINT"}, "isolation": "row"},
    "keyed": {"schema": {"n": "BIGINT"}, "key": {"_id": "VARCHAR"}},
    "lake": {},
}


def made(db: firn.Database, kind: str, n: int) -> None:
    name, *_ = kind.split()
    table = db.create_table("t", kind=name, **TABLES[kind])  # type: ignore[call-overload]
    if name == "lake":
        table.append([{"_id": "a", "n": n}])
    elif name == "records":
        table.insert("a", {"n": n})
    else:
        with table.open() as kv:
            kv.put("a", {"n": n})


@pytest.mark.parametrize("where", ["", " WHERE _id = 'a'"])
@pytest.mark.parametrize("kind", TABLES)
def test_rows_of_a_table_that_was_dropped_meanwhile(kind: str, where: str, tmp_path: Path) -> None:
    """An empty answer would be wrong, and so would the rows of the next table of the name."""
    db = firn.connect(tmp_path)
    made(db, kind, 1)
    db.close()  # commits are applied: the rows are in their objects
    db = firn.connect(tmp_path)
    late = [db.sql(f"SELECT n FROM t{where}") for _ in range(2)]
    db.drop_table("t")
    with pytest.raises(TableNotFoundError, match=r"was dropped|no table 't'"):
        late[0].to_arrow()
    made(db, kind, 2)
    with pytest.raises(TableNotFoundError, match="was dropped"):
        late[1].to_arrow()
    assert list(db.sql("SELECT n FROM t")) == [{"n": 2}]


def test_rows_that_a_drop_deletes_between_their_list_and_their_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = firn.connect(tmp_path)
    made(db, "records", 1)
    db.close()
    db = firn.connect(tmp_path)
    late = db.sql("SELECT n FROM t")
    get_many: Callable[..., Any] = db.bucket.get_many

    def dropped_first(keys: Any) -> Any:
        monkeypatch.undo()
        firn.connect(tmp_path).drop_table("t")
        return get_many(keys)

    monkeypatch.setattr(db.bucket, "get_many", dropped_first)
    with pytest.raises(TableNotFoundError, match="was dropped"):
        late.to_arrow()


OUTPUTS: Mapping[str, Callable[[firn.Result], Any]] = {
    "to_arrow": firn.Result.to_arrow,
    "to_batches": lambda result: list(result.to_batches()),
    "to_pandas": firn.Result.to_pandas,
    "to_polars": firn.Result.to_polars,
    "to_polars lazily": lambda result: result.to_polars(lazy=True).collect(),
    "to_duckdb": firn.Result.to_duckdb,
    "to_spark": firn.Result.to_spark,
    "head": firn.Result.head,
    "count": firn.Result.count,
    "explain": firn.Result.explain,
    "rows": list,
    "a stream of Arrow's": pa.table,
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_result_ends_with_its_connection(output: str, tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    made(db, "lake", 1)
    result = db.sql("SELECT n FROM t")
    db.close()
    # polars tells the error of a lazy frame's source by its text.
    with pytest.raises(Exception, match="is closed: connect again") as raised:
        OUTPUTS[output](result)
    assert isinstance(raised.value, DatabaseClosedError) or output == "to_polars lazily"


def test_what_stays_of_results_when_their_connection_ends(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    made(db, "lake", 1)
    result, done, tables = (
        db.sql("SELECT n FROM t"),
        db.sql("DELETE FROM t WHERE n > 1"),
        db.sql("SHOW TABLES"),
    )
    db.close()
    assert result.columns == {"n": "BIGINT"} and list(result.versions) == ["t"]
    assert repr(result) == "<Result n BIGINT>" and "<table>" in result._repr_html_()
    assert done.to_arrow()["op"].to_pylist() == ["delete"] and tables.count() == 1


def test_a_result_ends_with_its_transaction(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    made(db, "lake", 1)
    with db.begin() as tx:
        result = tx.sql("SELECT n FROM t")
        assert result.count() == 1
    with pytest.raises(TransactionClosedError):
        result.count()


LONG = "SELECT count(*) AS n FROM range(100000) a(n), range(100000) b(m) WHERE a.n * b.m % 7 = 3"
"""Takes some ten seconds."""

WAITS: Mapping[str, Callable[[firn.Database], Any]] = {
    "a statement": lambda db: db.aio.sql(f"CREATE TABLE made AS {LONG}"),
    "an insert": lambda db: db.aio.sql(f"INSERT INTO t BY NAME {LONG}"),
    "rows": lambda db: rows_by_asyncio(db),
    "a file": lambda db: db.aio.sql(f"COPY ({LONG}) TO '{db.url}-files/made.csv'"),
}


async def rows_by_asyncio(db: firn.Database) -> None:
    async for _ in await db.aio.sql(LONG):
        pass


@pytest.mark.parametrize("wait", WAITS)
def test_a_cancelled_task_interrupts_its_query(
    wait: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended = threading.Event(), list[type[BaseException]]()
    real = instance.ended_by_cancelling

    @contextmanager
    def watched(end: Callable[[], object]) -> Iterator[None]:
        try:
            with real(end):
                began.set()
                yield
        except BaseException as error:
            ended.append(type(error))
            raise

    async def main() -> None:
        task = asyncio.create_task(WAITS[wait](db))
        await asyncio.to_thread(began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(db.aio._session.threads._pool.shutdown)

    Path(f"{tmp_path}/db-files").mkdir()
    monkeypatch.setattr(instance, "ended_by_cancelling", watched)
    with firn.connect(tmp_path / "db", allow_files=[f"{tmp_path}/db-files"]) as db:
        made(db, "lake", 1)
        asyncio.run(main())
        assert ended == [KeyboardInterrupt]
        assert db.tables() == ["t"] and list(db.sql("SELECT n FROM t")) == [{"n": 1}]
    assert not list(Path(f"{tmp_path}/db-files").iterdir())
