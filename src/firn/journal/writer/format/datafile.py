"""Data files and their columns as messages; decoding gives back the same values, `extra` included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from firn.journal.model import DataFile
from firn.journal.writer.format.actions import Columns

Message = Any
"""A generated class: protoc writes no types."""

_LOW, _HIGH = -(2**63), 2**63 - 1


class Malformed(Exception):
    """A message that no Firn writes; the reader adds the object's name."""


class SchemaList:
    """The schemas of one object, each once, while it is encoded."""

    def __init__(self, target: Message) -> None:
        self._target = target
        self._index: dict[Columns, int] = {}

    def index(self, columns: Columns) -> int:
        found = self._index.get(columns)
        if found is None:
            found = self._index[columns] = len(self._index)
            schema = self._target.add()
            for name, kind in columns:
                schema.columns.add(name=name, type=kind)
        return found


def decode_schemas(schemas: Sequence[Message]) -> list[Columns]:
    return [tuple((c.name, c.type) for c in schema.columns) for schema in schemas]


def schema_at(schemas: Sequence[Columns], index: int) -> Columns:
    if index >= len(schemas):
        raise Malformed(f"it names schema {index} of {len(schemas)}")
    return schemas[index]


def encode_file(target: Message, file: DataFile, schema: int) -> None:
    """Fill the message `target`. Extras that have no field of their own, or not its type, go as JSON."""
    target.path = file.path
    target.size = file.size
    target.created_ms = file.created_ms
    target.schema = schema
    if file.extra is None:
        return
    target.has_extra = True
    rest = {key: value for key, value in file.extra.items() if key != "inlined"}
    rows = rest.get("rows")
    if type(rows) is int and 0 <= rows < 2**64:
        target.rows = rest.pop("rows")
    statistics = rest.get("stats")
    if isinstance(statistics, Mapping) and all(map(_is_entry, statistics.values())):
        target.has_statistics = True
        for column, entry in rest.pop("stats").items():
            _encode_entry(target.statistics.add(column=column), entry)
    if rest:
        target.extra = orjson.dumps(rest)


def decode_file(source: Message) -> DataFile:
    """Raises `Malformed`."""
    if not source.path:
        raise Malformed("a data file has no path")
    if not source.has_extra:
        if source.HasField("rows") or source.has_statistics or source.statistics or source.extra:
            raise Malformed(f"the data file {source.path} has extras and says that it has none")
        return DataFile(source.path, source.size, source.created_ms)
    extra: dict[str, Any] = {}
    if source.HasField("rows"):
        extra["rows"] = source.rows
    if source.has_statistics:
        extra["stats"] = {entry.column: _decode_entry(entry) for entry in source.statistics}
    if source.extra:
        extra.update(json_object(source.extra, f"the extras of {source.path}"))
    return DataFile(source.path, source.size, source.created_ms, extra)


def json_object(data: bytes, what: str) -> dict[str, Any]:
    """Raises `Malformed`."""
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise Malformed(f"{what} are not JSON ({error})") from error
    if not isinstance(found, dict):
        raise Malformed(f"{what} are not a JSON object")
    return found


def _is_entry(entry: Any) -> bool:
    """Whether these are statistics as `firn.predicate.stats` makes them: [min, max, nulls] and maybe a family."""
    return (
        isinstance(entry, list)
        and len(entry) in (3, 4)
        and all(bound is None or type(bound) in (bool, int, float, str) for bound in entry[:2])
        and (entry[2] is None or (type(entry[2]) is int and 0 <= entry[2] < 2**64))
        and (len(entry) == 3 or (isinstance(entry[3], str) and entry[3] != ""))
    )


def _encode_entry(target: Message, entry: Sequence[Any]) -> None:
    low, high, nulls = entry[:3]
    if low is not None:
        _encode_value(target.min, low)
    if high is not None:
        _encode_value(target.max, high)
    if nulls is not None:
        target.nulls = nulls
    if len(entry) == 4:
        target.family = entry[3]


def _decode_entry(source: Message) -> list[Any]:
    entry = [
        _decode_value(source.min) if source.HasField("min") else None,
        _decode_value(source.max) if source.HasField("max") else None,
        source.nulls if source.HasField("nulls") else None,
    ]
    return [*entry, source.family] if source.family else entry


def _encode_value(target: Message, value: bool | int | float | str) -> None:
    if isinstance(value, bool):
        target.boolean = value
    elif isinstance(value, int):
        if _LOW <= value <= _HIGH:
            target.integer = value
        else:
            target.big = str(value)
    elif isinstance(value, float):
        target.real = value
    else:
        target.text = value


def _decode_value(source: Message) -> bool | int | float | str:
    kind = source.WhichOneof("kind")
    if kind is None:
        raise Malformed("a statistic has no value")
    value: bool | int | float | str = getattr(source, kind)
    if kind == "big":
        try:
            return int(value)
        except ValueError as error:
            raise Malformed(f"the statistic {value!r} is not a number") from error
    return value
