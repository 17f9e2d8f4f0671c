"""One table out of all writers' states: its files, columns and past. Pure."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any

from firn.journal.agreement import Agreement, Rules, Source, agree, agree_streamed
from firn.journal.entries import SEEN, DefinitionEntry, Entries
from firn.journal.model import ColumnTypes, CommitInfo, Counted, DataFile, Snapshot, with_deletes, with_types
from firn.journal.writer.federation.definition import definition_of, seen_name
from firn.journal.writer.federation.federation import Union
from firn.journal.writer.format.actions import (
    Add,
    CatalogTransaction,
    Columns,
    Define,
    Drop,
    Remove,
    Tombstones,
)
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.state import CatalogTable, LiveFile, beside
from firn.names import fold

EMPTY_VERSION = "0"


def version_of(union: Union, table: str) -> str:
    """The vector of the writers that have the table, as text."""
    parts = [f"{w}={v.head.revision}" for w, v in union.versions.items() if table in v.state.tables]
    return ",".join(parts) or EMPTY_VERSION


def snapshot_of(union: Union, table: str, rules: Rules) -> Snapshot:
    """The table's live files of all writers, in order of writer and addition, and the union of their columns."""
    states, entries = _states(union, table), definition_of(union, table).entries
    agreed = _agreed(states, rules, entries)
    files: list[DataFile] = []
    for state in states.values():
        loaders = {s: Loader(s, agreed) for s in {live.columns for live in state.files.values()}}
        files.extend(loaders[live.columns](live) for live in state.files.values())
    heads = [union.versions[writer].head.time_ms for writer in states]
    return Snapshot(
        version_of(union, table),
        max(heads, default=0),
        agreed.columns,
        tuple(files),
        (*union.warnings, *agreed.warnings),
        agreed.aside,
        agreed.loose,
        agreed.conflicts,
        agreed.refusal,
        entries,
        agreed.naming,
        agreed.stored,
    )


def agreement_of(union: Union, table: str, rules: Rules, entries: Entries | None = None) -> Agreement:
    """The agreement of the table's files, mostly without looking at them. `entries` are those of the union, or
    more."""
    if entries is None:
        entries = definition_of(union, table).entries
    return _agreed(_states(union, table), rules, entries)


def streamed(union: Union, table: str, rules: Rules, schemas: Iterable[ColumnTypes]) -> Agreement:
    """The agreement of the present table with the files that a stream delivers, live or not: the columns stay as
    they are shown, and values that don't fit them are set aside."""
    altered = rules.altered(definition_of(union, table).entries)
    sources = (Source(f"an append to {table}", dict(schema)) for schema in schemas)
    return agree_streamed(altered, agreement_of(union, table, rules), table, sources)


def _states(union: Union, table: str) -> dict[str, CatalogTable]:
    return {w: v.state.tables[table] for w, v in union.versions.items() if table in v.state.tables}


def _agreed(states: Mapping[str, CatalogTable], rules: Rules, entries: Entries) -> Agreement:
    """The agreement, with columns in the order in which commits and alters brought them."""
    rules = rules.altered(entries)
    found = _unordered(states, rules, entries)
    return found.ordered(_order(found, states, rules, entries))


def _unordered(states: Mapping[str, CatalogTable], rules: Rules, entries: Entries) -> Agreement:
    """Schemas count in order of writer and appearance, those of removed files too, as long as nothing conflicts; else
    those of live files, in the order in which commits brought them."""
    said = [
        Source(f"the writer {writer}", dict(schema))
        for writer, state in states.items()
        for schema in state.schemas
    ]
    quick = agree(rules, said)
    some = (live for state in states.values() if state.beside for live in state.files.values())
    if quick.settled and not rules.into and not any(map(beside, some)):
        return quick
    first: dict[tuple[str, str], tuple[str, str, bool]] = {}
    for state in states.values():
        for live in state.files.values():
            for name, kind in live.columns:
                first.setdefault((fold(name), kind), (name, live.file.path, False))
            for name, kind in beside(live).items():
                first.setdefault((fold(name), kind), (name, live.file.path, True))
    seen = {name: entry.stamp for (kind, name), entry in entries.map.items() if kind == SEEN}
    last = (sys.maxsize, "", "")
    order = sorted(first, key=lambda pair: seen.get(seen_name(*pair), last))
    live_types = []
    for pair in order:
        name, path, is_beside = first[pair]
        types = {name: pair[1]}
        live_types.append(Source(path, {}, types) if is_beside else Source(path, types))
    return agree(rules, live_types, said).ordered(quick.stored)


def _order(found: Agreement, states: Mapping[str, CatalogTable], rules: Rules, entries: Entries) -> list[str]:
    """Physical names: those declared; those that nobody knows the first commit of, as older versions didn't note it;
    the others by their first commit or alter, which no other writer changes; last those of what was set aside."""
    first: dict[str, DefinitionEntry] = {}
    for (kind, name), entry in entries.map.items():
        if kind == SEEN:
            folded = name.partition("\t")[0]
            first[folded] = min(entry, first.get(folded, entry), key=lambda each: each.stamp)
    if not first:
        return list(found.stored)
    declared = {fold(name) for name in rules.declared}
    own = {
        writer: _positions(states[writer]) for writer in {e.writer for e in first.values()} & states.keys()
    }

    def rank(name: str) -> tuple[Any, ...]:
        folded = fold(name)
        entry = first.get(folded)
        if folded in declared:
            return (0,)
        if name in found.beside:
            return (3,)
        if entry is None:
            return (1,)
        return 2, entry.clock, entry.writer, own.get(entry.writer, {}).get(folded, 0)

    return sorted(found.stored, key=rank)


def _positions(state: CatalogTable) -> dict[str, int]:
    """Folded names, in the order in which a writer's files had them."""
    names = dict.fromkeys(fold(name) for schema in state.schemas for name, _ in schema)
    return {name: number for number, name in enumerate(names)}


class Loader:
    """Gives files of one schema what readers need to know: soft deletes, and types that aren't the table's."""

    def __init__(self, stored: Columns, agreed: Agreement) -> None:
        self._agreed = agreed
        self._types = agreed.differing(dict(stored))

    def noted(self, file: DataFile) -> DataFile:
        """The file without its soft deletes."""
        return self._agreed.as_read(with_types(file, self._types))

    def __call__(self, live: LiveFile) -> DataFile:
        file = self.noted(live.file)
        return with_deletes(file, *(d.predicate for d in live.deletes)) if live.deletes else file


def seen_batch(union: Union, table: str, batch_id: str) -> str | None:
    """The version that committed a batch, by whichever writer."""
    for writer, version in union.versions.items():
        state = version.state.tables.get(table)
        if state is not None and batch_id in state.batches:
            return f"{writer}={state.batches[batch_id][0]}"
    return None


_COUNTED = " [counted]"


def remembered(batch_id: str, counted: Counted | None) -> list[str]:
    """The ids that are remembered of a batch: its own, and what is said of its rows, as two more."""
    if counted is None:
        return [batch_id]
    return [batch_id, f"{batch_id}{_COUNTED}", f"{batch_id} [{counted.rows} of {counted.whole}]"]


def counted_batch(union: Union, table: str, batch_id: str) -> Counted | None:
    """What was said of the rows of a batch that was seen, see `remembered`."""
    for version in union.versions.values():
        state = version.state.tables.get(table)
        if state is None or batch_id + _COUNTED not in state.batches:
            continue
        said = re.compile(re.escape(batch_id) + r" \[(\d+) of (\d+)\]")
        for id in state.batches:
            if found := said.fullmatch(id):
                return Counted(int(found[1]), int(found[2]))
    return None


def history_of(
    transactions: Iterable[CatalogTransaction], layout: WriterLayout, table: str
) -> list[CommitInfo]:
    """The effects of a writer's transactions on a table, in order: a line for each that touched it."""
    lines = []
    owner: dict[str, str | None] = {}
    for transaction in transactions:
        adds: list[DataFile] = []
        removed = 0
        touched = False
        for action in transaction.actions:
            if isinstance(action, Add):
                owner[action.file.path] = action.table
                if action.table == table:
                    adds.append(action.file)
            elif isinstance(action, Remove):
                was = owner.pop(action.path, layout.table_of(action.path)) == table
                touched |= was
                removed += was and not layout.is_rows(action.path)
            elif isinstance(action, (Define, Drop, Tombstones)):
                touched |= action.table == table
                if isinstance(action, Drop):
                    gone = [path for path, name in owner.items() if name == action.table]
                    if action.table == table:
                        removed += sum(not layout.is_rows(path) for path in gone)
                    for path in gone:
                        del owner[path]
        if adds or removed or touched:
            lines.append(_line(transaction, adds, removed))
    return lines


def _line(transaction: CatalogTransaction, adds: list[DataFile], removed: int) -> CommitInfo:
    rows = [file.rows for file in adds]
    commit = transaction.commit
    return CommitInfo(
        f"{transaction.writer}={transaction.revision}",
        datetime.fromtimestamp(commit.time_ms / 1000, timezone.utc),
        commit.op,
        sum(file.inlined is None for file in adds),
        removed,
        None if None in rows else sum(r for r in rows if r is not None),
        sum(file.size for file in adds),
        commit.summary,
    )
