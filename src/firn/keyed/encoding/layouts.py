"""Rows of files, and of memtables, whose columns aren't those that the table has now.

A file has the columns of the definition that it was written by, under names that never change. `reading` says how
they become the table's: columns that were dropped are left out, others are widened, and those that the file lacks are
null or have their default. Deletes have no values, and so no defaults either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.arrow.casting import MisfitError, convert
from firn.arrow.pyvalues import shown
from firn.arrow.types import duckdb_name
from firn.errors import InvalidInputError
from firn.keyed.encoding.columns import ENTRY_COLUMNS
from firn.keyed.encoding.entries import DELETE
from firn.keyed.encoding.values import Cell, Values

HEAD = len(ENTRY_COLUMNS)


class Reading:
    """How rows with the columns of one schema are read as a table's. Safe for several threads.

    Args:
        values: the table's, or some of its columns.
        given: of the rows, with the entries' own columns first; value columns under their names in files.
    """

    def __init__(self, values: Values, given: pa.Schema) -> None:
        self._values = values
        places = {name: at for at, name in enumerate(given.names[HEAD:])}
        self._columns: list[_Column] = []
        if values.typed:
            for cell, name in zip(values.cells, values.stored_schema.names, strict=True):
                at = places.get(name)
                kind = None if at is None else given.field(HEAD + at).type
                self._columns.append(_Column(cell, at, kind, values.defaults.get(cell.name)))
        here = [column.place for column in self._columns]
        self.plain = len(places) == len(values.names) and (
            not values.typed
            or (here == list(range(len(here))) and all(column.cast is None for column in self._columns))
        )
        """Whether nothing but names may differ."""
        self.row: Callable[[Sequence[pa.Array], int], object] = values.from_row if self.plain else self._row
        """The stored value in one row of the value columns; not of deletes."""

    def batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as a batch of the table's runs.

        Raises:
            InvalidInputError: a value doesn't fit; only where the reader goes by an older definition than the file.
        """
        columns = rows.columns
        if not self.plain:
            columns = [*columns[:HEAD], *(column.array(rows) for column in self._columns)]
        return pa.RecordBatch.from_arrays(columns, schema=self._values.run_schema)

    def _row(self, cells: Sequence[pa.Array], row: int) -> object:
        return tuple([column.value(cells, row) for column in self._columns])


class _Column:
    """One column of the table, and where its values come from."""

    def __init__(
        self, cell: Cell, place: int | None, given: pa.DataType | None, default: pa.Scalar | None
    ) -> None:
        self._cell, self.place, self._default = cell, place, default
        self.cast: Callable[[pa.Array], pa.Array] | None = None
        if given is not None and not given.equals(cell.arrow):
            # Parquet has no type for timestamps of seconds, for example.
            same = duckdb_name(given) == duckdb_name(cell.arrow)
            self.cast = self._recast if same else self._widened
        self._absent = None if default is None else cell.value(pa.array([default]), 0)

    def array(self, rows: pa.RecordBatch) -> pa.Array:
        if self.place is not None:
            column = rows.column(HEAD + self.place)
            return column if self.cast is None else self.cast(column)
        if self._default is None:
            return pa.nulls(len(rows), self._cell.arrow)
        filled = pa.repeat(self._default, len(rows))
        deletes = pc.equal(rows.column(2), DELETE)
        if not pc.any(deletes).as_py():
            return filled
        return pc.if_else(deletes, pa.scalar(None, self._cell.arrow), filled)

    def value(self, cells: Sequence[pa.Array], row: int) -> Any:
        if self.place is None:
            return self._absent
        if self.cast is None:
            return self._cell.value(cells[self.place], row)
        return self._cell.value(self.cast(cells[self.place].slice(row, 1)), 0)

    def _recast(self, column: pa.Array) -> pa.Array:
        return column.cast(self._cell.arrow)

    def _widened(self, column: pa.Array) -> pa.Array:
        try:
            return convert(column, self._cell.arrow)
        except MisfitError as misfit:
            raise InvalidInputError(
                f"{shown(misfit.value)} doesn't fit the value column {self._cell.name!r} as {self._cell.kind}, which "
                "it was before the table was altered. Begin the read anew, by the table as it is now."
            ) from None


def reading(values: Values, given: pa.Schema) -> Reading:
    """How rows with these columns are read."""
    found: Reading | None = values.readings.get(given)
    if found is None:
        found = values.readings[given] = Reading(values, given)
    return found
