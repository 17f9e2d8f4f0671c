"""Where a database's work runs."""

from __future__ import annotations

import pytest

import firn
from firn.database import engines as module
from firn.database.engines import SPARK_FROM_BYTES
from firn.runner import LocalRunner


@pytest.fixture
def started(monkeypatch):
    """The sessions that were asked for; none is active, and none is really started."""
    sessions = []
    monkeypatch.setattr(module, "_active_session", lambda: None)
    monkeypatch.setattr(module.DatabaseEngines, "session", lambda self: sessions.append("new") or "new")
    monkeypatch.setattr("firn.spark.session.runner.SparkRunner", lambda spark: ("on", spark))
    return sessions


@pytest.mark.parametrize("kind", ["keyed", "lake"])
def test_small_work_runs_in_this_process_and_large_work_starts_spark(tmp_path, started, kind):
    table = firn.connect(tmp_path).create_table("t", kind=kind)
    engines = getattr(table, "context", table).engines
    assert isinstance(engines.runner(SPARK_FROM_BYTES), LocalRunner) and started == []
    assert engines.runner(SPARK_FROM_BYTES + 1) == ("on", "new") and started == ["new"]


def test_a_session_that_is_there_runs_small_work_too(tmp_path, started, monkeypatch):
    db = firn.connect(tmp_path)
    monkeypatch.setattr(module, "_active_session", lambda: "theirs")
    assert db.create_table("t", kind="keyed").engines.runner(1) == ("on", "theirs")
    assert started == []


def test_tasks_of_a_store_in_memory_stay_in_its_process(started):
    engines = firn.connect("memory://").create_table("t", kind="keyed").engines
    assert isinstance(engines.runner(SPARK_FROM_BYTES + 1), LocalRunner) and started == []


def test_a_runner_that_was_given_is_taken(tmp_path, started):
    given = LocalRunner(threads=1)
    assert (
        firn.connect(tmp_path, runner=given).create_table("t", kind="keyed").engines.runner(1 << 40) is given
    )
