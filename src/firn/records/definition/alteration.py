"""What an `alter` of a record table asks for, and the definition that it makes of another. Pure.

Documents stay as they were written. So the new definition must read all of them: types only widen, and a dropped
column comes back only with a type that takes its old values in (docs/format/record-log.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

import orjson

from firn.arrow.inputs import declared_columns
from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes
from firn.journal.sequence.codec import canonical
from firn.names import fold
from firn.records.definition.definition import RecordDefinition, is_json_schema
from firn.records.definition.settings import RecordSettings
from firn.records.documents.documents import ID
from firn.records.documents.fields import widens
from firn.records.documents.json_schema import JsonSchema
from firn.records.names.names import check_unicode


class Unchanged(Enum):
    """The value of an argument that wasn't given, where None says something."""

    UNCHANGED = "unchanged"

    def __repr__(self) -> str:
        return self.name


UNCHANGED: Final = Unchanged.UNCHANGED

LARGEST_BYTES: Final = 1 << 20
"""Bytes of columns or of a JSON schema, at most: the log's catalog has them."""


@dataclass(frozen=True)
class Alteration:
    """The arguments of one `alter`; see `RecordTable.alter`."""

    add: Mapping[str, Any] = field(default_factory=dict)
    drop: Sequence[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    schema: Mapping[str, Any] | Unchanged | None = UNCHANGED
    comments: Mapping[str, str | None] = field(default_factory=dict)
    comment: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(
        table: str,
        *,
        rename: Mapping[str, str] | None,
        add: Mapping[str, Any] | None,
        drop: Sequence[str] | None,
        types: Mapping[str, str] | None,
        schema: Mapping[str, Any] | Unchanged | None,
        comments: Mapping[str, Any] | None,
        comment: str | None,
        set_properties: Mapping[str, Any] | None,
    ) -> Alteration:
        """The arguments as they were given.

        Raises:
            InvalidInputError: there are none.
            UnsupportedError: columns can't be renamed.
        """
        if rename:
            old, new = next(iter(rename.items()))
            raise UnsupportedError(
                f"{table}: fields of record tables aren't renamed, as documents name their fields. Change these, "
                f"like UPDATE {table} SET {new} = {old}; a declared column {new!r} is added before, by alter(add=…), "
                f"and {old!r} dropped then, by alter(drop=…)."
            )
        asked = Alteration(
            add or {}, tuple(drop or ()), types or {}, schema, comments or {}, comment, set_properties or {}
        )
        if asked == Alteration():
            raise InvalidInputError(
                f"{table}: alter was told nothing to change. Pass add={{name: type}}, drop=[name], types={{name: "
                "type}, schema=…, comments={name: text}, comment=text or set_properties={name: value}."
            )
        return asked


def altered(
    now: RecordDefinition, asked: Alteration, indexed: Collection[str]
) -> tuple[RecordDefinition, tuple[str, ...]]:
    """The definition that an alteration makes, and a line for each change; no lines where it changes nothing.

    Args:
        indexed: the fields that have an index.

    Raises:
        InvalidInputError, UnsupportedError: it can't be; the message says why.
    """
    lines: list[str] = []
    made = _with_columns(now, asked, indexed, lines)
    made = _with_schema(made, asked, lines)
    made = _with_comments(made, asked, lines)
    return _with_properties(made, asked, lines), tuple(lines)


def _with_columns(
    now: RecordDefinition, asked: Alteration, indexed: Collection[str], lines: list[str]
) -> RecordDefinition:
    if not (asked.add or asked.drop or asked.types):
        return now
    columns = now.columns
    if columns is None:
        raise InvalidInputError(
            f"{now.name} declares no columns: its documents may have any field already. A JSON schema says what they "
            "hold, by alter(schema=…)."
        )
    added = _added(now.name, asked.add)
    dropped = list(_dropped(now, asked.drop))
    types = {_column(now, columns, name): name for name in asked.types}
    for name in {*dropped, *types} & {*added}:
        raise InvalidInputError(f"{now.name}: {name!r} can't be added and dropped or changed by one call.")
    for name in types.keys() & {*dropped}:
        raise InvalidInputError(f"{now.name}: {name!r} can't be dropped and get another type by one call.")
    kept, gone = dict(columns), dict(now.gone)
    for name in dropped:
        _refuse_indexed(now, name, indexed, "dropped")
        gone[name] = kept.pop(name)
        lines.append(f"drop {name}")
    for name, kind in added.items():
        if _is_new(now, kept, name, kind):
            gone.pop(name, None)
            kept[name] = kind
            lines.append(f"add {name} {kind}")
    for name, given in types.items():
        kind = declared_columns({name: asked.types[given]})[name]
        if kind == kept[name]:
            continue
        _refuse_indexed(now, name, indexed, "changed")
        if not widens(kept[name], kind):
            raise InvalidInputError(
                f"{now.name}: {name!r} is {kept[name]} in its documents, and {kind} doesn't take that in. Choose a "
                "type that does, like VARCHAR; or add another column, change the documents, and drop this one."
            )
        kept[name] = kind
        lines.append(f"type of {name}: {kind}")
    if not kept:
        raise InvalidInputError(f"{now.name}: {dropped[-1]!r} is its last column. Drop the table instead.")
    comments = {name: text for name, text in now.comments.items() if name in kept or not name}
    made = replace(now, columns=kept, gone=gone, comments=comments)
    made.documents.check()
    declared_columns(kept)  # names that are equal up to case
    _refuse_large(now.name, "columns", {**kept, **gone})
    return made


def _added(table: str, given: Mapping[str, Any]) -> ColumnTypes:
    for name, kind in given.items():
        check_unicode(name, f"{table}: the name of a column")
        if name == ID:
            raise InvalidInputError(f"{table}: {ID} is a row's id, and can't be a column.")
        if isinstance(kind, tuple | list):
            raise UnsupportedError(
                f"{table}: a column of a record table has no default, as a document is read as it was written. Add "
                f"{name!r} with its type alone, and write the value into the documents, like UPDATE {table} SET "
                f"{name} = …."
            )
        if not isinstance(kind, str):
            raise InvalidInputError(f"{table}: {name!r} is to be {shown(kind)}: give a type, like 'VARCHAR'.")
    return declared_columns(given) if given else {}


def _is_new(now: RecordDefinition, kept: ColumnTypes, name: str, kind: str) -> bool:
    """Whether a column that is to be added isn't there yet, just so."""
    if kept.get(name) == kind:
        return False
    for other in kept:
        if fold(other) == fold(name):
            raise InvalidInputError(f"{now.name} has a column {other!r} already, which is {kept[other]}.")
    if name in now.gone and not widens(now.gone[name], kind):
        raise InvalidInputError(
            f"{now.name} had a column {name!r} of type {now.gone[name]}, and older documents may hold its values, "
            f"which {kind} doesn't take in. Choose another name, or a type like VARCHAR."
        )
    return True


def _dropped(now: RecordDefinition, names: Sequence[str]) -> Iterator[str]:
    """The columns that are to be dropped, but for those that were."""
    assert now.columns is not None
    for name in dict.fromkeys(names):
        if name in now.columns or name not in now.gone:
            yield _column(now, now.columns, name)


def _column(now: RecordDefinition, columns: ColumnTypes, name: str) -> str:
    """The column of a name: that itself, or the only one that is it up to case."""
    if name == ID:
        raise InvalidInputError(f"{now.name}: {ID} is a row's id, and stays as it is.")
    if name in columns:
        return name
    alike = [other for other in columns if fold(other) == fold(name)]
    if len(alike) == 1:
        return alike[0]
    was = ", it was dropped" if name in now.gone else ""
    raise InvalidInputError(f"{now.name} has no column {name!r}{was}: {', '.join(columns)}.")


def _refuse_indexed(now: RecordDefinition, name: str, indexed: Collection[str], what: str) -> None:
    for path in sorted(indexed):
        if name in (path, path.partition(".")[0]):
            raise InvalidInputError(
                f"{now.name}: {name!r} can't be {what} while {path!r} has an index, whose entries are of its type. "
                f"Drop the index first, by drop_index({path!r})."
            )


def _with_schema(now: RecordDefinition, asked: Alteration, lines: list[str]) -> RecordDefinition:
    given = asked.schema
    if isinstance(given, Unchanged):
        return now
    if given is not None:
        if now.columns is not None:
            raise InvalidInputError(
                f"{now.name} declares columns, which say what its documents hold: change these, by add, drop and "
                "types."
            )
        if not isinstance(given, Mapping) or not is_json_schema(given):
            raise InvalidInputError(
                f"{now.name}: {shown(given)} isn't a JSON schema, like {{'type': 'object', …}}; None takes it back. "
                "Columns can only be declared when a table is created."
            )
        given = JsonSchema(given).schema
        _refuse_large(now.name, "a JSON schema", given)
    if same_schema(given, now.schema):
        return now
    lines.append("no schema" if given is None else "schema")
    return replace(now, schema=given)


def same_schema(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether they are one JSON: 1, 1.0 and true are three values there."""
    return one is other or (one is not None and other is not None and canonical(one) == canonical(other))


def _with_comments(now: RecordDefinition, asked: Alteration, lines: list[str]) -> RecordDefinition:
    wanted: dict[str, str] = {}
    for name, text in asked.comments.items():
        if text is not None and not isinstance(text, str):
            raise InvalidInputError(f"{now.name}: the comment on {name!r} is {shown(text)}: give a text.")
        if now.columns is None and name != ID:
            raise InvalidInputError(
                f"{now.name} declares no columns to comment on; comment= is the table's own."
            )
        wanted[ID if name == ID else _column(now, now.columns or {}, name)] = text or ""
    if asked.comment is not None:
        wanted[""] = asked.comment
    comments = dict(now.comments)
    for name, text in wanted.items():
        if comments.get(name, "") == text:
            continue
        of = f" on {name}" if name else ""
        if text:
            comments[name] = text
            lines.append(f"comment{of}: {text}")
        else:
            del comments[name]
            lines.append(f"no comment{of}")
    _refuse_large(now.name, "comments", comments)
    return replace(now, comments=comments)


def _with_properties(now: RecordDefinition, asked: Alteration, lines: list[str]) -> RecordDefinition:
    RecordSettings.from_properties({**now.properties, **asked.properties})
    properties = dict(now.properties)
    for name, value in sorted(asked.properties.items()):
        if properties.get(name) == value:
            continue
        if value is None:
            del properties[name]
            lines.append(f"unset {name}")
        else:
            properties[name] = value
            lines.append(f"set {name} = {value}")
    return replace(now, properties=properties)


def _refuse_large(table: str, what: str, value: Mapping[str, Any]) -> None:
    try:
        size = len(orjson.dumps(value))
    except (TypeError, ValueError) as error:  # half of a character
        raise InvalidInputError(f"{table}: {what} can't be stored: {error}.") from None
    if size > LARGEST_BYTES:
        raise InvalidInputError(
            f"{table}: {what} of {size:,} bytes are too large: at most {LARGEST_BYTES:,} fit in the log."
        )
