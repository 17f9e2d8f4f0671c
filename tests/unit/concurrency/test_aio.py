"""What asyncio twins stand on: threads, calls that come one after the other, and what is being opened."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import time
from concurrent.futures import Future

import pytest

from firn.concurrency.aio import AsyncTableVerbs, Opening, Strand, Threads, awaited
from firn.concurrency.cancelling import ended_by_cancelling
from firn.errors import InvalidInputError


@pytest.fixture
def threads():
    made = Threads(4)
    yield made
    made.stop()


async def until(condition):
    """Let others go on until it holds."""
    last = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < last
        await asyncio.sleep(0.001)


def test_what_a_call_gives_or_raises_comes_back(threads):
    def fail(call, *, self):
        raise KeyError(call, self)

    async def main():
        assert await threads.run(max, 3, 7) == 7
        with pytest.raises(KeyError, match="'a', 'b'"):
            await threads.run(fail, call="a", self="b")
        assert await threads.run(threading.get_ident) != threading.get_ident()

    asyncio.run(main())


def test_the_loop_goes_on_while_calls_wait(threads):
    gate = threading.Event()

    async def main():
        waiting = [asyncio.create_task(threads.run(gate.wait, 30)) for _ in range(10)]
        await asyncio.sleep(0)
        gate.set()
        assert all(await asyncio.gather(*waiting))

    asyncio.run(main())


def test_a_call_that_has_not_begun_is_taken_back():
    threads, gate, done = Threads(1), threading.Event(), []

    async def main():
        first = asyncio.create_task(threads.run(gate.wait, 30))
        second = asyncio.create_task(threads.run(done.append, "second"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        gate.set()
        await first
        await threads.run(done.append, "third")

    asyncio.run(main())
    threads.stop()
    assert done == ["third"]


@pytest.mark.parametrize("through", [lambda threads: threads, Strand], ids=["threads", "strand"])
def test_what_a_call_does_is_ended_if_its_task_is_cancelled(threads, through):
    stop, began, raised = threading.Event(), threading.Event(), []

    def work():
        try:
            with ended_by_cancelling(stop.set):
                began.set()
                assert stop.wait(30)
                raise RuntimeError("interrupted")
        except BaseException as error:
            raised.append(type(error))
            with pytest.raises(KeyboardInterrupt), ended_by_cancelling(stop.set):
                raised.append("more")

    async def main():
        task = asyncio.create_task(through(threads).run(work))
        await until(began.is_set)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: raised)

    asyncio.run(main())
    assert raised == [KeyboardInterrupt]


def test_nothing_begins_after_the_end(threads):
    threads.stop()
    with pytest.raises(InvalidInputError, match="closed"):
        threads.begin(lambda: None)
    with pytest.raises(InvalidInputError, match="is mine"):
        closed = Threads(1, closed="it is mine")
        closed.stop()
        closed.begin(lambda: None)


def test_threads_end_with_what_has_them():
    threads = Threads(2, "firn-test-ends")
    threads.begin(lambda: None).result(10)
    mine = [thread for thread in threading.enumerate() if thread.name.startswith("firn-test-ends")]
    assert mine
    del threads
    gc.collect()
    for thread in mine:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(threads):
    threads.begin(lambda: None).result(10)  # one is idle, of which the child has only the tale
    child = os.fork()
    if child == 0:
        try:
            os._exit(threads.begin(lambda: 7).result(10))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


# -- one after the other


def test_calls_of_a_strand_come_one_after_the_other(threads):
    strand, under_way, order = Strand(threads), [], []

    async def main():
        loop = asyncio.get_running_loop()

        def call(n):
            under_way.append(n)
            for _ in range(3):  # give others the time to come in between
                asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)
            assert under_way == [n]
            under_way.remove(n)
            order.append(n)

        await asyncio.gather(*(strand.run(call, n) for n in range(20)))

    asyncio.run(main())
    assert order == list(range(20))


def test_two_strands_do_not_wait_for_each_other(threads):
    both = threading.Barrier(2, timeout=30)

    async def main():
        await asyncio.gather(*(Strand(threads).run(both.wait) for _ in range(2)))

    asyncio.run(main())


def test_a_strand_takes_one_thread():
    """However many calls wait, there are threads for others."""
    threads, gate = Threads(2), threading.Event()
    strand = Strand(threads)
    waiting = [strand.begin(lambda: gate.wait(30)) for _ in range(10)]
    assert threads.begin(lambda: 1).result(30) == 1
    gate.set()
    assert all(one.result(30) for one in waiting)
    threads.stop()


def test_an_error_ends_no_strand(threads):
    strand = Strand(threads)

    def fail():
        raise KeyError("no")

    first, second = strand.begin(fail), strand.begin(lambda: 2)
    with pytest.raises(KeyError):
        first.result(10)
    assert second.result(10) == 2
    assert strand.begin(lambda: 3).result(10) == 3


def test_who_is_cancelled_is_waited_for_by_the_next_call(threads):
    strand, gate, order = Strand(threads), threading.Event(), []

    def slow():
        begun.set_result(None)
        gate.wait(30)
        order.append("slow")

    begun: Future[None] = Future()

    async def main():
        first = asyncio.create_task(strand.run(slow))
        await asyncio.wrap_future(begun)
        queued = asyncio.create_task(strand.run(order.append, "queued"))
        last = asyncio.create_task(strand.run(order.append, "last"))
        await asyncio.sleep(0)
        first.cancel()
        queued.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert order == []
        gate.set()
        await last

    asyncio.run(main())
    assert order == ["slow", "last"]


def test_a_strand_whose_threads_have_ended_says_so_each_time(threads):
    strand = Strand(threads)
    threads.stop()
    for _ in range(2):
        with pytest.raises(InvalidInputError):
            strand.begin(lambda: None)


# -- twins


class Table:
    name = "t"

    def __repr__(self):
        return "<Table t>"

    def where(self, first, /, *, limit=None, **equalities):
        """In which thread, and what it was given."""
        return threading.get_ident(), (first, limit, equalities)


class Younger(Table):
    def where(self, first, /, *, limit=None, **equalities):
        return "younger", super().where(first, limit=limit, **equalities)[1]


class AsyncTable(AsyncTableVerbs[Table]):
    where = awaited(Table.where)


def test_an_awaited_verb_is_the_twins_in_a_thread(threads):
    async def main():
        twin = AsyncTable(Table(), threads)
        thread, given = await twin.where(1, limit=2, self=3, verb=4, first=5)
        assert thread != threading.get_ident()
        assert given == (1, 2, {"self": 3, "verb": 4, "first": 5})
        assert await AsyncTable(Younger(), threads).where(1) == ("younger", (1, None, {}))
        assert (twin.name, repr(twin), await twin.run(max, 3, 7)) == ("t", "<Table t>.aio", 7)

    asyncio.run(main())


def test_an_awaited_verb_tells_of_itself_what_the_twins_tells():
    assert inspect.iscoroutinefunction(AsyncTable.where)
    assert inspect.signature(AsyncTable.where) == inspect.signature(Table.where)
    assert inspect.getdoc(AsyncTable.where) == "In which thread, and what it was given."


# -- opening


class Handle:
    def __init__(self):
        self.left = []

    async def __aexit__(self, *error):
        self.left.append(error[0])


def test_what_is_opened_can_be_awaited_or_used_as_a_block():
    made = []

    async def make():
        made.append(Handle())
        return made[-1]

    async def main():
        opening = Opening(make)
        assert made == []
        assert await opening is made[0]
        async with Opening(make) as handle:
            assert handle is made[1]
        with pytest.raises(KeyError):
            async with Opening(make):
                raise KeyError

    asyncio.run(main())
    assert [handle.left for handle in made] == [[], [None], [KeyError]]
