"""Run the doctests of modules: `python run_doctests.py MODULE…`. Fails if one fails, or none is found."""

from __future__ import annotations

import doctest
import importlib
import sys

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(name: str) -> doctest.TestResults:
    return doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)


if __name__ == "__main__":
    results = [run(name) for name in sys.argv[1:]]
    sys.exit(any(r.failed for r in results) or not any(r.attempted for r in results))
