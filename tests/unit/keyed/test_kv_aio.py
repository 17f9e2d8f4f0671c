"""The asyncio twins: what they do that their twins don't."""

from __future__ import annotations

import asyncio
import threading

import pytest

import firn
from firn.concurrency.aio import Threads
from firn.errors import FencedError, InvalidInputError
from firn.keyed.aio import SharedFlush


@pytest.fixture
def table():
    return firn.connect("memory://").create_table("t", kind="keyed", properties={"flush_ms": 10_000})


def test_all_verbs(table):
    async def main():
        twin = table.aio
        async with twin.open() as kv:
            await kv.put(b"a", b"1")
            await kv.write({b"b": b"2", b"c": b"3"}, durable=False)
            await kv.delete(b"a", durable=False)
            assert (await kv.get(b"a"), await kv.get(b"a", durable=True)) == (None, b"1")
            assert await kv.multi_get([b"c", b"b", b"x"]) == [b"3", b"2", None]
            async with await kv.snapshot() as before:
                await kv.put(b"d", b"4", durable=False)
                assert [pair async for pair in before.scan()] == [(b"b", b"2"), (b"c", b"3")]
            await kv.flush()
            assert [key async for key, _ in kv.scan(b"b", b"d", reverse=True)] == [b"c", b"b"]
            assert [key async for key, _ in kv.scan_prefix(b"d")] == [b"d"]
            assert [batch.num_rows async for batch in kv.scan().to_batches()] == [3]
            assert (await kv.scan().to_arrow()).num_rows == 3
            await kv.poll()
            await kv.compact()
            assert (kv.epoch, kv.stats().unflushed_bytes) == (kv.sync.epoch, 0)
        checkpoint = await twin.run(table.checkpoint, "now")
        assert (twin.name, checkpoint.name) == ("t", "now")
        async with twin.reader() as reader:
            assert await reader.get(b"d") == b"4"
            assert await reader.refresh() == reader.version
        at = await twin.reader(at="now")
        assert await at.multi_get([b"b"]) == [b"2"]
        await at.close()

    asyncio.run(main())


def test_merges():
    counts = firn.connect("memory://").create_table("counts", kind="keyed", merge_operator="add")

    async def main():
        async with counts.aio.open() as kv:
            await asyncio.gather(*(kv.merge(b"n", b"1") for _ in range(50)))
            return await kv.get(b"n")

    assert asyncio.run(main()) == b"50"


def test_many_tasks_share_few_flushes(table):
    async def main():
        async with table.aio.open() as kv:
            await asyncio.gather(*(kv.put(b"key %d" % n, b"value") for n in range(500)))
            assert await kv.get(b"key 499", durable=True) == b"value"
            return kv.stats().flushes

    assert 1 <= asyncio.run(main()) <= 50


def test_a_fenced_writer_says_so_to_each(table):
    async def main():
        async with table.aio.open() as kv:
            table.open(compaction=False).close()
            puts = [kv.put(b"%d" % n, b"x") for n in range(3)]
            answers = await asyncio.gather(*puts, return_exceptions=True)
            assert all(isinstance(answer, FencedError) for answer in answers)
            with pytest.raises(FencedError):
                await kv.get(b"0")

    with pytest.raises(FencedError):
        asyncio.run(main())


def test_errors_come_back(table):
    async def main():
        async with table.aio.open() as kv:
            with pytest.raises(InvalidInputError):
                await kv.put(1, b"x")

    asyncio.run(main())


def run_with_threads(main):
    async def run():
        threads = Threads(4)
        try:
            return await main(threads)
        finally:
            threads.stop()

    return asyncio.run(run())


def test_who_comes_before_a_flush_begins_is_in_it_and_who_comes_later_begins_the_next():
    gates = [threading.Event() for _ in range(2)]
    begun = []

    def flush():
        begun.append(len(begun))
        gates[len(begun) - 1].wait(10)

    async def main(threads):
        shared = SharedFlush(threads, flush)
        first = asyncio.create_task(shared.wait())
        while not begun:
            await asyncio.sleep(0)
        later = [asyncio.create_task(shared.wait()) for _ in range(1)]
        while len(begun) < 2:
            await asyncio.sleep(0)
        gates[1].set()
        await asyncio.gather(*later)
        assert not first.done(), (
            "the flush that was under way doesn't speak for who came later, nor they for it"
        )
        gates[0].set()
        await first
        return len(begun)

    assert run_with_threads(main) == 2


def test_a_cancelled_task_cancels_nobody_else():
    gate = threading.Event()

    async def main(threads):
        shared = SharedFlush(threads, lambda: gate.wait(10) and None)
        one, other = asyncio.create_task(shared.wait()), asyncio.create_task(shared.wait())
        await asyncio.sleep(0)
        one.cancel()
        gate.set()
        await other
        with pytest.raises(asyncio.CancelledError):
            await one

    run_with_threads(main)


def test_who_waits_gets_the_flushs_error():
    def flush():
        raise FencedError("taken over")

    async def main(threads):
        shared = SharedFlush(threads, flush)
        waiting = [shared.wait() for _ in range(3)]
        assert {str(e) for e in await asyncio.gather(*waiting, return_exceptions=True)} == {"taken over"}

    run_with_threads(main)
