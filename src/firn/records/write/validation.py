"""Does a transaction still stand after commits that it hasn't seen? (Rules 12 to 15 and 26.) Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from firn.errors import DuplicateKeyError
from firn.journal.sequence import LogRecord, LogTransaction, RowWrite
from firn.records.documents.predicates import Where, matches

RowKey = tuple[str, str]
"""A table and an id."""

Document = Callable[[RowWrite], Mapping[str, Any]]
"""The document that a write puts."""


@dataclass
class Footprint:
    """The reads and writes of a transaction: rows by id, found or missed, and what it looked for, by table."""

    reads: set[RowKey] = field(default_factory=set)
    predicates: list[tuple[str, Where]] = field(default_factory=list)
    writes: set[RowKey] = field(default_factory=set)

    def tables(self) -> set[str]:
        """The tables that the transaction has to do with."""
        return {table for table, _ in (*self.reads, *self.predicates, *self.writes)}


Unseen = tuple[int, LogTransaction]
"""A transaction that was committed meanwhile, and its record's number."""


def unseen(since: Iterable[LogRecord]) -> Iterator[Unseen]:
    """The transactions of records, in their order."""
    for record in since:
        for member in record.group:
            yield record.number, member


@dataclass(frozen=True, slots=True)
class WriteConflict:
    """A write of another transaction that this one can't stand after, and why."""

    number: int
    write: RowWrite
    why: str

    def __str__(self) -> str:
        return (
            f"row {self.write.id!r} of {self.write.table!r} was changed by commit {self.number}, and is {self.why}; "
            "begin again and retry"
        )


def conflict(
    footprint: Footprint, others: Iterable[Unseen], document: Document, *, serializable: bool
) -> WriteConflict | None:
    """The first of others' writes that overlaps with own ones (rule 13), or, serializable, with what was read: an id,
    whether it was found or missed, or a new body that matches what was looked for (rule 14). A body is asked for
    once, whatever the number of predicates."""
    asked: dict[str, list[Where]] = {}
    for table, where in footprint.predicates if serializable else ():
        asked.setdefault(table, []).append(where)
    for number, other in others:
        for write in other.writes:
            key = (write.table, write.id)
            if key in footprint.writes:
                return WriteConflict(number, write, "written by this transaction too")
            if serializable and key in footprint.reads:
                return WriteConflict(number, write, "read by this transaction")
            if write.table in asked and not write.deletes:
                put = document(write)
                if any(matches(put, where, write.id) for where in asked[write.table]):
                    return WriteConflict(number, write, "among what this transaction looked for")
    return None


class DecodedDocuments:
    """Documents of others' writes, for all transactions of a group: each write is decoded once."""

    def __init__(self) -> None:
        # By the write itself, which is kept with its document: equal ones are rare, and to hash one reads its body.
        self._documents: dict[int, tuple[RowWrite, Mapping[str, Any]]] = {}

    def of(self, write: RowWrite, document: Document) -> Mapping[str, Any]:
        """The document of a write, made by `document` if nobody has asked for it."""
        found = self._documents.get(id(write))
        if found is None:
            found = self._documents[id(write)] = (write, document(write))
        return found[1]


def check_claims(claims: Iterable[str], others: Iterable[Unseen]) -> None:
    """Refuse values of unique indices that others brought in (rules 13 and 26).

    Raises:
        DuplicateKeyError: it names the value.
    """
    mine = set(claims)
    for number, other in others:
        for claim in other.claims:
            if claim in mine:
                raise DuplicateKeyError(f"{claim} is taken: commit {number} brought it into the unique index")


def last_write(key: RowKey, others: Iterable[Unseen]) -> tuple[int, RowWrite] | None:
    """The last of these writes of a row, and its record's number; None if there is none (rule 12)."""
    writes = [
        (number, write)
        for number, other in others
        for write in other.writes
        if (write.table, write.id) == key
    ]
    return writes[-1] if writes else None
