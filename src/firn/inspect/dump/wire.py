"""Protobuf messages as far as they can be read: a field that is damaged is told, and the others are still shown."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf.message import DecodeError

MOST_PROBLEMS = 20
"""So many are told of one object: of random bytes every one can be another."""

_VARINT = re.compile(rb"[\x80-\xff]{0,9}[\x00-\x7f]")


def read_message(kind: Any, data: bytes, problems: list[str]) -> Any:
    """A message of what can be parsed, one by one, of the fields of `data`.

    Args:
        kind: a generated class, like `catalog_pb2.Transaction`.
        problems: gets a line for each field that can't be parsed or is cut short, and for what no known version has.
    """
    message, at, told = kind(), 0, 0
    while at < len(data) and told < MOST_PROBLEMS:
        name, end = _field(kind, data, at)
        problem, end = "", len(data) if end is None else end
        if end > len(data):
            problem = f"{end - len(data):,} of its bytes are missing"
        else:
            try:
                field = kind.FromString(data[at:end])
                message.MergeFrom(field)
                size = field.ByteSize()
                field.DiscardUnknownFields()
                if field.ByteSize() != size:
                    problem = "it has a field that no version known here has"
            except DecodeError:
                problem = f"it can't be decoded: {data[at : min(end, at + 64)].hex(' ', 2)}"
        if problem:
            told += 1
            problems.append(f"{name}, byte {at:,} of the payload: {problem}")
        at = end
    if at < len(data):
        problems.append("there is more that can't be decoded")
    return message


def _field(kind: Any, data: bytes, at: int) -> tuple[str, int | None]:
    """A field's name, and where it ends; None if it has no end."""
    tag = _VARINT.match(data, at)
    if tag is None:
        return "a field", None
    number, wire = _number(tag[0]) >> 3, tag[0][0] & 7
    known = kind.DESCRIPTOR.fields_by_number.get(number)
    name = f"field {number}" if known is None else known.name
    if wire in (1, 5):
        return name, tag.end() + (8 if wire == 1 else 4)
    value = _VARINT.match(data, tag.end()) if wire in (0, 2) else None
    if value is None:
        return name, None
    return name, value.end() + (_number(value[0]) if wire == 2 else 0)


def _number(varint: bytes) -> int:
    return sum((byte & 0x7F) << 7 * i for i, byte in enumerate(varint))
