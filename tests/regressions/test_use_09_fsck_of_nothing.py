"""`firn fsck s3://bucket/typo` said that all is well, and exited with 0."""

from __future__ import annotations

from pathlib import Path

import pytest

import firn
from cli_runs import done, run


@pytest.mark.parametrize("command", ["fsck", "report", "checkpoint"])
@pytest.mark.parametrize("place", ["directory", "memory"])
def test_a_place_where_nothing_of_firns_is_found_is_an_error(
    tmp_path: Path, command: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = str(tmp_path / "typo") if place == "directory" else "memory://use-09/typo"
    (tmp_path / "typo").mkdir()
    (tmp_path / "typo" / "notes.txt").write_text("not a table")
    found = run(command, url)
    assert found.code == 3
    assert "there is no table and no writer in" in found.err
    assert url in found.err
    assert "well" not in found.out
    assert run(command, url, "--json").json["error"]["kind"] == "not_found"
    assert not (tmp_path / "firn-report.html").exists()


def test_an_empty_table_is_something(tmp_path: Path) -> None:
    firn.connect(tmp_path).create_table("t")
    assert "all is well" in done("fsck", tmp_path).out
