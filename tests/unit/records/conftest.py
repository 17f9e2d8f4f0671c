from __future__ import annotations

from collections.abc import Iterator

import pytest

from record_stores import Database
from record_twins import Twins, twins_of


@pytest.fixture
def db() -> Database:
    return Database()


@pytest.fixture(params=["sync", "asyncio"])
def twins(request: pytest.FixtureRequest) -> Iterator[Twins]:
    """What makes handles of a test: themselves, or their asyncio twins, whose verbs wait."""
    with twins_of(request.param) as found:
        yield found
