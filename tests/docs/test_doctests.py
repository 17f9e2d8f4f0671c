"""The examples in docstrings do what they show."""

from __future__ import annotations

from pathlib import Path

import pytest
import run_doctests
from children import run_python

SOURCE = Path(__file__).parents[2] / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text("utf-8")
)
SPARK = [name for name in MODULES if name.startswith(("firn.spark", "pyspark_firn"))]


@pytest.mark.parametrize("name", [name for name in MODULES if name not in SPARK])
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run_doctests.run(name)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.spark
def test_examples_on_spark(tmp_path):
    # In a process of its own: the session that they start would serve the other tests, too.
    program = Path(__file__).with_name("run_doctests.py")
    done = run_python(str(program), *SPARK, cwd=tmp_path, spark=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_verbs_that_users_meet_have_examples():
    assert {"firn.database.database", "firn.lake.table", "firn.lake.read.scan", "firn.journal.lock"} <= set(
        MODULES
    )
