"""A handle of a dropped table made the table again with its next append, under its old definition; where the next
table of the name was there, that one was read by the dropped one's definition from then on."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

import firn
from firn.journal.position import StreamPosition
from firn.lake.table import LakeTable

WAS_DROPPED = pytest.raises(firn.TableNotFoundError, match="was dropped")
VERBS: dict[str, Callable[[LakeTable], object]] = {
    "append": lambda t: t.append([{"x": 9}]),
    "append a column": lambda t: t.append([{"new": 9}]),
    "scan": lambda t: t.scan().count(),
    "overwrite": lambda t: t.overwrite([{"x": 9}]),
    "delete": lambda t: t.delete("x = 1"),
    "merge": lambda t: t.merge(),
    "alter": lambda t: t.alter(set_properties={"codec": "snappy"}),
    "history": lambda t: t.history(),
    "follow": lambda t: t.journal.stream().poll(t.journal.stream().parse({"reached": {}})),
}


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4().hex}"


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("whose", ["own", "another process of it", "another writer's", "stranger's"])
@pytest.mark.parametrize("verb", VERBS)
def test_all_verbs_of_a_dropped_tables_handle_are_told(url: str, whose: str, verb: str, again: bool) -> None:
    db = firn.connect(url, writer="a")
    made = db.create_table("t", journal="writer")
    made.append([{"x": 1}])
    other = {"own": db, "another process of it": firn.connect(url, writer="a")}.get(whose)
    other = other or firn.connect(url, writer="b")
    old = made if whose == "own" else other.table("t")
    old.scan().count()
    if whose == "another writer's":
        old.append([{"x": 2}])
        other.drop_table("t")
    db.drop_table("t")
    if again:
        db.create_table("t", journal="writer", partition_by=["x"], schema={"x": "BIGINT"}).append([{"x": 1}])
    with WAS_DROPPED:
        VERBS[verb](old)
    with WAS_DROPPED:
        VERBS[verb](old)
    reader = firn.connect(url)
    assert reader.tables() == (["t"] if again else [])
    if again:
        assert reader.table("t").scan().to_arrow().to_pylist() == [{"x": 1}]
        assert [f.source for f in reader.table("t").partition_spec.fields] == ["x"]


def test_a_handle_that_remembers_another_writers_part_appends_nothing_to_the_next_table(url: str) -> None:
    db, other = firn.connect(url, writer="a"), firn.connect(url, writer="b")
    old = db.create_table("t", journal="writer")
    other.table("t").append([{"x": 1}])
    old.append([{"x": 2}])
    other.drop_table("t")
    db.drop_table("t")
    new = db.create_table("t", journal="writer", partition_by=["x"], schema={"x": "BIGINT"})
    with WAS_DROPPED:
        old.append([{"x": 3}])
    assert new.scan().count() == 0


def test_a_process_makes_a_table_that_another_one_of_its_id_dropped(url: str) -> None:
    db, other = firn.connect(url, writer="a"), firn.connect(url, writer="a")
    db.create_table("t", journal="writer").append([{"x": 1}])
    other.drop_table("t")
    assert db.create_table("t", journal="writer").scan().count() == 0


def test_a_table_stays_as_long_as_one_writer_has_a_part(url: str) -> None:
    a, b = firn.connect(url, writer="a"), firn.connect(url, writer="b")
    mine = a.create_table("t", journal="writer")
    theirs = b.table("t")
    theirs.append([{"x": 2}])
    a.drop_table("t")
    mine.append([{"x": 1}])
    assert sorted(theirs.scan().to_arrow()["x"].to_pylist()) == [1, 2]
    assert mine.snapshot().warnings == ()


def test_a_rebuilt_catalog_has_the_same_table(url: str) -> None:
    a, b = firn.connect(url, writer="a"), firn.connect(url, writer="b")
    table = a.create_table("t", journal="writer", key=["x"])
    table.append([{"x": 1}])
    theirs = b.table("t")
    theirs.alter(set_properties={"codec": "snappy"})
    assert not a.table("t").snapshot().warnings  # the altered definition is the same table's
    bucket = firn.connect(url).bucket
    bucket.delete_many([i.key for i in bucket.list("a/").objects if "/transactions/" in i.key])
    firn.connect(url, writer="a").rebuild()
    theirs.append([{"x": 2}])
    assert theirs.scan().count() == 2


def test_a_stream_does_not_go_on_into_the_next_table(url: str) -> None:
    db = firn.connect(url, writer="a")
    db.create_table("t", journal="writer").append([{"x": 1}])
    stream = StreamPosition(firn.connect(url).table("t").journal.stream())
    start = stream.begin(None)
    db.drop_table("t")
    db.create_table("t", journal="writer").append([{"x": 2}])
    with WAS_DROPPED:
        stream.advance(start, None)


def test_a_version_before_the_drop_is_no_version_of_the_next_table(url: str) -> None:
    db = firn.connect(url, writer="a")
    old = db.create_table("t", journal="writer")
    version = old.append([{"x": 1}]).version
    db.drop_table("t")
    new = db.create_table("t", journal="writer", partition_by=["x"], schema={"x": "BIGINT"})
    for verb in (lambda: new.scan(at=version).count(), lambda: new.restore(version)):
        with pytest.raises(firn.NotFoundError):
            verb()
    assert new.scan(at="0").count() == 0
