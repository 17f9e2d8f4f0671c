"""Which isolation a history of transactions had: a checker that knows nothing of the database.

Clients append elements to lists, read and count them, in transactions, and record what they saw. Every element is
appended once, so a list that was read tells whose writes are in it and in which order. `RecordedHistory.check` builds
the graph of what must have come before what (`firn.testing.dependencies`): snapshot isolation holds iff every
cycle in it has two adjacent rw edges, and serializability iff there is no cycle. With real time in the graph, it
is strong snapshot isolation (a transaction sees all that was committed before it began) and strict
serializability.

A predicate is a list as well: the rows that match it, in order of commit. A row that holds a list is one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, TypeAlias

from firn.errors import FirnError, InvalidInputError, OutcomeUnknownError
from firn.testing.cycles import cyclic_components, short_cycle
from firn.testing.dependencies import (
    Contradiction,
    Count,
    Dependencies,
    Edge,
    Key,
    ListAppend,
    Observed,
    Operation,
    Read,
    Status,
)

Level: TypeAlias = Literal["snapshot", "serializable"]


@dataclass(frozen=True)
class Anomaly:
    """A finding in a history that its isolation level doesn't allow.

    `kind` is its name in the literature:

    - "G0": writes of two transactions in two orders; "G1a": a read of a write that was rolled back; "G1b": a read of
      a write that its writer itself replaced; "G1c": a cycle of reads and writes.
    - "G-single": a cycle with one rw edge: read skew, non-repeatable reads of two lists, an observed transaction
      that vanishes, many predicates' preceders; "P4": the lost update, that of one list.
    - "long fork": a cycle with several rw edges, none beside another: two readers see two writes in two orders.
    - "G2": a cycle with two adjacent rw edges, as write skew and Fekete's read-only anomaly are. Only
      serializability forbids it.
    - "real time": a cycle that needs the order of ends and beginnings: a transaction didn't see an earlier commit.
    - "internal": a transaction didn't see its own writes, or read one list in two states.
    - "incompatible order", "duplicate", "garbage": lists that no order of appends makes.

    `text` says how it shows, `transactions` are the names of those in it.
    """

    kind: str
    text: str
    transactions: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class Verdict:
    """The findings of `RecordedHistory.check`. True if it found nothing.

    `transactions` is how many it looked at, `edges` how many edges between them.
    """

    level: Level
    transactions: int
    edges: int
    anomalies: tuple[Anomaly, ...]

    def __bool__(self) -> bool:
        return not self.anomalies

    def __str__(self) -> str:
        if not self.anomalies:
            return f"{self.transactions} transactions: {self.level} isolation holds"
        shown = [f"  {anomaly}" for anomaly in self.anomalies[:20]]
        more = [f"  … and {len(self.anomalies) - 20} more"] if len(self.anomalies) > 20 else []
        head = f"{self.transactions} transactions, and {len(self.anomalies)} anomalies under {self.level} isolation:"
        return "\n".join([head, *shown, *more])


class RecordedHistory:
    """The transactions of all clients, as these saw them. Safe to record into from many threads.

    Args:
        clock: gives times that all clients share, later ones greater. By default a counter, for clients in one
            process; `time.monotonic_ns` for the processes of one machine.

    Example:
        >>> history = RecordedHistory()
        >>> with history.begin("first") as tx:
        ...     tx.append("x", 1)
        >>> with history.begin("second") as tx:
        ...     tx.read("x", [1])
        >>> bool(history.check())
        True
        >>> with history.begin("third") as tx:
        ...     tx.read("x", [])
        >>> print(history.check())
        3 transactions, and 1 anomalies under snapshot isolation:
          real time: third -rw('x')-> first -rt-> third
    """

    def __init__(self, *, clock: Callable[[], float] | None = None) -> None:
        counter = count()
        self._clock = (lambda: next(counter)) if clock is None else clock
        self._lock = threading.Lock()
        self._transactions: list[Observed] = []

    @property
    def transactions(self) -> Sequence[Observed]:
        """Those that have ended, in the order of their ends."""
        with self._lock:
            return tuple(self._transactions)

    def begin(self, name: str | None = None) -> Recording:
        """Record a transaction that is about to begin. Its name is for messages."""
        return Recording(self, self._clock(), name)

    def add(self, transaction: Observed) -> None:
        """Take up a transaction that was recorded elsewhere."""
        with self._lock:
            self._transactions.append(transaction)

    def save(self, path: Path) -> None:
        """Write the history, a line of JSON a transaction. Keys and elements must be JSON's."""
        lines = (
            json.dumps(
                [t.name, t.status, t.start, t.end, [_stored(o) for o in t.operations]], separators=(",", ":")
            )
            for t in self.transactions
        )
        path.write_text("".join(f"{line}\n" for line in lines))

    def load(self, path: Path) -> None:
        """Add what another process saved; a last line that it didn't finish is left out."""
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                name, status, start, end, operations = json.loads(line)
                self.add(Observed(name, tuple(map(_operation, operations)), start, end, status))

    def check(
        self, level: Level = "snapshot", *, real_time: bool = True, aborted_reads: bool = False
    ) -> Verdict:
        """Find the anomalies in the history that `level` doesn't allow.

        Args:
            level: "snapshot", or "serializable".
            real_time: whether transactions must see what was committed before they began.
            aborted_reads: whether what transactions read that were rolled back must be of one snapshot too.

        Raises:
            InvalidInputError: an element was appended to a list twice.

        It reports one cycle of each component of the graph, of the worst kind. 100,000 transactions take seconds.
        """
        if level not in ("snapshot", "serializable"):
            raise InvalidInputError(f"level={level!r}: there are 'snapshot' and 'serializable'.")
        transactions = self.transactions
        found = Dependencies(transactions, aborted_reads=aborted_reads)
        graph = _Graph(found, real_time=real_time)
        cycles = graph.worst_cycles(level)
        return Verdict(
            level,
            len(transactions),
            len(graph.edges),
            tuple(_named(transactions, finding) for finding in [*found.findings, *cycles]),
        )


class Recording:
    """One transaction, while it runs. As a context manager it ends with its block: committed; aborted after a
    `FirnError`; with an unknown outcome after `OutcomeUnknownError` and anything else, as a crash has."""

    def __init__(self, history: RecordedHistory, start: float, name: str | None) -> None:
        self._history = history
        self._start = start
        self._name = name
        self._operations: list[Operation] = []

    def read(self, key: Key, values: Iterable[Any]) -> None:
        """The list was read, and held these."""
        self._operations.append(Read(key, tuple(values)))

    def count(self, key: Key, number: int) -> None:
        """The elements of the list were counted."""
        self._operations.append(Count(key, number))

    def append(self, key: Key, value: Hashable) -> None:
        """An element was appended that nobody else appends to this list."""
        self._operations.append(ListAppend(key, value))

    def committed(self) -> None:
        self._end("committed")

    def aborted(self) -> None:
        """Rolled back: nothing of it may ever be seen."""
        self._end("aborted")

    def unknown(self) -> None:
        """The commit was sent and no answer came, or the client is gone."""
        self._end("unknown")

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.committed()
        elif isinstance(error, FirnError) and not isinstance(error, OutcomeUnknownError):
            self.aborted()
        else:
            self.unknown()

    def _end(self, status: Status) -> None:
        history = self._history
        name = f"{self._start}" if self._name is None else self._name
        end = None if status == "unknown" else history._clock()
        history.add(Observed(name, tuple(self._operations), self._start, end, status))


@dataclass
class _Graph:
    """The graph of a history: a node a transaction, then a node a moment.

    Walks that may not follow one rw edge by another are walks in a graph of twice the nodes: node n is a
    transaction that was reached otherwise, node n + size one that was reached by rw and has no rw to go on with.
    """

    found: Dependencies
    real_time: bool
    edges: list[Edge] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.edges = list(self.found.edges())
        self._count = len(self.found.transactions)
        moments = self.found.moments() if self.real_time else []
        self._size = self._count + len(moments)
        self._before = [Edge("rt", at, at + 1, None) for at in range(self._count, self._size - 1)]
        if self.real_time:
            for index, moment, leads in self.found.real_time(moments):
                node = self._count + moment
                self._before.append(Edge("rt", index, node, None) if leads else Edge("rt", node, index, None))

    def worst_cycles(self, level: Level) -> list[Contradiction]:
        """A short cycle of the worst kind of each component that has one which the level forbids."""
        graph: list[list[int]] = [[] for _ in range(2 * self._size)]
        for edge in chain(self.edges, self._before):
            for of, to in self._steps(edge, level):
                graph[of].append(to)
        components = cyclic_components(graph)
        of_node = {node: at for at, component in enumerate(components) for node in component}
        within: list[list[Edge]] = [[] for _ in components]
        for edge in chain(self.edges, self._before) if components else ():
            at = {
                of_node.get(of, -1)
                for of, to in self._steps(edge, level)
                if of_node.get(to) == of_node.get(of)
            }
            for component in at - {-1}:
                within[component].append(edge)
        return [self._worst_cycle(edges, level) for edges in within]

    def _steps(self, edge: Edge, level: Level) -> tuple[tuple[int, int], ...]:
        kind, of, to, _ = edge
        if level == "serializable":
            return ((of, to),)
        size = self._size
        return ((of, to + size),) if kind == "rw" else ((of, to), (of + size, to))

    def _worst_cycle(self, edges: Sequence[Edge], level: Level) -> Contradiction:
        found = self._worst([edge for edge in edges if edge.kind != "rt"], level) or self._worst(edges, level)
        assert found is not None, "a component without a cycle"
        kind, cycle = found
        return self._told("real time" if any(edge.kind == "rt" for edge in cycle) else kind, cycle)

    def _worst(self, edges: Sequence[Edge], level: Level) -> tuple[str, list[Edge]] | None:
        if cycle := short_cycle(edge for edge in edges if edge.kind in ("ww", "rt")):
            return "G0", cycle
        if cycle := short_cycle(edge for edge in edges if edge.kind != "rw"):
            return "G1c", cycle
        apart = [edge._replace(of=of, to=to) for edge in edges for of, to in self._steps(edge, "snapshot")]
        if cycle := short_cycle(apart, through="rw"):
            cycle = [edge._replace(of=edge.of % self._size, to=edge.to % self._size) for edge in cycle]
            return _kind_of(cycle), cycle
        if level == "serializable" and (cycle := short_cycle(edges, through="rw")):
            return "G2", cycle
        return None

    def _told(self, kind: str, cycle: Sequence[Edge]) -> Contradiction:
        """A cycle in words, moments left out."""
        # Begin at a transaction, not at a moment.
        start = next(at for at, edge in enumerate(cycle) if edge.of < self._count)
        cycle = [*cycle[start:], *cycle[:start]]
        text = self.found.transactions[cycle[0].of].name
        for edge in cycle:
            if edge.to < self._count:
                by = "-rt->" if edge.kind == "rt" else f"-{edge.kind}({edge.key!r})->"
                text += f" {by} {self.found.transactions[edge.to].name}"
        return Contradiction(kind, text, tuple(edge.of for edge in cycle if edge.of < self._count))


def _kind_of(cycle: Sequence[Edge]) -> str:
    misses = [edge for edge in cycle if edge.kind == "rw"]
    if len(misses) > 1:
        return "long fork"
    lost = len(cycle) == 2 and all(edge.kind in ("rw", "ww") and edge.key == misses[0].key for edge in cycle)
    return "P4" if lost else "G-single"


def _named(transactions: Sequence[Observed], finding: Contradiction) -> Anomaly:
    return Anomaly(
        finding.kind, finding.text, tuple(transactions[index].name for index in finding.transactions)
    )


_STORED: Final[dict[str, type[Read] | type[Count] | type[ListAppend]]] = {
    "r": Read,
    "c": Count,
    "a": ListAppend,
}


def _stored(operation: Operation) -> list[Any]:
    kind = next(kind for kind, made in _STORED.items() if isinstance(operation, made))
    return [kind, *operation]


def _operation(stored: Sequence[Any]) -> Operation:
    kind, key, value = stored
    return Read(key, tuple(value)) if kind == "r" else _STORED[kind](key, value)
