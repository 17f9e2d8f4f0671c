"""A commit log in a simulated store, transactions that are nothing but writes, and who acts just before a request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from firn.errors import StaleObjectError
from firn.journal.sequence import Horizon, LogTransaction, Moment, RowWrite, SequenceLog, commit
from firn.testing import SimBucket, SimStore
from manifest_tables import Before, Plan

__all__ = ["Before", "Database", "Put"]

PREFIX = "db"
R = 30.0


@dataclass
class Put:
    """A transaction that puts rows of table `t`, and conflicts with whoever wrote one of them."""

    txid: str
    snapshot: int
    ids: tuple[str, ...] = ("x",)
    tries: list[Moment] = field(default_factory=list)

    def admit(self, moment: Moment) -> LogTransaction:
        self.tries.append(moment)
        others = [member for record in moment.since for member in record.group] + list(moment.earlier)
        taken = {write.id for member in others for write in member.writes}
        if taken & set(self.ids):
            raise StaleObjectError(f"{taken & set(self.ids)} changed")
        return put_of(self.txid, self.snapshot, self.ids)


def put_of(txid: str, snapshot: int, ids: tuple[str, ...]) -> LogTransaction:
    writes = tuple(RowWrite("t", id, b'{"by":"%b"}' % txid.encode(), None, (f"n/{id}",)) for id in ids)
    return LogTransaction(txid, snapshot, writes)


class Database:
    """The log `db/_commits/`, and processes that use it."""

    def __init__(self, **options: Any) -> None:
        self.store = SimStore(**options)

    def bucket(self, who: str = "client", *befores: Before) -> SimBucket:
        return self.store.bucket(who, plan=Plan(*befores))

    def log(self, who: str = "client", *befores: Before, **options: Any) -> SequenceLog:
        bucket = self.bucket(who, *befores)
        return SequenceLog(bucket, PREFIX, clock=bucket.clock, **options)

    def commit(self, *txids: str, ids: tuple[str, ...] | None = None) -> None:
        """Each in a record of its own, of the row that is named like it."""
        log = self.log("writer")
        for txid in txids:
            outcome = commit(log, [Put(txid, log.refresh().number, ids or (txid,))])
            assert isinstance(outcome[txid], int), outcome

    def apply(self, upto: int) -> None:
        """Say that the records are applied, and let nobody need older snapshots."""
        self.log("applier").store.raise_horizon(Horizon(upto, 0, upto))

    def age(self, seconds: float) -> None:
        self.store.time.advance(round(seconds * 1000))

    def paths(self) -> list[str]:
        return [key.removeprefix(f"{PREFIX}/") for key in self.store.keys(PREFIX)]


def txids(db):
    """The transactions of each record, as a new process finds them."""
    log = db.log("reader")
    return [[member.txid for member in r.group] for r in log.records(0, log.refresh().number)]


def cost(log, action):
    before = log.store.bucket.counters.as_dict()
    result = action()
    spent = log.store.bucket.counters.since(before)
    return result, {verb: n for verb, n in spent.items() if n and not verb.startswith("bytes")}
