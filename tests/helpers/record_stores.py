"""A database of record tables in a simulated store: table `t` with an index on `n` and a unique one on `u`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from firn.records.apply.apply import settle
from firn.records.definition.definition import Index, RecordDefinition
from firn.records.maintain.collection import Collected, collect
from firn.records.maintain.ddl import define
from firn.records.objects.store import RecordStore
from firn.records.write.transaction import begin
from firn.testing import SimBucket, SimStore
from manifest_tables import Before, Plan
from record_twins import Twins

__all__ = ["PREFIX", "Before", "Database", "R", "spent"]

PREFIX = "db"
R = 30.0


class Database:
    """Processes that share `db/`; each `store` is a process of its own. `begin` gives what `twins` make of it.

    Its log begins with the commits that make `t` and, unless told otherwise, a table `plain` without indices.
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, Any] | None = None,
        twins: Twins | None = None,
        plain: bool = True,
        **options: Any,
    ) -> None:
        self.simulated = SimStore(**options)
        self.twins = twins or Twins(None)
        indices = (Index("n"), Index("u", unique=True))
        self.definitions = {
            "t": RecordDefinition("t", db="db", state="ready", indices=indices, properties=properties or {}),
        }
        if plain:
            self.definitions["plain"] = RecordDefinition("plain", db="db", state="ready")
        for name, definition in list(self.definitions.items()):
            self.create(name, *definition.indices)

    def create(self, name: str, *indices: Index) -> None:
        self.definitions.setdefault(name, RecordDefinition(name, db="db", state="ready", indices=indices))
        define(self.store("creator"), RecordDefinition(name, indices=indices).creation())

    def bucket(self, who: str = "client", *befores: Before, skew_ms: int = 0) -> SimBucket:
        return self.simulated.bucket(who, plan=Plan(*befores), skew_ms=skew_ms)

    def store(self, who: str = "client", *befores: Before, skew_ms: int = 0, **options: Any) -> RecordStore:
        return self.on(self.bucket(who, *befores, skew_ms=skew_ms), **options)

    def on(self, bucket: Any, **options: Any) -> RecordStore:
        return RecordStore(bucket, PREFIX, clock=bucket.clock, definitions=self.definitions.get, **options)

    def begin(self, who: str = "client", **options: Any) -> Any:
        return self.twins.transaction(begin(self.store(who), **options))

    def put(self, **rows: Mapping[str, Any] | None) -> int:
        """Commit rows of `t`; None deletes one."""
        with begin(self.store("writer")) as tx:
            for id, document in rows.items():
                if document is None:
                    tx.delete("t", id)
                else:
                    tx.upsert("t", id, document)
        assert tx.committed is not None
        return tx.committed

    def apply(self) -> None:
        settle(self.store("applier"))

    def collect(self, retention_s: float = 0) -> Collected:
        store = self.store("collector")
        settle(store)
        return collect(store, retention_s=retention_s)

    def age(self, seconds: float) -> None:
        self.simulated.time.advance(round(seconds * 1000))

    def paths(self, below: str = "") -> list[str]:
        return [key.removeprefix(f"{PREFIX}/") for key in self.simulated.keys(f"{PREFIX}/{below}")]


def spent(store: RecordStore, action: Callable[[], object]) -> dict[str, int]:
    """The requests of a process by verb."""
    counters: Any = store.bucket.counters
    before = counters.as_dict()
    action()
    since = counters.since(before)
    return {verb: n for verb, n in since.items() if n and not verb.startswith("bytes")}
