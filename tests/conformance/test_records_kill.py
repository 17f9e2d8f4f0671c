"""Processes that share record tables, killed by SIGKILL at any moment: what they saw is one order of transactions,
and what they leave is whole. Of each thing that is looked at, something planted shows that it would be noticed."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
from record_client import MIX, Said, Worker, line, open_store, parsed
from record_killing import PREFIX, examine, prepare, work_and_kill

from firn.journal.sequence import SequenceLog
from firn.records.apply import apply
from firn.records.objects.row import Row
from firn.records.objects.store import RecordStore
from firn.records.write import transaction
from firn.records.write.transaction import begin
from simulation.records_clients import SHIFTS, Session
from stores.places import Place

pytestmark = pytest.mark.long


def test_what_processes_saw_that_were_killed(shared: Place) -> None:
    prepare(shared)
    said = work_and_kill(shared, clients=3, kills=3, lines=60, seed=1)
    committed = examine(shared, said)
    assert committed.keys() == MIX.keys()
    assert committed.total() >= 100


@pytest.mark.stores
@pytest.mark.parametrize("seed", range(2, 4))
def test_many_that_were_killed(shared: Place, seed: int) -> None:
    prepare(shared)
    said = work_and_kill(shared, clients=4, kills=12, lines=100, seed=seed)
    assert examine(shared, said).total() >= 1000


# -- what is planted is found


class Run:
    """Transactions of two processes that nobody kills, two and two at once, and the database that they left."""

    def __init__(self, rounds: int) -> None:
        self.place = Place("memory", f"memory://kill-{uuid.uuid4().hex}", {})
        prepare(self.place)
        last: dict[str, Said] = {}
        self.store = open_store(self.place.open(), PREFIX)
        workers = [
            Worker(store, name, lambda said: last.update({said.name: parsed(line(said))}))
            for name, store in (("one", self.store), ("two", open_store(self.place.open(), PREFIX)))
        ]
        for number in range(rounds):
            one, two = (worker.work(number) for worker in workers)
            if number % 3 == 0:
                next(one)  # has begun, and reads when the other one's commit is in rows
                deque(two)
                apply.settle(self.store)
            deque(zip_longest(one, two))  # both read, then both commit
        apply.settle(self.store)
        self.said = list(last.values())

    def alter(self, which: Callable[[Said], Any], change: Callable[[Said], Said]) -> None:
        """Let one transaction have been seen otherwise."""
        at = next(n for n, said in enumerate(self.said) if which(said))
        self.said[at] = change(self.said[at])

    def put(self, table: str, id: str, document: dict[str, Any]) -> None:
        with begin(self.store) as tx:
            tx.upsert(table, id, document)


@pytest.fixture
def run() -> Run:
    return Run(rounds=40)


def test_what_nobody_killed_holds(run: Run) -> None:
    assert examine(run.place, run.said).keys() == MIX.keys()


def money_is_made(run: Run, _: Any) -> None:
    account = begin(run.store).scan("bank")[0]
    run.put("bank", account.id, {**account.document, "balance": account["balance"] + 1})


def nobody_is_on_call(run: Run, _: Any) -> None:
    for n in range(3):
        run.put("doctors", f"{SHIFTS[0]}{n}", {"shift": SHIFTS[0], "on": False})


def one_email_is_twice(run: Run, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction, "claims_of", lambda *_: ())
    for n in range(2):
        run.put("users", f"twin{n}", {"email": "twin@example.com", "city": "Oslo"})


def an_element_is_lost(run: Run, _: Any) -> None:
    found = next(row for row in begin(run.store).scan("lists") if row["values"])
    run.put("lists", found.id, {**found.document, "values": found["values"][:-1]})


def an_entry_is_missing(run: Run, _: Any) -> None:
    bucket = run.place.open()
    bucket.delete(bucket.list(f"{PREFIX}/bank/indices/kind/").objects[0].key)


def an_entry_is_of_no_row(run: Run, patch: pytest.MonkeyPatch) -> None:
    bucket = run.place.open()
    bucket.put(f"{PREFIX}/bank/indices/kind/xx/x/db___bank___nobody___00000000000000000003", b"")
    patch.setattr("record_killing.collection.sweep", lambda *_, **__: None)


def a_version_is_missing(run: Run, _: Any) -> None:
    table = run.store.table("bank", run.store.log.refresh().catalog)
    id = next(
        write.id
        for r in reversed(_log(run.store))
        for m in r.group
        for write in m.writes
        if write.table == "bank"
    )
    stored = run.store.row(table.layout, id)
    cut = replace(stored.row, versions=stored.row.versions[1:])
    run.store.put_row(table.layout, cut, stored.etag)


def _log(store: RecordStore) -> list[Any]:
    return list(store.log.records(0, store.log.refresh().number))


def a_commit_was_never_made(run: Run, _: Any) -> None:
    run.alter(_wrote, lambda said: _seen(said, txid="0" * 32))


def a_failure_was_a_commit(run: Run, _: Any) -> None:
    run.alter(_wrote, lambda said: _seen(said, status="aborted"))


def a_read_was_of_another_time(run: Run, _: Any) -> None:
    def change(said: Said) -> Said:
        look = said.seen.looks[0]
        return _seen(said, looks=[replace(look, answer="of another time"), *said.seen.looks[1:]])

    run.alter(lambda said: said.seen.looks, change)


def what_was_committed_before_was_not_seen(run: Run, _: Any) -> None:
    run.alter(
        lambda said: said.seen.began > 10 and not said.seen.looks,
        lambda said: _seen(said, began=said.seen.began - 5),
    )


def _wrote(said: Said) -> bool:
    return said.seen.status == "committed" and bool(said.seen.writes)


def _seen(said: Said, **changes: Any) -> Said:
    return replace(said, seen=replace(said.seen, **changes))


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (money_is_made, "the bank has"),
        (nobody_is_on_call, "nobody is on call"),
        (one_email_is_twice, "an email is twice"),
        (an_element_is_lost, "anomalies under"),
        (an_entry_is_missing, "an index lacks"),
        (an_entry_is_of_no_row, "no row has"),
        (a_version_is_missing, "was written by"),
        (a_commit_was_never_made, "was acknowledged as"),
        (a_failure_was_a_commit, "failed, and is commit"),
        (a_read_was_of_another_time, "and it would be"),
        (what_was_committed_before_was_not_seen, "was there"),
    ],
)
def test_what_is_planted_is_found(
    run: Run, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Run, Any], None], message: str
) -> None:
    plant(run, monkeypatch)
    with pytest.raises(AssertionError, match=message):
        examine(run.place, run.said)


def nobody_looks_for_conflicts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction, "conflict", lambda *_, **__: None)


def snapshots_are_thought_to_do(patch: pytest.MonkeyPatch) -> None:
    """What serializable transactions read isn't looked at."""
    conflict = transaction.conflict
    patch.setattr(transaction, "conflict", lambda *given, **_: conflict(*given, serializable=False))


def nobody_claims(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transaction, "claims_of", lambda *_: ())


def the_log_is_not_laid_over_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SequenceLog, "newest", lambda *_: None)


def the_log_is_not_laid_over_indices(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SequenceLog, "changes", lambda *_: {})


def the_newest_version_is_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Row, "at", lambda row, snapshot: row.versions[0] if row.versions else None)


@pytest.mark.parametrize(
    "forget",
    [
        nobody_looks_for_conflicts,
        snapshots_are_thought_to_do,
        nobody_claims,
        the_log_is_not_laid_over_rows,
        the_log_is_not_laid_over_indices,
        the_newest_version_is_read,
    ],
)
def test_a_database_that_forgets_a_rule_is_found_out(
    monkeypatch: pytest.MonkeyPatch, forget: Callable[[pytest.MonkeyPatch], None]
) -> None:
    with monkeypatch.context() as patch, pytest.raises(AssertionError):
        forget(patch)
        run = Run(rounds=120)
        patch.undo()
        examine(run.place, run.said)


def test_write_skew_is_found(run: Run) -> None:
    """Two doctors who were promised serializability, and had a snapshot. One stays: only what they saw tells."""
    ids = [f"{SHIFTS[0]}{n}" for n in range(3)]
    for id in ids:
        run.put("doctors", id, {"shift": SHIFTS[0], "on": True})
    worker = Worker(run.store, "skew", lambda _: None)
    sessions = [Session(worker.clients, worker.client, begin(run.store), 0, None) for _ in range(2)]
    for session in sessions:
        assert len(session.find("doctors", shift=SHIFTS[0], on=True)) == 3
    for session, id in zip(sessions, ids, strict=False):
        session.upsert("doctors", id, {"shift": SHIFTS[0], "on": False})
        session.observed.snapshot = session.tx.snapshot
        session.end()
        run.said.append(Said(id, "doctors", session.observed, None, 0, None))
    examine(run.place, run.said)
    for session in sessions:
        session.observed.serializable = True
    with pytest.raises(AssertionError, match="serializable commit"):
        examine(run.place, run.said)
