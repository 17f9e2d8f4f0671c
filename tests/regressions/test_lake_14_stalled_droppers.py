"""A process that stalled in the drop of a lake table, until others had ended the drop and made the next table of the
name, deleted that one's definition. A dropped table's definition stays now, and the next table replaces it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

import firn
from firn.inspect.fsck.fsck import check

KEY = "t/_firn/table.json"
MARK = "_firn/generations/t"
REQUESTS = (
    "get",
    "get_many",
    "put",
    "put_if_absent",
    "put_if_match",
    "list",
    "list_dirs",
    "delete",
    "delete_many",
)
NEXT: dict[str, dict[str, Any]] = {
    "lake": {},
    "with a key": {"key": ["x"]},
    "shared": {"properties": {"shared": "icedb"}},
    "keyed": {"kind": "keyed", "key": {"x": "BIGINT"}, "schema": {"y": "BIGINT"}},
    "records": {"kind": "records", "isolation": "row"},
    "writer": {"journal": "writer"},
}


@pytest.fixture
def db() -> firn.Database:
    return firn.connect("memory://", writer="w")


@contextmanager
def requests(db: firn.Database, at: Callable[[str, int], None]) -> Iterator[None]:
    """`at` is called before each request, with its verb and number."""
    bucket, numbers = type(db.bucket), itertools.count()

    def stopping(verb: str) -> Callable[..., Any]:
        real = getattr(bucket, verb)

        def call(*args: Any, **options: Any) -> Any:
            at(verb, next(numbers))
            return real(*args, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for verb in REQUESTS:
            patch.setattr(bucket, verb, stopping(verb))
        yield


def write(table: Any) -> None:
    if isinstance(table, firn.LakeTable):
        table.append([{"x": 1}])
    elif isinstance(table, firn.KeyedTable):
        table.load(pa.table({"x": [1], "y": [2]}))
    else:
        table.insert("1", {"x": 1})


def holds_a_row(table: Any) -> bool:
    if isinstance(table, firn.LakeTable):
        return bool(table.scan().to_arrow().to_pylist() == [{"x": 1}])
    if isinstance(table, firn.KeyedTable):
        return bool(table.reader().get((1,)) == {"y": 2})
    return bool(table.get("1")["x"] == 1)


@pytest.mark.parametrize("following", [*NEXT.values(), {"kind": "records"}], ids=[*NEXT, "transactions"])
def test_lake_14_whoever_stalls_in_a_drop_leaves_the_next_table(following: dict[str, Any]) -> None:
    stall = 0
    while _stalled_at(stall, firn.connect("memory://", writer="w"), following):
        stall += 1
    assert stall > 4


def _stalled_at(stall: int, db: firn.Database, following: dict[str, Any]) -> bool:
    """Whether the drop had so many requests."""
    lakes, others = db._tables.lakes, list[int]()
    db.create_table("t").append([{"x": 0}])
    definition = db.table("t").context.definition  # the drop has looked at the name

    def at(verb: str, number: int) -> None:
        if number == stall and not others:
            others.append(number)
            with suppress(firn.TableNotFoundError):
                db.drop_table("t")
            write(db.create_table("t", **following))

    with requests(db, at), suppress(firn.TableNotFoundError):
        lakes.drop(definition)
    if others:
        assert db.tables() == ["t"] and holds_a_row(db.table("t"))
        assert check(db).problems == ()
    return bool(others)


def test_lake_14_a_drop_costs_less(db: firn.Database) -> None:
    db.create_table("t").append([{"x": 0}])
    seen: list[str] = []
    with requests(db, lambda verb, _: seen.append(verb)):
        db.drop_table("t")
    assert Counter(seen) == {"get_many": 2, "get": 3, "put_if_match": 1, "list": 1, "delete_many": 2}
    seen.clear()
    with requests(db, lambda verb, _: seen.append(verb)):
        db.create_table("t")
    assert "list" in seen and seen.count("put_if_match") == 1 and "put_if_absent" not in seen
    assert not db.bucket.list(MARK).objects


def test_lake_14_a_dropped_tables_name_is_free_for_all_kinds(db: firn.Database) -> None:
    """One after the other, twice, each over what the one before has left, and no two share a directory."""
    generations = []
    for following in (*NEXT, *reversed(NEXT), "lake"):
        table = db.create_table("t", **NEXT[following])
        write(table)
        assert db.tables() == ["t"] and holds_a_row(db.table("t"))
        assert check(db).problems == ()
        with pytest.raises(firn.TableExistsError):
            db.create_table("t")
        definition = table.context.definition if isinstance(table, firn.LakeTable) else table.definition
        generations.append(getattr(definition, "generation", None) or 0)
        db.drop_table("t")
        assert db.tables() == [] and check(db).findings == ()
        for verb in (db.table, db.drop_table, db.mend_table):
            with pytest.raises(firn.TableNotFoundError):
                verb("t")
        with pytest.raises(firn.TableNotFoundError):
            db.drop_table("t", dry_run=True)
    own = [generation for generation in generations if generation]
    assert own == sorted(set(own)) and own[-1] >= 6


def test_lake_14_the_count_goes_on_where_version_before_left_off(db: firn.Database) -> None:
    """They deleted the definition, and kept the count in an object of the database."""
    db.bucket.put(MARK, orjson.dumps({"firn": 1, "generation": 3}))
    table = db.create_table("t")
    assert table.context.definition.generation == 3
    db.bucket.put(KEY, replace(table.context.definition, dropped=True).encode())
    db.bucket.put(MARK, orjson.dumps({"firn": 1, "generation": 4}))
    assert db.create_table("t").context.definition.generation == 4


def test_lake_14_a_clone_may_have_the_name(db: firn.Database) -> None:
    parent = db.create_table("parent", **NEXT["keyed"])
    write(parent)
    db.create_table("t").append([{"x": 0}])
    with pytest.raises(firn.TableExistsError):
        parent.clone("t")
    db.drop_table("t")
    clone = parent.clone("t")
    assert holds_a_row(clone) and holds_a_row(db.table("t"))
    parent.sweep(older_than="0s")
    db.drop_table("t")
    assert db.create_table("t").context.definition.generation == 2
    parent.sweep(older_than="0s")
    db.drop_table("parent")


def test_lake_14_stores_without_conditional_puts(tmp_path: Path) -> None:
    db = firn.connect(tmp_path, options={"conditional_put": "disabled"})
    for generation in range(3):
        table = db.create_table("t")
        table.append([{"x": generation}])
        assert table.context.definition.generation == generation
        with pytest.raises(firn.TableExistsError):
            db.create_table("t")
        assert db.table("t").scan().count() == 1
        db.drop_table("t")
        assert db.tables() == []


def test_lake_14_what_the_reference_wrote_after_a_drop_stays(db: firn.Database) -> None:
    """Its paths are filled anew by whoever knows no definition: the next `create_table` must not delete that."""
    table = db.create_table("t", **NEXT["shared"])
    table.append([{"x": 1}])
    there = {i.key: db.bucket.get(i.key).data for i in db.bucket.list("t/").objects if i.key != KEY}
    db.drop_table("t")
    assert [info.key for info in db.bucket.list("t/").objects] == [KEY]
    for key, data in there.items():
        db.bucket.put(key, data)
    with pytest.raises(firn.TableNotFoundError):
        db.drop_table("t")
    assert db.tables() == [] and check(db).findings == ()
    assert holds_a_row(db.create_table("t", **NEXT["shared"]))


def test_lake_14_a_late_object_is_dropped_again(db: firn.Database) -> None:
    db.create_table("t").append([{"x": 1}])
    db.drop_table("t")
    db.bucket.put("t/_data/late.parquet", b"late")
    assert [f.what for f in check(db).findings] == ["it is a table that is being dropped"]
    assert db.drop_table("t").objects == ("t/_data/late.parquet",)
    assert check(db).findings == ()
