"""Opening the record table that a command names, and documents and conditions as words of a shell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import orjson

from firn.cli.input.inputs import read_bytes
from firn.cli.options import argument, option
from firn.cli.terminal import output
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.cli.call import RecordsCall
    from firn.records.documents.documents import Documents, Record
    from firn.records.table import RecordTable

IdArg = Annotated[str, argument("ID", "The row's id.")]
Etag = Annotated[
    str | None, option("ETAG", "Only if the row still is this version, as get --json shows it.", "--etag")
]


def indexed(call: RecordsCall) -> RecordTable:
    """The table, whose rows are changed in transactions, and may have indices."""
    from firn.records.table import RecordTable

    if not isinstance(call.table, RecordTable):
        raise InvalidInputError(f"{call.name} has isolation='row': no indices, and no transactions.")
    return call.table


def document_of(documents: Documents, word: str, id: str) -> dict[str, Any]:
    """A document that was given as JSON for a row; `-` is standard input."""
    return typed(documents, json_object(read_bytes("-") if word == "-" else word, "the document"), id)


def typed(documents: Documents, raw: dict[str, Any], id: str) -> dict[str, Any]:
    """A document as a table takes it. What `get --json` adds to it is no part of it."""
    if raw.get("_id", id) != id:
        raise InvalidInputError(f"the document's _id is {raw['_id']!r}, and the row's id {id!r}: which one?")
    if "_etag" in raw:
        raise InvalidInputError(
            f"the document has an _etag, as --json prints it: leave it out, or give etag={raw['_etag']!r} beside the "
            "document, so that the row is replaced only if it still is that version."
        )
    return documents.from_json(raw)


def json_object(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(
            f"{what} is not JSON: {error}. Write an object like '{{\"n\": 1}}'."
        ) from None
    if not isinstance(found, dict):
        raise InvalidInputError(f"{what} is JSON, but no object. Write one like '{{\"n\": 1}}'.")
    return found


def conditions(documents: Documents, words: Sequence[str]) -> dict[str, Any]:
    """Conditions as `FIELD=VALUE`, `FIELD=PREFIX*` or `FIELD=START..END`, and `FIELD[]=` with these for an element of
    a list; values are JSON where they can be, else text. A quoted JSON string is always text: `code="7"`."""
    from firn.records.documents.predicates import Contains

    found: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        field = name.removesuffix("[]")
        if not equals or not field:
            raise InvalidInputError(
                f"{word!r} is no condition: write FIELD=VALUE, FIELD=PREFIX* or FIELD=START..END."
            )
        if field in found:
            raise InvalidInputError(f"two conditions on {field}: rows can be asked for one of each field.")
        if field == name:
            found[field] = _condition(text, partial(_value, documents, field, element=False))
        else:
            found[field] = Contains(_condition(text, partial(_value, documents, field, element=True)))
    return found


def _condition(text: str, value: Callable[[str], Any]) -> Any:
    from firn.records.documents.predicates import Prefix, Range

    if text.startswith('"'):
        return value(text)
    if text.endswith("*"):
        return Prefix(text[:-1])
    if ".." in text:
        start, _, end = text.partition("..")
        return Range(value(start) if start else None, value(end) if end else None)
    return value(text)


def _value(documents: Documents, field: str, text: str, *, element: bool) -> Any:
    """A value of a field, or of an element of the field's lists."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = text
    kind = (documents.columns or {}).get(field)
    if kind is None:
        return value
    if kind == ("VARCHAR[]" if element else "VARCHAR") and not isinstance(value, str):
        value = text
    found = documents.from_json({field: [value] if element else value})[field]
    return found[0] if element else found


def plain_row(documents: Documents, row: Record) -> dict[str, Any]:
    """A row as JSON has it."""
    return {"_id": row.id, **documents.to_json(row.document)}


def print_rows(documents: Documents, rows: Sequence[Record], json: bool) -> None:
    """A line of JSON each, or a table."""
    plain = [plain_row(documents, row) for row in rows]
    if json:
        for row, found in zip(rows, plain, strict=True):
            output.document({**found, "_etag": row.etag})
        return
    if not plain:
        output.note("No such rows.", answer=True)
        return
    heads = list(dict.fromkeys(name for row in plain for name in row))
    output.table(heads, [[_cell(row.get(name)) for name in heads] for row in plain])


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()
