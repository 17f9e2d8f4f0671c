"""Every interleaving of small programs on the real code, where equal states are gone through once.

A program's next request follows from the answers it has had. So each is a tree: a node is a history of answers, and
the real code is run, from its beginning, only when a history is new. A state of the world is then a store, a node a
program and what is under way; it is small, has a hash, and to go on from it costs a look into a table.

A step that commutes with all that others may ever do is taken at once and alone: reading what exists and never
changes, and writing under a name that nobody asks for before a later step of this program.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import md5
from typing import Any, NamedTuple

from firn.bucket.base import Blob, BytesLike, Capabilities, Counters, Listing, ObjectInfo
from firn.errors import (
    FirnError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
)
from firn.testing import SimStore, seeded_entropy
from firn.testing.store import START_MS

Store = dict[str, bytes]


class Request(NamedTuple):
    """One call to the store, `condition` being the ETag to match or the key to list after."""

    verb: str
    key: str
    body: bytes = b""
    condition: str | None = None


@cache
def etag_of(data: bytes) -> str:
    return md5(data, usedforsecurity=False).hexdigest()


class _Halt(BaseException):
    """The program stands before a request that has no answer yet."""

    def __init__(self, request: Request) -> None:
        self.request = request


class TellingClock:
    """Each reading is a millisecond later, and sleeping takes no request: time follows from the history alone."""

    def __init__(self) -> None:
        self._ms = 0

    def now_ms(self) -> int:
        self._ms += 1
        return START_MS + self._ms

    def monotonic(self) -> float:
        self._ms += 1
        return 1000.0 + self._ms / 1000

    def sleep(self, seconds: float) -> None:
        self._ms += int(seconds * 1000)


class RecordedBucket:
    """A bucket that answers from a record and halts where it ends."""

    url = "recorded://store"

    def __init__(self, answers: Sequence[Any]) -> None:
        self.clock = TellingClock()
        self.capabilities = Capabilities(conditional_put=True, shareable=False)
        self.counters = Counters()
        self._answers = answers
        self._next = 0

    def _ask(self, request: Request) -> Any:
        if self._next == len(self._answers):
            raise _Halt(request)
        answer = self._answers[self._next]
        self._next += 1
        if isinstance(answer, type):
            raise answer(f"{self.uri(request.key)}: {request.verb}")
        return answer

    def get(self, key: str) -> Blob:
        data = self._ask(Request("get", key))
        return Blob(data, _info(key, data))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key).data[start : start + length]

    def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        return [self.get_range(key, start, length) for start, length in ranges]

    def head(self, key: str) -> ObjectInfo:
        return self.get(key).info

    def put(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        self._ask(Request("put", key, bytes(data)))
        return etag_of(bytes(data))

    def put_if_absent(self, key: str, data: BytesLike, *, retry_for: float | None = None) -> str:
        self._ask(Request("put_if_absent", key, bytes(data)))
        return etag_of(bytes(data))

    def put_if_match(self, key: str, data: BytesLike, etag: str, *, retry_for: float | None = None) -> str:
        self._ask(Request("put_if_match", key, bytes(data), etag))
        return etag_of(bytes(data))

    def list(self, prefix: str, *, after: str | None = None) -> Listing:
        found = self._ask(Request("list", prefix, b"", after))
        return Listing(tuple(_info(key, data) for key, data in found), atomic=True)

    def delete(self, key: str) -> None:
        self._ask(Request("delete", key))

    def get_many(self, keys: Sequence[str]) -> list[Blob | None]:
        return [self._get_or_none(key) for key in keys]

    def _get_or_none(self, key: str) -> Blob | None:
        try:
            return self.get(key)
        except ObjectNotFoundError:
            return None

    def local_path(self, key: str) -> None:
        return None

    def uri(self, key: str) -> str:
        return f"{self.url}/{key}"


def _info(key: str, data: bytes) -> ObjectInfo:
    return ObjectInfo(key, len(data), etag_of(data), START_MS)


def perform(store: Store, request: Request) -> tuple[Store, Any]:
    """What the store holds after a request, and its answer; an error is answered by its class."""
    verb, key = request.verb, request.key
    old = store.get(key)
    if verb == "get":
        return store, ObjectNotFoundError if old is None else old
    if verb == "list":
        after = request.condition or ""
        return store, tuple(sorted(i for i in store.items() if i[0].startswith(key) and i[0] > after))
    if verb == "put_if_absent" and old is not None:
        return store, ObjectExistsError
    if verb == "put_if_match" and (old is None or etag_of(old) != request.condition):
        return store, ObjectChangedError
    changed = dict(store)
    if verb == "delete":
        changed.pop(key, None)
    else:
        changed[key] = request.body
    return changed, None


Program = Callable[[Any, Callable[[Any], None]], None]
"""Runs on a bucket and tells events. It ends by returning or by a `FirnError`."""


@dataclass
class _Node:
    """A program after some answers: what it asks next (None: it has ended) and all it has told until here."""

    answers: tuple[Any, ...]
    request: Request | None
    events: tuple[Any, ...]
    told: int
    """How many of the events were told before the last answer."""
    next: dict[Any, int] = field(default_factory=dict)


class Tree:
    """One program's histories, grown as they are met."""

    def __init__(self, name: str, program: Program) -> None:
        self.name = name
        self._program = program
        self.nodes: list[_Node] = [self._run((), 0)]

    def after(self, at: int, answer: Any) -> int:
        node = self.nodes[at]
        found = node.next.get(answer)
        if found is None:
            self.nodes.append(self._run((*node.answers, answer), len(node.events)))
            found = node.next[answer] = len(self.nodes) - 1
        return found

    def _run(self, answers: tuple[Any, ...], told: int) -> _Node:
        events: list[Any] = []
        request = None
        # Names that a program draws are its own and the same in each run.
        with seeded_entropy(random.Random(self.name)):
            try:
                self._program(RecordedBucket(answers), events.append)
            except _Halt as halt:
                request = halt.request
            except FirnError as error:
                events.append(("ended", error.kind))
        return _Node(answers, request, tuple(events), told)


class Late(NamedTuple):
    """A write that its program has given up on, and that may land at any later time."""

    request: Request


State = tuple[int, tuple[int, ...], tuple[int, ...], int, frozenset[Late]]
"""The store, each program's node, the store as each began (-1: it hasn't), faults left, writes under way."""


class Violation(AssertionError):
    """What went wrong, and the requests that lead there."""


@dataclass(frozen=True)
class Explored:
    """How much there was: states gone through, stores that they had, runs of the real code."""

    states: int
    stores: int
    runs: int


class Explorer:
    """`programs` by name, from `store` on. `lost` writes in all have no answer: they landed, or will, or never do.

    `judge(before, after, begun, name, event)` is asked at each event a program tells: `before` is the store at its
    request, `begun` the store at its first; `hold(before, after)` at each change of the store. Both raise what they
    find. `settle(store, told)` sees all that was told until then. Of programs that aren't `timed` nobody asks when
    they began.
    """

    def __init__(
        self,
        store: SimStore,
        programs: dict[str, Program],
        *,
        lost: int = 0,
        timed: frozenset[str] = frozenset(),
        eager: Callable[[Store, Request], bool],
        hold: Callable[[Store, Store], None],
        judge: Callable[[Store, Store, Store, str, Any], None],
        settle: Callable[[Store, list[Any]], None],
        limit: int = 1_000_000,
    ) -> None:
        self.trees = [Tree(name, program) for name, program in programs.items()]
        self._eager, self._hold, self._judge, self._settle = eager, hold, judge, settle
        self._limit = limit
        self._timed = timed
        self._stores: list[Store] = []
        self._ids: dict[frozenset[tuple[str, bytes]], int] = {}
        self._performed: dict[tuple[int, Request], tuple[int, Any]] = {}
        self._held: set[tuple[int, int]] = set()
        first = self._id(store.contents())
        n = len(self.trees)
        self._first: State = (first, (0,) * n, (-1,) * n, lost, frozenset())
        self._from: dict[State, tuple[State, str] | None] = {self._first: None}

    def run(self) -> Explored:
        stack = [self._first]
        while stack:
            state = stack.pop()
            for step, after in self._steps(state):
                if after in self._from:
                    continue
                self._from[after] = (state, step)
                if len(self._from) > self._limit:
                    raise Violation(f"more than {self._limit} states")
                try:
                    self._look(state, after)
                except AssertionError as error:
                    raise Violation(f"{error}\n{self._path(after)}") from error
                stack.append(after)
        return Explored(len(self._from), len(self._stores), sum(len(tree.nodes) for tree in self.trees))

    def _id(self, store: Store) -> int:
        key = frozenset(store.items())
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = len(self._stores)
            self._stores.append(store)
        return found

    def _apply(self, store: int, request: Request) -> tuple[int, Any]:
        found = self._performed.get((store, request))
        if found is None:
            changed, answer = perform(self._stores[store], request)
            found = (self._id(changed), answer)
            self._performed[store, request] = found
        return found

    def _steps(self, state: State) -> Iterator[tuple[str, State]]:
        store, nodes, begun, lost, late = state
        asked = [tree.nodes[at].request for tree, at in zip(self.trees, nodes, strict=True)]
        here = self._stores[store]
        for i, request in enumerate(asked):
            if request is not None and self._eager(here, request):
                after, answer = self._apply(store, request)
                yield self._step(state, i, request, after, answer, lost, late)
                return
        for i, request in enumerate(asked):
            if request is None:
                continue
            after, answer = self._apply(store, request)
            yield self._step(state, i, request, after, answer, lost, late)
            if lost and request.verb not in ("get", "list"):
                unknown = OutcomeUnknownError
                yield self._step(state, i, request, after, unknown, lost - 1, late)
                yield self._step(state, i, request, store, unknown, lost - 1, late | {Late(request)})
        for landing in late:
            after, _ = self._apply(store, landing.request)
            yield f"late {landing.request}", (after, nodes, begun, lost, late - {landing})

    def _step(
        self,
        state: State,
        i: int,
        request: Request,
        after: int,
        answer: Any,
        lost: int,
        late: frozenset[Late],
    ) -> tuple[str, State]:
        store, nodes, begun, _, _ = state
        tree = self.trees[i]
        node = tree.after(nodes[i], answer)
        if begun[i] < 0 and tree.name in self._timed:
            begun = (*begun[:i], store, *begun[i + 1 :])
        described = f"{tree.name} {request.verb} {request.key} -> {_shown(answer)}"
        return described, (after, (*nodes[:i], node, *nodes[i + 1 :]), begun, lost, late)

    def _look(self, before: State, after: State) -> None:
        was, now = self._stores[before[0]], self._stores[after[0]]
        if before[0] != after[0] and (before[0], after[0]) not in self._held:
            self._hold(was, now)
            self._held.add((before[0], after[0]))
        told: list[Any] = []
        for i, tree in enumerate(self.trees):
            node = tree.nodes[after[1][i]]
            if after[1][i] != before[1][i]:
                for event in node.events[node.told :]:
                    self._judge(was, now, self._stores[after[2][i]], tree.name, event)
            told.extend(node.events)
        self._settle(now, told)

    def _path(self, state: State) -> str:
        steps = []
        at = self._from[state]
        while at is not None:
            steps.append(at[1])
            at = self._from[at[0]]
        return "\n".join(reversed(steps))


def _shown(answer: Any) -> str:
    if isinstance(answer, type):
        return answer.__name__
    return "ok" if answer is None else f"{answer!r:.60}"
