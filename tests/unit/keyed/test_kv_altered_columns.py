"""`alter` of keyed tables: columns of the values, and comments."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import firn
from firn.errors import CorruptObjectError, InvalidInputError, OutcomeUnknownError, SnapshotTooOldError
from firn.inspect.fsck.keyed import check_keyed
from firn.journal.entries import DEFAULT, NAME, TYPE, Entries
from firn.keyed.definition.alteration import Alteration
from firn.keyed.encoding.layouts import reading
from firn.keyed.encoding.values import Values
from firn.keyed.maintain import alter as altering
from firn.keyed.merge.operators import merge_operator
from firn.keyed.table import KeyedTable
from kv_tables import new_table

SCHEMA = {"delay": "INTEGER", "tail": "VARCHAR", "mean": "FLOAT"}


@merge_operator
def whole_rows(value: Any, operand: Any) -> Any:
    return operand


@pytest.fixture
def table() -> KeyedTable:
    return new_table(key={"id": "BIGINT"}, schema=SCHEMA)


def filled(table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        kv.write({n: {"delay": n, "tail": f"N{n}", "mean": 0.1} for n in range(3)})


def columns(table: KeyedTable) -> dict[str, str]:
    return dict(table.as_in(table.view()).values.columns or {})


def test_columns_swap_their_names_in_one_call(table: KeyedTable) -> None:
    filled(table)
    done = table.alter(rename={"delay": "tail", "tail": "delay"}, fence=True)
    assert done.changes == ("rename delay to tail", "rename tail to delay")
    assert table.reader().get(1) == {"tail": 1, "delay": "N1", "mean": pytest.approx(0.1)}


def test_a_structs_fields_may_be_given_in_another_order() -> None:
    table = new_table(key={"id": "BIGINT"}, schema={"s": "STRUCT(a INTEGER, b VARCHAR)"})
    with table.open(compaction=False) as kv:
        kv.put(1, {"s": {"a": 1, "b": "x"}})
    table.alter(types={"s": "STRUCT(b VARCHAR, a BIGINT)"}, fence=True)
    assert list(table.reader().get(1)["s"].items()) == [("b", "x"), ("a", 1)]


def test_values_of_a_dropped_column_never_come_back(table: KeyedTable) -> None:
    filled(table)
    table.alter(drop="tail", fence=True)
    table.alter(add={"TAIL": "VARCHAR"}, fence=True)
    table.alter(drop="Tail", fence=True)
    table.alter(add={"tail": "VARCHAR"}, fence=True)
    entries = table.view().manifest.definition
    assert entries.of(NAME) == {"tail~1": "TAIL", "tail~2": "tail"}
    assert table.reader().get(1) == {"delay": 1, "mean": pytest.approx(0.1), "tail": None}
    table.compact(full=True)
    assert table.reader().get(1)["tail"] is None


def test_a_default_is_that_of_older_rows_and_of_puts_that_leave_the_column_out(table: KeyedTable) -> None:
    filled(table)
    with table.open(compaction=False) as kv:
        kv.delete(0)
        table.alter(add={"gate": ("VARCHAR", "A1"), "fare": ("DECIMAL(5,2)", Decimal("1.5"))})
        kv.put(3, {"delay": 3})
        kv.put(4, {"gate": None, "fare": None})
        table.load([{"id": 5, "delay": 5}])
        kv.poll()
        rows = {key: (row["gate"], row["fare"]) for key, row in kv.scan()}
        given = ("A1", Decimal("1.50"))
        assert rows == {1: given, 2: given, 3: given, 4: (None, None), 5: given}
        kv.compact(full=True)
        assert {key: (row["gate"], row["fare"]) for key, row in kv.scan()} == rows
        assert kv.get(0) is None and table.changes().to_arrow().num_rows == 5


def test_a_delete_has_no_defaults(table: KeyedTable) -> None:
    filled(table)
    with table.open(compaction=False) as kv:
        kv.compact()
        kv.delete(0)
        table.alter(add={"gate": ("VARCHAR", "A1")})
        [told] = [row for row in table.changes().to_arrow().to_pylist() if row["_kind"] == "delete"]
        assert told["gate"] is None


def test_a_float_widens_to_the_double_that_it_was(table: KeyedTable) -> None:
    filled(table)
    table.alter(add={"x": ("FLOAT", 0.1)}, fence=True)
    before = table.reader().get(1)
    table.alter(types={"mean": "DOUBLE", "x": "DOUBLE"}, fence=True)
    assert table.reader().get(1) == before
    table.compact(full=True)
    assert table.reader().get(1) == before


@pytest.mark.parametrize(
    ("narrow", "wide", "value"),
    [
        ("TINYINT", "HUGEINT", -7),
        ("UBIGINT", "DECIMAL(20,0)", 2**64 - 1),
        ("INTEGER", "DOUBLE", -(2**31)),
        ("DECIMAL(5,2)", "DECIMAL(12,4)", Decimal("-1.25")),
        ("UUID", "VARCHAR", "6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38"),
        ("ENUM('a', 'b')", "VARCHAR", "b"),
        ("TIMESTAMP_S", "TIMESTAMP", "2020-01-02 03:04:05"),
        ("SMALLINT[]", "BIGINT[]", [1, None]),
        ("INTEGER[2]", "BIGINT[]", [1, 2]),
        ("STRUCT(a SMALLINT)", "STRUCT(a INTEGER, b VARCHAR)", {"a": 1}),
        ("MAP(VARCHAR, INTEGER)", "MAP(VARCHAR, DOUBLE)", {"k": 1}),
    ],
)
def test_widened_values_are_what_they_would_be_if_written_now(narrow: str, wide: str, value: Any) -> None:
    from datetime import datetime

    if narrow.startswith("TIMESTAMP"):
        value = datetime.fromisoformat(value)
    table = new_table(schema={"v": narrow, "other": "BIGINT"})
    with table.open(compaction=False) as kv:
        kv.put(b"old", {"v": value})
        kv.put(b"null", {"v": None}, durable=False)
        assert table.alter(types={"v": wide}).changes == (f"type of v: {wide}",)
        kv.put(b"new", {"v": value})
        expected = kv.get(b"new")
        assert kv.get(b"old") == expected and dict(kv.scan())[b"old"] == expected
        kv.compact(full=True)
        assert kv.get(b"old") == expected and kv.get(b"null")["v"] is None
        assert table.reader().get(b"old") == expected


def test_what_a_memtable_holds_is_read_by_the_new_columns(table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        kv.write({1: {"delay": 1, "tail": "a"}, 2: {"delay": 2}}, durable=False)
        kv.delete(2, durable=False)
        before = kv.snapshot()
        table.alter(
            rename={"delay": "minutes"},
            drop=["tail"],
            types={"delay": "BIGINT"},
            add={"z": ("DATE", "2020-01-02")},
        )
        kv.put(3, {"minutes": 2**40}, durable=False)
        assert kv.get(1)["minutes"] == 1 and str(kv.get(1)["z"]) == "2020-01-02" and kv.get(2) is None
        assert [key for key, _ in kv.scan(reverse=True)] == [3, 1]
        assert before.get(1) == {"delay": 1, "tail": "a", "mean": None} and before.get(3) is None
        assert list(dict(before.scan())) == [1]
        kv.flush()
        assert dict(table.reader().scan()) == dict(kv.scan())


def test_a_put_that_meets_an_alter_is_checked_anew(table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        kv.put(1, {"delay": 1, "tail": "a"})
        check, met = kv._checks.value, threading.Event()

        def slow(value: object) -> object:
            stored = check(value)
            if not met.is_set():
                met.set()
                table.alter(rename={"tail": "delay", "delay": "tail"})
            return stored

        kv._checks = kv._checks._replace(value=slow)
        kv.put(2, {"delay": None, "tail": None, "mean": 1.0})
        kv.write({3: {"tail": 3, "delay": "c"}})
        assert kv.get(2) == {"tail": None, "delay": None, "mean": 1.0}
        assert kv.get(3) == {"tail": 3, "delay": "c", "mean": None}
        with pytest.raises(InvalidInputError, match="no value column 'minutes'"):
            kv.put(4, {"minutes": 1})


def test_readers_checkpoints_clones_and_changes_go_by_their_view(table: KeyedTable) -> None:
    filled(table)
    table.checkpoint("before")
    with table.reader(follow="0s") as reader, table.reader(follow=None) as still:
        assert reader.get(1)["delay"] == 1
        version = reader.version
        table.alter(rename={"delay": "minutes"}, drop=["mean"], fence=True)
        assert reader.get(1) == {"minutes": 1, "tail": "N1"} == reader.multi_get([1])[0]
        assert reader.scan().to_arrow().column_names == ["id", "minutes", "tail"]
        assert still.get(1)["delay"] == 1 and list(still.scan())[1][1]["delay"] == 1
        assert [*reader.table.values.names] == ["minutes", "tail"]
    old = {"delay": 1, "tail": "N1", "mean": pytest.approx(0.1)}
    altered = table.as_in(table.view())
    assert table.reader(at="before").get(1) == altered.reader(at="before").get(1) == old
    assert table.clone("then", at="before").reader().get(1) == old
    copy = altered.clone("now")
    assert copy.reader().get(1) == {"minutes": 1, "tail": "N1"}
    copy.alter(rename={"minutes": "delay"}, fence=True)
    assert (columns(copy), columns(table)) == (
        {"delay": "INTEGER", "tail": "VARCHAR"},
        {"minutes": "INTEGER", "tail": "VARCHAR"},
    )
    with table.open(compaction=False) as kv:
        kv.put(9, {"minutes": 9})
    [told] = table.changes(version).to_arrow().to_pylist()
    assert (told["id"], told["minutes"], "mean" in told) == (9, 9, False)


def test_a_scan_that_meets_an_alter_and_a_sweep_is_scanned_again() -> None:
    table = new_table({"block_cache": 1}, key={"id": "BIGINT"}, schema=SCHEMA)
    filled(table)
    [flush] = table.view().l0
    with table.reader(follow="1h") as reader:
        scan = reader.scan()
        table.compact()
        table.alter(rename={"delay": "minutes"}, fence=True)
        table.bucket.delete(flush.key)
        with pytest.raises(SnapshotTooOldError, match=r"was altered while it was scanned.*Scan again"):
            list(scan)
        assert next(iter(reader.scan()))[1]["minutes"] == 0


def test_it_costs_readers_and_the_writer_no_request(table: KeyedTable) -> None:
    filled(table)
    table.compact()
    counters = table.bucket.counters
    with table.open(compaction=False) as kv, table.reader(follow=None) as reader:
        assert kv.get(1) == reader.get(1)
        before = counters.as_dict()
        table.alter(rename={"delay": "minutes"}, add={"gate": ("VARCHAR", "A1")})
        spent = counters.since(before)
        assert (spent["put"], spent["list"]) == (3, 2), spent
        before = counters.as_dict()
        assert kv.get(1)["gate"] == "A1"
        assert counters.since(before)["get"] == 0, "its cache is as it was"
        reader.refresh()
        before = counters.as_dict()
        assert reader.get(1)["gate"] == "A1" and counters.since(before)["get"] == 0


def test_a_call_that_changes_nothing_commits_nothing(table: KeyedTable) -> None:
    filled(table)
    table.alter(comments={"delay": "late"}, comment="all", fence=True)
    before = table.bucket.counters.as_dict()
    for same in (
        {"rename": {"delay": "delay"}},
        {"types": {"delay": "int"}},
        {"comments": {"delay": "late", "tail": None}, "comment": "all"},
        {"set_properties": {"flush_ms": None}},
    ):
        assert table.alter(**same, fence=True).changes == ()
    assert table.bucket.counters.since(before)["put"] == 0
    assert table.alter(rename={"DELAY": "Delay"}, fence=True).changes == ("rename delay to Delay",)


def test_comments_are_by_column_and_go_with_it(table: KeyedTable) -> None:
    done = table.alter(
        rename={"delay": "minutes"},
        comments={"minutes": "late", "ID": "the flight"},
        comment="flights",
        fence=True,
    )
    assert done.changes == ("rename delay to minutes", "comment on minutes", "comment on id", "comment")
    table.alter(rename={"minutes": "m"}, comments={"id": None}, fence=True)
    assert table.as_in(table.view()).definition.comments == {"m": "late", "": "flights"}
    table.alter(drop=["m"], add={"m": "DATE"}, comment="", fence=True)
    assert table.as_in(table.view()).definition.comments == {}
    plain = new_table()
    plain.alter(comments={"value": "text"}, fence=True)
    assert plain.as_in(plain.view()).definition.comments == {"value": "text"}


def test_columns_without_an_operator_change_beside_those_with_one() -> None:
    table = new_table(schema={"flights": "BIGINT", "city": "VARCHAR"}, merge_operator="add")
    with table.open(compaction=False) as kv:
        kv.merge(b"a", {"flights": 1, "city": "Detroit"})
        table.alter(rename={"city": "town"}, add={"worst": ("BIGINT", 7)})
        kv.merge(b"a", {"flights": 2})
        kv.merge(b"b", {"flights": 1})
        kv.put(b"c", {"flights": 1})
        expected = {
            b"a": {"flights": 3, "town": "Detroit", "worst": 7},
            b"b": {"flights": 1, "town": None, "worst": None},
            b"c": {"flights": 1, "town": None, "worst": 7},
        }
        assert dict(kv.scan()) == expected
        kv.merge(b"a", {"worst": 9})
        kv.compact(full=True)
        assert kv.get(b"a") == {"flights": 3, "town": "Detroit", "worst": 9}, (
            "the newest value: nothing is added"
        )
    assert table.as_in(table.view()).definition.merge_operator == {"flights": "add"}


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "nothing to change"),
    ({"rename": {"nope": "x"}}, "no column 'nope' in the values: delay, tail, mean"),
    ({"rename": {"old": "x"}}, "'old' any more: it is called 'mean'"),
    ({"types": {"gone": "BIGINT"}}, "'gone' any more: it was dropped"),
    ({"drop": ["id"]}, "of the table's key"),
    ({"rename": {"delay": "ID"}}, "there is a column 'ID' already"),
    ({"rename": {"delay": "Tail"}}, "there is a column '(Tail|tail)' already"),
    ({"rename": {"delay": "x", "tail": "X"}}, "already"),
    ({"rename": {"delay": "x~1"}}, "'x~1' can't name a column"),
    ({"rename": {"delay": ""}}, "can't name a column"),
    ({"rename": {"delay": "seq"}}, "can't be called 'seq'"),
    ({"add": {"DELAY": "DATE"}}, "there is a column 'DELAY' already"),
    ({"add": {"_firn_x": "DATE"}}, "can't name a column"),
    ({"add": {"x": "NONSENSE"}}, "x"),
    ({"add": {"x": "TIMESTAMP_NS"}}, "microseconds"),
    ({"add": {"x": ("BIGINT", "y")}}, "doesn't fit the column 'x'"),
    ({"add": {"x": ("BIGINT[]", [1])}}, "no default"),
    ({"add": {"x": 7}}, "a type, or a type and a value"),
    ({"types": {"delay": "SMALLINT"}}, "only widens"),
    ({"types": {"delay": "VARCHAR"}}, "only widens"),
    ({"types": {"delay": 7}}, "types is"),
    ({"types": {"delay": "BIGINT"}, "drop": ["delay"]}, "dropped and gets another type"),
    ({"rename": {"delay": "x"}, "drop": ["delay"]}, "dropped and renamed"),
    ({"drop": ["delay", "DELAY"]}, "twice"),
    ({"drop": ["delay", "tail", "mean"]}, "at least one column"),
    ({"comments": {"nope": "x"}}, "no column after the call"),
    ({"rename": {"delay": "x"}, "comments": {"delay": "y"}}, "no column after the call"),
    ({"comments": {"delay": 7}}, "a comment is a text"),
    ({"comment": 7}, "comment"),
    ({"drop": ["delay"], "set_properties": {"nonsense": 1}}, "unknown table property"),
]


@pytest.mark.parametrize(("asked", "message"), BAD)
def test_bad_input_is_refused_before_anything_is_written(
    table: KeyedTable, asked: dict[str, Any], message: str
) -> None:
    table.alter(rename={"mean": "old"}, add={"gone": "DATE"}, fence=True)
    table.alter(drop="gone", fence=True)
    # `old` was a name once, of a column that is called otherwise by now.
    table.alter(drop="old", add={"old": "FLOAT"}, fence=True)
    table.alter(rename={"old": "mean"}, fence=True)
    before, was = table.bucket.counters.as_dict(), columns(table)
    with pytest.raises(InvalidInputError, match=message):
        table.alter(**asked, fence=True)
    assert table.bucket.counters.since(before)["put"] == 0 and columns(table) == was


@pytest.mark.parametrize(
    ("options", "asked", "message"),
    [
        ({}, {"add": {"x": "DATE"}}, "values are bytes"),
        (
            {"schema": {"a": "BIGINT", "b": "VARCHAR"}, "merge_operator": "add"},
            {"rename": {"a": "x"}},
            "'a' has the merge operator 'add'.*Add another column",
        ),
        (
            {"schema": {"a": "BIGINT"}, "merge_operator": "test_kv_altered_columns:whole_rows"},
            {"add": {"x": "DATE"}},
            "gets whole rows",
        ),
    ],
)
def test_what_operators_and_bytes_keep_from_changing(
    options: dict[str, Any], asked: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        new_table(**options).alter(**asked, fence=True)


def test_a_definition_has_a_limit(table: KeyedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.keyed.definition.alteration.LIMIT", 3)
    table.alter(add={"x": "DATE"}, fence=True)
    with pytest.raises(InvalidInputError, match="at most 3 entries"):
        table.alter(add={"y": "DATE"}, fence=True)


def test_a_dry_run_tells_and_changes_nothing(table: KeyedTable) -> None:
    told = table.alter(rename={"delay": "minutes"}, drop="tail", dry_run=True)
    assert told.changes == ("drop tail", "rename delay to minutes")
    assert not table.view().manifest.definition


def test_the_history_tells_it(table: KeyedTable) -> None:
    done = table.alter(rename={"delay": "minutes"}, set_properties={"flush_ms": 20}, fence=True)
    filled_now = {"minutes": 1}
    with table.open(compaction=False) as kv:
        kv.put(1, filled_now)
        kv.compact()
    table.alter(add={"gate": ("VARCHAR", "A1")}, fence=True)
    told = [commit.altered for commit in table.history()]
    assert told == [("add gate VARCHAR default A1",), (), done.changes]


def test_a_writer_whose_alter_has_no_answer_learns_it_by_polling(
    table: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit: Callable[..., Any] = altering._commit

    def unanswered(context: Any, asked: Alteration) -> Any:
        commit(context, asked)
        raise OutcomeUnknownError("no answer")

    with table.open(compaction=False) as kv:
        monkeypatch.setattr(altering, "_commit", unanswered)
        with pytest.raises(OutcomeUnknownError):
            table.alter(drop="tail")
        kv.put(1, {"delay": 1, "tail": "x"})
        table.compact()
        kv.poll()
        assert kv.get(1) == {"delay": 1, "mean": None}
        with pytest.raises(InvalidInputError, match="no value column 'tail'"):
            kv.put(1, {"tail": "x"})


def test_fsck_notices_a_file_of_other_columns(table: KeyedTable) -> None:
    filled(table)
    table.alter(rename={"delay": "minutes"}, drop="tail", add={"gate": "VARCHAR"}, fence=True)
    table.compact(full=True)
    assert check_keyed(table).problems == []
    other = new_table(key={"id": "BIGINT"}, schema={"delay": "INTEGER", "foreign": "VARCHAR"})
    filled_other = {1: {"delay": 1}}
    with other.open(compaction=False) as kv:
        kv.write(filled_other)
    view = other.view()
    with table.open(compaction=False) as kv:
        kv.put(1, {"minutes": 1})
    [flush] = table.view().l0
    table.bucket.put(flush.key, other.bucket.get(view.l0[0].key).data)
    assert any("foreign" in finding.what for finding in check_keyed(table).problems)
    with pytest.raises(CorruptObjectError, match="foreign"):
        table.changes().to_arrow()


def test_entries_that_no_firn_writes_are_damage(table: KeyedTable) -> None:
    for changes in ({(TYPE, "delay"): "NONSENSE"}, {(NAME, "delay"): "tail"}):
        with pytest.raises(CorruptObjectError, match="t: "):
            _ = table.created.altered(Entries().changed(changes))


def test_added_columns_stand_in_the_order_of_calls(table: KeyedTable) -> None:
    table.alter(add={"z": "DATE", "y": ("BIGINT", 1)}, fence=True)
    table.alter(add={"x": "DATE"}, types={"delay": "BIGINT"}, fence=True)
    table.alter(types={"y": "HUGEINT"}, rename={"z": "a"}, fence=True)
    assert [*columns(table)] == ["delay", "tail", "mean", "a", "y", "x"]
    assert table.view().manifest.definition.of(DEFAULT) == {"z": None, "y": "1", "x": None}


def test_ssts_tell_by_which_definition_they_were_written(table: KeyedTable) -> None:
    filled(table)
    table.compact()
    table.alter(add={"x": ("DATE", "2020-01-01"), "y": "DATE"}, fence=True)
    table.load([{"id": 7}])
    clocks = {sst.run: sst.clock for sst in table.view().manifest.ssts}
    now = table.as_in(table.view()).definition
    assert clocks == {0: 0, 1: now.clock} and now.since == {"x": 1}
    table.alter(types={"delay": "BIGINT"}, rename={"y": "z"}, fence=True)
    now = table.as_in(table.view()).definition
    assert now.since == {"x": 1, "delay": now.clock}
    copy = table.clone("copy")
    assert {sst.run: sst.clock for sst in copy.view().manifest.ssts} == clocks


def test_an_older_definition_reads_newer_files() -> None:
    """As a stream does that began before the table was altered."""
    old, new = Values({"a": "INTEGER", "b": "VARCHAR"}, optional=("b",)), Values({"a": "BIGINT"})
    how = reading(old, new.run_schema)
    fits, wide = ([(b"k", 1, 0, None, (n,))] for n in (7, 2**40))
    assert old.entries(how.batch(new.batch(fits)))[0].value == (7, None)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="before the table was altered"):
        how.batch(new.batch(wide))  # type: ignore[arg-type]


def test_sql_over_an_altered_table() -> None:
    db = firn.connect(f"memory://{uuid.uuid4().hex}")
    table = db.create_table(
        "t", kind="keyed", key={"id": "BIGINT"}, schema={"delay": "INTEGER", "tail": "VARCHAR"}
    )
    with table.open(compaction=False) as kv:
        kv.write({n: {"delay": n, "tail": f"N{n}"} for n in range(4)})
        table.compact()
        table.alter(rename={"delay": "minutes"}, drop="tail", add={"tail": ("VARCHAR", "none")})
        kv.put(4, {"minutes": 4, "tail": "N4"})

        def asked(text: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = db.sql(text).to_arrow().to_pylist()
            return found

        assert asked("SELECT count(*) AS n FROM t WHERE tail = 'none'") == [{"n": 4}]
        assert asked("SELECT tail FROM t WHERE minutes > 2 ORDER BY id") == [{"tail": "none"}, {"tail": "N4"}]
        db.sql("INSERT INTO t (id, minutes) VALUES (5, 50)")
        db.sql("INSERT INTO t (id, tail) VALUES (6, NULL) ON CONFLICT DO NOTHING")
        db.sql("UPDATE t SET minutes = minutes * 10 WHERE id = 1")
        db.sql(
            "MERGE INTO t USING (SELECT 7 AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
        )
        assert asked("SELECT * FROM t WHERE id IN (1, 5, 6, 7) ORDER BY id") == [
            {"id": 1, "minutes": 10, "tail": "none"},
            {"id": 5, "minutes": 50, "tail": "none"},
            {"id": 6, "minutes": None, "tail": None},
            {"id": 7, "minutes": None, "tail": "none"},
        ]
        names = [row["column_name"] for row in asked("DESCRIBE t")]
        assert names == ["id", "minutes", "tail"]
