"""Which transaction counts where a revision has several: rules 3 and 11 to 13. Pure.

Both sides of a fork PUT before they LIST, so at most one of them was ever acknowledged or continued: a child or a
checkpoint proves its parent. Where nothing proves anything, nobody chooses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Node = tuple[int, str]
"""(revision, first digits of the uuid)."""


class Link(NamedTuple):
    """A transaction as far as deciding needs it. `previous` are the first digits of the one before it: '' for
    revision 1, None where its object can't be decoded. `resolves` are (revision, first digits to keep)."""

    revision: int
    prefix: str
    previous: str | None
    resolves: tuple[Node, ...] = ()

    @property
    def node(self) -> Node:
        return self.revision, self.prefix


@dataclass(frozen=True)
class Fork:
    """Several transactions at `revision` and no telling which one counts. An open fork (`hard` is False) has no
    child and no checkpoint on any side, a hard one on two."""

    revision: int
    prefixes: tuple[str, ...]
    hard: bool

    def __str__(self) -> str:
        kind = "a hard" if self.hard else "an open"
        return f"{kind} fork at revision {self.revision} between {' and '.join(self.prefixes)}"


@dataclass(frozen=True)
class Chain:
    """The transactions that count, above the base, and the reason why they end if it isn't the tip.

    `anomaly` says why the next revision can't be reached: it may be a LIST that is out of date."""

    nodes: tuple[Node, ...]
    fork: Fork | None = None
    anomaly: str | None = None


def decide(
    base: Node, links: Mapping[int, Sequence[Link]], checkpoints: Mapping[int, Sequence[str]]
) -> Chain:
    """Walk up from `base`, a transaction that counts or (0, '').

    Args:
        links: by revision, all transactions from the base's revision on.
        checkpoints: by revision, the uuids that have one.
    """
    kept, disputed = _resolved(links)
    lost = _lost(links, checkpoints, kept)
    revisions = sorted({*links, *checkpoints})
    chain: list[Node] = []
    current = base
    if base[0]:
        rivals = _candidates(base[0], links, checkpoints, lost)
        fork = _fork(base[0], rivals, links, checkpoints, lost, disputed) if len(rivals) > 1 else None
        if fork is not None:
            return Chain((), fork)
    while True:
        revision = current[0] + 1
        candidates = _candidates(revision, links, checkpoints, lost)
        if not candidates:
            above = any(r > revision and _candidates(r, links, checkpoints, lost) for r in revisions)
            return Chain(tuple(chain), None, f"revision {revision} is missing" if above else None)
        winner = candidates[0]
        if len(candidates) > 1:
            fork = _fork(revision, candidates, links, checkpoints, lost, disputed)
            if fork is not None:
                return Chain(tuple(chain), fork)
            winner = next(c for c in candidates if _proven(revision, c, links, checkpoints, lost))
        link = next((x for x in links.get(revision, ()) if x.prefix == winner), None)
        if link is None:
            return Chain(tuple(chain), None, f"the transaction {winner} of revision {revision} is missing")
        if link.previous is not None and link.previous != current[1]:
            before = link.previous or "nothing"
            return Chain(
                tuple(chain), None, f"revision {revision} follows {before}, not {current[1] or 'nothing'}"
            )
        current = link.node
        chain.append(current)


def _candidates(
    revision: int,
    links: Mapping[int, Sequence[Link]],
    checkpoints: Mapping[int, Sequence[str]],
    lost: set[Node],
) -> list[str]:
    """The uuids of a revision that aren't on a branch that was decided against."""
    found = {link.prefix for link in links.get(revision, ())} | set(checkpoints.get(revision, ()))
    return sorted(prefix for prefix in found if (revision, prefix) not in lost)


def _proven(
    revision: int,
    prefix: str,
    links: Mapping[int, Sequence[Link]],
    checkpoints: Mapping[int, Sequence[str]],
    lost: set[Node],
) -> bool:
    if prefix in checkpoints.get(revision, ()):
        return True
    above = links.get(revision + 1, ())
    return any(link.previous == prefix and link.node not in lost for link in above)


def _fork(
    revision: int,
    candidates: Sequence[str],
    links: Mapping[int, Sequence[Link]],
    checkpoints: Mapping[int, Sequence[str]],
    lost: set[Node],
    disputed: set[int],
) -> Fork | None:
    """None where exactly one of them is proven."""
    proven = [c for c in candidates if _proven(revision, c, links, checkpoints, lost)]
    if len(proven) == 1 and revision not in disputed:
        return None
    return Fork(revision, tuple(candidates), hard=len(proven) > 1 or revision in disputed)


def _resolved(links: Mapping[int, Sequence[Link]]) -> tuple[dict[int, str], set[int]]:
    """The branches that repairs keep, by revision; and the revisions at which two repairs keep different
    branches."""
    chosen: dict[int, set[str]] = {}
    for revision in links:
        for link in links[revision]:
            for at, keep in link.resolves:
                if _descends(link, (at, keep), links):
                    chosen.setdefault(at, set()).add(keep)
    kept = {at: next(iter(keeps)) for at, keeps in chosen.items() if len(keeps) == 1}
    return kept, {at for at, keeps in chosen.items() if len(keeps) > 1}


def _descends(link: Link, ancestor: Node, links: Mapping[int, Sequence[Link]]) -> bool:
    """A repair speaks for its own branch only."""
    revision, prefix = link.revision - 1, link.previous
    while prefix and revision > ancestor[0]:
        below = next((x for x in links.get(revision, ()) if x.prefix == prefix), None)
        if below is None:
            return False
        revision, prefix = revision - 1, below.previous
    return (revision, prefix) == ancestor


def _lost(
    links: Mapping[int, Sequence[Link]], checkpoints: Mapping[int, Sequence[str]], kept: Mapping[int, str]
) -> set[Node]:
    """Everything that a repair decided against, and all that stands on it: it outranks children and checkpoints."""
    lost = {(r, prefix) for r, keep in kept.items() for prefix in checkpoints.get(r, ()) if prefix != keep}
    for revision in sorted(links):
        for link in links[revision]:
            decided_against = revision in kept and link.prefix != kept[revision]
            if decided_against or (revision - 1, link.previous or "") in lost:
                lost.add(link.node)
    return lost
