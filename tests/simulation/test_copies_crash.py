"""A copy of a record table, struck at every request: whoever calls again ends it, and each change is there once."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from firn.bucket import Bucket
from firn.database import copies
from firn.database.kinds.lake import LakeTables
from firn.errors import FirnError
from firn.journal.agreement import Rules
from firn.journal.leaderless import LeaderlessJournal
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.records.apply.apply import settle
from firn.records.load.copy_cursor import Cursor, StoredCursor, read_cursor, write_cursor
from firn.records.table import RecordTable
from firn.testing import CrashPoint, GatedBucket, SimStore, SimulationFailure, crash_points
from firn.testing.client import Call
from simulation.test_crash import SimDatabase as Simulated


class SimLakes(LakeTables):
    """Lake tables in the time of the store."""

    def open(self, definition: LakeDefinition, *, undefined: bool = False) -> LakeTable:
        bucket, prefix = self.bucket, f"{self.prefix}/{definition.name}"
        assert isinstance(bucket, GatedBucket)
        journal = LeaderlessJournal(
            bucket,
            prefix,
            rules=Rules(definition.columns),
            clock=bucket.clock,
            renew_in_background=False,
            undefined=undefined,
            generation=definition.generation,
            shared=definition.shared,
        )
        return LakeTable(bucket, prefix, definition, journal, self.engines)


class SimDatabase(Simulated):
    def __init__(self, bucket: GatedBucket) -> None:
        super().__init__(bucket)
        lakes = SimLakes(bucket, self.prefix, {}, self.engines, self._writers, None)
        self._opened = replace(self._opened, kinds={**self._opened.kinds, "lake": lakes})


MODES = ("before", "after", "lost_ack", "retried", "failed")


def stock(db: SimDatabase) -> RecordTable:
    table = db.table("stock")
    assert isinstance(table, RecordTable)
    return table


def found(db: SimDatabase) -> list[tuple[int, str, str]]:
    if "target" not in db.tables():
        return []
    rows = db.table("target").scan().to_arrow().to_pylist()
    return sorted((row["_seq"], row["_id"], row["_kind"]) for row in rows)


def told(db: SimDatabase) -> list[tuple[int, str, str]]:
    return sorted((change.seq, change.id, change.kind) for change in stock(db).changes())


def started(*, copied: bool) -> SimStore:
    store = SimStore()
    db = SimDatabase(store.bucket())
    table = db.create_table("stock", kind="records")
    table.upsert("a", {"n": 1})
    table.upsert("b", {"n": 1})
    if copied:
        db.copy("stock", "target", changes=True)
        with db.begin() as tx:
            tx.delete("stock", "a")
            tx.upsert("stock", "b", {"n": 2})
        table.upsert("b", {"n": 3})
    settle(table.session.store)
    return store


def copy_changes(bucket: GatedBucket) -> None:
    SimDatabase(bucket).copy("stock", "target", changes=True)


def check_changes(store: SimStore, point: CrashPoint) -> None:
    db = SimDatabase(store.bucket("survivor"))
    partly = found(db)
    assert len(set(partly)) == len(partly) and set(partly) <= set(told(db))
    stock(db).upsert("c", {"n": 9})
    SimDatabase(store.bucket("again")).copy("stock", "target", changes=True)
    assert found(db) == told(db), "each change once, with the one that came after"
    assert SimDatabase(store.bucket("third")).copy("stock", "target", changes=True).rows == 0


def test_the_first_copy_of_changes() -> None:
    assert crash_points(lambda: started(copied=False), copy_changes, check_changes, modes=MODES) > 40


def test_a_later_copy_of_changes() -> None:
    assert crash_points(lambda: started(copied=True), copy_changes, check_changes, modes=MODES) > 40


def named_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each append has a name of its own."""
    monkeypatch.setattr(Cursor, "batch_id", property(lambda cursor: secrets.token_hex(8)))


def not_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor doesn't say what comes next."""

    def write(bucket: Bucket, key: str, cursor: Cursor, over: StoredCursor | None) -> StoredCursor:
        if over is None or cursor.settled:
            return write_cursor(bucket, key, cursor, over)
        return StoredCursor(cursor, over.etag)

    monkeypatch.setattr(copies, "write_cursor", write)


def told_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor says that all is there before it is."""
    append = copies._ChangeCopy._append

    def early(copy: copies._ChangeCopy, cursor: Cursor) -> None:
        stored = read_cursor(copy.bucket, copy.key)
        assert stored is not None
        write_cursor(copy.bucket, copy.key, cursor.done(), stored)
        append(copy, cursor)

    monkeypatch.setattr(copies._ChangeCopy, "_append", early)


@pytest.mark.parametrize("rule", [named_anew, not_announced, told_too_early], ids=lambda f: f.__name__)
def test_what_is_left_out_is_noticed(
    monkeypatch: pytest.MonkeyPatch, rule: Callable[[pytest.MonkeyPatch], None]
) -> None:
    rule(monkeypatch)
    with pytest.raises(SimulationFailure):
        crash_points(lambda: started(copied=True), copy_changes, check_changes, modes=MODES)


def test_a_copy_of_rows() -> None:
    """Done again at the same commit, it is there once."""

    def copy_rows(bucket: GatedBucket) -> None:
        SimDatabase(bucket).copy("stock", "rows", at=4)

    def check(store: SimStore, point: CrashPoint) -> None:
        db = SimDatabase(store.bucket("again"))
        db.copy("stock", "rows", at=4)
        rows = db.table("rows").scan().to_arrow().to_pylist()
        assert sorted((row["_id"], row["document"]) for row in rows) == [("b", '{"n":2}')]

    assert crash_points(lambda: started(copied=True), copy_rows, check, modes=MODES) > 20


class Others:
    """Act just before one request of a client."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.at, self.act, self.calls = at, act, 0

    def decide(self, call: Call) -> None:
        self.calls += 1
        if self.calls - 1 == self.at:
            self.act()


def test_two_copiers_one_of_which_sleeps_at_a_request() -> None:
    """At each request of one, more is written, and another copies; then the one goes on."""
    template = started(copied=True)
    at = 0
    while True:
        store = template.copy()

        def others(store: SimStore = store, at: int = at) -> None:
            stock(SimDatabase(store.bucket("writer"))).upsert("c", {"n": at})
            SimDatabase(store.bucket("other")).copy("stock", "target", changes=True)

        plan = Others(at, others)
        with suppress(FirnError):
            SimDatabase(store.bucket("sleeper", plan=plan)).copy("stock", "target", changes=True)
        db = SimDatabase(store.bucket("reader"))
        db.copy("stock", "target", changes=True)
        assert found(db) == told(db), f"asleep at request {at}"
        if plan.calls <= at:
            break
        at += 1
    assert at > 15
