"""SQL from asyncio: each verb has a twin, and a transaction's statements come one after the other."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

import firn
from firn.database.aio import AsyncDatabase, AsyncResult, AsyncSqlTransaction
from firn.database.sql_transaction import SqlTransaction


@pytest.fixture
def db(tmp_path: Path) -> firn.Database:
    db = firn.connect(tmp_path / "db")
    db.sql("CREATE TABLE stock (pairs BIGINT) WITH (kind = 'records')")
    db.sql("INSERT INTO stock VALUES ('skis', 5), ('boots', 0)")
    return db


@pytest.mark.parametrize(
    ("sync", "awaited", "names"),
    [
        (firn.Database, AsyncDatabase, {"sql", "begin", "transact"}),
        (SqlTransaction, AsyncSqlTransaction, {"sql"}),
        (firn.Result, AsyncResult, {name for name in vars(firn.Result) if not name.startswith("_")}),
    ],
)
def test_verbs_have_twins_with_the_same_parameters(sync: Any, awaited: Any, names: set[str]) -> None:
    def parameters(verb: Any) -> list[Any]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(verb).parameters.values()]

    for name in names:
        verb, twin = getattr(sync, name), getattr(awaited, name)
        assert inspect.getdoc(twin), name
        if callable(verb) and name not in ("begin", "transact"):
            assert parameters(verb) == parameters(twin), name


def test_statements_of_a_transaction_and_results(db: firn.Database) -> None:
    async def sell(tx: AsyncSqlTransaction) -> int:
        sold = await tx.sql("UPDATE stock SET pairs = pairs - 1 WHERE _id = ?", ["skis"])
        assert sold.outcome is not None
        return sold.outcome.rows_updated or 0

    async def main() -> None:
        async with db.aio.begin() as tx:
            await asyncio.gather(
                *(tx.sql("UPDATE stock SET pairs = pairs - 1 WHERE _id = 'skis'") for _ in "ab")
            )
            inside = await tx.sql("SELECT pairs FROM stock ORDER BY _id")
            assert [row["pairs"] async for row in inside] == [0, 3]
            assert [row async for row in await db.aio.sql("SELECT max(pairs) AS n FROM stock")] == [{"n": 5}]
            with pytest.raises(firn.UnsupportedError):
                await tx.sql("DROP TABLE stock")
        assert await db.aio.transact(sell) == 1
        found = await db.aio.sql("SELECT * FROM stock WHERE _id = $id", {"id": "skis"}, verify=True)
        assert (await found.to_arrow()).to_pylist() == [{"_id": "skis", "pairs": 2}]
        assert [batch.num_rows async for batch in found.to_batches()] == [1]
        assert (await found.count(), (await found.head(1)).num_rows, list(found.versions)) == (
            1,
            1,
            ["stock"],
        )
        assert (await found.to_polars()).rows() == [("skis", 2)]
        assert "stock at" in await found.explain()

    asyncio.run(main())
