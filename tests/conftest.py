"""For all suites: no test measures time, Hypothesis included; a busy machine would fail it. And the machine is in a
zone of its own: what Firn says about times mustn't depend on that."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

import firn
from firn.degraded import forget_warnings
from firn.lake.definition import definition

# Before any library reads it, as ICU does once a process. An offset of half an hour, and summer time.
os.environ["TZ"] = os.environ.get("FIRN_TEST_ZONE", "America/St_Johns")
time.tzset()

settings.register_profile("firn", deadline=None)
settings.load_profile("firn")

SPARK = Path(__file__).parent / "spark"

NEW_TABLES = dict(definition.NEW_TABLES)
# Most tests count files, logs and requests: their tables have rows in logs, and a keeper, if they ask for these. The
# documentation's examples, programs, and tests that are marked `new_tables` have what users have.
definition.NEW_TABLES.clear()


@pytest.fixture(autouse=True)
def new_tables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `create_table` adds by itself, for tests that are marked so."""
    if request.node.get_closest_marker("new_tables") is not None:
        monkeypatch.setattr(definition, "NEW_TABLES", NEW_TABLES)


@pytest.fixture(autouse=True)
def warnings_are_said_again() -> None:
    """A warning that comes once a process comes in each test that earns it."""
    forget_warnings()


@pytest.fixture(autouse=True)
def no_session_of_others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests outside of tests/spark run without Spark, also in a process that has run those inside."""
    if SPARK not in request.path.parents:
        monkeypatch.setattr("firn.database.engines._active_session", lambda: None)


@pytest.fixture
def db() -> firn.Database:
    """A new database in memory, of this test alone."""
    return firn.connect("memory://")


@pytest.fixture(params=["leaderless", "writer"])
def lake(request: pytest.FixtureRequest) -> object:
    """A new lake in memory, over each journal."""
    from lake_journals import LAKES

    return LAKES[request.param]()


@pytest.fixture
def connect(tmp_path: Path) -> Callable[..., firn.Database]:
    """Open the same database in a directory, as a writer or as a reader."""
    return lambda writer=None, **more: firn.connect(tmp_path / "prod", writer=writer, **more)
