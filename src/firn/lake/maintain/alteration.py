"""What `alter` is asked to change, and the entries of the definition that do it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from firn.alter import RESERVED, ColumnAlteration
from firn.arrow.defaults import default_text
from firn.arrow.inputs import declared_columns
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.columns import converts
from firn.journal.entries import (
    CHECK,
    COMMENT,
    DEFAULT,
    DROP,
    FEATURE,
    INTO,
    NAME,
    PARTITION,
    PROPERTY,
    SORT_BY,
    SPEC,
    TYPE,
    time_entry,
)
from firn.journal.leaderless.format.codec import WINDOW
from firn.journal.leaderless.format.settings import PROTOCOL_TIMES
from firn.journal.model import ColumnTypes, Snapshot
from firn.journal.naming import free_name
from firn.journal.typenames import quoted
from firn.lake.context import LakeContext
from firn.lake.definition.definition import (
    LakeDefinition,
)
from firn.lake.definition.order import split_order
from firn.lake.definition.properties import check_keeping, check_properties, parse_bloom_filters
from firn.lake.partition.partition import PartitionSpec
from firn.lake.write.sort import parse_order, sort_keys
from firn.names import fold
from firn.predicate.predicate import Predicate, columns_in, renamed

Entry = tuple[str, str]


@dataclass(frozen=True)
class Alteration(ColumnAlteration):
    """See `LakeTable.alter`. None means that nothing was asked."""

    partition_by: Sequence[str] | None = None
    sort_by: Sequence[str] | None = None
    checks: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        given = (self.rename, self.drop, self.add, self.types, self.comments, self.properties, self.checks)
        return not any(given) and self.comment is None and self.partition_by is None and self.sort_by is None


@dataclass
class Change:
    """A line for people, and the entries that make it so."""

    line: str
    entries: dict[Entry, Any]


class Planner:
    """Works an alteration out against one snapshot of a table; the order of its steps is that of `LakeTable.alter`'s
    arguments. `columns` are those shown after it, with their types, and `physical` their names in files."""

    def __init__(self, table: LakeContext, snapshot: Snapshot, asked: Alteration) -> None:
        self.table, self.snapshot, self.asked = table.at(snapshot), snapshot, asked
        self.definition = self.table.definition
        self.columns: dict[str, str] = dict(snapshot.columns)
        self.physical = {name: snapshot.naming.physical(name) for name in snapshot.columns}
        self.before = {physical: name for name, physical in self.physical.items()}
        self.gone: set[str] = set()
        self.checks: dict[str, Predicate] = {}
        self.changes: list[Change] = []

    def plan(self) -> list[Change]:
        asked = self.asked
        types = {self._column(name): kind for name, kind in asked.types.items()}
        for name, kind in types.items():
            self.columns[name] = fitting(self.table, self.snapshot, name, kind)
            self._add(
                f"type of {name}: {self.columns[name]}", {(TYPE, self.physical[name]): self.columns[name]}
            )
        self._drop([self._column(name) for name in asked.drop if not self._is_dropped(name)])
        renamed = {name: new for name, new in asked.rename.items() if not self._is_renamed(name, new)}
        self._rename({self._column(name): new for name, new in renamed.items()})
        self._add_columns(asked.add)
        for name, text in asked.comments.items():
            self._comment(self._after(name, "comments"), text)
        if asked.comment is not None:
            if not is_text(asked.comment):
                raise self._bad(f"the comment is {asked.comment!r}, which is no text")
            self._add("comment", {(COMMENT, ""): asked.comment or None})
        self._partition()
        self._order()
        self._checks()
        self._properties()
        self._refuse_used()
        return self.changes

    # -- steps

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.columns:
                raise self._bad(f"drop names the column {name!r} twice")
            self.gone.add(fold(name))
            del self.columns[name]
            physical = self.physical.pop(name)
            # What is set aside of a column goes with it.
            for conflict in self.snapshot.conflicts:
                if conflict.column == name and conflict.aside in self.columns:
                    del self.columns[conflict.aside], self.physical[conflict.aside]
            self._add(f"drop {name}", {(DROP, physical): True})

    def _rename(self, names: Mapping[str, str]) -> None:
        beside = {fold(name) for name in self.snapshot.aside}
        for name, new in names.items():
            if name not in self.columns:
                raise self._bad(f"the column {name!r} is dropped and renamed at once")
            if fold(name) in beside:
                raise self._bad(
                    f"{name!r} holds values that were set aside, which keeps its name: "
                    f"resolve({name.rpartition('~')[0]!r}, to=…) makes them one column"
                )
            self._check_name(new, name)
        columns: dict[str, str] = {}
        physical: dict[str, str] = {}
        for name, kind in self.columns.items():
            new = names.get(name, name)
            if fold(new) in {fold(each) for each in columns}:
                raise self._taken(new)
            columns[new], physical[new] = kind, self.physical[name]
            if new != name:
                self._add(f"rename {name} to {new}", {(NAME, physical[new]): new})
        self.columns, self.physical = columns, physical

    def _add_columns(self, columns: Mapping[str, str | tuple[str, Any]]) -> None:
        naming = self.snapshot.naming
        taken = {fold(name) for name in (*self.snapshot.stored, *naming.hidden, *naming.stored.values())}
        taken |= {fold(name) for name in self.snapshot.definition.present(INTO)}  # their values are others'
        taken |= naming.taken | {fold(name) for name in self.snapshot.columns if name not in naming.stored}
        for name, given in columns.items():
            pair = (given, None) if isinstance(given, str) else given
            if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
                raise self._bad(f"add takes a type, or a type and a value, not {given!r}")
            kind, default = pair
            if not is_name(name):
                raise self._bad(f"{name!r} can't name a column")
            kind = declared_columns({name: kind})[name]
            text = None if default is None else default_text(default, kind, name)
            if self._is_added(name, kind, text):
                continue
            self._check_name(name)
            if fold(name) in {fold(each) for each in self.columns}:
                raise self._taken(name)
            physical = name if fold(name) not in taken else free_name(fold(name), taken.__contains__)
            taken.add(fold(physical))
            entries: dict[Entry, Any] = {(TYPE, physical): kind}
            line = f"add {name} {kind}"
            if physical != name:
                entries[NAME, physical] = name
            if text is not None:
                entries[DEFAULT, physical] = text
                line += f" default {text}"
            self.columns[name], self.physical[name] = kind, physical
            self._add(line, entries)

    def _comment(self, name: str, text: str | None) -> None:
        if text is not None and not is_text(text):
            raise self._bad(f"the comment on {name!r} is {text!r}, which is no text")
        self._add(f"comment on {name}", {(COMMENT, self.physical[name]): text or None})

    def _partition(self) -> None:
        if self.asked.partition_by is None:
            return
        spec = PartitionSpec.parse(self.asked.partition_by, self.columns)
        keys = self.definition.keys
        key = set() if keys is None else {fold(self._now(name)) for name in keys.key}
        for each in spec.fields if keys is not None else ():
            if fold(each.source) not in key:
                raise self._bad(
                    f"partition_by names {each.source!r}, which isn't part of the table's key: versions of one row "
                    "could lie in different partitions"
                )
        stored = PartitionSpec(spec.named(lambda name: self.physical.get(name, name)).fields)
        stored.check_names()
        if stored.id == self.definition.partition.id:
            return
        entries: dict[Entry, Any] = {(SPEC, stored.id): stored.to_json(), (PARTITION, ""): stored.id}
        # A column that was dropped by another writer is shown as rows are placed by it, and stays.
        gone = self.snapshot.definition.present(DROP)
        shown = self.physical.values()
        entries |= {(DROP, name): False for name in shown if gone.get(name)}
        self._add(f"partition by {', '.join(map(str, spec.fields)) or 'nothing'}", entries)

    def _order(self) -> None:
        asked = self.asked.sort_by
        if asked is None:
            return
        texts = parse_order(asked, self.columns)
        ways = {"ascending": "asc", "descending": "desc"}
        order = [[self.physical[name], ways[way]] for name, way in sort_keys(texts, self.columns)]
        present = [split_order(text, self.snapshot.columns) for text in self.definition.sort_by]
        if order != [[self.snapshot.naming.physical(name), way] for name, way in present]:
            self._add(f"sort by {', '.join(texts) or 'nothing'}", {(SORT_BY, ""): order})

    def _checks(self) -> None:
        for name, text in self.asked.checks.items():
            if not is_name(name):
                raise self._bad(f"{name!r} can't name a check")
            if text is not None and not is_text(text):
                raise self._bad(f"the check {name!r} is {text!r}; write a predicate as text, or None")
            if text is None:
                if name not in self.definition.checks:
                    raise self._bad(f"there is no check {name!r} to take back")
                self._add(f"drop check {name}", {(CHECK, name): None})
                continue
            predicate = Predicate.parse(text, self.columns)
            stored = renamed(predicate.sql, self.physical.__getitem__)
            self._add(f"check {name}: {text}", {(CHECK, name): stored})
            self.checks[name] = predicate

    def _properties(self) -> None:
        asked = dict(self.asked.properties)
        check_keeping(asked, self.table.name, getattr(self.table.journal, "log_bucket", self.table.bucket))
        if isinstance(blooms := parse_bloom_filters(asked.get("bloom_filters")), tuple) and blooms:
            asked["bloom_filters"] = [self.physical[self._after(name, "bloom_filters")] for name in blooms]
        plain = self.table.created.altered(self.snapshot.definition.only(PROPERTY, FEATURE))
        now_ms = self.table.journal.now_ms()
        for (kind, name), value in property_entries(plain, asked, now_ms).items():
            if kind == PROPERTY:
                shown = None if value is None else self.asked.properties[name]
                self._add(property_line(name, shown), {(kind, name): value})
            elif kind == FEATURE:
                self._add(f"feature {name}", {(kind, name): value})
            else:
                self.changes[-1].entries[kind, name] = value

    def _refuse_used(self) -> None:
        """Raise for a column that is dropped though something needs it that this call leaves as it is."""
        if self.gone and not self.columns:
            raise self._bad("a table keeps at least one column")
        for name, what, instead in self._uses() if self.gone else ():
            if fold(name) in self.gone:
                raise self._bad(f"the column {name!r} can't be dropped: {what}. {instead}")

    def _uses(self) -> Iterator[tuple[str, str, str]]:
        """Columns by the names that they had before, what needs them, and what to do."""
        asked, definition = self.asked, self.definition
        for name in () if definition.keys is None else definition.keys.columns:
            yield name, "the table's key has it", "A key can't change: copy the rows to a new table"
        for each in definition.partition.fields if asked.partition_by is None else ():
            yield (
                each.source,
                f"the table is partitioned by {each}",
                "Pass partition_by=[…] in the same call, too",
            )
        for text in definition.sort_by if asked.sort_by is None else ():
            name = split_order(text, self.snapshot.columns)[0]
            yield name, f"rows are sorted by {text!r}", "Pass sort_by=[…] in the same call, too"
        if "bloom_filters" not in asked.properties and isinstance(blooms := definition.bloom_filters, tuple):
            for name in blooms:
                instead = "Pass set_properties={'bloom_filters': …} in the same call, too"
                yield name, "the property bloom_filters names it", instead
        for check, text in definition.checks.items():
            if check not in asked.checks:
                for name in columns_in(text):
                    yield (
                        name,
                        f"the check {check!r} asks for it",
                        f"Pass checks={{{check!r}: None}} in the same call",
                    )
        live = self._live_specs()
        for spec in (definition.partition, *definition.partition.older):
            for each in spec.fields if spec.id in live else ():
                instead = "First let merge(respec=True) deal their rows out anew, by another partition_by"
                yield each.source, f"files are partitioned by {each}", instead

    # -- names

    def _live_specs(self) -> set[str]:
        return {file.spec for file in self.snapshot.files}

    def _specs_in_use(self) -> list[PartitionSpec]:
        """The present partition spec, if it stays, and those of live files."""
        present, live = self.definition.partition, self._live_specs()
        stays = [present] if self.asked.partition_by is None or present.id in live else []
        return [*stays, *(spec for spec in present.older if spec.id in live)]

    def _column(self, name: str) -> str:
        """A column as it is called before the call."""
        if self._unknown(name) and (told := self.table.became(name, self.snapshot.columns)):
            raise self._bad(f"there is no column {name!r}: {told}")
        return self.table.column_of(name, self.snapshot.columns)

    def _unknown(self, name: str) -> bool:
        return fold(name) not in {fold(each) for each in self.snapshot.columns}

    def _called(self, physical: str) -> str | None:
        """The name of a column that is called otherwise in files."""
        own = self.snapshot.naming.stored
        return next((name for name, each in own.items() if fold(each) == fold(physical)), None)

    # An alter whose answer was lost may be repeated: what it did is done.

    def _is_dropped(self, name: str) -> bool:
        return self._unknown(name) and fold(name) in {fold(each) for each in self.snapshot.naming.hidden}

    def _is_renamed(self, name: str, new: str) -> bool:
        return self._unknown(name) and self._called(name) == new

    def _is_added(self, name: str, kind: str, default: str | None) -> bool:
        naming = self.snapshot.naming
        there = self.physical.get(name) if name in self.snapshot.columns else None
        return (
            there is not None
            and self.snapshot.definition.of(TYPE).get(there) == kind
            and naming.defaults.get(name) == default
        )

    def _after(self, name: str, what: str) -> str:
        """A column as it is called after the call."""
        if fold(name) not in map(fold, self.columns) and (told := self.table.became(name, self.columns)):
            raise self._bad(f"{what} names {name!r}, which is no column: {told}")
        return column_after(self.table.name, name, what, self.columns)

    def _now(self, name: str) -> str:
        """The name after the call of a column by its name before."""
        physical = fold(self.snapshot.naming.physical(name))
        return next((each for each, own in self.physical.items() if fold(own) == physical), name)

    def _check_name(self, name: str, column: str | None = None) -> None:
        """Refuse a name that no column can have, or not the one that is called `column` by now. Partitions are asked
        for by their fields' names: one that is another column's would find that one's rows."""
        fields = {
            fold(each.name)
            for spec in self._specs_in_use()
            for each in spec.fields
            if each.transform != "identity" or column is None or fold(each.source) != fold(column)
        }
        if not is_name(name):
            raise self._bad(f"{name!r} can't name a column")
        if "~" in name:
            raise self._bad(f"{name!r} can't name a column: names with '~' are of values that were set aside")
        if fold(name).startswith(RESERVED) or fold(name) in fields:
            raise self._bad(f"{name!r} can't name a column: it is the name of a partition field, or Firn's")

    def _add(self, line: str, entries: dict[Entry, Any]) -> None:
        self.changes.append(Change(line, entries))

    def _taken(self, name: str) -> InvalidInputError:
        return self._bad(f"there is a column {name!r} already")

    def _bad(self, what: str) -> InvalidInputError:
        return InvalidInputError(f"{self.table.name}: {what}. Nothing was changed.")


def column_after(table: str, name: str, what: str, columns: ColumnTypes) -> str:
    """A column as it is spelled among those after the call."""
    found = name if name in columns else {fold(each): each for each in columns}.get(fold(name))
    if found is None:
        raise InvalidInputError(
            f"{table}: {what} names {name!r}, which is no column: {', '.join(columns)}. Nothing was changed."
        )
    return found


def is_name(name: Any) -> bool:
    """Whether it is a text that SQL can write and a log can hold."""
    return is_text(name) and bool(name) and "\0" not in name


def is_text(value: Any) -> bool:
    """Whether it is a text that a log can hold: it has no half of a surrogate pair."""
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def property_line(name: str, value: Any) -> str:
    return f"unset {name}" if value is None else f"set {name} = {value}"


def property_entries(described: LakeDefinition, changes: Mapping[str, Any], now_ms: int) -> dict[Entry, Any]:
    """The entries that set properties; those of protocol times with their times."""
    properties = {**described.properties, **changes}
    properties = {name: value for name, value in properties.items() if value is not None}
    check_properties(properties, described.columns, journal=described.journal)
    wanted: dict[Entry, Any] = {}
    for name, given in changes.items():
        value = None if (name, given) == ("on_conflict", "aside") else given
        if value == described.properties.get(name):
            continue
        wanted[PROPERTY, name] = value
        if name in PROTOCOL_TIMES:
            wanted[time_entry(name, now_ms)] = described.settings(properties)[name]
    if replace(described, properties=properties).needs_window and not described.windowed:
        wanted[FEATURE, WINDOW] = True
    return wanted


def fitting(table: LakeContext, snapshot: Snapshot, column: str, kind: str) -> str:
    """The type's canonical name, if all values that are the column's fit it."""
    wanted = declared_columns({column: kind})[column]
    refuse_placing(table, column)
    for each in table.partition_spec.fields:
        if fold(each.source) == fold(column):
            each.check_type(wanted, table.name)
    for stored, where in _types_of(table, snapshot, column):
        if not converts(stored, wanted):
            raise InvalidInputError(
                f"{table.name}: {column!r} is {stored} in {where}, and {wanted} doesn't take that in. Choose a type "
                f"that does, like VARCHAR{or_cast(table, column, wanted)}."
            )
    return wanted


def _types_of(table: LakeContext, snapshot: Snapshot, column: str) -> Iterator[tuple[str, str]]:
    """The types that a column's values have, each with where they stand. A default never changes, so it has to fit
    even where no row has it now."""
    own = snapshot.columns[column]
    if column in snapshot.naming.defaults:
        yield own, "its default"
    for file in snapshot.files:
        types: ColumnTypes = file.types
        cols = {name: physical for physical, name in (file.cols or {}).items()}
        for name in file.reads.get(column, (column,)):
            stored = next((k for n, k in types.items() if fold(n) == fold(cols.get(name, name))), own)
            yield stored, table.bucket.uri(file.path)


def refuse_placing(table: LakeContext, column: str) -> None:
    """Columns by which rows of a table with a key find their place keep their types: directories and hashes follow
    from these."""
    if table.keys is not None and fold(column) in {fold(name) for name in table.definition.required_columns}:
        raise UnsupportedError(
            f"{table.name}: {column!r} is of the key or the partitions of a table with a key, and its values' places "
            "follow from its type. Copy the rows to a new table."
        )


def or_cast(table: LakeContext, column: str, kind: str) -> str:
    """The other way out, on tables whose rows can be rewritten."""
    if table.keys is not None:
        return ""
    query = f"SELECT *, TRY_CAST({quoted(column)} AS {kind}) AS {quoted(column + '_cast')} FROM _rows"
    return f"; or write what can be cast to another column, by rewrite({query!r})"
