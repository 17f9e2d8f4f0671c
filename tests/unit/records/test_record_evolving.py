"""Columns and JSON schemas of record tables change: by a commit that conflicts with who judged by the old ones."""

from __future__ import annotations

import uuid
from datetime import date
from decimal import Decimal

import pytest

import firn
from firn.bucket import open_bucket
from firn.journal.sequence import Horizon, truncate
from firn.records.apply.apply import settle
from firn.records.documents.documents import Documents
from firn.records.documents.fields import widens
from firn.records.load.load import load
from firn.records.write.transaction import begin

COLUMNS = {"born": "SMALLINT", "fax": "VARCHAR", "city": "VARCHAR"}


@pytest.fixture
def url():
    return f"memory://{uuid.uuid4().hex}"


@pytest.fixture
def db(url):
    return firn.connect(url)


@pytest.fixture
def people(db):
    table = db.create_table("people", kind="records", schema=COLUMNS)
    table.insert("ada", {"born": 1815, "fax": "none", "city": "London"})
    return table


def test_columns_come_go_and_widen_and_older_commits_are_read_as_they_were(db, url, people):
    before = people.changes().version
    result = people.alter(add={"email": "text"}, drop=["FAX"], types={"born": "BIGINT"})
    assert result.changes == ("drop fax", "add email VARCHAR", "type of born: BIGINT")
    assert result.version == str(int(before) + 1)
    assert people.definition.columns == {"born": "BIGINT", "city": "VARCHAR", "email": "VARCHAR"}
    assert people.get("ada").document == {"born": 1815, "city": "London", "email": None}
    people.upsert("bob", {"born": 2**40, "email": "b@x"})
    for table in (people, firn.connect(url).table("people")):
        assert table.scan().to_arrow().column_names == ["_id", "born", "city", "email"]
        assert [row.id for row in table.scan(born=2**40)] == ["bob"]
        with pytest.raises(firn.InvalidInputError, match="no column 'fax'"):
            table.scan(fax="none")
        with pytest.raises(firn.InvalidInputError, match="the field 'fax', which isn't in"):
            table.upsert("cyd", {"fax": "1"})
    assert db.sql("SELECT * FROM people ORDER BY _id").to_arrow().to_pylist() == [
        {"_id": "ada", "born": 1815, "city": "London", "email": None},
        {"_id": "bob", "born": 2**40, "city": None, "email": "b@x"},
    ]
    then = db.sql(f"SELECT * FROM people AT (VERSION => {before})").to_arrow()
    assert then.to_pylist() == [{"_id": "ada", "born": 1815, "fax": "none", "city": "London"}]
    assert str(then.schema.field("born").type) == "int16"


def test_a_column_that_comes_back_shows_what_documents_still_have(people):
    people.alter(drop=["fax", "born"])
    people.upsert("bob", {"city": "Rome"})
    with pytest.raises(
        firn.InvalidInputError, match=r"had a column 'born' of type SMALLINT.*DATE doesn't take in"
    ):
        people.alter(add={"born": "DATE"})
    assert people.alter(add={"born": "DOUBLE", "fax": "VARCHAR"}).changes == (
        "add born DOUBLE",
        "add fax VARCHAR",
    )
    assert [row.document for row in people.scan()] == [
        {"city": "London", "born": 1815.0, "fax": "none"},
        {"city": "Rome", "born": None, "fax": None},
    ]
    people.upsert("ada", {**people.get("ada"), "fax": None})
    people.alter(drop=["fax"])
    people.alter(add={"fax": "VARCHAR"})
    assert people.get("ada")["fax"] is None


def test_what_changes_nothing_commits_nothing(db, people):
    people.alter(drop=["fax"], comments={"city": "of birth"}, comment="who there was")
    before = people.changes().version
    again = people.alter(
        drop=["fax"], add={"born": "int2"}, types={"city": "VARCHAR"}, comments={"CITY": "of birth"}
    )
    assert (again.version, again.changes) == (before, ())
    assert people.alter(types={"born": "BIGINT"}, dry_run=True).changes == ("type of born: BIGINT",)
    assert people.changes().version == before
    assert people.definition.comments == {"city": "of birth", "": "who there was"}
    assert people.alter(comments={"city": None}, comment="").changes == ("no comment on city", "no comment")
    assert people.definition.comments == {}
    people.alter(comments={"city": "of birth"})
    assert people.alter(drop=["city"]).changes == ("drop city",)
    assert people.definition.comments == {}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "told nothing to change"),
        ({"validate": True}, "told nothing to change"),
        ({"add": {"_id": "VARCHAR"}}, "_id is a row's id"),
        ({"add": {"born": "BIGINT"}}, "has a column 'born' already, which is SMALLINT"),
        ({"add": {"Born": "SMALLINT"}}, "has a column 'born' already"),
        ({"add": {"x": "VARCHAR", "X": "VARCHAR"}}, "case"),
        ({"add": {"x": "HUGEINT"}}, "a document can't hold HUGEINT"),
        ({"add": {"x": "NO SUCH("}}, "isn't a DuckDB type name"),
        ({"add": {"x": 5}}, "give a type"),
        ({"drop": ["nobody"]}, "has no column 'nobody'"),
        ({"drop": ["_id"]}, "_id is a row's id"),
        ({"drop": ["born", "fax", "city"]}, "'city' is its last column"),
        ({"drop": ["born"], "add": {"born": "BIGINT"}}, "can't be added and dropped"),
        ({"drop": ["born"], "types": {"born": "BIGINT"}}, "can't be dropped and get another type"),
        ({"types": {"born": "TINYINT"}}, "SMALLINT in its documents, and TINYINT doesn't take that in"),
        ({"types": {"born": "FLOAT"}}, "FLOAT doesn't take that in"),
        ({"types": {"city": "BIGINT"}}, "BIGINT doesn't take that in"),
        ({"types": {"_id": "BIGINT"}}, "_id is a row's id"),
        ({"types": {"nobody": "BIGINT"}}, "has no column 'nobody'"),
        ({"types": {"born": 5}}, "a dict of texts by name"),
        ({"comments": {"nobody": "x"}}, "has no column 'nobody'"),
        ({"comments": {"born": 5}}, "give a text"),
        ({"schema": {"type": "object"}}, "declares columns"),
        ({"schema": {"x": "VARCHAR"}}, "declares columns"),
        ({"set_properties": {"codec": "zstd"}}, "unknown table property 'codec'"),
        ({"add": {"x": "VARCHAR"}, "set_properties": {"inline": "much"}}, "much"),
        ({"add": {"x" * (1 << 20): "VARCHAR"}}, "too large"),
        ({"add": {"\ud800": "VARCHAR"}}, "half a surrogate pair"),
        ({"comments": {"born": "\ud800"}}, "can't be stored"),
    ],
)
@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_what_cannot_be_is_refused_before_anything_is_written(db, url, isolation, asked, said):
    table = db.create_table("t", kind="records", isolation=isolation, schema=COLUMNS)
    before = [(info.key, info.etag) for info in open_bucket(url).list("").objects]
    with pytest.raises(firn.InvalidInputError, match=said):
        table.alter(**asked)
    assert [(info.key, info.etag) for info in open_bucket(url).list("").objects] == before


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_what_documents_do_not_allow_is_refused_with_a_way_out(db, isolation):
    table = db.create_table("t", kind="records", isolation=isolation, schema=COLUMNS)
    with pytest.raises(firn.UnsupportedError, match="documents name their fields"):
        table.alter(rename={"born": "year"})
    with pytest.raises(firn.UnsupportedError, match="has no default"):
        table.alter(add={"x": ("VARCHAR", "?")})
    open_one = db.create_table("u", kind="records", isolation=isolation)
    for asked in ({"add": {"x": "VARCHAR"}}, {"drop": ["x"]}, {"types": {"x": "VARCHAR"}}):
        with pytest.raises(firn.InvalidInputError, match="declares no columns"):
            open_one.alter(**asked)
    with pytest.raises(firn.InvalidInputError, match="declares no columns to comment on"):
        open_one.alter(comments={"x": "y"})
    with pytest.raises(firn.InvalidInputError, match="isn't a JSON schema"):
        open_one.alter(schema={"x": "VARCHAR"})
    with pytest.raises(firn.InvalidInputError, match="isn't a JSON schema"):
        open_one.alter(schema={})
    with pytest.raises(firn.InvalidInputError, match="not a JSON schema"):
        open_one.alter(schema={"type": "object", "properties": 5})


VALUES = {
    "TINYINT": -128,
    "BIGINT": 2**63 - 1,
    "UBIGINT": 2**64 - 1,
    "BOOLEAN": True,
    "FLOAT": 0.5,
    "DOUBLE": 1e300,
    "VARCHAR": "1",
    "DATE": date(2026, 1, 31),
    "BLOB": b"\0a",
    "DECIMAL(5,2)": Decimal("123.45"),
    "DECIMAL(20,0)": Decimal(10**19),
    "DECIMAL(38,2)": Decimal(10**35),
    "BIGINT[]": [1, None],
    "VARCHAR[]": ["x"],
    "STRUCT(a TINYINT)": {"a": 1},
    "STRUCT(a BIGINT, b DATE)": {"a": 1, "b": date(2026, 1, 1)},
    "STRUCT(a BIGINT, b DATE)[]": [{"a": 1}],
    "STRUCT(a TINYINT)[]": [{"a": 1}],
    "MAP(VARCHAR, TINYINT)": {"x": 1},
    "MAP(VARCHAR, DOUBLE)": {"x": 1.5},
}


@pytest.mark.parametrize("old", VALUES)
def test_documents_of_narrower_types_are_read(old):
    body = Documents("t", {"x": old}).encode("a", {"x": VALUES[old]})
    for new in VALUES:
        if widens(old, new):
            wider = Documents("t", {"x": new})
            read = wider.decode(body, "a")
            assert wider.decode(wider.encode("a", read)) == read
            assert [third for third in VALUES if widens(new, third) and not widens(old, third)] == []


def test_all_values_can_become_text(db):
    table = db.create_table("t", kind="records", schema={f"x{at}": kind for at, kind in enumerate(VALUES)})
    table.insert("a", {f"x{at}": value for at, value in enumerate(VALUES.values())})
    table.alter(types={f"x{at}": "VARCHAR" for at, _ in enumerate(VALUES)})
    table.insert("b", {f"x{at}": "text" for at, _ in enumerate(VALUES)})
    read = [row.document for row in table.scan()]
    assert read[0]["x0"] == "-128" and read[0]["x3"] == "true" and read[0]["x12"] == "[1,null]"
    assert db.sql("SELECT * EXCLUDE (_id) FROM t ORDER BY _id").to_arrow().to_pylist() == read


def test_a_json_schema_judges_what_is_written_from_then_on(db):
    table = db.create_table("t", kind="records")
    table.insert("a", {"n": "one"})
    assert table.alter(schema={"properties": {"n": {"type": "integer"}}}).changes == ("schema",)
    assert table.alter(schema={"properties": {"n": {"type": "integer"}}}).changes == ()
    with pytest.raises(firn.InvalidInputError, match="'two' is not of type 'integer'"):
        table.upsert("b", {"n": "two"})
    with pytest.raises(firn.InvalidInputError, match="'one' is not of type 'integer'"):
        table.update("a", {**table.get("a"), "m": 1})
    # What was written before is read, also inside of transactions.
    with db.begin() as tx:
        assert tx.sql("SELECT document FROM t").to_arrow().to_pylist() == [{"document": '{"n":"one"}'}]
    assert table.alter(schema={"properties": {"n": {"maximum": 1}}}).changes == ("schema",)
    assert table.alter(schema={"properties": {"n": {"maximum": 1.0}}}).changes == ("schema",)  # another JSON
    assert table.alter(schema=None).changes == ("no schema",)
    table.upsert("b", {"n": "two"})


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_validate_reads_all_rows_first(db, isolation):
    table = db.create_table("t", kind="records", isolation=isolation)
    table.upsert("a", {"n": 1})
    table.upsert("b", {"n": "one"})
    strict = {"properties": {"n": {"type": "integer"}}}
    for dry_run in (True, False):
        with pytest.raises(
            firn.InvalidInputError, match=r"t\['?b.*'one' is not of type 'integer'.*Nothing was alt"
        ):
            table.alter(schema=strict, validate=True, dry_run=dry_run)
    table.upsert("b", {"n": 2})
    table.delete("a")
    assert table.alter(schema=strict, validate=True).changes == ("schema",)
    columns = db.create_table("u", kind="records", isolation=isolation, schema=COLUMNS)
    columns.upsert("a", {"born": 1815, "fax": None})
    columns.upsert("b", {"fax": "1"})
    with pytest.raises(firn.InvalidInputError, match="has the field 'fax', which isn't a column"):
        columns.alter(drop=["fax"], validate=True)
    columns.upsert("b", {})
    assert columns.alter(drop=["fax"], validate=True).changes == ("drop fax",)


def test_validate_judges_rows_that_come_meanwhile(db, url, monkeypatch):
    table, other = db.create_table("t", kind="records"), firn.connect(url).table("t")
    from firn.records.maintain import alter as altering

    checked = altering._Change.check_rows

    def then_written(self, head, made):
        checked(self, head, made)
        other.upsert("late", {"n": "one"})

    monkeypatch.setattr(altering._Change, "check_rows", then_written)
    with pytest.raises(firn.InvalidInputError, match="'one' is not of type 'integer'"):
        table.alter(schema={"properties": {"n": {"type": "integer"}}}, validate=True)
    assert table.definition.schema is None


# -- who began before


@pytest.mark.parametrize("write", ["upsert", "insert", "delete"])
def test_a_transaction_that_began_before_and_writes_the_table_conflicts(db, url, people, write):
    tx = firn.connect(url).begin()
    assert tx.get("people", "ada")["fax"] == "none"
    people.alter(drop=["fax"])
    if write == "delete":
        tx.delete("people", "ada")
    else:
        getattr(tx, write)("people", "bob", {"fax": "1"})
    with pytest.raises(firn.StaleObjectError, match="of 'people' were altered by commit") as stale:
        tx.commit()
    assert not stale.value.lasting
    assert [row.id for row in people.scan()] == ["ada"]


def test_transact_begins_again_by_the_new_definition(db, url, people):
    other, tries = firn.connect(url), []

    def work(tx):
        row = tx.get("people", "ada")
        tries.append(row.document)
        if len(tries) == 1:
            people.alter(add={"email": "VARCHAR"})
        tx.update("people", "ada", {**row, "city": "Rome"})

    other.transact(work)
    assert [list(document) for document in tries] == [
        ["born", "fax", "city"],
        ["born", "fax", "city", "email"],
    ]
    assert people.get("ada")["city"] == "Rome"


def test_readers_and_writers_of_other_tables_go_on(db, url, people):
    db.create_table("other", kind="records")
    with firn.connect(url).begin() as tx:
        assert tx.get("people", "ada")["fax"] == "none"
        people.alter(drop=["fax"], types={"born": "VARCHAR"})
        people.upsert("bob", {"born": "?"})
        assert [row.document for row in tx.scan("people")] == [
            {"born": 1815, "fax": "none", "city": "London"}
        ]
        tx.upsert("other", "a", {})
    assert db.table("other").count() == 1


def test_properties_and_comments_conflict_with_nobody(db, url, people):
    with firn.connect(url).begin() as tx:
        tx.upsert("people", "bob", {"born": 1})
        people.alter(set_properties={"inline": "1MB"}, comment="who there was")
    assert people.get("bob")["born"] == 1


def test_a_serializable_transaction_that_looked_there_conflicts(db, url, people):
    db.create_table("other", kind="records")
    tx = firn.connect(url).begin(serializable=True)
    assert tx.scan("people", born=3) == []
    tx.upsert("other", "a", {})
    people.alter(types={"born": "VARCHAR"})
    people.upsert("bob", {"born": "3"})
    with pytest.raises(firn.StaleObjectError, match="altered by commit"):
        tx.commit()
    tx = firn.connect(url).begin(serializable=True)
    tx.get("people", "ada")
    tx.upsert("other", "a", {})
    people.alter(types={"city": "VARCHAR"}, add={"more": "VARCHAR"})
    people.upsert("ada", {"more": "1"})
    with pytest.raises(firn.StaleObjectError, match="read by this transaction") as stale:
        tx.commit()
    assert stale.value.current["more"] == "1"  # by the definition of now


def test_a_snapshot_does_not_move_over_an_alter(db, url, people):
    tx = firn.connect(url).begin()
    people.upsert("bob", {"born": 1})
    people.delete("bob")
    people.alter(drop=["fax"])
    with pytest.raises(firn.StaleObjectError, match="altered by commit"):
        tx.insert("people", "bob", {"fax": "1"})
    tx.rollback()


def test_a_load_is_judged_by_the_table_as_each_of_its_transactions_sees_it(db, url, people):
    store = firn.connect(url).table("people").session.store

    def rows():
        yield "a", {"born": 1}
        people.alter(types={"born": "VARCHAR"}, add={"email": "VARCHAR"})
        yield "b", {"born": 2}

    with pytest.raises(firn.InvalidInputError, match="born is VARCHAR"):
        load(store, "people", rows())
    assert people.load([{"_id": "c", "born": "3", "email": "c@x"}]).rows == 1
    assert [row.document["born"] for row in people.scan()] == ["1815", "3"]


def _unaware(table):
    """Let a handle plan once more by the end of the log as it knows it."""
    log = table.session.store.log
    known, whole = log.refresh(), log.refresh

    def refresh(**options):
        log.refresh = whole
        return known

    log.refresh = refresh


def test_two_alters_that_race_both_count(db, url):
    db.create_table("t", kind="records", schema={"a": "VARCHAR"})
    one, two = firn.connect(url).table("t"), firn.connect(url).table("t")
    _unaware(two)
    one.alter(add={"b": "VARCHAR"})
    assert two.alter(add={"c": "VARCHAR"}).changes == ("add c VARCHAR",)
    assert list(firn.connect(url).sql("SELECT * FROM t").columns) == ["_id", "a", "b", "c"]


def test_two_who_do_the_same_commit_once(db, url, people):
    two = firn.connect(url).table("people")
    _unaware(two)
    result = people.alter(drop=["fax"])
    assert two.alter(drop=["fax"]) == firn.AlterResult(result.version, ())
    assert firn.connect(url).table("people").changes().version == result.version


# -- indices


def test_an_indexed_column_stays_as_it_is(db, people):
    people.alter(add={"at": "STRUCT(n INTEGER)"})
    people.create_index("born")
    people.create_index("at.n")
    for asked in ({"drop": ["born"]}, {"types": {"born": "BIGINT"}}, {"drop": ["at"]}):
        with pytest.raises(firn.InvalidInputError, match=r"has an index.*Drop the index first"):
            people.alter(**asked)
    people.drop_index("born")
    people.alter(types={"born": "DECIMAL(10,2)"})
    people.upsert("bob", {"born": Decimal("1815.5")})
    people.create_index("born")
    assert [row.id for row in people.find(born=1815)] == ["ada"]
    assert [row.id for row in people.find(born=firn.Range(1815, 1816))] == ["ada", "bob"]


def test_who_begins_an_index_looks_at_the_columns_of_then(db, url, people):
    from firn.records.documents.documents import Documents

    other, checked = firn.connect(url).table("people"), Documents.check_field
    calls = []

    def then_dropped(self, field, *, each=False):
        checked(self, field, each=each)
        calls.append(field)
        if len(calls) == 1:
            people.alter(drop=["fax"])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Documents, "check_field", then_dropped)
        with pytest.raises(firn.InvalidInputError, match="no column 'fax'"):
            other.create_index("fax")
    assert people.indices() == []


# -- the log


def test_that_record_and_all_later_ones_need_the_feature(url, people):
    bucket, log = open_bucket(url), people.session.store.log
    people.alter(drop=["fax"])
    people.upsert("bob", {})
    needs = [
        b'"definition"' in bucket.get(log.store.layout.record_key(n)).data.split(b'"format"')[0]
        for n in range(1, 5)
    ]
    assert needs == [False, False, True, True]


@pytest.mark.parametrize("columns", [3, 300])
def test_it_outlives_truncation(url, columns):
    wide = {f"column_{n}": "BIGINT" for n in range(columns)}
    table = firn.connect(url).create_table("t", kind="records", schema=wide)
    table.alter(add={"more": "VARCHAR"}, drop=["column_0"], comment="wide")
    for n in range(3):
        table.upsert("a", {"column_1": n})
    settle(table.session.store)
    log = table.session.store.log
    log.store.raise_horizon(Horizon(horizon=4, applied=5))
    truncate(log)
    opened = firn.connect(url).table("t")
    assert opened.get("a")["column_1"] == 2
    assert list(opened.definition.columns)[-1] == "more" and "column_0" not in opened.definition.columns
    assert opened.definition.comments == {"": "wide"}
    assert [change.document["column_1"] for change in opened.changes()] == [0, 1, 2]


def test_changes_go_by_the_definition_of_now(people):
    people.alter(types={"born": "VARCHAR"}, drop=["fax"])
    people.upsert("bob", {"born": "?"})
    told = people.changes().to_arrow()
    assert told.column_names == ["_id", "born", "city", "_kind", "_seq"]
    assert told.column("born").to_pylist() == ["1815", "?"]


def test_a_copy_follows_the_columns(db, people):
    db.copy("people", "rows", changes=True)
    people.alter(add={"email": "VARCHAR"}, drop=["fax"])
    people.upsert("bob", {"email": "b@x"})
    db.copy("people", "rows", changes=True)
    found = {row["_id"]: row for row in db.table("rows").scan().to_arrow().to_pylist()}
    assert found["bob"]["email"] == "b@x" and found["bob"]["fax"] is None
    assert found["ada"]["fax"] == "none"
    db.copy("people", "now")
    assert set(db.table("now").snapshot().columns) == {"_id", "born", "city", "email"}


def test_sql_sees_and_changes_an_altered_table(db, people):
    people.alter(add={"email": "VARCHAR"}, types={"born": "BIGINT"}, drop=["fax"])
    db.sql("INSERT INTO people (_id, born, email) VALUES ('bob', 5000000000, 'b@x')")
    db.sql("UPDATE people SET email = 'a@x' WHERE _id = 'ada'")
    with db.begin() as tx:
        assert tx.sql("SELECT born, email FROM people ORDER BY _id").to_arrow().to_pylist() == [
            {"born": 1815, "email": "a@x"},
            {"born": 5_000_000_000, "email": "b@x"},
        ]
        tx.sql("INSERT INTO people (_id, email) VALUES ('cyd', 'c@x')")
    assert people.count() == 3
    db.sql("ALTER TABLE people ALTER COLUMN born SET DATA TYPE VARCHAR")
    assert people.get("bob")["born"] == "5000000000"
    assert "email" in db.sql("SHOW CREATE TABLE people").to_arrow().to_pylist()[0].popitem()[1]


def test_fsck_reads_rows_of_all_definitions(db, url, people):
    from firn.inspect.fsck.fsck import check

    people.alter(drop=["fax"], types={"born": "VARCHAR"})
    people.create_index("born")
    people.upsert("bob", {"born": "?"})
    settle(people.session.store)
    assert check(firn.connect(url)).problems == ()


# -- rows that are changed one by one


def test_a_table_of_single_rows_swaps_its_definition(db, url):
    table = db.create_table("t", kind="records", isolation="row", schema=COLUMNS)
    table.insert("ada", {"born": 1815, "fax": "none"})
    other = firn.connect(url).table("t")
    result = table.alter(add={"email": "VARCHAR"}, drop=["fax"], types={"born": "BIGINT"}, comment="people")
    assert result.version == "1"
    now = firn.connect(url).table("t").definition
    assert (now.rev, now.altered, now.gone, now.comments) == (1, 1, {"fax": "VARCHAR"}, {"": "people"})
    assert b'"definition"' in open_bucket(url).get("t/_firn/table.json").data
    assert table.get("ada").document == {"born": 1815, "city": None, "email": None}
    table.upsert("bob", {"email": "b@x", "born": 2**40})
    # A field that it doesn't know: who has the table open looks at the definition again.
    row = other.get("bob")
    other.update("bob", {**row, "city": "Rome"}, etag=row.etag)
    assert table.get("bob").document == {"born": 2**40, "city": "Rome", "email": "b@x"}
    assert db.sql("SELECT * FROM t ORDER BY _id").columns["born"] == "BIGINT"
    assert table.alter(set_properties={"inline": "1MB"}).version == "2"
    assert firn.connect(url).table("t").definition.altered == 1


def test_an_open_table_of_single_rows_looks_again_after_a_while(url):
    from firn.records.row_tables import RowTable
    from firn.testing import SimStore

    bucket = SimStore().bucket()
    db = firn.connect(url)
    made = db.create_table("t", kind="records", isolation="row", schema=COLUMNS).definition
    bucket.put("db/t/_firn/table.json", made.encode())
    one, two = (RowTable(bucket, "db/t", made, clock=bucket.clock) for _ in range(2))
    one.alter(drop=["fax"])
    two.upsert("a", {"fax": "1"})  # within 10 s it may
    assert one.get("a").document == {"born": None, "city": None}
    bucket.clock.sleep(11)
    with pytest.raises(firn.InvalidInputError, match="'fax'"):
        two.upsert("a", {"fax": "1"})
    one.alter(drop=["city"])
    assert two.get("a").document == {"born": None, "city": None}
    before = bucket.counters.as_dict()
    bucket.clock.sleep(11)
    assert two.get("a").document == {"born": None}
    assert two.get("a").document == {"born": None}
    assert bucket.counters.since(before)["get"] == 3


def test_a_row_table_that_was_dropped_meanwhile_is_not_altered(db, url):
    table = db.create_table("t", kind="records", isolation="row", schema=COLUMNS)
    firn.connect(url).drop_table("t")
    with pytest.raises(firn.TableNotFoundError):
        table.alter(drop=["fax"])


def test_a_transaction_can_begin_where_a_table_is_altered_in_its_record(db, url, people):
    """A group may hold writes and, behind them, an alter; the other way round the writes are stale."""
    store = people.session.store
    from firn.journal.sequence.proposal import commit
    from firn.records.definition.alteration import Alteration
    from firn.records.maintain.alter import _Change

    def proposals():
        tx = begin(store)
        tx.upsert("people", "bob", {"fax": "1"})
        asked = Alteration(drop=("fax",))
        return tx, _Change(store, people._created, asked, tx.snapshot, False)

    tx, change = proposals()
    outcomes = commit(store.log, [change, tx])
    assert isinstance(outcomes[change.txid], int) and isinstance(outcomes[tx.txid], firn.StaleObjectError)
    people.alter(add={"fax": "VARCHAR"})
    tx, change = proposals()
    outcomes = commit(store.log, [tx, change])
    assert outcomes[change.txid] == outcomes[tx.txid]
    assert people.get("bob").document == {"born": None, "city": None}


def test_two_alters_in_one_record_both_count(db, url, people):
    from firn.journal.sequence.proposal import commit
    from firn.records.definition.alteration import Alteration
    from firn.records.maintain.alter import _Change

    store = people.session.store
    head = store.log.refresh().number
    asked = (Alteration(drop=("fax",)), Alteration(add={"email": "VARCHAR"}), Alteration(drop=("fax",)))
    changes = [_Change(store, people._created, each, head, False) for each in asked]
    outcomes = commit(store.log, changes)
    assert [outcomes[change.txid] for change in changes[:2]] == [head + 1, head + 1]
    assert not isinstance(outcomes[changes[2].txid], int)  # nothing is left to change
    assert list(firn.connect(url).sql("SELECT * FROM people").columns) == ["_id", "born", "city", "email"]
