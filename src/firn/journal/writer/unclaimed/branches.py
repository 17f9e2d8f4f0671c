"""Branches of a fork: the one to keep, and those that lost. Pure.

A branch that lost stays until all of it is below the floor: cut through, it would look undecided, as the
transactions that decided against it, or those below it, would be gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from firn.journal.writer.format.layout import ObjectName
from firn.journal.writer.history.forks import Chain, Link, Node, decide
from firn.journal.writer.history.listing import Names


@dataclass(frozen=True)
class Branch:
    """The side of a fork to keep: its transactions in order, and where it has to be named."""

    path: tuple[Node, ...]
    resolves: tuple[Node, ...]


class NoBranch(Exception):
    """Why there is none, in words that complete "it …"."""


def plan_branch(
    base: Node, links: Mapping[int, Sequence[Link]], checkpoints: Mapping[int, Sequence[str]], keep: Node
) -> Branch:
    """The branch of `keep`, up to its tip. Pure. `base` is the newest transaction that all sides share.

    Raises `NoBranch`.
    """
    by_node = {link.node: link for at in links.values() for link in at}
    path = [keep]
    while path[0][0] > base[0] + 1:
        previous = by_node[path[0]].previous
        before = (path[0][0] - 1, previous or "")
        if before not in by_node:
            raise NoBranch("follows a transaction that is missing or damaged")
        path.insert(0, before)
    if by_node[path[0]].previous != base[1]:
        raise NoBranch("is on no side of it")
    above, standing = _standing_on(keep, links)
    chain = decide(keep, above, {r: [p for p in ps if (r, p) in standing] for r, ps in checkpoints.items()})
    if chain.fork is not None:
        raise NoBranch(f"has {chain.fork} above it. Name a transaction of one of its sides instead")
    resolves = [
        node
        for before, node in zip([base, *path], path, strict=False)
        if _rivals(node, before[1], links, checkpoints)
    ]
    return Branch((*path, *chain.nodes), tuple(resolves))


def decided(
    base: Node, links: Mapping[int, Sequence[Link]], checkpoints: Mapping[int, Sequence[str]], branch: Branch
) -> Chain | None:
    """None if a transaction on the branch's tip decides everything; else the chain that readers would see. Pure."""
    tip = branch.path[-1]
    new = Link(tip[0] + 1, "new", tip[1], branch.resolves)
    chain = decide(base, {**links, new.revision: [*links.get(new.revision, ()), new]}, checkpoints)
    return None if chain.nodes[-1:] == (new.node,) and chain.fork is None else chain


def _standing_on(node: Node, links: Mapping[int, Sequence[Link]]) -> tuple[dict[int, list[Link]], set[Node]]:
    """`node` and everything above it that follows from it."""
    standing = {node}
    found = {node[0]: [link for link in links[node[0]] if link.node == node]}
    for revision in sorted(r for r in links if r > node[0]):
        found[revision] = [x for x in links[revision] if (revision - 1, x.previous) in standing]
        standing.update(link.node for link in found[revision])
    return found, standing


def _rivals(
    node: Node, before: str, links: Mapping[int, Sequence[Link]], checkpoints: Mapping[int, Sequence[str]]
) -> set[str]:
    """The other objects that may follow `before` at a revision: a damaged one may, and a checkpoint without
    transaction."""
    at = links.get(node[0], ())
    elsewhere = {link.prefix for link in at if link.previous is not None and link.previous != before}
    return {*(link.prefix for link in at), *checkpoints.get(node[0], ())} - elsewhere - {node[1]}


def lost_nodes(counting: Mapping[int, str], names: Names) -> set[Node]:
    """The listed transactions that don't count, in a history without an open fork. `counting` are those that do."""
    lowest = min(counting, default=0)
    return {
        (revision, prefix)
        for revision in {*names.transactions, *names.checkpoints}
        for prefix in names.at(revision)
        if revision >= lowest and counting.get(revision) != prefix
    }


class LostBranches:
    """Transactions that lost, each with the revision where its branch begins; `links` are theirs."""

    def __init__(self, lost: set[Node], links: Mapping[int, Sequence[Link]]) -> None:
        self._lost = lost
        self._before = {
            link.node: (link.revision - 1, link.previous)
            for at in links.values()
            for link in at
            if link.previous is not None
        }
        self._roots = {node: self._root(node) for node in lost}

    def _root(self, node: Node) -> int:
        """0 where it can't be told."""
        while True:
            before = self._before.get(node)
            if before is None:
                return 0
            if before not in self._lost:
                return node[0]
            node = before

    def span(self, floor: int) -> bool:
        """Whether a branch begins below this floor, or at it, and ends at it or above."""
        return any(root <= floor <= node[0] for node, root in self._roots.items())

    def reach(self, revision: int) -> bool:
        """Whether any has something at this revision or above."""
        return any(node[0] >= revision for node in self._lost)

    def hold(self, name: ObjectName) -> bool:
        return (name.revision, name.prefix) in self._lost
