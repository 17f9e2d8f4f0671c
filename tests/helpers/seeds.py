"""Seeds of random tests: a few for `make test`, the others for `make test-long`."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(count: int, *, short: int, first: int = 0) -> list[Any]:
    """So many seeds, of which all but `short` take too long for each run."""
    return [
        seed if number < short else pytest.param(seed, marks=pytest.mark.long)
        for number, seed in enumerate(range(first, first + count))
    ]
