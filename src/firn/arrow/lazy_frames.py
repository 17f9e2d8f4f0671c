"""polars' lazy frames over rows that Firn reads when they are collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import polars as pl

Batches = Callable[[Sequence[str] | None, int | None], Iterator[pa.RecordBatch]]
"""Rows in these columns (None: all), and at most so many (None: all)."""


def lazy_frame(schema: pa.Schema, batches: Batches) -> pl.LazyFrame:
    """A lazy frame that asks for the columns and the number of rows that its query needs. Filters are polars' own: it
    puts them on each batch.

    Example:
        >>> table = pa.table({"a": [1, 2], "b": ["x", "y"]})
        >>> frame = lazy_frame(table.schema, lambda names, limit: iter(table.select(names or ["a"]).to_batches()))
        >>> frame.select("b").collect().to_dicts()
        [{'b': 'x'}, {'b': 'y'}]
    """
    import polars as pl
    from polars.io.plugins import register_io_source

    def source(
        names: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        left = rows
        for batch in batches(names, rows if predicate is None else None):
            frame: Any = pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch])))
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if left is None else frame.head(left)
            if left is not None and (left := left - frame.height) <= 0:
                return

    empty: Any = pl.DataFrame(pl.from_arrow(schema.empty_table()))
    return register_io_source(source, schema=empty.schema)
