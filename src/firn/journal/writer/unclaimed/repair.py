"""Repair: a person decides a fork, by a transaction on the tip of the branch to keep (rules 11 to 13).

It mends nothing else: `firn rebuild` restores damaged or missing objects. Stop every process of that writer first;
the command asks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firn.bucket.base import Bucket
from firn.bucket.presence import is_there
from firn.errors import (
    CorruptObjectError,
    FirnError,
    ForkError,
    HandleClosedError,
    InvalidInputError,
    NotFoundError,
)
from firn.journal.writer.attempts import persist
from firn.journal.writer.commit.claims import Claims, check_claims_can_be
from firn.journal.writer.commit.pending import Pending
from firn.journal.writer.format.actions import Add, CatalogTransaction, CommitRecord, Resolve
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import ObjectName, WriterLayout
from firn.journal.writer.format.marker import encode_marker
from firn.journal.writer.format.messages import encode_transaction
from firn.journal.writer.format.state import CatalogState, follow, replay
from firn.journal.writer.history.forks import Chain, Fork, Link, Node
from firn.journal.writer.history.history import CatalogVersion, History
from firn.journal.writer.history.listing import Names, list_settled
from firn.journal.writer.history.objects import links_of
from firn.journal.writer.unclaimed.branches import (
    Branch,
    LostBranches,
    NoBranch,
    decided,
    lost_nodes,
    plan_branch,
)

NAMED = 10
"""Objects that a message lists."""

_KEEP = re.compile(r"[0-9a-f]{1,32}")

Found = Mapping[Node, CatalogTransaction | CorruptObjectError]


@dataclass(frozen=True)
class RepairReport:
    """The result of a repair: what it decided, or would decide.

    `kept` is the uuid that was named, in full, and `revisions` are those that had a fork. `lost` are the keys of
    the transactions that count no more; they stay until they are pruned. `written` are the keys of the
    transactions that say so, none where they had been decided so before.
    """

    kept: str
    revisions: tuple[int, ...]
    lost: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    dry_run: bool = False


def repair(bucket: Bucket, layout: WriterLayout, keep: str, *, dry_run: bool = False) -> RepairReport:
    """Decide a fork: the branch that holds the transaction `keep` counts, and all others don't. See `Database.repair`
    for arguments and errors.

    Run again after a crash, it sends the same bytes under the same name.

    Cost: what opening the catalog costs, 1 LIST sequence and 1 GET a transaction from the fork on, 1 LIST sequence
    of data files and 1 HEAD for each that lies elsewhere; then 1 DELETE and 2 PUTs, and opening it again. 2 PUTs
    more for each revision by which a branch that loses is longer. Where the branch is kept by claims, 1 PUT and 1
    GET more each.
    If several forks stand above one another, those below `keep` are decided too. After a `StoreError` or an
    `OutcomeUnknownError` repair again.
    """
    wanted = keep.replace("-", "").lower()
    if _KEEP.fullmatch(wanted) is None:
        raise InvalidInputError(
            f"{keep!r} isn't a transaction's uuid: it has up to 32 hexadecimal digits. `firn log` shows them."
        )
    # A claim that its owner left is finished first; the repair then goes on above it.
    return persist(lambda: _Repair(bucket, layout, wanted, dry_run).run(), HandleClosedError)


class _Repair:
    """One attempt."""

    def __init__(self, bucket: Bucket, layout: WriterLayout, keep: str, dry_run: bool) -> None:
        self.bucket, self.layout, self.keep, self.dry_run = bucket, layout, keep, dry_run
        self.history = History(bucket, layout)
        self.reader = self.history.reader

    def run(self) -> RepairReport:
        version = self.history.load(hint=False)
        names = list_settled(self.bucket, self.layout, 0)
        if version.fork is None:
            return self._decided(version, names)
        fork = version.fork
        nodes = names.nodes(fork.revision)
        found = self.reader.transactions(nodes)
        kept = self._kept(fork, found)
        branch = self._branch(version, names, fork, found, kept)
        transactions = [self._sound(node, found) for node in branch.path]
        self._check_files(transactions)
        state = replay(version.state, ((t, self._where(t)) for t in transactions))
        named = [self._sound(node, found) for node in branch.resolves]
        resolves = tuple(Resolve(transaction.revision, transaction.uuid) for transaction in named)
        written = self._write(state, resolves, names.tip)
        return RepairReport(
            kept.uuid,
            tuple(resolve.revision for resolve in resolves),
            tuple(self._key(node) for node in nodes if node not in branch.path),
            written,
            self.dry_run,
        )

    def _where(self, transaction: CatalogTransaction) -> str:
        return self.bucket.uri(self.layout.transaction_key(transaction.revision, transaction.uuid))

    def _key(self, node: Node) -> str:
        return self.layout.object_key(ObjectName(*node, "transaction"))

    # -- what to keep

    def _decided(self, version: CatalogVersion, names: Names) -> RepairReport:
        """No fork: it was decided so, by a repair that died after it or by a commit, or there is an error."""
        forked = names.forked()
        counting = [] if forked is None else self.history.counting(names)
        nodes = [(r, p) for r, p in counting if len(names.at(r)) > 1 and p.startswith(prefix_of(self.keep))]
        for transaction in self.reader.transactions(nodes).values():
            if isinstance(transaction, CatalogTransaction) and transaction.uuid.startswith(self.keep):
                lost = LostBranches(lost_nodes(dict(counting), names), {})
                behind = lost.reach(version.head.revision)
                written = self._write(version.state, (), names.tip) if behind else ()
                return RepairReport(transaction.uuid, (transaction.revision,), (), written, self.dry_run)
        claimed = version.head.claimed and forked is None
        why = "it is kept by claims, by which there are none" if claimed else "every revision is decided"
        raise InvalidInputError(
            f"{self.history.where} has no fork: {why}. Repair decides forks only; "
            f"`firn rebuild --writer {self.layout.writer}` brings back what is damaged or missing."
        )

    def _kept(self, fork: Fork, found: Found) -> CatalogTransaction:
        matching = [
            node
            for node, transaction in found.items()
            if node[1].startswith(prefix_of(self.keep))
            and (isinstance(transaction, CorruptObjectError) or transaction.uuid.startswith(self.keep))
        ]
        if not matching:
            raise NotFoundError(
                f"{self.history.where} has no transaction {self.keep} from revision {fork.revision} on, where it has "
                f"{fork}. Name one of these, or one above them."
            )
        if len(matching) > 1:
            listed = ", ".join(self._key(node).rpartition("/")[2] for node in matching[:NAMED])
            raise InvalidInputError(
                f"{self.keep} is the beginning of {len(matching)} transactions of {self.history.where}: {listed}. "
                "Give more digits."
            )
        return self._sound(matching[0], found)

    def _sound(self, node: Node, found: Found) -> CatalogTransaction:
        transaction = found[node]
        if isinstance(transaction, CorruptObjectError):
            raise transaction
        return transaction

    def _branch(
        self, version: CatalogVersion, names: Names, fork: Fork, found: Found, kept: CatalogTransaction
    ) -> Branch:
        base = (version.head.revision, prefix_of(version.head.uuid or ""))
        links: dict[int, Sequence[Link]] = dict(links_of(found))
        checkpoints = {r: p for r, p in names.checkpoints.items() if r >= fork.revision}
        try:
            branch = plan_branch(base, links, checkpoints, (kept.revision, prefix_of(kept.uuid)))
        except NoBranch as error:
            raise InvalidInputError(
                f"{self.history.where} has {fork}, and {kept.uuid} can't be kept: it {error}."
            ) from None
        seen = decided(base, links, checkpoints, branch)
        if seen is not None:
            raise self._undecided(seen, kept, branch, found)
        return branch

    def _undecided(self, seen: Chain, kept: CatalogTransaction, branch: Branch, found: Found) -> FirnError:
        """The obstacle to the repair, and the remedy."""
        why = seen.fork or seen.anomaly
        still = f"{self.history.where} can't be repaired in favour of {kept.uuid}: it would still have {why}"
        for node in sorted(set(found) - set(branch.path)):
            transaction, where = found[node], self.bucket.uri(self._key(node))
            if isinstance(transaction, CorruptObjectError):
                return CorruptObjectError(
                    f"{still}. {where} is damaged, so that nobody can tell which side it is on: copy it back, "
                    "or delete it while every process is stopped; repair again if the fork stays."
                )
            if transaction.resolves:
                return ForkError(
                    f"{still}. {where} is a repair that kept another side: if that was wrong, delete it while every "
                    "process is stopped, and repair again."
                )
        return ForkError(
            f"{still}. Transactions of the other side are missing: copy them back and repair again, or delete those "
            "of it that are left, the newest first, while every process is stopped."
        )

    def _check_files(self, transactions: Sequence[CatalogTransaction]) -> None:
        """Rule 11: the files that the branch has added are there."""
        adds = (a.file for t in transactions for a in t.actions if isinstance(a, Add))
        paths = {file.path for file in adds if file.inlined is None}
        there = {info.key for info in self.bucket.list(self.layout.data_prefix).objects}
        gone = (p for p in paths - there if self.layout.owns(p) or not is_there(self.bucket, p))
        missing = sorted(gone)
        if missing:
            listed = ", ".join(self.bucket.uri(path) for path in missing[:NAMED])
            more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
            raise CorruptObjectError(
                f"the branch of {transactions[0].uuid} in {self.history.where} lacks {len(missing)} data files: "
                f"{listed}{more}. Copy them back, or keep another branch."
            )

    # -- saying so

    def _write(self, state: CatalogState, resolves: tuple[Resolve, ...], tip: int) -> tuple[str, ...]:
        """Write it, and then empty transactions until the head is above all losing branches: a writer takes objects
        above its head for another process's."""
        pending = self._pending(state, resolves)
        written = [pending]
        while pending.revision <= tip:
            pending = self._pending(pending.state, ())
            written.append(pending)
        if not self.dry_run:
            # The hint may lead readers past the fork, to a branch that loses.
            self.bucket.delete(self.layout.hint_key)
            for pending in written:
                self._publish(pending)
            self._check_decided(pending)
        return tuple(pending.key for pending in written)

    def _pending(self, state: CatalogState, resolves: tuple[Resolve, ...]) -> Pending:
        """The transaction to write: always the same one for the same tip, so that a second attempt is no rival."""
        head, layout = state.head, self.layout
        if head.claimed:
            check_claims_can_be(self.bucket, layout, "Repair")
        named = "\0".join([layout.writer, layout.database, head.uuid or "", *map(str, resolves)])
        uuid = hashlib.sha256(f"repair\0{named}".encode()).hexdigest()[:32]
        record = CommitRecord(uuid, head.uuid, head.time_ms, "repair", claimed=head.claimed)
        transaction = CatalogTransaction(
            layout.writer, layout.database, head.revision + 1, resolves, record, state.format
        )
        key = layout.transaction_key(transaction.revision, uuid)
        return Pending(key, transaction, encode_transaction(transaction), head, follow(state, transaction))

    def _publish(self, pending: Pending) -> None:
        marker = self.layout.marker_key(pending.revision, pending.uuid)
        self.bucket.put(marker, encode_marker(self.layout, pending.transaction))
        if pending.transaction.commit.claimed:
            Claims(self.reader).publish(pending, again=False)
        else:
            self.bucket.put(pending.key, pending.body)

    def _check_decided(self, last: Pending) -> None:
        after = History(self.bucket, self.layout).load(hint=False)
        if after.fork is not None or after.head != last.state.head:
            raise ForkError(
                f"{self.bucket.uri(last.key)} was written, and {self.history.where} has "
                f"{after.fork or 'gone on'}: another process still writes under this writer id. Stop it, and repair "
                "again if the fork stays."
            )
