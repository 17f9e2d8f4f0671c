"""Build an index while others write (rule 27), and drop one.

The commit d1 says that it is being built: who commits after that adds entries. Once all up to d1 is applied, rows
have every version that lacks one; these get theirs, and the commit d2 says that it may be used from there on.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from firn.bucket.base import Bucket, ObjectInfo
from firn.clock import SystemClock
from firn.errors import ConflictError, DuplicateKeyError, InvalidInputError, NotFoundError
from firn.journal import sequence
from firn.journal.sequence import Ddl, Moment, RowWrite
from firn.records.apply.apply import apply
from firn.records.maintain.ddl import DefinitionChange, define
from firn.records.objects.listing import row_objects
from firn.records.objects.store import RecordStore, Table
from firn.records.write.uniqueness import values_of
from firn.records.write.validation import unseen
from firn.runner import Engines, Progress, Runner

BATCH: Final = 1000
"""Rows that are read at once, by one task where there are tasks."""

TASKS_FROM: Final = 10_000
"""Rows from which on an index is built by tasks: fewer take less time than tasks need to begin."""


@dataclass(frozen=True)
class IndexInfo:
    """An index of a record table: of which field, whether unique, whether it can be used or is being built, and
    whether it is of each element of lists."""

    field: str
    unique: bool
    ready: bool
    each: bool = False


Choose = Callable[[Sequence[ObjectInfo]], Runner | None]
"""Where these rows are read: None for here."""


@dataclass(frozen=True)
class RowsAt:
    """A search of rows for the values of a field, in versions up to a commit. Picklable."""

    table: Table
    field: str
    number: int


Work = Callable[[RecordStore, RowsAt, Sequence[str]], list[tuple[str, str]]]
"""A task on some rows, by their keys: for values of the field it returns claims and ids."""


def _here(infos: Sequence[ObjectInfo]) -> Runner | None:
    return None


def build_index(
    store: RecordStore,
    table: str,
    name: str,
    *,
    unique: bool = False,
    each: bool = False,
    choose: Choose = _here,
    progress: Progress | None = None,
) -> int:
    """Build an index on a field, or go on with a build that was interrupted; the commit from which it is used.

    Cost and errors as `create_index`, after which the index is not made. `choose` tells on which runner rows are read
    and entries put. A task may run twice, or not to its end: entries of one version have one name, and only a build
    that came to its end makes the index usable.
    """
    opened = store.table(table, store.log.refresh().catalog)
    opened.documents.check_field(name, each=each)
    if name not in opened.state.fields:
        define(
            store,
            Ddl("build", table, field=name, unique=unique, each=(name,) if each else ()),
            check=lambda catalog: store.table(table, catalog).documents.check_field(name, each=each),
        )
        opened = store.table(table, store.log.head().catalog)
    index = opened.state.fields.get(name)
    if index is None:
        raise ConflictError(
            f"the index on {name!r} of {table!r} was dropped while it was built; build it again"
        )
    if index.stage == "ready" or (index.unique, index.each) != (unique, each):
        raise ConflictError(f"the table {table!r} has an index on {name!r}; use it, or drop it first")
    built = index.built
    try:
        wait_until_applied(store, built)
        rows = _Rows(store, choose, progress)
        list(rows.each(backfill, RowsAt(opened, name, built)))
        return _ready(rows, opened, name, unique)
    except (DuplicateKeyError, InvalidInputError):
        with suppress(NotFoundError):  # by somebody else
            define(store, Ddl("unindex", table, field=name, built=built))
        raise


def index_infos(store: RecordStore, table: str) -> list[IndexInfo]:
    """The indices that there are now, by field. 1 GET, and 1 a commit that this process hasn't seen."""
    state = store.table(table, store.log.refresh().catalog).state
    return [
        IndexInfo(field, index.unique, index.stage == "ready", index.each)
        for field, index in sorted(state.fields.items())
    ]


def create_index(
    store: RecordStore,
    engines: Engines,
    table: str,
    field: str,
    *,
    unique: bool,
    each: bool,
    runner: Runner | None,
) -> int:
    """Build an index while others read and write; the number of the commit from which it is used. One that was
    interrupted, wherever that was, is ended.

    1 LIST sequence, 1 GET a row and 1 PUT a version that is kept, or an element of it, and 2 commits:
    2 PUTs and 4 GETs; a unique one lists and reads the rows once more.

    Args:
        unique: see `firn.Index`.
        each: see `firn.Index`. As long as there is such an index, the database's record tables need a Firn that
            knows the feature `each`.
        runner: where rows are read and entries put; by default on Spark where there are 10,000 rows or more and a
            session is active or given, or they have more than 64 MB.

    Raises:
        ConflictError: there is such an index.
        InvalidInputError: the field can't be indexed, or a row has a list or an object there; with `each`,
            anything but a list of values without parts.
        DuplicateKeyError: `unique`, and two rows have one value.

    Example:
        >>> import firn
        >>> posts = firn.connect("memory://").create_table("posts", kind="records")
        >>> _ = posts.insert_many({"1": {"tags": ["sea", "sun"]}, "2": {"tags": ["sun"]}, "3": {}})
        >>> _ = posts.create_index("tags", each=True)
        >>> [row.id for row in posts.find(tags=firn.Contains("sun"))]
        ['1', '2']
    """

    def choose(rows: Sequence[ObjectInfo]) -> Runner | None:
        if runner is not None or len(rows) < TASKS_FROM:
            return runner
        return engines.runner(sum(row.size for row in rows))

    progress = engines.progress(f"index {table} by {field}")
    return build_index(store, table, field, unique=unique, each=each, choose=choose, progress=progress)


def drop_index(store: RecordStore, table: str, name: str) -> int:
    """Use an index no more, from the commit on whose number is returned. Its entries stay for snapshots before,
    until a sweep. 1 GET, 1 PUT.

    Raises:
        NotFoundError: there is none.
    """
    return define(store, Ddl("unindex", table, field=name))


def wait_until_applied(store: RecordStore, number: int) -> None:
    """Apply until all up to a commit is in rows and indices."""
    while store.log.applied < number:
        store.log.refresh()
        apply(store)


def backfill(store: RecordStore, at: RowsAt, keys: Sequence[str]) -> list[tuple[str, str]]:
    """Put the entries of these rows' versions up to a commit. 1 GET a row, 1 PUT an entry."""
    table, entries = at.table, []
    index = table.state.fields[at.field]
    for row in store.rows(keys):
        due = [version for version in row.versions if table.state.since < version.seq <= at.number]
        for version in due:
            if version.deleted:
                continue
            document = table.documents.decode(store.body(version))
            try:
                values = table.documents.index_values(row.id, document, at.field, each=index.each)
            except InvalidInputError:
                if version is due[0]:
                    raise
                continue  # a version that nobody sees who may use the index
            entries += [
                table.layout.entry(at.field, value, row.id, version.seq, index.generation) for value in values
            ]
    store.bucket.put_many([(key, b"") for key in entries])
    return []


def claims(store: RecordStore, at: RowsAt, keys: Sequence[str]) -> list[tuple[str, str]]:
    """The values of these rows at a snapshot, as claims, each with the row's id. 1 GET a row."""
    found = []
    for row in store.rows(keys):
        version = row.at(at.number)
        if version is not None and version.seq > at.table.state.since and not version.deleted:
            write = RowWrite(at.table.name, row.id)
            found += [(claim, row.id) for claim in values_of(at.table, at.field, write, store.body(version))]
    return found


@dataclass(frozen=True)
class _Rows:
    """All rows of a table, some at a time: here, or by tasks of a runner."""

    store: RecordStore
    choose: Choose
    progress: Progress | None

    def each(self, work: Work, at: RowsAt, skipped: Container[str] = ()) -> Iterator[list[tuple[str, str]]]:
        """The findings in all rows but those whose keys are skipped."""
        layout = at.table.layout
        infos = [info for info in row_objects(self.store.bucket, layout) if info.key not in skipped]
        parts = [infos[start : start + BATCH] for start in range(0, len(infos), BATCH)]
        runner = self.choose(infos)
        if runner is None or not runner.distributed:
            for part in parts:
                yield work(self.store, at, [info.key for info in part])
            return
        plain = at.table.documents
        lean = replace(at.table, documents=replace(plain))
        yield from runner.map(
            _task,
            [[info.key for info in part] for part in parts],
            bucket=self.store.bucket,
            context=(work, self.store.prefix, replace(at, table=lean)),
            weights=[sum(info.size for info in part) for part in parts],
            progress=self.progress,
        )


def _task(bucket: Bucket, context: tuple[Work, str, RowsAt], keys: Sequence[str]) -> list[tuple[str, str]]:
    work, database, at = context
    return work(RecordStore(bucket, database, clock=SystemClock()), at, keys)


def _ready(rows: _Rows, table: Table, name: str, unique: bool) -> int:
    store = rows.store
    ddl = Ddl("ready", table.name, field=name, unique=unique, built=table.state.fields[name].built)
    head = store.log.refresh()
    # Other columns may have other types by now than when the build began.
    table = replace(table, documents=store.table(table.name, head.catalog).documents)
    holders: dict[str, str] = {}
    if unique:
        # How far rows are applied is looked at before any row is (rule 10).
        changes = store.log.changes(table.name, head.number)
        lately = [
            (claim, id)
            for id, (seq, write) in changes.items()
            if seq > table.state.since and not write.deletes
            for claim in values_of(table, name, write, store.body(write))
        ]
        skipped = {table.layout.row(id) for id in changes}
        for found in chain(rows.each(claims, RowsAt(table, name, head.number), skipped), [lately]):
            for claim, id in found:
                if holders.setdefault(claim, id) != id:
                    raise DuplicateKeyError(f"{claim}: rows {holders[claim]!r} and {id!r} have one value")
    return store.group.commit(_Ready(store, DefinitionChange(ddl, head.number), table, holders))


@dataclass(frozen=True)
class _Ready:
    """A unique index may be used if no two rows have one value at d2. Writers after d1 claim theirs, but while
    entries are missing they don't see all that are there: what was written since the look at all rows is judged
    here."""

    store: RecordStore
    definition: DefinitionChange
    table: Table
    holders: dict[str, str]
    txid: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def snapshot(self) -> int:
        return self.definition.snapshot

    def admit(self, moment: Moment) -> sequence.LogTransaction:
        admitted = self.definition.admit(moment)
        if self.definition.ddl.unique:
            documents = self.store.table(self.table.name, moment.catalog).documents
            since = [*(member for _, member in unseen(moment.since)), *moment.earlier]
            self._check(since, replace(self.table, documents=documents))
        return sequence.LogTransaction(self.txid, self.snapshot, ddl=admitted.ddl)

    def _check(self, members: Iterable[sequence.LogTransaction], table: Table) -> None:
        has = dict(self.holders)
        for member in members:
            written = {write.id: write for write in member.writes if write.table == table.name}
            has = {claim: id for claim, id in has.items() if id not in written}
            for write in written.values():
                if write.deletes:
                    continue
                for claim in values_of(table, self.definition.ddl.field, write, self.store.body(write)):
                    if has.setdefault(claim, write.id) != write.id:
                        raise DuplicateKeyError(
                            f"{claim}: row {has[claim]!r} and row {write.id!r}, written meanwhile, have one value"
                        )
