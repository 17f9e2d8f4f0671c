"""Record tables on every kind of store: hostile names stay in their place, and races have one winner."""

from __future__ import annotations

import contextlib
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
from firn.journal.sequence import Ddl, LogTransaction, RowWrite
from firn.journal.sequence.codec import encode_record
from firn.names import is_name
from firn.records.apply.apply import settle
from firn.records.definition.definition import Index, RecordDefinition, create_definition
from firn.records.maintain.collection import collect, sweep
from firn.records.maintain.ddl import define
from firn.records.objects.store import RecordStore
from firn.records.row_tables import RowTable
from firn.records.table import RecordTable
from firn.records.write.transaction import begin
from firn.testing import RecordedHistory
from stores.places import Place

HOSTILE = (
    "/",
    "..",
    "../../etc/passwd",
    "a___b",
    "_",
    "%2F",
    "%2e%2e/%2e%2e",
    "%",
    "~",
    "!n8000000000000000000",
    "x" * 1000,
    "😀" * 100,
    "é" * 1000,
    "../" * 300,
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


def _keys(bucket: Bucket) -> list[str]:
    return [info.key for info in bucket.list("").objects]


OWN = ("db/t/", "db/_commits/", "db/_firn/", "db/.firn-tmp/")
"""Where objects of the table `t` are; the last one is what a directory keeps for itself."""


def _in_its_place(bucket: Bucket) -> bool:
    """Whether all is there, and the neighbour's object is as it was."""
    strange = [key for key in _keys(bucket) if not key.startswith(OWN)]
    assert strange == ["dc/neighbour"]
    return bucket.get("dc/neighbour").data == b""


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
    assert _in_its_place(bucket)

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
    assert _in_its_place(bucket)


def test_hostile_fields_stay_in_their_place(bucket: Bucket, place: Place) -> None:
    """Each is the name of an indexed field, from the table's creation on or later, and dots lead within objects."""
    db = firn.connect(f"{place.url}/db", options=place.options)
    bucket.put("dc/neighbour", b"")
    fields = [*HOSTILE, "indices", "_firn", "a~1", "a..b"]
    first, later = fields[:-4:3], fields[-4:]
    table = db.create_table("t", kind="records", indices=first)
    assert isinstance(table, RecordTable)
    document: dict[str, Any] = {}
    for n, field in enumerate([*first, *later]):
        at = document
        *path, last = field.split(".")
        for name in path:
            at = at.setdefault(name, {})
        at[last] = n
    table.insert("it", document)
    table.insert("other", {})
    for field in later:
        table.create_index(field)
    settle(table.session.store)
    for n, field in enumerate([*first, *later]):
        assert [row.id for row in table.find({field: n})] == ["it"]
    assert {index.field for index in table.indices()} == {*first, *later}
    table.drop_index(first[0])
    table.delete("it")
    table.sweep("30s", "0s")
    assert _in_its_place(bucket)


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_hostile_tables_are_refused(bucket: Bucket, place: Place, isolation: Any) -> None:
    db = firn.connect(f"{place.url}/db", options=place.options)
    db.create_table("t", kind="records")
    bucket.put("dc/_firn/table.json", b"a neighbour's")
    before = _keys(bucket)
    for name in (*HOSTILE, "", "../dc", "../dc/", "..%2fdc", "t/../../dc", "_firn", "_commits", "t/data"):
        if is_name(name) and name != "..":
            continue
        for refused in (
            lambda name=name: db.create_table(name, kind="records", isolation=isolation),
            lambda name=name: db.table(name),
            lambda name=name: db.drop_table(name),
            lambda name=name: db.begin().get(name, "a"),
            lambda name=name: db.begin().upsert(name, "a", {}),
            lambda name=name: db.begin().scan(name),
        ):
            with pytest.raises((firn.InvalidInputError, firn.TableNotFoundError)) as error:
                refused()
            assert "\n" not in str(error.value) and "\0" not in str(error.value)
    assert _keys(bucket) == before


def test_locks_and_staged_bodies_of_hostile_ids_stay_in_their_place(bucket: Bucket, place: Place) -> None:
    db = firn.connect(f"{place.url}/db", options=place.options)
    bucket.put("dc/neighbour", b"")
    table = db.create_table("t", kind="records", indices=["name"], properties={"inline": "8B"})
    assert isinstance(table, RecordTable)
    with db.begin(lock=True) as tx:
        for id in HOSTILE:
            tx.insert("t", id, {"name": id, "long": "x" * 100})
        other = db.begin(lock=True)
        for id in HOSTILE:
            with pytest.raises(firn.ObjectLockedError):
                other.upsert("t", id, {})
    settle(table.session.store)
    assert {row.id: row["name"] for row in table.scan()} == {id: id for id in HOSTILE}
    assert len(bucket.list("db/t/_firn/locks/").objects) == len(HOSTILE)
    assert len(bucket.list("db/_firn/bodies/").objects) == len(HOSTILE)
    assert _in_its_place(bucket)


@pytest.mark.parametrize(
    "write",
    [
        RowWrite("t", "a", ref="../../../dc/neighbour"),
        RowWrite("t", "a", b"{}", entries=("../../../dc/entry",)),
        RowWrite("t", "../../../dc/row", b"{}"),
    ],
)
def test_a_commit_that_names_what_is_elsewhere_reaches_nothing_there(
    store: RecordStore, write: RowWrite
) -> None:
    """Firn writes none: it may be damaged on purpose, by who can write the log but not the neighbour."""
    store.bucket.put("dc/neighbour", b'{"n":1}')
    head = store.log.refresh()
    record = store.log.next_record(head, [LogTransaction("evil", head.number, (write,))])
    store.bucket.put(store.log.store.layout.record_key(record.number), encode_record(record))
    fresh = opened(store.bucket)
    with contextlib.suppress(firn.FirnError):
        settle(fresh)
    with contextlib.suppress(firn.FirnError):
        assert begin(fresh).get("t", "a").document == {}
    with contextlib.suppress(firn.FirnError):
        collect(fresh, retention_s=0)
        sweep(fresh, orphan_age_s=0)
    assert [key for key in _keys(store.bucket) if not key.startswith("db/")] == ["dc/neighbour"]
    assert store.bucket.get("dc/neighbour").data == b'{"n":1}'


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
    assert all(key.startswith("db/t/") for key in _keys(bucket))


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
    history = RecordedHistory()
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


def test_loads_and_copies_that_race(bucket: Bucket, place: Place) -> None:
    """Two load the same rows, two copy what is committed: rows are there once, and so is each change."""
    url = f"{place.url}/db"
    db = firn.connect(url, options=place.options)
    table = db.create_table("t", kind="records", indices=["n"])
    documents = [{"_id": f"{id}/{n}", "n": n} for n in range(3) for id in HOSTILE[:8]]

    def client(number: int) -> None:
        mine = firn.connect(url, options=place.options)
        if number % 2:
            mine.table("t", kind="records").load(documents, batch=5)
        else:
            for _ in range(3):
                mine.copy("t", "copied", changes=True)

    _in_threads(4, client)
    db.copy("t", "copied", changes=True)
    assert (table.count(), table.count(n=1)) == (24, 8)
    assert {row.id for row in table.scan()} == {document["_id"] for document in documents}
    rows = db.table("copied").scan().to_arrow().to_pylist()
    told = sorted((row["_seq"], row["_id"], row["_kind"]) for row in rows)
    wanted = sorted((change.seq, change.id, change.kind) for change in table.changes())
    assert len(wanted) == 48 and len(set(told)) == len(told)
    # What was replaced before the first copy began isn't in it.
    missing = set(wanted) - set(told)
    assert set(told) <= set(wanted)
    assert all(any(later[1] == id and later[0] > seq for later in told) for seq, id, _ in missing)
