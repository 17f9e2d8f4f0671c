"""The Parquet key-value metadata by which a data file describes itself, for rebuild and collect (paper, section
2.6).

One key, `firn`, whose value is a JSON object with a version and a CRC-32C of its own, for Parquet has none for
what stands in a footer. The file is written before its transaction, so it names one that may never have been; and
a commit that was overtaken takes its files along, under the revision that it gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from firn.errors import CorruptObjectError, InvalidInputError, UnsupportedError
from firn.journal.envelope import checksum, text
from firn.journal.writer.format.actions import Columns
from firn.journal.writer.format.identity import is_uuid

KEY: Final = "firn"  # frozen
VERSION: Final = 1  # frozen

_CRC = "crc32c"


@dataclass(frozen=True)
class FileRecord:
    """A data file, as it describes itself.

    `partition` is its directory, '' for none. `revision`, `uuid` and `previous` are those of the ticket that it was
    begun with: its transaction, if that came to be, and the head that was seen to count by then. `columns` are the
    file's own. `replaces` are the paths of the files whose rows it holds, `applied` the predicates by which rows of
    theirs were left out. `clocks` are the first and the last logical clock of its rows; by default all have that of
    the transaction that adds it. `extra` holds those parts of its marker in the catalog that its footer can't give
    back.
    """

    writer: str
    database: str
    table: str
    partition: str
    revision: int
    uuid: str
    previous: str | None
    columns: Columns
    replaces: tuple[str, ...] = ()
    applied: tuple[str, ...] = ()
    clocks: tuple[str, str] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def encode_record(record: FileRecord) -> dict[str, str]:
    """The key and value for the file, equal for equal records.

    Raises:
        InvalidInputError: something in it isn't JSON-able.
    """
    fields: dict[str, Any] = {**vars(record), "version": VERSION, "extra": dict(record.extra)}
    try:
        fields[_CRC] = checksum(fields)
        return {KEY: orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()}
    except TypeError as error:
        raise InvalidInputError(
            f"a data file of {record.table!r} can't say what it is: {error}. Its extras must be JSON-able."
        ) from error


def read_metadata(pairs: Mapping[bytes, bytes] | None, *, where: str) -> FileRecord | None:
    """The record in the key-value metadata of a file's footer; None if there is none.

    `where` is the object's URL, for messages.

    Raises:
        CorruptObjectError: it isn't what any Firn writes.
        UnsupportedError: a newer version.
    """
    value = (pairs or {}).get(KEY.encode())
    return None if value is None else decode_record(value, where=where)


def decode_record(value: bytes | str, *, where: str) -> FileRecord:
    """Errors as `read_metadata`."""
    try:
        fields = orjson.loads(value)
        if not isinstance(fields, dict):
            raise ValueError("it isn't a JSON object")
        if fields.pop(_CRC, None) != checksum(fields):
            raise ValueError("its checksum is wrong")
        version = fields.pop("version", None)
        if version != VERSION:
            raise UnsupportedError(
                f"{where} describes itself in version {version}; this version of Firn reads {VERSION}. Upgrade Firn."
            )
        return _record(fields)
    except (ValueError, TypeError, KeyError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CorruptObjectError(
            f"{where} can't be told by its metadata, the key {KEY!r} of its footer: {reason}. Copy the object back "
            "from a backup; a catalog that still names it reads it as before."
        ) from error


def _record(fields: dict[str, Any]) -> FileRecord:
    record = FileRecord(
        writer=text(fields.pop("writer")),
        database=text(fields.pop("database")),
        table=text(fields.pop("table")),
        partition=text(fields.pop("partition")),
        revision=_number(fields.pop("revision")),
        uuid=_uuid(fields.pop("uuid")),
        previous=None if fields["previous"] is None else _uuid(fields["previous"]),
        columns=tuple((text(name), text(kind)) for name, kind in fields.pop("columns")),
        replaces=_texts(fields.pop("replaces")),
        applied=_texts(fields.pop("applied")),
        clocks=_clocks(fields.pop("clocks")),
        extra=_object(fields.pop("extra")),
    )
    del fields["previous"]
    if fields:
        raise ValueError(f"it has a field {next(iter(fields))!r} that its version doesn't know")
    if record.revision < 1 or (record.previous is None) != (record.revision == 1):
        raise ValueError(f"revision {record.revision} names {record.previous} as the one before it")
    return record


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(text, value))


def _number(value: Any) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} isn't a whole number")
    return value


def _uuid(value: Any) -> str:
    if not is_uuid(text(value)):
        raise ValueError(f"{value!r} isn't a uuid")
    return str(value)


def _clocks(value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    first, last = map(text, value)
    return first, last


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} isn't a JSON object")
    return value
