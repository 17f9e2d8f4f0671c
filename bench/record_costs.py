"""Part `costs` of `bench.records`: what each operation asks of the store, beside what the design says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from bench.figures import FIRN, Figures
from firn.bucket import open_bucket
from firn.database.kinds.records import RecordOptions, RecordTables
from firn.records.apply.apply import apply, settle
from firn.records.write.transaction import begin

TABLE = "t"
NEWER = 10
"""Commits of others, where an operation meets some."""

HOUR_S = 3600.0

Cost = tuple[str, int, int]
"""An operation, its requests by the design, and those that it made."""


def costs(figures: Figures, *, rows: Sequence[int], indices: Sequence[int]) -> None:
    """For each number of rows and indices, where the horizon is known from lately (c = 0), and where it has to be
    asked for each time (c = 1)."""
    differ = 0
    for c in (0, 1):
        for n in rows:
            by_operation: dict[str, list[tuple[int, int]]] = {}
            for k in indices:
                for operation, design, found in _Costs(n, k, c).all():
                    by_operation.setdefault(operation, []).append((design, found))
            for operation, pairs in by_operation.items():
                differ += sum(design != found for design, found in pairs)
                figures.record(
                    f"n = {n}, c = {c}: {operation}",
                    FIRN,
                    requests=_shown(found for _, found in pairs),
                    by_design=_shown(design for design, _ in pairs),
                )
    figures.target("operations that cost other requests than the design says", differ, at_most=0)
    shown = ", ".join(map(str, indices))
    figures.notes.append(
        f"Requests of an operation are by number of indices ({shown}), one where all are the same."
    )


def _probes(newer: int) -> int:
    """GETs that find the end of a log behind so many records: one, and then as many at once as were found."""
    found = asked = 0
    while found <= newer:
        asked += max(found, 1)
        found += max(found, 1)
    return asked


def _shown(numbers: Iterator[int]) -> int | str:
    counts = list(numbers)
    return counts[0] if len(set(counts)) == 1 else " ".join(map(str, counts))


class _Costs:
    """One table of `n` rows and `k` indices, whose commits are applied when it is said."""

    def __init__(self, n: int, k: int, c: int) -> None:
        self.n, self.k, self.c = n, k, c
        self.ids = [f"r{i}" for i in range(n)]
        self.bucket = open_bucket("memory://")
        self.store = self._process()
        self.other = self._process()
        with begin(self.store) as tx:
            self._upsert(tx, 0)
        settle(self.store)
        self.store.log.freshness_s = 0.0 if c else HOUR_S

    def _process(self) -> Any:
        tables = RecordTables(self.bucket, "db", "memory://db", background=False)
        if not self.bucket.list("db/").objects:
            fields = [f"f{i}" for i in range(self.k)]
            tables.create(tables.describe(TABLE, RecordOptions(indices=fields)))
        return tables.session.store

    def all(self) -> Iterator[Cost]:
        yield from self._reading()
        yield from self._writing()
        yield from self._behind_others()

    def _reading(self) -> Iterator[Cost]:
        n, c = self.n, self.c
        tx, spent = self._counted(lambda: begin(self.store))
        yield "begin", 1 + c, spent
        yield "get rows", n, self._counted(lambda: [tx.get(TABLE, id) for id in self.ids])[1]
        yield "get rows again", 0, self._counted(lambda: [tx.get(TABLE, id) for id in self.ids])[1]
        if self.k:
            found, spent = self._counted(lambda: tx.find(TABLE, f0=0))
            assert len(found) == n
            yield "find rows", 1 + n + c, spent
        yield "scan", 1 + n, self._counted(lambda: tx.scan(TABLE))[1]

    def _writing(self) -> Iterator[Cost]:
        n, k, c = self.n, self.k, self.c
        tx = begin(self.store)
        for id in self.ids:
            tx.get(TABLE, id)
        yield "update rows that were read, commit", 1 + c, self._counted(lambda: self._update(tx, 1))[1]
        yield "apply that", n + n + n * k, self._counted(lambda: apply(self.store))[1]
        yield "get, change and commit rows", n + 2 + 2 * c, self._counted(self._change)[1]
        tx = begin(self.store)
        for id in self.ids:
            tx.get(TABLE, id)
        yield (
            "get rows that aren't applied",
            0,
            self._counted(lambda: self._get(begin(self.store)))[1] - 1 - c,
        )
        yield "delete rows that were read, commit", 1 + c, self._counted(lambda: self._delete(tx))[1]
        apply(self.store)
        tx = begin(self.store)
        yield "insert rows, commit", n * (2 + c) + 1 + c, self._counted(lambda: self._insert(tx))[1]
        apply(self.store)
        tx = begin(self.store)
        yield "upsert rows, commit", 1 + c, self._counted(lambda: (self._upsert(tx, 3), tx.commit()))[1]
        settle(self.store)

    def _behind_others(self) -> Iterator[Cost]:
        c = self.c
        for i in range(NEWER):
            self._elsewhere(f"other{i}")
        name = f"begin, {NEWER} commits of others later"
        tx, spent = self._counted(lambda: begin(self.store))
        yield name, _probes(NEWER) + c, spent
        tx.get(TABLE, self.ids[0])
        tx.update(TABLE, self.ids[0], _document(self.k, 5))
        self._elsewhere("faster")
        # Refused; the other's record, none after it, and the horizon; then once more.
        yield "commit, as another was faster", 1 + (2 + c) + (1 + c), self._counted(tx.commit)[1]

    def _counted(self, action: Callable[[], Any]) -> tuple[Any, int]:
        before = self.bucket.counters.requests
        result = action()
        return result, self.bucket.counters.requests - before

    def _elsewhere(self, id: str) -> None:
        with begin(self.other) as tx:
            tx.upsert(TABLE, id, _document(self.k, 9))

    def _upsert(self, tx: Any, value: int) -> None:
        for id in self.ids:
            tx.upsert(TABLE, id, _document(self.k, value))

    def _update(self, tx: Any, value: int) -> None:
        for id in self.ids:
            tx.update(TABLE, id, _document(self.k, value))
        tx.commit()

    def _get(self, tx: Any) -> None:
        for id in self.ids:
            tx.get(TABLE, id)

    def _change(self) -> None:
        tx = begin(self.store)
        self._get(tx)
        self._update(tx, 2)

    def _insert(self, tx: Any) -> None:
        for id in self.ids:
            tx.insert(TABLE, id, _document(self.k, 3))
        tx.commit()

    def _delete(self, tx: Any) -> None:
        for id in self.ids:
            tx.delete(TABLE, id)
        tx.commit()


def _document(indices: int, value: int) -> dict[str, Any]:
    return {"text": "x" * 100, **{f"f{i}": value for i in range(indices)}}
