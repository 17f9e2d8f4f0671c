"""Which of the transactions that something tells of were the history, from the newest down by `previous`. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from firn.errors import ForkError
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.rebuild.surviving_objects import Candidate, Candidates


@dataclass(frozen=True)
class Lineage:
    """The chosen transaction of every revision that anything tells of, and the others. `undecided` are revisions
    at which the choice is nobody's to make."""

    chosen: dict[int, Candidate]
    others: tuple[Candidate, ...]
    undecided: dict[int, ForkError] = field(default_factory=dict)

    @property
    def top(self) -> int:
        return max(self.chosen, default=0)


def trace(found: Candidates, *, where: str, keep: Collection[str] = ()) -> Lineage:
    """Choose one transaction a revision.

    It is the one that the transaction above names as `previous`. If none is named, it is the only proven one, else
    the only one that has an object, else the one that only markers and files name. `keep` are beginnings of uuids
    that are chosen wherever there is a choice.
    """
    undecided: dict[int, ForkError] = {}
    chosen: dict[int, Candidate] = {}
    others: list[Candidate] = []
    for revision in sorted(found, reverse=True):
        pool = found[revision]
        above = chosen.get(revision + 1)
        if above is not None and above.previous:
            one = pool[above.previous]
        else:
            one, rivals = _pick(sorted(pool.values(), key=lambda c: c.uuid), keep)
            if rivals:
                undecided[revision] = _undecided(rivals, where)
        chosen[revision] = one
        rest = [c for c in pool.values() if c is not one]
        if not one.proven and not one.exists:
            rest = _joined(one, rest)
        others += rest
    return Lineage(chosen, tuple(others), undecided)


def _pick(pool: Sequence[Candidate], keep: Collection[str]) -> tuple[Candidate, Sequence[Candidate]]:
    """The one that counts, and those among which nothing decides."""
    pool = [c for c in pool if any(k and c.uuid.startswith(k) for k in keep)] or pool
    for tier in ([c for c in pool if c.proven], [c for c in pool if c.exists]):
        if tier:
            return tier[0], tier[1:] and tier
    return max(pool, key=lambda c: (c.marker is not None, len(c.files), c.uuid)), ()


def _joined(one: Candidate, rest: Sequence[Candidate]) -> list[Candidate]:
    """At most one of several unproven transactions was committed, and nobody can tell which: keep their data."""
    left = []
    for other in rest:
        if other.proven or other.exists or other.marker is not None:
            left.append(other)
        else:
            one.files.extend(other.files)
    return left


def _undecided(pool: Sequence[Candidate], where: str) -> ForkError:
    names = " and ".join(prefix_of(c.uuid) for c in pool)
    return ForkError(
        f"{where} can't be rebuilt: at revision {pool[0].revision} there are {names}, written by two processes under "
        "one writer id, and nothing tells which one counted. Decide it with `firn repair --keep UUID` where both "
        "can be read, or rebuild with keep=[UUID]."
    )
