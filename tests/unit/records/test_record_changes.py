"""The change feed of record tables: every write of every commit once, from log and packs, and an error where gone."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firn
from firn.errors import CorruptObjectError, InvalidInputError, SnapshotTooOldError, TableNotFoundError
from firn.journal.sequence import Horizon, truncate
from firn.journal.sequence.history import history
from firn.records.maintain.collection import sweep
from firn.records.read.changes import since_version
from record_stores import PREFIX, Database, R


def told(changes: Any) -> list[tuple[int, str, Any]]:
    return [(change.seq, change.id, change.document) for change in changes]


def spent(store: Any, action: Any) -> dict[str, int]:
    before = store.bucket.counters.as_dict()
    action()
    since = store.bucket.counters.since(before)
    return {verb: n for verb, n in since.items() if n and not verb.startswith("bytes")}


def test_every_write_of_every_commit_is_told_in_their_order(db: Database) -> None:
    first = db.put(a={"n": 1}, b={"n": 2})
    second = db.put(a={"n": 3})
    third = db.put(b=None)
    changes = since_version(db.store(), "t")
    assert told(changes) == [
        (first, "a", {"n": 1}),
        (first, "b", {"n": 2}),
        (second, "a", {"n": 3}),
        (third, "b", None),
    ]
    assert [change.kind for change in changes] == ["put", "put", "put", "delete"]
    assert changes.version == str(third)
    assert told(changes) == told(changes)


def test_a_version_goes_on_where_the_last_ended(db: Database) -> None:
    db.put(a={"n": 1})
    begun = since_version(db.store(), "t").version
    middle = db.put(a={"n": 2})
    last = db.put(a={"n": 3})
    store = db.store()
    assert told(since_version(store, "t", begun)) == [(middle, "a", {"n": 2}), (last, "a", {"n": 3})]
    assert told(since_version(store, "t", begun, middle)) == [(middle, "a", {"n": 2})]
    assert told(since_version(store, "t", str(middle), str(middle))) == []
    assert told(since_version(store, "t", last)) == []


def test_other_tables_and_definitions_are_left_out(db: Database) -> None:
    with db.begin("writer") as tx:
        tx.insert("plain", "x", {"n": 1})
        tx.insert("t", "a", {"n": 1})
    assert [change.id for change in since_version(db.store(), "t")] == ["a"]
    assert [change.id for change in since_version(db.store(), "plain")] == ["x"]


def test_packed_commits_are_told_with_one_get_a_pack(db: Database) -> None:
    db.put(z={"n": 0})
    seqs = [db.put(a={"n": n}) for n in range(10)]
    db.age(2 * R)
    db.put(b={"n": 1})
    db.age(2 * R)
    db.collect()
    reader = db.store()
    changes = since_version(reader, "t", seqs[0])
    assert reader.log.store.horizon().lo >= seqs[8]  # else nothing of this is tested
    found: list[Any] = []
    cost = spent(reader, lambda: found.extend(told(changes)))
    assert found[:9] == [(seq, "a", {"n": n}) for n, seq in enumerate(seqs) if n]
    assert [id for _, id, _ in found[9:]] == ["b"]
    # The horizon, the packs' LIST and one pack; the last commit is in memory since the log was opened.
    assert cost == {"list": 1, "get": 2}


def test_commits_that_are_not_in_memory_cost_a_get_each(db: Database) -> None:
    seqs = [db.put(a={"n": n}) for n in range(6)]
    db.apply()
    db.put(a={"n": 6})  # which says that the others are applied
    reader = db.store()
    changes = since_version(reader, "t", seqs[0])
    # The last one was read when the log was opened.
    assert spent(reader, lambda: list(changes)) == {"get": 1 + 5 + 1}


def test_packs_that_follow_one_another(db: Database) -> None:
    seqs = [db.put(a={"n": n}) for n in range(9)]
    db.apply()
    store = db.store("collector")
    store.log.store.raise_horizon(Horizon(horizon=seqs[-1]))
    store.log.refresh()
    truncate(store.log, largest=2)
    assert len(db.paths("_firn/packs/")) > 2
    log = db.store().log
    head = log.refresh().number
    for after in (seqs[0], seqs[1], seqs[2]):
        for upto in (seqs[3], seqs[4], head):
            assert [r.number for r in history(log, after, upto)] == list(range(after + 1, upto + 1))


def test_what_was_swept_is_an_error_and_later_changes_are_still_told(db: Database) -> None:
    first = db.put(a={"n": 1})
    second = db.put(a={"n": 2})
    db.age(2 * R)
    last = db.put(b={"n": 1})
    db.age(2 * R)
    db.collect()
    db.age(2 * R)
    store = db.store("sweeper")
    assert sweep(store, orphan_age_s=R).packs == 1
    reader = db.store()
    assert reader.log.store.horizon().lo == second
    with pytest.raises(SnapshotTooOldError, match=f"what was committed after {first} can't be told"):
        list(since_version(reader, "t", first))
    assert told(since_version(reader, "t", second)) == [(last, "b", {"n": 1})]


def test_a_large_document_is_fetched_and_its_end_is_told() -> None:
    db = Database(properties={"inline": 10})
    text = "x" * 50
    first = db.put(a={"n": 1, "text": text})
    second = db.put(a={"n": 2})
    store = db.store()
    assert told(since_version(store, "t")) == [(first, "a", {"n": 1, "text": text}), (second, "a", {"n": 2})]
    for body in db.paths("_firn/bodies/"):
        db.bucket().delete(f"{PREFIX}/{body}")
    with pytest.raises(SnapshotTooOldError, match="was removed with its version of the row"):
        list(since_version(store, "t"))


def test_a_table_that_was_made_again_tells_its_own_only() -> None:
    db = firn.connect("memory://")
    old = db.create_table("t", kind="records")
    old.insert("a", {"n": 1})
    version = old.changes().version
    db.drop_table("t")
    with pytest.raises(TableNotFoundError):
        old.changes(version)
    new = db.create_table("t", kind="records")
    new.insert("b", {"n": 2})
    assert [change.id for change in new.changes()] == ["b"]
    with pytest.raises(SnapshotTooOldError, match="were another table's of its name"):
        new.changes(version)


@pytest.mark.parametrize("since", ["x", -1, "-1", True, 1.5, "2026-01-01", b"1"])
def test_what_is_no_version(since: Any) -> None:
    table = firn.connect("memory://").create_table("t", kind="records")
    with pytest.raises(InvalidInputError, match=r"the number of a commit|it must be a text, a whole number"):
        table.changes(since)


def test_ends_that_cannot_be(db: Database) -> None:
    first = db.put(a={"n": 1})
    last = db.put(a={"n": 2})
    store = db.store()
    with pytest.raises(InvalidInputError, match=f"the last commit is {last}"):
        since_version(store, "t", None, last + 1)
    with pytest.raises(InvalidInputError, match="before"):
        since_version(store, "t", last, first)


def test_a_missing_commit_is_damage_not_silence(db: Database) -> None:
    seqs = [db.put(a={"n": n}) for n in range(4)]
    db.apply()
    db.put(a={"n": 4})
    reader = db.store()
    changes = since_version(reader, "t", seqs[0])
    db.bucket().delete(f"{PREFIX}/_commits/{seqs[1]:020d}")
    with pytest.raises((SnapshotTooOldError, CorruptObjectError)):
        list(changes)


def test_changes_of_declared_columns_in_arrow() -> None:
    table = firn.connect("memory://").create_table(
        "people", kind="records", schema={"born": "DATE", "n": "INTEGER"}
    )
    table.insert("ada", {"born": date(1815, 12, 10), "n": 1})
    table.delete("ada")
    found = table.changes().to_arrow()
    assert found.column_names == ["_id", "born", "n", "_kind", "_seq"]
    rows = found.to_pylist()
    assert [(row["_id"], row["born"], row["n"], row["_kind"]) for row in rows] == [
        ("ada", date(1815, 12, 10), 1, "put"),
        ("ada", None, None, "delete"),
    ]
    assert rows[0]["_seq"] < rows[1]["_seq"]
    assert table.changes(rows[1]["_seq"]).to_arrow().schema == found.schema


def test_changes_of_any_documents_have_their_json() -> None:
    table = firn.connect("memory://").create_table("t", kind="records")
    table.insert("a", {"z": [1], "b": "é"})
    table.delete("a")
    found = table.changes().to_arrow().select(["_id", "document", "_kind"]).to_pylist()
    assert found == [
        {"_id": "a", "document": '{"b":"é","z":[1]}', "_kind": "put"},
        {"_id": "a", "document": None, "_kind": "delete"},
    ]


def test_a_column_of_the_feeds_own_names_is_refused() -> None:
    table = firn.connect("memory://").create_table("t", kind="records", schema={"_seq": "INTEGER"})
    table.insert("a", {"_seq": 1})
    assert [change.document for change in table.changes()] == [{"_seq": 1}]
    with pytest.raises(InvalidInputError, match="'_seq'"):
        table.changes().to_arrow()


def test_a_document_of_changes_is_the_callers_own(db: Database) -> None:
    db.put(a={"n": 1})
    (change,) = since_version(db.store(), "t")
    assert change.document is not None
    change.document["n"] = 2
    assert change.document == {"n": 1}


writes = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 9), min_size=1)


@settings(max_examples=40, deadline=None)
@given(st.lists(writes, max_size=12), st.data())
def test_changes_applied_to_rows_give_later_rows(
    commits: list[dict[str, int | None]], data: st.DataObject
) -> None:
    """From any version on, whatever was collected and truncated meanwhile."""
    db = Database()
    states = {since_version(db.store(), "t").version: dict[str, Any]()}
    rows: dict[str, Any] = {}
    for commit in commits:
        done = {id: n for id, n in commit.items() if n is not None or id in rows}
        if not done:
            continue
        version = db.put(**{id: None if n is None else {"n": n} for id, n in done.items()})
        rows = {id: n for id, n in {**rows, **done}.items() if n is not None}
        states[str(version)] = rows
        if data.draw(st.booleans()):
            db.age(2 * R)
            db.collect()
    start = data.draw(st.sampled_from(list(states)))
    end = data.draw(st.sampled_from([version for version in states if int(version) >= int(start)]))
    copy = dict(states[start])
    for change in since_version(db.store(), "t", start, end):
        copy.pop(change.id, None)
        if change.document is not None:
            copy[change.id] = change.document["n"]
    assert copy == states[end]
