"""`<table>/_firn/table.json` of a keyed table: what it was created with. Manifests hold all that changes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import orjson

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.definition import create_object, decode_framed, encode_framed, read_object
from firn.journal.entries import PROPERTY, Entries
from firn.journal.manifest.layout import ManifestLayout
from firn.keyed.definition.evolved import COLUMNS, EvolvedColumns, comments_of, evolve
from firn.keyed.definition.settings import KeyedSettings
from firn.keyed.encoding.key_cells import KEY_TYPES
from firn.keyed.encoding.keys import Keys
from firn.keyed.encoding.seqs import NARROW, WIDE, WIDE_SEQ, Seqs
from firn.keyed.encoding.values import Values
from firn.keyed.merge.operators import Operator, operator_of, suited
from firn.keyed.sst.writer import SstWriter
from firn.kinds import FORMAT_VERSIONS
from firn.names import fold

KIND = "keyed"  # frozen
FORMAT_VERSION = FORMAT_VERSIONS["keyed"]

GENERATION = "generation"  # frozen: directories end in `~` and the generation
FEATURES = frozenset((WIDE_SEQ, KEY_TYPES, GENERATION))
"""Those that this version knows. All new tables have the first, those whose keys need it the second, those of a name
that had a table before the third."""

_REMEDY = (
    "Its data and manifests are untouched: restore the object from a backup, or write it again with the properties "
    "that the table was created with."
)


@dataclass(frozen=True)
class KeyedDefinition:
    """A keyed table's definition.

    `columns` are the value's columns, name → DuckDB type; None where values are bytes. `key` are the key's; None
    where keys are bytes. `merge_operator` is an operator's name or names by column, `ttl_ms` how long
    an entry lives unless its put says. The
    first writer's and the first compactor's epoch is `first_epoch`: above all of a dropped table's of that name.
    `features` are what a reader must know: `wide-seq`, `key-types`. A clone has its parent's.
    A clone's `parent` names the table that it was made of and the checkpoint that pins it.
    The definition of a dropped table stays: the next of its name has the next `generation`, and objects of its own.

    What `alter` has changed is in the last ones, which `encode` leaves out. `stored` says what files call a column
    that is called otherwise now. `defaults` are what rows have that are older than the column, as text. `optional`
    are names in files of columns that a file may have or lack. `since` has the columns with a default and those that
    were widened, with the clock from which on files have them as they are now; `clock` is the definition's own.
    `comments` are by column, "" being the table's.
    """

    name: str
    columns: Mapping[str, str] | None = None
    key: Mapping[str, str] | None = None
    merge_operator: str | Mapping[str, str] | None = None
    ttl_ms: int | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    first_epoch: int = 1
    id: str = ""
    dropped: bool = False
    parent: Mapping[str, str] | None = None
    features: tuple[str, ...] = ()
    generation: int = 0
    stored: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    since: Mapping[str, int] = field(default_factory=dict)
    clock: int = 0
    comments: Mapping[str, str] = field(default_factory=dict)

    kind = KIND
    erased = False

    def layout(self, prefix: str) -> ManifestLayout:
        """The names of the table's objects, `prefix` being its directory."""
        return ManifestLayout(prefix, self.generation)

    @cached_property
    def keys(self) -> Keys:
        return Keys(self.key)

    @cached_property
    def values(self) -> Values:
        return Values(self.columns, self.stored, self.defaults, self.optional)

    @property
    def seqs(self) -> Seqs:
        """How entries are numbered."""
        return WIDE if WIDE_SEQ in self.features else NARROW

    def sst_writer(self, expected_bytes: int = 0, *, values: Values | None = None) -> SstWriter:
        """Makes one SST or L0 object of the table; `values` are those of its rows, if they aren't of now."""
        values = values or self.values
        return SstWriter(
            values.schema,
            stored=values.stored_schema,
            block_bytes=self.settings.block_size,
            compression=self.settings.compression,
            bloom_bits=self.settings.bloom_bits,
            expected_bytes=expected_bytes,
            wide=self.seqs == WIDE,
        )

    @cached_property
    def operator(self) -> Operator | None:
        return operator_of(self.merge_operator, self.values)

    def __getstate__(self) -> dict[str, Any]:
        # Tasks of a cluster get the definition alone, and make again what follows from it.
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def settings(self) -> KeyedSettings:
        return KeyedSettings.from_properties(self.properties)

    def altered(self, changes: Entries) -> KeyedDefinition:
        """The definition that the table was created with, with changes that a manifest tells."""
        if not changes:
            return self
        properties = {**self.properties, **changes.of(PROPERTY)}
        found = EvolvedColumns(self.columns or {})
        columns, merge = self.columns, self.merge_operator
        if columns is not None and changes.only(*COLUMNS):
            found = evolve(columns, changes, self.name)
            # By column from now on: those that were added have none.
            columns, merge = found.columns, self.operators
        return replace(
            self,
            columns=columns,
            merge_operator=merge,
            properties={k: v for k, v in properties.items() if v is not None},
            stored=found.stored,
            defaults=found.defaults,
            optional=found.optional,
            since=found.since,
            clock=changes.clock,
            comments=comments_of(changes, found),
        )

    @property
    def operators(self) -> str | Mapping[str, str] | None:
        """The merge operator; of a table with a schema by column, unless it is one function for whole rows."""
        operator = self.merge_operator
        if self.columns is None or not isinstance(operator, str) or ":" in operator:
            return operator
        return suited(operator, Values(self.columns))

    def seen_as(self, older: KeyedDefinition) -> KeyedDefinition:
        """An older definition, for files of this one, too: streams keep the columns that they began with."""
        mine, theirs = ({d.stored.get(n, n) for n in d.columns or ()} for d in (self, older))
        optional = {*self.optional, *older.optional, *(mine ^ theirs)}
        return replace(older, optional=tuple(sorted(optional)))

    def check(self) -> None:
        """Refuse what can't be: properties, types of columns and keys, the operator. No requests."""
        _ = self.settings, self.operator
        spelled = {fold(name) for name in self.keys.names}
        if twice := [name for name in self.values.names if fold(name) in spelled]:
            raise InvalidInputError(
                f"the table has the column {twice[0]!r} in its key and in its values. Rename one of them."
            )

    def encode(self) -> bytes:
        operator = self.merge_operator
        counted = {GENERATION: self.generation} if self.generation else {}
        body = {
            "id": self.id,
            "name": self.name,
            # Lists, since the order of columns counts and keys of a JSON object are sorted.
            "columns": None if self.columns is None else [list(item) for item in self.columns.items()],
            "key": None if self.key is None else [list(item) for item in self.key.items()],
            "merge": dict(operator) if isinstance(operator, Mapping) else operator,
            "ttl_ms": self.ttl_ms,
            "properties": dict(self.properties),
            "first_epoch": self.first_epoch,
            "dropped": self.dropped,
            "parent": None if self.parent is None else dict(self.parent),
            **counted,
        }
        return encode_framed(FORMAT_VERSION, KIND, body, (*self.features, *counted))

    @staticmethod
    def decode(data: bytes, where: str) -> KeyedDefinition:
        """Raises `CorruptObjectError` and, for a newer format or an unknown feature, `UnsupportedError`."""
        return decode_framed(
            data,
            where,
            KeyedDefinition._read,
            version=FORMAT_VERSION,
            noun="keyed table",
            remedy=_REMEDY,
            known=FEATURES,
        )

    @staticmethod
    def _read(raw: Mapping[str, Any]) -> KeyedDefinition:
        return KeyedDefinition(
            name=raw["name"],
            columns=None if raw["columns"] is None else dict(raw["columns"]),
            key=None if raw["key"] is None else dict(raw["key"]),
            merge_operator=raw["merge"],
            ttl_ms=raw["ttl_ms"],
            properties=raw["properties"],
            first_epoch=raw["first_epoch"],
            id=raw["id"],
            dropped=raw["dropped"],
            parent=raw["parent"],
            features=tuple(name for name in raw["features"] if name != GENERATION),
            generation=raw.get(GENERATION, 0),
        )


def read_definition(bucket: Bucket, prefix: str) -> KeyedDefinition | None:
    """1 GET; None where there is none, or that of a table of another kind."""
    return read_object(bucket, prefix, _decode_own)


def _decode_own(data: bytes, where: str) -> KeyedDefinition | None:
    with suppress(ValueError, KeyError, TypeError):  # else the decoder says what is wrong with it
        if orjson.loads(data)["kind"] != KIND:
            return None
    return KeyedDefinition.decode(data, where)


def create_definition(
    bucket: Bucket, prefix: str, definition: KeyedDefinition, *, over: str | None = None
) -> KeyedDefinition:
    """Write a new definition under an id of its own. 1 conditional PUT. `over` as `create_object` has it.

    Raises:
        TableExistsError: there is a table.
        UnsupportedError: the store has no conditional puts.
    """
    if not bucket.capabilities.conditional_put:
        raise UnsupportedError(
            f"{bucket.url} has no conditional puts, by which writers of a keyed table fence each other. Keep the "
            "table in another store, or use a lake table."
        )
    definition = replace(definition, id=secrets.token_hex(16))
    create_object(bucket, prefix, definition.name, definition.encode(), nonce=definition.id, over=over)
    return definition
