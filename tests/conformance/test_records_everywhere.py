"""Record tables on every kind of store: hostile names stay in their place, and races have one winner."""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import firn
from firn.bucket import Bucket
from firn.clock import SystemClock
from firn.journal.definition import definition_key
from firn.journal.sequence import Ddl
from firn.records.applying import settle
from firn.records.definition import Index, RecordDefinition, create_definition
from firn.records.definitions import define
from firn.records.row_tables import RowTable
from firn.records.store import RecordStore
from firn.records.transaction import begin
from firn.testing import History
from stores.places import Place

HOSTILE = (
    "/",
    "..",
    "../../etc/passwd",
    "a___b",
    "_",
    "%2F",
    "%",
    "~",
    "!n8000000000000000000",
    "x" * 1000,
    "😀" * 100,
    "\u00e9",
    "e\u0301",
    "\0",
    "a\nb",
    "a\\b",
    " ",
    "a+b",
    "a&b=c?d#e",
    "*<>|\"':;",
    "a.",
    ".a",
    ".firn-tmp",
    "con",
)


def opened(bucket: Bucket) -> RecordStore:
    return RecordStore(bucket, "db", clock=SystemClock())


@pytest.fixture
def store(bucket: Bucket) -> RecordStore:
    """A database with the table `t`."""
    definition = RecordDefinition("t", db="db", indices=(Index("name"), Index("n")))
    made = create_definition(bucket, "db/t", definition)
    found = opened(bucket)
    define(found, Ddl("create", "t", indices=(("name", False), ("n", False))))
    bucket.put(definition_key("db/t"), replace(made, state="ready").encode())
    return found


def keys(bucket: Bucket) -> list[str]:
    return [info.key for info in bucket.list("").objects]


@pytest.mark.parametrize("applied", [False, True])
def test_hostile_ids_and_values_stay_in_their_place(store: RecordStore, applied: bool) -> None:
    bucket = store.bucket
    bucket.put("dc/neighbour", b"")
    documents = {id: {"name": id, "n": n} for n, id in enumerate(HOSTILE)}
    with begin(store) as tx:
        for id, document in documents.items():
            tx.insert("t", id, document)
    if applied:
        settle(store)
    fresh = opened(bucket)
    tx = begin(fresh)
    assert {row.id: row.document for row in tx.scan("t")} == documents
    for id, document in documents.items():
        assert tx.get("t", id).document == document
        same = {row.id for row in tx.find("t", name=id)}
        assert same == {other for other in HOSTILE if _normal(other) == _normal(id)}
        begins = {row.id for row in tx.find("t", name=firn.Prefix(id[:2]))}
        assert begins == {other for other in HOSTILE if _normal(other).startswith(_normal(id[:2]))}
    assert [row.id for row in tx.find("t", n=firn.Range(3, 6))] == sorted(HOSTILE[3:6])
    assert all(
        key.startswith(("db/t/", "db/_commits/", "db/_firn/"))
        for key in keys(bucket)
        if key != "dc/neighbour"
    )

    with begin(fresh) as tx:
        for id in HOSTILE[::2]:
            tx.delete("t", id)
        for id in HOSTILE[1::2]:
            tx.update("t", id, {"name": "same", "n": -1})
    if applied:
        settle(fresh)
    tx = begin(opened(bucket))
    assert {row.id for row in tx.find("t", name="same", n=-1)} == set(HOSTILE[1::2])
    assert tx.count("t") == len(HOSTILE[1::2])
    assert "dc/neighbour" in keys(bucket)


def test_hostile_ids_of_single_rows(bucket: Bucket) -> None:
    definition = create_definition(bucket, "db/t", RecordDefinition("t", db="db", isolation="row"))
    table = RowTable(bucket, "db/t", definition)
    for id in HOSTILE:
        etag = table.insert(id, {"name": id})
        table.update(id, {"name": id, "n": 1}, etag=etag)
        with pytest.raises(firn.StaleObjectError):
            table.update(id, {}, etag=etag)
    assert {row.id: row["name"] for row in table.scan()} == {id: id for id in HOSTILE}
    for id in HOSTILE:
        table.delete(id, etag=table.get(id).etag)
    assert table.count() == 0
    assert all(key.startswith("db/t/") for key in keys(bucket))


def _normal(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _in_threads(count: int, program: Any) -> None:
    failed: list[BaseException] = []

    def run(n: int) -> None:
        try:
            program(n)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def test_clients_that_race(store: RecordStore, place: Place) -> None:
    """Clients with a store each append to lists of all; what they saw is one order that all can have seen."""
    history = History()
    elements: Iterator[int] = iter(range(10_000))

    def client(n: int) -> None:
        mine = opened(place.open())
        done = 0
        while done < 6:
            try:
                with history.begin(f"client {n}, {done}") as seen, begin(mine) as tx:
                    lists = {}
                    for name in ("x", "y"):
                        lists[name] = next((row["list"] for row in tx.find("t", name=name)), [])
                        seen.read(name, lists[name])
                    name = "xy"[(n + done) % 2]
                    element = next(elements)
                    tx.upsert("t", name, {"name": name, "list": [*lists[name], element]})
                    seen.append(name, element)
                done += 1
            except (firn.StaleObjectError, firn.SnapshotTooOldError):
                continue

    _in_threads(4, client)
    with history.begin("last") as seen:
        tx = begin(store)
        for name in ("x", "y"):
            seen.read(name, tx.get("t", name)["list"])
    verdict = history.check(aborted_reads=True)
    assert verdict, str(verdict)
    assert len([t for t in history.transactions if t.status == "committed"]) == 25


def test_single_rows_that_race(bucket: Bucket, place: Place) -> None:
    definition = create_definition(bucket, "db/t", RecordDefinition("t", db="db", isolation="row"))
    RowTable(bucket, "db/t", definition).insert("total", {"n": 0})

    def client(_: int) -> None:
        table = RowTable(place.open(), "db/t", definition)
        done = 0
        while done < 8:
            row = table.get("total")
            try:
                table.update("total", {"n": row["n"] + 1}, etag=row.etag)
                done += 1
            except firn.StaleObjectError:
                continue

    _in_threads(4, client)
    assert RowTable(bucket, "db/t", definition).get("total")["n"] == 32
