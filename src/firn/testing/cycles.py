"""Cycles in large directed graphs, without recursion: components, and short cycles to show.

Graphs are adjacency lists over whole numbers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from firn.testing.dependencies import Edge

Graph = Sequence[Sequence[int]]

_TRIED = 64


def cyclic_components(graph: Graph) -> list[list[int]]:
    """The strongly connected components that hold a cycle, each in ascending order.

    Nodes that nothing cyclic leads to are peeled off first, which is all of them where there is no cycle.

    >>> cyclic_components([[1], [2], [1], [0], [4]])
    [[1, 2], [4]]
    """
    left = _peeled(graph)
    return sorted(
        sorted(found) for found in _components(graph, left) if len(found) > 1 or found[0] in graph[found[0]]
    )


def short_cycle(edges: Iterable[Edge], *, through: str | None = None) -> list[Edge] | None:
    """A short cycle, of the smallest component that has one; None where there is none.

    With `through`, one that begins with an edge of that kind, if the component has any. If many edges can
    begin one, the first few are tried: each of them is in some cycle.
    """
    edges = _core(list(edges), through)
    others: dict[int, list[Edge]] = {}
    for edge in edges:
        others.setdefault(edge.of, []).append(edge)
    best: list[Edge] | None = None
    firsts = [edge for edge in edges if through is None or edge.kind == through]
    for first in firsts[:_TRIED]:
        path = _way(others, first.to, first.of)
        if path is not None and (best is None or 1 + len(path) < len(best)):
            best = [first, *path]
            if len(best) == 2:
                break
    return best


def _core(edges: list[Edge], through: str | None) -> list[Edge]:
    """The edges within the smallest cyclic component that has one of the kind."""
    numbers: dict[int, int] = {}
    for edge in edges:
        numbers.setdefault(edge.of, len(numbers))
        numbers.setdefault(edge.to, len(numbers))
    graph: list[list[int]] = [[] for _ in numbers]
    for edge in edges:
        graph[numbers[edge.of]].append(numbers[edge.to])
    component = {node: at for at, found in enumerate(cyclic_components(graph)) for node in found}
    within: dict[int, list[Edge]] = {}
    for edge in edges:
        at = component.get(numbers[edge.of])
        if at is not None and component.get(numbers[edge.to]) == at:
            within.setdefault(at, []).append(edge)
    fitting = [found for found in within.values() if through is None or any(e.kind == through for e in found)]
    return min(fitting, key=len, default=[])


def _way(others: dict[int, list[Edge]], start: int, end: int) -> list[Edge] | None:
    """The fewest edges that lead from one node to another, those of real time not counted."""
    came: dict[int, Edge] = {}
    lengths = {start: 0}
    queue = deque([(0, start)])
    while queue:
        length, node = queue.popleft()
        if node == end:
            break
        for edge in others.get(node, ()) if length == lengths[node] else ():
            further = length + (edge.kind != "rt")
            if further < lengths.get(edge.to, further + 1):
                lengths[edge.to], came[edge.to] = further, edge
                if further == length:
                    queue.appendleft((further, edge.to))
                else:
                    queue.append((further, edge.to))
    if end not in came:
        return None
    path = [came[end]]
    while path[-1].of != start:
        path.append(came[path[-1].of])
    return path[::-1]


def _peeled(graph: Graph) -> set[int]:
    degrees = [0] * len(graph)
    for others in graph:
        for other in others:
            degrees[other] += 1
    free = [node for node, degree in enumerate(degrees) if not degree]
    gone = 0
    while free:
        gone += 1
        for other in graph[free.pop()]:
            degrees[other] -= 1
            if not degrees[other]:
                free.append(other)
    if gone == len(graph):
        return set()
    return {node for node, degree in enumerate(degrees) if degree}


def _components(graph: Graph, nodes: set[int]) -> Iterable[list[int]]:
    """Tarjan's algorithm, with a stack of its own."""
    numbers: dict[int, int] = {}
    lowest: dict[int, int] = {}
    stack: list[int] = []
    open_: set[int] = set()
    for root in nodes:
        if root in numbers:
            continue
        numbers[root] = lowest[root] = len(numbers)
        stack.append(root)
        open_.add(root)
        work = [(root, iter(graph[root]))]
        while work:
            node, others = work[-1]
            for other in others:
                if other not in nodes:
                    continue
                if other not in numbers:
                    numbers[other] = lowest[other] = len(numbers)
                    stack.append(other)
                    open_.add(other)
                    work.append((other, iter(graph[other])))
                    break
                if other in open_:
                    lowest[node] = min(lowest[node], numbers[other])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == numbers[node]:
                    found: list[int] = []
                    while not found or found[-1] != node:
                        found.append(stack.pop())
                        open_.discard(found[-1])
                    yield found
