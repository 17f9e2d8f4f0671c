"""A keyed table at full write speed for some minutes: resident memory, and how long a put that isn't durable waits.

One process puts values of a kilobyte that don't shrink, as fast as it can, in a directory, with its own compaction,
or beside another process that compacts the whole table again and again. It samples its own resident memory, and
measures each put. The bound is the one that docs/howto/keyed.md states: `memtable_size` + `max_unflushed` +
`block_cache` + 400 MB. Then scans of tables whose rows are in more and more runs, each in a process of its own, tell
how much memory a scan takes beyond what the table took when it was opened.

Stop it early with --seconds; ten minutes are what shows a plateau.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.figures import FIRN, ROOT, Figures, arguments, finish

VALUE_BYTES = 1_000
KEYS = 4_000_000
SMALL = {"memtable_size": "8MB", "max_unflushed": "32MB", "block_cache": "8MB"}
SIZES: dict[str, dict[str, Any]] = {"small": SMALL, "defaults": {}}
BOUND_MB = {"small": 8 + 32 + 8 + 400, "defaults": 64 + 256 + 128 + 400}
MB = 1 << 20


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=600.0, help="of each run of puts")
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--beside", nargs="+", default=["own", "foreign"], choices=["own", "foreign"])
    parser.add_argument("--runs", type=int, nargs="*", default=[1, 8, 64, 256])
    parser.add_argument("--mb", type=int, default=512, help="what is scanned")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child is not None:
        print(json.dumps(CHILDREN[options.child[0]](*options.child[1:])))
        return Figures("keyed_speed", {})
    figures = Figures("keyed_speed", {k: v for k, v in vars(options).items() if k not in ("out", "child")})
    for sizes in options.sizes:
        for beside in options.beside:
            with tempfile.TemporaryDirectory() as root:
                found = child("put", str(Path(root) / "db"), sizes, beside, str(options.seconds))
            name = f"puts, {sizes}, {beside} compaction"
            figures.record(name, FIRN, None, **found)
            figures.target(f"{name}: longest wait, s", found["longest_s"], at_most=1.0)
            figures.target(f"{name}: memory, MB", found["peak_mb"], at_most=BOUND_MB[sizes])
    for runs in options.runs:
        with tempfile.TemporaryDirectory() as root:
            child("fill", str(Path(root) / "db"), str(runs), str(options.mb))
            found = child("scan", str(Path(root) / "db"))
        figures.record(f"scan of {options.mb} MB in {runs} runs", FIRN, None, **found)
    figures.notes.append(
        "Memory is resident, sampled 20 times a second; the last quarter's peak shows a plateau."
    )
    finish(figures, options.out)
    return figures


def child(*arguments: str) -> dict[str, Any]:
    """What a process of its own measured."""
    command = [sys.executable, "-m", "bench.keyed_speed", "--child", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# -- in the child


class Resident:
    """Samples this process's resident memory while the block runs."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, int]] = []
        self._end = threading.Event()
        self._me = psutil.Process()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Resident:
        self.before_mb = self._me.memory_info().rss // MB
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(0.05):
            self.samples.append((time.monotonic(), self._me.memory_info().rss // MB))

    def peak_mb(self, share: float = 1.0) -> int:
        """Of the last share of the time."""
        taken = self.samples[-max(1, int(share * len(self.samples))) :]
        return max((mb for _, mb in taken), default=self.before_mb)


def put(url: str, sizes: str, beside: str, seconds: str) -> dict[str, Any]:
    import firn

    table = firn.connect(url).create_table("t", kind="keyed", properties=SIZES[sizes])
    command = [
        sys.executable,
        "-m",
        "bench.keyed_speed",
        "--child",
        "compact" if beside == "foreign" else "sweep",
    ]
    other = subprocess.Popen([*command, url], cwd=ROOT, stdout=subprocess.DEVNULL)
    noise = random.Random(7).randbytes(1 << 20)
    choose = random.Random(8).randrange
    longest, count, late = 0.0, 0, 0
    try:
        with Resident() as resident, table.open() as kv:
            clock, write = time.perf_counter, kv.put
            began = clock()
            end = began + float(seconds)
            now = began
            while now < end:
                at = choose(len(noise) - VALUE_BYTES)
                write(b"%016d" % choose(KEYS), noise[at : at + VALUE_BYTES], durable=False)
                then, now = now, clock()
                late += now - then > 0.1
                longest = max(longest, now - then)
                count += 1
            stats = kv.stats()
    finally:
        other.terminate()
        other.wait()
    return {
        "mb_s": round(count * VALUE_BYTES / MB / (now - began), 1),
        "longest_s": round(longest, 3),
        "over_100_ms": late,
        "peak_mb": resident.peak_mb(),
        "last_quarter_mb": resident.peak_mb(0.25),
        "l0": stats.l0,
        "compactions": stats.compactions,
        "stalls": stats.stalls,
    }


def compact(url: str) -> dict[str, Any]:
    import firn
    from firn.errors import FirnError
    from firn.runner import LocalRunner

    db = firn.connect(url)
    while True:
        try:
            db.table("t", kind="keyed").compact(full=True, runner=LocalRunner(1))
            db.table("t", kind="keyed").sweep(older_than="0s")
        except FirnError:
            time.sleep(0.5)  # the writer's own compaction took over


def sweep(url: str) -> dict[str, Any]:
    """So that the disk doesn't fill up."""
    import firn

    while True:
        time.sleep(10)
        firn.connect(url).table("t", kind="keyed").sweep(older_than="0s")


def fill(url: str, runs: str, mb: str) -> dict[str, Any]:
    import firn

    table = firn.connect(url).create_table("t", kind="keyed")
    noise = random.Random(7)
    rows = int(mb) * MB // VALUE_BYTES
    with table.open(compaction=False) as kv:
        for run in range(int(runs)):
            for n in range(run, rows, int(runs)):
                kv.put(b"%016d" % n, noise.randbytes(VALUE_BYTES), durable=False)
                if int(runs) == 1 and n % 50_000 == 0:
                    kv.flush()
            kv.flush()
    if int(runs) == 1:
        table.compact(full=True)
    return {}


def scan(url: str) -> dict[str, Any]:
    import firn

    table = firn.connect(url).table("t", kind="keyed")
    with table.reader() as reader:
        reader.get(b"none")  # the indices of L0 are here, as for any read
        with Resident() as resident:
            began = time.perf_counter()
            rows = sum(batch.num_rows for batch in reader.scan().to_batches())
            took = time.perf_counter() - began
    return {
        "runs": len(table.view().l0) or 1,
        "rows": rows,
        "mb_s": round(rows * VALUE_BYTES / MB / took, 1),
        "more_mb": resident.peak_mb() - resident.before_mb,
    }


CHILDREN: dict[str, Any] = {"put": put, "compact": compact, "sweep": sweep, "fill": fill, "scan": scan}


if __name__ == "__main__":
    main()
