"""What Spark reads of record tables, without Spark: plans, units, what tasks GET, and which rows these are."""

from __future__ import annotations

import pickle
from datetime import date
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firn.database.kinds.records import RecordOptions
from firn.errors import InvalidInputError, SnapshotTooOldError, TableNotFoundError
from firn.predicate.predicate import Predicate
from firn.reads import QueryMoment, plan_read
from firn.records.apply.apply import settle
from firn.records.maintain.collection import collect
from firn.records.names.names import id_part
from firn.records.plan import read as records_read
from firn.records.plan.narrowed import ids_of
from firn.records.table import RecordTable
from record_worlds import World, ids, put, rows_of, spent

Rows = dict[str, dict[str, Any]]


@pytest.fixture
def world() -> World:
    return World()


# -- which rows


def test_rows_of_one_snapshot_from_objects_and_from_the_log(world: World) -> None:
    table = world.create("t", schema={"n": "INTEGER"})
    put(table, {"a": {"n": 1}, "b": {"n": 1}, "c": {"n": 1}})
    settle(table.session.store)
    put(table, {"a": {"n": 2}, "b": None, "d": {"n": 2}})
    read = plan_read(table)
    expected = [{"_id": "a", "n": 2}, {"_id": "c", "n": 1}, {"_id": "d", "n": 2}]
    assert sorted(rows_of(read), key=lambda row: row["_id"]) == expected
    # Whatever is committed, applied or made later isn't seen.
    put(table, {"a": {"n": 3}, "c": None, "b": {"n": 3}, "e": {"n": 3}})
    settle(table.session.store)
    assert sorted(rows_of(read), key=lambda row: row["_id"]) == expected
    assert ids(plan_read(table)) == ["a", "b", "d", "e"]
    assert read.version == str(int(plan_read(table).version) - 1)


def test_a_version_of_the_past_is_read(world: World) -> None:
    table = world.create("t")
    first = put(table, {"a": {"n": 1}})
    second = put(table, {"a": {"n": 2}, "b": {"n": 2}})
    put(table, {"a": None})
    for at in (first, str(first)):
        assert [row["document"] for row in rows_of(plan_read(table, at=at))] == ['{"n":1}']
    settle(table.session.store)
    assert ids(plan_read(world.open(table), at=second)) == ["a", "b"]
    assert ids(plan_read(table)) == ["b"]
    with pytest.raises(InvalidInputError, match="the last commit is"):
        plan_read(table, at=second + 2)
    with pytest.raises(InvalidInputError, match="knows no times"):
        plan_read(table, at="2026-01-01")
    with pytest.raises(TableNotFoundError):
        plan_read(table, at=0)


def test_what_a_sweep_has_taken_is_an_error_and_not_a_missing_row(world: World) -> None:
    table = world.create("t")
    put(table, {"a": {"n": 1}, "b": {"n": 1}})
    settle(table.session.store)
    old = plan_read(table)
    put(table, {"a": {"n": 2}})
    settle(table.session.store)
    world.age(3600)
    put(table, {"c": {"n": 1}})
    settle(table.session.store)
    world.age(3600)
    collect(table.session.store, retention_s=60)
    with pytest.raises(
        SnapshotTooOldError, match=rf"t can't be read at commit {old.version} any more.*Make it again"
    ):
        rows_of(old)
    assert ids(plan_read(table)) == ["a", "b", "c"]


def test_large_documents_are_fetched_by_tasks(world: World) -> None:
    table = world.create("t", schema={"text": "VARCHAR"}, properties={"inline": 100})
    put(table, {"a": {"text": "x" * 500}, "b": {"text": "y"}})
    settle(table.session.store)
    put(table, {"c": {"text": "z" * 500}})
    read = plan_read(world.open(table))
    assert {row["_id"]: len(row["text"]) for row in rows_of(read)} == {"a": 500, "b": 1, "c": 500}
    units = [unit.work for unit in read.units()]
    lately, listed = units
    bucket = read.bucket
    assert spent(bucket, lambda: list(read.for_tasks().rows([lately]))) == {"get": 1}
    assert spent(bucket, lambda: list(read.for_tasks().rows([listed]))) == {"get": 2 + 1}


def test_rows_of_a_dropped_table_are_not_those_of_the_next(world: World) -> None:
    tables = world.tables()
    old = tables.create(tables.describe("t", RecordOptions()))
    assert isinstance(old, RecordTable)
    put(old, {"a": {"n": 1}})
    tables.drop(old.definition)
    new = tables.create(tables.describe("t", RecordOptions()))
    assert isinstance(new, RecordTable)
    put(new, {"b": {"n": 1}})
    assert ids(plan_read(new)) == ["b"]
    assert ids(plan_read(world.open(new))) == ["b"]


def test_rows_of_tables_without_transactions(world: World) -> None:
    table = world.create("t", isolation="row", schema={"n": "INTEGER"})
    etag = table.insert("a", {"n": 1})
    table.insert("b", {"n": 1})
    table.delete("b")
    read = plan_read(table)
    assert rows_of(read) == [{"_id": "a", "n": 1}]
    assert rows_of(plan_read(table, columns=["_id", "_etag"])) == [{"_id": "a", "_etag": etag}]
    table.update("a", {"n": 2})
    assert rows_of(read) == [{"_id": "a", "n": 2}]
    assert rows_of(plan_read(table, where="_id = 'a' AND n > 2")) == []
    with pytest.raises(InvalidInputError, match="no versions"):
        plan_read(table, at=1)
    with pytest.raises(InvalidInputError, match="'_seq'"):
        plan_read(table, columns=["_seq"])


def test_the_tables_of_a_moment_are_read_at_one_commit(world: World) -> None:
    tables = world.tables()
    one, other = (tables.create(tables.describe(name, RecordOptions())) for name in ("one", "other"))
    assert isinstance(one, RecordTable)
    assert isinstance(other, RecordTable)
    moment = QueryMoment()
    first = plan_read(one, moment=moment)
    with tables.session.begin() as tx:
        tx.insert("one", "a", {})
        tx.insert("other", "a", {})
    second = plan_read(other, moment=moment)
    assert first.version == second.version
    assert (ids(first), ids(second)) == ([], [])
    assert ids(plan_read(other, moment=QueryMoment())) == ["a"]


# -- columns


def test_columns_are_the_declared_ones_or_the_document(world: World) -> None:
    table = world.create("people", schema={"born": "DATE", "tags": "VARCHAR[]"})
    put(table, {"ada": {"born": date(1815, 12, 10), "tags": ["x"]}})
    assert rows_of(plan_read(table)) == [{"_id": "ada", "born": date(1815, 12, 10), "tags": ["x"]}]
    assert list(plan_read(table).columns) == ["_id", "born", "tags"]
    assert rows_of(plan_read(table, columns=["TAGS"], where="born < '1900-01-01'")) == [{"tags": ["x"]}]
    loose = world.create("loose", schema={"type": "object"})
    put(loose, {"a": {"b": [1], "a": "é"}})
    assert rows_of(plan_read(loose)) == [{"_id": "a", "document": '{"a":"é","b":[1]}'}]
    found = plan_read(loose, where="document->>'$.a' = 'é'", columns=["_id"])
    assert rows_of(found) == [{"_id": "a"}]
    with pytest.raises(InvalidInputError, match="no column 'n'"):
        plan_read(loose, columns=["n"])


def test_etags_and_commits_come_if_they_are_asked_for(world: World) -> None:
    table = world.create("t", schema={"n": "INTEGER"})
    seq = put(table, {"a": {"n": 1}})
    settle(table.session.store)
    later = put(table, {"b": {"n": 1}})
    read = plan_read(table, columns=["_id", "_etag", "_seq"], where=f"_seq >= {seq}")
    found = {row["_id"]: (row["_etag"], row["_seq"]) for row in rows_of(read)}
    assert found == {id: (table.get(id).etag, n) for id, n in (("a", seq), ("b", later))}
    assert table.update("a", {"n": 2}, etag=found["a"][0])
    assert "_seq" not in plan_read(table).known
    mine = world.create("mine", schema={"_seq": "VARCHAR"})
    put(mine, {"a": {"_seq": "own"}})
    assert rows_of(plan_read(mine, columns=["_seq"])) == [{"_seq": "own"}]


FIELDS = {
    "n": "BIGINT",
    "x": "DOUBLE",
    "d": "DATE",
    "m": "DECIMAL(9,2)",
    "s": "VARCHAR",
    "o": "STRUCT(a BIGINT)",
}


def test_fields_of_documents_as_columns_that_a_reader_names(world: World) -> None:
    table = world.create("t")
    document = {"n": 1, "x": 2, "d": "2026-01-31", "m": 1.25, "s": "text", "o": {"a": 7}, "other": 1}
    put(table, {"a": document, "b": {"s": [1, None]}})
    read = plan_read(table, fields={"_id": "VARCHAR", **FIELDS})
    assert list(read.columns) == ["_id", "document", *FIELDS]
    found = {row["_id"]: row for row in rows_of(read.select(["_id", *FIELDS]))}
    assert found["a"] == {
        "_id": "a", "n": 1, "x": 2.0, "d": date(2026, 1, 31), "m": __import__("decimal").Decimal("1.25"),
        "s": "text", "o": {"a": 7},
    }  # fmt: skip
    assert found["b"] == {"_id": "b", **dict.fromkeys(FIELDS), "s": "[1,null]"}
    assert ids(read.where("n = 1")) == ["a"]
    declared = world.create("declared", schema={"n": "INTEGER"})
    assert list(plan_read(declared, fields={"z": "BIGINT"}).columns) == ["_id", "n"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 1.5),
        ("n", "1"),
        ("n", True),
        ("n", 2**63),
        ("x", "1.5x"),
        ("x", False),
        ("d", 5),
        ("d", "today"),
        ("o", 1),
    ],
)
def test_a_field_that_is_not_of_its_type_is_named(world: World, field: str, value: Any) -> None:
    table = world.create("t")
    put(table, {"a": {field: value}} if value != 2**63 else {"a": {field: 2.0**63}})
    with pytest.raises(InvalidInputError, match=rf"t\['a'\] has .* at {field}, which isn't"):
        rows_of(plan_read(table, fields=FIELDS).select([field]))


# -- requests


def test_requests_are_the_pages_of_a_list_and_a_get_a_row(world: World) -> None:
    world = World(page_size=10)
    table = world.create("t")
    put(table, {f"r{n:02}": {"n": n} for n in range(35)})
    settle(table.session.store)
    put(table, {"r00": {"n": 9}, "new": {"n": 9}})
    table = world.open(table)
    read = plan_read(table)
    units: list[Any] = []
    assert spent(table.bucket, lambda: units.extend(unit.work for unit in read.units())) == {
        "list": 4,
        "get": 1,
    }  # the table is still there
    lean, found = read.for_tasks(), []
    gets = spent(table.bucket, lambda: found.extend(lean.rows(units)))
    assert gets == {"get": 34}  # "r00" is in the log
    assert sum(table.num_rows for table in found) == 36


def test_planning_costs_what_beginning_a_transaction_does(world: World) -> None:
    table = world.create("t")
    put(table, {"a": {"n": 1}})
    settle(table.session.store)
    plan_read(table)
    assert spent(table.bucket, lambda: plan_read(table)) == spent(table.bucket, table.session.begin)


@pytest.mark.parametrize(
    ("where", "lists", "gets"),
    [
        ("_id = 'a1'", 0, 1),
        ("_id IN ('a1', 'b2', 'nobody', '')", 0, 4),
        ("_id IN ('a1', 'b2') AND _id > 'b'", 0, 1),
        ("_id = 'late'", 0, 0),
        ("starts_with(_id, 'a')", 1, 6),
        ("_id LIKE 'a%'", 1, 6),
        ("_id >= 'b2'", 1, 4),
        ("_id BETWEEN 'a3' AND 'b1'", 1, 5),
        ("_id LIKE '%3'", 1, 3),
        ("_id = 'a1' OR _id = 'b1'", 1, 3),
        ("n = 1", 1, 11),
        ("_id = 'a' AND _id = 'b'", 0, 0),
    ],
)
def test_predicates_over_ids_leave_out_rows(world: World, where: str, lists: int, gets: int) -> None:
    table = world.create("t", schema={"n": "INTEGER"})
    put(table, {f"{c}{n}": {"n": n} for c in "ab" for n in range(5)})
    settle(table.session.store)
    put(table, {"late": {"n": 1}})
    table = world.open(table)
    read = plan_read(table, where=where)
    found: list[dict[str, Any]] = []
    cost = spent(table.bucket, lambda: found.extend(rows_of(read)))
    # Of the GETs one tells that the table wasn't dropped, after a LIST or where a row isn't there.
    assert (cost.get("list", 0), cost.get("get", 0)) == (lists, gets)
    everything = plan_read(table).where(
        where.replace("_id", "lower(_id)")
    )  # no predicate over `_id` that is known
    assert sorted(row["_id"] for row in found) == ids(everything)


def test_a_listing_begins_where_ids_do(world: World) -> None:
    table = world.create("t")
    put(table, {id: {} for id in ("user/1", "user/2", "x", "user", "us", "User/1")})
    settle(table.session.store)
    listed: list[str] = []
    real = type(table.bucket).list

    def spy(self: Any, prefix: str, **options: Any) -> Any:
        listed.append(prefix)
        return real(self, prefix, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(table.bucket), "list", spy)
        assert ids(plan_read(table, where="starts_with(_id, 'user/')")) == ["user/1", "user/2"]
    assert listed == ["db/t/data/user%2F"]


texts = st.text(st.sampled_from("ab_./~é%"), min_size=1, max_size=8)


@settings(max_examples=300, deadline=None)
@given(texts, texts)
@example("a", "_b")
@example("a_", "_b")
@example("a" * 300, "b")
@example("a_" * 90, "_" * 90)
@example("_" * 300, "b")
@example("é" * 100, "/")
def test_a_name_begins_with_what_is_said_of_its_id(prefix: str, rest: str) -> None:
    quoted = prefix.replace("'", "''")
    asked = ids_of([Predicate.parse(f"starts_with(_id, '{quoted}')", {"_id": "VARCHAR"})])
    assert asked.prefix == prefix
    for id in (prefix, prefix + rest):
        assert id_part(id).startswith(asked.name_prefix)


@settings(max_examples=150, deadline=None)
@given(st.lists(texts, min_size=2, max_size=2), st.lists(texts, min_size=1))
def test_all_between_two_ids_begin_alike(bounds: list[str], some: list[str]) -> None:
    low, high = sorted(bounds)
    asked = ids_of([Predicate.parse(f"_id >= '{low}' AND _id < '{high}'", {"_id": "VARCHAR"})])
    for id in some:
        if low <= id < high:
            assert id.startswith(asked.prefix)


# -- units


@settings(max_examples=25, deadline=None)
@given(
    applied=st.dictionaries(texts | st.just("x" * 300), st.none() | st.integers(0, 9), max_size=25),
    late=st.dictionaries(texts | st.just("x" * 300), st.none() | st.integers(0, 9), max_size=6),
    unit_rows=st.integers(1, 7),
    where=st.sampled_from([None, "_id >= 'a'", "starts_with(_id, 'a')", "n > 4", "_id IN ('a', 'b', '_')"]),
)
def test_units_hold_every_row_exactly_once(
    applied: dict[str, int | None], late: dict[str, int | None], unit_rows: int, where: str | None
) -> None:
    table = World().create("t", schema={"n": "INTEGER"})
    for rows in (applied, late):
        put(table, {id: None if n is None else {"n": n} for id, n in rows.items()})
        if rows is applied:
            settle(table.session.store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records_read, "UNIT_ROWS", unit_rows)
        patch.setattr(records_read, "LEAST_ROWS", 1)
        read = plan_read(table, where=where)
        units = read.units()
        found = rows_of(read)
    everything = [(row["_id"], row["n"]) for row in table.scan()]
    kept = {
        None: lambda id, n: True,
        "_id >= 'a'": lambda id, n: id >= "a",
        "starts_with(_id, 'a')": lambda id, n: id.startswith("a"),
        "n > 4": lambda id, n: n > 4,
        "_id IN ('a', 'b', '_')": lambda id, n: id in ("a", "b", "_"),
    }[where]
    assert sorted((row["_id"], row["n"]) for row in found) == [row for row in everything if kept(*row)]
    for unit in units:
        names = isinstance(unit.work, records_read.PackedNames)
        assert len(unit.work.unpacked() if names else unit.work.writes) <= unit_rows


def test_units_are_bounded_by_rows_and_by_bytes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.create("t")
    put(table, {f"{n:03}": {"text": "x" * 1000} for n in range(40)})
    settle(table.session.store)
    monkeypatch.setattr(records_read, "LEAST_ROWS", 10)
    assert [len(unit.work.unpacked()) for unit in plan_read(table).units()] == [10] * 4
    monkeypatch.setattr(records_read, "UNIT_BYTES", 5000)
    sizes = [len(unit.work.unpacked()) for unit in plan_read(table).units()]
    assert sum(sizes) == 40
    assert max(sizes) <= 4
    put(table, {f"{n:03}": {"text": "x" * 2000} for n in range(7)})
    works = [unit.work for unit in plan_read(table).units()]
    assert [len(work.writes) for work in works if isinstance(work, records_read.Writes)] == [2, 2, 2, 1]


def test_units_of_one_task_are_read_together(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table = world.create("t")
    put(table, {f"{n:03}": {"text": "x" * 1000} for n in range(40)})
    settle(table.session.store)
    monkeypatch.setattr(records_read, "LEAST_ROWS", 5)
    read = plan_read(table)
    works = [unit.work for unit in read.units()]

    def together() -> list[int]:
        return [piece.num_rows for piece in read.for_tasks().rows(works)]

    assert (len(works), together()) == (8, [40])
    monkeypatch.setattr(records_read, "UNIT_ROWS", 12)
    assert together() == [10] * 4
    monkeypatch.setattr(records_read, "UNIT_BYTES", 6000)
    assert together() == [5] * 8


def test_much_that_is_in_the_log_alone_is_read_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that goes on may be megabytes ahead of the rows' objects: a plan can't hold them."""
    table = world.create("t", schema={"n": "INTEGER"}, properties={"inline": 2000})
    put(table, {f"{n}": {"n": n} for n in range(5)})
    settle(table.session.store)
    put(table, {"1": {"n": 10}, "2": {"n": 10}, "x": {"n": 1}})
    put(table, {"2": {"n": 11}, "3": None})
    monkeypatch.setattr(records_read, "UNAPPLIED_BYTES", 10)
    read = plan_read(table)
    (lately, _) = (unit.work for unit in read.units())
    assert isinstance(lately, records_read.LogPlaces)
    assert b"10" not in pickle.dumps(lately)
    expected = {"0": 0, "1": 10, "2": 11, "4": 4, "x": 1}
    assert {row["_id"]: row["n"] for row in rows_of(read)} == expected
    put(table, {"1": {"n": 12}})
    settle(table.session.store)
    assert {row["_id"]: row["n"] for row in rows_of(read)} == expected
    # 2 commits and the horizon, twice.
    assert spent(table.bucket, lambda: list(read.for_tasks().rows([lately])))["get"] == 2 + 2
    assert {row["_id"]: row["n"] for row in rows_of(read.where("_id IN ('1', '4', 'y')"))} == {
        "1": 10,
        "4": 4,
    }


def test_a_plan_of_many_rows_is_small(world: World) -> None:
    names = [f"customer-{n:07}" for n in range(100_000)]
    packed = pickle.dumps(
        [records_read.PackedNames.of(names[at : at + 2000], 0) for at in range(0, len(names), 2000)]
    )
    assert len(packed) < 500_000


def test_objects_that_are_no_rows_are_left_out(world: World) -> None:
    table = world.create("t")
    put(table, {"a": {}})
    settle(table.session.store)
    for name in ("x.txt", "y/z.json", "%FF.json"):
        table.bucket.put(f"db/t/data/{name}", b"")
    table.bucket.delete("db/t/data/%FF.json")
    assert ids(plan_read(table, where="_id > ''")) == ["a"]
    # A name that isn't text may be a row's, and is looked at.
    table.bucket.put("db/t/data/%FF.json", table.bucket.get("db/t/data/a.json").data)
    assert spent(table.bucket, lambda: plan_read(table, where="_id > ''").units())["list"] == 1
