"""Rows of a record table as Arrow: its declared columns, or the text of each document. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import orjson
import pyarrow as pa

from firn.arrow.pyvalues import shown
from firn.arrow.types import arrow_schema
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.names import fold
from firn.records.documents.documents import ID, Documents
from firn.records.documents.fields import FieldType, field_type
from firn.records.documents.predicates import value_at
from firn.records.names.names import shown_id

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

    Without declared columns `document` is the JSON, and any other column the field of that name, or dotted path.

    Raises:
        InvalidInputError: such a field has a value that can't be of the column's type.

    >>> people = Documents("people", {"born": "INTEGER"})
    >>> columns = {"_id": "VARCHAR", "born": "INTEGER"}
    >>> table_of(columns, {"_id": ["ada", "x"]}, [b'{"born":1815}', None], people).to_pylist()
    [{'_id': 'ada', 'born': 1815}, {'_id': 'x', 'born': None}]
    """
    schema = arrow_schema(columns)
    parsed: Sequence[Any] = ()
    arrays = []
    for field in schema:
        if field.name in own:
            arrays.append(pa.array(own[field.name], field.type))
            continue
        if documents.columns is None and field.name == DOCUMENT:
            arrays.append(pa.array(bodies, pa.binary()).cast(field.type))
            continue
        # In one go: a call for each would take longer than the work of it.
        parsed = parsed or orjson.loads(
            b"[%b]" % b",".join(b"null" if body is None else body for body in bodies)
        )
        if documents.types is None:
            values = [value_at(document, field.name) if document else None for document in parsed]
            values = _picked(values, own[ID], field.name, columns[field.name], documents.table)
            arrays.append(pa.array(values, field.type))
        else:
            values = [document.get(field.name) if document else None for document in parsed]
            arrays.append(_declared(values, documents.types[field.name], field, bodies, documents))
    return pa.Table.from_arrays(arrays, schema=schema)


def _declared(
    values: Sequence[Any],
    kind: FieldType,
    field: pa.Field,
    bodies: Sequence[bytes | None],
    documents: Documents,
) -> pa.Array:
    """A declared column of JSON's values. `CorruptObjectError` for what was never put there."""
    try:
        if kind.as_json:
            with suppress(pa.ArrowTypeError):  # of a value that was written before its column became VARCHAR
                return pa.array(values, field.type)
        values = [None if value is None else kind.from_json(value) for value in values]
        return pa.array(values, field.type)
    except (ValueError, TypeError, AttributeError, ArithmeticError):
        for body in bodies:
            if body is not None:
                documents.decode(body)  # says which
        raise


def _picked(values: Sequence[Any], ids: Sequence[str], name: str, kind: str, table: str) -> list[Any]:
    """A field of documents of any kind, as a type. As VARCHAR, what isn't text is its JSON."""
    asked, text, found = field_type(kind), kind == "VARCHAR", []
    for id, value in zip(ids, values, strict=True):
        if value is not None:
            try:
                if not text:
                    value = _as(asked, value)
                elif not isinstance(value, str):
                    value = orjson.dumps(value).decode()
            except (ValueError, TypeError, AttributeError, ArithmeticError):
                raise InvalidInputError(
                    f"{table}[{shown_id(id)}] has {shown(value)} at {name}, which isn't {kind}. Read the field as "
                    "text, or leave it out of the schema."
                ) from None
        found.append(value)
    return found


def _as(kind: FieldType, value: Any) -> Any:
    """A value of JSON's types as one of a column's; raises what `from_json` and `to_json` do where it is none."""
    if isinstance(value, bool) and kind.kind is not bool:
        raise ValueError(f"{value} is no {kind.name}")
    # JSON has a decimal as text; a number has the digits that it is written with.
    found = kind.from_json(repr(value) if kind.kind is Decimal and not isinstance(value, str) else value)
    kind.to_json(found, "$")
    return found


def row_columns(documents: Documents, indexed: Sequence[str] = ()) -> ColumnTypes:
    """The columns of a row: its id, fields as text, and its document's.

    >>> list(row_columns(Documents("t"), ["city"]))
    ['_id', 'city', 'document']
    """
    return {ID: "VARCHAR", **dict.fromkeys(indexed, "VARCHAR"), **document_columns(documents)}


def indexed_columns(documents: Documents, fields: Iterable[str]) -> tuple[str, ...]:
    """The indexed fields that are columns in SQL: where none are declared, those with a name of their own."""
    if documents.columns is not None:
        return ()
    found: dict[str, str] = {}
    for name in sorted(fields):
        if fold(name) not in (ID, DOCUMENT):
            found.setdefault(fold(name), name)
    return tuple(found.values())
