"""The table of advice: record tables."""

from __future__ import annotations

from datetime import date

import pytest

import firn
from advice import advises
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.inspect.fsck.fsck import check
from firn.records.apply.apply import settle
from firn.records.table import RecordTable
from firn.testing import SimStore
from record_stores import PREFIX
from record_stores import Database as Records
from record_worlds import World, put
from regressions.test_records_07_damaged_row import Database as Damaged


@pytest.fixture
def db(tmp_path) -> firn.Database:
    return firn.connect(str(tmp_path / "db"))


def _damaged(db, tmp_path, **options):
    """A table with a row `ada` whose object is damaged."""
    people = db.create_table("people", kind="records", **options)
    people.insert("ada", {"born": 1815})
    if not options:
        settle(people.session.store)
    path = tmp_path / "db" / "people" / "data" / "ada.json"
    path.write_bytes(path.read_bytes()[:-2])
    return firn.connect(str(tmp_path / "db")).table("people")


def test_a_damaged_row_is_repaired_from_the_log(db, tmp_path):
    people = _damaged(db, tmp_path)
    with advises("`firn records repair TABLE ID` puts back", names="people/data/ada.json") as advice:
        people.get("ada")
    advice.follow(TABLE=str(tmp_path / "db" / "people"), ID="ada")
    assert firn.connect(str(tmp_path / "db")).table("people").get("ada")["born"] == 1815


def test_a_damaged_row_is_put_anew(db, tmp_path):
    people = _damaged(db, tmp_path)
    with advises("A row that is put anew, as by upsert, is whole", names="people/data/ada.json"):
        people.get("ada")
    people.upsert("ada", {"born": 1816})
    settle(people.session.store)
    assert firn.connect(str(tmp_path / "db")).table("people").get("ada")["born"] == 1816


def test_a_damaged_row_without_a_log_is_let_go(db, tmp_path):
    people = _damaged(db, tmp_path, isolation="row")
    with advises("let the row go: `firn records repair TABLE ID --forget`", names="ada.json") as advice:
        people.get("ada")
    advice.follow(TABLE=str(tmp_path / "db" / "people"), ID="ada")
    people.insert("ada", {"born": 1815})
    assert people.get("ada")["born"] == 1815


def test_a_lost_row_is_repaired_from_the_log(db, tmp_path):
    people = db.create_table("people", kind="records")
    people.insert("ada", {"born": 1815})
    settle(people.session.store)
    (tmp_path / "db" / "people" / "data" / "ada.json").unlink()
    with advises("puts back what the log has of the row", names="people/data/ada.json") as advice:
        people.get("ada")
    advice.follow(TABLE=str(tmp_path / "db" / "people"), ID="ada")
    assert firn.connect(str(tmp_path / "db")).table("people").get("ada")["born"] == 1815


def test_a_lost_row_that_the_log_has_forgotten_is_put_anew():
    store = SimStore()
    clock = store.bucket().clock
    tables = RecordTables(store.bucket(), "db", "sim://db", clock=clock, background=False)
    people = tables.create(tables.describe("people", RecordOptions(indices=["born"])))
    people.insert("ada", {"born": 1815})
    for n in range(3):
        people.upsert("bob", {"born": n})
        store.time.advance(60_000)
    people.sweep("30s", "1s")
    store.time.advance(60_000)
    people.sweep("30s", "1s")  # and the packs
    store.bucket().delete("db/people/data/ada.json")
    other = RecordTables(store.bucket(), "db", "sim://db", clock=clock, background=False)
    people = other.open(people.definition)
    with advises("Copy the object back from a backup, put the row anew with upsert", names="data/ada.json"):
        people.repair_rows(["ada"])
    people.upsert("ada", {"born": 1816})
    people.repair_rows(["ada"])
    assert [row.id for row in people.find(born=1816)] == ["ada"]


# -- the log


def test_a_copy_whose_changes_were_swept_goes_to_a_new_target():
    db = firn.connect("memory://")
    stock = db.create_table("stock", kind="records")
    stock.insert("a", {"n": 1})
    first = int(db.copy("stock", "target", changes=True).upto)
    for n in range(3):
        stock.upsert("a", {"n": n})
    log = stock.session.store.log
    settle(stock.session.store)
    db.bucket.delete(log.store.layout.record_key(first + 1))
    del log._records[first + 1]
    with advises("now drop the target, or take another, and copy all anew", names=["stock", "target"]):
        db.copy("stock", "target", changes=True)
    assert db.copy("stock", "other", changes=True).rows == 1
    db.drop_table("target")
    assert db.copy("stock", "target", changes=True).rows == 1
    stock.upsert("a", {"n": 9})
    assert db.copy("stock", "target", changes=True).rows == 1


def test_a_damaged_cursor_is_copied_back_or_deleted_with_the_target():
    for follow in ("copy", "anew"):
        db = firn.connect("memory://")
        stock = db.create_table("stock", kind="records")
        stock.insert("a", {"n": 1})
        db.copy("stock", "target", changes=True)
        key = stock.definition.layout(stock.prefix).copy("target")
        body = db.bucket.get(key).data
        db.bucket.put(key, b"{}")
        with advises("or delete it and the target table, and copy all anew", names=key):
            db.copy("stock", "target", changes=True)
        if follow == "copy":
            db.bucket.put(key, body)
        else:
            db.bucket.delete(key)
            db.drop_table("target")
        stock.insert("b", {"n": 2})
        assert db.copy("stock", "target", changes=True).rows == (1 if follow == "copy" else 2)
        assert db.table("target").scan().count() == 2


def test_changes_that_are_swept_go_on_from_now():
    world = World()
    table = world.create("t")
    first = put(table, {"a": {}})
    for n in range(3):
        put(table, {"a": {"n": n}})
    for _ in range(2):
        world.age(3600)
        put(table, {"b": {}})
        world.age(3600)
        table.sweep(older_than=60, orphans=60)
    fresh = world.open(table)
    with advises("Read the table as it is now, and its changes from", names=f"committed after {first}"):
        list(fresh.changes(str(first)))
    now = fresh.changes().version
    assert fresh.get("b") is not None
    last = put(table, {"c": {}})
    assert [change.seq for change in fresh.changes(now)] == [last]


def test_changes_of_a_table_that_was_made_again_begin_with_it():
    db = firn.connect("memory://")
    version = db.create_table("t", kind="records").changes().version
    db.drop_table("t")
    new = db.create_table("t", kind="records")
    new.insert("b", {"n": 2})
    with advises(
        "since=None gives all that there are", names=["t was created", f"commit {version}"]
    ) as advice:
        new.changes(version)
    assert "Read the table as it is now, and its changes from there" in advice.text
    assert [change.id for change in new.changes(since=None)] == ["b"]
    assert list(new.changes(new.changes().version)) == []


def test_a_version_is_noted_when_it_is_needed():
    table = firn.connect("memory://").create_table("t", kind="records")
    with advises(
        "note a version (`changes().version`, or what `commit` returned)", names="since='2026-01-01'"
    ):
        table.changes("2026-01-01")
    noted = table.changes().version
    table.insert("a", {"n": 1})
    assert [change.id for change in table.changes(noted)] == ["a"]


def test_a_log_with_gaps_is_copied_back():
    world = World()
    table = world.create("t")
    numbers = [put(table, {"a": {"n": n}}) for n in range(6)]
    record_key = table.session.store.log.store.layout.record_key
    lost = {record_key(n): world.store.fetch(record_key(n)).data for n in numbers[1:3]}
    for key in lost:
        world.store.remove(key)
    with advises("aren't in a pack, are missing. Copy ", names=[next(iter(lost)), "and 1 more"]):
        world.open(table).get("a")
    for key, body in lost.items():
        world.store.write(key, body)
    assert world.open(table).get("a")["n"] == 5


# -- rows


def test_a_row_of_another_table_is_copied_back_or_written_anew():
    db = firn.connect("memory://")
    people = db.create_table("people", kind="records", schema={"born": "DATE"}, isolation="row")
    people.insert("ada", {"born": date(1815, 12, 10)})
    db.create_table("ships", kind="records", schema={"born": "VARCHAR"}, isolation="row").insert(
        "ada", {"born": "?"}
    )
    key = "people/data/ada.json"
    body = db.bucket.get(key).data
    for follow in ("copy", "write"):
        db.bucket.put(key, db.bucket.get("ships/data/ada.json").data)
        with advises("from a backup, or write the row anew.", names=["people", "ada"]):
            dict(people.get("ada"))
        if follow == "copy":
            db.bucket.put(key, body)
        else:
            people.upsert("ada", {"born": date(1815, 12, 10)})
        assert people.get("ada")["born"] == date(1815, 12, 10)


def test_a_table_by_itself_knows_no_spark(db):
    people = db.create_table("people", kind="records")
    alone = RecordTable(people.bucket, people.prefix, people.definition, people.session)
    with advises("was made without a database: get it by firn.connect(…).table(…)", names="people"):
        alone.to_spark()
    assert db.table("people").engines is not alone.engines


def test_a_damaged_lock_is_deleted():
    db = Records()
    db.put(a={"n": 1})
    db.begin(lock=True).update("t", "a", {"n": 2})
    [path] = [path for path in db.paths() if "/locks" in path]
    db.bucket().put(f"{PREFIX}/{path}", b"{")
    with advises("Delete it: it protects nothing that commits don't", names=path):
        db.begin(lock=True).update("t", "a", {"n": 3})
    db.bucket().delete(f"{PREFIX}/{path}")
    with db.begin(lock=True) as tx:
        tx.update("t", "a", {"n": 3})
    assert db.begin().get("t", "a")["n"] == 3


def test_rows_that_change_one_by_one_are_in_no_transaction(db):
    rows = db.create_table("rows", kind="records", isolation="row")
    with db.begin() as tx, advises("Use the verbs of db.table(", names="'rows'"):
        tx.insert("rows", "a", {"n": 1})
    rows.insert("a", {"n": 1})
    db.create_table("stock", kind="records", isolation="snapshot")
    with db.begin() as tx:
        tx.insert("stock", "a", {"n": 1})
    assert (rows.get("a")["n"], db.table("stock").get("a")["n"]) == (1, 1)


def test_a_lost_row_is_copied_back_put_anew_or_deleted():
    for follow in ("copy", "upsert", "forget"):
        db = Damaged()
        db.t.insert("a", {"n": 1})
        db.settle()
        db.age(60)
        db.t.insert("c", {"n": 1})
        db.sweep(db.t)
        db.age(8 * 86_400)
        db.t.upsert("c", {"n": 1})
        db.sweep(db.t)
        db.t = db.fresh()
        body = db.store.fetch("db/t/data/a.json").data
        db.damage("a")
        with advises(
            "Copy the object back from a backup, put the row anew with upsert, or", names="t/data/a.json"
        ):
            db.t.repair_rows(["a"])
        if follow == "copy":
            db.store.bucket("backup").put("db/t/data/a.json", body)
        elif follow == "upsert":
            db.t.upsert("a", {"n": 1})
        else:
            db.t.repair_rows(["a"], forget=True)
        db.tables = db.process()
        assert [row.id for row in db.fresh().scan()] == (["c"] if follow == "forget" else ["a", "c"])
        assert db.fresh().repair_rows(["a", "c"]).forgotten == ()


def test_a_damaged_staged_document_is_copied_back_or_written_anew():
    for follow in ("copy", "write"):
        db = Records(properties={"inline": "20B"})
        db.put(a={"n": 1, "text": "x" * 100})
        [path] = db.paths("_firn/bodies/")
        body = db.simulated.fetch(f"{PREFIX}/{path}").data
        db.bucket().put(f"{PREFIX}/{path}", body.replace(b"xx", b"xy", 1))
        with advises("isn't the document that was put there", names=path):
            db.begin().get("t", "a")
        if follow == "copy":
            db.bucket().put(f"{PREFIX}/{path}", body)
        else:
            db.put(a={"n": 1, "text": "x" * 100})
        assert db.begin().get("t", "a")["n"] == 1


def test_a_lost_horizon_is_copied_back():
    db = Damaged()
    for n in range(5):
        db.t.upsert("a", {"n": n})
    db.settle()
    db.age(60)
    db.sweep(db.t)
    assert db.log.store.horizon().lo > 2
    bucket, key = db.store.bucket(), "db/_firn/horizon"
    body = bucket.get(key).data
    bucket.delete(key)
    new = db.tables.describe("new", RecordOptions())
    for verb in (lambda: db.fresh().get("a"), lambda: db.process().create(new)):
        with advises("Copy back from a backup what it has of the two", names=key):
            verb()
    bucket.put(key, body)
    assert db.fresh().get("a")["n"] == 4


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
@pytest.mark.parametrize("again", [False, True], ids=["copied back", "said again"])
def test_a_lost_definition_is_copied_back_or_said_again(db, isolation, again):
    options = {"kind": "records", "isolation": isolation, "schema": {"n": "BIGINT"}}
    table = db.create_table("t", **options)
    table.insert("a", {"n": 1})
    if isinstance(table, RecordTable):
        settle(table.session.store)
    key = "t/_firn/table.json"
    body = db.bucket.get(key).data
    db.bucket.delete(key)
    verbs = [lambda: db.table("t"), lambda: db.drop_table("t")]
    for verb in verbs:
        with advises("which raises TableExistsError and keeps ", names=key):
            verb()
    (problem,) = check(db).problems
    assert key in str(problem)
    if again:
        with pytest.raises(firn.TableExistsError):
            db.create_table("t", **options)
    else:
        db.bucket.put(key, body)
    assert [dict(row) for row in db.table("t").scan()] == [{"_id": "a", "n": 1}]
    assert check(db).problems == ()


# -- altered tables


def test_a_column_is_renamed_by_changing_documents(db):
    people = db.create_table("people", kind="records", schema={"born": "INTEGER"})
    people.insert("ada", {"born": 1815})
    with advises(" is added before, by alter(add=…), ", names="people"):
        people.alter(rename={"born": "year"})
    people.alter(add={"year": "INTEGER"})
    db.sql("UPDATE people SET year = born")
    people.alter(drop=["born"])
    assert people.get("ada").document == {"year": 1815}


def test_a_default_is_written_into_documents(db):
    people = db.create_table("people", kind="records", schema={"born": "INTEGER"})
    people.insert("ada", {"born": 1815})
    with advises("with its type alone, and write the value into the documents, like UPDATE", names="people"):
        people.alter(add={"city": ("VARCHAR", "London")})
    people.alter(add={"city": "VARCHAR"})
    db.sql("UPDATE people SET city = 'London'")
    assert people.get("ada")["city"] == "London"


def test_documents_without_columns_follow_a_json_schema(db):
    people = db.create_table("people", kind="records")
    with advises("A JSON schema says what they hold, by alter(schema=…)", names="people"):
        people.alter(add={"born": "INTEGER"})
    people.alter(schema={"properties": {"born": {"type": "integer"}}})
    with pytest.raises(firn.InvalidInputError):
        people.insert("ada", {"born": "1815"})


def test_the_index_of_a_column_is_dropped_first(db):
    people = db.create_table(
        "people", kind="records", schema={"born": "INTEGER", "n": "INTEGER"}, indices=["born"]
    )
    with advises("Drop the index first, by drop_index(", names=["people", "born"]):
        people.alter(drop=["born"])
    people.drop_index("born")
    assert people.alter(drop=["born"]).changes == ("drop born",)


def test_a_type_that_takes_nothing_in_goes_by_another_column(db):
    people = db.create_table("people", kind="records", schema={"born": "VARCHAR"})
    people.insert("ada", {"born": "1815"})
    with advises("or add another column, change the documents, and drop this one", names=["people", "born"]):
        people.alter(types={"born": "INTEGER"})
    people.alter(add={"year": "INTEGER"})
    db.sql("UPDATE people SET year = CAST(born AS INTEGER)")
    people.alter(drop=["born"])
    assert people.get("ada").document == {"year": 1815}


def test_rows_that_do_not_follow_are_mended_or_left(db):
    for follow in ("mend", "leave"):
        people = db.create_table(f"people_{follow}", kind="records")
        people.insert("ada", {"born": "1815"})
        strict = {"properties": {"born": {"type": "integer"}}}
        with advises("mend the row, or alter without validate", names="ada"):
            people.alter(schema=strict, validate=True)
        if follow == "mend":
            people.upsert("ada", {"born": 1815})
        assert people.alter(schema=strict, validate=follow == "mend").changes == ("schema",)
