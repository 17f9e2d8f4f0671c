"""An open writer in the background: it waits for compaction, takes its manifests, and flushes at the end."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

import firn
from firn.errors import InvalidInputError

SLOW = {"flush_ms": 3_600_000}


@pytest.fixture
def table():
    return firn.connect("memory://").create_table(
        "t", kind="keyed", properties={**SLOW, "max_l0": 6}, merge="append"
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
    kv._flusher.lock.acquire()  # whoever held it in the parent never gives it back in the child
    kv._flusher.orphaned()  # what a fork calls there
    for work in (lambda: kv.put(b"b", b"2"), lambda: kv.get(b"a"), lambda: kv.write({b"b": b"2"}), kv.flush):
        with pytest.raises(InvalidInputError, match="forked"):
            work()
