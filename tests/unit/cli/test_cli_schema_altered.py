"""`firn schema` of a table that was altered."""

from __future__ import annotations

import json
from pathlib import Path

import firn
from cli_runs import done


def test_what_was_altered_is_shown_where_there_is_any(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("t", schema={"a": "BIGINT"})
    assert done("schema", str(tmp_path / "t")).out.splitlines()[0].split() == ["column", "type"]
    table.alter(
        rename={"a": "n"},
        add={"c": ("BIGINT", 3)},
        comments={"n": "a number"},
        checks={"sane": "n > 0"},
        comment="all",
    )
    shown = done("schema", str(tmp_path / "t")).out
    assert shown.splitlines()[0].split() == ["column", "type", "default", "in", "files", "comment"]
    assert 'check sane: "n" > 0' in shown and "comment: all" in shown
    found = json.loads(done("schema", str(tmp_path / "t"), "--json").out)
    assert found["columns"] == [
        {"name": "n", "type": "BIGINT", "physical": "a", "comment": "a number"},
        {"name": "c", "type": "BIGINT", "default": "3"},
    ]
