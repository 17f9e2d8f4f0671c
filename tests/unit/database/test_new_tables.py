"""What a new table has that nobody asked for: rows of small appends in its log, and a keeper."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import firn
from cli_runs import done

pytestmark = pytest.mark.new_tables


def test_a_new_table_keeps_itself_small(db: firn.Database) -> None:
    table = db.create_table("t", properties={"retention": "90d"})
    assert table.context.definition.properties == {"inline": "64KB", "maintain": "auto", "retention": "90d"}
    raw = orjson.loads(db.bucket.get("t/_firn/table.json").data)
    assert (raw["firn"], raw["features"]) == (5, ["window"])
    before = db.bucket.counters.as_dict()
    table.append([{"n": 1}])
    table.append([{"n": 2}])
    after = db.bucket.counters.as_dict()
    assert after["put"] - before["put"] == 3  # the first looks at the store's clock
    assert not table.snapshot().objects
    assert sorted(table.scan().to_arrow()["n"].to_pylist()) == [1, 2]


def test_who_wants_neither_has_the_table_of_before(db: firn.Database) -> None:
    db.create_table("t", properties={"inline": 0, "maintain": "none"})
    assert orjson.loads(db.bucket.get("t/_firn/table.json").data)["firn"] == 1


def test_a_shared_table_has_neither(db: firn.Database) -> None:
    table = db.create_table("t", properties={"shared": "icedb"})
    assert table.context.definition.properties == {"shared": "icedb"}
    assert orjson.loads(db.bucket.get("t/_firn/table.json").data)["firn"] == 1


def test_tables_of_before_stay_as_they_are(db: firn.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.lake.definition.definition.NEW_TABLES", {})
    db.create_table("t")
    monkeypatch.undo()
    table = db.table("t")
    assert isinstance(table, firn.LakeTable)
    table.append([{"n": 1}])
    assert len(table.snapshot().objects) == 1


def test_a_grace_that_is_too_short_for_readers_is_told(
    db: firn.Database, caplog: pytest.LogCaptureFixture
) -> None:
    db.create_table("long", properties={"tombstone_grace": "12m"})
    assert not caplog.messages
    db.create_table("short", properties={"tombstone_grace": "11m"})
    assert caplog.messages[0].startswith("short: a tombstone_grace of 660 s is too short")
    db.create_table("files", properties={"tombstone_grace": "1m", "inline": 0, "maintain": "none"})
    assert len(caplog.messages) == 1


def test_the_shell_says_that_no_file_was_written(tmp_path: Path) -> None:
    done("create", tmp_path / "prod" / "t", "--column", "n=BIGINT")
    told = done("append", tmp_path / "prod" / "t", stdin='{"n": 1}')
    assert "appended 1 row to t without a file, " in told.out
