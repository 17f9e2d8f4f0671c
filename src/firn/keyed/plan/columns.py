"""The columns of a keyed table as reads of it see them: the key's, the value's, and which of these are wanted."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from firn.journal.model import ColumnTypes
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.encoding.keys import Keys
from firn.keyed.encoding.values import Values


class KeyedColumns:
    """The columns that all reads of a keyed table have in common. Types are DuckDB's names."""

    definition: KeyedDefinition
    names: tuple[str, ...]

    warnings = ()

    @property
    def table(self) -> str:
        return self.definition.name

    @property
    def table_id(self) -> str:
        return self.definition.id

    @property
    def keys(self) -> Keys:
        return self.definition.keys

    @property
    def values(self) -> Values:
        return self.definition.values

    @property
    def key_columns(self) -> ColumnTypes:
        return self.keys.columns or {"key": "BLOB"}

    @property
    def value_columns(self) -> ColumnTypes:
        return self.values.columns or {"value": "BLOB"}

    @cached_property
    def known(self) -> ColumnTypes:
        return {**self.key_columns, **self.value_columns}

    @property
    def columns(self) -> ColumnTypes:
        return {name: self.known[name] for name in self.names}


def public_rows(batch: pa.RecordBatch | pa.Table, keys: Keys, columns: ColumnTypes) -> pa.Table:
    """Some columns of a batch of entries, as users see them."""
    found: dict[str, pa.Array] = {}
    if any(name in columns for name in keys.names):
        encoded = batch.column("key")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        found.update(zip(keys.names, keys.decode_array(encoded), strict=True))
    arrays = [found[name] if name in found else batch.column(name) for name in columns]
    return pa.table(arrays, names=list(columns))
