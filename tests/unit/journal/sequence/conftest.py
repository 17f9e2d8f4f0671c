from __future__ import annotations

import pytest

from sequence_logs import Database


@pytest.fixture
def db() -> Database:
    return Database()
