"""Unique indices (rule 26): new values are looked for at the snapshot, and claimed in the record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from firn.concurrency.parallel import in_flight
from firn.errors import DuplicateKeyError
from firn.journal.sequence import RowWrite
from firn.records.names.index_values import IndexValue, encode_value
from firn.records.names.names import field_part
from firn.records.objects.store import Table
from firn.records.read.snapshot import RecordSnapshot
from firn.records.write.validation import Unseen, check_claims
from firn.records.write.writes import Buffer, PendingWrite


class Holders:
    """Which rows have the values that one transaction brings in, as its snapshot sees them: looked for once.

    Values that came after the snapshot are in the records since, by claims; so however often a commit is tried, and
    whoever tries it, an answer stands as long as the snapshot and the index do. One that is being built lacks
    entries: once it is ready, what it told before doesn't count.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, int, int, str], set[str]] = {}

    def look(self, snapshot: RecordSnapshot, tables: Mapping[str, Table], writes: Buffer) -> None:
        """Look for all new values. As `find` for each."""
        for table in tables.values():
            new = [item for item in _values(table, writes.of(table.name).values()) if item[3]]
            own = writes.of(table.name).keys()
            self.of(snapshot, table, [(field, value) for _, field, value, _ in new], own)

    def of(
        self,
        snapshot: RecordSnapshot,
        table: Table,
        values: Iterable[tuple[str, IndexValue]],
        own: Collection[str],
    ) -> list[set[str]]:
        """The ids of the rows that have each of these values, by field, but of the transaction's own. As `find` for
        each that is new here."""
        asked = []
        for field, value in values:
            index = table.state.fields[field]
            claim = claim_of(table.name, field, value)
            asked.append(((snapshot.number, index.built, index.ready, claim), field, value))
        unknown = [item for item in asked if item[0] not in self._found]
        found = in_flight(
            lambda item: snapshot.holders(table, item[1], item[2], own), unknown, snapshot.store.in_flight
        )
        self._found.update((item[0], ids) for item, ids in zip(unknown, found, strict=True))
        return [self._found[key] for key, _, _ in asked]


def claims_of(
    snapshot: RecordSnapshot,
    tables: Mapping[str, Table],
    writes: Buffer,
    others: Iterable[Unseen],
    known: Holders,
) -> tuple[str, ...]:
    """The values that a transaction brings into unique indices, as claims. No request where holders are known.

    A value that the row had before is not new, and not claimed, but no other of the transaction's rows may have it.
    Null is claimed by nobody.

    Raises:
        DuplicateKeyError: two of its rows, another's row or another's claim have a value.
    """
    claims: list[str] = []
    others = list(others)
    for table in tables.values():
        own = writes.of(table.name)
        unclaimed = {claim: id for claim, id in _unclaimed(snapshot, table, others) if id not in own}
        has: dict[str, str] = {}
        new: list[tuple[str, str, IndexValue]] = []
        for id, field, value, is_new in _values(table, own.values()):
            claim = claim_of(table.name, field, value)
            _must_be_free(claim, id, {has.setdefault(claim, id)} - {id})
            if is_new:
                new.append((id, field, value))
                claims.append(claim)
        holders = known.of(snapshot, table, [(field, value) for _, field, value in new], own.keys())
        for (id, field, value), found in zip(new, holders, strict=True):
            claim = claim_of(table.name, field, value)
            _must_be_free(claim, id, found | {unclaimed[claim]} if claim in unclaimed else found)
    check_claims(claims, others)
    return tuple(claims)


def _must_be_free(claim: str, id: str, taken: set[str]) -> None:
    if taken:
        raise DuplicateKeyError(
            f"{claim}: row {min(taken)!r} has this value of the unique index already; row {id!r} can't have it too"
        )


def values_of(table: Table, field: str, write: RowWrite, body: bytes) -> Iterator[str]:
    """The values that a row has in an index after a write, as claims; none where they are null."""
    for value in _indexed(table, write.id, table.documents.decode(body), field):
        yield claim_of(table.name, field, value)


def _indexed(table: Table, id: str, document: Mapping[str, Any], field: str) -> list[IndexValue]:
    """The values that a document has in a unique index, but for null."""
    each = table.state.fields[field].each
    values = table.documents.index_values(id, document, field, each=each)
    return [value for value in values if value is not None]


def _unclaimed(snapshot: RecordSnapshot, table: Table, others: Iterable[Unseen]) -> Iterator[tuple[str, str]]:
    """The values of rows that were written after the snapshot, in unique indices that came later still: nobody had
    to claim them. By claim, the row's id."""
    fields = [
        name for name, index in table.state.fields.items() if index.unique and index.built > snapshot.number
    ]
    if not fields:
        return
    written = {write.id: write for _, other in others for write in other.writes if write.table == table.name}
    for write in written.values():
        for field in fields if not write.deletes else ():
            for claim in values_of(table, field, write, snapshot.store.body(write)):
                yield claim, write.id


def claim_of(table: str, field: str, value: IndexValue) -> str:
    """How a record names a value of a unique index.

    >>> claim_of("people", "email", "ada@example.com")
    'people/email/ada%40example.com'
    """
    return f"{table}/{field_part(field)}/{encode_value(value)}"


def _values(table: Table, writes: Iterable[PendingWrite]) -> Iterator[tuple[str, str, IndexValue, bool]]:
    """The ids, fields and values that are unique after these writes, and whether the row didn't have it before."""
    unique = [name for name, index in table.state.fields.items() if index.unique]
    for write in writes:
        if write.body is None or not unique:
            continue
        document = table.documents.decode(write.body)
        for field in unique:
            old = () if write.base is None else _indexed(table, write.id, write.base.document, field)
            before = {encode_value(value) for value in old}
            for value in _indexed(table, write.id, document, field):
                yield write.id, field, value, encode_value(value) not in before
