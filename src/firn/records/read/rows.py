"""The rows that a find or a scan gives, also as Arrow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from firn.arrow.inputs import to_reader
from firn.arrow.types import arrow_schema, conform
from firn.records.documents.documents import ID, Documents, Record

ROWS: Final = 256
"""Rows of a stream that one step of asyncio's gives."""


class Rows(list[Record]):
    """The rows that were found: a list of `Record`."""

    def __init__(self, rows: Iterable[Record] = (), columns: Mapping[str, str] | None = None) -> None:
        super().__init__(rows)
        self._columns = columns

    @staticmethod
    def of(rows: Iterable[Record], documents: Documents) -> Rows:
        return Rows(rows, documents.columns)

    def to_arrow(self) -> pa.Table:
        """An Arrow table: `_id`, then the declared columns; without these, the fields that the rows have, with the
        types that all their values fit in.

        Raises:
            InvalidInputError: a field has values of several types; the message names two rows by their place.
        """
        known = {ID: "VARCHAR", **(self._columns or {})}
        if not self:
            return arrow_schema(known).empty_table()
        read = to_reader([{**dict.fromkeys(known), **row} for row in self], known=known)
        found = pa.Table.from_batches(read.batches(), schema=read.schema)
        typed = conform(found.select(list(known)), known)
        for name in found.column_names:
            if name not in known:
                typed = typed.append_column(found.schema.field(name), found.column(name))
        return typed
