"""For all suites: no test measures time, Hypothesis included; a busy machine would fail it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from firn.degraded import forget_warnings

settings.register_profile("firn", deadline=None)
settings.load_profile("firn")

SPARK = Path(__file__).parent / "spark"


@pytest.fixture(autouse=True)
def warnings_are_said_again() -> None:
    """A warning that comes once a process comes in each test that earns it."""
    forget_warnings()


@pytest.fixture(autouse=True)
def no_session_of_others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests outside of tests/spark run without Spark, also in a process that has run those inside."""
    if SPARK not in request.path.parents:
        monkeypatch.setattr("firn.engines._active_session", lambda: None)
