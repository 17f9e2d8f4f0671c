"""Keyed tables in memory for tests of what works below the front: flushes by hand, one L0 object each."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import firn
from firn.journal.manifest import View
from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.merge.memtable import Memtable
from firn.keyed.merge.operators import operator_of
from firn.keyed.merge.versions import merge_runs
from firn.keyed.read.runs import runs_of
from firn.keyed.sst.reader import SstReader
from firn.keyed.sst.writer import SstWriter
from firn.keyed.table import KeyedTable

Write = tuple[bytes, object] | tuple[bytes, object, int] | tuple[bytes, object, int, int | None]


def new_table(properties: Mapping[str, Any] | None = None, **options: Any) -> KeyedTable:
    db = firn.connect(f"memory://kv-{uuid.uuid4().hex}")
    return db.create_table("t", kind="keyed", properties=properties, **options)


class Flusher:
    """A writer of one's own: each `flush` is one L0 object."""

    def __init__(self, table: KeyedTable) -> None:
        self.table = table
        self.values = Values(table.definition.columns)
        self.operator = operator_of(table.definition.merge_operator, self.values)
        self.session = table.journal.open_writer()

    def flush(self, writes: Iterable[Write]) -> int:
        """Entries (key, stored value, kind=PUT, expire_at=None); the number of the L0 object."""
        number = self.session.next_number
        memtable = Memtable(number, self.values, self.operator, seqs=self.table.definition.seqs)
        for key, value, *rest in writes:
            memtable.put(key, value, *rest)
        sst = SstWriter(self.values.schema, block_bytes=self.table.settings.block_size, wide=True)
        sst.add(memtable.freeze())
        self.session.put_l0(number, bytes(sst.finish().data))
        self.session.confirm(number)
        return number

    def put(self, *keys: bytes, value: bytes = b"v") -> int:
        return self.flush([(key, value) for key in keys])

    def delete(self, *keys: bytes) -> int:
        return self.flush([(key, None, DELETE) for key in keys])

    def merge(self, key: bytes, operand: object) -> int:
        return self.flush([(key, operand, MERGE)])


def entries_of(table: KeyedTable, files: Sequence[Any]) -> list[Entry]:
    """All entries of SSTs, in order."""
    values = Values(table.definition.columns)
    found: list[Entry] = []
    for file in files:
        key = table.journal.layout.sst_key(file.file)
        reader = SstReader(table.bucket, key, file.bytes, table.cache, values=values)
        for batch in reader.scan():
            found += values.entries(batch)
    return found


def live(table: KeyedTable, *, view: View | None = None) -> dict[bytes, object]:
    """What a reader would see, by way of the merge only."""
    view = view or table.journal.read()
    values = Values(table.definition.columns)
    layout = table.journal.layout

    def run(files: Sequence[tuple[str, int]]) -> Any:
        for key, size in files:
            yield from SstReader(table.bucket, key, size, table.cache, values=values).scan()

    runs = [run([(file.key, file.bytes)]) for file in view.l0]
    for ssts in runs_of(view.manifest.ssts):
        files = [(layout.sst_key(sst.file), sst.bytes) for sst in ssts]
        runs += [run(files)]
    merged = merge_runs(
        runs,
        values=values,
        operator=operator_of(table.definition.merge_operator, values),
        now_ms=table.clock.now_ms(),
    )
    return {entry.key: entry.value for batch in merged for entry in values.entries(batch)}


__all__ = ["DELETE", "MERGE", "PUT", "Flusher", "Write", "entries_of", "live", "new_table"]
