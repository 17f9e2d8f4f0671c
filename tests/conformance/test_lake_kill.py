"""Processes that append to one table, and processes that keep it, killed by SIGKILL at any moment: each acknowledged
row is there once. And a hundred appenders that know nothing of each other."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter

import pytest

import firn
from firn.inspect.fsck.fsck import check
from stores.places import Place

pytestmark = pytest.mark.long

APPENDER = """
import json, sys
import firn

who, options = sys.argv[2], json.loads(sys.argv[3])
with firn.connect(sys.argv[1], options=options).table("t").appender(seconds=0.02, rows=20) as out:
    for n in range(1_000_000):
        out.add({"who": who, "n": n})
        if n % 7 == 6:
            out.flush()
            print(n, flush=True)
"""

KEEPER = """
import json, sys
import firn

def tell(report):
    if report.folds or report.files_merged:
        print(report, flush=True)

firn.connect(sys.argv[1], options=json.loads(sys.argv[3])).keep(interval="0.05s..0.2s", tell=tell)
"""

MANY = """
import json, sys, threading
import firn

def work(who):
    db = firn.connect(sys.argv[1], options=json.loads(sys.argv[3]))
    table = db.table("t")
    before = db.bucket.counters.put
    for n in range(10):
        table.append([{"who": who, "n": n}])
    puts.append(db.bucket.counters.put - before)

puts = []
threads = [threading.Thread(target=work, args=(f"{sys.argv[2]}-{i}",)) for i in range(20)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(puts), flush=True)
"""


def connect(place: Place) -> firn.Database:
    return firn.connect(place.url, options=place.options)


def run(code: str, place: Place, who: str) -> subprocess.Popen[str]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", code, place.url, who, json.dumps(place.options)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


def killed(process: subprocess.Popen[str], lines: int) -> list[str]:
    """All that it said, once it has said so many lines."""
    assert process.stdout is not None
    said = [process.stdout.readline() for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    return [*said, *process.communicate()[0].splitlines()]


def test_each_acknowledged_row_is_there_once(shared: Place) -> None:
    properties = {"inline": "64KB", "maintain": "auto", "fold_at": 8, "lease": "2s"}
    table = connect(shared).create_table("t", properties=properties)
    rng, acknowledged = random.Random(1), dict[str, int]()
    keepers = [run(KEEPER, shared, "") for _ in range(2)]
    appenders = {f"{n}": run(APPENDER, shared, f"{n}") for n in range(2)}
    for number in range(10):
        if number % 2:
            killed(keepers.pop(0), lines=1)
            keepers.append(run(KEEPER, shared, ""))
        else:
            who = min(appenders)
            acknowledged[who] = int(killed(appenders.pop(who), lines=rng.randint(5, 60))[-1])
            appenders[f"{number + 2}"] = run(APPENDER, shared, f"{number + 2}")
    for process in keepers:
        killed(process, lines=1)
    for who, process in appenders.items():
        acknowledged[who] = int(killed(process, lines=20)[-1])
    rows = table.scan().to_arrow()
    found = Counter(zip(rows["who"].to_pylist(), rows["n"].to_pylist(), strict=True))
    assert max(found.values()) == 1
    for who, last in acknowledged.items():
        mine = sorted(n for name, n in found if name == who)
        assert mine == list(range(len(mine)))
        assert len(mine) > last
    table.merge()
    assert table.scan().count() == len(found)
    assert not check(connect(shared), "t").problems


def test_a_hundred_appenders_none_of_which_fails_or_retries(shared: Place) -> None:
    connect(shared).create_table("t", properties={"inline": "64KB"})
    processes = [run(MANY, shared, str(i)) for i in range(5)]
    puts = [count for process in processes for count in json.loads(process.communicate()[0])]
    # One request an append, and one with which each looks at the store's clock.
    assert puts == [11] * 100
    assert connect(shared).table("t").scan().count() == 1000
