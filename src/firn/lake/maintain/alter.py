"""Changes of a table's definition: its properties, the types of its columns, and which column has which values.

A change is one commit that rewrites no data. See docs/design/0012-conflicting-types.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from firn.alter import AlterResult
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.columns import converts
from firn.journal.definition import dropped, is_definition_of, replace_object
from firn.journal.entries import COMMENT, INTO, LIMIT, NAME, PROPERTY, TYPE, Entries, last_time, time_entry
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.format.settings import PROTOCOL_TIMES, LeaderlessSettings
from firn.journal.model import ColumnTypes, Commit, Snapshot
from firn.journal.typenames import quoted
from firn.lake.context import LakeContext
from firn.lake.definition.definition import LakeDefinition
from firn.lake.definition.keys import KeySpec
from firn.lake.definition.properties import check_names, parse_bloom_filters
from firn.lake.maintain.alteration import (
    Alteration,
    Change,
    Planner,
    column_after,
    fitting,
    or_cast,
    property_entries,
    property_line,
    refuse_placing,
)
from firn.lake.partition.partition import PartitionSpec
from firn.lake.read.scan import Scan
from firn.lake.write.sort import parse_order
from firn.predicate.predicate import Predicate, renamed

FIXED = ("shared", "log_url")
"""Properties that say where a table's log is, and for whom: these can't be changed."""

NEVER_LOWER = ("retry_window", "landing_delay", "max_skew")
"""Protocol times of a shared table by which each append goes: processes that have it open don't look for changes."""


class ColumnDefinition(NamedTuple):
    """A column of a table.

    Attributes:
        physical: its name in files, which never changes.
        default: what rows have whose file lacks the column, as text; None for null.
        is_set: whether its type was set, by `alter` or `resolve`.
    """

    name: str
    physical: str
    type: str
    default: str | None = None
    comment: str | None = None
    is_set: bool = False


@dataclass(frozen=True)
class TableDefinition:
    """A table's definition at one version.

    Attributes:
        columns: those that are shown, those with what is set aside among them.
        into: columns whose values are another column's by now, by that.
        partition: the spec of what is written from now on; `partition.older` are those of older files.
        properties: those that are set; others have their defaults.
        checks: predicates that rows must not fail, by name.
    """

    version: str
    columns: tuple[ColumnDefinition, ...]
    into: Mapping[str, str]
    partition: PartitionSpec
    sort_by: tuple[str, ...]
    keys: KeySpec | None
    properties: Mapping[str, Any]
    checks: Mapping[str, str]
    comment: str | None = None


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
    described, naming = table.at(snapshot).definition, snapshot.naming
    columns = tuple(
        ColumnDefinition(
            name,
            naming.physical(name),
            kind,
            naming.defaults.get(name),
            described.comments.get(name),
            name in described.explicit,
        )
        for name, kind in snapshot.columns.items()
    )
    into = snapshot.definition.present(INTO)
    return TableDefinition(
        snapshot.version,
        columns,
        {naming.shown(name): naming.shown(target) for name, target in into.items()},
        described.partition,
        described.sort_by,
        described.keys,
        dict(described.properties),
        dict(described.checks),
        described.comments.get(""),
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


def alter(table: LakeContext, asked: Alteration, dry_run: bool) -> tuple[LakeDefinition | None, AlterResult]:
    """See `LakeTable.alter`. Also the definition that it wrote, if the table is shared with the reference."""
    if asked.is_empty:
        raise InvalidInputError(
            f"{table.name}: alter was told nothing to change. Pass rename, drop, add, types, comments, comment, "
            "set_properties, partition_by, sort_by or checks."
        )
    _check_names(table.created, asked.properties)
    if table.created.shared and asked == Alteration(properties=asked.properties, sort_by=asked.sort_by):
        return _alter_shared(table, asked, dry_run)

    def plan(snapshot: Snapshot) -> list[Change]:
        planner = Planner(table, snapshot, asked)
        changes = planner.plan()
        for name, predicate in planner.checks.items():
            _ask_rows(table, snapshot, planner, name, predicate)
        return changes

    return None, _commit(table, "alter", plan, dry_run)


def _ask_rows(
    table: LakeContext, snapshot: Snapshot, planner: Planner, name: str, predicate: Predicate
) -> None:
    """Refuse a check that rows fail by now; files whose statistics tell aren't read."""
    if not snapshot.files:
        return
    before = planner.before
    added = [each for each in predicate.columns if planner.physical[each] not in before]
    if added:
        raise InvalidInputError(
            f"{table.name}: the check {name!r} asks for {added[0]!r}, which this call adds. Nothing was changed. Add "
            "the column first, and then the check."
        )
    text = renamed(predicate.sql, lambda shown: before[planner.physical[shown]])
    bad = Scan(table, where=f"({text}) IS FALSE", snapshot=snapshot, limit=1).to_arrow().to_pylist()
    if bad:
        raise InvalidInputError(
            f"{table.name}: the table has rows that fail the check {name!r}, like {bad[0]}. Nothing was changed. "
            "Change or delete these rows first."
        )


def resolve(table: LakeContext, column: str, to: str | None, into: str | None, dry_run: bool) -> AlterResult:
    """See `LakeTable.resolve`."""

    def plan(snapshot: Snapshot) -> list[Change]:
        seen, physical = table.at(snapshot), snapshot.naming.physical
        if into is None:
            return _together(seen, snapshot, seen.column_of(column, snapshot.columns), to)
        source, target = seen.column_of(column, snapshot.columns), seen.column_of(into, snapshot.columns)
        if source == target:
            raise InvalidInputError(f"{table.name}: {source!r} can't be resolved into itself.")
        refuse_placing(seen, source)
        wanted = [Change(f"{source} into {target}", {(INTO, physical(source)): physical(target)})]
        kind = snapshot.columns[target]
        if to is not None:
            kind = fitting(seen, snapshot, target, to)
            wanted.append(Change(f"type of {target}: {kind}", {(TYPE, physical(target)): kind}))
        if not converts(snapshot.columns[source], kind):
            raise InvalidInputError(
                f"{table.name}: values of {source!r} are {snapshot.columns[source]}, which {target!r} ({kind}) "
                f"doesn't take in. Pass to='VARCHAR'{or_cast(seen, source, kind)}."
            )
        return wanted

    return _commit(table, "resolve", plan, dry_run)


def _together(table: LakeContext, snapshot: Snapshot, column: str, to: str | None) -> list[Change]:
    """One type for a column and all that is set aside of it."""
    beside = [each for each in snapshot.conflicts if each.column == column]
    if to is None:
        if not beside:
            raise InvalidInputError(
                f"{table.name}: nothing of {column!r} is set aside, so there is nothing to resolve. See conflicts()."
            )
        to = beside[-1].common_type if len(beside) == 1 else "VARCHAR"
    kind = fitting(table, snapshot, column, to)
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
    own, physical = snapshot.naming.physical(column), snapshot.naming.physical
    into = [Change(f"{each.aside} into {column}", {(INTO, physical(each.aside)): own}) for each in beside]
    return [Change(f"type of {column}: {kind}", {(TYPE, own): kind}), *into]


def _check_names(created: LakeDefinition, properties: Mapping[str, Any]) -> None:
    for name in FIXED:
        if name in properties:
            raise InvalidInputError(
                f"{created.name}: the property {name!r} can't be changed: it says where the log is, or for whom. "
                "Make another table."
            )
    check_names(properties, created.journal)


def _commit(
    table: LakeContext, op: str, plan: Callable[[Snapshot], list[Change]], dry_run: bool
) -> AlterResult:
    if table.created.shared:
        raise UnsupportedError(
            f"{table.name} is shared with the reference, whose merge drops what Firn notes of columns: {op} can't "
            "change these, only properties and order, by alter(set_properties=…, sort_by=…). Append the rows to a "
            "new table where more has to change."
        )
    if dry_run:
        snapshot = table.journal.snapshot()
        return AlterResult(snapshot.version, _lines(_new(snapshot.definition, plan(snapshot))))
    with table.journal.exclusive(op) as session:
        snapshot = session.snapshot
        before = snapshot.definition
        changes = _new(before, plan(snapshot))
        wanted = {key: value for change in changes for key, value in change.entries.items()}
        if not wanted:
            return AlterResult(snapshot.version, ())
        if len(before.map.keys() | wanted.keys()) > LIMIT:
            raise InvalidInputError(f"{table.name}: a definition has at most {LIMIT:,} entries.")
        entries = before.changed(wanted, session.writer)
        added = {
            name: value
            for (kind, name), value in wanted.items()
            if kind == TYPE and name not in snapshot.stored
        }
        commit = Commit(op, columns=added, summary={"changes": list(_lines(changes))}, definition=entries)
        return AlterResult(session.publish(commit), _lines(changes))


def _alter_shared(
    table: LakeContext, asked: Alteration, dry_run: bool
) -> tuple[LakeDefinition | None, AlterResult]:
    """Change the properties and order of a shared table in its definition itself, as the reference's merge would drop
    them from the log."""
    created, journal = table.created, table.journal
    assert isinstance(journal, LeaderlessJournal)
    if not created.id:
        raise UnsupportedError(
            f"{table.name} has no definition that could be changed: the table is the reference's. Give it one by "
            f"db.create_table({table.name!r}, properties={{…}}), which keeps its log and data."
        )

    blooms = parse_bloom_filters(asked.properties.get("bloom_filters"))
    named = blooms if isinstance(blooms, tuple) else ()
    columns = journal.known().columns if named or asked.sort_by is not None else {}
    if named:
        names = [column_after(table.name, name, "bloom_filters", columns) for name in named]
        asked = replace(asked, properties={**asked.properties, "bloom_filters": names})

    def change(data: bytes | None, where: str) -> tuple[bytes | None, tuple[LakeDefinition, tuple[str, ...]]]:
        if data is None or not is_definition_of(data, created.id):
            raise dropped(table.bucket, table.prefix)
        found = LakeDefinition.decode(data, where)
        altered, lines = _altered_shared(found, asked, columns, journal.now_ms())
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
    found: LakeDefinition, asked: Alteration, columns: ColumnTypes, now_ms: int
) -> tuple[LakeDefinition, tuple[str, ...]]:
    """The definition with these changes, and a line for each."""
    before, times = found.settings(found.properties), dict(found.times)
    properties = dict(found.properties)
    wanted = property_entries(found, asked.properties, now_ms)
    lines = [property_line(name, value) for (kind, name), value in wanted.items() if kind == PROPERTY]
    order = found.sort_by if asked.sort_by is None else parse_order(asked.sort_by, columns)
    if order != found.sort_by:
        lines.append(f"sort by {', '.join(order) or 'nothing'}")
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
    if not lines:
        return found, ()
    return replace(found, properties=properties, sort_by=order, rev=found.rev + 1, times=times), tuple(lines)


def _new(before: Entries, changes: Sequence[Change]) -> list[Change]:
    """The changes that aren't made yet."""
    found = []
    for change in changes:
        entries = {
            key: value
            for key, value in change.entries.items()
            if (key in before.map and before.map[key].value != value)
            or (key not in before.map and not _is_so(key, value))
        }
        if entries:
            found.append(Change(change.line, entries))
    return found


def _is_so(key: tuple[str, str], value: Any) -> bool:
    """Whether that is so where nothing was ever changed."""
    return (key[0] == NAME and value == key[1]) or (key[0] == COMMENT and value is None)


def _lines(changes: Sequence[Change]) -> tuple[str, ...]:
    return tuple(change.line for change in changes)
