"""What alter refuses, before anything is written; and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import firn
from firn.lake.table import LakeTable
from moments import next_millisecond


@pytest.fixture(params=["leaderless", "writer"])
def table(request: pytest.FixtureRequest) -> LakeTable:
    db = firn.connect(f"memory://{uuid4().hex}", writer="w")
    made = db.create_table(
        "t", journal=request.param, partition_by=["month(day)", "place"], sort_by=["a desc"]
    )
    made.append([{"id": 1, "a": 1, "b": "x", "day": "2001-01-01", "place": "here"}], query=DATED)
    made.alter(set_properties={"bloom_filters": ["b"]}, checks={"sane": "id > 0"})
    return made


DATED = "SELECT id, a, b, day::DATE AS day, place FROM _rows"

BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "told nothing to change"),
    ({"rename": {"nobody": "c"}}, "no column 'nobody'"),
    ({"drop": "nobody"}, "no column 'nobody'"),
    ({"types": {"nobody": "DATE"}}, "no column 'nobody'"),
    ({"comments": {"nobody": "text"}}, "nobody"),
    ({"sort_by": ["nobody"]}, "nobody"),
    ({"partition_by": ["nobody"]}, "nobody"),
    ({"checks": {"new": "nobody > 1"}}, "nobody"),
    ({"checks": {"other": None}}, "no check 'other'"),
    ({"checks": {"new": "id > 1"}}, "rows that fail the check 'new'"),
    ({"set_properties": {"nothing": 1}}, "nothing"),
    ({"set_properties": {"log_url": "x"}}, "can't be changed"),
    ({"set_properties": {"target_size": "much"}}, "is not a size"),
    ({"set_properties": {"bloom_filters": ["nobody"]}}, "nobody"),
    ({"rename": {"a": "B"}}, "(?i)there is a column 'b' already"),
    ({"rename": {"a": "c", "b": "C"}}, "there is a column 'C' already"),
    ({"add": {"B": "DATE"}}, "there is a column 'B' already"),
    ({"rename": {"a": "c"}, "add": {"c": "DATE"}}, "there is a column 'c' already"),
    ({"rename": {"a": "c~1"}}, "set aside"),
    ({"add": {"a~double": "DOUBLE"}}, "set aside"),
    ({"rename": {"a": "_firn_deleted"}}, "Firn's"),
    ({"add": {"_FIRN_x": "DATE"}}, "Firn's"),
    ({"rename": {"a": "day_month"}}, "partition field"),
    ({"add": {"Day_Month": "DATE"}}, "partition field"),
    ({"rename": {"a": ""}}, "can't name a column"),
    ({"add": {"c": "NUMBER(3)"}}, "NUMBER"),
    ({"add": {"c": ("BIGINT", "five")}}, "doesn't fit the column 'c'"),
    ({"add": {"c": ("UTINYINT", 256)}}, "doesn't fit the column 'c'"),
    ({"add": {"c": ("BIGINT[]", [1])}}, "no default"),
    ({"add": {"c": ("BIGINT", 1, 2)}}, "a type, or a type and a value"),
    ({"rename": {"a": "c"}, "drop": "a"}, "dropped and renamed"),
    ({"drop": ["a", "A"]}, "twice"),
    ({"drop": "a"}, "sorted by 'a desc'"),
    ({"drop": "b"}, "bloom_filters"),
    ({"drop": "id"}, "check 'sane'"),
    ({"drop": "place"}, "partitioned by place"),
    ({"drop": "day", "partition_by": []}, "files are partitioned by"),
    ({"drop": ["id", "a", "b", "day", "place"]}, "at least one column"),
    ({"types": {"b": "BIGINT"}}, "takes? that in"),
    ({"types": {"a": "DATE"}}, "take that in"),
    ({"comments": {"a": 5}}, "no text"),
    ({"comment": 5}, "must be a text"),
]


@pytest.mark.parametrize(("asked", "says"), BAD, ids=[str(asked) for asked, _ in BAD])
def test_what_alter_refuses(table: LakeTable, asked: Mapping[str, Any], says: str) -> None:
    before = table.snapshot().version
    for dry_run in (True, False):
        puts = table.bucket.counters.as_dict()["put"]
        with pytest.raises((firn.InvalidInputError, TypeError), match=says):
            table.alter(**asked, dry_run=dry_run)
        assert not dry_run or table.bucket.counters.as_dict()["put"] == puts
    assert table.snapshot().version == before


def test_a_column_in_use_can_be_let_go_of_in_the_same_call(table: LakeTable) -> None:
    table.alter(drop="a", sort_by=[])
    table.alter(drop="b", set_properties={"bloom_filters": None})
    table.alter(drop="id", checks={"sane": None})
    table.alter(partition_by=["place"])
    table.merge(respec=True)
    table.alter(drop="day")
    assert table.scan().to_arrow().to_pylist() == [{"place": "here"}]


@pytest.mark.parametrize(
    "asked", [{"types": {"id": "VARCHAR"}}, {"drop": "id"}, {"drop": "v"}, {"rename": {"a": "id"}}]
)
def test_a_key_stays(asked: dict[str, Any]) -> None:
    made = firn.connect("memory://").create_table("t", key=["id"], version_by="v")
    made.append([{"id": 1, "v": 1, "a": 1}])
    with pytest.raises((firn.InvalidInputError, firn.UnsupportedError)):
        made.alter(**asked)
    made.alter(rename={"id": "number", "v": "version"}, drop="a")
    made.upsert([{"number": 1, "version": 2}])
    assert made.scan().to_arrow().to_pylist() == [{"number": 1, "version": 2}]


def spent(table: LakeTable, verb: Any) -> dict[str, int]:
    before = table.bucket.counters.as_dict()
    verb()
    found = table.bucket.counters.since(before)
    return {name: found[name] for name in ("get", "put", "list") if found.get(name)}


def opened(journal: str) -> LakeTable:
    made = firn.connect(f"memory://{uuid4().hex}", writer="w").create_table("t", journal=journal)
    made.append([{"a": 1, "b": 2}])
    return made


ALTER: dict[str, Any] = {"rename": {"a": "c"}, "drop": "b", "add": {"d": ("BIGINT", 5)}}


def test_requests_of_an_alter_on_the_log() -> None:
    table = opened("leaderless")
    table.snapshot()
    assert spent(table, lambda: table.alter(**ALTER)) == {"get": 1, "put": 5, "list": 1}


def test_requests_of_an_alter_in_a_writers_catalog() -> None:
    table = opened("writer")
    found = spent(table, lambda: table.alter(**ALTER))
    assert (found["get"], found["put"]) == (1, 3)


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
def test_an_append_by_a_definition_costs_what_it_did(journal: str) -> None:
    table = opened(journal)
    before = spent(table, lambda: table.append([{"a": 1}]))
    table.alter(**ALTER)
    assert spent(table, lambda: table.append([{"c": 1}])) == before
    fresh = spent(table, lambda: table.append([{"c": 1, "e": 1}]))
    assert fresh["list"] >= 1 + before.get("list", 0)
    if journal == "leaderless":
        assert fresh == {**before, "list": 1 + before.get("list", 0), "get": fresh.get("get", 0)}


@pytest.mark.parametrize("journal", ["leaderless", "writer"])
@pytest.mark.parametrize(("given", "kind"), [(("VARCHAR", "abc"), "BIGINT"), (("DOUBLE", 1.5), "BIGINT")])
def test_a_type_that_the_default_doesnt_fit_is_refused(
    journal: str, given: tuple[str, Any], kind: str, tmp_path: Path
) -> None:
    table = firn.connect(tmp_path, writer="w").create_table("t", journal=journal, schema={"id": "BIGINT"})
    table.append([{"id": 1}])
    table.alter(add={"x": given})
    with pytest.raises(firn.InvalidInputError, match="in its default, and BIGINT doesn't take that in"):
        table.alter(types={"x": kind})
    table.alter(types={"x": "VARCHAR"})
    assert table.scan().to_arrow()["x"].to_pylist() == [str(given[1])]


def test_a_name_that_was_altered_is_told_with_what_became_of_it(table: LakeTable) -> None:
    old = table.snapshot().version
    next_millisecond()
    table.alter(rename={"a": "c", "b": "a"})
    swapped = table.snapshot().version
    next_millisecond()
    table.append([{"c": 2, "place": "there"}])
    table.alter(rename={"c": "e to f"}, set_properties={"bloom_filters": None})
    renamed = table.snapshot().version
    table.alter(drop="a")
    dropped = table.snapshot().version
    for name, told in {
        "c": f"it is called 'e to f' since {renamed}",
        "A": f"it was dropped in {dropped}",
        "b": f"it was dropped in {dropped}",
    }.items():
        for use in (
            lambda name: table.alter(types={name: "VARCHAR"}),
            lambda name: table.alter(comments={name: "text"}),
            lambda name: table.resolve(name),
            lambda name: table.scan(columns=["id", name]).to_arrow(),
            lambda name: table.scan(where=f"{name} > 1").to_arrow(),
            lambda name: table.delete(f"id = 1 AND {name} > 1"),
        ):
            with pytest.raises(firn.InvalidInputError) as error:
                use(name)
            assert f"{told}" in str(error.value)
    for at, name, told in ((old, "c", "has no column 'c';"), (swapped, "b", "is called 'a' since")):
        with pytest.raises(firn.InvalidInputError, match=told):
            table.scan(at=at, columns=[name]).to_arrow()
    table.restore(old)
    with pytest.raises(firn.InvalidInputError, match="has no column 'c';"):
        table.scan(columns=["c"]).to_arrow()
