"""Rows that a load is given, in any of the shapes that programs have them in, as ids and documents.

Documents (a list or iterator of dicts) are taken as they are. Of Arrow, and of what turns into it, a null is a field
that the document doesn't have, also within structs: Arrow can't tell the two apart, and what was written as JSON
comes back as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from firn.arrow.inputs import to_reader
from firn.arrow.pyvalues import python_rows, shown
from firn.arrow.types import columns_of
from firn.errors import InvalidInputError
from firn.records.documents.documents import ID, Documents
from firn.records.names.names import check_id

Row = tuple[str, dict[str, Any]]
"""An id and its document."""


def load_rows(data: Any, documents: Documents, *, id: str = ID) -> Iterator[Row]:
    """The rows of `data`, one after another: a stream is never whole in memory.

    Args:
        data: what `LakeTable.append` takes, and iterators of dicts or of record batches.
        documents: of the table.
        id: the field that holds the rows' ids. `_id` is no part of the documents; another field stays in them, unless
            the table has columns, and none of this name.

    Raises:
        InvalidInputError: data that can't be rows, or a row whose id can't be one; the message has its number.
    """
    keep = id != ID and (documents.columns is None or id in documents.columns)
    for number, row in enumerate(_rows(data, documents)):
        given = row.get(id) if keep else row.pop(id, None)
        if given is None:
            raise InvalidInputError(
                f"row {number} has no {id}: each row needs an id. Name the column that has them by id=."
            )
        if type(given) is int:
            given = str(given)
        yield check_id(given), row


def _rows(data: Any, documents: Documents) -> Iterator[dict[str, Any]]:
    if not _is_iterable_of_rows(data):
        reader = to_reader(data, known={ID: "VARCHAR", **(documents.columns or {})})
        yield from _of_batches(reader.schema, reader.batches())
        return
    for number, item in enumerate(data):
        if isinstance(item, Mapping):
            yield dict(item)
        elif isinstance(item, pa.RecordBatch | pa.Table):
            batches = item.to_batches() if isinstance(item, pa.Table) else [item]
            yield from _of_batches(item.schema, batches)
        else:
            raise InvalidInputError(
                f"item {number} of the rows is {shown(item)}: each is a document (a dict), or a record batch"
            )


def _is_iterable_of_rows(data: Any) -> bool:
    """Whether it is to be iterated over, and not Arrow or what turns into it as a whole."""
    if isinstance(data, Mapping | str | bytes | bytearray | memoryview | pa.RecordBatchReader):
        return False
    module = type(data).__module__.partition(".")[0]
    return isinstance(data, Iterable) and module not in ("pyarrow", "pandas", "polars")


def _of_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    columns_of(schema)
    schema = pa.schema([field.with_type(_in_micros(field.type)) for field in schema])
    lean = {field.name: _lean(field.type) for field in schema}
    for batch in batches:
        for part in _slices(batch):
            try:
                values = python_rows(part.cast(schema), maps=True)
            except (pa.ArrowInvalid, KeyError) as error:
                raise InvalidInputError(f"rows can't be made documents: {error}") from None
            for row in values:
                yield {
                    name: change(value) if (change := lean[name]) is not None else value
                    for name, value in row.items()
                    if value is not None
                }


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Python values need many times the memory of Arrow's."""
    for start in range(0, batch.num_rows, 1000):
        yield batch.slice(start, 1000)


def _in_micros(kind: pa.DataType) -> pa.DataType:
    """Python has no nanoseconds."""
    return pa.timestamp("us", kind.tz) if pt.is_timestamp(kind) else kind


def _lean(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """A function that takes nulls out of the structs in a value; None where there are none."""
    if pt.is_struct(kind):
        inner = {field.name: _lean(field.type) for field in kind}
        return lambda value: {
            name: change(part) if (change := inner[name]) is not None else part
            for name, part in value.items()
            if part is not None
        }
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        item = _lean(kind.value_type)
        return None if item is None else lambda value: [None if v is None else item(v) for v in value]
    if pt.is_map(kind):
        mapped = _lean(kind.item_type)
        return (
            None
            if mapped is None
            else lambda value: {key: None if v is None else mapped(v) for key, v in value.items()}
        )
    return None
