"""The programs of examples/ run to their end; each checks itself as it goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from children import run_python

EXAMPLES = Path(__file__).parents[2] / "examples"
SPARK = frozenset({"streaming.py"})


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.name, marks=pytest.mark.spark if path.name in SPARK else ())
        for path in sorted(EXAMPLES.glob("*.py"))
    ],
)
def test_it_runs(name, tmp_path):
    done = run_python(str(EXAMPLES / name), cwd=tmp_path, spark=name in SPARK)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    assert list(tmp_path.iterdir()) == []  # whatever it wrote was its own, and is gone
