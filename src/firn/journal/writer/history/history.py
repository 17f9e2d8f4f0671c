"""Reading a catalog: open, refresh, and go back in time (rules 1 to 4, 11 to 13, 19 and 23).

Opening is one LIST, one GET of the newest checkpoint and one GET a transaction after it. A hint that is written
with each checkpoint says from where to list; the LIST has to show what it says, or all is listed.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from firn.bucket.base import Bucket
from firn.errors import CorruptObjectError, ForkError, InvalidInputError, NotFoundError, SnapshotTooOldError
from firn.journal.writer.attempts import ATTEMPTS
from firn.journal.writer.format.actions import CatalogTransaction
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import ObjectName, WriterLayout
from firn.journal.writer.format.state import CatalogHead, CatalogState, replay
from firn.journal.writer.history.forks import Chain, Fork, Link, Node, decide
from firn.journal.writer.history.listing import Names, list_settled
from firn.journal.writer.history.objects import Reader, links_of


@dataclass(frozen=True)
class CatalogVersion:
    """A catalog at one revision. With a `fork`, the newest one that both sides have in common."""

    state: CatalogState
    fork: Fork | None = None
    warnings: tuple[str, ...] = ()

    @property
    def head(self) -> CatalogHead:
        return self.state.head


class _Anomaly(Exception):
    """An impossible state, unless the LIST was out of date."""


@dataclass(frozen=True)
class _Walk:
    """A version and how it was reached: the decided transactions above the base, and their times."""

    version: CatalogVersion
    nodes: tuple[Node, ...]
    times: dict[int, int]


class History:
    """One writer's history of a database, as a reader sees it. Safe to use from several threads.

    It remembers the newest version that it saw: `load` never goes back behind it.
    """

    def __init__(self, bucket: Bucket, layout: WriterLayout) -> None:
        self.bucket, self.layout = bucket, layout
        self.reader = Reader(bucket, layout)
        self._mutex = threading.Lock()
        self._names = Names()
        self._version: CatalogVersion | None = None
        self._chain: dict[int, str] = {}
        self._times: dict[int, int] = {}

    @property
    def where(self) -> str:
        """The catalog's URL, for messages."""
        return self.bucket.uri(self.layout.root)

    @property
    def has_forks(self) -> bool:
        """Whether any revision listed so far has several transactions, decided or not."""
        return self._names.forked() is not None

    @property
    def newest_checkpoint(self) -> int:
        """The highest revision with a checkpoint among those listed so far; 0 for none."""
        return max(self._names.checkpoints, default=0)

    def load(self, *, hint: bool = True) -> CatalogVersion:
        """The newest version. Without the `hint`, a fork is seen even where a checkpoint above it hides it.

        Cost: 1 LIST from the head on and 1 GET a new transaction; at first 1 GET of the hint, 1 LIST sequence from
        the newest checkpoint on (from the beginning without a hint), 1 GET of that checkpoint.

        Raises:
            ForkError: two processes wrote under this writer's id, and this reader has seen one of the
                branches: the commits that it saw may never have happened.
            CorruptObjectError: a transaction is damaged or missing.
            SnapshotTooOldError: no checkpoint can be read, and the history before them was pruned.
        """
        with self._mutex:
            before = self._version
            walk = self._refreshed(before) if before is not None and before.fork is None else None
            if walk is None:
                walk = self._opened(use_hint=hint and before is None)
                self._chain, self._times = {}, {}
            if before is not None:
                self._check_forward(before, walk.version)
            self._remember(walk)
            return walk.version

    def decided(self, question: str, then: str) -> CatalogVersion:
        """`load`, where nobody has to choose a side.

        Raises:
            ForkError: the history has a fork: `question` can't be told, and the caller is to `then` it afterwards.
        """
        version = self.load()
        if version.fork is not None:
            raise ForkError(
                f"{self.where} has {version.fork}: {question} can't be told. Choose a side with "
                f"`firn repair --keep UUID`, and {then} then."
            )
        return version

    def advance(self, before: CatalogHead, state: CatalogState) -> None:
        """Take over what this process has just committed after `before`, instead of reading it back."""
        head = state.head
        with self._mutex:
            known = self._version
            if known is None or known.fork is not None or known.head != before or head.uuid is None:
                return
            name = ObjectName(head.revision, prefix_of(head.uuid), "transaction")
            self._names = self._names.joined(Names(self._names.since, {name.revision: (name.prefix,)}))
            times = {head.revision: head.time_ms}
            self._remember(
                _Walk(CatalogVersion(state, None, known.warnings), ((name.revision, name.prefix),), times)
            )

    def note_checkpoint(self, name: ObjectName) -> None:
        """Take over that this process has just written a checkpoint, instead of listing it."""
        with self._mutex:
            self._names = self._names.joined(Names(self._names.since, {}, {name.revision: (name.prefix,)}))

    def at(self, revision: int) -> CatalogVersion:
        """The catalog as it was at a revision; 0 is the empty start.

        Cost: 1 GET of the checkpoint before it and 1 GET a transaction between; 1 LIST sequence more for
        what is older than everything that was listed so far.

        Raises:
            NotFoundError: there is no such revision yet.
            ForkError: the revision is on one side of an undecided fork.
            SnapshotTooOldError: it was pruned.
        """
        newest = self._known()
        if revision < 0:
            raise InvalidInputError(
                f"revision {revision} of {self.where}: revisions begin with 0, the empty start."
            )
        if revision == newest.head.revision:
            return newest
        if revision > newest.head.revision:
            if newest.fork is not None:
                raise self._forked(newest.fork)
            raise NotFoundError(
                f"{self.where} has no revision {revision}; the newest is {newest.head.revision}."
            )
        with self._mutex:
            if revision < self._names.since:
                self._names = list_settled(self.bucket, self.layout, 0)
            try:
                return self._settled(revision, self._names).version
            except SnapshotTooOldError:
                if self._names.since == 0:
                    raise
            return self._settled(revision).version

    def at_time(self, time_ms: int) -> CatalogVersion:
        """The longest prefix of the history that was committed at `time_ms` (Unix milliseconds) or before.

        Commit times never fall, so it is found by halving. Cost: 1 LIST sequence, 1 GET a halving, then as `at`.
        """
        newest = self._known()
        if newest.head.time_ms <= time_ms:
            return newest
        with self._mutex:
            for left in reversed(range(ATTEMPTS)):
                if self._names.since > 0:
                    self._names = list_settled(self.bucket, self.layout, 0)
                try:
                    revision = self._revision_at(newest.head.revision, time_ms)
                    break
                except _Anomaly as anomaly:
                    if not left:
                        raise SnapshotTooOldError(f"{anomaly} Read a later one.") from None
                    # It was listed before others pruned.
                    self._names = list_settled(self.bucket, self.layout, 0)
        return self.at(revision) if revision else CatalogVersion(self._empty())

    def _revision_at(self, newest: int, time_ms: int) -> int:
        """The last listed revision of that time or before; 0 for the empty start."""
        low, high = newest, newest
        while low > 1 and self._names.at(low - 1):
            low -= 1
        if self._time_of(low) > time_ms:
            if low > 1:
                raise SnapshotTooOldError(
                    f"{self.where} begins with revision {low}, which is newer than that time; what was before it was "
                    "pruned. Read as of a later time."
                )
            return 0
        while high - low > 1:  # low is in time, high isn't
            middle = (low + high) // 2
            low, high = (middle, high) if self._time_of(middle) <= time_ms else (low, middle)
        return low

    def transactions(self, after: int = 0) -> list[CatalogTransaction]:
        """The transactions above revision `after` that are still there, oldest first. 1 GET each; 1 LIST sequence
        more where they are older than everything that was listed so far."""
        newest = self._known()
        with self._mutex:
            if self._names.since > after + 1:
                self._names = self._names.joined(list_settled(self.bucket, self.layout, after + 1))
            found = self.reader.transactions(self._counting(self._names, newest.head.revision, after))
        return [_sound(transaction) for transaction in found.values()]

    def counting(self, names: Names) -> list[Node]:
        """Those of the listed transactions that count, oldest first: without a gap from the newest on down.

        Free of requests, but where a revision has several and hasn't been read yet. Raises `ForkError` where nobody
        has decided between them.
        """
        newest = self._known().head.revision
        with self._mutex:
            return self._counting(names, max((r for r in names.transactions if r <= newest), default=0), 0)

    # -- how a version is reached

    def _known(self) -> CatalogVersion:
        return self._version or self.load()

    def _remember(self, walk: _Walk) -> None:
        self._version = walk.version
        self._chain.update(walk.nodes)
        self._times.update(walk.times)

    def _check_forward(self, before: CatalogVersion, now: CatalogVersion) -> None:
        if now.head.revision >= before.head.revision:
            return
        if now.fork is not None:
            raise self._forked(now.fork)
        raise CorruptObjectError(
            f"{self.where} had revision {before.head.revision} and now ends at {now.head.revision}: "
            "transactions were deleted. Copy them back, or rebuild the catalog with "
            f"`firn rebuild --writer {self.layout.writer} --force`, which brings all data files back, those too that "
            "were never committed."
        )

    def _forked(self, fork: Fork) -> ForkError:
        return ForkError(
            f"{self.where} has {fork}: two processes wrote under the writer id {self.layout.writer!r}. Stop all but "
            f"one of them; if the fork stays, choose a side with `firn repair --keep UUID`."
        )

    def _refreshed(self, before: CatalogVersion) -> _Walk | None:
        """By a LIST from the head on; None where that isn't enough to tell."""
        head = before.head
        if head.uuid is None:
            return None
        names = list_settled(self.bucket, self.layout, head.revision)
        prefix = prefix_of(head.uuid)
        if names.forked() is not None or prefix not in names.transactions.get(head.revision, ()):
            return None
        try:
            walk = self._walk_from(before.state, names, names.tip)
        except (_Anomaly, CorruptObjectError):
            return None
        self._names = self._names.joined(names)
        return _Walk(CatalogVersion(walk.version.state, None, before.warnings), walk.nodes, walk.times)

    def _opened(self, *, use_hint: bool) -> _Walk:
        if use_hint:
            walk = self._opened_by_hint()
            if walk is not None:
                return walk
        return self._settled()

    def _opened_by_hint(self) -> _Walk | None:
        hint = self.reader.hint()
        if hint is None or hint.revision < 1:
            return None
        names = list_settled(self.bucket, self.layout, hint.revision)
        if names.forked() is not None or hint.prefix not in names.checkpoints.get(hint.revision, ()):
            return None
        try:
            walk = self._walk(names, None)
        except (_Anomaly, CorruptObjectError, SnapshotTooOldError):
            return None
        self._names = names
        return walk

    def _settled(self, upto: int | None = None, names: Names | None = None) -> _Walk:
        """`_walk`, with a LIST anew, `ATTEMPTS` times, before an anomaly is reported (rule 2)."""
        error: Exception | None = None
        for left in reversed(range(ATTEMPTS)):
            if names is None:
                names = list_settled(self.bucket, self.layout, 0)
            try:
                found = self._walk(names, upto, last_try=left == 0)
            except (_Anomaly, CorruptObjectError) as anomaly:
                error, names = anomaly, None
                continue
            self._names = names
            return found
        if isinstance(error, CorruptObjectError):
            raise error
        raise CorruptObjectError(
            f"{self.where} can't be read: {error}. Copy the missing object back, or rebuild the catalog from its "
            f"data files with `firn rebuild --writer {self.layout.writer}`."
        ) from error

    def _walk(self, names: Names, upto: int | None, *, last_try: bool = False) -> _Walk:
        """From the newest base that serves, up to `upto` or the tip.

        A damaged transaction proves nothing of its parent, so it is left to the `last_try` to do without it.
        """
        forked = names.forked()
        if forked is not None and upto is not None and upto < forked:
            forked = None
        last = names.tip if upto is None or forked is not None else upto
        warnings = [
            f"{self.bucket.uri(self.layout.transactions_prefix + b.name)} was ignored: {b.reason}"
            for b in names.bad
        ]
        sound = len(warnings)
        try:
            base, names = self._base(names, forked, last if upto is None else upto, warnings)
        except SnapshotTooOldError as error:
            if last_try or len(warnings) == sound:
                raise
            raise _Anomaly(str(error)) from error
        walk = self._walk_from(base, names, last, lenient=last_try)
        version = walk.version
        if version.fork is not None:
            if upto is not None and upto > version.head.revision:
                raise self._forked(version.fork)
            warnings.append(f"{self.where} has {version.fork}: it is shown as before")
        if upto is not None and version.head.revision > upto:
            return self._walk_from(base, names, last, upto, lenient=last_try)
        if upto is not None and version.head.revision < upto:
            raise _Anomaly(f"revision {version.head.revision + 1} is missing")
        if upto is not None and base.head.revision == 0 and names.checkpoints:
            self._check_followed(names, version.head)
        return _Walk(CatalogVersion(version.state, version.fork, tuple(warnings)), walk.nodes, walk.times)

    def _check_followed(self, names: Names, head: CatalogHead) -> None:
        """A history that is read from the empty start goes on above it, or it is another one: a process that slept
        while everything below a checkpoint was pruned may have written revision 1 anew."""
        found = self.reader.transactions(names.nodes(head.revision + 1, head.revision + 1)).values()
        if found and not any(
            isinstance(t, CorruptObjectError) or t.commit.previous == head.uuid for t in found
        ):
            raise SnapshotTooOldError(
                f"revision {head.revision} of {self.where} was pruned, and another process has written one of that "
                "number since, which doesn't count. Read a later revision."
            )

    def _base(
        self, names: Names, forked: int | None, last: int, warnings: list[str]
    ) -> tuple[CatalogState, Names]:
        """The state to begin at, below any fork, and the names from there on."""
        below = last if forked is None else min(last, forked - 1)
        floor = max(names.checkpoints, default=0)
        for revision in sorted((r for r in names.checkpoints if r <= below), reverse=True):
            if below < floor and not names.unbroken(below, first=revision + 1):
                break  # it was written late, below what is pruned by now
            state = self._checkpoint(revision, names.checkpoints[revision][0], warnings)
            if state is not None:
                return state, names.from_revision(revision)
        # Prune only deletes revisions behind a checkpoint: without one, a missing revision is lost.
        if names.unbroken(max(last, 1)) or (names.since <= 1 and not names.checkpoints):
            return self._empty(), names
        if forked is not None:
            # Everything below the fork was pruned, and so it was decided.
            for revision in sorted(r for r in names.checkpoints if forked <= r <= last):
                for prefix in names.checkpoints[revision]:
                    state = self._checkpoint(revision, prefix, warnings)
                    if state is not None:
                        return state, names.from_revision(revision)
        also = f" ({'; '.join(warnings)})" if warnings else ""
        raise SnapshotTooOldError(
            f"{self.where} can't be read at revision {last}: no checkpoint before it can be read{also}, and its "
            "beginning was pruned. Read a later revision, or rebuild the catalog with "
            f"`firn rebuild --writer {self.layout.writer}`."
        )

    def _checkpoint(self, revision: int, prefix: str, warnings: list[str]) -> CatalogState | None:
        """None for a damaged one, with a warning."""
        name = ObjectName(revision, prefix, "checkpoint")
        try:
            state = self.reader.checkpoint(name)
        except CorruptObjectError as error:
            warnings.append(str(error))
            return None
        if state is None:
            raise _Anomaly(f"{self.reader.where(name)} is gone")
        return state

    def _walk_from(
        self, base: CatalogState, names: Names, last: int, upto: int | None = None, *, lenient: bool = False
    ) -> _Walk:
        """Read what is above `base` up to revision `last`, decide, and replay (up to `upto`)."""
        start = base.head.revision
        nodes = names.nodes(start + 1, last)
        found = self.reader.transactions(nodes)
        if len(found) < len(nodes):
            gone = next(node for node in nodes if node not in found)
            raise _Anomaly(f"{self.reader.where(ObjectName(*gone, 'transaction'))} is gone")
        damaged = next((t for t in found.values() if isinstance(t, CorruptObjectError)), None)
        if damaged is not None and not lenient:
            raise damaged
        links: dict[int, Sequence[Link]] = dict(links_of(found))
        links[start] = [Link(start, prefix, None) for prefix in names.transactions.get(start, ())]
        checkpoints = {r: p for r, p in names.checkpoints.items() if start <= r <= last}
        chain = decide((start, prefix_of(base.head.uuid or "")), links, checkpoints)
        return self._replayed(base, chain, found, upto)

    def _replayed(
        self,
        base: CatalogState,
        chain: Chain,
        found: dict[Node, CatalogTransaction | CorruptObjectError],
        upto: int | None,
    ) -> _Walk:
        if chain.anomaly is not None:
            raise _Anomaly(chain.anomaly)
        if chain.fork is not None and chain.fork.revision <= base.head.revision:
            raise self._forked(chain.fork)
        nodes = chain.nodes if upto is None else tuple(n for n in chain.nodes if n[0] <= upto)
        wanted = [
            (_sound(found[node]), self.reader.where(ObjectName(*node, "transaction"))) for node in nodes
        ]
        state = replay(base, wanted)
        times = {t.revision: t.commit.time_ms for t, _ in wanted}
        times[base.head.revision] = base.head.time_ms
        return _Walk(CatalogVersion(state, chain.fork), nodes, times)

    def _empty(self) -> CatalogState:
        return CatalogState(self.layout.writer, self.layout.database)

    def _counting(self, names: Names, newest: int, after: int) -> list[Node]:
        nodes: list[Node] = []
        for revision in range(newest, after, -1):
            prefixes = names.transactions.get(revision, ())
            chosen = self._decided(names, revision) if prefixes else None
            if chosen not in prefixes:
                break
            nodes.append((revision, chosen))
        return nodes[::-1]

    def _decided(self, names: Names, revision: int) -> str | None:
        """The uuid that counts at a listed revision. Free of requests, but where it has several and hasn't been
        read yet. None where what would tell is pruned."""
        prefixes = names.at(revision)
        if len(prefixes) == 1:
            return prefixes[0]
        if revision not in self._chain:
            walk = self._settled()
            if walk.version.fork is not None:
                raise self._forked(walk.version.fork)
            self._chain.update(walk.nodes)
        return self._chain.get(revision)

    def _time_of(self, revision: int) -> int:
        """The commit time of a decided revision. 1 GET unless it is known."""
        known = self._times.get(revision)
        if known is not None:
            return known
        prefix = self._decided(self._names, revision)
        time_ms = None
        if prefix in self._names.transactions.get(revision, ()):
            transaction = self.reader.transactions([(revision, prefix)]).get((revision, prefix))
            if isinstance(transaction, CatalogTransaction):
                time_ms = transaction.commit.time_ms
            elif transaction is not None and prefix not in self._names.checkpoints.get(revision, ()):
                raise transaction
        if time_ms is None and prefix in self._names.checkpoints.get(revision, ()):
            state = self.reader.checkpoint(ObjectName(revision, prefix, "checkpoint"))
            time_ms = None if state is None else state.head.time_ms
        if time_ms is None:
            raise _Anomaly(f"revision {revision} of {self.where} was pruned while it was looked at.")
        self._times[revision] = time_ms
        return time_ms


def _sound(transaction: CatalogTransaction | CorruptObjectError) -> CatalogTransaction:
    if isinstance(transaction, CorruptObjectError):
        raise transaction
    return transaction
