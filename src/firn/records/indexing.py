"""Build an index while others write (rule 27), and drop one.

The commit d1 says that it is being built: who commits after that adds entries. Once all up to d1 is applied, rows
have every version that lacks one; these get theirs, and the commit d2 says that it may be used from there on.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from firn.errors import ConflictError, DuplicateKeyError, InvalidInputError, NotFoundError
from firn.journal import sequence
from firn.journal.sequence import Ddl, Moment
from firn.records.applying import apply
from firn.records.definitions import Definition, define
from firn.records.snapshot import Snapshot
from firn.records.store import RecordStore, Table
from firn.records.uniqueness import claim_of, values_of
from firn.records.validating import unseen

BATCH = 1000
"""Rows that are read at once."""


def build_index(store: RecordStore, table: str, name: str, *, unique: bool = False) -> int:
    """Build an index on a field, or go on with a build that was interrupted; the commit from which it is used.

    2 commits; as `apply`; 1 LIST sequence, 1 GET a row and 1 PUT a version that is kept; a unique one: as `scan`.

    Raises:
        ConflictError: there is such an index.
        InvalidInputError: a row has a list or an object there; the index is not made.
        DuplicateKeyError: two rows have one value; the index is not made.
    """
    opened = store.table(table, store.log.refresh().catalog)
    opened.documents.check_field(name)
    if name not in opened.state.fields:
        define(store, Ddl("build", table, field=name, unique=unique))
        opened = store.table(table, store.log.head().catalog)
    index = opened.state.fields.get(name)
    if index is None:
        raise ConflictError(
            f"the index on {name!r} of {table!r} was dropped while it was built; build it again"
        )
    if index.stage == "ready" or index.unique != unique:
        raise ConflictError(f"the table {table!r} has an index on {name!r}; use it, or drop it first")
    built = index.built
    try:
        wait_until_applied(store, built)
        keys = [info.key for info in store.bucket.list(opened.layout.rows).objects]
        for start in range(0, len(keys), BATCH):
            backfill(store, opened, name, keys[start : start + BATCH], upto=built)
        return _ready(store, opened, name, unique)
    except (DuplicateKeyError, InvalidInputError):
        with suppress(NotFoundError):  # by somebody else
            define(store, Ddl("unindex", table, field=name, built=built))
        raise


def drop_index(store: RecordStore, table: str, name: str) -> int:
    """Commit that an index isn't used any more from this commit on, which is returned. As `define`. Its entries stay
    for snapshots before, until a sweep.

    Raises:
        NotFoundError: there is none.
    """
    return define(store, Ddl("unindex", table, field=name))


def wait_until_applied(store: RecordStore, number: int) -> None:
    """Apply until all up to a commit is in rows and indices."""
    while store.log.applied < number:
        store.log.refresh()
        apply(store)


def backfill(store: RecordStore, table: Table, name: str, keys: Sequence[str], *, upto: int) -> int:
    """Put the entries of these rows' versions up to a commit; how many. 1 GET a row, 1 PUT an entry."""
    entries, generation = [], table.state.fields[name].generation
    for row in store.rows([key for key in keys if table.layout.row_name(key) is not None]):
        for version in row.versions:
            if table.state.since < version.seq <= upto and not version.deleted:
                document = table.documents.decode(store.body(version))
                value = table.documents.index_value(row.id, document, name)
                entries.append(table.layout.entry(name, value, row.id, version.seq, generation))
    store.bucket.put_many([(key, b"") for key in entries])
    return len(entries)


def _ready(store: RecordStore, table: Table, name: str, unique: bool) -> int:
    ddl = Ddl("ready", table.name, field=name, unique=unique, built=table.state.fields[name].built)
    head = store.log.refresh()
    holders: dict[str, str] = {}
    if unique:
        for id, seen in Snapshot(store, head).scan(table, {}).items():
            value = table.documents.index_value(id, seen.document, name)
            claim = claim_of(table.name, name, value)
            if value is not None and holders.setdefault(claim, id) != id:
                raise DuplicateKeyError(f"{claim}: rows {holders[claim]!r} and {id!r} have one value")
    return store.group.commit(_Ready(store, Definition(ddl, head.number), table, holders))


@dataclass(frozen=True)
class _Ready:
    """A unique index may be used if no two rows have one value at d2. Writers after d1 claim theirs, but while
    entries are missing they don't see all that are there: what was written since the look at all rows is judged
    here."""

    store: RecordStore
    definition: Definition
    table: Table
    holders: dict[str, str]
    txid: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def snapshot(self) -> int:
        return self.definition.snapshot

    def admit(self, moment: Moment) -> sequence.Transaction:
        admitted = self.definition.admit(moment)
        if self.definition.ddl.unique:
            self._check([*(member for _, member in unseen(moment.since)), *moment.earlier])
        return sequence.Transaction(self.txid, self.snapshot, ddl=admitted.ddl)

    def _check(self, members: Iterable[sequence.Transaction]) -> None:
        has = dict(self.holders)
        for member in members:
            written = {write.id: write for write in member.writes if write.table == self.table.name}
            has = {claim: id for claim, id in has.items() if id not in written}
            for write in written.values():
                if write.deletes:
                    continue
                for claim in values_of(self.table, self.definition.ddl.field, write, self.store.body(write)):
                    if has.setdefault(claim, write.id) != write.id:
                        raise DuplicateKeyError(
                            f"{claim}: row {has[claim]!r} and row {write.id!r}, written meanwhile, have one value"
                        )
