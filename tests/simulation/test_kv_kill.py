"""Real processes that write a keyed table in a directory, killed by SIGKILL at any moment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import firn
from firn.keyed.table import KeyedTable

pytestmark = pytest.mark.long

WRITER = """
import sys
import firn

url, first = sys.argv[1], int(sys.argv[2])
with firn.connect(url).table("t").open() as kv:
    for n in range(first, first + 100_000):
        key = b"%06d" % n
        if n % 3:
            kv.put(key, b"%d" % n)
        else:
            kv.put(key, b"%d" % n, durable=False)
            kv.flush()
        kv.merge(b"count", b"1")
        print(n, flush=True)
        kv.put(b"tail-%d" % n, b"never waited for", durable=False)
"""

COMPACTOR = """
import sys
import firn

table = firn.connect(sys.argv[1]).table("t")
while True:
    try:
        table.compact(full=True)
        table.sweep()
        print("round", flush=True)
    except firn.FencedError:
        pass
"""


def run(code: str, *arguments: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


def killed_after(process: subprocess.Popen[str], lines: int) -> list[str]:
    """What a process had printed when it was killed, right after it had printed so many lines."""
    assert process.stdout is not None
    try:
        said = [process.stdout.readline() for _ in range(lines)]
    finally:
        process.kill()
    said += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    return [line.strip() for line in said if line.endswith("\n")]


def made(tmp_path: Path) -> tuple[str, KeyedTable]:
    url = str(tmp_path / "db")
    properties = {"flush_ms": 2, "sst_size": "4KB", "block_size": "1KB"}
    return url, firn.connect(url).create_table("t", kind="keyed", merge_operator="add", properties=properties)


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a compactor"])
def test_nothing_that_was_acknowledged_is_lost(tmp_path: Path, beside: bool) -> None:
    url, table = made(tmp_path)
    compactor = run(COMPACTOR, url) if beside else None
    acknowledged: list[int] = []
    try:
        for lines in (1, 20) if beside else (15, 3):
            said = killed_after(run(WRITER, url, str(len(acknowledged))), lines)
            acknowledged += map(int, said)
            assert acknowledged == list(range(len(acknowledged)))
            with table.open(compaction=False) as kv:
                found = dict(kv.scan(b"000000", b"count"))
                counted = int(kv.get(b"count"))
            keys = sorted(map(int, found))
            assert keys[: len(acknowledged)] == acknowledged, "each acknowledged put is there"
            assert len(keys) <= len(acknowledged) + 1, "and at most the one that was under way"
            assert len(acknowledged) <= counted <= len(acknowledged) + 1
            acknowledged = _take_over(table, keys, counted)
    finally:
        if compactor is not None:
            assert killed_after(compactor, 1)
    table.compact(full=True)
    table.sweep(older_than="0s")
    assert sorted(map(int, dict(table.reader().scan(b"000000", b"count")))) == acknowledged
    live = {table.journal.layout.sst_key(sst.file) for sst in table.journal.read().manifest.ssts}
    assert {info.key for info in table.bucket.list("t/ssts/").objects} == live


def _take_over(table: KeyedTable, keys: list[int], counted: int) -> list[int]:
    """Make whole what the killed process left half done, so that the next one goes on from there."""
    with table.open(compaction=False) as kv:
        kv.merge(b"count", b"%d" % (len(keys) - counted))
    return keys


def test_a_killed_compactor_leaves_nothing_but_orphans(tmp_path: Path) -> None:
    url, table = made(tmp_path)
    with table.open(compaction=False) as kv:
        for round_ in range(4):
            kv.write({b"%06d" % n: b"%d" % round_ for n in range(500)})
    killed_after(run(COMPACTOR, url), 1)
    assert dict(table.reader().scan()) == {b"%06d" % n: b"3" for n in range(500)}
    table.compact(full=True)
    table.sweep(older_than="0s")
    live = {table.journal.layout.sst_key(sst.file) for sst in table.journal.read().manifest.ssts}
    assert {info.key for info in table.bucket.list("t/ssts/").objects} == live
    assert table.bucket.list("t/l0/").objects == ()
