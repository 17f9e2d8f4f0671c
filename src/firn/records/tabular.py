"""Rows of a record table as Arrow: its declared columns, or the text of each document. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from firn.arrow.types import arrow_schema
from firn.journal.model import ColumnTypes
from firn.records.documents import ID, Documents

DOCUMENT: Final = "document"
"""The column that has the JSON of documents without declared columns."""


def document_columns(documents: Documents) -> ColumnTypes:
    """The columns that a document is in, with their DuckDB types.

    >>> document_columns(Documents("t", {"n": "BIGINT"})), document_columns(Documents("t"))
    ({'n': 'BIGINT'}, {'document': 'VARCHAR'})
    """
    return {DOCUMENT: "VARCHAR"} if documents.columns is None else dict(documents.columns)


def table_of(
    columns: ColumnTypes,
    own: Mapping[str, Sequence[Any]],
    bodies: Sequence[bytes | None],
    documents: Documents,
) -> pa.Table:
    """An Arrow table of these columns: those of `own`, and those of documents, null where there is no body.

    >>> people = Documents("people", {"born": "INTEGER"})
    >>> columns = {"_id": "VARCHAR", "born": "INTEGER"}
    >>> table_of(columns, {"_id": ["ada", "x"]}, [b'{"born":1815}', None], people).to_pylist()
    [{'_id': 'ada', 'born': 1815}, {'_id': 'x', 'born': None}]
    """
    schema = arrow_schema(columns)
    decoded: Sequence[Mapping[str, Any]] = ()
    arrays = []
    for field in schema:
        if field.name in own:
            values = own[field.name]
        elif documents.columns is None:
            values = [None if body is None else body.decode() for body in bodies]
        else:
            decoded = decoded or [{} if body is None else documents.decode(body) for body in bodies]
            values = [document.get(field.name) for document in decoded]
        arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def row_columns(documents: Documents) -> ColumnTypes:
    """The columns of a row: its id, and its document's."""
    return {ID: "VARCHAR", **document_columns(documents)}
