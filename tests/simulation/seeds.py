"""Which seeds a simulation runs: as few as a test run has time for, or as many as are asked for.

`FIRN_SEEDS` is their number for each simulation, `FIRN_FIRST_SEED` the first one; `FIRN_SECONDS` ends a soak, or
`FIRN_TRANSACTIONS` that of record tables.
"""

from __future__ import annotations

import math
import os


def first_seed() -> int:
    return int(os.environ.get("FIRN_FIRST_SEED", "0"))


def seeds(default: int) -> range:
    """`default` seeds in a normal test run."""
    return range(first_seed(), first_seed() + int(os.environ.get("FIRN_SEEDS", default)))


def soak_seeds() -> range:
    """Those of a soak: more than there is time for, where its transactions are counted."""
    return seeds(1000 if soak_transactions() == math.inf else 1_000_000)


def soak_seconds() -> float:
    return float(os.environ.get("FIRN_SECONDS", "600" if soak_transactions() == math.inf else "inf"))


def soak_transactions() -> float:
    return float(os.environ.get("FIRN_TRANSACTIONS", "inf"))
