"""Batches that were closed short are completed, and another length is told apart, by what was written once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from make_golden_catalogs import connect
from make_golden_counted import FIRST, GOLDEN, KINDS, ROWS, append

from firn.clock import SystemClock
from firn.errors import AppenderError

WRITTEN_MS = 1_795_701_702_000


@pytest.mark.parametrize("name", KINDS)
def test_a_source_that_has_grown_is_completed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "catalog":  # a catalog forgets batches that are 30 days older than its last commit
        monkeypatch.setattr(SystemClock, "now_ms", lambda self: WRITTEN_MS + 86_400_000)
    table = connect(Path(shutil.copytree(GOLDEN, tmp_path / "db")), "ann").table(name, kind="lake")
    assert append(table, FIRST) == FIRST
    with pytest.raises(AppenderError) as failed:
        append(table, FIRST, ROWS + 1)
    assert f"rows={ROWS}" in str(failed.value.__cause__)
    assert append(table, FIRST + 1) == FIRST + 1
    assert append(table, FIRST + 9) == FIRST + 9
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [*range(FIRST + 9)]
