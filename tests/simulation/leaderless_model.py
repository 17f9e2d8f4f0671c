"""What clients were promised, and whether what anybody sees agrees with it.

Every change is an `Operation` with a number that it leaves in its log. Whether one that ended in doubt took
place is learned afterwards from the table's history; then what each reader saw, at whatever moment, must be
what the operations make of it, and the table at the end exactly that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import Snapshot

Order = tuple[int, str]
"""Where a version stands among others: (time, name)."""


@dataclass(eq=False)
class Operation:
    """Rows that come and rows that go at once. `begun_ms` is when its commit was first sent, None if never."""

    number: int
    kind: str
    coming: set[int] = field(default_factory=set)
    going: set[int] = field(default_factory=set)
    column: str | None = None
    begun_ms: int | None = None
    fate: Literal["open", "done", "failed"] = "open"
    ended_ms: int | None = None

    def __repr__(self) -> str:
        return f"{self.kind} {self.number}"


@dataclass(frozen=True)
class Batch:
    """An append with an id, that any client may try again."""

    id: str
    operation: Operation
    rows: dict[str, list[int]]


class Read(NamedTuple):
    """What a reader saw between two moments. `witnessed`: appends that this reader had seen before."""

    who: str
    version: str
    now: bool
    from_ms: int
    until_ms: int
    seen: Counter[int]
    witnessed: frozenset[int]


def order_of(version: str) -> Order:
    return int(version.partition("_")[0]), version


class Model:
    """All operations and all reads of one world."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.appended: dict[int, Operation] = {}
        self.batches: list[Batch] = []
        self.reads: list[Read] = []
        self.happened: Counter[str] = Counter()

    # -- what clients report

    def operation(self, kind: str, column: str | None = None) -> Operation:
        op = Operation(len(self.operations), kind, column=column)
        self.operations.append(op)
        return op

    def new_rows(self, op: Operation, n: int) -> list[int]:
        ids = list(range(len(self.appended), len(self.appended) + n))
        self.appended.update(dict.fromkeys(ids, op))
        op.coming.update(ids)
        return ids

    def begin(self, op: Operation, now_ms: int) -> None:
        if op.begun_ms is None:
            op.begun_ms = now_ms

    def done(self, op: Operation, now_ms: int) -> None:
        assert op.fate != "failed", f"{op} is done after it was said never to be"
        if op.fate == "open":
            op.fate, op.ended_ms = "done", now_ms
            self.happened[op.kind] += 1

    def failed(self, op: Operation) -> None:
        """The error says: nothing of it is or will be visible."""
        assert op.fate == "open", f"{op} failed after it was done"
        op.fate = "failed"

    def saw(
        self,
        who: str,
        snapshot: Snapshot,
        rows: Iterable[int],
        *,
        now: bool,
        from_ms: int,
        until_ms: int,
        before: frozenset[int] = frozenset(),
    ) -> frozenset[int]:
        """Note a read and check at once what needs no hindsight; the appends that it witnesses."""
        seen = Counter(rows)
        self.happened["read"] += 1
        doubled = sorted(i for i, n in seen.items() if n > 1)
        assert not doubled, f"{who} at {snapshot.version} sees rows doubled: {doubled}"
        self.reads.append(Read(who, snapshot.version, now, from_ms, until_ms, seen, before))
        return before | {self.appended[i].number for i in seen}

    # -- hindsight

    def check(self, journal: LeaderlessJournal, snapshot: Snapshot, rows: Iterable[int]) -> None:
        """With everybody gone: `rows` is what all that happened makes, and every read was right."""
        published = self._published(journal)
        for op in self.operations:
            there = op.number in {number for _, number in published}
            assert there or op.fate != "done", f"{op} was acknowledged and is lost"
            assert not there or op.fate != "failed", f"{op} failed for certain, and is there"
            assert not there or op.begun_ms is not None, f"{op} was never committed, and is there"
        expected: set[int] = set()
        for _, number in published:
            op = self.operations[number]
            expected = (expected - op.going) | op.coming
            assert op.column is None or op.column in snapshot.columns, f"the column of {op} is lost"
        _same(Counter(rows), expected, f"the table at the end, {snapshot.version},")
        for read in self.reads:
            self._check_read(read, published)

    def _published(self, journal: LeaderlessJournal) -> list[tuple[Order, int]]:
        found = [
            (order_of(commit.version), int(commit.summary["n"]))
            for commit in journal.history()
            if "n" in commit.summary
        ]
        twice = [self.operations[n] for n, count in Counter(n for _, n in found).items() if count > 1]
        assert not twice, f"committed twice: {twice}"
        return sorted(found)

    def _check_read(self, read: Read, published: list[tuple[Order, int]]) -> None:
        at = order_of(read.version)
        may: dict[int, set[bool]] = {}
        for order, number in published:
            op = self.operations[number]
            assert op.begun_ms is not None
            certain = op.ended_ms is not None and op.ended_ms <= read.from_ms
            if order > at:
                # A read of now names its version by the newest log it saw.
                assert not (certain and read.now), f"{read.who} at {read.version} misses {op}, done before"
                continue
            if op.begun_ms > read.until_ms:
                continue
            certain = certain or number in read.witnessed
            for ids, visible in ((op.going, False), (op.coming, True)):
                for i in ids:
                    may[i] = {visible} if certain else may.get(i, {False}) | {visible}
        for i, possible in may.items():
            seen = i in read.seen
            if seen not in possible:
                what = "sees" if seen else "misses"
                raise AssertionError(f"{read.who} at {read.version} {what} row {i} of {self.appended[i]}")
        ghosts = sorted(set(read.seen) - may.keys())
        assert not ghosts, f"{read.who} at {read.version} sees rows that nobody committed: {ghosts}"
        self._check_atomic(read, [self.operations[n] for order, n in published if order <= at])

    def _check_atomic(self, read: Read, published: list[Operation]) -> None:
        """An append that no maintenance touched is seen whole or not at all."""
        touched = {i for op in published if op.kind != "append" for i in op.going | op.coming}
        for op in published:
            if op.kind == "append" and not op.coming & touched:
                seen = op.coming & set(read.seen)
                assert not seen or seen == op.coming, f"{read.who} at {read.version} sees a part of {op}"


def _same(seen: Counter[int], expected: set[int], what: str) -> None:
    doubled = sorted(i for i, n in seen.items() if n > 1)
    assert not doubled, f"{what} has rows doubled: {doubled}"
    lost, extra = sorted(expected - set(seen)), sorted(set(seen) - expected)
    assert not lost, f"{what} lost rows {lost}"
    assert not extra, f"{what} has rows that should be gone: {extra}"
