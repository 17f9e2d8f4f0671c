"""`alter` of keyed tables: properties, by the writer that is open or with a fence."""

from __future__ import annotations

import uuid
from typing import Any

import orjson
import pytest

import firn
from firn.errors import FencedError, InvalidInputError
from firn.keyed.maintain import alter as altering
from firn.keyed.table import KeyedTable


@pytest.fixture
def table() -> KeyedTable:
    db = firn.connect(f"memory://alter-{uuid.uuid4().hex}")
    return db.create_table("t", kind="keyed", merge_operator="add")


def test_the_open_writer_goes_by_it(table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        kv.put(b"a", b"1")
        done = table.alter(set_properties={"memtable_size": "4KB", "flush_ms": 3_600_000})
        assert done.changes == ("set memtable_size = 4KB", "set flush_ms = 3600000")
        assert kv.table.settings.memtable_size == 4096 and kv.epoch
        for n in range(100):
            kv.put(b"%d" % n, b"1", durable=False)
        kv.flush()
        assert kv.stats().flushes > 4
    assert table.definition.properties == {}, "what it was created with stays"
    with table.open(compaction=False) as kv:
        assert kv.table.settings.flush_ms == 3_600_000
        assert len(list(kv.scan())) == 101


def test_it_stays_through_compactions_checkpoints_and_clones(table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        table.alter(set_properties={"l0_min_age": "1h"})
        for n in range(15):
            kv.put(b"%d" % n, b"1")
            kv.compact(full=n % 4 == 0)
        assert kv.table.settings.l0_min_age == 3600.0
    table.checkpoint("monday")
    copy = table.clone("copy", at="monday")
    assert copy.as_in(copy.view()).settings.l0_min_age == 3600.0
    assert len(list(copy.reader().scan())) == 15
    manifest = table.view().manifest
    raw = orjson.loads(table.bucket.get(table.journal.layout.manifest_key(manifest.name)).data)
    assert raw["features"] == ["definition"]


def test_without_a_writer_it_needs_a_fence(table: KeyedTable) -> None:
    other = firn.connect(table.bucket.url)
    elsewhere = other.table("t", kind="keyed").open(compaction=False)
    elsewhere.put(b"a", b"1")
    with pytest.raises(InvalidInputError, match="fence=True"):
        table.alter(set_properties={"flush_ms": 20})
    assert table.alter(set_properties={"flush_ms": 20}, fence=True).changes == ("set flush_ms = 20",)
    with pytest.raises(FencedError):
        elsewhere.put(b"b", b"1")
    assert table.alter(set_properties={"flush_ms": 20}, fence=True).changes == ()
    assert dict(table.reader().scan()) == {b"a": b"1"}


def test_a_writer_that_opens_while_it_is_altered_is_fenced(
    table: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, opened = altering._commit, []

    def later(*args: Any) -> Any:
        opened.append(firn.connect(table.bucket.url).table("t", kind="keyed").open(compaction=False))
        return commit(*args)

    monkeypatch.setattr(altering, "_commit", later)
    table.alter(set_properties={"flush_ms": 20}, fence=True)
    with pytest.raises(FencedError):  # it would go by the old definition
        opened[0].put(b"a", b"1")


def test_a_compactor_that_takes_over_does_not_keep_it_from_altering(
    table: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, calls = altering._wanted, []

    def meanwhile(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:  # between the epoch and the commit
            table.journal.open_compactor().commit(adds=(), deletes=(), last_compacted=-1)
        return wanted(*args)

    with table.open(compaction=False) as kv:
        monkeypatch.setattr(altering, "_wanted", meanwhile)
        assert table.alter(set_properties={"flush_ms": 20}).changes == ("set flush_ms = 20",)
        assert kv.table.settings.flush_ms == 20


def test_a_compaction_under_way_is_lost_and_nothing_else(table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        kv.put(b"a", b"1")
        session = table.journal.open_compactor()
        table.alter(set_properties={"flush_ms": 20})
        with pytest.raises(FencedError):
            session.refresh()
        kv.put(b"b", b"1")
        kv.compact()
        assert len(list(kv.scan())) == 2


def test_an_age_that_was_longer_counts_until_it_is_over(table: KeyedTable) -> None:
    from firn.keyed.maintain.alter import sweep_age_s

    table.alter(set_properties={"l0_min_age": "2h"}, fence=True)
    table.alter(set_properties={"l0_min_age": "5m"}, fence=True)
    assert sweep_age_s(table, table.view().manifest) == 7200.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "nothing to change"),
        ({"pointer_url": "dynamodb://t/i"}, "can't be changed"),
        ({"nonsense": 1}, "unknown table property 'nonsense'"),
        ({"flush_ms": -1}, "flush_ms"),
        ({"poll_max": "10m"}, "l0_min_age"),
    ],
)
def test_bad_changes_are_refused_before_anything_is_written(
    table: KeyedTable, changes: dict, message: str
) -> None:
    before = table.bucket.counters.as_dict()
    with pytest.raises(InvalidInputError, match=message):
        table.alter(set_properties=changes, fence=True)
    assert table.bucket.counters.since(before)["put"] == 0


def test_a_dry_run_tells_and_changes_nothing(table: KeyedTable) -> None:
    told = table.alter(set_properties={"flush_ms": 20, "strict": True}, dry_run=True)
    assert told.changes == ("set flush_ms = 20", "set strict = True")
    assert not table.view().manifest.definition
