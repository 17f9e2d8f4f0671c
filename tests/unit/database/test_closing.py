"""Connections that end: what is flushed, what is refused afterwards; and tables by index."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import firn
from firn.errors import DatabaseClosedError, InvalidInputError, TableNotFoundError


def test_closing_flushes_writers_and_applies_commits(tmp_path: Path) -> None:
    with firn.connect(tmp_path) as db:
        counts = db.create_table("counts", kind="keyed")
        kv = counts.open()
        kv.put(b"a", b"1", durable=False)
        people = db.create_table("people", kind="records")
        people.insert("ada", {"born": 1815})
        lake = db.create_table("lake")
        lake.append([{"n": 1}])
    with pytest.raises(InvalidInputError, match="closed"):
        kv.put(b"b", b"2")
    again = firn.connect(tmp_path)
    assert again["counts"].reader().get(b"a") == b"1"
    assert list(again.bucket.list("people/").objects) and again["people"].get("ada")["born"] == 1815
    assert lake.scan().count() == 1


def test_a_closed_connection_refuses_everything(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    people = db.create_table("people", kind="records")
    counts = db.create_table("counts", kind="keyed")
    db.close()
    db.close()
    for call in (
        lambda: db.table("people"),
        lambda: db["people"],
        db.tables,
        db.begin,
        lambda: db.sql("FROM people"),
        lambda: db.sql("SELECT 1"),
        lambda: db.sql("SELECT 1", script=True),
        lambda: db.create_table("t"),
        lambda: db.drop_table("people"),
        lambda: people.insert("ada", {}),
        lambda: people.get("ada"),
        counts.open,
        db.writers,
        db.writer_transaction,
        db.__enter__,
    ):
        with pytest.raises(DatabaseClosedError, match="connect again"):
            call()
    assert repr(db).endswith("(closed)>")


def test_a_transaction_ends_with_its_connection(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.create_table("people", kind="records").insert("ada", {"born": 1815})
    tx = db.begin()
    tx.upsert("people", "ada", {"born": 1816})
    db.close()
    with pytest.raises(DatabaseClosedError, match="rolled back"):
        tx.commit()
    assert not tx.is_open
    assert firn.connect(tmp_path)["people"].get("ada")["born"] == 1815


def test_a_writers_transaction_ends_with_its_connection(tmp_path: Path) -> None:
    db = firn.connect(tmp_path, writer="w")
    db.create_table("cpu", journal="writer").append([{"load": 1}])
    with pytest.raises(DatabaseClosedError, match="nothing is committed"), db.writer_transaction() as tx:
        tx.table("cpu").append([{"load": 2}])
        db.close()
    assert firn.connect(tmp_path)["cpu"].scan().count() == 1


def test_closing_ends_handles_of_this_connection_alone(tmp_path: Path) -> None:
    mine, other = firn.connect(tmp_path), firn.connect(tmp_path)
    kv = mine.create_table("mine", kind="keyed").open()
    theirs = other.create_table("theirs", kind="keyed").open()
    mine.close()
    theirs.put(b"a", b"1")
    with pytest.raises(InvalidInputError):
        kv.put(b"a", b"1")
    other.close()


def test_an_error_of_the_block_is_the_one_to_see(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), firn.connect(tmp_path) as db:
        kv = db.create_table("counts", kind="keyed").open()
        firn.connect(tmp_path).table("counts", kind="keyed").open().close()
        kv.put(b"a", b"1", durable=False)
        raise ZeroDivisionError


def test_tables_by_index() -> None:
    db = firn.connect("memory://")
    db.create_table("flights").append([{"n": 1}])
    assert db["flights"].scan().count() == 1
    assert db._ipython_key_completions_() == ["flights"]
    with pytest.raises(TableNotFoundError):
        db["flight"]


def test_closing_lets_the_threads_of_asyncio_go() -> None:
    before = set(threading.enumerate())
    with firn.connect("memory://") as db:
        asyncio.run(_asked(db))
        waiting = [thread for thread in threading.enumerate() if thread not in before]
    for thread in waiting:
        thread.join(timeout=10)
    assert waiting and not any(thread.is_alive() for thread in waiting)


async def _asked(db: firn.Database) -> None:
    await db.aio.sql("SELECT 1")
