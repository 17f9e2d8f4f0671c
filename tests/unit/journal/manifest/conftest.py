from __future__ import annotations

import pytest

from manifest_tables import Table


@pytest.fixture
def table() -> Table:
    return Table()
