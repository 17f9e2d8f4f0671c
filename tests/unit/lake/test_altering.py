"""What changes a table's definition: alter and resolve, on both journals."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest

import firn
from firn.journal.entries import Entries
from firn.journal.leaderless.format.settings import LeaderlessSettings
from firn.lake.table import LakeTable
from firn.lake.write.write import WriteSpec
from moments import append_late

Open = Callable[[], LakeTable]


@pytest.fixture(autouse=True)
def conflicts_are_quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", firn.DegradedReadWarning)
        yield


@pytest.fixture(params=["leaderless", "writer"])
def opens(request: pytest.FixtureRequest) -> Open:
    """Opens a table of each journal, as another process does."""
    url = f"memory://{uuid4().hex}"
    number = iter(range(100))
    connect = lambda: firn.connect(url, writer=f"w{next(number):02}")  # noqa: E731
    connect().create_table("t", journal=request.param)
    return lambda: connect().table("t")


def rows(table: LakeTable, **scan: Any) -> list[dict[str, Any]]:
    found = table.scan(**scan).to_arrow().to_pylist()
    return sorted(({k: v for k, v in row.items() if v is not None} for row in found), key=str)


def conflicting(opens: Open) -> LakeTable:
    one, other = opens(), opens()
    one.journal.known()
    other.journal.known()
    one.append([{"x": n} for n in (1, 2)])
    append_late(other, [{"x": 2.5}])
    return one


def test_a_property_is_set_and_taken_back(opens: Open) -> None:
    table = opens()
    table.append([{"x": 1}])
    before = table.snapshot().version
    done = table.alter(set_properties={"codec": "snappy", "retention": "9d"})
    assert done.changes == ("set codec = snappy", "set retention = 9d")
    assert table.snapshot().version != before
    assert opens().definition().properties == {"codec": "snappy", "retention": "9d"}
    other = opens()
    other.append([{"x": 2}])
    assert WriteSpec.of(other.context, {"x": "BIGINT"}, other.journal.begin_append().namer).codec == "snappy"
    again = other.alter(set_properties={"codec": "snappy"})
    assert again.changes == () and again.version == other.snapshot().version
    assert other.alter(set_properties={"codec": None}).changes == ("unset codec",)
    assert other.definition().properties == {"retention": "9d"}
    assert other.definition(before).properties == {}
    assert [c.op for c in other.history() if c.op == "alter"] == ["alter", "alter"]


def test_a_change_survives_merges_sweeps_and_other_writers(opens: Open) -> None:
    table = opens()
    for n in range(3):
        table.append([{"x": n}])
    table.alter(set_properties={"codec": "snappy"})
    opens().append([{"x": 3}])
    table.merge()
    table.sweep(older_than="0s", orphans="0s")
    table.append([{"x": 4}])
    table.merge()
    table.sweep(older_than="0s", orphans="0s")
    assert opens().definition().properties == {"codec": "snappy"}
    assert [row["x"] for row in rows(opens())] == [0, 1, 2, 3, 4]


def test_two_changes_that_dont_know_of_each_other_both_count(opens: Open) -> None:
    one, other = opens(), opens()
    one.journal.known()
    other.journal.known()
    one.alter(set_properties={"codec": "snappy"})
    other.alter(set_properties={"retention": "1d"})
    assert opens().definition().properties == {"codec": "snappy", "retention": "1d"}


def test_an_open_handle_goes_by_a_change_after_its_next_look(opens: Open) -> None:
    stale = opens()
    stale.append([{"x": 1}])
    opens().alter(set_properties={"target_size": "1MB", "on_conflict": "error"})
    stale.snapshot()
    assert (
        stale.context.definition.target_size == 1 << 20
        and stale.context.definition.setting("on_conflict") == "error"
    )


def test_what_cant_be_changed(opens: Open) -> None:
    table = opens()
    table.append([{"x": 1}])
    for bad in (
        {"set_properties": {"nonsense": 1}},
        {"set_properties": {"codec": "rar"}},
        {"set_properties": {"shared": "icedb"}},
        {"set_properties": {"log_url": None}},
        {"set_properties": {"nonsense": None}},
        {"types": {"y": "DOUBLE"}},
        {"types": {"x": "DATE"}},
        {"types": {"x": "NO TYPE ("}},
        {},
    ):
        with pytest.raises(firn.InvalidInputError):
            table.alter(**bad)
    assert table.definition().properties == {}
    assert table.alter(set_properties={"codec": "snappy"}, dry_run=True).changes == ("set codec = snappy",)
    assert table.definition().properties == {}


def test_conflicts_are_resolved_by_one_type(opens: Open) -> None:
    table = conflicting(opens)
    (found,) = table.conflicts()
    assert (found.column, found.type, found.aside, found.common_type) == ("x", "DOUBLE", "x~double", "DOUBLE")
    assert len(found.files) == 1
    assert table.resolve("x").changes[0] == "type of x: DOUBLE"
    for reader in (table, opens()):
        assert rows(reader) == [{"x": 1.0}, {"x": 2.0}, {"x": 2.5}] and not reader.conflicts()
        assert rows(reader, where="x > 1.5") == [{"x": 2.0}, {"x": 2.5}]
    opens().append([{"x": 7}])
    assert rows(opens(), where="x = 7") == [{"x": 7.0}]


def test_merges_set_no_column_of_values_that_were_set_aside(opens: Open) -> None:
    table = conflicting(opens)
    before = rows(table)
    with pytest.raises(firn.InvalidInputError, match="x~double"):
        table.merge_into([{"x": 1}], on=["x"], when_matched={"x~double": "9.5"})
    assert rows(table) == before
    done = table.merge_into([{"x": 1}, {"x": 8}], on=["x"], when_matched="update", when_not_matched="insert")
    assert (done.rows_updated, done.rows_inserted) == (1, 1)
    after = rows(opens())
    assert len(after) == len(before) + 1 and all(row in after for row in [*before, {"x": 8}])


def test_conflicts_are_resolved_after_merges_have_written_them(opens: Open) -> None:
    table = conflicting(opens)
    table.merge()
    table.append([{"x": 3}])
    table.resolve("x", to="VARCHAR")
    assert rows(opens()) == [{"x": "1"}, {"x": "2"}, {"x": "2.5"}, {"x": "3"}]
    assert opens().merge().files_added <= 1
    assert rows(opens(), where="x = '2.5'") == [{"x": "2.5"}]
    assert list(opens().snapshot().columns) == ["x"]


def test_older_versions_stay_as_they_were(opens: Open) -> None:
    table = conflicting(opens)
    before, was = table.snapshot().version, rows(table)
    table.resolve("x", to="DOUBLE")
    assert rows(table, at=before) == was
    with pytest.raises(firn.InvalidInputError, match="set aside"):
        table.resolve("x")


def test_a_column_becomes_another_ones(opens: Open) -> None:
    table = opens()
    table.append([{"a": 1}])
    table.append([{"b": 2}])
    assert table.resolve("b", into="a").changes == ("b into a",)
    assert rows(opens()) == [{"a": 1}, {"a": 2}] and rows(table, where="a = 2") == [{"a": 2}]
    assert opens().delete("a = 2").op == "delete"
    assert rows(opens()) in ([{"a": 1}], [{"a": 1}, {"a": 2}])  # other writers' rows are theirs


def test_what_is_set_aside_keeps_its_name_beside_renamed_columns(opens: Open) -> None:
    table = conflicting(opens)
    table.append([{"q": 1}])
    table.alter(rename={"q": "r"}, comments={"x~double": "halves"})
    assert ("x~double", "x~double", "halves") in [
        (c.name, c.physical, c.comment) for c in table.definition().columns
    ]
    opens().merge()
    table.merge()
    assert rows(table) == [{"r": 1}, {"x": 1}, {"x": 2}, {"x~double": 2.5}]
    assert table.resolve("x").changes == ("type of x: DOUBLE", "x~double into x")
    assert rows(opens()) == [{"r": 1}, {"x": 1.0}, {"x": 2.0}, {"x": 2.5}]


def test_an_explicit_type_decides_before_a_conflict_comes(opens: Open) -> None:
    stale, table = opens(), opens()
    stale.append([{"x": 1}])
    table.append([{"x": 2}])
    table.alter(types={"x": "VARCHAR"})
    stale.append([{"x": 3}])
    table.append([{"x": "four"}])
    table.append([{"x": 5}])
    assert rows(opens()) == [{"x": "1"}, {"x": "2"}, {"x": "3"}, {"x": "5"}, {"x": "four"}]


def test_a_soft_delete_stays_what_it_was_when_types_are_set() -> None:
    db = firn.connect(f"memory://{uuid4().hex}", writer="w")
    table = db.create_table("t", journal="writer")
    table.append([{"x": n} for n in (5, 30, 200)])
    assert table.delete("x > 25 AND x < 100").files_marked == 1
    table.alter(types={"x": "VARCHAR"})
    assert rows(table) == [{"x": "200"}, {"x": "5"}]
    table.delete("x = '5' OR x = 'five'")
    assert rows(table) == [{"x": "200"}] and table.scan().count() == 1
    table.merge()
    assert rows(table) == [{"x": "200"}]


def test_keys_keep_their_types(opens: Open) -> None:
    table = firn.connect("memory://").create_table("k", key=["id"])
    table.upsert([{"id": 1, "n": 1}])
    with pytest.raises(firn.UnsupportedError, match="key"):
        table.alter(types={"id": "VARCHAR"})
    table.alter(types={"n": "DOUBLE"})


def test_requests_of_a_change() -> None:
    table = firn.connect("memory://").create_table("t")
    table.append([{"x": 1}])
    before = table.bucket.counters.as_dict()
    table.alter(set_properties={"codec": "snappy"})
    spent = table.bucket.counters.since(before)
    assert {k: v for k, v in spent.items() if k in ("get", "put", "list") and v} == {
        "get": 2,
        "put": 5,
        "list": 1,
    }


@pytest.mark.parametrize("kind", ["prop", "seen"])
def test_joining_entries_has_no_order(kind: str) -> None:
    one = Entries().changed({(kind, "a"): 1, (kind, "b"): 1}, "x")
    two = one.changed({(kind, "a"): 2}, "y")
    three = Entries().changed({(kind, "a"): 3, (kind, "c"): 3}, "z", clock=2)
    joined = one.joined(two).joined(three)
    assert joined == three.joined(one).joined(two) == two.joined(three).joined(one).joined(joined)
    assert Entries.from_json(orjson.loads(orjson.dumps(joined.to_json())), "x") == joined


def test_a_protocol_time_lasts_as_long_as_somebody_may_go_by_it() -> None:
    table = firn.connect("memory://").create_table("t", properties={"orphan_age": "2d"})
    table.alter(set_properties={"orphan_age": "1h", "tombstone_grace": "2d"})
    journal: Any = table.journal
    now, hour, day = journal.clock.now_ms(), 3_600_000, 24 * 3_600_000
    assert journal.settings.orphan_age_ms == hour and journal.lasting().orphan_age_ms == 2 * day
    assert journal.lasting(least_grace=True).grace_ms == hour and journal.lasting().grace_ms == 2 * day
    later = journal.created_settings.lasting(journal.definition, now + 3 * day)
    assert later.orphan_age_ms == hour and isinstance(later, LeaderlessSettings)
    assert (
        journal.created_settings.lasting(journal.definition, now + day, least_grace=True).grace_ms == 2 * day
    )


def test_a_table_without_columns_can_be_partitioned_anew(tmp_path: Path) -> None:
    table = firn.connect(tmp_path).create_table("t", partition_by=["k"])
    assert table.alter(partition_by=["k"]).changes == ()
    table.alter(partition_by=["n"])
    table.append([{"k": 1, "n": 2}])
    assert [part.values for part in table.partitions()] == [{"n": "2"}]
