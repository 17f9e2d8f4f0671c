"""Restore: the files and names of columns of an older version are the table's again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from firn.errors import InvalidInputError
from firn.journal.columns import widens_to
from firn.journal.entries import DROP, NAME
from firn.journal.model import ColumnTypes, DataFile, KnownColumns, Snapshot
from firn.lake.context import LakeContext
from firn.lake.maintain.change import FileChange, by_owner, counted, nothing, publish, rewritten
from firn.lake.maintain.tasks import MergeContext, MergeTask, merge_task
from firn.lake.partition.partition import directory_of
from firn.lake.read.decode import ReadSpec
from firn.lake.read.placed import placed
from firn.lake.results import ChangeResult
from firn.lake.write.write import WriteSpec
from firn.names import fold


def restore(table: LakeContext, at: Any, *, dry_run: bool) -> ChangeResult:
    """See `LakeTable.restore`."""
    if at is None:
        raise InvalidInputError("restore needs a version or a time; see history().")
    if dry_run:
        back, anew, gone, foreign = _to_restore(table, table.journal.snapshot(at), table.journal.snapshot())
        return counted("restore", FileChange([*back, *anew], gone, foreign=foreign, fresh=[*back, *anew]))
    with table.journal.exclusive("restore") as session:
        past, present = session.revivable(at), session.snapshot
        back, anew, gone, foreign = _to_restore(table, past, present)
        now = {f.path for f in present.files}
        needed = table.at(present).definition.required_columns
        changes = {} if table.created.shared else _names_of_then(past, present, needed)
        if not back and not gone and not anew and not changes:
            return nothing("restore", foreign)
        columns = _columns_of_today(past, present, changes)
        # Files are written under the names of then, by all else that the table has today.
        naming = replace(past.naming, lackable=present.naming.lackable)
        table = table.at(KnownColumns(columns, naming, present.definition))
        anew = list(placed(table, replace(past, columns=columns, files=tuple(anew))).files)
        context = MergeContext(
            write=WriteSpec.of(table, columns, session.namer, aside=past.aside),
            read=ReadSpec.of(replace(past, columns=columns)),
            keys=table.keys,
        )
        tasks = [MergeTask(directory_of(f, table.places), (f,)) for f in anew]
        change = rewritten(
            table, session, "restore", merge_task, tasks, [[f] for f in anew], context, foreign
        )
        change = replace(
            change,
            adds=[*back, *change.adds],
            removes=gone,
            columns=columns if anew else {},
            replaced=[f for f in change.replaced if f.path in now],
            aside=past.aside,
            fresh=[*back, *change.adds],
            definition=present.definition.changed(changes, session.writer) if changes else None,
        )
        return publish(table, session, present, "restore", change, {"to": past.version})


def _columns_of_today(
    past: Snapshot, present: Snapshot, changes: Mapping[tuple[str, str], Any]
) -> ColumnTypes:
    """The columns as which files of an older version are written anew: today's, where values of then fit these, under
    the names of then. Only that version knows what is set aside in its files."""
    then = {fold(past.naming.physical(name)): name for name in past.columns}
    dropped = {name for (kind, name), value in changes.items() if kind == DROP and value}
    columns = {}
    for name, kind in present.columns.items():
        physical = present.naming.physical(name)
        was = then.get(fold(physical))
        if name not in present.aside and physical not in dropped:
            had = kind if was is None else past.columns[was]
            columns[was or name] = kind if widens_to(had, kind) else had
    return columns | {name: kind for name, kind in past.columns.items() if name not in columns}


def _names_of_then(past: Snapshot, present: Snapshot, needed: Collection[str]) -> dict[tuple[str, str], Any]:
    """The entries by which columns are called as they were, and those that came since aren't shown. Columns that hold
    what is set aside stay: an append that lands meanwhile may have written them. So do those that are `needed`, as
    rows find their place by them. Where no alter has touched a column, columns that came since stay, too."""
    if not (past.naming or present.naming):
        return {}
    then = {past.naming.physical(name): name for name in past.columns if name not in past.aside}
    now = {present.naming.physical(name): name for name in present.columns}
    staying = {present.naming.physical(name) for name in (*present.aside, *needed)}
    changes: dict[tuple[str, str], Any] = {}
    for physical, name in then.items():
        if physical in present.naming.hidden:
            changes[DROP, physical] = False
        if now.get(physical, physical) != name or physical not in now:
            changes[NAME, physical] = name
    for physical in now.keys() - then.keys() - staying:
        changes[DROP, physical] = True
    entries = present.definition.map
    return {
        key: value
        for key, value in changes.items()
        if (entries[key].value if key in entries else _unaltered(key)) != value
    }


def _unaltered(key: tuple[str, str]) -> Any:
    """The value of an entry that isn't there."""
    return key[1] if key[0] == NAME else False


def _to_restore(
    table: LakeContext, past: Snapshot, present: Snapshot
) -> tuple[list[DataFile], list[DataFile], list[DataFile], int]:
    """Files that come back, that are written anew, and that go; and how many of other writers differ."""
    then, others_then = by_owner(table, past.files)
    today, others_today = by_owner(table, present.files)
    differing = {(f.path, f.deletes) for f in others_then} ^ {(f.path, f.deletes) for f in others_today}
    now = {f.path: f.deletes for f in today}
    missing = [f for f in then if f.path not in now]
    # No commit takes a soft delete back, and not every journal a removal: such files are written anew.
    anew = [f for f in then if f.deletes != now.get(f.path, ())]
    anew += [f for f in missing if not f.deletes and (f.inlined is not None or not table.journal.revives)]
    stay = {f.path for f in then} - {f.path for f in anew}
    back = [f for f in missing if f.path in stay]
    gone = [f for f in today if f.path not in stay]
    return back, anew, gone, len({path for path, _ in differing})
