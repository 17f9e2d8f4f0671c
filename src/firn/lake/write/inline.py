"""Which rows of an append stand in its log, and how."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TypeAlias

import pyarrow as pa

from firn.arrow.json_columns import has_json, to_json
from firn.journal.inlined import InlinedRows
from firn.journal.model import DataFile
from firn.lake.definition.keys import folded
from firn.lake.write.sort import sort_keys
from firn.lake.write.write import WriteSpec, conformed

MOST_ROWS = 10_000
"""Rows of an append that may stand in its log."""

ARROW_PER_JSON = 16
"""Arrow bytes above this many times the limit aren't worth encoding to see whether they are below it."""

Batches: TypeAlias = Iterable[pa.RecordBatch | pa.Table]


def inlined(spec: WriteSpec, batches: Batches, limit: int) -> tuple[DataFile | None, Batches]:
    """The rows as what stands in a log of at most `limit` bytes of them, None if they don't fit or have a type
    without a form in JSON; and the batches for a writer of files. Rows that no later fold could write are refused.

    Raises:
        What `write_batches` does.
    """
    coming = iter(batches)
    taken: list[pa.RecordBatch | pa.Table] = []
    rows = size = 0
    for batch in coming:
        taken.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows > MOST_ROWS or size > ARROW_PER_JSON * limit:
            return None, chain(taken, coming)
    if not rows or not all(map(has_json, spec.columns.values())):
        return None, taken
    table = arranged(spec, taken)
    try:
        values = [to_json(table[name], kind) for name, kind in spec.columns.items()]
    except UnicodeDecodeError:  # Parquet takes any bytes
        return None, taken
    found = InlinedRows.of(spec.naming.in_files(spec.columns), values, table.num_rows)
    if found.size > limit:
        return None, taken
    return DataFile("", found.size, 0, {"rows": table.num_rows, "inlined": found}), taken


def arranged(spec: WriteSpec, batches: Batches) -> pa.Table:
    """The rows as they would be written, having been asked all that rows of files are; on tables with a key each key
    once. Raises what `write_batches` does."""
    return placed(spec, pa.concat_tables(conformed(spec, batches)))


def placed(spec: WriteSpec, table: pa.Table) -> pa.Table:
    """See `arranged`; of rows that are `conformed`."""
    if spec.keys is not None:
        table = folded(table, spec.keys)
    sort_keys(spec.sort_by, spec.columns)
    spec.partition.split(table)
    return table
