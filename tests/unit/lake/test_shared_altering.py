"""Properties of a table that is shared with the reference are changed in its definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest

import firn
from cli_runs import done
from firn.lake.definition.definition import LakeDefinition, read_definition
from firn.lake.write.write import WriteSpec
from firn.testing import LOST_ACK, Call, Fault, Rule, Script
from regressions.test_lake_15_shared_times import made, opened

REFERENCE_LOG = b"""{"v": 1, "sch": 1, "f": 2, "t": 1795224444056}
{"x": "BIGINT"}
{"p": "t/_data/1.parquet", "b": 1323, "t": 1795224441920}"""


@pytest.fixture
def db() -> firn.Database:
    db = firn.connect(f"memory://{uuid4().hex}")
    db.create_table("t", properties={"shared": "icedb", "codec": "gzip"})
    return db


def raw(db: firn.Database) -> dict[str, Any]:
    found = orjson.loads(db.bucket.get("t/_firn/table.json").data)
    assert isinstance(found, dict)
    return found


def test_a_property_is_set_and_taken_back(db: firn.Database) -> None:
    table, stale = db.table("t"), db.table("t")
    table.append([{"x": 1}])
    version = table.snapshot().version
    done = table.alter(set_properties={"codec": "snappy", "retention": "9d", "on_conflict": "error"})
    assert done.changes == ("set codec = snappy", "set retention = 9d", "set on_conflict = error")
    assert done.version == "1" and table.snapshot().version == version
    for handle in (table, db.table("t")):
        assert handle.definition().properties["codec"] == "snappy"
        assert handle.journal.rules.on_conflict == "error"
        assert (
            WriteSpec.of(handle.context, {"x": "BIGINT"}, handle.journal.begin_append().namer).codec
            == "snappy"
        )
    assert stale.definition().properties == {"shared": "icedb", "codec": "gzip"}
    assert stale.alter(set_properties={"codec": "snappy"}) == firn.AlterResult("1", ())
    assert stale.definition().properties["retention"] == "9d"
    assert stale.alter(set_properties={"codec": None, "on_conflict": None}).version == "2"
    assert db.table("t").definition().properties == {"shared": "icedb", "retention": "9d"}


def test_the_log_has_nothing_of_it(db: firn.Database) -> None:
    table = db.table("t")
    table.alter(set_properties={"codec": "snappy", "orphan_age": "2d"})
    for n in (1, 2):
        table.append([{"x": n}])
    table.merge()
    logs = [db.bucket.get(i.key).data for i in db.bucket.list("t/_log/").objects]
    assert not any(b'"definition"' in log or b'"table"' in log or b"snappy" in log for log in logs)
    assert [commit.op for commit in table.history()] == ["append", "append", "merge"]
    assert db.table("t").definition().properties["orphan_age"] == "2d"


def test_what_stands_in_the_definition(db: firn.Database) -> None:
    before = raw(db)
    assert "rev" not in before and "time" not in before
    db.table("t").alter(set_properties={"orphan_age": "2d", "tombstone_grace": "3600s"})
    db.table("t").alter(set_properties={"orphan_age": None})
    found = raw(db)
    times = found.pop("time")
    assert [(name.split()[0], ms) for name, ms in times.items()] == [
        ("orphan_age", 604_800_000),
        ("orphan_age", 172_800_000),
        ("orphan_age", 604_800_000),
    ]
    assert found.pop("rev") == 2
    properties = {"shared": "icedb", "codec": "gzip", "tombstone_grace": "3600s"}
    assert {**found, "crc": 0} == {**before, "properties": properties, "crc": 0}
    again = read_definition(db.bucket, "t")
    assert again is not None and again.encode() == db.bucket.get("t/_firn/table.json").data


def test_a_time_that_is_set_later_has_a_later_time_whatever_the_clocks_say() -> None:
    store = made(orphan_age="7d")
    ahead = store.bucket(skew_ms=50_000)
    opened(store, ahead).alter(set_properties={"orphan_age": "30d"})
    opened(store).alter(set_properties={"orphan_age": "1h"})
    found = read_definition(store.bucket(), "t")
    assert found is not None and list(found.times.values()) == [86_400_000 * 7, 86_400_000 * 30, 3_600_000]
    stamps = [int(name.split()[1]) for name in found.times]
    assert stamps == sorted(stamps) and opened(store).journal.lasting().orphan_age_ms == 86_400_000 * 30


def test_what_cant_be_changed(db: firn.Database) -> None:
    table = db.table("t")
    before = raw(db)
    for bad in (
        {"nonsense": 1},
        {"codec": "rar"},
        {"shared": None},
        {"log_url": "memory://"},
        {"orphan_age": "1s"},
        {"max_skew": "1s"},
        {"retry_window": "1m"},
        {"landing_delay": "1m"},
        {},
    ):
        with pytest.raises(firn.InvalidInputError):
            table.alter(set_properties=bad)
    with pytest.raises(firn.UnsupportedError, match="shared with the reference"):
        table.alter(set_properties={"codec": "snappy"}, types={"x": "VARCHAR"})
    with pytest.raises(firn.UnsupportedError, match="shared with the reference"):
        table.resolve("x")
    assert raw(db) == before
    table.alter(set_properties={"max_skew": "2m"})


def test_a_dry_run_changes_nothing(db: firn.Database) -> None:
    table = db.table("t")
    assert table.alter(set_properties={"codec": "lz4"}, dry_run=True) == firn.AlterResult(
        "0", ("set codec = lz4",)
    )
    assert "rev" not in raw(db) and table.definition().properties["codec"] == "gzip"


def test_requests_of_a_change(db: firn.Database) -> None:
    table = db.table("t")
    for dry_run, puts in ((True, 0), (False, 1)):
        before = table.bucket.counters.as_dict()
        table.alter(set_properties={"codec": "snappy"}, dry_run=dry_run)
        spent = table.bucket.counters.since(before)
        assert {k: v for k, v in spent.items() if k in ("get", "put", "list", "head")} == {
            "get": 1,
            "put": puts,
            "list": 0,
            "head": 0,
        }


class Racing:
    """A plan without faults that runs `work` right before the first put of the definition, or before each."""

    def __init__(self, work: Callable[[], object], *, always: bool = False) -> None:
        self.work, self.left = work, 1000 if always else 1

    def decide(self, call: Call) -> Fault | None:
        if self.left and call.verb == "put_if_match":
            self.left -= 1
            self.work()
        return None


def test_a_lost_race_is_run_again() -> None:
    store = made()
    other = opened(store)
    plan = Racing(lambda: other.alter(set_properties={"codec": "lz4"}))
    table = opened(store, store.bucket(plan=plan))
    assert table.alter(set_properties={"retention": "1d"}).version == "2"
    assert table.definition().properties == {"shared": "icedb", "codec": "lz4", "retention": "1d"}


def test_a_lost_answer_is_settled() -> None:
    store = made()
    table = opened(store, store.bucket(plan=Script(Rule(LOST_ACK, verb="put_if_match"))))
    assert table.alter(set_properties={"retention": "1d"}) == firn.AlterResult("1", ("set retention = 1d",))


def test_who_loses_all_the_time_says_so() -> None:
    store = made()
    other = opened(store)

    change = lambda: other.alter(set_properties={"stats_columns": other.context.created.rev + 1})  # noqa: E731
    table = opened(store, store.bucket(plan=Racing(change, always=True)))
    with pytest.raises(firn.ConflictError, match="all the time; retry"):
        table.alter(set_properties={"retention": "1d"})


def test_a_dropped_table_isnt_altered(db: firn.Database) -> None:
    table = db.table("t")
    db.drop_table("t")
    for again in (None, {"shared": "icedb"}, {}):
        if again is not None:
            db.create_table("t", properties=again)
        with pytest.raises(firn.TableNotFoundError, match="dropped"):
            table.alter(set_properties={"codec": "snappy"})
        if again is not None:
            assert db.table("t").definition().properties == again
            db.drop_table("t")
    db.create_table("t", kind="records")
    with pytest.raises(firn.TableNotFoundError, match="dropped"):
        table.alter(set_properties={"codec": "snappy"})


def test_a_table_that_is_dropped_meanwhile_isnt_altered() -> None:
    store = made()
    definition = store.bucket().get("t/_firn/table.json").data

    def drop() -> None:
        gone = replace(LakeDefinition.decode(definition, "t"), dropped=True)
        store.bucket().put("t/_firn/table.json", gone.encode())

    table = opened(store, store.bucket(plan=Racing(drop)))
    with pytest.raises(firn.TableNotFoundError, match="dropped"):
        table.alter(set_properties={"codec": "snappy"})


def test_an_altered_table_is_dropped_by_a_handle_that_knows_nothing_of_it(db: firn.Database) -> None:
    db.table("t").alter(set_properties={"codec": "snappy"})
    db.drop_table("t")
    assert db.tables() == []
    db.create_table("t", properties={"shared": "icedb"})
    assert "rev" not in raw(db)


def test_a_store_without_conditional_puts_needs_a_lock(tmp_path: Path) -> None:
    options = {"conditional_put": "disabled"}
    db = firn.connect(tmp_path / "db", options=options)
    table = db.create_table("t", properties={"shared": "icedb"})
    with pytest.raises(firn.UnsupportedError, match="exclusive lock"):
        table.alter(set_properties={"codec": "snappy"})
    assert table.alter(set_properties={"codec": "snappy"}, dry_run=True).changes == ("set codec = snappy",)
    locked = firn.connect(tmp_path / "db", options=options, lock=firn.FileLock(tmp_path / "locks")).table("t")
    assert locked.alter(set_properties={"codec": "snappy"}).version == "1"
    assert db.table("t").definition().properties["codec"] == "snappy"


def test_a_table_of_the_references_own_is_defined_first() -> None:
    db = firn.connect(f"memory://{uuid4().hex}")
    db.bucket.put("t/_log/1795224444056_host.jsonl", REFERENCE_LOG)
    table = db.table("t")
    with pytest.raises(firn.UnsupportedError, match="create_table"):
        table.alter(set_properties={"codec": "snappy"})
    with pytest.raises(firn.UnsupportedError, match="shared with the reference"):
        table.alter(types={"x": "VARCHAR"})
    created = db.create_table("t", properties={"orphan_age": "9d"})
    assert created.alter(set_properties={"codec": "snappy"}).version == "1"
    assert len(db.table("t").snapshot().files) == 1


def test_the_shell_changes_them(tmp_path: Path) -> None:
    db = firn.connect(tmp_path)
    db.create_table("t", properties={"shared": "icedb", "codec": "gzip"})
    out = done("alter", tmp_path / "t", "--set", "retention=9d", "--unset", "codec", "--dry-run").out
    assert "unset codec" in out and db.table("t").definition().properties["codec"] == "gzip"
    assert done("alter", tmp_path / "t", "--set", "retention=9d", "--unset", "codec", "--json").json
    assert db.table("t").definition().properties == {"shared": "icedb", "retention": "9d"}


ALTERED = b"""{
  "firn": 1,
  "id": "d333c687244a836ab4c805456b96ba83",
  "name": "t",
  "kind": "lake",
  "journal": "leaderless",
  "columns": {},
  "partition": {
    "id": "",
    "fields": []
  },
  "sort_by": [],
  "properties": {
    "shared": "icedb",
    "orphan_age": "2d"
  },
  "dropped": false,
  "rev": 1,
  "time": {
    "orphan_age 0": 604800000,
    "orphan_age 1767264000000": 172800000
  },
  "crc": 298592313
}"""


def test_what_was_written_stays_readable() -> None:
    """An altered definition as it is in stores; the fields that version 0.1 reads, of format 1, are all there."""
    found = LakeDefinition.decode(ALTERED, "t")
    assert (found.rev, found.properties["orphan_age"]) == (1, "2d")
    assert found.times == {"orphan_age 0": 604_800_000, "orphan_age 1767264000000": 172_800_000}
    assert found.encode() == ALTERED
    assert replace(found, rev=0, times={}).fields().keys() == orjson.loads(ALTERED).keys() - {
        "rev",
        "time",
        "crc",
    }


def test_bloom_filters_are_of_columns_that_there_are(db: firn.Database) -> None:
    table = db.table("t")
    table.append([{"x": 1, "y": "a"}])
    before = raw(db)
    for dry_run in (True, False):
        with pytest.raises(
            firn.InvalidInputError, match=r"bloom_filters names 'z', which is no column: x, y\."
        ):
            table.alter(set_properties={"bloom_filters": "X, z"}, dry_run=dry_run)
    assert raw(db) == before
    table.alter(set_properties={"bloom_filters": "X"})
    assert table.definition().properties["bloom_filters"] == ["x"]
    assert table.alter(set_properties={"bloom_filters": ["x"]}).changes == ()
    table.alter(set_properties={"bloom_filters": "auto"})
