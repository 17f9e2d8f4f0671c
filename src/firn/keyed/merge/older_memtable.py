"""A memtable that was filled before the table was altered, as the table's present columns have it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from firn.keyed.encoding.columns import sst_schema
from firn.keyed.encoding.entries import DELETE, Entry
from firn.keyed.encoding.layouts import reading
from firn.keyed.encoding.values import Values
from firn.keyed.merge.memtable import Memtable


class OlderMemtable:
    """Reads of a memtable whose entries have the columns of an older definition, until it is in the bucket."""

    def __init__(self, memtable: Memtable, values: Values) -> None:
        self._memtable = memtable
        self._reading = reading(values, sst_schema(memtable.values.stored_schema))

    @property
    def last_seq(self) -> int:
        """See `Memtable`, as for the others."""
        return self._memtable.last_seq

    def get(self, key: bytes, upto_seq: int | None = None) -> list[Entry]:
        return [self._entry(entry) for entry in self._memtable.get(key, upto_seq)]

    def scan(
        self,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        reverse: bool = False,
        upto_seq: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        for rows in self._memtable.scan(start, end, reverse=reverse, upto_seq=upto_seq):
            yield self._reading.batch(rows)

    def _entry(self, entry: Entry) -> Entry:
        if entry.kind == DELETE:
            return entry
        cells = self._memtable.values.to_arrays([entry.value])
        return entry._replace(value=self._reading.row(cells, 0))


def by(memtable: Memtable, values: Values) -> Memtable | OlderMemtable:
    """A memtable as these values have it."""
    older = memtable.values
    return memtable if older is values or older.same(values) else OlderMemtable(memtable, values)
