"""Simulate for as long as you like: seed after seed, each through every shape, until time or seeds run out.

    python -m tests.simulation.soak --minutes 60 --first-seed 100000 [--shape mixed --shape calm]

A failure prints its shape and seed, and the soak goes on; the exit code says whether there was any.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

from firn.testing import SimulationFailure  # noqa: E402
from simulation.leaderless_world import build  # noqa: E402
from simulation.shapes import SHAPES  # noqa: E402

PROGRESS_EVERY_S = 30.0


def soak(seeds: Iterable[int], shapes: Sequence[str], *, seconds: float) -> list[str]:
    """Run until `seconds` have passed or `seeds` are through; the failures, as text."""
    began = reported = time.monotonic()
    failures: list[str] = []
    happened: Counter[str] = Counter()
    worlds = calls = 0
    for seed in seeds:
        for name in shapes:
            world = build(seed, SHAPES[name])
            try:
                world.run()
            except SimulationFailure as failure:
                failures.append(f"shape {name}, seed {seed}: {failure}")
                print(failures[-1], flush=True)
            worlds += 1
            calls += len(world.trace)
            happened += world.model.happened  # type: ignore[attr-defined]
        now = time.monotonic()
        if now - reported >= PROGRESS_EVERY_S or now - began >= seconds:
            reported = now
            counts = ", ".join(f"{n:,} {what}" for what, n in happened.most_common())
            print(f"{now - began:,.0f} s: seed {seed}, {worlds:,} worlds, {calls:,} calls, ", end="")
            print(f"{len(failures)} failures; {counts}", flush=True)
        if now - began >= seconds:
            break
    return failures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1_000_000_000)
    parser.add_argument(
        "--shape", action="append", choices=list(SHAPES), help="only this one; may be repeated"
    )
    chosen = parser.parse_args(arguments)
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    return bool(soak(seeds, chosen.shape or list(SHAPES), seconds=60 * chosen.minutes))


if __name__ == "__main__":
    sys.exit(main())
