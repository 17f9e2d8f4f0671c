"""Record tables in a simulated store, and what Spark's tasks would read of them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from firn.database.kinds.records import RecordOptions, RecordTables
from firn.records.plan.read import RecordsRead
from firn.records.table import RecordTable
from firn.testing import SimStore


class World:
    """A database in a simulated store; each `tables()` is a process of its own."""

    def __init__(self, page_size: int = 1000) -> None:
        self.store = SimStore(page_size=page_size)

    def tables(self) -> RecordTables:
        bucket = self.store.bucket()
        return RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)

    def create(self, name: str, **options: Any) -> Any:
        tables = self.tables()
        return tables.create(tables.describe(name, RecordOptions(**options)))

    def open(self, table: Any) -> Any:
        """The same table in another process, which knows nothing yet."""
        return self.tables().open(table.definition)

    def age(self, seconds: float) -> None:
        self.store.time.advance(round(seconds * 1000))


def put(table: RecordTable, rows: Mapping[str, dict[str, Any] | None]) -> int:
    """All in one commit, which is returned; None deletes."""
    with table.session.begin() as tx:
        for id, document in rows.items():
            if document is None:
                tx.delete(table.name, id, etag="")
            else:
                tx.upsert(table.name, id, document)
    assert tx.committed is not None
    return tx.committed


def rows_of(read: Any) -> list[dict[str, Any]]:
    """All rows of a read, as tasks in other processes would give them."""
    works = [unit.work for unit in read.units()]
    lean, works = pickle.loads(pickle.dumps((Stand(read.for_tasks()), works)))
    found: list[dict[str, Any]] = []
    for work in works:
        for table in lean.read.rows([work]):
            assert table.num_rows
            found += table.select(list(read.columns)).to_pylist()
    return found


_buckets: dict[str, Any] = {}


class Stand:
    """Pickles a read without its bucket, which is in this process."""

    def __init__(self, read: Any) -> None:
        self.read = read

    def __getstate__(self) -> Any:
        _buckets["it"] = self.read.bucket
        if isinstance(self.read, RecordsRead):
            return replace(self.read, source=replace(self.read.source, bucket=None))
        return replace(self.read, bucket=None)

    def __setstate__(self, read: Any) -> None:
        if isinstance(read, RecordsRead):
            self.read = replace(read, source=replace(read.source, bucket=_buckets["it"]))
        else:
            self.read = replace(read, bucket=_buckets["it"])


def spent(bucket: Any, action: Any) -> dict[str, int]:
    before = bucket.counters.as_dict()
    action()
    since = bucket.counters.since(before)
    return {verb: n for verb, n in since.items() if n and not verb.startswith("bytes")}


def ids(read: Any) -> list[str]:
    return sorted(row["_id"] for row in rows_of(read))
