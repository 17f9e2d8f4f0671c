"""Change the definition of a record table: by a commit, or with isolation="row" by a swap of its object.

The numbered rules are those of docs/format/record-log.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from firn.alter import AlterResult
from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.errors import InvalidInputError, TableNotFoundError
from firn.journal import sequence
from firn.journal.definition import dropped, replace_object
from firn.journal.sequence import Catalog, Ddl, Head, Moment
from firn.journal.sequence.catalog import changed
from firn.records.definition.alteration import Alteration, altered, same_schema
from firn.records.definition.definition import RecordDefinition
from firn.records.objects.store import RecordStore
from firn.records.read.snapshot import RecordSnapshot


class _NothingToChangeError(Exception):
    """All is so already."""


def alter(
    store: RecordStore, created: RecordDefinition, asked: Alteration, *, validate: bool, dry_run: bool
) -> AlterResult:
    """See `RecordTable.alter`."""
    head = store.log.refresh()
    change = _Change(store, created, asked, head.number, validate)
    made, lines = change.planned(head.catalog)
    if not lines:
        return AlterResult(str(head.number), ())
    if validate:
        change.check_rows(head, made)
    if dry_run:
        return AlterResult(str(head.number), lines)
    try:
        number = store.group.commit(change)
    except _NothingToChangeError:  # by now: somebody else has done the same
        return AlterResult(str(store.log.head().number), ())
    return AlterResult(str(number), change.lines)


@dataclass
class _Change:
    """An alteration that wants into the log: what it comes to is said by the definitions of then (rule 28)."""

    store: RecordStore
    created: RecordDefinition
    asked: Alteration
    snapshot: int
    validate: bool
    txid: str = field(default_factory=lambda: secrets.token_hex(16))
    lines: tuple[str, ...] = ()

    def planned(self, catalog: Catalog) -> tuple[RecordDefinition, tuple[str, ...]]:
        """The definition that it makes of the one that there is, and a line for each change."""
        now = _definition_in(catalog, self.created)
        return altered(now, self.asked, catalog[self.created.name].fields.keys())

    def admit(self, moment: Moment) -> sequence.LogTransaction:
        catalog = moment.catalog
        made, self.lines = self.planned(catalog)
        if not self.lines:
            raise _NothingToChangeError
        if self.validate:
            since = [member for record in moment.since for member in record.group]
            self._check_written([*since, *moment.earlier], made)
        ddl = _ddl(_definition_in(catalog, self.created), made)
        changed(catalog, ddl, moment.head.number + 1)
        return sequence.LogTransaction(self.txid, self.snapshot, ddl=ddl)

    def check_rows(self, head: Head, made: RecordDefinition) -> None:
        """Refuse rows that don't follow the new definition (rule 31)."""
        if _same_rules(_definition_in(head.catalog, self.created), made):
            return
        at = RecordSnapshot(self.store, head)
        for seen in at.stream(at.table(self.created.name), {}):
            must_follow(made, seen.id, seen.body)

    def _check_written(self, members: Iterable[sequence.LogTransaction], made: RecordDefinition) -> None:
        for member in members:
            for write in member.writes:
                if write.table == self.created.name and not write.deletes:
                    must_follow(made, write.id, self.store.body(write))


def alter_lone(
    bucket: Bucket,
    prefix: str,
    created: RecordDefinition,
    asked: Alteration,
    *,
    clock: Clock,
    dry_run: bool,
    check_rows: Callable[[RecordDefinition], None] | None,
) -> tuple[RecordDefinition, AlterResult]:
    """Replace the definition of a table without transactions; also the new one. `check_rows`: refuses rows that don't
    follow it.

    1 GET and 1 PUT, again if others were faster. Errors as `RecordTable.alter`, and `ConflictError` if others change
    it all the time.
    """

    def change(data: bytes | None, where: str) -> tuple[bytes | None, tuple[RecordDefinition, AlterResult]]:
        now = None if data is None else RecordDefinition.decode(data, where)
        if now is None or now.dropped or now.generation != created.generation:
            raise dropped(bucket, prefix)
        made, lines = altered(now, asked, ())
        if not lines:
            return None, (now, AlterResult(str(now.rev), ()))
        same = _same_rules(now, made)
        if check_rows is not None and not same:
            check_rows(made)
        if dry_run:
            return None, (now, AlterResult(str(now.rev), lines))
        made = replace(made, rev=now.rev + 1, altered=now.altered if same else now.rev + 1)
        return made.encode(), (made, AlterResult(str(made.rev), lines))

    return replace_object(bucket, prefix, change, clock=clock)


def definition_now(store: RecordStore, created: RecordDefinition) -> RecordDefinition:
    """The definition as it was altered last. As `refresh`."""
    return _definition_in(store.log.refresh().catalog, created)


def _definition_in(catalog: Catalog, created: RecordDefinition) -> RecordDefinition:
    state = catalog.get(created.name)
    if state is None:
        raise TableNotFoundError(
            f"there is no record table {created.name!r}: it was dropped, or never created"
        )
    if state.generation != created.generation:
        raise TableNotFoundError(f"the record table {created.name!r} is another by now; open it again")
    return created.as_in(state)


def _ddl(now: RecordDefinition, made: RecordDefinition) -> Ddl:
    """The change that the log is told of."""
    names = now.properties.keys() | made.properties.keys()
    properties = {name: made.properties.get(name) for name in sorted(names)}
    comments = {name: made.comments.get(name) for name in sorted(now.comments.keys() | made.comments.keys())}
    return Ddl(
        "alter",
        now.name,
        generation=now.generation,
        properties=tuple((n, value) for n, value in properties.items() if value != now.properties.get(n)),
        documents=None if _same_rules(now, made) else made.rules,
        comments=tuple((n, text) for n, text in comments.items() if text != now.comments.get(n)),
    )


def _same_rules(now: RecordDefinition, made: RecordDefinition) -> bool:
    """Whether documents may hold the same by both, columns in the same order."""
    return (now.rules.columns, now.gone) == (made.rules.columns, made.gone) and same_schema(
        now.schema, made.schema
    )


def must_follow(made: RecordDefinition, id: str, body: bytes) -> None:
    """Refuse a row that doesn't follow a new definition."""
    try:
        made.documents.must_follow(id, body)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error} Nothing was altered: mend the row, or alter without validate, which judges what is written "
            "from then on."
        ) from None
