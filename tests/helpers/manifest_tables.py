"""A keyed table's journal in a simulated store, and plans that let others act just before a request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firn.journal.manifest import CompactorSession, ManifestJournal, SSTInfo, View
from firn.testing import Fault, SimStore
from firn.testing.client import Call
from firn.testing.verbs import Verb


class Before:
    """Acts just before the nth request (from 0) of a verb whose key ends in `key`; a `Fault` strikes the request."""

    def __init__(self, verb: Verb, key: str, action: Fault | Callable[[], object], nth: int = 0) -> None:
        self.verb, self.key, self.action, self.left = verb, key, action, nth
        self.done = False

    def decide(self, call: Call) -> Fault | None:
        if self.done or call.verb != self.verb or not call.key.endswith(self.key):
            return None
        self.left -= 1
        if self.left >= 0:
            return None
        self.done = True
        if isinstance(self.action, Fault):
            return self.action
        self.action()
        return None


class Plan:
    """Several of them."""

    def __init__(self, *befores: Before) -> None:
        self.befores = befores

    def decide(self, call: Call) -> Fault | None:
        decisions = [before.decide(call) for before in self.befores]
        return next((fault for fault in decisions if fault is not None), None)


class Table:
    """The table `t`, with epochs from 1."""

    def __init__(self, **options: Any) -> None:
        self.store = SimStore(**options)
        self.journal("creator").create({"flush_ms": 100}, 1)

    def journal(
        self, who: str = "client", *befores: Before, skew_ms: int = 0, **options: Any
    ) -> ManifestJournal:
        bucket = self.store.bucket(who, plan=Plan(*befores), skew_ms=skew_ms)
        return ManifestJournal(bucket, "t", clock=bucket.clock, **options)

    def read(self) -> View:
        return self.journal("reader").read()

    def l0(self, epoch: int, number: int) -> str:
        return self.journal().layout.l0_key(epoch, number)

    def write(self, *numbers: int) -> None:
        """Flushes by a new writer."""
        writer = self.journal("writer").open_writer()
        for number in numbers:
            writer.put_l0(number, b"%d" % number)

    def compact(self, upto: int | None = None, compactor: CompactorSession | None = None) -> CompactorSession:
        """Merge L0 up to a number, and all SSTs, into one new SST."""
        session = compactor or self.journal("compactor").open_compactor()
        view = session.refresh()
        merge(session, view, view.last_l0 if upto is None else upto)
        return session

    def age(self, seconds: float) -> None:
        self.store.time.advance(round(seconds * 1000))


def put(session: CompactorSession, level: int = 1, run: int = 0) -> SSTInfo:
    """A new SST that is up."""
    number = session.next_sst_number()
    data = b"sst %d" % number
    session.put_sst(number, data)
    return SSTInfo(level, run, number, session.sst_file(number), b"a", b"z", 1, len(data), 1)


def merge(session: CompactorSession, view: View, upto: int) -> View:
    return session.commit(adds=[put(session)], deletes=view.manifest.ssts, last_compacted=upto)


def names(view: View) -> list[tuple[int, int]]:
    return [(file.epoch, file.number) for file in view.l0]
