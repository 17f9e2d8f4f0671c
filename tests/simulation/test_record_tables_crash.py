"""Making and dropping record tables, and a transaction that is run until it counts, struck at every request.

After each strike a name is a whole table or free, what was begun can be ended by whoever comes next, and nothing
that was acknowledged is gone.
"""

from __future__ import annotations

import pytest

from firn.alter import AlterResult
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.errors import FirnError, TableExistsError
from firn.records.apply.apply import settle
from firn.records.definition.definition import Isolation, read_definition
from firn.records.table import RecordTable
from firn.testing import CrashPoint, GatedBucket, SimStore, crash_points

MODES = ("before", "after", "lost_ack", "retried", "failed")


def tables(bucket: GatedBucket) -> RecordTables:
    return RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)


def make(bucket: GatedBucket) -> RecordTable:
    made = tables(bucket)
    table = made.create(made.describe("t", RecordOptions(indices=["n"])))
    assert isinstance(table, RecordTable)
    return table


def opened(bucket: GatedBucket) -> RecordTable | None:
    """The table as another process finds it."""
    made = tables(bucket)
    definition = read_definition(bucket, "db/t")
    usable = None if definition is None else made.usable(definition)
    table = None if usable is None else made.open(usable)
    assert table is None or isinstance(table, RecordTable)
    return table


def used(table: RecordTable) -> None:
    """It is whole: rows are found by id and by index."""
    table.upsert("a", {"n": 7})
    assert [row.id for row in table.find(n=7)] == ["a"]
    settle(table.session.store)
    assert [row.id for row in table.find(n=7)] == ["a"]


def test_a_creation_is_ended_or_can_be_begun_again() -> None:
    def check(store: SimStore, point: CrashPoint) -> None:
        bucket = store.bucket("later")
        try:
            table = make(bucket)
        except TableExistsError:
            found = opened(bucket)
            assert found is not None
            table = found
        assert table.scan() == []
        used(table)

    assert crash_points(SimStore, make, check, modes=MODES) > 10


def dropped_store() -> SimStore:
    store = SimStore()
    bucket = store.bucket()
    table = make(bucket)
    used(table)
    return store


def drop(bucket: GatedBucket) -> None:
    definition = read_definition(bucket, "db/t")
    assert definition is not None
    tables(bucket).drop(definition)


OLD = {"n": "INTEGER", "old": "VARCHAR"}
NEW = {"n": "BIGINT", "new": "VARCHAR"}
LINES = ("drop old", "add new VARCHAR", "type of n: BIGINT", "comment: altered")


def altered_store(isolation: Isolation) -> SimStore:
    store = SimStore()
    made = tables(store.bucket())
    table = made.create(made.describe("t", RecordOptions(schema=OLD, isolation=isolation)))
    table.insert("a", {"n": 7, "old": "x"})
    return store


def alter(bucket: GatedBucket) -> AlterResult:
    definition = read_definition(bucket, "db/t")
    assert definition is not None
    table = tables(bucket).open(definition)
    return table.alter(add={"new": "VARCHAR"}, drop=["old"], types={"n": "BIGINT"}, comment="altered")


@pytest.mark.parametrize("isolation", ["snapshot", "row"])
def test_an_alter_is_done_whole_or_not_at_all(isolation: Isolation) -> None:
    def check(store: SimStore, point: CrashPoint) -> None:
        for again in (False, True):
            bucket = store.bucket(f"later {again}")
            if again:
                assert alter(bucket).changes in ((), LINES)
            definition = read_definition(bucket, "db/t")
            assert definition is not None
            table = tables(bucket).open(definition)
            row = table.get("a")
            columns = table.definition.columns
            assert columns == NEW if again else columns in (OLD, NEW)
            assert table.definition.comments == ({"": "altered"} if columns == NEW else {})
            assert row.document == ({"n": 7, "old": "x"} if columns == OLD else {"n": 7, "new": None})
            table.update("a", {**row})
        # Its row was written again without it.
        assert table.alter(add={"old": "VARCHAR"}).changes == ("add old VARCHAR",)

    assert crash_points(lambda: altered_store(isolation), alter, check, modes=MODES) > 4


def test_a_drop_is_ended_by_whoever_makes_the_next_table() -> None:
    def check(store: SimStore, point: CrashPoint) -> None:
        bucket = store.bucket("later")
        if opened(bucket) is not None:
            drop(bucket)
        again = make(bucket)
        assert again.scan() == [] and again.find(n=7) == []
        used(again)
        assert not [key for key in store.keys("db/t/") if "/data/" in key or "/indices/" in key]

    assert crash_points(dropped_store, drop, check, modes=MODES) > 10


def test_a_dropper_that_slept_takes_nothing_of_the_next_table() -> None:
    store = dropped_store()
    bucket = store.bucket()
    before = read_definition(bucket, "db/t")
    assert before is not None
    drop(bucket)
    used(make(bucket))
    tables(store.bucket("sleeper")).erase(before)
    found = opened(store.bucket("reader"))
    assert found is not None
    assert [row.id for row in found.find(n=7)] == ["a"]


def test_of_two_who_make_a_table_one_wins_and_the_other_hears_of_it() -> None:
    """The second begins wherever the first is."""
    store = SimStore()
    calls = crash_points(SimStore, make, lambda store, point: None, modes=("after",))
    for at in range(calls):
        store = SimStore()
        outcomes: list[object] = []

        def second(store: SimStore = store, outcomes: list[object] = outcomes) -> None:
            try:
                used(make(store.bucket("second")))
                outcomes.append("second")
            except FirnError as error:
                outcomes.append(type(error))

        first = store.bucket("first", plan=_At(at, second))
        try:
            table = make(first)
            outcomes.append("first")
        except TableExistsError:
            table = opened(store.bucket("later"))  # type: ignore[assignment]
        assert len([outcome for outcome in outcomes if outcome in ("first", "second")]) == 1, (at, outcomes)
        assert table is not None
        if "second" in outcomes:
            assert [row.id for row in table.scan()] == ["a"]
        used(table)


class _At:
    """Does something just before the nth request."""

    def __init__(self, number: int, action: object) -> None:
        self.left, self.action = number, action

    def decide(self, call: object) -> None:
        self.left -= 1
        if self.left == -1:
            self.action()  # type: ignore[operator]


def counter() -> SimStore:
    store = SimStore()
    table = make(store.bucket())
    table.insert("c", {"n": 0})
    return store


@pytest.mark.parametrize("serializable", [False, True])
def test_work_counts_once_however_the_store_answers(serializable: bool) -> None:
    acknowledged: list[int] = []
    ever: set[int] = set()

    def more(bucket: GatedBucket) -> None:
        acknowledged.clear()

        def work(tx: object) -> int:
            n = tx.get("t", "c")["n"] + 1  # type: ignore[attr-defined]
            tx.update("t", "c", {"n": n})  # type: ignore[attr-defined]
            return int(n)

        acknowledged.append(tables(bucket).session.transact(work, serializable=serializable))

    def check(store: SimStore, point: CrashPoint) -> None:
        found = opened(store.bucket("later"))
        assert found is not None
        n = found.get("c")["n"]
        ever.update(acknowledged)
        assert n == 1 if acknowledged else n in (0, 1)

    assert crash_points(counter, more, check, modes=MODES) > 5
    assert ever == {1}
