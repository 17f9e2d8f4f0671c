"""The surviving objects of a catalog: transactions, claims, markers and data files that still name its
transactions.

An object that names a uuid as the one before it had seen that transaction count. This proves a transaction whose
own object is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from firn.bucket.base import Bucket, ObjectInfo
from firn.errors import CorruptObjectError
from firn.journal.model import DataFile
from firn.journal.writer.format.actions import Add, CatalogTransaction
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import BadName, ObjectName, WriterLayout
from firn.journal.writer.format.marker import Marker
from firn.journal.writer.format.messages import decode_transaction
from firn.journal.writer.format.metadata import FileRecord
from firn.journal.writer.format.state import CatalogState
from firn.journal.writer.history.forks import Node
from firn.journal.writer.history.listing import Names, list_settled
from firn.journal.writer.history.objects import Reader

REBUILT = "rebuilt"
"""The key of a commit's summary that says that it was written by a rebuild. Such a transaction proves nothing:
it was planned from what is looked at again."""


def is_rebuilt(transaction: CatalogTransaction) -> bool:
    return bool(transaction.commit.summary.get(REBUILT))


@dataclass(frozen=True)
class FoundFile:
    """A data file that no transaction names, as it describes itself; `created_ms` is the store's time of it.
    `number` counts the files of one task; with `clocked` it has the clock of the commit that adds it."""

    record: FileRecord
    file: DataFile
    number: int = 0
    clocked: bool = False


@dataclass(frozen=True)
class Footers:
    """The records in the footers of data files and markers, and the reasons why some have none."""

    files: Sequence[FoundFile] = ()
    markers: Sequence[Marker] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)
    foreign: Sequence[str] = ()
    bytes_read: int = 0

    def __add__(self, other: Footers) -> Footers:
        return Footers(
            (*self.files, *other.files),
            (*self.markers, *other.markers),
            {**self.damaged, **other.damaged},
            (*self.foreign, *other.foreign),
            self.bytes_read + other.bytes_read,
        )


@dataclass(frozen=True)
class Objects:
    """The objects below `transactions/`, `claims/`, `markers/` and `data/`. `damaged` maps keys to reasons,
    `unknown` are keys of names that no Firn writes."""

    names: Names
    transactions: Mapping[Node, CatalogTransaction]
    checkpoints: Mapping[Node, CatalogState]
    claims: Mapping[int, CatalogTransaction | None]
    hint: ObjectName | None
    markers: Sequence[ObjectInfo]
    data: Mapping[str, ObjectInfo]
    damaged: Mapping[str, str]
    unknown: Sequence[str]

    @property
    def lost(self) -> set[Node]:
        """Transactions of which there is an object that can't be read."""
        return set(self.names.nodes()) - self.transactions.keys()

    def told(self) -> set[str]:
        """Paths that a transaction or a claim adds; not those of a rebuild, which are looked at again."""
        said = (t for t in self._sound() if not is_rebuilt(t))
        return {a.file.path for t in said for a in t.actions if isinstance(a, Add)}

    def kept(self) -> set[str]:
        """Paths that a checkpoint holds."""
        states = self.checkpoints.values()
        return {path for state in states for table in state.tables.values() for path in table.files}

    def _sound(self) -> Iterable[CatalogTransaction]:
        yield from self.transactions.values()
        yield from (claim for claim in self.claims.values() if claim is not None)


def look(bucket: Bucket, layout: WriterLayout) -> Objects:
    """Everything but footers.

    Cost: 1 LIST sequence each of transactions, claims, markers and data; 1 GET a transaction, checkpoint and claim,
    and 1 for the hint.

    Raises:
        UnsupportedError: something is of a newer format.
    """
    reader = Reader(bucket, layout)
    names = list_settled(bucket, layout, 0)
    damaged: dict[str, str] = {}
    unknown = [layout.transactions_prefix + bad.name for bad in names.bad]
    transactions: dict[Node, CatalogTransaction] = {}
    for node, found in reader.transactions(names.nodes()).items():
        if isinstance(found, CorruptObjectError):
            damaged[layout.object_key(ObjectName(*node, "transaction"))] = str(found)
        else:
            transactions[node] = found
    checkpoints: dict[Node, CatalogState] = {}
    for revision, prefixes in names.checkpoints.items():
        for prefix in prefixes:
            name = ObjectName(revision, prefix, "checkpoint")
            try:
                state = reader.checkpoint(name)
            except CorruptObjectError as error:
                damaged[layout.object_key(name)] = str(error)
                continue
            if state is not None:
                checkpoints[revision, prefix] = state
    claims, markers = _claims(bucket, layout, damaged, unknown), []
    for info in bucket.list(layout.markers_prefix).objects:
        if isinstance(layout.parse_marker(info.key), BadName):
            unknown.append(info.key)
        else:
            markers.append(info)
    data: dict[str, ObjectInfo] = {}
    for info in bucket.list(layout.data_prefix).objects:
        if layout.parse_data(info.key) is None:
            unknown.append(info.key)
        else:
            data[info.key] = info
    return Objects(
        names, transactions, checkpoints, claims, reader.hint(), markers, data, damaged, tuple(unknown)
    )


def _claims(
    bucket: Bucket, layout: WriterLayout, damaged: dict[str, str], unknown: list[str]
) -> dict[int, CatalogTransaction | None]:
    revisions: list[int] = []
    for info in bucket.list(layout.claims_prefix).objects:
        revision = layout.parse_claim(info.key)
        if revision is None:
            unknown.append(info.key)
        else:
            revisions.append(revision)
    found: dict[int, CatalogTransaction | None] = {}
    for revision, blob in zip(
        revisions, bucket.get_many([layout.claim_key(r) for r in revisions]), strict=True
    ):
        if blob is None:
            continue
        key = layout.claim_key(revision)
        try:
            transaction = decode_transaction(blob.data, where=bucket.uri(key))
        except CorruptObjectError as error:
            damaged[key] = str(error)
            found[revision] = None
            continue
        own = (transaction.revision, transaction.writer, transaction.database)
        found[revision] = transaction if own == (revision, layout.writer, layout.database) else None
        if found[revision] is None:
            damaged[key] = f"{bucket.uri(key)} holds revision {own[0]} of {own[2]!r} of the writer {own[1]!r}"
    return found


# -- candidates


@dataclass
class Candidate:
    """A transaction that may have been one of the history. `previous` is None where nothing tells it, and ''
    for revision 1. `exists`: it has, or had, an object of its own; `proven`: something that stands on it was
    seen."""

    revision: int
    uuid: str
    previous: str | None = None
    transaction: CatalogTransaction | None = None
    marker: Marker | None = None
    files: list[FoundFile] = field(default_factory=list)
    exists: bool = False
    proven: bool = False

    @property
    def is_rebuilt(self) -> bool:
        return self.transaction is not None and is_rebuilt(self.transaction)

    @property
    def tells(self) -> bool:
        """Whether there is more of it than its uuid."""
        return self.transaction is not None or self.marker is not None or bool(self.files)


Candidates = dict[int, dict[str, Candidate]]
"""By revision and uuid."""

MadeUp = Callable[[int, str], str]
"""A uuid for a revision that begins with some digits: always the same."""


def candidates(objects: Objects, footers: Footers, made_up: MadeUp) -> Candidates:
    """All transactions that anything tells of."""
    found: Candidates = {}

    def at(revision: int, uuid: str) -> Candidate:
        return found.setdefault(revision, {}).setdefault(uuid, Candidate(revision, uuid))

    def before(child: Candidate, previous: str | None, *, proves: bool) -> None:
        child.previous = previous or ""
        if previous is not None:
            parent = at(child.revision - 1, previous)
            parent.proven |= proves

    claims = [claim for claim in objects.claims.values() if claim is not None and _fits(objects.names, claim)]
    for transaction in (*claims, *objects.transactions.values()):
        one = at(transaction.revision, transaction.uuid)
        one.transaction, one.exists = transaction, True
    for transaction in (*claims, *objects.transactions.values()):
        one = at(transaction.revision, transaction.uuid)
        before(one, transaction.commit.previous, proves=not one.is_rebuilt)
    for marker in footers.markers:
        one = at(marker.revision, marker.uuid)
        one.marker = marker
        before(one, marker.transaction.commit.previous, proves=not is_rebuilt(marker.transaction))
    for file in footers.files:
        one = at(file.record.revision, file.record.uuid)
        one.files.append(file)
        before(one, file.record.previous, proves=True)
    for state in objects.checkpoints.values():
        at(state.head.revision, state.head.uuid or "")
    for revision, prefix in sorted(objects.lost):
        one = _of_prefix(found, revision, prefix) or at(revision, made_up(revision, prefix))
        one.exists = True
    for revision, prefixes in objects.names.checkpoints.items():
        for prefix in prefixes:
            one = _of_prefix(found, revision, prefix) or at(revision, made_up(revision, prefix))
            one.proven = one.exists = True
    if objects.hint is not None and objects.hint.revision > 0:
        known = _of_prefix(found, objects.hint.revision, objects.hint.prefix)
        if known is not None:
            known.proven = True
    return found


def _fits(names: Names, claim: CatalogTransaction) -> bool:
    """Whether a claim can be of this history: a number that was pruned can be won again, in vain."""
    here, below = names.at(claim.revision), names.at(claim.revision - 1)
    if here and prefix_of(claim.uuid) not in here:
        return False
    return not below or prefix_of(claim.commit.previous or "") in below


def _of_prefix(found: Candidates, revision: int, prefix: str) -> Candidate | None:
    pool = found.get(revision, {})
    return next((one for uuid, one in sorted(pool.items()) if prefix_of(uuid) == prefix), None)
