"""Every block of Python and every console line in README and docs does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest
import run_page
from children import run_python

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("run_page.py")
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


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.spark if page in SPARK else ()) for page in RUN]
)
def test_blocks_run(page, tmp_path):
    done = run_python(str(PROGRAM), str(ROOT / page), cwd=tmp_path, spark=page in SPARK)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readme_runs_something():
    languages = [block.language for block in run_page.blocks(ROOT / "README.md")]
    assert {"python", "console"} <= set(languages)


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
        done = run_python(str(PROGRAM), str(page), cwd=work)
        assert done.returncode != 0
        assert message in done.stdout + done.stderr
