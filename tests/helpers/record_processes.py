"""Processes that share a database of record tables in a simulated store: table `t` with an index on `n` and a unique
one on `u`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from firn.records.apply.apply import settle
from firn.records.definition.definition import Index, RecordDefinition
from firn.records.maintain.collection import collect
from firn.records.maintain.ddl import define
from firn.records.objects.store import RecordStore
from firn.records.write.transaction import begin
from firn.testing import SimStore

R = 30.0


class Processes:
    """Each `store` is a process of its own."""

    def __init__(self, **options: Any) -> None:
        self.objects = SimStore(**options)
        indices = (Index("n"), Index("u", unique=True))
        self.definitions = {"t": RecordDefinition("t", db="db", state="ready", indices=indices)}
        self.create("t", *indices)

    def create(self, name: str, *indices: Index) -> None:
        self.definitions.setdefault(name, RecordDefinition(name, db="db", state="ready", indices=indices))
        define(self.store(), RecordDefinition(name, indices=indices).creation())

    def store(self, **options: Any) -> RecordStore:
        bucket = self.objects.bucket()
        return RecordStore(bucket, "db", clock=bucket.clock, definitions=self.definitions.get, **options)

    def put(self, **rows: Mapping[str, Any] | None) -> int:
        """Commit rows of `t`; None deletes one."""
        with begin(self.store()) as tx:
            for id, document in rows.items():
                if document is None:
                    tx.delete("t", id)
                else:
                    tx.upsert("t", id, document)
        assert tx.committed is not None
        return tx.committed

    def apply(self) -> None:
        settle(self.store())

    def collect(self, retention_s: float = 0) -> None:
        store = self.store()
        settle(store)
        collect(store, retention_s=retention_s)

    def age(self, seconds: float) -> None:
        self.objects.time.advance(round(seconds * 1000))


def spent(store: RecordStore, action: Callable[[], object]) -> dict[str, int]:
    """The requests of a process by verb."""
    counters: Any = store.bucket.counters
    before = counters.as_dict()
    action()
    since = counters.since(before)
    return {verb: n for verb, n in since.items() if n and not verb.startswith("bytes")}
