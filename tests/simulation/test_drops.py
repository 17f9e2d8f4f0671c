"""Drops of keyed tables, and of lake tables that are shared with the reference: whoever stalls in one, for as long as
others end it and make the next table of the name, harms nothing of that one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson
import pyarrow as pa
import pytest

import firn
from firn.inspect.fsck.fsck import check
from firn.testing import CrashMode, CrashPoint, GatedBucket, SimStore, crash_points
from firn.testing.client import Call
from kv_tables import Flusher
from simulation.test_copies_crash import SimDatabase

KINDS: Mapping[str, dict[str, Any]] = {
    "keyed": {"kind": "keyed"},
    "shared": {"properties": {"shared": "icedb"}},
    "lake": {},
    "records": {"kind": "records", "isolation": "row"},
}


class Meanwhile:
    """A plan without faults: somebody else acts before a call."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self.number, self.act, self.done = number, act, False

    def decide(self, call: Call) -> None:
        if call.number == self.number:
            self.done = True
            self.act()


def write(table: Any, x: int) -> None:
    if isinstance(table, firn.KeyedTable):
        table.load(pa.table({"key": [b"%d" % x], "value": [b"v"]}))
        Flusher(table).put(b"%d" % (x + 1))
    elif isinstance(table, firn.LakeTable):
        table.append([{"x": x + 1}], batch_id="b")
        table.append([{"x": x}])
        table.merge()
    else:
        table.insert(str(x), {"x": x})


def rows(table: Any) -> list[int]:
    if isinstance(table, firn.KeyedTable):
        return [int(key) for key, _ in table.reader().scan()]
    if isinstance(table, firn.LakeTable):
        return sorted(row["x"] for row in table.scan().to_arrow().to_pylist())
    return [row["x"] for row in table.scan()]


def begun(kind: str) -> SimStore:
    store = SimStore()
    write(SimDatabase(store.bucket()).create_table("t", **KINDS[kind]), 0)
    return store


@pytest.mark.parametrize("following", [*KINDS])
@pytest.mark.parametrize("dropped", ["keyed", "shared"])
def test_whoever_stalls_in_a_drop_leaves_the_next_table(dropped: str, following: str) -> None:
    template, stall = begun(dropped), 1  # the drop has read the definition
    while _stalled_at(stall, template.copy(), KINDS[following]):
        stall += 1
    assert stall > 10


def _stalled_at(stall: int, store: SimStore, following: dict[str, Any]) -> bool:
    """Whether the drop had so many calls."""
    others = SimDatabase(store.bucket("others"))
    made: dict[str, bytes] = {}

    def meanwhile() -> None:
        with suppress(firn.TableNotFoundError):
            others.drop_table("t")
        write(others.create_table("t", **following), 10)
        made.update(store.contents())

    plan = Meanwhile(stall, meanwhile)
    with suppress(firn.TableNotFoundError):
        SimDatabase(store.bucket("dropper", plan=plan)).drop_table("t")
    if plan.done:
        assert store.contents() == made
        later = SimDatabase(store.bucket("later"))
        table = later.table("t")
        before = rows(table)
        assert before and min(before) == 10
        write(table, 20)
        assert {*before, 20} <= {*rows(table)}
        assert check(later).problems == ()
    return plan.done


MODES: tuple[CrashMode, ...] = ("before", "after", "lost_ack", "retried", "failed")
DEFINITION = "db/t/_firn/table.json"


def drop(bucket: GatedBucket) -> None:
    SimDatabase(bucket).drop_table("t")


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize("kind", ["keyed", "shared"])
def test_a_drop_is_ended_by_dropping_or_creating_again(kind: str, before: int) -> None:
    """Whole or gone, of the first table of a name and of a later one; and the next one begins empty."""
    template = begun(kind)
    for _ in range(before):
        db = SimDatabase(template.bucket())
        db.drop_table("t")
        write(db.create_table("t", **KINDS[kind]), 0)

    def look(left: SimStore, point: CrashPoint) -> None:
        db = SimDatabase(left.bucket("later"))
        if "t" in db.tables():
            assert rows(db.table("t")) == [0, 1]
            return
        with pytest.raises(firn.TableNotFoundError):
            db.table("t")
        other = left.copy()
        with suppress(firn.TableNotFoundError):  # gone already
            db.drop_table("t")
        assert left.keys() == [DEFINITION] and check(db).findings == ()
        again = SimDatabase(other.bucket("again"))
        assert rows(again.create_table("t", **KINDS[kind])) == []
        assert orjson.loads(other.contents()[DEFINITION])["generation"] == before + 1
        assert all("~" in key for key in other.contents() if key != DEFINITION)
        write(again.table("t"), 5)
        assert rows(again.table("t")) == [5, 6]

    assert crash_points(lambda: template, drop, look, modes=MODES) > 40


def test_a_table_is_made_over_a_dropped_one_or_not_at_all() -> None:
    template = begun("keyed")
    drop(template.bucket())

    def create(bucket: GatedBucket) -> None:
        SimDatabase(bucket).create_table("t", **KINDS["keyed"])

    def look(left: SimStore, point: CrashPoint) -> None:
        if "t" not in SimDatabase(left.bucket("later")).tables():
            create(left.bucket("again"))
        db = SimDatabase(left.bucket("later"))
        table = db.table("t")
        assert rows(table) == [] and table.definition.generation == 1
        write(table, 5)
        assert rows(table) == [5, 6] and check(db).findings == ()

    assert crash_points(lambda: template, create, look, modes=MODES) > 15
