"""Record tables of a database: made, opened, erased, and their verbs of one transaction each."""

from __future__ import annotations

import gc
import os
import threading
from datetime import date
from typing import Any

import orjson
import pyarrow as pa
import pytest

import firn
from firn.database.database import Database
from firn.database.kinds.records import RecordTables
from firn.errors import (
    ConflictError,
    DuplicateKeyError,
    InvalidInputError,
    NoSuchKeyError,
    NotFoundError,
    StaleObjectError,
    TableExistsError,
    TableNotFoundError,
)
from firn.records.apply.apply import settle
from firn.records.maintain.indexes import IndexInfo
from firn.records.row_tables import RowTable
from firn.records.table import RecordTable
from record_twins import Twins

ROWS = {"ada": ("London", 36), "alan": ("London", 41), "grace": ("New York", 85), "kurt": ("Princeton", None)}


@pytest.fixture
def db(twins: Twins) -> Database:
    return twins.database(firn.connect("memory://"))


@pytest.fixture
def plain() -> Database:
    """Where it makes no difference how verbs are called."""
    return firn.connect("memory://")


@pytest.fixture
def people(db: Database) -> RecordTable:
    table = db.create_table("people", kind="records", indices=["city", firn.Index("email", unique=True)])
    with db.begin() as tx:
        for id, (city, age) in ROWS.items():
            tx.insert("people", id, {"city": city, "age": age})
    return table


def ids(rows: list[firn.Record]) -> list[str]:
    return [row.id for row in rows]


# -- which tables there are


def test_a_record_table_is_listed_opened_and_known_as_such(db: Database, people: RecordTable) -> None:
    db.create_table("events")
    db.create_table("delays", kind="keyed")
    assert db.tables() == ["delays", "events", "people"]
    assert db.tables("records") == ["people"]
    assert db.tables("lake") == ["events"]
    opened = db.table("people", kind="records")
    assert isinstance(opened, RecordTable)
    assert opened.get("ada")["city"] == "London"
    with pytest.raises(InvalidInputError, match="people is a record table"):
        db.table("people", kind="keyed")
    with pytest.raises(InvalidInputError, match="events is a lake table"):
        db.table("events", kind="records")
    with pytest.raises(TableNotFoundError, match="mean 'people'"):
        db.table("peopel")


@pytest.mark.parametrize("kind", ["lake", "keyed", "records"])
def test_kinds_share_their_names(plain: Database, kind: Any) -> None:
    plain.create_table("t", kind="records")
    plain.create_table("l")
    plain.create_table("k", kind="keyed")
    for name in "tlk":
        with pytest.raises(TableExistsError):
            plain.create_table(name, kind=kind)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"merge_operator": "add"}, "merge_operator is for tables of kind 'keyed'"),
        ({"ttl": "1d"}, "ttl is for"),
        ({"partition_by": ["day(t)"]}, "partition_by is for tables of kind 'lake'"),
        ({"journal": "writer"}, "journal is for"),
        ({"key": ["id"]}, "key is for tables of kind 'lake' and 'keyed'"),
        ({"indices": "city"}, "must be a list"),
        ({"indices": ["city", "city"]}, "two indices"),
        ({"isolation": "none"}, "isolation"),
        ({"isolation": "row", "indices": ["city"]}, "no indices"),
        ({"properties": {"target_size": "1MB"}}, "unknown table property"),
    ],
)
def test_what_no_record_table_can_be(plain: Database, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        plain.create_table("t", kind="records", **options)
    assert plain.tables() == []


@pytest.mark.parametrize("options", [{"indices": ["a"]}, {"isolation": "row"}])
def test_options_of_record_tables_are_theirs_alone(plain: Database, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="is for tables of kind 'records'"):
        plain.create_table("t", **options)
    with pytest.raises(InvalidInputError, match="is for tables of kind 'records'"):
        plain.create_table("t", kind="keyed", **options)


def test_a_dropped_table_is_gone_and_another_of_its_name_is_empty(db: Database, people: RecordTable) -> None:
    applied(db)  # else rows may be put back meanwhile, which belong to no table
    old = db.begin()
    planned = db.drop_table("people", dry_run=True)
    assert "ada" in ids(people.scan())
    assert db.drop_table("people").objects == planned.objects
    assert db.tables() == []
    with pytest.raises(TableNotFoundError):
        db.table("people")
    with pytest.raises(TableNotFoundError):
        people.get("ada")
    with pytest.raises(TableNotFoundError):
        db.drop_table("people")
    again = db.create_table("people", kind="records", indices=["city"])
    assert again.scan() == []
    assert again.find(city="London") == []
    again.insert("ada", {"city": "Ockham"})
    assert ids(again.find(city="Ockham")) == ["ada"]
    with pytest.raises((NotFoundError, StaleObjectError)):
        old.update("people", "alan", {})
        old.commit()


def test_a_dropped_table_is_not_read_as_empty(db: Database, people: RecordTable) -> None:
    """Its rows are gone: at a commit that had them, and in a transaction that began before, there are none left."""
    old = db.begin()
    assert old.get("people", "ada") is not None
    db.drop_table("people")
    db.create_table("people", kind="records").insert("new", {})
    with pytest.raises(TableNotFoundError, match="was dropped"):
        old.get("people", "alan")
    with pytest.raises(TableNotFoundError, match="was dropped"):
        db.sql(f"SELECT * FROM people AT (VERSION => {old.snapshot})")


@pytest.mark.parametrize("kind", ["lake", "keyed"])
def test_another_kind_may_have_the_name_of_a_dropped_table_and_the_other_way_round(
    db: Database, people: RecordTable, kind: Any
) -> None:
    db.drop_table("people")
    db.create_table("people", kind=kind)
    assert db.tables(kind) == ["people"]
    db.drop_table("people")
    again = db.create_table("people", kind="records")
    assert again.scan() == []
    # Whoever still deletes the first table's rows must not meet these.
    assert again.definition.generation == 2
    again.insert("ada", {})
    assert [info.key for info in applied(db).bucket.list("people/data~2/").objects] == [
        "people/data~2/ada.json"
    ]


def applied(db: Database) -> Database:
    """With all commits in rows and indices, and no thread that may put them there once more."""
    db._records.session._close_at_exit()
    settle(db._records.session.store)
    return db


def test_who_deletes_a_dropped_table_late_spares_the_next_one(db: Database, people: RecordTable) -> None:
    applied(db)
    definition = people.definition
    db.drop_table("people")
    again = db.create_table("people", kind="records", indices=["city"])
    again.insert("ada", {"city": "Ockham"})
    applied(db)
    db._records.erase(definition)
    fresh = RecordTables(db.bucket, db.prefix, db.url).open(again.definition)
    assert isinstance(fresh, RecordTable)
    assert ids(fresh.find(city="Ockham")) == ["ada"]


# -- one row


def test_etags_in_and_out(people: RecordTable) -> None:
    etag = people.insert("emmy", {"city": "Erlangen"})
    assert people.get("emmy").etag == etag
    newer = people.update("emmy", {"city": "Göttingen"}, etag=etag)
    assert newer != etag
    with pytest.raises(StaleObjectError) as stale:
        people.update("emmy", {"city": "Moscow"}, etag=etag)
    assert stale.value.current["city"] == "Göttingen" and stale.value.lasting
    with pytest.raises(StaleObjectError):
        people.delete("emmy", etag=etag)
    newest = people.upsert("emmy", {**people.get("emmy"), "age": 53}, etag=newer)
    assert people.get("emmy").document == {"city": "Göttingen", "age": 53}
    people.delete("emmy", etag=newest)
    people.delete("emmy", etag="")
    with pytest.raises(NoSuchKeyError):
        people.get("emmy")
    with pytest.raises(NoSuchKeyError):
        people.update("emmy", {})
    with pytest.raises(NoSuchKeyError):
        people.delete("emmy")


def test_two_rows_of_one_id_or_of_one_unique_value_cannot_be(people: RecordTable) -> None:
    with pytest.raises(DuplicateKeyError, match="ada"):
        people.insert("ada", {})
    people.insert("emmy", {"email": "e@x"})
    with pytest.raises(DuplicateKeyError, match="e%40x"):
        people.insert("other", {"email": "e@x"})


def test_documents_follow_the_schema(db: Database) -> None:
    typed = db.create_table(
        "typed", kind="records", schema=pa.schema({"born": pa.date32()}), indices=["born"]
    )
    typed.insert("ada", {"born": date(1815, 12, 10)})
    assert typed.get("ada")["born"] == date(1815, 12, 10)
    assert ids(typed.find(born=firn.Range(date(1800, 1, 1), date(1816, 1, 1)))) == ["ada"]
    with pytest.raises(InvalidInputError, match="born"):
        typed.insert("alan", {"born": "soon"})
    formed = db.create_table("formed", kind="records", schema={"type": "object", "required": ["n"]})
    with pytest.raises(InvalidInputError, match="'n'"):
        formed.insert("a", {})


# -- many rows


def test_find_orders_and_pages(people: RecordTable) -> None:
    found = people.find(city=firn.Range("", None), order_by="age desc", limit=2)
    assert ids(found) == ["grace", "alan"]
    rest = people.find(city=firn.Range("", None), order_by="age desc", after=found[-1])
    assert ids(rest) == ["ada", "kurt"]
    assert ids(people.find(city=firn.Range("", None), order_by="age desc", after="alan")) == ["ada", "kurt"]
    assert ids(people.find({"city": "London"}, age=41)) == ["alan"]
    assert ids(people.find(city=firn.Prefix("N"))) == ["grace"]


def test_scan_pages_by_id(people: RecordTable) -> None:
    first = people.scan(limit=3)
    assert ids(first) == ["ada", "alan", "grace"]
    assert ids(people.scan(limit=3, after=first[-1])) == ["kurt"]
    assert ids(people.scan(after="alan", order_by=["city", "_id desc"], limit=2)) == ["ada", "grace"]
    assert ids(people.scan(age=None)) == ["kurt"]
    assert (people.count(), people.count(city="London")) == (4, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": True}, "limit"),
        ({"order_by": 3}, "order_by"),
        ({"order_by": [""]}, "order_by"),
        ({"after": 7}, "after"),
    ],
)
def test_what_no_page_can_be(people: RecordTable, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        people.scan(**options)


def test_rows_cannot_be_ordered_by_lists(people: RecordTable) -> None:
    people.insert("emmy", {"age": [1]})
    with pytest.raises(InvalidInputError, match="'emmy'"):
        people.scan(order_by="age")


def test_find_names_the_indices_that_there_are(people: RecordTable) -> None:
    with pytest.raises(InvalidInputError, match=r"\(city, email\)"):
        people.find(age=41)


def test_rows_become_arrow(db: Database, people: RecordTable) -> None:
    table = people.scan().to_arrow()
    assert table.column_names[0] == "_id"
    assert table.to_pylist()[3] == {"_id": "kurt", "city": "Princeton", "age": None}
    assert people.find(city="nowhere").to_arrow().schema.names == ["_id"]
    typed = db.create_table("typed", kind="records", schema=pa.schema({"born": pa.date32(), "n": pa.int32()}))
    assert typed.scan().to_arrow().schema.types == [pa.string(), pa.date32(), pa.int32()]
    typed.insert("ada", {"born": date(1815, 12, 10)})
    assert typed.scan().to_arrow().to_pylist() == [{"_id": "ada", "born": date(1815, 12, 10), "n": None}]


def test_indices_come_and_go(people: RecordTable) -> None:
    people.create_index("age")
    assert ids(people.find(age=firn.Range(40, 50))) == ["alan"]
    assert IndexInfo("age", unique=False, ready=True) in people.indices()
    with pytest.raises(ConflictError):
        people.create_index("age")
    people.drop_index("age")
    with pytest.raises(InvalidInputError):
        people.find(age=41)
    with pytest.raises(NotFoundError):
        people.drop_index("age")
    with pytest.raises(DuplicateKeyError):
        people.create_index("city", unique=True) if people.drop_index("city") else None
    assert [index.field for index in people.indices()] == ["email"]


# -- tables of single rows


def test_a_table_of_single_rows(db: Database) -> None:
    stock = db.create_table("stock", kind="records", isolation="row")
    assert isinstance(stock, RowTable)
    etag = stock.insert("DTW", {"planes": 3})
    stock.update("DTW", {"planes": 2}, etag=etag)
    assert db.table("stock").get("DTW")["planes"] == 2
    for name in ("changes", "find", "create_index", "drop_index", "sweep"):
        with pytest.raises(InvalidInputError, match="no indices"):
            getattr(stock, name)("planes")
    assert not hasattr(stock, "append")
    tx = db.begin()
    for verb in (tx.get, tx.delete):
        with pytest.raises(InvalidInputError, match="isolation='row'"):
            verb("stock", "DTW")
    db.drop_table("stock")
    again = db.create_table("stock", kind="records", isolation="row")
    with pytest.raises(NoSuchKeyError):
        again.get("DTW")


# -- sessions


def test_threads_share_a_view_of_the_log_and_count_right(db: Database) -> None:
    counters = db.create_table("counters", kind="records")
    counters.insert("n", {"n": 0})

    def more() -> None:
        for _ in range(5):
            db.transact(lambda tx: tx.update("counters", "n", {"n": tx.get("counters", "n")["n"] + 1}))

    threads = [threading.Thread(target=more) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.get("n")["n"] == 20


def test_commits_are_applied_in_the_background(db: Database, people: RecordTable) -> None:
    applier = db._records.session._applier
    assert applier is not None and applier._thread is not None and applier._thread.running
    applier.finish(10.0)
    store = db._records.session.store
    assert store.log.pending() == []
    assert store.log.store.horizon().applied == store.log.head().number
    rows = [info.key for info in db.bucket.list("people/data/").objects]
    assert len(rows) == len(ROWS)


def test_the_applier_ends_with_its_database() -> None:
    db = firn.connect("memory://")
    db.create_table("t", kind="records").insert("a", {})
    thread = db._records.session._applier._thread._thread  # type: ignore[union-attr]
    assert thread.is_alive()
    del db
    for _ in range(100):  # a call under way holds it
        gc.collect()
        thread.join(0.1)
        if not thread.is_alive():
            break
    assert not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_sees_the_log_for_itself(tmp_path: Any) -> None:
    db = firn.connect(tmp_path)
    table = db.create_table("t", kind="records")
    table.insert("a", {"by": "parent"})
    before = db._records.session.store
    db._records.session._orphaned()
    assert db._records.session.store is not before
    table.insert("b", {"by": "child"})
    assert ids(table.scan()) == ["a", "b"]


def test_the_definition_says_ready_once_the_log_knows_the_table(db: Database, people: RecordTable) -> None:
    key = "people/_firn/table.json"
    assert orjson.loads(db.bucket.get(key).data)["state"] == "ready"
