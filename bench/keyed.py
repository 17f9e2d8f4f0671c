"""Keyed tables beside SlateDB's Python package: puts, gets, scans and compaction, in memory and in a directory.

Keys of 16 bytes, values of 100. Each round of each engine is a process of its own, A B A B, so that nobody finds the
other's memory; it tells its peak. Times of single operations are medians; SlateDB is driven from asyncio, as by its
users.

Both flush eight shares of random keys, each when it is told, so that a flush sorts and encodes one memtable of an
eighth of the keys into one object; what it says is their median. SlateDB has its log of writes beside that, which was
put up while batches came. Both then compact these eight objects, each with keys from end to end, into one sorted run,
with as many threads as they like; what goes in and out is told beside the time. By their defaults, SlateDB compresses
nothing and has blocks of 4 KiB; Firn compresses what shrinks, here the keys, has blocks of 128 KiB, checksums of
blocks and of Parquet's pages, and syncs files to the disk. Firn's time is that of
`compact(full=True)`: it takes the compactor's epoch, and commits. SlateDB can't be told to compact: its time is from
the opening of a database with a compactor until its manifest has no more level 0; polls are set to 10 ms.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.__main__ import environment
from bench.figures import FIRN, ROOT, Figures, arguments, finish, rotated
from bench.keyed_engines import ENGINES

SLATE = "slatedb"
VALUE_BYTES = 100
BATCH = 1_000
FLUSHES = 8
"""What SlateDB's scheduler compacts at once."""

WORK = (
    "put",
    "batch put",
    "memtable get",
    "durable put",
    "flush",
    "compact",
    "warm get, hit",
    "warm get, miss",
    "cold get",
    "scan",
)


def main(argv: Sequence[str] | None = None) -> Figures:
    parser = arguments(__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument(
        "--stores", nargs="+", default=["memory", "directory"], choices=["memory", "directory"]
    )
    parser.add_argument("--samples", type=int, default=5_000, help="operations that are timed one by one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=3, metavar=("ENGINE", "URL", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.child is not None:
        engine, url, seed = options.child
        print(json.dumps(measure(engine, url, options.keys[0], options.samples, int(seed))))
        return Figures("keyed", {})
    figures = Figures("keyed", {k: v for k, v in vars(options).items() if k not in ("out", "child")})
    engines = [FIRN] if options.no_peers else [FIRN, SLATE]
    for store in options.stores:
        for keys in options.keys:
            for number in range(options.rounds):
                for engine in rotated(engines, number):
                    record(
                        figures, store, keys, engine, in_child(engine, store, keys, options.samples, number)
                    )
            targets(figures, store, keys)
    figures.notes += [
        "Seconds are of one operation: one key, of a scan one row, of a compaction all of it.",
        "A cold get finds the indices in memory and no block. SlateDB's compaction includes its polls, of 10 ms.",
        "Firn syncs every object to disk. Its durable put is flushed at once; SlateDB's waits for its 100 ms.",
    ]
    finish(figures, options.out)
    return figures


def in_child(engine: str, store: str, keys: int, samples: int, seed: int) -> dict[str, Any]:
    """What one process measured."""
    with tempfile.TemporaryDirectory() as root:
        url = "memory://" if store == "memory" else str(Path(root) / "db")
        command = [sys.executable, "-m", "bench.keyed", "--keys", str(keys), "--samples", str(samples)]
        done = subprocess.run(
            [*command, "--child", engine, url, str(seed)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE,
            check=True, text=True,
        )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def record(figures: Figures, store: str, keys: int, engine: str, found: dict[str, Any]) -> None:
    facts = found.pop("facts")
    for work, seconds in found.items():
        figures.record(
            title(store, keys, work), engine, seconds, us=round(seconds * 1e6, 1), **facts.get(work, {})
        )
    figures.record(title(store, keys, "whole run"), engine, None, **facts["run"])


def title(store: str, keys: int, work: str) -> str:
    return f"{store}, {keys:,} keys: {work}"


def targets(figures: Figures, store: str, keys: int) -> None:
    bounds = {
        "put": 10,
        "batch put": 10,
        "memtable get": 10,
        "warm get, hit": 5,
        "warm get, miss": 5,
        "scan": 10,
        "cold get": 1,
    }
    if keys >= 1_000_000:
        bounds["compact"] = 2
    for work, bound in bounds.items():
        name = title(store, keys, work)
        figures.target(f"{name}, SlateDB's time × Firn's", figures.ratio(name, SLATE), at_least=bound)


# -- in the child


def measure(name: str, url: str, keys: int, samples: int, seed: int) -> dict[str, Any]:
    """One engine's round: seconds by what was done, and facts."""
    rng = random.Random(seed)
    everything = pairs(keys, rng)
    rng.shuffle(everything)
    chosen = everything[: min(samples, keys)]
    there = [key for key, _ in rng.sample(chosen, len(chosen))]
    absent = [key[:-1] + b"x" for key in there]  # between keys that are there
    found: dict[str, Any] = {}
    facts: dict[str, dict[str, Any]] = {}

    # What is measured in the memtable has a table of its own, which nothing is flushed from.
    memory = ENGINES[name]("memory://")
    memory.open(flush=False)
    found["put"] = median(memory.put_each(chosen))
    found["batch put"] = memory.put_batches(everything, BATCH) / keys
    found["memtable get"] = median(memory.get_each(there, there=True))
    memory.close()

    engine = ENGINES[name](url)
    engine.open()
    found["durable put"] = median(engine.put_durable(chosen[:5]))
    began = engine.requests()
    share, flushes = -(-keys // FLUSHES), []
    for start in range(0, keys, share):  # each of random keys
        engine.put_batches(everything[start : start + share], BATCH)
        flushes.append(engine.flush())
    found["flush"] = statistics.median(flushes)
    facts["flush"] = since(began, engine.requests())
    found["compact"], facts["compact"] = engine.compact()
    engine.get_each(there, there=True)
    found["warm get, hit"] = median(engine.get_each(there, there=True))
    found["warm get, miss"] = median(engine.get_each(absent, there=False))
    engine.forget()
    began = engine.requests()
    apart = [key for key, _ in rng.sample(everything, min(200, keys))]
    found["cold get"] = median(engine.get_each(apart, there=True))
    spent = since(began, engine.requests())
    facts["cold get"] = {"gets_a_key": round(spent.get("get", 0) / len(apart), 2)} if began else {}
    engine.scan()
    seconds, rows = engine.scan()
    assert rows == keys, (rows, keys)
    found["scan"] = seconds / rows
    engine.close()
    facts["run"] = {"peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)}
    return {**found, "facts": facts}


def pairs(keys: int, rng: random.Random) -> list[tuple[bytes, bytes]]:
    return [(b"%016d" % (7 * n), rng.randbytes(VALUE_BYTES)) for n in range(keys)]


def since(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {verb: after[verb] - before.get(verb, 0) for verb in after if after[verb] != before.get(verb, 0)}


def median(seconds: Iterable[float]) -> float:
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
