"""Part `unique` of `bench.records`: inserts of many threads at once, into a table with a plain index and with a
unique one, in memory that answers after a while."""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any

from bench.figures import FIRN, Figures
from bench.record_clients import drive, summary
from firn.bucket import open_bucket
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.records.definition.definition import Index
from firn.records.write.transaction import begin

TABLE, FIELD = "t", "email"


class Distant:
    """A bucket whose answers take a while; many requests at once take no longer than one."""

    WAITS = frozenset(
        ("get", "head", "put", "put_if_absent", "put_if_match", "list", "get_many", "put_many", "delete_many")
    )

    def __init__(self, bucket: Any, latency_s: float) -> None:
        self._bucket, self._latency_s = bucket, latency_s

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._bucket, name)
        if name not in self.WAITS:
            return found

        def late(*args: Any, **options: Any) -> Any:
            time.sleep(self._latency_s)
            return found(*args, **options)

        return late


def unique(figures: Figures, *, threads: int, latency_ms: float, seconds: float, rounds: int = 3) -> None:
    """Pairs of runs: one with a plain index, one with a unique one."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    for _, is_unique in itertools.product(range(rounds), (False, True)):
        name = (
            f"{threads} threads insert, {latency_ms:g} ms a call, {'unique' if is_unique else 'plain'} index"
        )
        bucket: Any = Distant(open_bucket("memory://"), latency_ms / 1000)
        tables = RecordTables(bucket, "db", "memory://db")
        tables.create(tables.describe(TABLE, RecordOptions(indices=[Index(FIELD, unique=is_unique)])))
        store, numbers = tables.session.store, itertools.count()

        def insert(store: Any = store, numbers: Any = numbers) -> int:
            n = next(numbers)
            with begin(store) as tx:
                tx.insert(TABLE, f"r{n}", {FIELD: f"{n}@example.com"})
            return 1

        before = bucket.counters.as_dict()
        laps, elapsed = drive([insert] * threads, seconds)
        found = summary(laps, elapsed, "inserts")
        spent = bucket.counters.since(before)
        requests = {f"{verb}s_each": round(spent[verb] / found["done"], 2) for verb in ("get", "put", "list")}
        rates[is_unique].append(found["inserts_a_s"])
        figures.record(name, FIRN, found["p50_ms"] / 1000, **found, **requests)
    ratio = statistics.median(plain / rare for plain, rare in zip(rates[False], rates[True], strict=True))
    figures.target(f"{threads} threads insert: plain over unique index", ratio, at_most=1.3)
