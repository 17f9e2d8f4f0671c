"""Protobuf messages as far as they can be read: what is damaged is told, and the rest is still shown.

A generated class reads all of a message or nothing. Here every field is read by itself, and a message inside
another can be broken without harm to its neighbours.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MOST_PROBLEMS = 20
"""So many are told of one object: of random bytes every one can be another."""

Descriptor = Any
"""Of protobuf, which has no types."""


class _Cut(Exception):
    """The bytes end, or can't go on."""


class WireReader:
    """Reads messages and collects what is wrong with them. `problems` say where, in bytes of the whole payload."""

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._told = 0

    def message(self, kind: Descriptor, data: bytes, start: int = 0, path: str = "") -> dict[str, Any]:
        """A message's fields by name: lists where they repeat, dicts for messages, bytes as they are.

        Args:
            kind: the message's descriptor, like `catalog_pb2.Transaction.DESCRIPTOR`.
            start: where `data` begins in the payload.
            path: of the message, for problems.
        """
        found: dict[str, Any] = {}
        at = 0
        while at < len(data):
            try:
                at = self._field(kind, data, at, start, path, found)
            except _Cut as cut:
                self._tell(path or kind.name, start + at, f"{cut}; what follows in it is not shown")
                break
        return found

    def _field(
        self, kind: Descriptor, data: bytes, at: int, start: int, path: str, found: dict[str, Any]
    ) -> int:
        """Read one field into `found`; where the next one begins."""
        begin = at
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        raw, after = _raw(wire, data, at)
        field = kind.fields_by_number.get(number)
        if field is None:
            self._tell(path or kind.name, start + begin, f"a field {number}, which no version known here has")
            found.setdefault(f"field {number}", []).append(raw)
            return after
        name = f"{path}.{field.name}" if path else field.name
        if isinstance(raw, bytes) and after > len(data):
            missing = after - len(data)
            self._tell(name, start + begin, f"{missing:,} of its {missing + len(raw):,} bytes are missing")
        for value in self._values(
            field, wire, raw, start + min(after, len(data)) - _length(raw), name, start + begin
        ):
            if field.is_repeated:
                found.setdefault(field.name, []).append(value)
            else:
                found[field.name] = value
        return after

    def _values(self, field: Descriptor, wire: int, raw: Any, start: int, name: str, begin: int) -> list[Any]:
        expected = _wire_type(field)
        if wire == BYTES and field.is_repeated and expected == VARINT:
            values, at = [], 0
            while at < len(raw):
                try:
                    number, at = _varint(raw, at)
                except _Cut as cut:
                    self._tell(name, start + at, str(cut))
                    break
                values.append(_number(field, number))
            return values
        if wire != expected:
            self._tell(name, begin, f"it is written as wire type {wire}, not {expected}")
            return [raw]
        if field.type == field.TYPE_MESSAGE:
            return [self.message(field.message_type, raw, start, name)]
        if field.type == field.TYPE_STRING:
            try:
                return [raw.decode()]
            except UnicodeDecodeError as error:
                self._tell(name, begin, f"it isn't UTF-8: {error.reason}")
                return [raw.decode(errors="backslashreplace")]
        return [raw if field.type == field.TYPE_BYTES else _number(field, raw)]

    def _tell(self, name: str, at: int, what: str) -> None:
        self._told += 1
        if self._told <= MOST_PROBLEMS:
            self._problems.append(f"{name}, byte {at:,} of the payload: {what}")
        elif self._told == MOST_PROBLEMS + 1:
            self._problems.append("there is more that can't be decoded")


def _length(raw: Any) -> int:
    return len(raw) if isinstance(raw, bytes) else 0


def _raw(wire: int, data: bytes, at: int) -> tuple[Any, int]:
    """A value as its wire type has it, and where it ends: behind the data, if it was cut."""
    if wire == VARINT:
        return _varint(data, at)
    if wire == BYTES:
        length, at = _varint(data, at)
        return data[at : at + length], at + length
    if wire in (FIXED64, FIXED32):
        size = 8 if wire == FIXED64 else 4
        if at + size > len(data):
            raise _Cut(f"its last value has {len(data) - at} of {size} bytes")
        return int.from_bytes(data[at : at + size], "little"), at + size
    raise _Cut(f"wire type {wire} can't be")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & (2**64 - 1), at
    raise _Cut("a number of more than 10 bytes" if shift >= 70 else "its last number has no end")


def _wire_type(field: Descriptor) -> int:
    if field.type in (field.TYPE_MESSAGE, field.TYPE_STRING, field.TYPE_BYTES):
        return BYTES
    return FIXED64 if field.type == field.TYPE_DOUBLE else VARINT


def _number(field: Descriptor, raw: int) -> Any:
    readers: dict[int, Callable[[int], Any]] = {
        field.TYPE_DOUBLE: lambda n: struct.unpack("<d", n.to_bytes(8, "little"))[0],
        field.TYPE_SINT64: lambda n: (n >> 1) ^ -(n & 1),
        field.TYPE_BOOL: bool,
    }
    reader = readers.get(field.type)
    return raw if reader is None else reader(raw)
