"""Small JSON objects with a checksum of themselves, `crc`: no flipped bit of theirs goes unnoticed.

Version 0.1 wrote them without one. Such objects are read as long as they have no field that 0.1 didn't know: it might
be `crc`, misspelled.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import orjson


def seal(fields: Mapping[str, Any], *, indent: bool = False) -> bytes:
    """The object's bytes: `crc` is the CRC-32 of its compact JSON without it. `indent`: for people to read."""
    crc = zlib.crc32(orjson.dumps(dict(fields)))
    return orjson.dumps({**fields, "crc": crc}, option=orjson.OPT_INDENT_2 if indent else None)


def unseal(data: bytes, known: AbstractSet[str], *, indent: bool = False) -> dict[str, Any]:
    """The object's fields; `known` are those that version 0.1 wrote.

    Raises:
        ValueError: it isn't what any Firn writes.
    """
    fields = orjson.loads(data)
    if not isinstance(fields, dict):
        raise ValueError("it isn't a JSON object")
    if "crc" in fields:
        del fields["crc"]
        if seal(fields, indent=indent) != data:
            raise ValueError("its checksum is wrong")
    elif unknown := sorted(fields.keys() - known):
        raise ValueError(f"it has no checksum, and a field {unknown[0]!r} that isn't known")
    return fields
