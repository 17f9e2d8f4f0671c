"""Listing `transactions/`: which revisions there are, under which uuids, as of one moment at their tip (rule 1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from firn.bucket.base import Bucket, Listing
from firn.errors import StoreUnavailableError
from firn.journal.writer.format.layout import BadName, ObjectName, WriterLayout
from firn.journal.writer.history.forks import Node

MAX_LISTS = 50


@dataclass(frozen=True)
class Names:
    """The names in a LIST, whatever its order. `transactions` and `checkpoints` map revisions to the first digits
    of uuids, sorted; revisions below `since` weren't asked for."""

    since: int = 0
    transactions: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    checkpoints: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    bad: tuple[BadName, ...] = ()

    @property
    def tip(self) -> int:
        """The highest revision; 0 where there is none."""
        return max(max(self.transactions, default=0), max(self.checkpoints, default=0))

    def at(self, revision: int) -> tuple[str, ...]:
        """All uuids of a revision, by transaction or checkpoint."""
        return tuple(sorted({*self.transactions.get(revision, ()), *self.checkpoints.get(revision, ())}))

    def forked(self) -> int | None:
        """The lowest revision with more than one uuid."""
        both = self.transactions.keys() | self.checkpoints.keys()
        return min((r for r in both if len(self.at(r)) > 1), default=None)

    def foreign(self, revision: int, prefix: str, *, checkpoints_only: bool = False) -> list[ObjectName]:
        """Everything at `revision` that isn't under `prefix`."""
        found = [ObjectName(revision, p, "checkpoint") for p in self.checkpoints.get(revision, ())]
        if not checkpoints_only:
            found += [ObjectName(revision, p, "transaction") for p in self.transactions.get(revision, ())]
        return [name for name in found if name.prefix != prefix]

    def nodes(self, first: int = 0, last: int | None = None) -> list[Node]:
        """The transactions of the revisions from `first` to `last`."""
        return [
            (revision, prefix)
            for revision, prefixes in self.transactions.items()
            if first <= revision and (last is None or revision <= last)
            for prefix in prefixes
        ]

    def above(self, revision: int) -> list[ObjectName]:
        """Everything above `revision`, lowest first."""
        found = [ObjectName(*node, "transaction") for node in self.nodes()]
        found += [ObjectName(r, p, "checkpoint") for r, ps in self.checkpoints.items() for p in ps]
        return sorted(name for name in found if name.revision > revision)

    def unbroken(self, last: int, *, first: int = 1) -> bool:
        """Whether there is a transaction of each revision from `first` to `last`."""
        return self.since <= first and all(r in self.transactions for r in range(first, last + 1))

    def from_revision(self, since: int) -> Names:
        """The same without what is below `since`."""
        return Names(
            since,
            {r: p for r, p in self.transactions.items() if r >= since},
            {r: p for r, p in self.checkpoints.items() if r >= since},
            self.bad,
        )

    def joined(self, other: Names) -> Names:
        """Everything that either shows; nothing of a history vanishes but below its floor."""
        return Names(
            min(self.since, other.since),
            _joined(self.transactions, other.transactions),
            _joined(self.checkpoints, other.checkpoints),
            tuple(dict.fromkeys((*self.bad, *other.bad))),
        )


def _joined(
    some: Mapping[int, tuple[str, ...]], more: Mapping[int, tuple[str, ...]]
) -> dict[int, tuple[str, ...]]:
    joined = dict(some)
    for revision, prefixes in more.items():
        joined[revision] = tuple(sorted({*joined.get(revision, ()), *prefixes}))
    return joined


def list_from(bucket: Bucket, layout: WriterLayout, since: int) -> tuple[Names, Listing]:
    """One LIST of everything from revision `since` on; 0 for all of it."""
    after = layout.before(since) if since > 0 else None
    listing = bucket.list(layout.transactions_prefix, after=after)
    parsed = [layout.parse(info.key) for info in listing.objects]
    names = (name for name in parsed if isinstance(name, ObjectName))
    bad = (name for name in parsed if isinstance(name, BadName))
    return _names(since, names, bad), listing


def list_settled(bucket: Bucket, layout: WriterLayout, since: int) -> Names:
    """Everything from `since` on, with the tip as of one moment (rule 1).

    A LIST of several pages is of several moments: the tip's revision is listed again until one page holds it,
    or, where nothing is ever of one moment (a directory), until two LISTs in a row show the same.
    Cost: 1 LIST sequence; 1 LIST or 2 more if that took several pages.
    """
    names, listing = list_from(bucket, layout, since)
    if listing.atomic:
        return names
    shown: frozenset[str] | None = None
    for _ in range(MAX_LISTS):
        tip = names.tip
        again, listing = list_from(bucket, layout, max(tip, since))
        names = names.joined(again)
        keys = frozenset(info.key for info in listing.objects)
        if listing.atomic or (names.tip == tip and keys == shown):
            return names
        shown = keys if names.tip == tip else None
    raise StoreUnavailableError(
        f"{bucket.uri(layout.transactions_prefix)} changed in each of {MAX_LISTS} LISTs. Retry when fewer "
        "processes commit."
    )


def alone(bucket: Bucket, layout: WriterLayout, revision: int, prefix: str) -> bool:
    """Whether a LIST of one moment shows the transaction alone at its revision (rule 18). 1 LIST, or 2."""
    shown: frozenset[str] | None = None
    for _ in range(2):
        names, listing = list_from(bucket, layout, revision)
        keys = frozenset(info.key for info in listing.objects)
        if names.at(revision) != (prefix,):
            return False
        if listing.atomic or keys == shown:
            return True
        shown = keys
    return False


def _names(since: int, names: Iterable[ObjectName], bad: Iterable[BadName]) -> Names:
    transactions: dict[int, set[str]] = {}
    checkpoints: dict[int, set[str]] = {}
    for name in names:
        kind = transactions if name.kind == "transaction" else checkpoints
        kind.setdefault(name.revision, set()).add(name.prefix)
    return Names(
        since,
        {r: tuple(sorted(transactions[r])) for r in sorted(transactions)},
        {r: tuple(sorted(checkpoints[r])) for r in sorted(checkpoints)},
        tuple(sorted(bad)),
    )
