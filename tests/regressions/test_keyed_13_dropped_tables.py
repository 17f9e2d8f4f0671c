"""A handle of a dropped table wrote into the next one of its name: it fenced that one's writer, and compacted, loaded
and altered it by the old definition. A process that was late in a drop deleted the next table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.keyed.table import KeyedTable

ROWS = {b"%d" % n: b"%d" % n for n in range(9)}

VERBS: dict[str, Callable[[KeyedTable], Any]] = {
    "open": lambda t: t.open(),
    "compact": lambda t: t.compact(full=True),
    "load": lambda t: t.load(pa.table({"key": [b"x"], "value": [b"1"]})),
    "alter": lambda t: t.alter(set_properties={"flush_ms": 7}, fence=True),
    "checkpoint": lambda t: t.checkpoint("c"),
    "clone": lambda t: t.clone("u"),
    "sweep": lambda t: t.sweep(older_than="0s"),
    "read": lambda t: t.reader(),
    "history": lambda t: t.history(),
}


def objects(db: firn.Database) -> dict[str, str]:
    """All but what is written to learn the store's time."""
    return {i.key: i.etag for i in db.bucket.list("").objects if not i.key.endswith("/clock")}


def next_table(db: firn.Database) -> tuple[KeyedTable, KeyedTable]:
    old = db.create_table("t", kind="keyed", merge_operator="append")
    with old.open() as kv:
        kv.put(b"a", b"old")
    db.drop_table("t")
    return old, db.create_table("t", kind="keyed", merge_operator="add")


@pytest.mark.parametrize("verb", list(VERBS))
def test_keyed_13_a_stale_handle_leaves_the_next_table(db: firn.Database, verb: str) -> None:
    old, new = next_table(db)
    with new.open(compaction=False) as kv:
        kv.write(ROWS)
        kv.merge(b"1", b"41")
        before = objects(db)
        with pytest.raises(firn.TableNotFoundError, match="was dropped"):
            VERBS[verb](old)
        assert objects(db) == before
        kv.put(b"still", b"1")
        assert kv.get(b"1") == b"42"


def test_keyed_13_a_reader_and_a_writer_of_a_dropped_table_end(db: firn.Database) -> None:
    old = db.create_table("t", kind="keyed")
    kv, reader = old.open(compaction=False), old.reader(follow="0s")
    kv.put(b"a", b"old")
    db.drop_table("t")
    new = db.create_table("t", kind="keyed")
    with pytest.raises(firn.TableNotFoundError, match=r"was dropped\. Get the table anew"):
        reader.get(b"a")
    with pytest.raises(firn.FencedError):
        kv.poll()
    assert new.reader().get(b"a") is None and db.table("t", kind="keyed").reader().get(b"a") is None


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("kind", ["keyed", "lake", "records"])
def test_keyed_13_a_late_dropper_leaves_the_next_table(db: firn.Database, kind: Any, marked: bool) -> None:
    old = db.create_table("t", kind="keyed")
    db.drop_table("t")
    db.create_table("t", kind=kind)
    before = objects(db)
    if marked:
        assert db._tables.kinds["keyed"].erase(old.definition).objects == ()
    else:
        with pytest.raises(firn.TableNotFoundError, match="dropped by somebody else"):
            db._tables.kinds["keyed"].drop(old.definition)
    assert objects(db) == before


def test_keyed_13_the_next_table_of_another_kind_is_a_generation_of_its_own(db: firn.Database) -> None:
    db.create_table("t", kind="keyed")
    db.drop_table("t")
    lake = db.create_table("t")
    lake.append([{"x": 1}])
    assert lake.context.definition.generation == 1
    assert lake.scan().to_arrow().to_pylist() == [{"x": 1}]
