"""A table's definition in writers' catalogs: as one of them created it, and the changes of all since. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import Any, Final

import orjson

from firn.errors import CorruptObjectError
from firn.journal.entries import SEEN, Entries
from firn.journal.writer.federation.federation import Union
from firn.names import fold

ALTERED: Final = "definition"
"""The feature of a table's definition that has entries. Frozen."""

LAKE_FORMAT: Final = 5
"""The format of a lake table's definition that has features. Frozen."""


@dataclass(frozen=True)
class WriterDefinition:
    """A table's definition in one writer's catalog. `spec` is the lake's definition as the table was created,
    opaque here except for the place of its entries; `entries` are the changes since."""

    spec: bytes
    defined_ms: int
    writer: str
    entries: Entries = field(default_factory=Entries)

    @property
    def base(self) -> tuple[bytes, int, str]:
        return self.spec, self.defined_ms, self.writer

    def encode(self) -> bytes:
        """The JSON of a `Define`. Versions that know no changes must refuse a table that was altered: they take the
        definition of the earliest time, so that time is 0, and it has a format that is new to them."""
        raw: dict[str, Any] = {"defined_ms": self.defined_ms, "writer": self.writer}
        if seen := self.entries.only(SEEN):
            raw["seen"] = seen.to_json()[SEEN]
        changes = self.entries.without(SEEN)
        if not changes:
            return orjson.dumps({**raw, "table": orjson.Fragment(self.spec)})
        table = {"key": None, "version_by": None, **orjson.loads(self.spec)}
        table["firn"] = LAKE_FORMAT
        table["features"] = sorted({*table.get("features", ()), ALTERED})
        table["since"] = self.defined_ms
        table["definition"] = changes.to_json()
        return orjson.dumps({**raw, "defined_ms": 0, "table": table})

    @staticmethod
    @lru_cache(maxsize=1024)
    def decode(data: bytes, where: str) -> WriterDefinition:
        """Raises `CorruptObjectError`."""
        try:
            found = orjson.loads(data)
            table = found["table"]
            defined_ms = int(table.get("since", found["defined_ms"]))
            entries = Entries.from_json({SEEN: found.get("seen", {}), **table.get("definition", {})}, where)
            spec = orjson.dumps(dict(sorted(_created(table).items())))
            return WriterDefinition(spec, defined_ms, str(found["writer"]), entries)
        except (AttributeError, orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise CorruptObjectError(
                f"{where} isn't a table's definition ({error!r}), and no version of Firn writes such a one. Find its "
                "transaction with `firn log` and `firn dump OBJECT`; stop the writer's processes, delete the "
                "revision's transaction, marker and claim, and run `firn rebuild --writer ID`."
            ) from error


def _created(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """A table's definition without its changes, in the format that it was created in."""
    features = table.get("features", [])
    if ALTERED not in features:
        return table
    base = {name: value for name, value in table.items() if name not in ("since", "definition", "features")}
    if others := [name for name in features if name != ALTERED]:
        return {**base, "features": others}
    if base["key"] is None:
        del base["key"], base["version_by"]
        return {**base, "firn": 1}
    return {**base, "firn": 2}


def seen_name(column: str, kind: str) -> str:
    """How an entry of kind `seen` is called: the first commit that brought this type of the column made it."""
    return f"{fold(column)}\t{kind}"


def each_definition(union: Union, table: str) -> dict[str, WriterDefinition]:
    """The definition of the table in the catalog of each writer that has it."""
    return _decoded(table, said_by(union, table))


def definition_of(union: Union, table: str) -> WriterDefinition:
    """A table's definition: the earliest that a writer has, with the changes of all."""
    return merged(table, tuple(said_by(union, table)))[0]


def definitions(union: Union) -> dict[str, tuple[WriterDefinition, tuple[str, ...]]]:
    """Each table's definition, and the warnings about it."""
    names = {name for version in union.versions.values() for name in version.state.tables}
    return {name: merged(name, tuple(said_by(union, name))) for name in sorted(names)}


def said_by(union: Union, table: str) -> Iterable[tuple[str, bytes]]:
    """Pairs of a writer and the table's definition in its catalog."""
    for writer, version in union.versions.items():
        if (state := version.state.tables.get(table)) is not None:
            yield writer, state.spec


@lru_cache(maxsize=1024)
def merged(table: str, specs: tuple[tuple[str, bytes], ...]) -> tuple[WriterDefinition, tuple[str, ...]]:
    """The joined definition of all writers, and the warnings if they created it differently."""
    by = _decoded(table, specs)
    if not by:
        return WriterDefinition(b"{}", 0, ""), ()
    first = min(by.values(), key=lambda d: (d.defined_ms, d.writer))
    entries = reduce(Entries.joined, (d.entries for d in by.values()), Entries())
    found = replace(first, entries=entries)
    others = [writer for writer, definition in by.items() if definition.base != first.base]
    if not others:
        return found, ()
    return found, (
        f"{table} is defined by the writer {first.writer} and, otherwise and later, by {', '.join(others)}; the "
        "earliest definition counts",
    )


def _decoded(table: str, specs: Iterable[tuple[str, bytes]]) -> dict[str, WriterDefinition]:
    return {
        w: WriterDefinition.decode(spec, f"the definition of {table} by the writer {w}") for w, spec in specs
    }
