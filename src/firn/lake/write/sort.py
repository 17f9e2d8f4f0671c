"""Sort order: in memory where the rows fit a budget, by merging runs from local disk where they don't.

Nulls come last in both directions, and rows that compare equal keep no particular order.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.arrow.types import arrow_type
from firn.deferred import DeferredModule
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.lake.definition.order import split_order
from firn.names import fold

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")

SortKeys = Sequence[tuple[str, str]]
"""(column, "ascending" or "descending"), most significant first."""


def sort_keys(sort_by: Sequence[str], columns: ColumnTypes) -> list[tuple[str, str]]:
    """The keys of a sort order given as `"col"`, `"col asc"` or `"col desc"`, for the columns that are there.

    A column that a file doesn't have is left out: all its values would be null. A name that ends in ` desc`
    is looked up as it stands before it is taken apart.

    >>> sort_keys(("Flight Date desc", "id", "later"), {"id": "BIGINT", "Flight Date": "DATE"})
    [('Flight Date', 'descending'), ('id', 'ascending')]
    """
    spelled = {fold(name): name for name in columns}
    keys: dict[str, str] = {}
    for text in sort_by:
        name, order = _column_of(text, spelled)
        if name is not None:
            if pa.types.is_nested(arrow_type(columns[name])):
                raise UnsupportedError(
                    f"rows can't be sorted by {name!r} ({columns[name]}), as such values have no order. Sort by "
                    "other columns."
                )
            if name in keys:
                raise InvalidInputError(f"the sort order names the column {name!r} twice")
            keys[name] = order
    return list(keys.items())


def parse_order(sort_by: Sequence[str], columns: ColumnTypes) -> tuple[str, ...]:
    """Check a sort order: `col`, `col asc` or `col desc`. No columns at all means that they come with the first rows.

    Raises:
        InvalidInputError: it is no list, names a column that isn't there, or one twice.
        UnsupportedError: a column of a type that has no order.
    """
    if isinstance(sort_by, str):
        raise InvalidInputError(f"sort_by={sort_by!r}: pass a list, like ['date'].")
    if columns and (unknown := unknown_order(sort_by, columns)) is not None:
        raise InvalidInputError(
            f"sort_by names {unknown!r}, which isn't in the schema: {', '.join(columns)}."
        )
    named = [fold(split_order(text, columns)[0]) for text in sort_by]
    if twice := next((name for name in named if named.count(name) > 1), None):
        raise InvalidInputError(f"sort_by names the column {twice!r} twice.")
    sort_keys(sort_by, columns)  # their types
    return tuple(sort_by)


def unknown_order(sort_by: Sequence[str], names: Iterable[str]) -> str | None:
    """The first part of a sort order that names none of these columns; None if all do.

    >>> unknown_order(["id", "delya desc"], ["ID", "delay"])
    'delya desc'
    """
    spelled = {fold(name): name for name in names}
    return next((text for text in sort_by if _column_of(text, spelled)[0] is None), None)


def sorted_slices(table: pa.Table, keys: SortKeys, rows: int) -> Iterator[pa.Table]:
    """The table in order, `rows` at a time: no second copy of the whole is ever in memory."""
    order = _sort_indices(table, keys) if keys and table.num_rows > 1 else None
    if order is not None and pc.all(pc.greater(order[1:], order[:-1])).as_py():
        order = None
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows) if order is None else table.take(order.slice(start, rows))


def sorted_batches(
    batches: Iterable[pa.Table], keys: SortKeys, *, budget: int, rows: int
) -> Iterator[pa.Table]:
    """All rows of `batches` in order, in tables of at most `rows` rows.

    Holds about `budget` bytes of Arrow data. If there is more, sorted runs of that size go to a temporary
    directory of this machine (LZ4-compressed, deleted at the end), and are merged from there.
    """
    gathered: list[pa.Table] = []
    size = 0
    with tempfile.TemporaryDirectory(prefix="firn-sort-") as directory:
        runs: list[str] = []
        run_rows = rows
        for batch in batches:
            gathered.append(batch)
            size += batch.nbytes
            if size > budget:
                table = pa.concat_tables(gathered)
                # A quarter of the budget holds one batch of each of up to 16 runs while they are merged.
                run_rows = max(1, min(rows, run_rows, table.num_rows * (budget // 64) // max(1, size)))
                runs.append(_spill(os.path.join(directory, str(len(runs))), table, keys, run_rows))
                gathered, size = [], 0
        if gathered:
            table = pa.concat_tables(gathered)
            if not runs:
                yield from sorted_slices(table, keys, rows)
                return
            runs.append(_spill(os.path.join(directory, str(len(runs))), table, keys, run_rows))
            gathered, table = [], None
        if runs:
            yield from _merge([_read_run(path) for path in runs], keys, rows)


def _sort_indices(table: pa.Table, keys: SortKeys) -> pa.UInt64Array:
    try:
        return pc.sort_indices(table.select([name for name, _ in keys]), sort_keys=list(keys))
    except (pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        # Arrow's two words for one thing: the first for lists and intervals, the second for half floats and such.
        names = ", ".join(f"{name} ({table.schema.field(name).type})" for name, _ in keys)
        raise UnsupportedError(f"rows can't be sorted by {names}: {error}. Sort by other columns.") from error


def _spill(path: str, table: pa.Table, keys: SortKeys, rows: int) -> str:
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema, options=options) as writer:
        for part in sorted_slices(table, keys, rows):
            writer.write_table(part.combine_chunks())
    return path


def _read_run(path: str) -> Iterator[pa.Table]:
    with pa.OSFile(path, "rb") as file, pa.ipc.open_stream(file) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _merge(runs: list[Iterator[pa.Table]], keys: SortKeys, rows: int) -> Iterator[pa.Table]:
    """Merge sorted runs. All rows up to the smallest of the heads' last rows are final, whatever follows in
    the runs: those are sorted together and leave."""
    heads = [(head, run) for run in runs if (head := next(run, None)) is not None]
    while len(heads) > 1:
        lasts = pa.concat_tables([head.slice(head.num_rows - 1) for head, _ in heads])
        bound = lasts.slice(_sort_indices(lasts, keys)[0].as_py(), 1)
        final, kept = [], []
        for head, run in heads:
            count = _rows_up_to(head, bound, keys)
            final.append(head.slice(0, count))
            rest = head.slice(count) if count < head.num_rows else next(run, None)
            if rest is not None:
                kept.append((rest, run))
        heads = kept
        yield from sorted_slices(pa.concat_tables(final), keys, rows)
    for head, run in heads:
        yield head
        yield from run


def _rows_up_to(head: pa.Table, bound: pa.Table, keys: SortKeys) -> int:
    """How many rows of a sorted table don't come after `bound`, by bisection."""
    low, high = 0, head.num_rows
    while low < high:
        middle = (low + high) // 2
        pair = pa.concat_tables([head.slice(middle, 1), bound])
        # Stable: an equal row stays first.
        if _sort_indices(pair, keys)[0].as_py() == 0:
            low = middle + 1
        else:
            high = middle
    return low


def _column_of(text: str, spelled: Mapping[str, str]) -> tuple[str | None, str]:
    """The column that a part of a sort order names, of those there are by folded name, and its direction."""
    name, way = split_order(text, spelled)
    return spelled.get(fold(name)), "descending" if way == "desc" else "ascending"
