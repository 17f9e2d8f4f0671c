"""Processes that keep a table in a directory, killed by SIGKILL at any moment beside appends: no row is lost, and
none is doubled."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import firn

pytestmark = pytest.mark.long

APPENDS = 250
APPENDER = """
import sys
import firn

table, first = firn.connect(sys.argv[1]).table("t"), int(sys.argv[2])
for n in range(first, first + int(sys.argv[3])):
    table.append([{"n": n, "p": n % 3}])
    print(n, flush=True)
"""
KEEPER = """
import sys
import firn

table = firn.connect(sys.argv[1]).table("t")
while True:
    print(table.keep(once=True).commits, flush=True)
"""


def started(code: str, processes: ExitStack, *arguments: object) -> subprocess.Popen[str]:
    """A process that is killed at the end at the latest."""
    paths = os.pathsep.join(path for path in sys.path if path)
    process = processes.enter_context(
        subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
    )
    processes.callback(process.kill)
    return process


def said(process: subprocess.Popen[str], lines: int) -> list[str]:
    assert process.stdout is not None
    return [line for _ in range(lines) if (line := process.stdout.readline())]


def at_work(keeper: subprocess.Popen[str], appenders: Sequence[subprocess.Popen[str]]) -> None:
    """Read on until the keeper has folded something, or there is nothing any more."""
    while any(appender.poll() is None for appender in appenders):
        if int(said(keeper, 1)[0]):
            return


@pytest.mark.parametrize("seed", range(2))
def test_killed_keepers(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    db = firn.connect(tmp_path)
    properties = {"inline": "64KB", "fold_at": 8, "lease": "1s"}
    table = db.create_table("t", partition_by=["p"], properties=properties)
    with ExitStack() as processes:
        keepers = [started(KEEPER, processes, tmp_path) for _ in range(3)]
        for keeper in keepers:
            said(keeper, 1)
        appenders = [started(APPENDER, processes, tmp_path, 1000 * number, APPENDS) for number in range(2)]
        for keeper in keepers:
            for _ in range(rng.randint(1, 3)):
                at_work(keeper, appenders)
            keeper.kill()
        for appender in appenders:
            said(appender, APPENDS)
    expected = [1000 * number + n for number in range(2) for n in range(APPENDS)]
    assert sorted(table.scan().to_arrow().column("n").to_pylist()) == expected
    assert "fold" in {commit.op for commit in table.history()}
    assert not db.keep(once=True)["t"].busy  # which takes over from the last one
    assert sorted(table.scan().to_arrow().column("n").to_pylist()) == expected
    assert not [file for file in table.snapshot().files if file.inlined is not None]
