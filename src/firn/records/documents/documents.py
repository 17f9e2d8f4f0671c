"""Documents: what a row may hold, how it is kept, and rows as users see them.

A document is a JSON object, kept as canonical JSON: UTF-8, no blanks, keys sorted. With declared columns it takes
and gives dates, times, decimals and bytes as Python values (`firn.records.documents.fields`); without, it is JSON's
types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final

import orjson

from firn.arrow.pyvalues import shown
from firn.errors import CorruptObjectError, InvalidInputError
from firn.journal.sequence.codec import canonical
from firn.records.documents.fields import FieldType, field_type, from_json, to_json
from firn.records.documents.json_schema import JsonSchema
from firn.records.documents.predicates import (
    Contains,
    Equal,
    Ids,
    Predicate,
    Range,
    Scalar,
    predicate_of,
    value_at,
)
from firn.records.names.index_values import IndexValue, encode_value
from firn.records.names.json_values import plain_json
from firn.records.names.names import check_unicode, shown_id

ID: Final = "_id"
"""The key under which a row shows its id; a document can't hold it."""

MAX_BODY: Final = 16 << 20
"""Bytes that a document's JSON may have."""

MAX_ELEMENTS: Final = 100
"""Different elements of a list that is indexed by each: a row's record names an entry for each, which is a PUT."""


class Record(Mapping[str, Any]):
    """A row: a mapping of its document and `_id`, with the ETag of the version that was read.

    It can be written back as it is, its `_id` is ignored then. Changing what it holds changes neither the bucket
    nor what others read.

    >>> row = Record("ada", {"city": "London"}, "7.5e8c")
    >>> dict(row), row.etag
    ({'_id': 'ada', 'city': 'London'}, '7.5e8c')
    >>> {**row, "city": "Ockham"}
    {'_id': 'ada', 'city': 'Ockham'}
    """

    __slots__ = ("_document", "etag", "id")

    def __init__(self, id: str, document: Mapping[str, Any], etag: str) -> None:
        self.id = id
        self.etag = etag
        self._document = document

    @property
    def document(self) -> dict[str, Any]:
        """The document, without `_id`."""
        return dict(self._document)

    def __getitem__(self, key: str) -> Any:
        return self.id if key == ID else self._document[key]

    def __iter__(self) -> Iterator[str]:
        yield ID
        yield from self._document

    def __len__(self) -> int:
        return 1 + len(self._document)

    def __reduce__(self) -> tuple[type[Record], tuple[str, dict[str, Any], str]]:
        return Record, (self.id, self.document, self.etag)

    def __repr__(self) -> str:
        return f"Record({dict(self)!r}, etag={self.etag!r})"


@dataclass(frozen=True)
class Documents:
    """The documents of one table.

    Args:
        table: its name, for messages.
        columns: name → DuckDB type of the fields that a document may have; None where it may have any.
        schema: a JSON schema that documents follow, or None.

    >>> people = Documents("people", columns={"born": "DATE"})
    >>> import datetime
    >>> people.encode("ada", {"born": datetime.date(1815, 12, 10)})
    b'{"born":"1815-12-10"}'
    """

    table: str
    columns: Mapping[str, str] | None = None
    schema: Mapping[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # All else follows from these and is made again: types are functions, which can't be pickled.
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def check(self) -> None:
        """Refuse columns and schemas that can't be."""
        _ = self.types, self._json_schema

    @cached_property
    def types(self) -> Mapping[str, FieldType] | None:
        """The declared columns; None where documents may have any field."""
        if self.columns is None:
            return None
        if ID in self.columns:
            raise InvalidInputError(f"{ID} is a row's id, and can't be a column: leave it out of the schema.")
        found = {}
        for name, kind in self.columns.items():
            try:
                found[name] = field_type(kind)
            except InvalidInputError as error:
                raise InvalidInputError(f"column {name!r}: {error}") from None
        return found

    @cached_property
    def _json_schema(self) -> JsonSchema | None:
        return None if self.schema is None else JsonSchema(self.schema)

    def encode(self, id: str, document: Mapping[str, Any]) -> bytes:
        """The canonical JSON of a document, without its `_id`.

        Raises:
            InvalidInputError: it holds what JSON or the table's schema doesn't allow; the message names the row
                and the place in the document.
        """
        body = self.body_of(id, document, judged=True)
        if len(body) > MAX_BODY:
            raise InvalidInputError(
                f"{self._named(id)} has {len(body):,} bytes of JSON; at most {MAX_BODY:,} fit in a document."
            )
        return body

    def body_of(self, id: str, document: Mapping[str, Any], *, judged: bool = False) -> bytes:
        """The same of a document that was read: written before, it need not follow the JSON schema."""
        if not isinstance(document, Mapping):
            raise InvalidInputError(f"{self._named(id)}: {shown(document)} isn't a document. Give a dict.")
        try:
            plain = self._plain({key: value for key, value in document.items() if key != ID})
            if judged and self._json_schema is not None:
                self._json_schema.check(plain)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self._named(id)}: {error}") from None
        return canonical(plain)

    def must_follow(self, id: str, body: bytes) -> None:
        """Refuse a body that couldn't be written by these definitions.

        Raises:
            InvalidInputError: it doesn't follow the JSON schema, or has a field that isn't a column.
        """
        plain = orjson.loads(body)
        try:
            if self.types is not None:
                for name, value in plain.items():
                    if value is not None and name not in self.types:
                        raise InvalidInputError(f"$ has the field {name!r}, which isn't a column.")
            if self._json_schema is not None:
                self._json_schema.check(plain)
        except InvalidInputError as error:
            raise InvalidInputError(f"{self._named(id)}: {error}") from None

    def decode(self, body: bytes, id: str | None = None) -> dict[str, Any]:
        """The document that was encoded, made anew at each call. `id`: of its row, for messages.

        Raises:
            CorruptObjectError: not a document of this table.
        """
        try:
            found = orjson.loads(body)
            if not isinstance(found, dict):
                raise TypeError(f"a JSON {type(found).__name__} is no document")
            return found if self.types is None else from_json(found, self.types)
        except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
            row = f"a row of {self.table}" if id is None else self._named(id)
            raise CorruptObjectError(
                f"{row} holds {body[:60]!r}, which isn't a document of the table ({error}). Restore the row's object "
                "from a backup, or write the row anew."
            ) from error

    def from_json(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A document that came as JSON, with the values that the table's columns have for it.

        Raises:
            InvalidInputError: a field isn't what its column's JSON is.

        >>> Documents("t", columns={"born": "DATE"}).from_json({"born": "1815-12-10"})
        {'born': datetime.date(1815, 12, 10)}
        """
        if self.types is None or self.columns is None:
            return dict(document)
        found = {}
        for key, value in document.items():
            kind = None if value is None else self.types.get(key)
            try:
                found[key] = value if kind is None else kind.from_json(value)
            except (ValueError, TypeError, AttributeError, ArithmeticError):
                raise InvalidInputError(
                    f"{key} is {self.columns[key]} by {self.table}'s schema, and can't be {shown(value)}."
                ) from None
        return found

    def to_json(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """A document as JSON has it."""
        plain: dict[str, Any] = orjson.loads(self.body_of("", document))
        return plain

    def index_values(
        self, id: str, document: Mapping[str, Any], field: str, *, each: bool
    ) -> Sequence[IndexValue]:
        """The entry of a decoded document in the index of a field: its value, None where it is null or missing;
        with `each` the different elements of the list that is there, none where it is null or missing.

        Raises:
            InvalidInputError: something else is there, or it has too many elements.
        """
        value = value_at(document, field)
        if not each:
            if isinstance(value, list | Mapping):
                raise InvalidInputError(
                    f"{self._named(id)} has {shown(value)} at {field}, which is indexed: an index holds text, "
                    "numbers, bools, dates, times, bytes and null. The elements of lists are indexed with each=True."
                )
            return (value,)
        if value is None:
            return ()
        if not isinstance(value, list) or any(isinstance(element, list | Mapping) for element in value):
            raise InvalidInputError(
                f"{self._named(id)} has {shown(value)} at {field}, whose elements are indexed: give a list of text, "
                "numbers, bools, dates, times, bytes and null, or no value."
            )
        different = {encode_value(element): element for element in value}
        if len(different) > MAX_ELEMENTS:
            raise InvalidInputError(
                f"{self._named(id)} has a list of {len(different):,} different elements at {field}; an index of "
                f"elements takes at most {MAX_ELEMENTS} a row."
            )
        return tuple(different.values())

    def check_field(self, field: str, *, each: bool = False) -> None:
        """Refuse a field that no index can be of: not text, unknown to the columns, or of a type with parts; with
        `each`, of one that isn't a list of such without parts."""
        if not isinstance(field, str) or not field:
            raise InvalidInputError(
                f"{shown(field)} can't name an indexed field: give text like 'address.city'."
            )
        check_unicode(field, "the field")
        if field == ID:
            raise InvalidInputError(f"{ID} needs no index: rows are found by their ids with get.")
        if self.types is not None and field in self.types:
            kind = self.types[field]
            has_elements = kind.item is not None and kind.item.kind is not None
            if each and not has_elements:
                raise InvalidInputError(
                    f"{field} is {kind.name}, and has no elements that can be indexed: each=True is for lists of "
                    "text, numbers, bools, dates, times or bytes."
                )
            if not each and kind.kind is None:
                within = "index its elements with each=True" if has_elements else "a field within may be"
                raise InvalidInputError(f"{field} is {kind.name}, which can't be indexed; {within}.")
        self.must_know(field)

    def predicate(self, field: str, given: Any) -> Predicate | Ids:
        """What `find(field=given)` asks for, in the kind of values that the field's column has.

        Raises:
            InvalidInputError: no value of the column can be equal to it, or there is no such column.

        >>> Documents("t", columns={"price": "DECIMAL(5,2)"}).predicate("price", 3)
        Equal(value=Decimal('3.00'))
        """
        if field == ID:
            return Ids.of(given)
        self.must_know(field)
        asked = predicate_of(given)
        kind = None if self.types is None else self.types.get(field)
        if kind is None:
            return asked
        if isinstance(asked, Contains):
            if kind.item is None:
                raise InvalidInputError(
                    f"{field} is {kind.name} by {self.table}'s schema: only lists contain anything."
                )
            return Contains(self._in_kind(field, kind.item, asked.predicate))
        return self._in_kind(field, kind, asked)

    def _in_kind(self, field: str, kind: FieldType, asked: Scalar) -> Scalar:
        """The predicate on values of a type, in the kind that these have."""
        if kind.kind is None:
            return asked
        if isinstance(asked, Equal):
            return Equal(self._as_column(field, kind, asked.value))
        if isinstance(asked, Range):
            start, end = (self._as_column(field, kind, bound) for bound in (asked.start, asked.end))
            return replace(asked, start=start, end=end)
        if kind.kind is not str:
            raise InvalidInputError(
                f"{field} is {kind.name} by {self.table}'s schema: only text has prefixes."
            )
        return asked

    def must_know(self, field: str) -> None:
        """Refuse a field that is unknown to the columns, where there are any."""
        if self.types is None or field in self.types:
            return
        if not isinstance(field, str) or field.split(".")[0] not in self.types:
            raise InvalidInputError(f"{self.table} has no column {field!r}: {', '.join(self.types)}.")

    def _as_column(self, field: str, kind: FieldType, value: IndexValue) -> IndexValue:
        if value is None or (kind.kind in (int, float) and type(value) in (int, float)):
            return value
        found: IndexValue = kind.from_json(kind.to_json(value, field))
        return found

    def _plain(self, document: dict[str, Any]) -> Any:
        if self.types is not None:
            return to_json(document, self.types, "$", "an object")
        return plain_json(document)

    def _named(self, id: str) -> str:
        return f"{self.table}[{shown_id(id)}]"
