"""Keyed tables from end to end on every kind of store: the same story, the same rows, nothing left."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
from collections.abc import Callable
from typing import Any

import pytest

import firn
from firn.bucket.keys import key_below
from firn.errors import FencedError, TableNotFoundError
from firn.keyed.table import KeyedTable
from stores.places import Place

pytestmark = pytest.mark.long


def opened(place: Place) -> firn.Database:
    return firn.connect(f"{place.url}/db", options=place.options)


def table_of(db: firn.Database, name: str = "delays") -> KeyedTable:
    table = db.table(name)
    assert isinstance(table, KeyedTable)
    return table


def pairs(source: Any) -> dict[Any, Any]:
    return dict(source.scan())


def test_the_whole_life_of_a_table(place: Place) -> None:
    db = opened(place)
    table = db.create_table(
        "delays",
        kind="keyed",
        key={"state": "VARCHAR", "year": "BIGINT"},
        schema={"delay": "BIGINT"},
        merge_operator="add",
    )
    state = {(name, year): {"delay": year % 7} for name in ("MI", "OH", "Ö") for year in range(1990, 2010)}
    table.load([{"state": s, "year": y, **value} for (s, y), value in state.items()])
    with table.open() as kv:
        kv.put(("MI", 1990), {"delay": 100})
        kv.merge(("MI", 1990), {"delay": 1})
        kv.delete(("OH", 1991))
        kv.write({("WI", n): {"delay": n} for n in range(5)})
        state |= {("MI", 1990): {"delay": 101}, **{("WI", n): {"delay": n} for n in range(5)}}
        del state[("OH", 1991)]
        assert pairs(kv) == state
        assert kv.get(("MI", 1990)) == {"delay": 101} and kv.get(("OH", 1991)) is None
    before = table.checkpoint("before", ttl="1h")
    reader = table_of(opened(place)).reader(follow="0s")
    assert pairs(reader) == state
    since = table.changes().version
    with table.open() as kv:
        kv.delete(("Ö", 1999))
    assert reader.get(("Ö", 1999)) is None
    (change,) = table.changes(since).to_arrow().to_pylist()
    assert (change["state"], change["year"], change["_kind"]) == ("Ö", 1999, "delete")
    assert table.compact(full=True).rows_out == len(state) - 1
    table.sweep(older_than="0s")
    assert pairs(table_of(opened(place)).reader(at="before")) == state
    other = table.clone("what_if", at="before")
    before.delete()
    table.sweep(older_than="0s")
    assert pairs(table_of(opened(place), "what_if").reader()) == state
    with other.open() as kv:
        kv.put(("MI", 1990), {"delay": 0})
    del state[("Ö", 1999)]
    assert pairs(table.reader()) == state
    assert [key for key, _ in table.reader().scan(("MI", 2008), ("OH", 1992))] == [
        ("MI", 2008),
        ("MI", 2009),
        ("OH", 1990),
    ]
    assert len(list(table.reader().scan_prefix(("Ö",), reverse=True))) == 19
    assert sorted(db.tables()) == ["delays", "what_if"]
    db.drop_table("what_if")
    db.drop_table("delays")
    left = db.bucket.list(key_below(db.prefix, "")).objects
    assert db.tables() == [] and {info.key.rpartition("/")[2] for info in left} == {"table.json"}
    with pytest.raises(TableNotFoundError):
        table.reader()
    again = db.create_table("delays", kind="keyed")
    with again.open() as kv:
        kv.put(b"a", b"1")
    assert again.compact(full=True).rows_out == 1 and again.clone("what_if").reader().get(b"a") == b"1"
    assert pairs(opened(place).table("delays", kind="keyed").reader()) == {b"a": b"1"}


def test_a_second_writer_fences_the_first(place: Place) -> None:
    table = opened(place).create_table("delays", kind="keyed")
    first = table.open()
    first.put(b"a", b"1")
    with table_of(opened(place)).open() as second:
        assert second.get(b"a") == b"1"
        second.put(b"a", b"2")
        with pytest.raises(FencedError):
            first.put(b"a", b"3")
        with pytest.raises(FencedError):
            first.get(b"a")
    with pytest.raises(FencedError):
        first.close()
    assert pairs(table.reader()) == {b"a": b"2"}


def take_turns(url: str, options: dict[str, Any], writer: int) -> None:
    """Write durably until another takes over, some times."""
    table = table_of(firn.connect(url, options=options))
    done = 0
    while done < 12:
        try:
            with table.open() as kv:
                while done < 12:
                    kv.put(b"%d-%02d" % (writer, done), b"%d" % done)
                    done += 1
                    kv.get(b"%d-00" % writer)
        except FencedError:
            continue


def run_at_once(shared: bool, work: Callable[..., None], place: Place, number: int) -> list[Any]:
    """Started, as processes of their own where the store is shared by them."""
    make: Any = multiprocessing.get_context("spawn").Process if shared else threading.Thread
    workers = [make(target=work, args=(f"{place.url}/db", place.options, n)) for n in range(number)]
    for each in workers:
        each.start()
    return workers


def test_writers_that_take_turns_while_it_is_compacted_and_swept(place: Place) -> None:
    """No put that was acknowledged is lost, whoever took over when."""
    db = opened(place)
    table = db.create_table("delays", kind="keyed", properties={"flush_ms": 5})
    shared = db.bucket.capabilities.shareable
    writers = run_at_once(shared, take_turns, place, 3)
    reader = table_of(opened(place)).reader(follow="0s")
    seen: dict[Any, Any] = {}
    while any(writer.is_alive() for writer in writers):
        with contextlib.suppress(FencedError):  # by the compactor of an open writer
            table.compact()
        table.sweep()
        found = pairs(reader)
        assert seen.keys() <= found.keys(), "what a reader has seen stays"
        seen = found
    for writer in writers:
        writer.join()
    if shared:
        assert [writer.exitcode for writer in writers] == [0, 0, 0]
    wanted = {b"%d-%02d" % (writer, n): b"%d" % n for writer in range(3) for n in range(12)}
    assert pairs(table.reader()) == wanted
    table.compact(full=True)
    table.sweep(older_than="0s")
    assert pairs(table_of(opened(place)).reader()) == wanted
    assert len(db.bucket.list(f"{table.prefix}/ssts/").objects) == 1
