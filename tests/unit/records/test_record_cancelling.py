"""Tasks that are cancelled while they change record tables: what was under way ends by itself, never by half."""

from __future__ import annotations

import asyncio

import pytest

from firn.errors import ObjectLockedError, StaleObjectError, TransactionClosedError
from firn.records.apply.apply import settle
from record_loops import Gate, Process, is_commit, until

CONFLICT = pytest.mark.parametrize("conflict", [False, True], ids=["lands", "conflict"])


@pytest.fixture
def process():
    return filled()


def filled(**options):
    made = Process(**options)
    made.t.insert("a", {"n": 0})
    made.t.insert("b", {"n": 0})
    settle(made.session.store)  # so that rows are read from the bucket
    return made


OLD, NEW, THEIRS = (
    {"a": {"n": 0}, "b": {"n": 0}},
    {"a": {"n": 1}, "b": {"n": 1}},
    {"a": {"n": 9}, "b": {"n": 0}},
)


async def change(tx):
    await tx.update("t", "a", {"n": 1})
    await tx.update("t", "b", {"n": 1})


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def is_row(verb, key):
    return verb == "get" and key.startswith("db/t/data/")


# -- during a commit


@CONFLICT
def test_a_commit_whose_task_is_cancelled_ends_by_itself_and_is_told_when_asked_for(process, conflict):
    async def main():
        tx = await process.aio.begin()
        await change(tx)
        gate = Gate(process, is_commit)
        committing = asyncio.create_task(tx.commit())
        await gate.reached()
        assert tx.in_doubt and not tx.is_open
        await cancelled(committing)
        assert tx.in_doubt and not tx.is_open and tx.committed is None
        assert process.found == OLD
        if conflict:
            process.other().t.update("a", {"n": 9})
        gate.open()
        if conflict:
            with pytest.raises(StaleObjectError, match="'a'"):
                await tx.commit()
        else:
            assert await tx.commit() == tx.committed
        assert not tx.in_doubt and not tx.is_open
        assert (tx.committed is None) == conflict
        with pytest.raises(TransactionClosedError):  # it was told once
            await tx.commit()
        with pytest.raises(TransactionClosedError):
            await tx.get("t", "a")

    asyncio.run(main())
    assert process.found == (THEIRS if conflict else NEW)


@CONFLICT
def test_a_block_tells_of_a_commit_in_it_that_nobody_has_heard_of(process, conflict):
    async def run():
        async with process.aio.begin() as tx:
            await change(tx)
            gate = Gate(process, is_commit)
            committing = asyncio.create_task(tx.commit())
            await gate.reached()
            await cancelled(committing)
            if conflict:
                process.other().t.update("a", {"n": 9})
            gate.open()

    async def main():
        if conflict:
            with pytest.raises(StaleObjectError, match="'a'"):
                await run()
        else:
            await run()

    asyncio.run(main())
    assert process.found == (THEIRS if conflict else NEW)


@CONFLICT
def test_a_block_that_is_cancelled_at_its_end(process, conflict):
    async def run(into):
        async with process.aio.begin(lock=True) as tx:
            into.append(tx)
            await change(tx)

    async def main():
        into = []
        gate = Gate(process, is_commit)
        task = asyncio.create_task(run(into))
        await gate.reached()
        await cancelled(task)
        if conflict:
            process.other().t.update("a", {"n": 9})
        gate.open()
        (tx,) = into
        await until(lambda: not tx.in_doubt)
        assert (tx.committed is None) == conflict
        await unlocked(process)

    asyncio.run(main())
    assert process.found == (THEIRS if conflict else NEW)


def test_who_shares_a_record_with_one_that_is_cancelled_minds_nothing(process):
    gate = Gate(process, is_commit)

    async def main():
        writes = [asyncio.create_task(process.t.aio.upsert(f"r{n}", {"n": n})) for n in range(20)]
        await gate.reached()
        await until(lambda: len(process.session.store.group._queue) == 19)
        for write in writes[::2]:
            await cancelled(write)
        gate.open()
        assert len(await asyncio.gather(*writes[1::2])) == 10
        await until(lambda: len(process.found) == 22)  # they were under way, so they are done

    asyncio.run(main())


# -- before


def test_a_commit_that_had_not_begun_never_does(process):
    """Another call of the transaction is under way when its task is cancelled."""

    async def main():
        tx = await process.aio.begin()
        await tx.upsert("t", "a", {"n": 1})
        gate = Gate(process, is_row)
        reading, committing = asyncio.create_task(tx.get("t", "b")), asyncio.create_task(tx.commit())
        await gate.reached()
        await cancelled(committing)
        gate.open()
        assert (await reading)["n"] == 0
        assert tx.is_open and not tx.in_doubt
        assert (await tx.get("t", "a"))["n"] == 1
        assert process.found == OLD
        await tx.upsert("t", "b", {"n": 1})
        assert await tx.commit() == tx.committed

    asyncio.run(main())
    assert process.found == NEW


@pytest.mark.parametrize("error", [None, KeyError("mine")], ids=["commit", "rollback"])
def test_a_block_that_is_cancelled_while_its_end_waits_rolls_back(process, error):
    """Its commit hasn't begun, or an error has left it: both come after a call that is under way."""

    async def run(gate, into):
        async with process.aio.begin(lock=True) as tx:
            into.append(tx)
            await tx.upsert("t", "a", {"n": 1})
            into.append(asyncio.create_task(tx.get("t", "b")))
            await gate.reached()
            if error is not None:
                raise error

    async def main():
        into = []
        gate = Gate(process, is_row)
        task = asyncio.create_task(run(gate, into))
        await gate.reached()
        await until(lambda: into[0]._strand._waiting)  # at the end of the block
        await cancelled(task)
        gate.open()
        await unlocked(process)

    asyncio.run(main())
    assert process.found == OLD


def test_a_block_that_is_cancelled_inside_rolls_back(process):
    async def run(into, hold):
        async with process.aio.begin(lock=True) as tx:
            into.append(tx)
            await change(tx)
            await hold.wait()

    async def main():
        into, hold = [], asyncio.Event()
        task = asyncio.create_task(run(into, hold))
        await until(lambda: into and len(into[0].sync._footprint.writes) == 2)
        with pytest.raises(ObjectLockedError):
            other = process.other().session.begin(lock=True)
            other.update("t", "a", {"n": 9})
        await cancelled(task)
        assert not into[0].is_open and not into[0].in_doubt
        with pytest.raises(TransactionClosedError):
            await into[0].get("t", "a")
        await unlocked(process)

    asyncio.run(main())
    assert process.found == OLD


def test_who_is_cancelled_waits_for_no_request(process):
    """Also not for one of the same transaction that is under way."""

    async def run(into):
        async with process.aio.begin(lock=True) as tx:
            into.append(tx)
            await tx.upsert("t", "a", {"n": 1})
            await tx.get("t", "b")

    async def main():
        into = []
        gate = Gate(process, is_row)
        task = asyncio.create_task(run(into))
        await gate.reached()
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        assert task.cancelled() and not into[0].is_open
        gate.open()
        await unlocked(process)

    asyncio.run(main())
    assert process.found == OLD


async def unlocked(process):
    """The locks are given back, which nobody waits for."""

    def free():
        try:
            with process.other().session.begin(lock=True) as tx:
                for id in ("a", "b"):
                    tx.upsert("t", id, {})
                tx.rollback()
        except ObjectLockedError:
            return False
        return True

    await until(free)


# -- transact


@pytest.mark.parametrize("lock", [False, True], ids=["free", "locked"])
def test_transact_may_be_cancelled_at_any_request(lock):
    """Whichever it is: both rows are changed or none is, nothing is begun again, and the locks are given back."""
    outcomes = []
    at = 0
    while True:
        at += 1
        process = filled(calls=1)
        if not asyncio.run(cancel_at(process, at, lock)):
            break
        outcomes.append(process.found == NEW)
        assert process.found in (OLD, NEW), at
        asyncio.run(unlocked(process))
    assert process.found == NEW
    assert set(outcomes) == {False, True} and len(outcomes) >= 4


async def cancel_at(process, at, lock):
    """Whether there was such a request."""
    left, runs = [at], []

    def chosen(verb, key):
        left[0] -= 1
        return left[0] == 0

    async def work(tx):
        runs.append(tx)
        assert (await tx.get("t", "a"))["n"] == (await tx.get("t", "b"))["n"] == 0
        await change(tx)

    gate = Gate(process, chosen)
    task = asyncio.create_task(process.aio.transact(work, lock=lock))
    await until(lambda: gate.arrived.is_set() or task.done())
    if task.done():
        await task
        return False
    await cancelled(task)
    gate.open()
    await process.aio.run(lambda: None)  # by the one thread, so all that was under way has ended
    assert len(runs) <= 1
    return True


def test_a_write_of_a_table_is_done_or_not(process):
    async def main():
        for number, chosen in enumerate((is_commit, lambda verb, key: verb in ("get", "get_many"))):
            gate = Gate(process, chosen)
            task = asyncio.create_task(process.t.aio.upsert("c", {"n": number}))
            await gate.reached()
            await cancelled(task)
            gate.open()
            # It was under way, so it ends.
            await until(lambda number=number: process.found.get("c") == {"n": number})

    asyncio.run(main())
