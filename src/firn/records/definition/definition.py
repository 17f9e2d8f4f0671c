"""`<table>/_firn/table.json` of a record table: what it was created with. The log has all that changes since."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from firn.arrow.inputs import declared_columns
from firn.arrow.pyvalues import shown
from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.definition import create_object, decode_framed, encode_framed, read_object
from firn.journal.sequence import Ddl, DocumentRules, TableState
from firn.journal.sequence.codec import ALTERED, EACH
from firn.kinds import FORMAT_VERSIONS
from firn.records.definition.settings import RecordSettings
from firn.records.documents.documents import Documents
from firn.records.names.layout import RecordLayout

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "records"  # frozen
FORMAT_VERSION = FORMAT_VERSIONS["records"]

_REMEDY = (
    "Its rows and the log are untouched: restore the object from a backup, or write it again as the table was "
    "created."
)

Isolation = Literal["snapshot", "row"]
"""How a table's rows are changed: "snapshot" in transactions, "row" one by one without any."""

State = Literal["creating", "ready"]


@dataclass(frozen=True)
class Index:
    """An index of a record table.

    Args:
        field: a field of the documents, or a dotted path into them: "address.city".
        unique: whether no two rows may have one value there. Any number may have null.
        each: whether the field holds lists, whose elements are what rows are found by, with `firn.Contains`: text,
            numbers and the like, at most 100 different ones a row. `unique` is of each element then.

    >>> Index("email", unique=True), Index("tags", each=True)
    (Index(field='email', unique=True, each=False), Index(field='tags', unique=False, each=True))
    """

    field: str
    unique: bool = False
    each: bool = False


@dataclass(frozen=True)
class RecordDefinition:
    """A record table's definition.

    `indices` are those that the table was created with; the log knows which there are now. `columns` are the
    declared fields, name → DuckDB type, `schema` the JSON schema; None where none is. `db` is the name that
    index entries give the database, for ever, so that a copy of it elsewhere computes the same names. In the
    state "creating" the name is claimed and the log may not know the table yet. The definition of a dropped table
    stays: the next of its name has the next `generation`, and objects of its own. `rev` is how often the object was
    altered, which is of tables with isolation="row" alone: those of others are altered in the log. `gone` are the
    columns that were dropped, with their types, and `altered` the `rev`, or the commit, by which columns or the JSON
    schema were changed last. `comments` are texts by column, "" for the table's own.
    """

    name: str
    db: str = "db"
    indices: tuple[Index, ...] = ()
    columns: Mapping[str, str] | None = None
    schema: Mapping[str, Any] | None = None
    isolation: Isolation = "snapshot"
    properties: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    state: State = "creating"
    dropped: bool = False
    generation: int = 0
    rev: int = 0
    altered: int = 0
    gone: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)

    kind = KIND
    erased = False

    @cached_property
    def documents(self) -> Documents:
        return Documents(self.name, self.columns, self.schema)

    @cached_property
    def settings(self) -> RecordSettings:
        return RecordSettings.from_properties(self.properties)

    @property
    def rules(self) -> DocumentRules:
        """What documents may hold."""
        columns = None if self.columns is None else tuple(self.columns.items())
        return DocumentRules(columns, self.schema, self.gone)

    def with_rules(self, rules: DocumentRules) -> RecordDefinition:
        """The same with another definition of what documents may hold."""
        columns = None if rules.columns is None else dict(rules.columns)
        return replace(self, columns=columns, schema=rules.schema, gone=rules.gone)

    def as_in(self, state: TableState) -> RecordDefinition:
        """What was created, as the log has altered it since."""
        if not state.is_altered:
            return self
        found = self if state.documents is None else self.with_rules(state.documents)
        properties = {**self.properties, **state.properties}
        properties = {name: value for name, value in properties.items() if value is not None}
        return replace(found, properties=properties, comments=state.comments, altered=state.altered)

    def creation(self) -> Ddl:
        """The change by which the log learns of the table."""
        return Ddl(
            "create",
            self.name,
            isolation=self.isolation,
            indices=tuple((index.field, index.unique) for index in self.indices),
            generation=self.generation,
            each=tuple(index.field for index in self.indices if index.each),
        )

    def layout(self, prefix: str) -> RecordLayout:
        """The names of the table's objects, `prefix` being its directory."""
        return RecordLayout(prefix, self.name, self.db, self.generation)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks of a cluster get the definition alone, and make again what follows from it.
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def check(self) -> None:
        """Refuse what can't be: properties, types of columns, the JSON schema, indices. No requests."""
        self.documents.check()
        _ = self.settings
        if self.isolation not in get_args(Isolation):
            raise InvalidInputError(f"isolation={self.isolation!r}: there are 'snapshot' and 'row'.")
        if self.isolation == "row" and self.indices:
            raise InvalidInputError(
                "a table with isolation='row' has no indices: a write is one object. Leave them out, or use "
                "transactions (isolation='snapshot')."
            )
        seen = set()
        for index in self.indices:
            self.documents.check_field(index.field, each=index.each)
            if index.field in seen:
                raise InvalidInputError(f"two indices of {index.field!r}: a field has one.")
            seen.add(index.field)

    def encode(self) -> bytes:
        body = {
            "id": self.id,
            "name": self.name,
            "db": self.db,
            "indices": [_index_fields(index) for index in self.indices],
            # A list, since the order of columns counts and keys of a JSON object are sorted.
            "columns": None if self.columns is None else [list(item) for item in self.columns.items()],
            "schema": None if self.schema is None else dict(self.schema),
            "isolation": self.isolation,
            "properties": dict(self.properties),
            "state": self.state,
            "dropped": self.dropped,
            "generation": self.generation,
            **({"rev": self.rev} if self.rev else {}),
            **({"altered": self.altered} if self.altered else {}),
            **({"gone": dict(self.gone)} if self.gone else {}),
            **({"comments": dict(self.comments)} if self.comments else {}),
        }
        features = {EACH} if any(index.each for index in self.indices) else set()
        return encode_framed(FORMAT_VERSION, KIND, body, features | ({ALTERED} if self.altered else set()))

    @staticmethod
    def decode(data: bytes, where: str) -> RecordDefinition:
        """Raises `CorruptObjectError` and, for a newer format or an unknown feature, `UnsupportedError`."""
        return decode_framed(
            data,
            where,
            RecordDefinition._read,
            version=FORMAT_VERSION,
            noun="record table",
            remedy=_REMEDY,
            known={EACH, ALTERED},
        )

    @staticmethod
    def _read(raw: Mapping[str, Any]) -> RecordDefinition:
        return RecordDefinition(
            name=raw["name"],
            db=raw["db"],
            indices=tuple(
                Index(index["field"], index["unique"], index.get("each", False)) for index in raw["indices"]
            ),
            columns=None if raw["columns"] is None else dict(raw["columns"]),
            schema=raw["schema"],
            isolation=raw["isolation"],
            properties=raw["properties"],
            id=raw["id"],
            state=raw["state"],
            dropped=raw["dropped"],
            generation=raw["generation"],
            rev=raw.get("rev", 0),
            altered=raw.get("altered", 0),
            gone=dict(raw.get("gone", {})),
            comments=dict(raw.get("comments", {})),
        )


def _index_fields(index: Index) -> dict[str, Any]:
    return {"field": index.field, "unique": index.unique, **({"each": True} if index.each else {})}


def indices_of(given: Iterable[str | Index]) -> tuple[Index, ...]:
    """The indices that `create_table(indices=…)` asks for.

    >>> indices_of(["city", Index("email", unique=True)])
    (Index(field='city', unique=False, each=False), Index(field='email', unique=True, each=False))
    """
    if isinstance(given, str | Index):
        raise InvalidInputError(f"indices={given!r}: give a list, like indices=['city'].")
    found = []
    for index in given:
        if not isinstance(index, str | Index):
            raise InvalidInputError(f"{shown(index)} isn't an index: give a field's name, or firn.Index(…).")
        found.append(Index(index) if isinstance(index, str) else index)
    return tuple(found)


def schema_of(
    given: pa.Schema | Mapping[str, Any] | None,
) -> tuple[Mapping[str, str] | None, Mapping[str, Any] | None]:
    """What `create_table(schema=…)` declares: columns, or a JSON schema, or neither.

    An Arrow schema, or a dict of names to DuckDB types, declares columns; any other dict is a JSON schema.

    >>> schema_of({"born": "date"}), schema_of({"type": "object"})
    (({'born': 'DATE'}, None), (None, {'type': 'object'}))
    """
    if given is None:
        return None, None
    if isinstance(given, Mapping) and is_json_schema(given):
        return None, dict(given)
    return declared_columns(given), None


def is_json_schema(given: Mapping[str, Any]) -> bool:
    """Whether a dict is a JSON schema, and not columns with their types."""
    return (
        given.get("type") == "object"
        or not _KEYWORDS.isdisjoint(given)
        or any(not isinstance(value, str) for value in given.values())
    )


_KEYWORDS = frozenset(
    f"${word}"
    for word in (
        *("schema", "id", "ref", "defs", "comment", "anchor", "vocabulary"),
        *("dynamicRef", "dynamicAnchor", "recursiveRef", "recursiveAnchor"),
    )
)
"""Keywords of a JSON schema that no column is called like. Any other name with `$` may be a column's."""


def read_definition(bucket: Bucket, prefix: str, *, clock: Clock | None = None) -> RecordDefinition | None:
    """1 GET; None where there is none."""
    return read_object(bucket, prefix, RecordDefinition.decode, clock=clock)


def create_definition(
    bucket: Bucket, prefix: str, definition: RecordDefinition, *, over: str | None = None
) -> RecordDefinition:
    """Write a new definition under an id of its own. 1 conditional PUT.

    Args:
        over: the ETag of the definition that it is to replace; None where there is none.

    Raises:
        TableExistsError: there is a table.
        UnsupportedError: the store has no conditional puts.
    """
    if not bucket.capabilities.conditional_put:
        raise UnsupportedError(
            f"{bucket.url} has no conditional puts, by which the transactions of a record table are ordered. Keep "
            "the table in another store, or use a lake table."
        )
    definition = replace(definition, id=secrets.token_hex(16))
    create_object(bucket, prefix, definition.name, definition.encode(), nonce=definition.id, over=over)
    return definition
