"""The programs of examples/ run to their end; each checks itself as it goes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from test_pages import environment

EXAMPLES = Path(__file__).parents[2] / "examples"
SPARK = frozenset({"streaming.py"})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.name, marks=pytest.mark.spark if path.name in SPARK else ())
        for path in sorted(EXAMPLES.glob("*.py"))
    ],
)
def test_it_runs(name, tmp_path):
    env = environment()
    if name in SPARK:
        del env["PYTHONWARNINGS"]  # Spark's own Python warns of itself
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()
    assert list(tmp_path.iterdir()) == []  # whatever it wrote was its own, and is gone
