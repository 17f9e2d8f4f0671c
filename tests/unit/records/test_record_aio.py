"""The asyncio twins of record tables: which verbs they have, how they share threads and commits, `transact`."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading

import pytest

import firn
from firn.database.database import Database
from firn.errors import (
    ConflictError,
    DuplicateKeyError,
    InvalidInputError,
    OutcomeUnknownError,
    StaleObjectError,
    TransactionClosedError,
)
from firn.records.aio import AsyncTransaction, AsyncTransactions
from firn.records.read.changes import AsyncChanges, RecordChanges
from firn.records.row_tables import AsyncRowTable, RowTable
from firn.records.session import CALLS
from firn.records.table import AsyncRecordTable, RecordTable
from firn.records.write.reads import TransactionReads
from firn.records.write.transaction import Transaction
from record_loops import Gate, Process, is_commit, until

_NO_TWIN = {
    "admit",
    "landed",
    "put_bodies",
    "insert_first",
    "load_rows",
    "to_spark",
    "aio",
    "definition",
}
"""Of commits, recovery and loads, not of users; what waits in Spark's jobs alone; the way here."""


@pytest.fixture
def process():
    return Process()


@pytest.mark.parametrize(
    ("twin", "asynchronous"),
    [
        (Transaction, AsyncTransaction),
        (TransactionReads, AsyncTransaction),
        (RecordTable, AsyncRecordTable),
        (RowTable, AsyncRowTable),
        (RecordChanges, AsyncChanges),
    ],
)
def test_every_verb_has_a_twin_with_the_same_parameters(twin, asynchronous):
    verbs = {name for name in vars(twin) if not name.startswith("_")} - _NO_TWIN
    assert len(verbs) > 2
    for name in verbs:
        found, other = getattr(twin, name), getattr(asynchronous, name)
        if callable(found):
            assert parameters(found) == parameters(other), name
            assert inspect.getdoc(other), name
            assert inspect.iscoroutinefunction(other) or name in ("stream", "to_batches")


@pytest.mark.parametrize("name", ["begin", "transact"])
def test_a_databases_verbs_have_twins_with_the_same_parameters(name):
    found = parameters(getattr(AsyncTransactions, name))
    assert [each[:2] for each in found] == [each[:2] for each in parameters(getattr(Database, name))]


def parameters(function):
    return [(p.name, p.kind, p.default) for p in inspect.signature(function).parameters.values()]


def test_a_field_may_be_called_anything(process):
    async def main():
        aio = process.t.aio
        await aio.create_index("call")
        await aio.insert("a", {"call": 1, "self": 2, "verb": 3, "where": 4, "table": 5})
        named = {"call": 1, "self": 2, "verb": 3, "where": 4, "table": 5}
        async with process.aio.begin() as tx:
            for found in (
                await aio.find(**named),
                await aio.scan(**named),
                await tx.find("t", **named),
                await tx.scan("t", **named),
            ):
                assert [row.id for row in found] == ["a"]
            assert await aio.count(**named) == await tx.count("t", **named) == 1
        await process.rows.aio.insert("a", named)
        assert [row.id async for row in process.rows.aio.stream(**named)] == ["a"]
        assert await process.rows.aio.count(**named) == 1

    asyncio.run(main())


def test_the_event_loop_is_never_blocked(process):
    """While any request is made, the loop goes on."""
    requests = []

    async def main():
        loop = asyncio.get_running_loop()

        def before(verb, key):
            requests.append(verb)
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)

        process.bucket.before = before
        t, rows = process.t.aio, process.rows.aio
        etag = await t.insert("a", {"n": 1})
        etag = await t.update("a", {"n": 2}, etag=etag)
        etag = await t.upsert("a", {"n": 3}, etag=etag)
        assert (await t.get("a"))["n"] == 3 and (await t.find(n=3, limit=1))[0].etag == etag
        assert (await t.scan(n=3)).to_arrow().num_rows == await t.count() == await t.count(n=3) == 1
        await t.create_index("m", unique=True)
        assert [index.field for index in await t.indices()] == ["m", "n"]
        await t.drop_index("m")
        assert (await t.sweep("1d", dry_run=True)).dry_run and not (await t.sweep()).dry_run
        await t.delete("a", etag=etag)
        assert (await t.load([{"_id": "x", "n": 1}, {"_id": "y", "n": 2}])).rows == 2
        changes = await t.changes(1)
        assert [(change.kind, change.id) async for change in changes][-3:] == [
            ("delete", "a"),
            ("put", "x"),
            ("put", "y"),
        ]
        assert (await changes.to_arrow())["_kind"].to_pylist()[-3:] == ["delete", "put", "put"]
        assert [batch.schema.names async for batch in changes.to_batches()] == [list(changes.columns)]
        assert [change async for change in await t.changes(changes.version)] == []
        assert changes.since == "1"
        for id in ("x", "y"):
            await t.delete(id)
        assert (await rows.load([{"_id": "x"}])).rows == 1
        await rows.delete("x")
        etag = await rows.insert("a", {"n": 1})
        etag = await rows.update("a", {"n": 2}, etag=etag)
        await rows.upsert("a", {"n": 3})
        assert (await rows.get("a"))["n"] == 3 and await rows.count(n=3) == 1
        assert [row.id async for row in rows.stream()] == ["a"]
        await rows.delete("a")
        async with process.aio.begin(lock=True, serializable=True) as tx:
            await tx.insert("t", "b", {"n": 1})
            etag = await tx.update("t", "b", {"n": 2})
            await tx.upsert("t", "b", {"n": 3}, etag=etag)
            assert (await tx.get("t", "b"))["n"] == 3 and await tx.count("t") == 1
            assert await tx.find("t", n=3) == await tx.scan("t")
            assert (tx.is_open, tx.in_doubt, tx.committed, tx.serializable) == (True, False, None, True)
            assert len(tx.txid) == 32
            await tx.delete("t", "b")
        assert (tx.is_open, tx.committed) == (False, tx.snapshot + 1)
        tx = await process.aio.begin(lock=True)
        await tx.upsert("t", "c", {})
        point = await tx.savepoint()
        await tx.upsert("t", "d", {})
        await tx.rollback(to=point)
        assert list(await tx.get_many("t", ["c", "d"])) == ["c"]
        await tx.rollback()
        assert await process.aio.transact(lambda tx: tx.upsert("t", "c", {}))
        assert await process.aio.run(process.t.count) == 1

    asyncio.run(main())
    assert {"get", "put_if_absent", "put_if_match", "list", "get_many"} <= set(requests)
    assert process.found == {"c": {}}


def test_scans_of_single_rows_come_in_pieces(process):
    for n in range(600):
        process.rows.upsert(f"{n:03}", {"n": n})

    async def main():
        seen = []
        async for row in process.rows.aio.stream():
            seen.append(row["n"])
            if len(seen) == 300:
                break
        return seen, [row["n"] async for row in process.rows.aio.stream(n=firn.Range(590, None))]

    first, last = asyncio.run(main())
    assert first == list(range(300)) and last == list(range(590, 600))
    with pytest.raises(InvalidInputError):
        process.rows.aio.stream(n=object())


def test_a_table_of_single_rows_says_what_it_has_not(process):
    for verb in ("find", "create_index", "sweep"):
        with pytest.raises(InvalidInputError, match="no indices"):
            getattr(process.rows.aio, verb)
        assert not hasattr(process.rows.aio, verb)
    assert not hasattr(process.rows.aio, "append")
    assert repr(process.rows.aio).endswith("/db/rows>.aio") and repr(process.t.aio).endswith("/db/t>.aio")
    assert (process.rows.aio.name, process.t.aio.name) == ("rows", "t")


# -- many at once


def test_a_hundred_commits_at_once_are_two_puts(process):
    """The first that comes commits alone; those that come while its request is under way share the next."""
    puts = []
    gate = Gate(process, is_commit)
    held = process.bucket.before

    def before(verb, key):
        puts.extend([key] if is_commit(verb, key) else [])
        held(verb, key)

    process.bucket.before = before

    async def main():
        txs = [await process.aio.begin() for _ in range(100)]
        for n, tx in enumerate(txs):
            await tx.upsert("t", f"{n:03}", {"n": n})
        commits = [asyncio.create_task(tx.commit()) for tx in txs]
        await gate.reached()
        await until(lambda: len(process.session.store.group._queue) == 99)
        gate.open()
        return await asyncio.gather(*commits)

    numbers = sorted(asyncio.run(main()))
    assert len(puts) == len(set(numbers)) == 2
    assert numbers.count(numbers[-1]) == 99
    assert len(process.found) == 100


def test_a_hundred_verbs_of_a_table_at_once_share_commits(process):
    gate = Gate(process, is_commit)

    async def main():
        writes = [asyncio.create_task(process.t.aio.upsert(f"{n}", {"n": n})) for n in range(100)]
        await gate.reached()
        await until(lambda: len(process.session.store.group._queue) == 99)
        before = process.bucket.counters.as_dict()
        gate.open()
        await asyncio.gather(*writes)
        return process.bucket.counters.since(before)["put"]

    assert asyncio.run(main()) == 2
    assert len(process.found) == 100
    assert CALLS > 100


def test_more_tasks_than_threads_wait_for_each_other_but_not_for_ever():
    """Transactions hold no thread between their calls, so calls of others always get one."""
    process = Process(calls=2)

    async def work(tx):
        await tx.upsert("t", "own", {"n": 0})
        (await process.rows.aio.count(), await process.t.aio.count())
        async with process.aio.begin() as other:
            await other.scan("t")

    async def more(tx):
        row = await tx.get("t", "n")
        await tx.update("t", "n", {"n": row["n"] + 1})

    async def main():
        await process.t.aio.insert("n", {"n": 0})
        await asyncio.gather(*(process.aio.begin() for _ in range(20)))
        await asyncio.wait_for(asyncio.gather(*(process.aio.transact(more) for _ in range(8))), 60)
        await asyncio.wait_for(asyncio.gather(*(process.aio.transact(work) for _ in range(4))), 60)

    asyncio.run(main())
    assert process.found["n"] == {"n": 8}


def test_tasks_may_share_a_transaction(process):
    """Its twin is for one thread at a time."""
    under_way = []

    async def main():
        loop = asyncio.get_running_loop()

        def before(verb, key):
            under_way.append(key)
            for _ in range(3):  # give others the time to come in between
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)
            assert len(under_way) == 1
            under_way.clear()

        async with process.aio.begin() as tx:
            process.bucket.before = before
            await asyncio.gather(*(tx.insert("t", f"{n:02}", {"n": n}) for n in range(20)))
        process.bucket.before = lambda verb, key: None

    asyncio.run(main())
    assert len(process.found) == 20


def test_a_database_that_is_let_go_of_leaves_no_threads():
    db = firn.connect("memory://")
    table = db.create_table("t", kind="records")

    async def main(table):
        await table.aio.insert("a", {})
        return await table.aio.run(threading.current_thread)

    thread = asyncio.run(main(table))
    assert thread.is_alive()
    threads = {
        db.create_table("rows", kind="records", isolation="row").threads,
        db.table("t").session.threads,
    }
    assert threads == {table.session.threads}
    del db, table, threads
    for _ in range(100):  # the applier holds it during a call
        gc.collect()
        thread.join(0.1)
        if not thread.is_alive():
            break
    assert not thread.is_alive()


# -- transact


def test_transact_begins_again_and_counts_once(process):
    attempts = []

    async def more(tx):
        attempts.append(tx.txid)
        row = await tx.get("t", "n")
        if len(attempts) < 3:
            await process.aio.run(process.other().t.update, "n", {"n": row["n"] + 10})
        await tx.update("t", "n", {"n": row["n"] + 1})
        return "done"

    async def main():
        await process.t.aio.insert("n", {"n": 0})
        assert await process.aio.transact(more) == "done"
        assert len(set(attempts)) == 3
        attempts.clear()
        with pytest.raises(StaleObjectError):
            await process.aio.transact(more, attempts=2)
        assert len(attempts) == 2

    asyncio.run(main())
    assert process.found == {"n": {"n": 41}}


def test_what_the_function_raises_comes_out_and_nothing_counts(process):
    async def fail(tx):
        await tx.insert("t", "a", {})
        raise KeyError("mine")

    async def twice(tx):
        await tx.insert("t", "a", {})
        await tx.commit()
        await tx.insert("t", "b", {})

    async def main():
        with pytest.raises(KeyError, match="mine"):
            await process.aio.transact(fail)
        with pytest.raises(TransactionClosedError):
            await process.aio.transact(twice)
        with pytest.raises(DuplicateKeyError):
            await process.aio.transact(lambda tx: tx.insert("t", "a", {}))
        with pytest.raises(InvalidInputError, match="at least 1"):
            await process.aio.transact(fail, attempts=0)
        with pytest.raises(InvalidInputError, match="needs an async function"):
            await process.aio.transact(lambda tx: 7)

    asyncio.run(main())
    assert process.found == {"a": {}}


@pytest.mark.parametrize("landed", [True, False])
def test_an_outcome_that_was_unknown_is_found_out(process, landed, monkeypatch):
    """As the twin does it: what is in the log counts, what isn't is done again."""
    commit, unknown = process.session.store.group.commit, []

    def lost(proposal):
        if not unknown:
            unknown.append(commit(proposal) if landed else None)
            raise OutcomeUnknownError("no answer came")
        return commit(proposal)

    monkeypatch.setattr(process.session.store.group, "commit", lost)
    runs = []

    async def work(tx):
        runs.append(tx)
        await tx.insert("t", "a", {})
        return len(runs)

    async def main():
        assert await process.aio.transact(work) == (1 if landed else 2)
        assert runs[-1].committed is not None and not runs[-1].in_doubt

    asyncio.run(main())
    assert process.found == {"a": {}}


def test_an_unknown_outcome_is_told(process, monkeypatch):
    def lost(proposal):
        raise OutcomeUnknownError("no answer came")

    monkeypatch.setattr(process.session.store.group, "commit", lost)

    async def main():
        tx = await process.aio.begin()
        await tx.insert("t", "a", {})
        with pytest.raises(OutcomeUnknownError):
            await tx.commit()
        assert tx.in_doubt and not tx.is_open
        with pytest.raises(OutcomeUnknownError):
            await process.aio.transact(lambda tx: tx.insert("t", "b", {}))

    asyncio.run(main())


def test_attempts_end(process, monkeypatch):
    """Where others are faster for longer than anybody waits."""
    monkeypatch.setattr("firn.journal.backoff.Backoff.next_pause", lambda self: None)

    async def beaten(tx):
        await process.aio.run(process.other().t.upsert, "n", {})
        await tx.upsert("t", "n", {})

    with pytest.raises(ConflictError, match="at each attempt"):
        asyncio.run(process.aio.transact(beaten))
    with pytest.raises(ConflictError, match="at each attempt"):
        process.session.transact(lambda tx: (process.other().t.upsert("n", {}), tx.upsert("t", "n", {})))
