"""An open writer in the background: it waits for compaction, takes its manifests, and flushes at the end."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import firn
from firn.errors import CorruptObjectError, FencedError, InvalidInputError, StoreUnavailableError
from firn.keyed.maintain import local_compaction
from firn.keyed.table import KeyedTable

SLOW = {"flush_ms": 3_600_000}


class Elsewhere:
    """The same bucket as another process has it."""

    def __init__(self, bucket):
        self.bucket = bucket

    def __getattr__(self, name):
        return getattr(self.bucket, name)


@pytest.fixture
def table():
    return firn.connect("memory://").create_table(
        "t", kind="keyed", properties={**SLOW, "max_l0": 6}, merge_operator="append"
    )


def test_puts_wait_while_compaction_lags_and_go_on_when_another_process_has_compacted(table):
    with table.open(poll_every="1h") as kv:
        kv._compaction.stop()  # as if it were slow
        for n in range(6):
            kv.put(b"%d" % n, b"v")
        waiting = threading.Thread(target=kv.put, args=(b"late", b"v"))
        waiting.start()
        while not kv.stats().stalls:
            waiting.join(0.01)
        assert waiting.is_alive()
        table.compact(full=True)
        kv.poll()
        waiting.join(30)
        assert not waiting.is_alive()
        assert kv.get(b"late") == b"v" and kv.stats().l0 == 1


def test_without_compaction_puts_never_wait_for_one(table):
    with table.open(compaction=False) as kv:
        for n in range(9):
            kv.put(b"%d" % n, b"v")
        assert kv.stats().l0 == 9 and kv.stats().stalls == 0


def test_no_operand_counts_twice_while_l0_becomes_a_run(table):
    with table.open(compaction=False) as kv:
        for n in range(5):
            kv.merge(b"k", b"%d" % n)
        before = kv.snapshot()
        table.compact(full=True)
        assert kv.get(b"k") == b"01234"  # by the manifest that it knows
        kv.poll()
        assert kv.get(b"k") == before.get(b"k") == b"01234" and kv.stats().l0 == 0
        kv.merge(b"k", b"5")
        assert kv.get(b"k") == b"012345" and before.get(b"k") == b"01234"


def test_a_writer_goes_on_by_the_newest_manifest_when_objects_of_its_own_were_swept(table):
    with table.open(compaction=False) as kv:
        for n in range(5):
            kv.put(b"%d" % n, b"v")
        table.compact(full=True)
        table.sweep(older_than="0s")
        assert [key for key, _ in kv.scan()] == [b"%d" % n for n in range(5)]
        assert kv.multi_get([b"0", b"4", b"5"]) == [b"v", b"v", None]


def test_compaction_that_fails_for_good_is_told_and_puts_go_on(table, monkeypatch):
    def broken(table, compactor, **how):
        raise CorruptObjectError("t/ssts/x.sst: damaged")

    monkeypatch.setattr(local_compaction, "compact_once", broken)
    with table.open() as kv:
        for n in range(20):
            kv.put(b"%02d" % n, b"v")  # nobody waits for a compaction that never comes
        kv._compaction._thread._thread.join(30)
        assert not kv._compaction._thread.running
        assert kv.stats().last_error == "t/ssts/x.sst: damaged" and kv.stats().l0 == 20
        assert kv.get(b"19") == b"v"


@pytest.mark.parametrize("most", [1, 3, 8])
def test_puts_never_wait_for_a_compaction_that_has_too_little_to_do(most):
    properties = {**SLOW, "max_l0": most}
    table = firn.connect("memory://").create_table("t", kind="keyed", properties=properties)
    with table.open() as kv:
        for n in range(20):
            kv.put(b"%02d" % n, b"v")
        assert kv.stats().compactions > 0
        assert len(list(kv.scan())) == 20


def test_compaction_goes_on_after_an_error_of_the_store(table, monkeypatch):
    sound, errors = local_compaction.compact_once, [StoreUnavailableError("not now")] * 2

    def shaky(table, compactor, **how):
        if errors:
            raise errors.pop()
        return sound(table, compactor, **how)

    monkeypatch.setattr(local_compaction, "compact_once", shaky)
    with table.open() as kv:
        for n in range(20):
            kv.put(b"%02d" % n, b"v")  # those that are too many wait until it works
        assert not errors and kv.stats().compactions > 0


def test_a_poll_that_finds_no_store_is_made_again_and_one_that_finds_a_rival_ends_the_writer(table):
    kv = table.open(compaction=False, poll_every="1ms")
    sound, errors = kv._session.poll, [StoreUnavailableError("not now")] * 2
    done = threading.Event()

    def shaky():
        if errors:
            raise errors.pop()
        done.set()
        return sound()

    kv._session.poll = shaky
    assert done.wait(30)
    kv.put(b"a", b"1")
    table.open(compaction=False).close()
    kv._poller._thread.join(30)
    assert not kv._poller.running
    with pytest.raises(FencedError):
        kv.get(b"a")
    with pytest.raises(FencedError):
        kv.put(b"b", b"2", durable=False)
    with pytest.raises(FencedError):
        kv.close()


def test_a_flush_of_before_that_cannot_be_read_fails_the_reads_that_need_it_and_nothing_else(table):
    with table.open(compaction=False) as kv:
        kv.put(b"old", b"1")
    (flush,) = table.view().l0
    data = table.bucket.get(flush.key).data
    table.bucket.put(flush.key, data[:-40] + bytes(20) + data[-20:])
    table = KeyedTable(Elsewhere(table.bucket), table.prefix, table.definition)  # with nothing cached
    with table.open(compaction=False) as kv:
        kv.put(b"new", b"2")
        assert kv.get(b"new") == b"2" and kv.multi_get([b"new"]) == [b"2"]
        for read in (lambda: kv.get(b"old"), lambda: kv.multi_get([b"old"]), lambda: list(kv.scan())):
            with pytest.raises(CorruptObjectError, match=flush.key):
                read()
        kv.put(b"newer", b"3")
    table.bucket.put(flush.key, data)
    assert dict(table.reader().scan()) == {b"old": b"1", b"new": b"2", b"newer": b"3"}


FORGETS = """
import sys, firn
kv = firn.connect(sys.argv[1]).create_table("t", kind="keyed", properties={"flush_ms": 3600000}).open()
kv.put(b"a", b"1", durable=False)
"""


def test_a_program_that_forgets_to_close_loses_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FORGETS, str(tmp_path / "db")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert firn.connect(tmp_path / "db").table("t").reader().get(b"a") == b"1"


def test_a_forked_child_refuses_the_parents_writer(table):
    kv = table.open(compaction=False)
    kv.put(b"a", b"1", durable=False)
    held = kv._queue.lock
    held.acquire()  # whoever held it in the parent never gives it back in the child
    kv._queue.orphaned()  # what a fork calls there
    for work in (lambda: kv.put(b"b", b"2"), lambda: kv.get(b"a"), lambda: kv.write({b"b": b"2"}), kv.flush):
        with pytest.raises(InvalidInputError, match="forked"):
            work()
    held.release()  # this is no child: the thread is here, and ends
