"""`<table>/_firn/table.json`: what a table was created with. The log holds everything that changes."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from firn.bucket.base import Bucket
from firn.bucket.conditional import create
from firn.errors import (
    CorruptObjectError,
    InvalidInputError,
    ObjectExistsError,
    ObjectNotFoundError,
    TableExistsError,
    UnsupportedError,
)
from firn.journal.leaderless.settings import PROPERTIES as JOURNAL_PROPERTIES
from firn.journal.leaderless.settings import Settings
from firn.journal.model import ColumnTypes
from firn.lake.encode import CODECS
from firn.lake.partition import PartitionSpec
from firn.units import parse_duration, parse_size

FORMAT_VERSION = 1  # frozen

TABLE_PROPERTIES = {
    "target_size": "128MB",
    "row_group_rows": None,
    "codec": None,
    "memory_budget": None,
    "stats_columns": 32,
    "write_distribution": "auto",
    "retention": None,
    "shared": None,
    "log_url": None,
    "on_conflict": "error",
}
"""Properties of the lake's own, with their defaults (None: not set); the journal's are durations."""


@dataclass(frozen=True)
class Descriptor:
    """A table's definition."""

    name: str
    kind: str = "lake"
    journal: str = "leaderless"
    columns: ColumnTypes = field(default_factory=dict)
    partition: PartitionSpec = field(default_factory=lambda: PartitionSpec(()))
    sort_by: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    dropped: bool = False

    @property
    def shared(self) -> bool:
        """Whether the reference implementation reads and writes this table too."""
        return bool(self.setting("shared") == "icedb")

    def setting(self, name: str) -> Any:
        return self.properties.get(name, TABLE_PROPERTIES[name])

    def encode(self) -> bytes:
        return orjson.dumps(
            {
                "firn": FORMAT_VERSION,
                "id": self.id,
                "name": self.name,
                "kind": self.kind,
                "journal": self.journal,
                "columns": dict(self.columns),
                "partition": self.partition.to_json(),
                "sort_by": list(self.sort_by),
                "properties": dict(self.properties),
                "dropped": self.dropped,
            },
            option=orjson.OPT_INDENT_2,
        )

    @staticmethod
    def decode(data: bytes, where: str) -> Descriptor:
        """Raises `CorruptObjectError` and, for a newer format, `UnsupportedError`."""
        try:
            raw = orjson.loads(data)
            if raw["firn"] != FORMAT_VERSION:
                raise UnsupportedError(
                    f"{where} has format version {raw['firn']!r}; this version of Firn reads {FORMAT_VERSION}. "
                    "Upgrade Firn to open the table."
                )
            return Descriptor(
                name=raw["name"],
                kind=raw["kind"],
                journal=raw["journal"],
                columns=raw["columns"],
                partition=PartitionSpec.from_json(raw["partition"]),
                sort_by=tuple(raw["sort_by"]),
                properties=raw["properties"],
                id=raw["id"],
                dropped=raw.get("dropped", False),
            )
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise CorruptObjectError(
                f"{where} is not a table definition ({error!r}). Its data and log are untouched: delete it and "
                "the table opens with the defaults."
            ) from error


def descriptor_key(prefix: str) -> str:
    return f"{prefix}/_firn/table.json"


def read_descriptor(bucket: Bucket, prefix: str) -> Descriptor | None:
    """1 GET; None where there is none."""
    key = descriptor_key(prefix)
    try:
        return Descriptor.decode(bucket.get(key).data, bucket.uri(key))
    except ObjectNotFoundError:
        return None


def create_descriptor(bucket: Bucket, prefix: str, descriptor: Descriptor) -> Descriptor:
    """Write a new definition: 1 conditional PUT, or GET + PUT where the store has none.

    Raises:
        TableExistsError: there is a table.
    """
    key = descriptor_key(prefix)
    descriptor = replace(descriptor, id=secrets.token_hex(16))
    try:
        if bucket.capabilities.conditional_put:
            create(bucket, key, descriptor.encode(), nonce=descriptor.id)
        elif read_descriptor(bucket, prefix) is None:
            bucket.put(key, descriptor.encode())
        else:
            raise ObjectExistsError(key)
    except ObjectExistsError:
        raise TableExistsError(
            f"{bucket.uri(prefix)} is a table already. Open it with db.table({descriptor.name!r}), or choose "
            "another name."
        ) from None
    return descriptor


def check_properties(properties: Mapping[str, Any]) -> None:
    """Refuse unknown names and values that can't be read, before anything is written."""
    known = TABLE_PROPERTIES.keys() | JOURNAL_PROPERTIES.keys()
    if unknown := sorted(properties.keys() - known):
        raise InvalidInputError(
            f"unknown table property {unknown[0]!r}; there are: {', '.join(sorted(known))}."
        )
    Settings.from_properties(properties)
    for name in ("target_size", "memory_budget"):
        if properties.get(name) is not None:
            parse_size(properties[name])
    if properties.get("retention") is not None:
        parse_duration(properties["retention"])
    for name in ("stats_columns", "row_group_rows"):
        value = properties.get(name)
        if value is not None and not (str(value).isdecimal() and (int(value) > 0 or name == "stats_columns")):
            raise InvalidInputError(
                f"table property {name} is {value!r}; it must be a positive whole number."
            )
    choices = {
        "codec": (None, *CODECS),
        "write_distribution": ("auto", "none", "hash"),
        "shared": (None, "icedb"),
    }
    for name, allowed in choices.items():
        if properties.get(name, allowed[0]) not in allowed:
            raise InvalidInputError(
                f"table property {name} is {properties[name]!r}; it can be {' or '.join(map(repr, allowed))}."
            )
