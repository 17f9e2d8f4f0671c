"""`<table>/_firn/table.json`: the definition that a table was created with. The log holds everything that changes.
If a table is shared with the reference, its properties are altered here."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from firn.bucket.base import Bucket
from firn.errors import CorruptObjectError, UnsupportedError
from firn.journal.agreement import Rules
from firn.journal.definition import create_object, read_object
from firn.journal.entries import (
    CHECK,
    COMMENT,
    FEATURE,
    PARTITION,
    PROPERTY,
    SORT_BY,
    SPEC,
    TIME,
    TYPE,
    Entries,
)
from firn.journal.leaderless.format.codec import WINDOW
from firn.journal.leaderless.format.settings import PROPERTIES as LEADERLESS_PROPERTIES
from firn.journal.leaderless.format.settings import LeaderlessSettings
from firn.journal.model import ColumnTypes
from firn.journal.naming import PLAIN, Naming, name_columns
from firn.journal.sealed import seal, unseal
from firn.journal.writer.settings import DURATIONS as WRITER_DURATIONS
from firn.journal.writer.settings import WriterSettings
from firn.lake.definition.keys import KeySpec
from firn.lake.definition.order import shown_order, split_order, written_order
from firn.lake.definition.properties import NEW_TABLES, TABLE_PROPERTIES, parse_bloom_filters
from firn.lake.parquet.encode import AUTO, BloomColumns
from firn.lake.partition.partition import PartitionSpec
from firn.names import fold
from firn.predicate.predicate import columns_in, renamed
from firn.units import parse_duration, parse_size

FORMAT_VERSION = 1  # frozen
KEYED_FORMAT_VERSION = 2  # frozen: of tables with a key, which earlier versions would show each version of
FEATURES_FORMAT_VERSION = 5  # frozen: with `features`, which a version that doesn't know them refuses by name
GENERATION = "generation"  # frozen: directories end in `~` and the generation
FEATURES = frozenset((GENERATION, "definition", WINDOW))
"""Those that a lake table's definition may have."""

log = logging.getLogger("firn")

_OF_ALL = (
    "firn",
    "id",
    "name",
    "kind",
    "journal",
    "columns",
    "partition",
    "sort_by",
    "properties",
    "dropped",
)
_FIELDS = frozenset((*_OF_ALL, "key", "version_by"))


@dataclass(frozen=True)
class LakeDefinition:
    """A table's definition.

    `windowed` says that the table was created with the feature `window`; see `TableLog.windowed`.

    `rev` is how often the object was altered, and `times` are the values of protocol times by property and Unix ms as
    `time_entry` names them, the first one at 0; both of shared tables alone. So is `erased`: the table was dropped,
    and what is there now is the reference's.

    What was changed since the table's creation is in the last ones, under the names that columns are called by: the
    types that were set, checks, comments ("" for the table's), and how columns are called in files.
    """

    name: str
    kind: str = "lake"
    journal: str = "leaderless"
    columns: ColumnTypes = field(default_factory=dict)
    partition: PartitionSpec = field(default_factory=lambda: PartitionSpec(()))
    sort_by: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    dropped: bool = False
    keys: KeySpec | None = None
    generation: int = 0
    windowed: bool = False
    rev: int = 0
    times: Mapping[str, int] = field(default_factory=dict)
    erased: bool = False
    explicit: ColumnTypes = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    naming: Naming = PLAIN

    @property
    def time_entries(self) -> Entries:
        """The `times`, as the log of other tables has them."""
        return Entries().changed({(TIME, name): ms for name, ms in self.times.items()})

    @property
    def shared(self) -> bool:
        """Whether the reference implementation reads and writes this table too."""
        return bool(self.setting("shared") == "icedb")

    @property
    def bloom_filters(self) -> BloomColumns:
        """The columns that the table property of this name asks for."""
        return parse_bloom_filters(self.setting("bloom_filters"))

    @property
    def target_size(self) -> int:
        """Parquet bytes of a merged file."""
        return parse_size(self.setting("target_size"))

    @property
    def inline(self) -> int:
        """Bytes of rows up to which an append leaves them in its log, or in the writer's catalog."""
        if self.shared:
            return 0
        return parse_size(self.setting("inline") or 0)

    @property
    def needs_window(self) -> bool:
        """Whether its properties ask for the feature `window`: many small logs are read, or somebody keeps it."""
        small = self.inline > 0 or self.properties.get("maintain") == "auto"
        return small and self.journal == "leaderless"

    @property
    def keeps_itself(self) -> bool:
        """Whether processes that append to the table keep it."""
        return bool(self.setting("maintain") == "auto") and self.journal == "leaderless" and not self.shared

    @property
    def fold_at(self) -> int:
        """Commits with rows in their logs at which a keeper writes these into files."""
        return int(self.setting("fold_at"))

    @property
    def delete_retention(self) -> float:
        """For how many seconds merges remember deleted keys, so that older versions may land late."""
        return parse_duration(self.setting("delete_retention"))

    @property
    def required_columns(self) -> tuple[str, ...]:
        """Columns by which rows find their place: those of the key, and those that the table is partitioned by."""
        keys = () if self.keys is None else self.keys.columns
        return tuple(dict.fromkeys([*keys, *(f.source for f in self.partition.fields)]))

    def altered(self, definition: Entries, naming: Naming | None = None) -> LakeDefinition:
        """As it was changed since the table's creation, under the names that columns are called by.

        Args:
            naming: of a snapshot. By default what the definition alone says.
        """
        if not definition and not naming:
            return self
        if naming is None:
            naming = name_columns(self.columns, definition, declared=self.columns)
        shown = naming.shown
        changes = definition.of(PROPERTY)
        properties = {name: value for name, value in self.properties.items() if name not in changes}
        properties.update({name: value for name, value in changes.items() if value is not None})
        # What is left of a column that another writer, or a restore, let go doesn't count: its name may be another's.
        hidden = {fold(name) for name in naming.hidden}
        if naming and (blooms := parse_bloom_filters(properties.get("bloom_filters"))) and blooms != AUTO:
            properties["bloom_filters"] = [shown(name) for name in blooms if fold(name) not in hidden]
        known = [*self.columns, *naming.stored.values()]
        order = tuple(
            shown_order(text, known, shown)
            for text in self.sort_by
            if fold(split_order(text, known)[0]) not in hidden
        )
        if "" in (changed := definition.of(SORT_BY)):
            order = tuple(
                written_order(shown(name), way) for name, way in changed[""] if fold(name) not in hidden
            )
        keys = self.keys
        if keys is not None and naming.stored:
            by = None if keys.version_by is None else shown(keys.version_by)
            keys = KeySpec(tuple(map(shown, keys.key)), by)
        return replace(
            self,
            columns={shown(name): kind for name, kind in self.columns.items() if name not in naming.hidden},
            partition=self._partition_in(definition).named(shown),
            sort_by=order,
            properties=properties,
            keys=keys,
            windowed=self.windowed or bool(definition.of(FEATURE).get(WINDOW)),
            explicit={
                shown(name): kind
                for name, kind in definition.present(TYPE).items()
                if name not in naming.hidden
            },
            checks={
                name: renamed(text, shown) if naming.stored else text
                for name, text in definition.present(CHECK).items()
                if not hidden or hidden.isdisjoint(map(fold, columns_in(text)))
            },
            comments={
                shown(name): text
                for name, text in definition.present(COMMENT).items()
                if name not in naming.hidden
            },
            naming=naming,
        )

    def _partition_in(self, definition: Entries) -> PartitionSpec:
        """The present spec, and all older ones, by physical names."""
        specs = {self.partition.id: self.partition}
        specs.update({id: PartitionSpec.from_json(raw) for id, raw in definition.of(SPEC).items()})
        present = specs[definition.of(PARTITION).get("", self.partition.id)]
        older = tuple(spec for id, spec in specs.items() if id != present.id)
        return replace(present, older=older)

    @property
    def rules(self) -> Rules:
        """The rules that decide about the table's columns beside its files."""
        keys = self.keys
        return Rules(
            self.columns,
            key=() if keys is None else keys.key,
            version_by=None if keys is None else keys.version_by,
            on_conflict=self.setting("on_conflict"),
        )

    def settings(self, properties: Mapping[str, Any]) -> Mapping[str, int]:
        """The journal's times by these properties, in milliseconds by property."""
        if self.journal == "writer":
            found: Any = WriterSettings.from_properties(properties)
            return {name: getattr(found, attribute) for name, attribute in WRITER_DURATIONS.items()}
        found = LeaderlessSettings.from_properties(properties)
        return {name: getattr(found, attribute) for name, attribute in LEADERLESS_PROPERTIES.items()}

    def setting(self, name: str) -> Any:
        return self.properties.get(name, TABLE_PROPERTIES[name])

    def fields(self) -> dict[str, Any]:
        """As JSON has it."""
        keyed: dict[str, Any] = {}
        if self.keys is not None:
            keyed = {"key": list(self.keys.key), "version_by": self.keys.version_by}
        version = KEYED_FORMAT_VERSION if keyed else FORMAT_VERSION
        if features := [name for name, on in ((GENERATION, self.generation), (WINDOW, self.windowed)) if on]:
            version = FEATURES_FORMAT_VERSION
            keyed = {"key": None, "version_by": None, **keyed}
            keyed |= {"generation": self.generation, "features": features}
        return {
            "firn": version,
            "id": self.id,
            "name": self.name,
            "kind": self.kind,
            "journal": self.journal,
            "columns": dict(self.columns),
            "partition": self.partition.to_json(),
            "sort_by": list(self.sort_by),
            "properties": dict(self.properties),
            "dropped": self.dropped,
            **keyed,
            **({"rev": self.rev, "time": dict(self.times)} if self.rev else {}),
            **({"erased": True} if self.erased else {}),
        }

    def encode(self) -> bytes:
        """`table.json`'s bytes."""
        return seal(self.fields(), indent=True)

    @staticmethod
    def decode(data: bytes, where: str) -> LakeDefinition:
        """Raises `CorruptObjectError` and, for a newer format, `UnsupportedError`."""
        try:
            fields = orjson.loads(data)
            if "crc" not in fields:  # a writer's definition: its transaction has the checksum
                _check_known(fields, where)
            raw = unseal(data, _FIELDS, indent=True)
            _check_known(raw, where)
            keyed = raw["firn"] == KEYED_FORMAT_VERSION or raw.get("key") is not None
            return LakeDefinition(
                name=raw["name"],
                kind=raw["kind"],
                journal=raw["journal"],
                columns=raw["columns"],
                partition=PartitionSpec.from_json(raw["partition"]),
                sort_by=tuple(raw["sort_by"]),
                properties=raw["properties"],
                id=raw["id"],
                dropped=raw.get("dropped", False),
                keys=KeySpec(tuple(raw["key"]), raw["version_by"]) if keyed else None,
                generation=raw.get("generation", 0),
                windowed=WINDOW in raw.get("features", ()),
                rev=raw.get("rev", 0),
                times=raw.get("time", {}),
                erased=raw.get("erased", False),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptObjectError(
                f"{where} is not a table definition ({error!r}). Its data and log are untouched. `firn mend TABLE` "
                "writes it anew from the copy in its log; or copy it back from a backup."
            ) from error


def _check_known(raw: Mapping[str, Any], where: str) -> None:
    """Refuse what a newer version of Firn wrote."""
    if raw["firn"] not in (FORMAT_VERSION, KEYED_FORMAT_VERSION, FEATURES_FORMAT_VERSION):
        raise UnsupportedError(
            f"{where} has format version {raw['firn']!r}; this version of Firn reads {FORMAT_VERSION}, "
            f"{KEYED_FORMAT_VERSION} and {FEATURES_FORMAT_VERSION}. Upgrade Firn to open the table."
        )
    if unknown := sorted(set(raw.get("features", ())) - FEATURES):
        raise UnsupportedError(
            f"{where} needs the feature {unknown[0]!r}, which this version of Firn doesn't know. Upgrade "
            "Firn to open the table."
        )


def read_definition(bucket: Bucket, prefix: str) -> LakeDefinition | None:
    """1 GET; None where there is none."""
    return read_object(bucket, prefix, LakeDefinition.decode)


def read_times(bucket: Bucket, prefix: str) -> tuple[LeaderlessSettings, Entries] | None:
    """The protocol's times by a shared table's definition, and those that were. 1 GET; None where there is none."""
    found = read_definition(bucket, prefix)
    if found is None or found.dropped:
        return None
    return LeaderlessSettings.from_properties(found.properties), found.time_entries


def create_definition(
    bucket: Bucket, prefix: str, definition: LakeDefinition, *, over: str | None = None
) -> LakeDefinition:
    """Write a new definition under an id of its own: 1 conditional PUT, or GET + PUT where the store has none. `over`
    as `create_object` has it.

    Raises:
        TableExistsError: there is a table.
    """
    definition = replace(definition, id=secrets.token_hex(16))
    create_object(bucket, prefix, definition.name, definition.encode(), nonce=definition.id, over=over)
    return definition


def for_new_table(definition: LakeDefinition, *, conditional_put: bool) -> LakeDefinition:
    """With the properties that suit new tables. Others maintain one that is shared; writers fold their catalogs
    anyway; and without a lock in the bucket a table can't keep itself."""
    if definition.shared:
        return definition
    alone = conditional_put and definition.journal == "leaderless"
    defaults = {name: value for name, value in NEW_TABLES.items() if alone or name != "maintain"}
    found = replace(definition, properties={**defaults, **definition.properties})
    return replace(found, windowed=found.needs_window)


def tell_short_grace(definition: LakeDefinition) -> None:
    """Say so where the grace is so short that no view of the log ever builds on an earlier one."""
    times = LeaderlessSettings.from_properties(definition.properties)
    least = times.window_ms + 2 * times.max_skew_ms
    if definition.windowed and times.grace_ms <= least:
        log.warning(
            "%s: a tombstone_grace of %g s is too short for readers to build on the log checkpoint; each lists the "
            "whole log. Above %g s they do, by the other times of the table.",
            definition.name,
            times.grace_ms / 1000,
            least / 1000,
        )
