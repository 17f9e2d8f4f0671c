"""Processes that append to one table, with and without keeping it, in alternating pairs: how many objects are live at
most, what the folds write and how long they hold the lock, and what keeping does to the time of an append.

Each writer is a process of its own that appends ten rows a commit, of which it waits a while between two. In a kept
round the writers keep the table; in the other nobody does. All rows are counted at the end of each round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.figures import FIRN, Figures, arguments, finish, rotated
from bench.small_appends import ROWS

ALONE = "nobody keeps it"
FIRST_S = 60.0
"""For so long processes start, and load what a fold needs."""

WRITER = """
import json, sys, time
import firn
from bench.small_appends import rows
from firn.lake.keep import table_keeper

url, number, commits, pause = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
folds, misses, fold = [], 0, table_keeper.fold

def watched(*given, **options):
    global misses
    try:
        done = fold(*given, **options)
    except firn.LockHeldError:
        misses += 1
        raise
    folds.append(done)
    return done

table_keeper.fold = watched
db = firn.connect(url)
table = db.table("t")
took = []
for n in range(commits):
    began = time.perf_counter()
    table.append(rows(number * commits + n))
    took.append(time.perf_counter() - began)
    time.sleep(max(0.0, pause - took[-1]))
db.close()
done = [each for each in folds if each.times]
said = {"took": took, "misses": misses, "folds": sum(each.times for each in done)}
said |= {"held": [each.held_s for each in done], "bytes": sum(each.bytes for each in done)}
print(json.dumps(said))
"""


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--commits", type=int, default=300, help="of each writer")
    parser.add_argument(
        "--pause", type=float, default=0.1, help="seconds from one append of a writer to the next"
    )
    parser.add_argument("--rounds", type=int, default=2, help="pairs")
    options = parser.parse_args(argv)
    figures = Figures("keeping", {k: v for k, v in vars(options).items() if k != "out"})
    name = f"{options.writers} writers, {options.commits} commits of {ROWS} rows each"
    ratios = []
    for number in range(options.rounds):
        p99 = {}
        for engine in rotated([FIRN, ALONE], number):
            with tempfile.TemporaryDirectory() as directory:
                began = time.perf_counter()
                found = run(Path(directory), options, kept=engine == FIRN)
                figures.record(name, engine, time.perf_counter() - began, **found)
                p99[engine] = found["p99_ms"]
        ratios.append(p99[FIRN] / p99[ALONE])
    kept = figures.measure(name, FIRN).detail
    kept["p99_ratios"] = [round(ratio, 2) for ratio in ratios]
    later = kept["live_later"] or kept["live_most"]
    figures.target("live objects, most, after the first minute if there is one", later, at_most=200)
    figures.target("bytes that folds write over the rows' bytes", kept["bytes_ratio"], at_most=5)
    figures.target(
        "p99 of an append over that without keeping, median", sorted(ratios)[len(ratios) // 2], at_most=1.2
    )
    finish(figures, options.out)
    return figures


def run(directory: Path, options: Any, *, kept: bool) -> dict[str, Any]:
    """One round; what came of it."""
    import firn

    properties = {"inline": "64KB", "maintain": "auto" if kept else "none"}
    table = firn.connect(directory).create_table("t", properties=properties)
    ended, most = threading.Event(), [0, 0]
    watcher = threading.Thread(target=watch, args=(directory, ended, most))
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "src")])}
    command = [sys.executable, "-c", WRITER, str(directory)]
    watcher.start()
    writers = [
        subprocess.Popen(
            [*command, str(number), str(options.commits), str(options.pause)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for number in range(options.writers)
    ]
    said = [json.loads(writer.communicate()[0]) for writer in writers]
    ended.set()
    watcher.join()
    assert table.scan().count() == options.writers * options.commits * ROWS
    took = sorted(seconds for each in said for seconds in each["took"])
    found: dict[str, Any] = {
        "live_most": most[0],
        "live_later": most[1] or None,
        "p50_ms": round(1000 * took[len(took) // 2], 2),
        "p99_ms": round(1000 * took[len(took) * 99 // 100], 2),
    }
    if kept:
        held = sorted(seconds for each in said for seconds in each["held"]) or [0.0]
        written = sum(each["bytes"] for each in said)
        logs = directory.glob("t/_log/*.jsonl")
        appended = sum(log.stat().st_size for log in logs if "_m_" not in log.name)
        found |= {
            "folds": sum(each["folds"] for each in said),
            "lock_misses": sum(each["misses"] for each in said),
            "held_p50_ms": round(1000 * held[len(held) // 2], 1),
            "held_max_ms": round(1000 * held[-1], 1),
            "bytes_by_folds": written,
            "bytes_ratio": round(written / appended, 2),
        }
    return found


def watch(directory: Path, ended: threading.Event, most: list[int]) -> None:
    """Note how many objects a reader has to read at most, and after the first minute: live files, and logs that no
    other one replaces."""
    import firn
    from firn.journal.leaderless import LeaderlessJournal

    table = firn.connect(directory).table("t", kind="lake")
    journal = table.journal
    assert isinstance(journal, LeaderlessJournal)
    began = time.perf_counter()
    while not ended.wait(0.25):
        loaded = journal.loader.load()
        files = journal.fold(loaded.logs).snapshot().objects
        most[0] = max(most[0], len(files) + len(loaded.logs))
        if time.perf_counter() - began > FIRST_S:
            most[1] = max(most[1], len(files) + len(loaded.logs))


if __name__ == "__main__":
    main()
