"""What needs several unlikely things at once, step by step: each scenario holds as it is, and fails with its rule
left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from firn.errors import (
    DuplicateKeyError,
    InvalidInputError,
    NotFoundError,
    ObjectLockedError,
    SnapshotTooOldError,
    StaleObjectError,
)
from firn.journal.sequence import (
    Ddl,
    Horizon,
    LogRecord,
    LogTransaction,
    RowWrite,
    SequenceLayout,
    SequenceLog,
    commit,
    truncate,
)
from firn.journal.sequence.codec import encode_record
from firn.records.apply.apply import apply, settle
from firn.records.apply.commit_applier import IDLE_S, Applier
from firn.records.definition.definition import Index, RecordDefinition
from firn.records.maintain.collection import collect, sweep
from firn.records.maintain.ddl import define
from firn.records.maintain.indexes import build_index, drop_index
from firn.records.names.index_values import encode_value
from firn.records.names.layout import RecordLayout
from firn.records.objects.store import RecordStore, StoredRow
from firn.records.write.transaction import Transaction as Open
from firn.records.write.transaction import begin
from firn.testing import FAILED, Call, Fault, SimStore, stalled

PREFIX = "db"
LAYOUT = SequenceLayout(PREFIX)
R = 30.0


class Before:
    """Acts, or lets a fault strike, just before the nth request of a verb whose key ends like this."""

    def __init__(self, verb: str, key: str, action: Fault | Callable[[], object], nth: int = 0) -> None:
        self.verb, self.key, self.action, self.left = verb, key, action, nth

    def decide(self, call: Call) -> Fault | None:
        if call.verb != self.verb or not call.key.endswith(self.key):
            return None
        self.left -= 1
        if self.left != -1:
            return None
        if isinstance(self.action, Fault):
            return self.action
        self.action()
        return None


class Base:
    """Table `t` with an index on `n`, in commit 1; each `store` is a process."""

    def __init__(self, **options: Any) -> None:
        self.objects, self.options = SimStore(), options
        self.definition = RecordDefinition("t", db="db", state="ready", indices=(Index("n"),))
        define(self.store(), Ddl("create", "t", indices=(("n", False),)))

    def store(self, before: Before | None = None, *, skew_ms: int = 0, **options: Any) -> RecordStore:
        bucket = self.objects.bucket(plan=before, skew_ms=skew_ms)
        return RecordStore(
            bucket,
            PREFIX,
            clock=bucket.clock,
            definitions={"t": self.definition}.get,
            **{**self.options, **options},
        )

    def log(self, before: Before | None = None) -> SequenceLog:
        return self.store(before).log

    def begin(self, **options: Any) -> Open:
        return begin(self.store(), **options)

    def put(self, **rows: Mapping[str, Any]) -> None:
        with self.begin() as tx:
            for id, document in rows.items():
                tx.upsert("t", id, document)

    def age(self, seconds: float) -> None:
        self.objects.time.advance(round(seconds * 1000))

    def apply(self) -> None:
        settle(self.store())

    def collect(self) -> None:
        self.apply()
        collect(self.store(), retention_s=0)

    def truncated(self, upto: int) -> None:
        """Commits until the log is truncated so far, with nobody left to wait for."""
        while self.log().refresh().number <= upto:
            self.put(filler={"n": 0})
        self.apply()
        self.log().store.raise_horizon(Horizon(upto, 0, 0))
        truncate(self.log())

    def ghost(self, number: int) -> None:
        """A record that lands in the place of one that was truncated."""
        member = LogTransaction("ghost", number - 1, (RowWrite("t", "ghost", b'{"n":9}'),))
        self.objects.bucket().put_if_absent(
            LAYOUT.record_key(number), encode_record(LogRecord(number, (member,), 0, (), {}))
        )


def _has_no_ghost(log: SequenceLog) -> None:
    head = log.refresh()
    txids = [member.txid for record in log.records(0, head.number) for member in record.group]
    assert "ghost" not in txids, "a ghost is in the log"
    assert log.newest("t", "ghost", head.number) is None, "a ghost is read"


def a_ghost_after_the_horizon() -> None:
    """A client asks for the horizon; the log is truncated; a ghost lands; the client probes."""
    base = Base()
    base.put(a={"n": 1})

    def overtaken() -> None:
        base.truncated(6)
        base.ghost(3)

    log = base.log(Before("get", LAYOUT.record_key(3), overtaken, nth=1))
    log.refresh()
    base.age(R)
    log.refresh()
    _has_no_ghost(log)


def a_ghost_that_another_thread_sees() -> None:
    """A thread has probed a ghost and asks for the horizon, when another one looks at the log's end."""
    base, seen = Base(), []
    log = base.log(Before("get", LAYOUT.horizon_key, lambda: seen.append(log.head().number), nth=2))
    log.refresh()
    base.truncated(6)
    base.ghost(2)
    base.age(R)
    log.refresh()
    assert seen == [1], "a ghost was believed"


def a_commit_into_the_past() -> None:
    """A client that slept commits behind what was truncated."""
    base = Base()
    log = base.log()
    log.refresh()
    base.truncated(6)
    base.age(R)
    outcome = commit(log, [_Put("mine", "m")])
    assert outcome == {"mine": 8}, "a ghost was acknowledged"
    assert base.log().refresh().number == 8


def a_ghost_that_was_found() -> None:
    """A client that slept finds a ghost, and then that the log was truncated."""
    base = Base()
    log = base.log()
    log.refresh()
    base.truncated(6)
    base.ghost(2)
    base.age(R)
    _has_no_ghost(log)


def an_old_snapshot_in_a_process_that_knows_more() -> None:
    """A find at a snapshot that was collected, by a process that has just looked at the log."""
    base = Base()
    base.put(a={"n": 1})
    base.apply()
    store = base.store()
    old = begin(store)
    base.put(a={"n": 2})
    base.put(a={"n": 3})
    base.age(R + 2)
    base.put(b={"n": 2})
    base.collect()
    begin(store)
    with pytest.raises(SnapshotTooOldError):
        old.find("t", n=1)


def a_list_that_takes_long() -> None:
    """The snapshot is fresh when a find begins, and collected when its LIST reaches the store."""
    base = Base()
    base.put(a={"n": 1})
    base.apply()

    def overtaken() -> None:
        base.put(a={"n": 2})
        base.put(a={"n": 3})
        base.age(R + 2)
        base.put(b={"n": 2})
        base.collect()

    old = begin(base.store(Before("list", f"{encode_value(1)}/", overtaken)))
    with pytest.raises(SnapshotTooOldError):
        old.find("t", n=1)


def a_row_that_is_brought_up_to_date_while_it_is_read() -> None:
    """A thread of the same process applies the row's last change just after the row was fetched."""
    base = Base()
    base.put(a={"n": 1})
    base.apply()
    base.put(a={"n": 2})
    store = base.store()
    tx = begin(store)
    fetch = store.row

    def row(layout: RecordLayout, id: str) -> StoredRow:
        found = fetch(layout, id)
        store.row = fetch  # type: ignore[method-assign]
        apply(store)
        return found

    store.row = row  # type: ignore[method-assign]
    assert tx.get("t", "a")["n"] == 2, "the last change is missing"


def a_slow_answer() -> None:
    """The answer that there is no next commit takes 25 s, in which there are some, and a find is late by R."""
    base = Base()
    base.put(a={"n": 1})
    base.apply()

    tx = begin(base.store(Before("get", LAYOUT.record_key(3), stalled(25))))
    assert tx.snapshot == 2
    # The others commit and collect as if they had done so while the answer was under way.
    base.put(a={"n": 2})
    base.put(a={"n": 3})
    base.put(b={"n": 2})
    base.age(8)
    store = base.store(freshness_s=0)
    settle(store)
    store.log.store.raise_horizon(Horizon(4, 0, 5))
    collect(store, retention_s=0)
    with pytest.raises(SnapshotTooOldError):
        tx.find("t", n=1)


def a_log_that_is_truncated_while_it_is_opened() -> None:
    """Between the LIST and the end, the greatest number is truncated, and a ghost stands in for the next."""
    base = Base()
    base.put(a={"n": 1})

    def overtaken() -> None:
        base.truncated(6)
        base.ghost(3)

    _has_no_ghost(base.log(Before("get", LAYOUT.record_key(3), overtaken)))


def a_record_that_is_truncated_while_it_is_read() -> None:
    """It refers to another one for the definitions; when that is asked for, both are truncated, and a table came."""
    base = Base(whole_bytes=0)
    base.put(a={"n": 1})
    base.put(a={"n": 2})
    base.put(a={"n": 3})
    other = RecordDefinition("other", db="db", state="ready")

    def overtaken() -> None:
        define(base.store(), Ddl("create", other.name))
        base.truncated(8)

    log = base.log(Before("get", LAYOUT.record_key(2), overtaken))
    records = log.store.records([4])
    assert all("other" not in record.catalog for record in records.values()), (
        "a table was there before it came"
    )


class _Put:
    def __init__(self, txid: str, *ids: str) -> None:
        self.txid, self.snapshot, self.ids = txid, 1, ids

    def admit(self, moment: Any) -> LogTransaction:
        taken = {w.id for member in moment.earlier for w in member.writes}
        if taken & set(self.ids):
            raise StaleObjectError("taken")
        return LogTransaction(self.txid, 1, tuple(RowWrite("t", id, b"{}") for id in self.ids))


def a_group_that_overlaps() -> None:
    """Two threads' transactions that write one row gather for one record."""
    outcomes = commit(Base().log(), [_Put("one", "x"), _Put("two", "x")])
    assert outcomes["one"] == 2
    assert isinstance(outcomes["two"], StaleObjectError), "both of a group wrote one row"


def a_store_that_fails_after_the_commit() -> None:
    """The record landed, and the horizon can't be read."""
    base = Base()
    log = base.log(Before("get", LAYOUT.horizon_key, FAILED, nth=2))
    log.refresh()
    base.age(R)
    assert commit(log, [_Put("one", "x")]) == {"one": 2}


def a_sweep_between_entries_and_row() -> None:
    """An applier has put an entry, and is about to put the row."""
    base = Base()
    base.put(a={"n": 1})

    def swept() -> None:
        assert not sweep(base.store(), orphan_age_s=0).damaged, (
            "a row was taken for lost that is about to come"
        )

    settle(base.store(Before("put_if_absent", "/data/a.json", swept)))
    assert base.begin().count("t", n=1) == 1, "an entry was swept that was needed"


def a_collection_that_is_ahead_of_appliers() -> None:
    """The same, when the last commits have aged and nobody has applied them."""
    base = Base()
    base.put(a={"n": 1})
    base.put(b={"n": 1})
    base.age(R + 2)
    base.put(c={"n": 1})

    def swept() -> None:
        store = base.store()
        damaged = collect(store, retention_s=0).damaged
        assert not {**damaged, **sweep(store, orphan_age_s=0).damaged}, "a row was taken for lost"

    settle(base.store(Before("put_if_absent", "/data/a.json", swept)))
    assert base.begin().count("t", n=1) == 3, "an entry was swept that was needed"


def a_hole_in_what_is_done() -> None:
    """One applier is through with commit 3, nobody with 2."""
    base = Base()
    base.put(a={"n": 1})
    base.put(b={"n": 1})
    log = base.log()
    log.refresh()
    log.mark_applied(3)
    assert set(log.changes("t", 3)) == {"a", "b"}, "what isn't applied isn't read"


def nobody_applies() -> None:
    """Only clients, no applier."""
    base = Base()
    store = base.store(max_lag=3)
    for n in range(10):
        with begin(store) as tx:
            tx.upsert("t", "a", {"n": n})
    assert store.log.lag <= 4, "the log runs away"


def a_process_that_crashed() -> None:
    """It has committed, and applied nothing; another one commits and lives on."""
    base = Base()
    base.put(a={"n": 1})
    store = base.store()
    with begin(store) as tx:
        tx.upsert("t", "b", {"n": 1})
    applier = Applier(store)
    for _ in range(4):
        store.clock.sleep(applier.work() or IDLE_S)
    assert store.log.lag == 0, "nobody applies what is left behind"
    assert store.log.store.horizon().applied == 3


def locks_and_clocks() -> None:
    """A lock that is held, as seen by a client whose clock is an hour fast."""
    base = Base()
    base.put(a={"n": 1})
    holder = base.begin(lock=True)
    holder.update("t", "a", {"n": 2})
    hasty = begin(base.store(skew_ms=3_600_000), lock=True)
    with pytest.raises(ObjectLockedError):
        hasty.update("t", "a", {"n": 3})


def a_writer_that_asks_for_no_lock() -> None:
    """Locks are advisory: it commits to a row that another transaction has locked."""
    base = Base()
    base.put(a={"n": 1})
    holder = base.begin(lock=True)
    holder.update("t", "a", {"n": 2})
    base.put(a={"n": 3})
    with pytest.raises(StaleObjectError):
        holder.commit()


def a_lock_on_what_has_moved() -> None:
    """The row was changed after the transaction began, and is locked by nobody."""
    base = Base()
    base.put(a={"n": 1})
    tx = base.begin(lock=True)
    base.put(a={"n": 2})
    with pytest.raises(StaleObjectError):
        tx.update("t", "a", {"n": 3})


def a_writer_that_overtakes_a_build() -> None:
    """It began before the build, and commits while rows are listed."""
    base = Base()
    base.put(a={"m": 1})
    writer = base.begin()
    writer.upsert("t", "b", {"m": 1})
    build_index(base.store(Before("list", "t/data/", writer.commit)), "t", "m")
    base.apply()
    assert base.begin().count("t", m=1) == 2, "a row isn't in the index"


def _unique_build(base: Base, before: Before) -> None:
    with pytest.raises((DuplicateKeyError, NotFoundError)):
        build_index(base.store(before), "t", "m", unique=True)


def a_claim_beside_a_row_that_keeps_its_value() -> None:
    """Both land, in one record, between the look at all rows and the end of the build; who claims had looked before
    there were entries."""
    base = Base()
    base.put(a={"m": 1})
    base.apply()
    keeps = _Raw(RowWrite("t", "a", b'{"k":1,"m":1}'))
    takes = _Raw(RowWrite("t", "b", b'{"m":1}'), claims=(f"t/m/{encode_value(1)}",))
    log = base.log()
    _unique_build(base, Before("put_if_absent", LAYOUT.record_key(4), lambda: commit(log, [keeps, takes])))
    assert "m" not in base.log().refresh().catalog["t"].fields, "two rows have one value"


def a_writer_that_is_older_than_a_unique_index() -> None:
    """Between the two, somebody brought the value in, and had nothing to claim yet."""
    base = Base()
    early = base.begin()
    early.upsert("t", "early", {"m": 1})
    base.put(late={"m": 1})
    build_index(base.store(), "t", "m", unique=True)
    with pytest.raises(DuplicateKeyError):
        early.commit()


def a_builder_that_slept() -> None:
    """Its index was dropped, and somebody else has begun to build another one."""
    base = Base()
    base.put(a={"m": 1})

    def overtaken() -> None:
        drop_index(base.store(), "t", "m")
        define(base.store(), Ddl("build", "t", field="m", unique=True))

    _unique_build(base, Before("list", "t/data/", overtaken))
    assert base.log().refresh().catalog["t"].fields["m"].stage == "build", "it isn't filled"


class _Raw:
    def __init__(self, write: RowWrite, claims: tuple[str, ...] = ()) -> None:
        self.txid, self.snapshot, self.write, self.claims = f"raw {write.id}", 2, write, claims

    def admit(self, moment: Any) -> LogTransaction:
        return LogTransaction(self.txid, self.snapshot, (self.write,), self.claims)


def a_find_during_a_build() -> None:
    """The build has begun, and no entry is there yet."""
    base = Base()
    base.put(a={"m": 1})
    base.apply()
    define(base.store(), Ddl("build", "t", field="m"))
    with pytest.raises(InvalidInputError):
        base.begin().find("t", m=1)


def a_stalled_applier() -> None:
    """It read a row's absence, others went on, and the row was deleted."""
    base = Base()
    base.put(a={"n": 1})

    def overtaken() -> None:
        with base.begin() as tx:
            tx.delete("t", "a")
        base.age(R + 2)
        base.put(b={"n": 1})
        base.age(R + 2)
        base.put(b={"n": 1})
        base.collect()

    applier = base.store(Before("put_if_absent", "/data/a.json", overtaken))
    applier.log.refresh()
    apply(applier)
    base.apply()
    assert base.begin().scan("t", n=1)[0]["_id"] == "b", "a deleted row is back"
