"""One table out of all writers' states: its definition, files, columns and past. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone

import orjson

from firn.errors import CorruptObjectError, SchemaConflictError
from firn.journal.columns import OnConflict, older_types, reconcile
from firn.journal.model import ColumnTypes, CommitInfo, DataFile, Snapshot, with_deletes
from firn.journal.writer.actions import Add, Columns, Define, Drop, Remove, Tombstones, Transaction
from firn.journal.writer.federation import Union
from firn.journal.writer.layout import WriterLayout
from firn.journal.writer.state import LiveFile, TableState

EMPTY_VERSION = "0"


@dataclass(frozen=True)
class Definition:
    """What a writer's catalog says that a table is. `spec` is the lake's descriptor, opaque here."""

    spec: bytes
    defined_ms: int
    writer: str

    def encode(self) -> bytes:
        return orjson.dumps(
            {"defined_ms": self.defined_ms, "writer": self.writer, "table": orjson.Fragment(self.spec)}
        )

    @staticmethod
    def decode(data: bytes, where: str) -> Definition:
        try:
            found = orjson.loads(data)
            return Definition(orjson.dumps(found["table"]), int(found["defined_ms"]), str(found["writer"]))
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise CorruptObjectError(
                f"{where} isn't a table's definition ({error!r}). Look at it with `firn dump`, and define the "
                "table anew."
            ) from error


def definitions(union: Union) -> dict[str, tuple[Definition, tuple[str, ...]]]:
    """Each table's definition, the earliest where writers disagree, and what to tell of it."""
    found: dict[str, dict[str, Definition]] = {}
    for writer, version in union.versions.items():
        for name, table in version.state.tables.items():
            where = f"the definition of {name} by the writer {writer}"
            found.setdefault(name, {})[writer] = Definition.decode(table.spec, where)
    return {name: _earliest(name, by) for name, by in sorted(found.items())}


def _earliest(table: str, by: Mapping[str, Definition]) -> tuple[Definition, tuple[str, ...]]:
    first = min(by.values(), key=lambda d: (d.defined_ms, d.writer))
    others = [writer for writer, definition in by.items() if definition != first]
    if not others:
        return first, ()
    return first, (
        f"{table} is defined by the writer {first.writer} and, otherwise and later, by {', '.join(others)}; the "
        "earliest definition counts",
    )


def version_of(union: Union, table: str) -> str:
    """The vector of the writers that have the table, as text."""
    parts = [f"{w}={v.head.revision}" for w, v in union.versions.items() if table in v.state.tables]
    return ",".join(parts) or EMPTY_VERSION


def snapshot_of(union: Union, table: str, declared: ColumnTypes, on_conflict: OnConflict) -> Snapshot:
    """The table's live files of all writers, in order of writer and addition, and the union of their columns.

    Raises:
        SchemaConflictError: two files have types of one column that nothing joins, and `on_conflict` says so.
    """
    states = _states(union, table)
    columns, skipped, warnings = _agreed(states, declared, on_conflict)
    files: list[DataFile] = []
    for writer, state in states.items():
        schemas = {live.columns for live in state.files.values()}
        loaders = {s: _Loader(s, columns) for s in schemas if (writer, s) not in skipped}
        files.extend(loaders[live.columns](live) for live in state.files.values() if live.columns in loaders)
    heads = [union.versions[writer].head.time_ms for writer in states]
    return Snapshot(
        version_of(union, table), max(heads, default=0), columns, tuple(files), (*union.warnings, *warnings)
    )


def columns_of(union: Union, table: str, declared: ColumnTypes, on_conflict: OnConflict) -> ColumnTypes:
    """The columns that `snapshot_of` gives, without looking at files."""
    return _agreed(_states(union, table), declared, on_conflict)[0]


def _states(union: Union, table: str) -> dict[str, TableState]:
    return {w: v.state.tables[table] for w, v in union.versions.items() if table in v.state.tables}


_Owned = tuple[str, Columns]


def _agreed(
    states: Mapping[str, TableState], declared: ColumnTypes, on_conflict: OnConflict
) -> tuple[ColumnTypes, frozenset[_Owned], tuple[str, ...]]:
    """(columns, (writer, schema) to be skipped, warnings). Schemas count in order of writer and appearance, those
    of removed files too."""
    sources: dict[str, _Owned] = {}
    for writer, state in states.items():
        sources.update({f"{writer}, schema {n}": (writer, s) for n, s in enumerate(state.schemas)})
    said = [("the table's definition", declared), *((label, dict(s)) for label, (_, s) in sources.items())]
    with suppress(SchemaConflictError):
        found = reconcile(said, on_conflict="error")
        return found.columns, frozenset(), found.warnings
    # What conflicts is told by files' names, which takes a look at all files.
    sources = {_example(states[w], s, label): (w, s) for label, (w, s) in sources.items()}
    said[1:] = [(label, dict(s)) for label, (_, s) in sources.items()]
    found = reconcile(said, on_conflict=on_conflict)
    return found.columns, frozenset(sources[label] for label in found.skipped), found.warnings


def _example(state: TableState, schema: Columns, label: str) -> str:
    """A live file of a schema; a description where there is none."""
    for live in state.files.values():
        if live.columns == schema:
            return live.file.path
    return f"a removed file of the writer {label}"


class _Loader:
    """Gives files of one schema what readers need to know: soft deletes, and types that are narrower."""

    def __init__(self, stored: Columns, columns: ColumnTypes) -> None:
        self._types = older_types(dict(stored), columns)

    def __call__(self, live: LiveFile) -> DataFile:
        file = live.file
        if self._types:
            extra = dict(file.extra or {})
            file = file._replace(extra={**extra, "types": {**self._types, **(extra.get("types") or {})}})
        return with_deletes(file, *(d.predicate for d in live.deletes)) if live.deletes else file


def seen_batch(union: Union, table: str, batch_id: str) -> str | None:
    """The version that committed a batch, by whichever writer."""
    for writer, version in union.versions.items():
        state = version.state.tables.get(table)
        if state is not None and batch_id in state.batches:
            return f"{writer}={state.batches[batch_id][0]}"
    return None


def history_of(transactions: Iterable[Transaction], layout: WriterLayout, table: str) -> list[CommitInfo]:
    """What a writer's transactions, in order, did to a table: a line each that touched it."""
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
                name = layout.parse_data(action.path)
                removed += owner.pop(action.path, name.table if name else None) == table
            elif isinstance(action, (Define, Drop, Tombstones)):
                touched |= action.table == table
                if isinstance(action, Drop):
                    gone = [path for path, name in owner.items() if name == action.table]
                    removed += len(gone) if action.table == table else 0
                    for path in gone:
                        del owner[path]
        if adds or removed or touched:
            lines.append(_line(transaction, adds, removed))
    return lines


def _line(transaction: Transaction, adds: list[DataFile], removed: int) -> CommitInfo:
    rows = [file.rows for file in adds]
    commit = transaction.commit
    return CommitInfo(
        f"{transaction.writer}={transaction.revision}",
        datetime.fromtimestamp(commit.time_ms / 1000, timezone.utc),
        commit.op,
        len(adds),
        removed,
        None if None in rows else sum(r for r in rows if r is not None),
        sum(file.size for file in adds),
        commit.summary,
    )
