"""The reference's reader, written anew from the papers and from its logs: the other side of the wire.

It shares no code with Firn, and is as strict as the reference where that crashes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field


class Refused(Exception):
    """The reference would crash, or raise, on this table."""


@dataclass
class Marker:
    path: str
    size: int
    created: int
    tombstone: int | None


@dataclass
class View:
    """What the reference knows of a table: schema, markers by path, logs that are tombstoned."""

    schema: dict[str, str] = field(default_factory=dict)
    markers: dict[str, Marker] = field(default_factory=dict)
    log_tombstones: dict[str, int] = field(default_factory=dict)

    @property
    def alive(self) -> set[str]:
        return {path for path, marker in self.markers.items() if marker.tombstone is None}


def read(objects: Mapping[str, bytes], table: str, *, before: int | None = None) -> View:
    """The view of the logs under `{table}/_log`, of those stamped before `before`, in the order of names."""
    view = View()
    for key in sorted(key for key in objects if key.startswith(f"{table}/_log")):
        if before is None or timestamp(key) < before:
            apply(view, key, objects[key])
    return view


def timestamp(key: str) -> int:
    """The time in a log's name: the reference takes every key under the prefix for a log."""
    parts = key.rpartition("/")[2].removesuffix(".jsonl").split("_")
    if len(parts) < 2 or not parts[0].isdigit():
        raise Refused(f"{key} is no log's name")
    return int(parts[0])


def is_merged(key: str) -> bool:
    """The reference takes a name whose second part is `m` for a merge's."""
    return key.rpartition("/")[2].split("_")[1] == "m"


def apply(view: View, key: str, body: bytes) -> None:
    lines = body.decode().split("\n")
    try:
        header = json.loads(lines[0])
        version, schema_line, first_file = header["v"], header["sch"], header["f"]
        first_tombstone = header.get("tmb", first_file)
        schema = json.loads(lines[schema_line])
        tombstones = [json.loads(line) for line in lines[first_tombstone:first_file]]
        markers = [json.loads(line) for line in lines[first_file:]]
    except (ValueError, KeyError, IndexError) as error:
        raise Refused(f"{key}: {error!r}") from error
    if int(version) != 1 or header["t"] != timestamp(key):
        raise Refused(f"{key}: version {version}, time {header['t']}")
    for column, kind in schema.items():
        if view.schema.setdefault(column, kind) != kind:
            raise Refused(f"{key}: {column} is {view.schema[column]} and {kind}")
    for entry in tombstones:
        view.log_tombstones[entry["p"]] = entry["t"]
    for entry in markers:
        view.markers[entry["p"]] = Marker(entry["p"], entry["b"], entry["t"], entry.get("tmb"))
