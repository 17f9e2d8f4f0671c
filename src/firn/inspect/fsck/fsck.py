"""Check a database, or one table of it, without changing anything: objects decode, hang together, and are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from firn.bucket.keys import key_below
from firn.database.database import Database
from firn.database.kinds.definitions import read_any
from firn.errors import CorruptObjectError, FirnError, TableNotFoundError
from firn.inspect.fsck.findings import (
    Finding,
    Findings,
    TableCheck,
    conflicts,
    note,
    of_error,
    shared_names,
)
from firn.inspect.fsck.lake import failed_checks
from firn.inspect.fsck.writer import check_catalog
from firn.inspect.transactions import chosen_writers, federation_of
from firn.journal.definition import definition_key
from firn.journal.entries import SEEN
from firn.journal.model import Snapshot
from firn.journal.writer.federation.definition import definition_of, definitions, each_definition
from firn.journal.writer.federation.federation import Union
from firn.journal.writer.format.layout import database_key
from firn.kinds import part_of
from firn.lake.prune.soft_deletes import predicates

__all__ = ["Finding", "FsckReport", "check"]


@dataclass(frozen=True)
class FsckReport:
    """The result of a check. `checked` counts the objects that it looked at."""

    url: str
    findings: tuple[Finding, ...]
    checked: Mapping[str, int]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Those that should be mended."""
        return tuple(f for f in self.findings if f.severity == "problem")


def check(
    db: Database,
    table: str | None = None,
    *,
    writer: str | None = None,
    footers: bool = True,
    blocks: bool = False,
    checks: bool = False,
) -> FsckReport:
    """Check all tables and all writers of a database, or one table, or one writer. Nothing is written.

    It looks twice at what seems damaged, as other processes may work meanwhile.

    Args:
        table: of a table with a log of its own, the log and its files; of one of writers' catalogs, the catalogs,
            and this table's files.
        writer: only this one's catalog.
        footers: read the footer of each live data file too; of keyed tables the index of each SST.
        blocks: of keyed tables read every block, and compare its checksum.
        checks: of lake tables ask the rows whether they pass the table's checks.

    Raises:
        TableNotFoundError, NotFoundError: no such table or writer.

    Cost: of a log 3 LIST sequences, 1 GET a log and a batch claim, and 4 more; of a catalog 4 LIST sequences, 1 GET a
    transaction, checkpoint and claim, 1 or 2 ranged GETs a marker and a file that nothing names, and three times
    what opening it costs; of a keyed table what opening a reader costs, 4 LIST sequences, and 1 GET a checkpoint; and
    the footers. All of it again where a problem is found.

    Example:
        >>> import firn
        >>> db = firn.connect("memory://", writer="host-17")
        >>> _ = db.create_table("cpu", journal="writer").append([{"n": 1}])
        >>> report = check(db)
        >>> report.problems, report.checked["data files"]
        ((), 1)
    """
    parts: list[Callable[[], Findings]] = []
    if writer is None:
        parts += _logs(db, table, footers=footers, blocks=blocks, checks=checks)
    if table is None or not parts:
        parts += _catalogs(db, table, writer, footers, checks)
    found: list[Finding] = []
    checked: dict[str, int] = {}
    for part in parts:
        once = part()
        findings = once.confirmed_by(part()) if once.problems else once
        found += findings.found
        for kind, count in findings.checked.items():
            checked[kind] = checked.get(kind, 0) + count
    return FsckReport(db.url, tuple(found), checked)


def _logs(db: Database, table: str | None, **asked: bool) -> list[Callable[[], Findings]]:
    """The checks of tables with a directory of their own, broken ones too."""
    federation = federation_of(db)
    names = db.bucket.list_dirs(key_below(db.prefix, "")) if table is None else [table]
    found: list[Callable[[], Findings]] = []
    for name in names:
        if federation.is_table(name):
            found.append(partial(_log, db, name, **asked))
        elif _undefined(db, name).problems:
            found.append(partial(_undefined, db, name))
    return found


def _undefined(db: Database, name: str) -> Findings:
    """Check what may be a table whose definition is lost."""
    dirs = db.bucket.list_dirs(key_below(db.prefix, name, ""))
    if not {"_metadata", "data"}.isdisjoint(each.partition("~")[0] for each in dirs):
        try:
            db.table(name)
        except TableNotFoundError:
            pass
        except FirnError as error:
            return Findings([of_error(db.bucket.uri(definition_key(key_below(db.prefix, name))), error)])
    return Findings()


def _log(db: Database, name: str, **asked: bool) -> Findings:
    found = Findings()
    where = db.bucket.uri(key_below(db.prefix, name))
    try:
        opened = db.table(name)
    except TableNotFoundError:
        if _is_tombstone(db, name):
            return found  # it stays for the next table of the name
        found.note(where, "it is a table that is being dropped", "Drop it again to end that")
        return found
    except FirnError as error:
        found.error(where, error)
        return found
    check: TableCheck = part_of(opened.kind, "check")
    return check(opened, **asked)


def _is_tombstone(db: Database, name: str) -> bool:
    """Whether only the definition is left of a table that was dropped."""
    if read_any(db.bucket, key_below(db.prefix, name)) is None:
        return False
    try:
        db.drop_table(name, dry_run=True)
    except TableNotFoundError:
        return True
    return False


def _catalogs(
    db: Database, table: str | None, writer: str | None, footers: bool, checks: bool
) -> list[Callable[[], Findings]]:
    federation = federation_of(db)
    try:
        names = chosen_writers(federation, writer)
        if table is not None and table not in definitions(federation.load()):
            db.table(table)  # says what there is
    except CorruptObjectError as error:  # nobody can tell where the writers are, or what they define
        broken = Findings([of_error(db.bucket.uri(db.prefix), error)])
        return [lambda: broken]
    parts: list[Callable[[], Findings]] = [
        partial(check_catalog, db.bucket, federation.layout(name), table=table, footers=footers)
        for name in names
    ]
    if names:
        parts.append(partial(_tables, db, table, checks))
    return parts


def _tables(db: Database, table: str | None, checks: bool) -> Findings:
    """Check what only the union of all writers shows."""
    federation = federation_of(db)
    found = Findings()
    union = federation.load()
    if federation.told is not None:
        where = db.bucket.uri(database_key(db.prefix))
        what = federation.told.removeprefix(where).strip()
        found.problem(where, what, "Any writer's next commit writes it anew")
    for name in federation.other_names():
        found.problem(
            db.bucket.uri(db.prefix),
            f"writers have catalogs under the name {name!r} too, which nobody reads: this database's is "
            f"{federation.name!r}",
            f'Write {{"firn": 1, "database": "{name}"}} to {database_key("")} of a copy of all objects, and copy '
            "the rows that lack from there",
        )
    try:
        known = definitions(union)
    except CorruptObjectError as error:
        found.error(db.bucket.uri(db.prefix), error)
        return found
    for name, (_, notes) in known.items():
        if table not in (None, name):
            continue
        found.count("tables", 1)
        where = db.bucket.uri(key_below(db.prefix, name))
        found.add(*(note(where, text) for text in notes))
        try:
            opened = db.table(name, kind="lake")
            snapshot = opened.snapshot()
            found.add(*conflicts(where, snapshot.conflicts), *shared_names(where, snapshot.naming))
            _soft_deletes(db, snapshot, found)
            found.add(*_lagging(where, union, name))
            if checks:
                found.add(*failed_checks(opened))
        except FirnError as error:
            found.error(where, error)
    return found


def _lagging(where: str, union: Union, table: str) -> list[Finding]:
    """Writers whose catalogs lack what others have changed of a table: their next commits bring it."""
    by = each_definition(union, table)
    whole = definition_of(union, table).entries.without(SEEN)
    late = [writer for writer, one in by.items() if one.entries.without(SEEN) != whole]
    what = f"the catalogs of {', '.join(late)} lack some of what was changed of the table"
    return [note(where, what, "Their next commits bring it")] if late else []


def _soft_deletes(db: Database, snapshot: Snapshot, found: Findings) -> None:
    """One that can't be read would bring its rows back: readers refuse the file."""
    seen: set[tuple[str, ...]] = set()
    for file in snapshot.files:
        if file.deletes and file.deletes not in seen:
            seen.add(file.deletes)
            where = db.bucket.uri(file.path)
            try:
                predicates(file.deletes, snapshot.columns, where)
            except CorruptObjectError as error:
                found.error(where, error)
