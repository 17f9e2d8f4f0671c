"""Rows as users have them become entries of a run: keys encoded, values in the table's types, sorted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from firn.arrow.texts import checked, unchecked
from firn.arrow.types import columns_of, conform
from firn.errors import InvalidInputError
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.encoding.entries import PUT, expiry
from firn.keyed.encoding.keys import MAX_KEY
from firn.keyed.encoding.values import MAX_VALUE
from firn.names import fold

CHUNK_BYTES = 128 << 20
"""Rows that are sorted together: the larger, the fewer runs come of rows in no order."""


class LoadRows:
    """Makes entries of one table's rows: puts with one `seq`, which live as long as the table's `ttl` says.

    The rows have the columns of the key and of the value under the names and in the types that scans give them, or
    in types that go without loss into these.
    """

    def __init__(self, definition: KeyedDefinition, now_ms: int) -> None:
        self._name = definition.name
        self._keys, self._values, self._operator = definition.keys, definition.values, definition.operator
        self._expire_at = None if definition.ttl_ms is None else expiry(now_ms, definition.ttl_ms)
        key_columns = self._keys.columns or {"key": "BLOB"}
        value_columns = self._values.columns or {"value": "BLOB"}
        self.columns = {**key_columns, **value_columns}
        """Name → DuckDB type of the columns that rows have."""

    def chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows in any order as entries, sorted within each batch that comes out, which is of about `CHUNK_BYTES`.

        Their seq is 0, until the caller knows it. The last row of a key in a batch stays. Raises as `entries`.
        """
        held: list[pa.RecordBatch] = []
        size = 0
        for batch in sliced(batches):
            if batch.num_rows:
                held.append(batch)
                size += batch.nbytes
            if size >= CHUNK_BYTES:
                yield self._sorted(held)
                held, size = [], 0
        if held:
            yield self._sorted(held)

    def entries(self, batches: Iterable[pa.RecordBatch], seq: int) -> Iterator[pa.RecordBatch]:
        """Rows in the order of their keys as entries; of neighbours with one key the last stays.

        Raises:
            InvalidInputError: keys that aren't in order, are null or too long; a column that lacks or doesn't fit;
                a value that the table's merge operator can't stand on.
        """
        held: pa.RecordBatch | None = None  # the last row: its key may go on in the next batch
        for batch in sliced(batches):
            if not batch.num_rows:
                continue
            made = self._entries(pa.Table.from_batches([batch]), seq)
            if held is not None:
                made = pa.Table.from_batches([held, made]).combine_chunks().to_batches()[0]
            keys = made.column(0)
            before, after = keys.slice(0, len(keys) - 1), keys.slice(1)
            if pc.any(pc.less(after, before)).as_py():
                raise InvalidInputError(
                    f"rows to load into {self._name} aren't in the order of their keys: sort each part by the key's "
                    "columns, and give the parts ranges of keys that don't overlap."
                )
            unique = made.slice(0, len(keys) - 1).filter(pc.not_equal(before, after))
            held = made.slice(len(keys) - 1)
            if unique.num_rows:
                yield unique
        if held is not None:
            yield held

    def _sorted(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        made = self._entries(pa.Table.from_batches(batches), 0)
        keys = made.column(0)
        if len(keys) > 1 and pc.any(pc.less_equal(keys.slice(1), keys.slice(0, len(keys) - 1))).as_py():
            position = pa.array(range(len(keys)), pa.int64())
            order = pc.sort_indices(
                pa.table({"key": keys, "position": position}),
                sort_keys=[("key", "ascending"), ("position", "ascending")],
            )
            made = made.take(order)
            keys = made.column(0)
            last = pc.not_equal(keys.slice(0, len(keys) - 1), keys.slice(1))
            made = made.filter(pa.concat_arrays([last, pa.array([True])]))
        return made

    def _entries(self, rows: pa.Table, seq: int) -> pa.RecordBatch:
        given = {fold(name) for name in columns_of(rows.schema)} | {fold(n) for n in rows.schema.names}
        # Typed values may be null; a value of bytes mustn't lack.
        needed = [*self._keys.names, *(() if self._values.typed else ("value",))]
        if missing := [name for name in needed if fold(name) not in given]:
            raise InvalidInputError(
                f"rows to load into {self._name} lack the column {missing[0]!r}: they need {', '.join(self.columns)}."
            )
        known = {fold(name) for name in self.columns}
        if unknown := [name for name in rows.schema.names if fold(name) not in known]:
            raise InvalidInputError(
                f"{self._name} has no column {unknown[0]!r}: its columns are {', '.join(self.columns)}."
            )
        rows = checked(rows, unchecked(columns_of(rows.schema), self.columns))
        table = conform(rows, self.columns).combine_chunks()
        for name, default in self._values.defaults.items():
            if fold(name) not in given:
                at = table.schema.get_field_index(name)
                table = table.set_column(at, table.schema.field(at), pa.repeat(default, table.num_rows))
        count = table.num_rows
        width = len(self._keys.names)
        arrays = [
            column.chunk(0) if column.num_chunks == 1 else column.combine_chunks() for column in table.columns
        ]
        keys = self._keys.encode_arrays(arrays[:width])
        self._check_keys(keys)
        values = arrays[width:]
        if not self._values.typed and values[0].null_count:
            raise InvalidInputError(
                f"rows to load into {self._name} have a null value: bytes can be empty, but not null."
            )
        self._check_sizes(values)
        if self._operator is not None:
            for value in self._values.from_columns(values):
                self._operator.check(value)
        head = [
            keys,
            pa.repeat(pa.scalar(seq, pa.int64()), count),
            pa.repeat(pa.scalar(PUT, pa.int8()), count),
            pa.repeat(pa.scalar(self._expire_at, pa.int64()), count),
        ]
        return pa.RecordBatch.from_arrays([*head, *values], schema=self._values.run_schema)

    def _check_keys(self, keys: pa.Array) -> None:
        if keys.null_count:
            raise InvalidInputError(f"rows to load into {self._name} have a null key.")
        lengths = pc.min_max(pc.binary_length(keys)).as_py()
        if lengths["min"] == 0:
            raise InvalidInputError(
                f"rows to load into {self._name} have an empty key; a key has at least one byte."
            )
        if lengths["max"] is not None and lengths["max"] > MAX_KEY:
            raise InvalidInputError(
                f"rows to load into {self._name} have a key of {lengths['max']:,} bytes; at most {MAX_KEY:,} fit."
            )

    def _check_sizes(self, values: list[pa.Array]) -> None:
        """As puts are refused whose values are too large; nested ones by all rows of a batch together."""
        for name, column in zip(self._values.names, values, strict=True):
            if pt.is_string(column.type) or pt.is_binary(column.type):
                longest = pc.max(pc.binary_length(column)).as_py() or 0
            else:
                longest = (
                    0
                    if column.nbytes <= MAX_VALUE
                    else max(column.slice(at, 1).nbytes for at in range(len(column)))
                )
            if longest > MAX_VALUE:
                raise InvalidInputError(
                    f"rows to load into {self._name} have a value of {longest:,} bytes in column {name!r}: at most "
                    f"{MAX_VALUE:,} fit; keep it as an object of its own and store its key."
                )


def sliced(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of up to `CHUNK_BYTES`, or one row: larger ones can't be put together."""
    for batch in batches:
        size = batch.nbytes
        rows = max(1, batch.num_rows * CHUNK_BYTES // max(size, 1)) if size > CHUNK_BYTES else batch.num_rows
        for at in range(0, batch.num_rows, max(1, rows)):
            part = batch.slice(at, rows)
            if part.nbytes > 2 * CHUNK_BYTES and part.num_rows > 1:  # some rows are far larger than others
                half = part.num_rows // 2
                yield from sliced([part.slice(0, half), part.slice(half)])
            else:
                yield part
