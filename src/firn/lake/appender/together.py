"""Rows of one batch as columns. Which rows share a batch is chance, so it mustn't change what they become."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.arrow.defaults import default_value
from firn.arrow.inputs import InputRows, to_reader
from firn.arrow.types import arrow_schema, conform
from firn.journal.model import ColumnTypes, KnownColumns
from firn.lake.appender.batches import Row
from firn.names import fold


def together(rows: Sequence[Row], known: KnownColumns) -> Any:
    """The rows as `write` takes them. One that lacks a column has its default, also if others have the column."""
    taken = typed(rows, known)
    defaults = {fold(name): text for name, text in known.naming.defaults.items()}
    if defaults:
        kinds = {fold(name): kind for name, kind in known.columns.items()}
        given = to_reader(taken, known=known.columns)
        table = pa.Table.from_batches(given.batches(), given.schema)
        for at, name in enumerate(table.column_names):
            text, there = defaults.get(fold(name)), [name in row for row in taken]
            if text is not None and not all(there):
                default = default_value(text, kinds[fold(name)])
                table = table.set_column(at, name, _filled(table.column(at), pa.array(there), default))
        return replace(given, schema=table.schema, batches=lambda: iter(table.to_batches()))
    return taken


def typed(rows: Sequence[Row], known: KnownColumns) -> Sequence[Mapping[str, Any]]:
    """The rows without columns that the table lacks and none of them has a value in: nothing tells their type, and
    rows that lack them read the same.

    >>> typed([{"n": 1, "m": None}], KnownColumns({"n": "BIGINT"}))
    [{'n': 1}]
    >>> typed([{"m": None}], KnownColumns({"n": "BIGINT"}))
    [{'n': None}]
    """
    names = set(map(fold, known.columns))
    new = {name for name in set().union(*rows) if not isinstance(name, str) or fold(name) not in names}
    untyped = {name for name in new if all(row.get(name) is None for row in rows)}
    if not untyped:
        return rows
    fewer = [{name: value for name, value in row.items() if name not in untyped} for row in rows]
    if any(fewer):
        return fewer
    lackable = next((name for name in known.columns if name not in known.naming.defaults), None)
    return rows if lackable is None else [{lackable: None} for _ in rows]


def joined(parts: Sequence[pa.Table], known: ColumnTypes) -> InputRows:
    """Rows whose values were taken part by part, as `write` takes them."""
    columns = {name: known[name] for part in parts for name in part.column_names}
    tables = [conform(part, {name: columns[name] for name in part.column_names}) for part in parts]
    return InputRows(
        arrow_schema(columns),
        lambda: (batch for table in tables for batch in table.to_batches()),
        True,
        sum(table.num_rows for table in tables),
        sum(table.nbytes for table in tables),
        columns,
    )


def _filled(column: pa.ChunkedArray, there: pa.Array, default: pa.Scalar) -> pa.ChunkedArray:
    """A column with the default in rows that don't have it. A type that is none of the column's is refused later."""
    if pa.types.is_null(column.type):
        column = column.cast(default.type)
    try:
        default = default.cast(column.type)
    except pa.ArrowException:
        return column
    return pc.if_else(there, column, default)
