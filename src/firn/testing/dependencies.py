"""Dependencies between transactions in a history of appends to lists: the edges of Adya's graphs.

A list tells the order of its versions: the list that one transaction read must begin those that others read later.
So version orders are observed, not assumed, and a key's writers and readers follow from them:

    ww   the next element of a list was appended by the other
    wr   the other read what this one appended
    rw   the other appended what this one's read hadn't yet
    rt   this one had ended before the other began
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from firn.errors import InvalidInputError

Key = Hashable
Status = Literal["committed", "aborted", "unknown"]
EdgeKind = Literal["ww", "wr", "rw", "rt"]


class Read(NamedTuple):
    """A transaction read a list: all of its elements, in their order."""

    key: Key
    values: tuple[Any, ...]


class Count(NamedTuple):
    """A transaction asked how many elements a list has."""

    key: Key
    number: int


class ListAppend(NamedTuple):
    """A transaction appended an element, which no other appends to that list."""

    key: Key
    value: Any


Operation: TypeAlias = Read | Count | ListAppend


@dataclass(frozen=True)
class Observed:
    """A transaction as its client saw it.

    `start` and `end` are when it was asked to begin and when its outcome was known, by any clock that all
    clients share; `end` None where it never was. "unknown" is a commit without an answer.
    """

    name: str
    operations: tuple[Operation, ...]
    start: float
    end: float | None
    status: Status = "committed"


class Edge(NamedTuple):
    """Transaction `of` comes before `to`; `key` is the list that shows it, None for real time."""

    kind: EdgeKind
    of: int
    to: int
    key: Key


class Contradiction(NamedTuple):
    """Something that no order of the transactions explains."""

    kind: str
    text: str
    transactions: tuple[int, ...]


@dataclass
class Dependencies:
    """The edges between transactions, by their index, and what was found wrong on the way.

    `real` says which transactions count as nodes: those that committed, those of unknown outcome that somebody
    saw the writes of and, if asked for, the reads of all others. `moments` are the indices of further nodes,
    which stand for points in time.
    """

    transactions: Sequence[Observed]
    aborted_reads: bool = False
    findings: list[Contradiction] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._writers: dict[Key, dict[Any, int]] = defaultdict(dict)
        self._last: dict[tuple[Key, int], Any] = {}
        self._reads: dict[Key, list[tuple[int, tuple[Any, ...]]]] = defaultdict(list)
        self._counts: dict[Key, list[tuple[int, int]]] = defaultdict(list)
        for index, transaction in enumerate(self.transactions):
            self._note_writes(index, transaction)
        seen = self._seen()
        self.happened = [
            transaction.status == "committed" or (transaction.status == "unknown" and index in seen)
            for index, transaction in enumerate(self.transactions)
        ]
        self.real = [happened or self.aborted_reads for happened in self.happened]
        for index, transaction in enumerate(self.transactions):
            if self.real[index]:
                self._note_reads(index, transaction)
        self._orders = {key: self._order(key) for key in self._writers.keys() | self._reads.keys()}

    def edges(self) -> Iterator[Edge]:
        """All but those of real time."""
        for key, order in self._orders.items():
            writers = self._writers[key]
            by = [writers[value] for value in order]
            for at in range(1, len(by)):
                if by[at - 1] != by[at]:
                    yield Edge("ww", by[at - 1], by[at], key)
            # Elements that nobody read come after all that somebody did, in an order that isn't known.
            observed = set(order)
            unread = sorted(
                {
                    index
                    for value, index in writers.items()
                    if value not in observed and self.happened[index] and not (by and by[-1] == index)
                }
            )
            if by:
                yield from (Edge("ww", by[-1], index, key) for index in unread)
            for index, values in self._reads[key]:
                at = len(values)
                if values and by[at - 1] != index:
                    yield Edge("wr", by[at - 1], index, key)
                following = by[at : at + 1] or unread
                # Where the writer of the version replaced it itself, that was found already.
                known = (index, by[at - 1]) if values else (index,)
                yield from (Edge("rw", index, other, key) for other in following if other not in known)

    def moments(self) -> list[float]:
        """When transactions ended, in ascending order: node k stands for "the first k + 1 have ended"."""
        return sorted(
            t.end
            for t, real in zip(self.transactions, self.happened, strict=True)
            if real and t.end is not None
        )

    def real_time(self, moments: Sequence[float]) -> Iterator[tuple[int, int, bool]]:
        """(transaction, moment, whether the transaction leads to it): a transaction leads to the moment of its end,
        and each moment to the next, and to the transactions that began after it."""
        for index, transaction in enumerate(self.transactions):
            if not self.real[index]:
                continue
            if self.happened[index] and transaction.end is not None:
                yield index, bisect_left(moments, transaction.end), True
            before = bisect_left(moments, transaction.start)
            if before:
                yield index, before - 1, False

    def _note_writes(self, index: int, transaction: Observed) -> None:
        for operation in transaction.operations:
            if isinstance(operation, ListAppend):
                writers = self._writers[operation.key]
                if writers.setdefault(operation.value, index) != index or (
                    self._last.get((operation.key, index)) == operation.value
                ):
                    raise InvalidInputError(
                        f"{operation.value!r} is appended to {operation.key!r} twice: values of a list must differ, "
                        "or nobody can tell whose was read."
                    )
                self._last[operation.key, index] = operation.value

    def _seen(self) -> set[int]:
        """The transactions that some committed one read from, or one of unknown outcome that counts as such."""
        sources: dict[int, set[int]] = defaultdict(set)
        for index, transaction in enumerate(self.transactions):
            for operation in transaction.operations:
                if isinstance(operation, Read) and operation.values:
                    writers = self._writers[operation.key]
                    sources[index].update(writers[v] for v in operation.values if v in writers)
        found: set[int] = set()
        work = [
            index
            for index, t in enumerate(self.transactions)
            if t.status == "committed" or self.aborted_reads
        ]
        while work:
            for other in sources[work.pop()] - found:
                found.add(other)
                work.append(other)
        return found

    def _note_reads(self, index: int, transaction: Observed) -> None:
        """Check what a transaction read against what it did itself, and keep what it read of others."""
        known: dict[Key, tuple[Any, ...]] = {}
        own: dict[Key, tuple[Any, ...]] = defaultdict(tuple)
        for operation in transaction.operations:
            key = operation.key
            if isinstance(operation, ListAppend):
                own[key] += (operation.value,)
                continue
            if isinstance(operation, Count):
                number = operation.number - len(own[key])
                self._counts[key].append((index, number))
                if number < 0:
                    text = f"counted {operation.number} in {key!r} after it appended {_shown(own[key])}"
                    self._found("internal", index, text)
                continue
            values, mine = operation.values, own[key]
            others = values[: len(values) - len(mine)] if mine else values
            if values[len(others) :] != mine:
                self._found(
                    "internal", index, f"read {_shown(values)} of {key!r} after it appended {_shown(mine)}"
                )
            elif key not in known:
                known[key] = others
                self._note_read(index, key, others)
            elif known[key] != others:
                self._found(
                    "internal", index, f"read {_shown(known[key])} of {key!r} and later {_shown(others)}"
                )

    def _note_read(self, index: int, key: Key, values: tuple[Any, ...]) -> None:
        self._reads[key].append((index, values))
        if not values:
            return
        writer = self._writers[key].get(values[-1])
        if writer is not None and writer != index and self._last[key, writer] != values[-1]:
            self._found("G1b", index, f"read {values[-1]!r} of {key!r}, which wasn't the last of", writer)

    def _order(self, key: Key) -> tuple[Any, ...]:
        """The order of a list's versions: the longest that was read, as far as its elements make sense.

        Reads that don't fit to it are taken out: no edge can be made of them.
        """
        reads = self._reads[key]
        reader, longest = max(reads, key=lambda read: len(read[1]), default=(-1, ()))
        fitting = []
        for index, values in reads:
            if values == longest[: len(values)]:
                fitting.append((index, values))
                continue
            text = f"read {_shown(values)} of {key!r}, which isn't how {_shown(longest)} begins, read by"
            self._found("incompatible order", index, text, reader)
            self._find_aborted(key, index, values)
        length = self._sensible(key, reader, longest)
        self._reads[key] = [(index, values) for index, values in fitting if len(values) <= length]
        # Nobody knows which elements a count saw if it is greater than the longest list read.
        counts = [(index, number) for index, number in self._counts[key] if 0 <= number <= length]
        self._reads[key] += [(index, longest[:number]) for index, number in counts]
        writers = self._writers[key]
        for index, number in counts:
            if any(writers[value] == index for value in longest[:number]):
                self._found("internal", index, f"counted {number} in {key!r} with what it appended later")
        aborted = (at for at in range(length) if self.transactions[writers[longest[at]]].status == "aborted")
        if (first := next(aborted, None)) is not None:
            for index, values in fitting:
                self._find_aborted(key, index, values[first:])
        return longest[:length]

    def _sensible(self, key: Key, reader: int, values: tuple[Any, ...]) -> int:
        """How many of the first elements of a list were appended, and once."""
        there: set[Any] = set()
        for at, value in enumerate(values):
            if value not in self._writers[key]:
                self._found("garbage", reader, f"read {value!r} of {key!r}, which nobody appended")
                return at
            if value in there:
                self._found("duplicate", reader, f"read {value!r} of {key!r} twice in one list")
                return at
            there.add(value)
        return len(values)

    def _find_aborted(self, key: Key, index: int, values: tuple[Any, ...]) -> None:
        for value in values:
            writer = self._writers[key].get(value)
            if writer is not None and writer != index and self.transactions[writer].status == "aborted":
                self._found("G1a", index, f"read {value!r} of {key!r}, which was rolled back by", writer)
                return

    def _found(self, kind: str, index: int, text: str, *others: int) -> None:
        names = [self.transactions[other].name for other in others]
        said = " ".join([self.transactions[index].name, text, *names])
        self.findings.append(Contradiction(kind, said, (index, *others)))


def _shown(values: Sequence[Any]) -> str:
    return (
        f"[{', '.join(map(repr, values[-8:]))}]"
        if len(values) <= 8
        else f"[… {', '.join(map(repr, values[-8:]))}]"
    )
