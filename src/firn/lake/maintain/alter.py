"""Changes of a table's definition: its properties, the types of its columns, and which column has which values.

A change is one commit that rewrites no data. See docs/design/0012-conflicting-types.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from firn.alter import AlterResult
from firn.arrow.inputs import declared_columns
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.columns import converts
from firn.journal.definition import dropped, is_definition_of, replace_object
from firn.journal.entries import INTO, LIMIT, PROPERTY, TYPE, Entries, last_time, time_entry
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.format.settings import PROTOCOL_TIMES, LeaderlessSettings
from firn.journal.model import ColumnTypes, Commit, Snapshot
from firn.journal.typenames import quoted
from firn.lake.context import LakeContext
from firn.lake.definition.definition import LakeDefinition, check_names, check_properties
from firn.lake.definition.keys import KeySpec
from firn.lake.partition.partition import PartitionSpec
from firn.names import fold

Changes = Mapping[tuple[str, str], Any]

FIXED = ("shared", "log_url")
"""Properties that say where a table's log is, and for whom: these can't be changed."""

NEVER_LOWER = ("retry_window", "landing_delay", "max_skew")
"""Protocol times of a shared table by which each append goes: processes that have it open don't look for changes."""


@dataclass(frozen=True)
class TableDefinition:
    """A table's definition at one version.

    Attributes:
        columns: name → DuckDB type of all columns that are shown, those with what is set aside among them.
        types: those of the columns whose type was set, by `alter` or `resolve`.
        into: columns whose values are another column's by now, by that.
        properties: those that are set; others have their defaults.
    """

    version: str
    columns: ColumnTypes
    types: ColumnTypes
    into: Mapping[str, str]
    partition: PartitionSpec
    sort_by: tuple[str, ...]
    keys: KeySpec | None
    properties: Mapping[str, Any]


@dataclass(frozen=True)
class ColumnConflict:
    """Values of one type that don't fit their column.

    Attributes:
        column: the column that they were written to; its type is `kept_type`.
        type: the type that they have.
        aside: the column as which they are shown.
        files: the keys of the live files that hold them.
        common_type: a type that takes in both: for `resolve(column, to=…)`.
    """

    column: str
    type: str
    aside: str
    kept_type: str
    files: tuple[str, ...]
    common_type: str


def definition(table: LakeContext, at: Any) -> TableDefinition:
    """See `LakeTable.definition`."""
    snapshot = table.journal.snapshot(at)
    entries = snapshot.definition
    described = table.created.altered(entries)
    return TableDefinition(
        snapshot.version,
        dict(snapshot.columns),
        entries.present(TYPE),
        entries.present(INTO),
        described.partition,
        described.sort_by,
        described.keys,
        dict(described.properties),
    )


def conflicts(snapshot: Snapshot) -> list[ColumnConflict]:
    """See `LakeTable.conflicts`."""
    found = []
    for each in snapshot.conflicts:
        files = tuple(
            file.path
            for file in snapshot.files
            if each.aside in file.reads or each.aside in ((file.extra or {}).get("types") or {})
        )
        found.append(
            ColumnConflict(each.column, each.type, each.aside, each.kept_type, files, each.common_type)
        )
    return found


def alter(
    table: LakeContext, set_properties: Mapping[str, Any], types: Mapping[str, str], dry_run: bool
) -> tuple[LakeDefinition | None, AlterResult]:
    """See `LakeTable.alter`. Also the definition that it wrote, if the table is shared with the reference."""
    if not set_properties and not types:
        raise InvalidInputError(
            f"{table.name}: alter was told nothing to change. Pass set_properties={{name: value}} or "
            "types={column: type}."
        )
    _check_names(table.created, set_properties)
    if table.created.shared and not types:
        return _alter_shared(table, set_properties, dry_run)

    def plan(snapshot: Snapshot, described: LakeDefinition) -> dict[tuple[str, str], Any]:
        wanted = {**_properties(described, set_properties, table.journal.now_ms())}
        for name, kind in types.items():
            column = table.column_of(name, snapshot.columns)
            wanted[TYPE, column] = _fitting(table, snapshot, column, kind)
        return wanted

    return None, _commit(table, "alter", plan, dry_run)


def resolve(table: LakeContext, column: str, to: str | None, into: str | None, dry_run: bool) -> AlterResult:
    """See `LakeTable.resolve`."""

    def plan(snapshot: Snapshot, described: LakeDefinition) -> dict[tuple[str, str], Any]:
        if into is None:
            return _together(table, snapshot, table.column_of(column, snapshot.columns), to)
        source, target = table.column_of(column, snapshot.columns), table.column_of(into, snapshot.columns)
        if source == target:
            raise InvalidInputError(f"{table.name}: {source!r} can't be resolved into itself.")
        _refuse_placing(table, source)
        wanted: dict[tuple[str, str], Any] = {(INTO, source): target}
        kind = snapshot.columns[target]
        if to is not None:
            kind = _fitting(table, snapshot, target, to)
            wanted[TYPE, target] = kind
        if not converts(snapshot.columns[source], kind):
            raise InvalidInputError(
                f"{table.name}: values of {source!r} are {snapshot.columns[source]}, which {target!r} ({kind}) "
                f"doesn't take in. Pass to='VARCHAR'{_or_cast(table, source, kind)}."
            )
        return wanted

    return _commit(table, "resolve", plan, dry_run)


def _together(
    table: LakeContext, snapshot: Snapshot, column: str, to: str | None
) -> dict[tuple[str, str], Any]:
    """One type for a column and all that is set aside of it."""
    beside = [each for each in snapshot.conflicts if each.column == column]
    if to is None:
        if not beside:
            raise InvalidInputError(
                f"{table.name}: nothing of {column!r} is set aside, so there is nothing to resolve. See conflicts()."
            )
        to = beside[-1].common_type if len(beside) == 1 else "VARCHAR"
    kind = _fitting(table, snapshot, column, to)
    for each in beside:
        if not converts(each.type, kind):
            query = (
                f"SELECT * EXCLUDE ({quoted(each.aside)}) REPLACE (coalesce({quoted(column)}, "
                f"TRY_CAST({quoted(each.aside)} AS {kind})) AS {quoted(column)}) FROM _rows"
            )
            instead = "" if table.keys is not None else f"; or keep what can be cast, by rewrite({query!r})"
            raise InvalidInputError(
                f"{table.name}: values of {column!r} in {each.source} are {each.type}, which {kind} doesn't take in. "
                f"Choose to={each.common_type!r}{instead}."
            )
    return {(TYPE, column): kind, **{(INTO, each.aside): column for each in beside}}


def _fitting(table: LakeContext, snapshot: Snapshot, column: str, kind: str) -> str:
    """The type's canonical name, if all values that are the column's fit it."""
    wanted = declared_columns({column: kind})[column]
    _refuse_placing(table, column)
    for field in table.partition_spec.fields:
        if fold(field.source) == fold(column):
            field.check_type(wanted, table.name)
    own = snapshot.columns[column]
    for file in snapshot.files:
        types: ColumnTypes = (file.extra or {}).get("types") or {}
        reads = file.reads.get(column, (column,))
        for name in reads:
            stored = next((k for n, k in types.items() if fold(n) == fold(name)), own)
            if not converts(stored, wanted):
                raise InvalidInputError(
                    f"{table.name}: {column!r} is {stored} in {table.bucket.uri(file.path)}, and {wanted} doesn't "
                    f"take that in. Choose a type that does, like VARCHAR{_or_cast(table, column, wanted)}."
                )
    return wanted


def _refuse_placing(table: LakeContext, column: str) -> None:
    """Columns by which rows of a table with a key find their place keep their types: directories and hashes follow
    from these."""
    if table.keys is not None and fold(column) in {fold(name) for name in table.created.required_columns}:
        raise UnsupportedError(
            f"{table.name}: {column!r} is of the key or the partitions of a table with a key, and its values' places "
            "follow from its type. Copy the rows to a new table."
        )


def _check_names(created: LakeDefinition, properties: Mapping[str, Any]) -> None:
    for name in FIXED:
        if name in properties:
            raise InvalidInputError(
                f"{created.name}: the property {name!r} can't be changed: it says where the log is, or for whom. "
                "Make another table."
            )
    check_names(properties, created.journal)


def _properties(
    described: LakeDefinition, changes: Mapping[str, Any], now_ms: int
) -> dict[tuple[str, str], Any]:
    """The entries that make these changes; those of protocol times with their times."""
    properties = {**described.properties, **changes}
    properties = {name: value for name, value in properties.items() if value is not None}
    check_properties(properties, described.columns, journal=described.journal)
    wanted: dict[tuple[str, str], Any] = {}
    for name, value in changes.items():
        if value == described.properties.get(name) or (name, value) == ("on_conflict", "aside"):
            value = None if (name, value) == ("on_conflict", "aside") else value
            if value == described.properties.get(name):
                continue
        wanted[PROPERTY, name] = value
        if name in PROTOCOL_TIMES:
            settings = described.settings(properties)
            wanted[time_entry(name, now_ms)] = settings[name]
    return wanted


def _commit(table: LakeContext, op: str, plan: Any, dry_run: bool) -> AlterResult:
    if table.created.shared:
        raise UnsupportedError(
            f"{table.name} is shared with the reference, whose merge drops what Firn notes of columns: {op} can't "
            "change these, only properties, by alter(set_properties=…). For other types, append the rows to a new "
            "table."
        )
    if dry_run:
        snapshot = table.journal.snapshot()
        wanted = _new(snapshot.definition, plan(snapshot, table.created.altered(snapshot.definition)))
        return AlterResult(snapshot.version, _lines(wanted))
    with table.journal.exclusive(op) as session:
        snapshot = session.snapshot
        before = snapshot.definition
        wanted = _new(before, plan(snapshot, table.created.altered(before)))
        if not wanted:
            return AlterResult(snapshot.version, ())
        if len(before.map) + len(wanted) > LIMIT:
            raise InvalidInputError(f"{table.name}: a definition has at most {LIMIT:,} entries.")
        changes = _lines(wanted)
        entries = before.changed(wanted, session.writer)
        commit = Commit(op, summary={"changes": list(changes)}, definition=entries)
        return AlterResult(session.publish(commit), changes)


def _alter_shared(
    table: LakeContext, changes: Mapping[str, Any], dry_run: bool
) -> tuple[LakeDefinition | None, AlterResult]:
    """Change the properties of a shared table in its definition itself, as the reference's merge would drop them from
    the log."""
    created, journal = table.created, table.journal
    assert isinstance(journal, LeaderlessJournal)
    if not created.id:
        raise UnsupportedError(
            f"{table.name} has no definition that could be changed: the table is the reference's. Give it one by "
            f"db.create_table({table.name!r}, properties={{…}}), which keeps its log and data."
        )

    def change(data: bytes | None, where: str) -> tuple[bytes | None, tuple[LakeDefinition, tuple[str, ...]]]:
        if data is None or not is_definition_of(data, created.id):
            raise dropped(table.bucket, table.prefix)
        found = LakeDefinition.decode(data, where)
        altered, lines = _altered_shared(found, changes, journal.now_ms())
        return (altered.encode() if lines and not dry_run else None), (altered, lines)

    with ExitStack() as held:
        if not dry_run and not table.bucket.capabilities.conditional_put:
            held.enter_context(journal.exclusive("alter"))
        altered, lines = replace_object(table.bucket, table.prefix, change, clock=journal.clock)
    if dry_run:
        return None, AlterResult(str(altered.rev - bool(lines)), lines)
    journal.rules = altered.rules
    journal.define(LeaderlessSettings.from_properties(altered.properties), altered.time_entries)
    return altered, AlterResult(str(altered.rev), lines)


def _altered_shared(
    found: LakeDefinition, changes: Mapping[str, Any], now_ms: int
) -> tuple[LakeDefinition, tuple[str, ...]]:
    """The definition with these changes, and a line for each."""
    before, times = found.settings(found.properties), dict(found.times)
    properties = dict(found.properties)
    wanted = _properties(found, changes, now_ms)
    for (kind, name), value in wanted.items():
        if kind == PROPERTY and value is None:
            properties.pop(name, None)
        elif kind == PROPERTY:
            properties[name] = value
    after = found.settings(properties)
    for name in PROTOCOL_TIMES:
        if after[name] == before[name]:
            continue
        if name in NEVER_LOWER and after[name] < before[name]:
            raise InvalidInputError(
                f"{found.name} is shared with the reference: its {name} can't be less than {before[name] / 1000:g} s "
                "any more, as processes that have the table open go by that. Make another table."
            )
        # Clocks differ: what is set later has a later time.
        at_ms = max(now_ms, last_time(found.time_entries, name) + 1)
        times.setdefault(time_entry(name, 0)[1], before[name])
        times[time_entry(name, at_ms)[1]] = after[name]
    if len(times) > LIMIT:
        raise InvalidInputError(f"{found.name}: a definition has at most {LIMIT:,} times.")
    lines = _lines(wanted)
    if not lines:
        return found, ()
    return replace(found, properties=properties, rev=found.rev + 1, times=times), lines


def _new(before: Entries, wanted: Changes) -> dict[tuple[str, str], Any]:
    """The wanted changes that aren't made yet."""
    return {
        key: value for key, value in wanted.items() if key not in before.map or before.map[key].value != value
    }


def _lines(changes: Changes) -> tuple[str, ...]:
    lines = []
    for (kind, name), value in changes.items():
        if kind == PROPERTY:
            lines.append(f"unset {name}" if value is None else f"set {name} = {value}")
        elif kind == TYPE:
            lines.append(f"type of {name}: {value}")
        elif kind == INTO:
            lines.append(f"{name} into {value}")
    return tuple(lines)


def _or_cast(table: LakeContext, column: str, kind: str) -> str:
    """The other way out, on tables whose rows can be rewritten."""
    if table.keys is not None:
        return ""
    query = f"SELECT *, TRY_CAST({quoted(column)} AS {kind}) AS {quoted(column + '_cast')} FROM _rows"
    return f"; or write what can be cast to another column, by rewrite({query!r})"
