"""The name of a database of writers' catalogs, by its record, or by the writers' directories if that is lost.

The name is a part of every key, so without it no writer would be found, and a new catalog would begin beside the
old one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import google_crc32c
import orjson

from firn.bucket.base import Bucket
from firn.errors import CorruptObjectError, InvalidInputError
from firn.journal.writer.format.layout import (
    CATALOG_DIRS,
    WriterLayout,
    check_place,
    database_key,
    is_place,
)

VERSION = 1  # frozen


def encode_name(name: str) -> bytes:
    """The record's bytes."""
    return orjson.dumps({"firn": VERSION, "database": name, "crc": _checksum(name)})


def decode_name(data: bytes, where: str) -> str:
    """The name of a record; version 0.1 wrote none of the checksums.

    Raises:
        CorruptObjectError: it isn't what any Firn writes.
    """
    try:
        found = orjson.loads(data)
        name = check_place(found["database"], "database")
        if found.pop("crc", _checksum(name)) != _checksum(name):
            raise ValueError("its checksum is wrong")
        if found != {"firn": VERSION, "database": name}:
            raise ValueError("it has other fields than a database's name")
        return name
    except (ValueError, KeyError, TypeError, AttributeError, InvalidInputError) as error:
        raise CorruptObjectError(f"{where} doesn't name the database ({error!r})") from error


def has_checksum(data: bytes) -> bool:
    """Whether a record that can be decoded is surely as it was written."""
    return "crc" in orjson.loads(data)


def names_in_use(bucket: Bucket, prefix: str, dirs: Mapping[str, Iterable[str]]) -> list[str]:
    """The names under which writers have catalogs, sorted. `dirs`: the contents of directories that aren't tables'.

    Cost: 1 LIST a directory of these, and 1 LIST sequence more where it looks like a catalog.
    """
    found: set[str] = set()
    for writer, below in sorted(dirs.items()):
        for name in below:
            if name not in found and is_place(writer) and is_place(name):
                layout = WriterLayout(prefix, writer, name)
                inside = bucket.list_dirs(f"{layout.root}/")
                listed = (bucket.list(f"{layout.root}/{part}/") for part in CATALOG_DIRS if part in inside)
                if any(layout.is_ours(info.key) for each in listed for info in each.objects):
                    found.add(name)
    return sorted(found)


def lost_name(bucket: Bucket, prefix: str, problem: str, names: Iterable[str]) -> CorruptObjectError:
    """Nobody can tell the name: the record is damaged or gone, and the directories have several names, or none."""
    names = list(names)
    where = bucket.uri(database_key(prefix))
    if not names:
        return CorruptObjectError(
            f"{problem}, and no writer's directory tells the name. Delete the object: nothing was committed yet."
        )
    example = orjson.dumps({"firn": VERSION, "database": names[0]}).decode()
    return CorruptObjectError(
        f"{problem}, and the writers' directories have several names: {', '.join(names)}. Write the right one to "
        f"{where}, like {example}."
    )


def _checksum(name: str) -> int:
    return int(google_crc32c.value(f"firn database {name}".encode()))
