"""The queue of memtables and the writer's tree, without a thread: which puts wait, which flushes are durable."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

import firn
from firn.errors import FencedError, InvalidInputError
from firn.keyed.write.queue import MemtableQueue
from firn.keyed.write.tree import WriterTree
from firn.keyed.write.uploader import L0Uploader


def opened(**properties: Any) -> tuple[MemtableQueue, L0Uploader]:
    db = firn.connect(f"memory://queue-{uuid.uuid4().hex}")
    table = db.create_table("t", kind="keyed", properties={"flush_ms": 3_600_000, **properties})
    session = table.journal.open_writer()
    queue = MemtableQueue(WriterTree(table, session.view, compacting=True), session.next_number)
    return queue, L0Uploader(session, queue)


def frozen(queue: MemtableQueue, key: bytes) -> Any:
    """The flush of a memtable that has one entry, taken by a worker."""
    with queue.lock:
        queue.begun_locked()
        queue.active.put(key, b"v")
        queue.want_locked(queue.active.number)
        return queue.take_locked()


def test_flushes_are_durable_in_the_order_of_numbers() -> None:
    queue, uploader = opened()
    first = frozen(queue, b"a")
    with queue.lock:
        queue.active.put(b"b", b"v")
        queue.close_locked()  # so that it is due
        second = queue.take_locked()
        assert second is not None and second.number == first.number + 1
        assert queue.durable == queue.up_locked() == first.number - 1
    uploader.put_up(second)
    with queue.lock:
        assert queue.durable == queue.up_locked() == first.number - 1, "the first one isn't up"
    uploader.put_up(first)
    with queue.lock:
        assert queue.up_locked() == second.number
        queue.land_locked(second.number)
        assert queue.durable == second.number and not queue.frozen
    assert [number for number, _ in queue.tree.l0] == [second.number, first.number]
    assert queue.tree.durable.find(b"a")[0].value == b"v"
    assert queue.tree.compaction_wanted.is_set() and not queue.tree.poll_wanted.is_set()


def test_a_frozen_memtable_is_read_before_it_is_durable() -> None:
    queue, _ = opened()
    flush = frozen(queue, b"a")
    assert queue.tree.whole.find(b"a")[0].value == b"v"
    assert queue.tree.durable.find(b"a") == []
    assert queue.unflushed == flush.memtable.bytes


def test_both_threads_are_woken_where_l0_makes_puts_wait() -> None:
    queue, _ = opened(max_l0=1)
    assert queue.limit > 0 and not queue.tree.poll_wanted.is_set()
    frozen(queue, b"a")
    assert queue.tree.pressure.full and queue.limit == 0
    assert queue.tree.poll_wanted.is_set() and queue.tree.compaction_wanted.is_set()
    with queue.lock:
        queue.tree.compacting = False
        queue.grow_locked()
    assert not queue.tree.pressure.full and queue.limit > 0


def test_a_queue_that_has_failed_gives_no_room_and_no_work() -> None:
    queue, _ = opened()
    queue.fail(FencedError("taken over"))
    queue.fail(InvalidInputError("the first error counts"))
    with queue.lock:
        assert queue.limit == 0 and queue.take_locked() is None
        with pytest.raises(FencedError, match="taken over"):
            queue.make_room_locked()
