"""Writers' transactions as lines for people: those that count, the sides of forks, and what can't be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

from firn.database.database import Database
from firn.errors import CorruptObjectError, FirnError, UnsupportedError
from firn.journal.writer.federation.federation import DEGRADES, Federation, check_known, default_name
from firn.journal.writer.format.actions import Add, CatalogTransaction, Define, Drop, Remove, Tombstones
from firn.journal.writer.format.layout import ObjectName
from firn.journal.writer.history.forks import Node
from firn.journal.writer.history.history import History
from firn.journal.writer.history.listing import Names, list_settled

AT_ONCE = 256
"""Transactions held in memory at a time."""

_BEGINNING = datetime.min.replace(tzinfo=timezone.utc)

Status = Literal["counts", "undecided", "lost", "unknown", "damaged"]


@dataclass(frozen=True)
class TransactionLine:
    """One transaction's object.

    `status`: it "counts"; is on a side of a fork that nobody has decided ("undecided"); on one that was decided
    against ("lost"); "unknown", because its writer's history can't be read; or "damaged", which `detail` explains.
    `uuid` is whole, but of a damaged one no more than its name has. `tables` are those that it touches.
    """

    writer: str
    revision: int
    uuid: str
    status: Status
    previous: str | None = None
    time: datetime | None = None
    op: str = ""
    tables: tuple[str, ...] = ()
    files_added: int = 0
    files_removed: int = 0
    rows_added: int | None = None
    bytes_added: int = 0
    summary: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""


def federation_of(db: Database) -> Federation:
    """The database's writers, read anew: nothing that the connection remembers is taken for true."""
    return Federation(db.bucket, db.prefix, default_name=default_name(db.url))


def chosen_writers(federation: Federation, writer: str | None = None) -> list[str]:
    """All writers, or the one that was named. `NotFoundError` if it isn't there."""
    names = federation.writers()
    if writer is None:
        return names
    check_known([writer], names, federation.bucket.uri(federation.prefix))
    return [writer]


def transaction_lines(
    db: Database, *, writer: str | None = None, at: str | int | datetime | None = None
) -> list[TransactionLine]:
    """All transactions of a database's writers, or of one, that are still there; by time, then writer and revision.

    Cost: 1 LIST, and for each writer what opening it costs, 1 LIST sequence, and 1 GET a transaction.

    Args:
        at: only those that a reader sees as of then.

    Raises:
        NotFoundError: no such writer, or no such version.
        SnapshotTooOldError: `at` was pruned.
    """
    federation = federation_of(db)
    names = chosen_writers(federation, writer)
    heads = None
    if at is not None:
        union = federation.at(at, own=writer)
        heads = {name: version.head.revision for name, version in union.versions.items()}
    lines: list[TransactionLine] = []
    for name in names:
        found = _lines(federation.history(name))
        if heads is not None:
            found = [x for x in found if x.status == "counts" and x.revision <= heads.get(name, 0)]
        lines += found
    return sorted(lines, key=lambda x: (x.time or _BEGINNING, x.writer, x.revision, x.uuid))


def read_each(
    history: History, nodes: Sequence[Node]
) -> Iterator[tuple[Node, CatalogTransaction | FirnError | None]]:
    """Transactions one after another, or what is wrong with each; None for one that is gone. 1 GET each."""
    for start in range(0, len(nodes), AT_ONCE):
        some = [ObjectName(*node, "transaction") for node in nodes[start : start + AT_ONCE]]
        blobs = history.bucket.get_many([history.layout.object_key(name) for name in some])
        for name, blob in zip(some, blobs, strict=True):
            found: CatalogTransaction | FirnError | None = None
            if blob is not None:
                try:
                    found = history.reader.decode_transaction(name, blob.data)
                except (CorruptObjectError, UnsupportedError) as error:
                    found = error
            yield (name.revision, name.prefix), found


def _lines(history: History) -> list[TransactionLine]:
    names = list_settled(history.bucket, history.layout, 0)
    nodes = [(r, p) for r, prefixes in names.transactions.items() for p in prefixes]
    status = _statuses(history, names)
    lines: list[TransactionLine] = []
    for node, found in read_each(history, nodes):
        if isinstance(found, CatalogTransaction):
            lines.append(_line(found, status(node)))
        elif found is not None:
            # It has no time of its own: it stands behind what is before it.
            time = lines[-1].time if lines else None
            lines.append(
                TransactionLine(history.layout.writer, *node, "damaged", time=time, detail=str(found))
            )
    return lines


def _statuses(history: History, names: Names) -> Callable[[Node], Status]:
    try:
        version = history.load()
        counting = set(history.counting(names))
    except DEGRADES:
        return lambda node: "unknown"
    head, forked = version.head.revision, version.fork is not None

    def status(node: Node) -> Status:
        if node in counting:
            return "counts"
        if node[0] > head:  # committed since, or on a side of the fork
            return "undecided" if forked else "counts"
        return "lost"

    return status


def _line(transaction: CatalogTransaction, status: Status) -> TransactionLine:
    adds = [action.file for action in transaction.actions if isinstance(action, Add)]
    tables = [
        action.table for action in transaction.actions if isinstance(action, (Add, Define, Drop, Tombstones))
    ]
    rows = [file.rows for file in adds]
    commit = transaction.commit
    return TransactionLine(
        transaction.writer,
        transaction.revision,
        transaction.uuid,
        status,
        commit.previous,
        datetime.fromtimestamp(commit.time_ms / 1000, timezone.utc),
        commit.op,
        tuple(dict.fromkeys(tables)),
        len(adds),
        sum(isinstance(action, Remove) for action in transaction.actions),
        None if None in rows else sum(r for r in rows if r is not None),
        sum(file.size for file in adds),
        commit.summary,
    )
