"""Every block of Python and every console line in README and docs does what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import run_page

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
SPARK = frozenset({"docs/howto/spark.md"})
"""Pages whose blocks need Spark."""

PAGES = [
    page.relative_to(ROOT).as_posix()
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if page.relative_to(ROOT).parts[:2] != ("docs", "reference")
]
RUN = [
    page
    for page in PAGES
    if any(block.language in ("python", "console") for block in run_page.blocks(ROOT / page))
]


def environment() -> dict[str, str]:
    """For programs that these tests start: this Firn, warnings as errors."""
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONWARNINGS": "error"}


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.spark if page in SPARK else ()) for page in RUN]
)
def test_blocks_run(page, tmp_path):
    env = environment()
    if page in SPARK:
        del env["PYTHONWARNINGS"]  # Spark's own Python warns of itself
    program = Path(__file__).with_name("run_page.py")
    done = subprocess.run(
        [sys.executable, str(program), str(ROOT / page)],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_runs_something():
    languages = [block.language for block in run_page.blocks(ROOT / "README.md")]
    assert set(languages) == {"python", "console"}


def test_a_block_that_fails_is_reported(tmp_path):
    page = tmp_path / "page.md"
    for text, message in [
        ("```python\nassert 1 == 2\n```\n", "page.md"),
        ("```python\n>>> 1 + 1\n3\n```\n", "what it shows"),
        ("```console\n$ false\n```\n", "exit code 1"),
        ("```console\n$ echo two\nthree\n```\n", "expected"),
        ("```console\n$ make no-such-target\n```\n", "exit code 2"),
    ]:
        page.write_text(text)
        work = tmp_path / str(len(list(tmp_path.iterdir())))
        work.mkdir()
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("run_page.py")), str(page)],
            cwd=work,
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode != 0
        assert message in done.stdout + done.stderr
