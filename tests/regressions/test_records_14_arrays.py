"""Fields that hold lists couldn't be indexed. An index with `each=True` has an entry for each different element."""

from __future__ import annotations

from dataclasses import replace

import pytest

import firn
from firn import Contains, Index, Prefix, Range
from firn.inspect.fsck.fsck import check as fsck
from firn.journal.sequence import codec
from firn.records.apply.apply import settle
from firn.records.definition import definition
from firn.records.definition.definition import RecordDefinition
from firn.records.maintain.collection import collect, sweep
from firn.records.maintain.indexes import build_index, drop_index
from firn.records.write.transaction import begin
from record_stores import Database, spent

POSTS = {
    "1": {"tags": ["sea", "sun"], "by": "ada"},
    "2": {"tags": ["sun", "sun", None], "by": "bob"},
    "3": {"tags": []},
    "4": {},
    "5": {"tags": [3, 4.5, True, "seal"], "by": "ada"},
}
ASKED = [
    ("sun", ["1", "2"]),
    ("nothing", []),
    (None, ["2"]),
    (3.0, ["5"]),
    (True, ["5"]),
    (Prefix("sea"), ["1", "5"]),
    (Prefix(""), ["1", "2", "5"]),
    (Range(4, 5), ["5"]),
    (Range("sea", "seb"), ["1", "5"]),
    (Range("a"), ["1", "2", "5"]),
]


@pytest.fixture(params=["created", "built", "not applied"])
def posts(db, request):
    """With an index that was there before the rows, or came later."""
    before = [] if request.param == "built" else [Index("tags", each=True), "by"]
    table = db.create_table("posts", kind="records", indices=before)
    table.insert_many(POSTS)
    if request.param == "built":
        table.create_index("tags", each=True)
        table.create_index("by")
    if request.param == "created":
        settle(table.session.store)
    return table


def ids(rows):
    return [row.id for row in rows]


@pytest.mark.parametrize(("element", "found"), ASKED)
def test_rows_are_found_by_the_elements_of_a_list(posts, element, found):
    assert ids(posts.find(tags=Contains(element))) == ids(posts.scan(tags=Contains(element))) == found
    assert posts.count(tags=Contains(element)) == len(found)
    assert sorted(row.id for row in posts.stream(tags=Contains(element))) == found


def test_a_search_goes_on_by_other_fields_and_in_pages(posts):
    assert ids(posts.find(tags=Contains("sun"), by="ada")) == ["1"]
    assert ids(posts.find(tags=Contains(Prefix("")), order_by="by desc")) == ["2", "1", "5"]
    first = posts.find(tags=Contains(Prefix("s")), limit=1)
    assert ids(posts.find(tags=Contains(Prefix("s")), limit=1, after=first[-1])) == ["2"]
    assert ids(posts.find(tags=Contains(Prefix("s")), _id=Range("2"))) == ["2", "5"]


def test_changed_rows_are_found_by_what_they_have_now(posts):
    posts.update("1", {"tags": ["sun", "rain"]})
    posts.delete("2")
    for look in (posts.find, posts.scan):
        assert ids(look(tags=Contains("sea"))) == ids(look(tags=Contains(None))) == []
        assert ids(look(tags=Contains("sun"))) == ids(look(tags=Contains("rain"))) == ["1"]


def test_a_transaction_finds_its_own_writes(db, posts):
    with db.begin() as tx:
        tx.update("posts", "3", {"tags": ["sun"]})
        tx.update("posts", "1", {"tags": ["sea"]})
        assert ids(tx.find("posts", tags=Contains("sun"))) == ["2", "3"]
        assert tx.count("posts", tags=Contains("sun")) == 2


def test_a_serializable_transaction_fails_by_a_new_element(db, posts):
    with (
        pytest.raises(firn.StaleObjectError, match="among what this transaction looked for"),
        db.begin(serializable=True) as tx,
    ):
        assert ids(tx.find("posts", tags=Contains("rain"))) == []
        posts.insert("6", {"tags": ["rain", "sun"]})
        tx.insert("posts", "7", {})
    with db.begin(serializable=True) as tx:
        assert ids(tx.find("posts", tags=Contains("snow"))) == []
        posts.insert("8", {"tags": ["rain"]})
        tx.insert("posts", "7", {})
    assert posts.get("7") == {"_id": "7"}


def test_equality_is_not_asked_of_elements(posts):
    """Lists match no value, with an index of their elements as without."""
    assert ids(posts.scan(tags="sun")) == []
    with pytest.raises(
        firn.InvalidInputError, match=r"needs a field that is indexed \(by, tags by Contains\)"
    ):
        posts.find(tags="sun")
    with pytest.raises(firn.InvalidInputError, match="needs a field that is indexed"):
        posts.find(by=Contains("ada"))
    assert ids(posts.find(by="ada", tags=None)) == []


def test_an_index_of_elements_gives_no_order(posts):
    with pytest.raises(firn.InvalidInputError, match="order_by 'tags'"):
        posts.scan(order_by="tags", limit=1)
    assert ids(posts.find(tags=Contains("sun"), order_by="by", limit=1)) == ["1"]


@pytest.mark.parametrize("value", ["sun", 1, {"a": 1}, [["sun"]], list(range(101))])
def test_what_is_no_list_of_values_is_refused(posts, value):
    with pytest.raises(firn.InvalidInputError, match=r"posts\['6'\] has .* at tags"):
        posts.insert("6", {"tags": value})


def test_a_build_over_what_it_cant_hold_leaves_no_index(db):
    table = db.create_table("t", kind="records")
    table.insert("a", {"tags": "sun"})
    with pytest.raises(firn.InvalidInputError, match="give a list"):
        table.create_index("tags", each=True)
    assert table.indices() == []
    table.update("a", {"tags": ["sun"]})
    table.create_index("tags", each=True)
    with pytest.raises(firn.ConflictError, match="drop it first"):
        table.create_index("tags")
    assert table.indices() == [firn.IndexInfo("tags", unique=False, ready=True, each=True)]
    assert ids(table.find(tags=Contains("sun"))) == ["a"]


def test_a_build_of_another_kind_is_not_gone_on_with():
    db = Database(plain=False)
    db.put(a={"m": ["x"]})
    store = db.store()
    store.bucket.put_many = lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        build_index(store, "t", "m", each=True)
    with pytest.raises(firn.ConflictError):
        build_index(db.store(), "t", "m")
    build_index(db.store(), "t", "m", each=True)
    assert ids(begin(db.store()).find("t", m=Contains("x"))) == ["a"]


def test_unique_elements(db):
    table = db.create_table("people", kind="records", indices=[Index("emails", unique=True, each=True)])
    table.insert("ada", {"emails": ["a@x", "ada@x", "a@x", None]})
    table.insert("bob", {"emails": ["b@x", None]})
    for emails in (["c@x", "a@x"], ["ada@x"], ["c@x", "b@x"]):
        with pytest.raises(firn.DuplicateKeyError, match="has this value of the unique index already"):
            table.insert("cyd", {"emails": emails})
    with pytest.raises(firn.DuplicateKeyError), db.begin() as tx:
        tx.insert("people", "dee", {"emails": ["d@x"]})
        tx.insert("people", "eve", {"emails": ["e@x", "d@x"]})
    with db.begin() as one, pytest.raises(firn.DuplicateKeyError), db.begin() as other:
        one.insert("people", "dee", {"emails": ["d@x", "dee@x"]})
        other.insert("people", "eve", {"emails": ["eve@x", "d@x"]})
        one.commit()
    table.update("ada", {"emails": ["ada@x", "new@x"]})
    table.update("bob", {"emails": ["a@x"]})
    assert ids(table.find(emails=Contains("a@x"))) == ["bob"]
    assert ids(table.find(emails=Contains("d@x"))) == ["dee"]


def test_a_unique_index_is_not_built_over_shared_elements(db):
    table = db.create_table("people", kind="records")
    table.insert_many({"ada": {"emails": ["a@x", "ada@x"]}, "bob": {"emails": ["b@x", "a@x"]}})
    with pytest.raises(firn.DuplicateKeyError, match="a%40x"):
        table.create_index("emails", unique=True, each=True)
    table.update("bob", {"emails": ["b@x"]})
    table.create_index("emails", unique=True, each=True)
    with pytest.raises(firn.DuplicateKeyError):
        table.insert("cyd", {"emails": ["c@x", "ada@x"]})


def test_elements_of_declared_columns(db):
    from datetime import date

    schema = {"days": "DATE[]", "tags": "VARCHAR[]"}
    table = db.create_table("t", kind="records", schema=schema, indices=[Index("days", each=True)])
    table.insert_many({"a": {"days": [date(2026, 1, 31)]}, "b": {"days": [date(2026, 2, 1), None]}})
    assert ids(table.find(days=Contains(date(2026, 2, 1)))) == ["b"]
    assert ids(table.find(days=Contains(Range(date(2026, 1, 1), date(2026, 2, 1))))) == ["a"]
    with pytest.raises(firn.InvalidInputError, match="days"):
        table.find(days=Contains("2026-02-01"))


def test_rows_without_transactions_are_scanned(db):
    table = db.create_table("t", kind="records", isolation="row")
    table.insert("a", {"tags": ["sun"]})
    assert ids(table.scan(tags=Contains("sun"))) == ["a"]


# -- objects


@pytest.fixture
def tagged():
    """Table `s` with an index of the elements of `tags`, in a simulated store."""
    db = Database(plain=False)
    db.create("s", Index("tags", each=True))
    with begin(db.store()) as tx:
        tx.insert("s", "a", {"tags": ["x", "y", "x"]})
        tx.insert("s", "b", {"tags": ["y"]})
    return db


def entries(db, field="tags"):
    keys = db.simulated.keys(f"db/s/indices/{field}/")
    return sorted((key.split("/")[-2], key.split("___")[2], int(key.split("___")[3])) for key in keys)


def test_there_is_an_entry_for_each_element_of_each_version(tagged):
    tagged.apply()
    first = [("x", "a", 3), ("y", "a", 3), ("y", "b", 3)]
    assert entries(tagged) == first
    with begin(tagged.store()) as tx:
        tx.update("s", "a", {"tags": ["y", "z"]})
        tx.delete("s", "b")
    tagged.apply()
    assert entries(tagged) == sorted([*first, ("y", "a", 4), ("z", "a", 4)])
    tagged.put(n={})
    tagged.age(100)
    tagged.put(n={})
    tagged.age(100)
    store = tagged.store()
    settle(store)
    collect(store, retention_s=0)
    sweep(store, orphan_age_s=0)
    assert entries(tagged) == [("y", "a", 4), ("z", "a", 4)]
    assert ids(begin(store).find("s", tags=Contains("y"))) == ["a"]


def test_a_find_costs_a_list_and_a_get_a_row(tagged):
    with begin(tagged.store()) as tx:
        for n in range(30):
            tx.insert("s", f"r{n}", {"tags": ["x", "y", "z", *range(n)]})
    tagged.apply()
    store = tagged.store()
    tx = begin(store)
    assert spent(store, lambda: tx.find("s", tags=Contains(27))) == {"list": 1, "get": 2}
    assert spent(store, lambda: tx.find("s", tags=Contains(Range(1, 28)))) == {"list": 1, "get": 28}


def test_a_build_puts_an_entry_for_each_element():
    db = Database(plain=False)
    db.put(a={"m": ["x", "y", "x"]}, b={"m": ["x"]}, c={"m": []})
    db.apply()
    store = db.store()
    begin(store)
    cost = spent(store, lambda: build_index(store, "t", "m", each=True))
    assert (cost["list"], cost["put"]) == (1, 2 + 3)


def test_an_old_snapshot_finds_what_it_saw(tagged):
    tagged.apply()
    tx = begin(tagged.store())
    with begin(tagged.store()) as other:
        other.update("s", "b", {"tags": ["z"]})
    tagged.apply()
    assert ids(tx.find("s", tags=Contains("y"))) == ["a", "b"]
    assert ids(tx.find("s", tags=Contains("z"))) == []


@pytest.fixture
def older(monkeypatch):
    """A Firn that doesn't know the feature."""

    def become():
        known = codec._ENVELOPES.features - {"each"}
        monkeypatch.setattr(codec, "_ENVELOPES", replace(codec._ENVELOPES, features=known))
        monkeypatch.setattr(definition, "EACH", "something else")
        return monkeypatch

    return become


def test_an_older_firn_refuses_the_index_and_goes_on_after_its_drop(older):
    db = Database(plain=False)
    db.put(a={"m": ["x"]})
    build_index(db.store(), "t", "m", each=True)
    db.put(b={"m": ["x", "y"]})
    db.apply()
    drop_index(db.store(), "t", "m")
    forgets = older()
    with pytest.raises(firn.UnsupportedError, match=r"_commits/.*each"):
        begin(db.store())
    forgets.undo()
    for n in range(2):
        db.put(c={"m": n})
        db.apply()
    older()
    tx = begin(db.store())
    assert tx.get("t", "a")["m"] == ["x"] and tx.get("t", "c")["m"] == 1


def test_every_object_with_the_index_needs_the_feature(tagged):
    tagged.apply()
    with begin(tagged.store()) as tx:
        tx.insert("s", "c", {})
    drop_index(tagged.store(), "s", "tags")
    with begin(tagged.store()) as tx:
        tx.insert("s", "d", {"tags": "anything"})
    store = tagged.store()
    features = [
        b'"features":["each"]' in store.bucket.get(key).data
        for key in sorted(tagged.simulated.keys("db/_commits/"))
    ]
    # `t` was created first; then `s`, by a commit that says so.
    assert features == [False, True, True, True, True, False]


def test_a_definition_with_the_index_needs_the_feature(older):
    plain, each = (
        RecordDefinition("t", indices=(Index("a"),)),
        RecordDefinition("t", indices=(Index("a", each=True),)),
    )
    assert b"each" not in plain.encode()
    assert RecordDefinition.decode(each.encode(), "t") == each
    data = each.encode()
    older()
    with pytest.raises(firn.UnsupportedError, match="t needs each"):
        RecordDefinition.decode(data, "t")


def test_fsck_knows_the_entries_of_elements(tmp_path):
    db = firn.connect(tmp_path)
    table = db.create_table("posts", kind="records", indices=[Index("tags", each=True)])
    table.insert_many(POSTS)
    settle(table.session.store)
    assert fsck(db).findings == ()
    (key,) = (o.key for o in db.bucket.list("posts/indices/tags/").objects if "/sea/" in o.key)
    db.bucket.delete(key)
    (problem,) = fsck(db).problems
    assert problem.object.endswith(key) and "row '1' isn't found by it" in problem.what
    table.drop_index("tags")
    table.create_index("tags", each=True)
    assert fsck(firn.connect(tmp_path)).problems == ()
    assert ids(table.find(tags=Contains("sea"))) == ["1"]


def test_a_repaired_row_is_found_by_its_elements(tmp_path):
    table = firn.connect(tmp_path).create_table("posts", kind="records", indices=[Index("tags", each=True)])
    table.insert_many(POSTS)
    settle(table.session.store)
    (tmp_path / "posts" / "data" / "1.json").write_bytes(b"{}")
    again = firn.connect(tmp_path).table("posts")
    assert again.repair_rows(["1"]).repaired == ("1",)
    assert ids(again.find(tags=Contains("sea"))) == ["1"]
