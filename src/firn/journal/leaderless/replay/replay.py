"""From logs to a table's state, and from a state and a change to the next maintenance log. Pure.

The reader's rule is the reference's: apply markers in log order, the last one wins per path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from firn.journal.agreement import Agreement, Rules, Source, agree
from firn.journal.columns import join, widens_to
from firn.journal.entries import FEATURE, NAME, Entries
from firn.journal.inlined import ROWS
from firn.journal.leaderless.format.codec import DEFINITION, WINDOW, Log, replaced_names
from firn.journal.leaderless.format.layout import version_of
from firn.journal.leaderless.replay.size_classes import taken_in
from firn.journal.model import LACKING, ColumnTypes, Commit, DataFile, Snapshot, with_clocks, with_types

EMPTY_VERSION = "0"
PAST_LIMIT = 1000
"""History lines that a maintenance log carries for the logs it replaces."""
BATCH_MEMORY_MS = 30 * 24 * 3600 * 1000
"""How long batch ids are remembered after their logs are gone."""
_PLAIN = Rules()


@dataclass(frozen=True)
class ReplayedState:
    """The replayed view. `files` holds every path named, dead ones too, as logs carry them on: their own columns,
    with the types of those that aren't the table's. `dead` are those not alive."""

    logs: tuple[Log, ...]
    agreement: Agreement
    files: Mapping[str, DataFile]
    dead: Mapping[str, int]
    definition: Entries = field(default_factory=Entries)
    noted: Mapping[str, str] = field(default_factory=dict)

    @property
    def live(self) -> tuple[DataFile, ...]:
        """As readers need them."""
        live = (
            tuple(f for p, f in self.files.items() if p not in self.dead)
            if self.dead
            else self.files.values()
        )
        return tuple(live) if self.agreement.plain else tuple(map(self.agreement.as_read, live))

    def snapshot(self) -> Snapshot:
        # A reservation may yet become a real log: a version named by it would change.
        last = next((log for log in reversed(self.logs) if not log.is_reservation), None)
        version = version_of(last.name) if last else EMPTY_VERSION
        agreed = self.agreement
        return Snapshot(
            version,
            last.t if last else 0,
            agreed.columns,
            self.live,
            agreed.warnings,
            agreed.aside,
            agreed.loose,
            agreed.conflicts,
            agreed.refusal,
            self.definition,
            agreed.naming,
            agreed.stored,
        )

    def replaced(self) -> set[str]:
        """See `replaced_names`."""
        return replaced_names(self.logs)

    def batches(self) -> dict[str, tuple[str, int]]:
        """Batch id → (version, t) of all batches that these logs know."""
        return _batches(self.logs)


def _batches(logs: Iterable[Log]) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for log in logs:
        found.update({b: (v, t) for b, (v, t) in (log.notes.get("batches") or {}).items()})
        if batch := log.notes.get("batch"):
            found[batch] = (version_of(log.name), log.t)
    return found


def fold(logs: Iterable[Log], rules: Rules = _PLAIN) -> ReplayedState:
    """Apply `logs` in the order of (header's time, name). `rules` are those of the table's creation; what logs say of
    its definition goes before them."""
    ordered = tuple(sorted(logs, key=lambda log: log.order))
    files: dict[str, DataFile] = {}
    dead: dict[str, int] = {}
    for log in ordered:
        buried = log.dead
        for file in log.files:
            path = file.path
            files[path] = file
            if path in buried:
                dead[path] = buried[path]
            elif path in dead:
                del dead[path]
    definition = definition_in(ordered)
    noted: dict[str, str] = {}
    if definition:  # else no column is called otherwise
        noted = {physical: name for log in reversed(ordered) for physical, name in names_of(log).items()}
        rules = replace(rules.altered(definition), noted=noted)
    if any(log.inlined is not None for log in ordered):
        _end_replaced_rows(ordered, files, dead)
    agreement = _agreed(ordered, files, dead, rules)
    _note_types(ordered, agreement, files)
    return ReplayedState(ordered, agreement, files, dead, definition, noted)


def _end_replaced_rows(logs: Sequence[Log], files: Mapping[str, DataFile], dead: dict[str, int]) -> None:
    """Rows that stand in a log are dead since another log replaced it."""
    for log in logs:
        for key, t in log.tombstones.items():
            if (path := key + ROWS) in files:
                dead[path] = min(t, dead.get(path, t))


def definition_in(logs: Iterable[Log]) -> Entries:
    """The changes of the definition that logs know."""
    definition = Entries()
    for log in logs:
        if DEFINITION in log.need and (raw := log.notes.get("definition")):
            definition = definition.joined(Entries.from_json(raw, log.name))
    return definition


def names_of(log: Log) -> Mapping[str, str]:
    """Physical name → name, of columns that a log brings and that are called otherwise in files."""
    return log.notes.get("names") or {}


def _agreed(
    logs: Sequence[Log], files: Mapping[str, DataFile], dead: Mapping[str, int], rules: Rules
) -> Agreement:
    """The columns of all logs: mostly nothing conflicts, and then it needn't be known which files are live."""
    told = ((file, log.columns) for log in logs if DEFINITION in log.need for file in log.files if file.types)
    if not rules.into and not any(_sets_aside(file, columns) for file, columns in told):
        found = agree(rules, (Source(log.name, log.columns) for log in logs))
        if found.settled:
            return found
    live = _live_types(logs, files, dead)
    newest = next((log for log in reversed(logs) if "_m_" in log.name and not log.is_reservation), None)
    if newest is not None:
        # The types that maintenance has settled, as far as any live file has them.
        stored = [source.columns for source in live]
        settled = {
            name: kind
            for name, kind in newest.columns.items()
            if any(name in own and join(own[name], kind) is not None for own in stored)
        }
        live.insert(0, Source(newest.name, settled))
    found = agree(rules, live, (Source(log.name, log.columns) for log in logs))
    return found.ordered(dict.fromkeys(name for log in logs for name in log.columns))


def _live_types(logs: Sequence[Log], files: Mapping[str, DataFile], dead: Mapping[str, int]) -> list[Source]:
    """The types that live files have, each by the first file that has them."""
    found: list[Source] = []
    for log in logs:
        seen: dict[tuple[tuple[str, str], ...], str] = {}
        for file in log.files:
            if files[file.path] is file and file.path not in dead:
                seen.setdefault(tuple(file.types.items()), file.path)
        for own, path in sorted(seen.items(), key=lambda item: bool(item[0])):
            types = {**log.columns, **dict(own)}
            types = {name: kind for name, kind in types.items() if kind != LACKING}
            beside = {name: kind for name, kind in types.items() if name not in log.columns}
            found.append(Source(path, {name: types[name] for name in log.columns if name in types}, beside))
    return found


def _note_types(logs: Sequence[Log], agreement: Agreement, files: dict[str, DataFile]) -> None:
    """Where a log was written with other types than the table has, note in its files' `types` which one they
    have."""
    stored = agreement.stored
    for log in logs:
        older = agreement.differing(log.columns) if log.columns != stored else {}
        for file in log.files if older else ():
            if files[file.path] is file:
                files[file.path] = with_types(file, older)


def effective_time(t: int, log: Log, modified_ms: int) -> int:
    """A tombstone's age counts from when its log really appeared: a holder may stall between stamping and
    publishing (rule 12). The time of an earlier log's stamp was settled when it was copied."""
    return max(t, modified_ms) if t == log.t else t


def maintenance_log(
    state: ReplayedState,
    commit: Commit,
    *,
    name: str,
    t: int,
    nonce: str,
    log_key: Mapping[str, str],
    modified: Mapping[str, int],
) -> Log:
    """The log that makes `commit` true: tombstones, carried markers, new files (rules 10 to 12).

    `log_key` and `modified` give each listed log's key and last-modified by name. Logs are replaced that name a
    removed file; by a merge all, but for those whose rows it doesn't remove; by a fold those of maintenance that
    `taken_in` says. Every path of a tombstoned log is
    carried, in its replayed state, not in that log's own: else its other partitions vanish at cleanup, or removed
    files come back. Rows that stand in a log have no path to be carried: its tombstone ends them.
    """
    removed = set(commit.removes)

    def leaves_rows(log: Log) -> bool:
        """Whether rows of it, which nothing would have any more, live on."""
        return any(
            f.inlined is not None and f.path not in removed and f.path not in state.dead for f in log.files
        )

    stored, beside = state.agreement.stored, state.agreement.beside
    columns = {name: kind for name, kind in stored.items() if name not in beside}
    columns.update({name: kind for name, kind in commit.columns.items() if name not in beside})
    # A restored file keeps its old marker, not the one that readers made of it.
    added = {f.path: state.files.get(f.path, f) for f in with_clocks(commit, version_of(name))}
    touched = removed | added.keys()
    already = state.replaced()
    replaced = [
        log
        for log in state.logs
        if log.name not in already
        and (any(f.path in touched for f in log.files) or (commit.op == "merge" and not leaves_rows(log)))
    ]
    if commit.op == "fold":
        there = {log.name for log in replaced} | already
        others = [log for log in state.logs if log.name not in there and _is_carried_by_folds(log)]
        lines = len(added) + sum(
            1 + len(log.tombstones) + sum(f.inlined is None for f in log.files) for log in replaced
        )
        replaced += taken_in(others, lines)
        replaced.sort(key=lambda log: log.order)
    # Files that are carried on may have columns whose values are others' by now.
    had = {column for log in replaced if log.files for column in log.columns}
    columns.update({column: kind for column, kind in state.agreement.moved.items() if column in had})
    tombstones = _carried_tombstones(replaced, modified)
    for log in replaced:
        tombstones.setdefault(log_key[log.name], t)
    paths: dict[str, None] = {}
    for log in replaced:
        paths.update(dict.fromkeys(f.path for f in log.files if f.inlined is None))
    paths.update(dict.fromkeys(p for p in commit.removes if state.files[p].inlined is None))
    buried = burials(state.logs, modified)
    files: list[DataFile] = []
    dead: dict[str, int] = {}
    for path in paths:
        if path in added:
            continue
        files.append(_carried(state.files[path], stored, columns))
        if path in removed:
            dead[path] = t
        elif path in state.dead:
            dead[path] = buried[path].since
    files.extend(
        _carried(file, stored, columns) if path in state.files else file for path, file in added.items()
    )
    notes = _notes(commit, replaced, t)
    definition = state.definition.joined(commit.definition or Entries())
    if definition:
        notes["definition"] = definition.to_json()
    named = definition.of(NAME)
    if names := {p: name for p, name in {**commit.names, **state.noted}.items() if p not in named}:
        notes["names"] = names
    need = (DEFINITION,) if definition or any(_sets_aside(f, columns) for f in files) else ()
    if definition.of(FEATURE).get(WINDOW):
        need = (*need, WINDOW)
    return Log(name, t, columns, files, dead, tombstones, notes, nonce, need)


def _is_carried_by_folds(log: Log) -> bool:
    """Whether it is of maintenance, or void: folds leave files of appends alone, and so their logs."""
    return "_m_" in log.name or (not log.files and log.inlined is None)


def _carried(file: DataFile, before: ColumnTypes, after: ColumnTypes) -> DataFile:
    """A file's marker under a schema line with wider types than it was read with."""
    return with_types(file, {name: kind for name, kind in before.items() if after.get(name, kind) != kind})


def _sets_aside(file: DataFile, columns: ColumnTypes) -> bool:
    """Whether a file has columns that aren't read under their name: older versions would read them so."""
    return any(
        kind != LACKING and (name not in columns or not widens_to(kind, columns[name]))
        for name, kind in file.types.items()
    )


def _carried_tombstones(replaced: Sequence[Log], modified: Mapping[str, int]) -> dict[str, int]:
    carried: dict[str, int] = {}
    for log in replaced:
        for key, stamped in log.tombstones.items():
            since = effective_time(stamped, log, modified[log.name])
            carried[key] = min(since, carried.get(key, since))
    return carried


class Burial(NamedTuple):
    """Since when something is dead, effectively. `stamp`: of the log that buried it; 0 where only logs that
    carry it on are left."""

    since: int
    stamp: int

    def joined(self, other: Burial | None) -> Burial:
        """Where entries differ, the earlier one counts: one that is read late may look younger."""
        return self if other is None else Burial(min(self.since, other.since), other.stamp or self.stamp)


def burial(stamped: int, log: Log, modified_ms: int) -> Burial:
    """The meaning of one tombstone. In Firn's logs only those of the log's own time are its own."""
    own = stamped == log.t or not log.notes.get("complete")
    return Burial(effective_time(stamped, log, modified_ms), log.t if own else 0)


def burials(logs: Iterable[Log], modified: Mapping[str, int]) -> dict[str, Burial]:
    """The burial of each path that is dead at the end of `logs`, in order. A path that was restored in between is
    dead since it was removed again: its earlier death says nothing about readers that may still use it."""
    found: dict[str, Burial] = {}
    for log in logs:
        for file in log.files:
            path = file.path
            stamped = log.dead.get(path)
            if stamped is None:
                found.pop(path, None)
            else:
                found[path] = burial(stamped, log, modified[log.name]).joined(found.get(path))
    return found


def _notes(commit: Commit, replaced: Sequence[Log], t: int) -> dict[str, Any]:
    past: list[list[Any]] = []
    for log in replaced:
        past.extend(log.notes.get("past") or [])
        if log.is_commit:
            past.append(past_line(log))
    past.sort(key=lambda line: (line[1], line[0]))
    notes: dict[str, Any] = {"op": commit.op, "complete": True, "adds": len(commit.adds)}
    notes["removes"] = sum(not path.endswith(ROWS) for path in commit.removes)
    if commit.batch_id is not None:
        notes["batch"] = commit.batch_id
    if commit.summary:
        notes["summary"] = dict(commit.summary)
    if batches := {b: v for b, v in _batches(replaced).items() if v[1] > t - BATCH_MEMORY_MS}:
        notes["batches"] = batches
    if past:
        notes["past"] = past[-PAST_LIMIT:]
    rows = [f.rows for f in commit.adds]
    notes["rows"] = None if None in rows else sum(r for r in rows if r is not None)
    notes["bytes"] = sum(f.size for f in commit.adds)
    return notes


def past_line(log: Log) -> list[Any]:
    """One commit for `history()`: [version, t, op, files added, removed, rows, bytes, summary]."""
    notes = log.notes
    if "op" in notes:
        size = log.inlined_bytes or notes.get("bytes", 0)
        counts = [notes.get("adds", 0), notes.get("removes", 0), notes.get("rows"), size]
        op = notes["op"]
    else:  # the reference's: what is alive and not older than the log itself was added by it
        merged = "_m_" in log.name
        op = "merge" if merged else "append"
        new = [f for f in log.files if f.path not in log.dead]
        removed = sum(1 for at in log.dead.values() if at <= log.t)
        counts = [len(new), removed if merged else 0, None, sum(f.size for f in new)]
    return [version_of(log.name), log.t, op, *counts, notes.get("summary") or {}]
