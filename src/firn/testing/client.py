"""A simulated process: its calls, the virtual time it lives in, and how it dies.

Every request to a simulated bucket is one `Call` of one `Client`. A client alone is `Solo`; a client
among others belongs to a `World`, which decides at each call who goes on.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from firn.testing.faults import Fault, FaultPlan
from firn.testing.verbs import Verb


class Crashed(BaseException):
    """The simulated process is gone.

    Not an `Exception`, so that no handler of errors mistakes it for one; and every later call of the
    client raises it again, so that `finally:` blocks can't touch the store, as they can't after a kill.
    """


@dataclass(slots=True)
class Call:
    """One request: `outcome` is "ok", the `kind` of the error that answered it, or what became of it."""

    number: int
    time_ms: int
    client: str
    verb: Verb
    key: str
    fault: Fault | None = None
    outcome: str = "ok"

    def __str__(self) -> str:
        fault = f"  [{self.fault}]" if self.fault is not None else ""
        outcome = "" if self.outcome == "ok" else f"  -> {self.outcome}"
        return f"{self.number:6} {self.time_ms} ms  {self.client:12} {self.verb} {self.key}{fault}{outcome}"


class Timeline:
    """Virtual time in ms and what is due in it. It moves only when somebody moves it.

    Example:
        >>> time = Timeline(1_000)
        >>> time.after(50, lambda: print("due at", time.now_ms))
        >>> time.advance(100)
        due at 1050
        >>> time.now_ms
        1100
    """

    __slots__ = ("_due", "_sequence", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._due: list[tuple[int, int, Callable[[], object]]] = []
        self._sequence = 0

    def after(self, ms: int, action: Callable[[], object]) -> None:
        """Run `action` when `ms` have passed; actions due at the same time run in the order of asking."""
        heapq.heappush(self._due, (self.now_ms + max(0, ms), self._sequence, action))
        self._sequence += 1

    @property
    def pending(self) -> bool:
        """Whether anything is due, ever."""
        return bool(self._due)

    def advance(self, ms: int) -> None:
        target = self.now_ms + ms
        while self._due and self._due[0][0] <= target:
            self.jump()
        # An action may have moved time itself.
        if target > self.now_ms:
            self.now_ms = target

    def jump(self) -> bool:
        """Go to the next thing due and run it; False if there is none."""
        if not self._due:
            return False
        at, _, action = heapq.heappop(self._due)
        if at > self.now_ms:
            self.now_ms = at
        action()
        return True

    def settle(self) -> None:
        """Run everything that is due, ever."""
        while self.jump():
            pass


class SimClock:
    """The `Clock` of one simulated client: virtual time, seen `skew_ms` too late or too early.

    `monotonic` counts from a start of its own, as it does in two real processes, so comparing two
    clients' readings is as wrong here as there.
    """

    def __init__(self, client: Client, skew_ms: int = 0, monotonic_start_s: float = 0.0) -> None:
        self._client = client
        self._born_ms = client.time.now_ms
        self._monotonic_start_s = monotonic_start_s
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._client.time.now_ms + self.skew_ms

    def monotonic(self) -> float:
        return self._monotonic_start_s + (self._client.time.now_ms - self._born_ms) / 1000

    def sleep(self, seconds: float) -> None:
        self._client.pause(seconds)


class Client(ABC):
    """One process as its buckets see it. `World.spawn` and `Solo` make them."""

    def __init__(
        self, name: str, time: Timeline, *, skew_ms: int = 0, monotonic_start_s: float = 0.0
    ) -> None:
        self.name = name
        self.time = time
        self.crashed = False
        self.clock = SimClock(self, skew_ms, monotonic_start_s)

    @abstractmethod
    def call(self, verb: Verb, key: str) -> Call:
        """Stand before a request: others may run, time passes, and a fault may be chosen.
        Returns when the request is to reach the store; `Crashed` if the client is dead."""

    @abstractmethod
    def pause(self, seconds: float) -> None:
        """Let virtual time pass for this client."""

    @abstractmethod
    def note(self, verb: Verb, key: str, outcome: str) -> None:
        """Put something into the trace that is not this client's doing: a late landing."""

    def crash(self) -> NoReturn:
        self.crashed = True
        raise Crashed(f"{self.name} crashed")

    def must_live(self) -> None:
        if self.crashed:
            raise Crashed(f"{self.name} is gone; this call never left it")

    def changed(self) -> None:  # noqa: B027 -- only a world has invariants to check
        """The store has just changed."""

    def order(self, n: int) -> Iterable[int]:
        """In which order n requests that are in flight together reach the store."""
        return range(n)


class Solo(Client):
    """A client without rivals: its calls go straight on, 1 ms each, with faults from `plan`."""

    def __init__(self, name: str, time: Timeline, plan: FaultPlan | None = None, *, skew_ms: int = 0) -> None:
        super().__init__(name, time, skew_ms=skew_ms)
        self.plan = plan
        self.trace: list[Call] = []

    def call(self, verb: Verb, key: str) -> Call:
        self.must_live()
        self.time.advance(1)
        call = Call(len(self.trace), self.time.now_ms, self.name, verb, key)
        self.trace.append(call)
        if self.plan is not None:
            call.fault = self.plan.decide(call)
        return call

    def pause(self, seconds: float) -> None:
        self.must_live()
        self.time.advance(milliseconds(seconds))

    def note(self, verb: Verb, key: str, outcome: str) -> None:
        call = Call(len(self.trace), self.time.now_ms, self.name, verb, key, None, outcome)
        self.trace.append(call)


def milliseconds(seconds: float) -> int:
    """Rounded up, so that nobody wakes before a deadline of its own."""
    return max(0, math.ceil(seconds * 1000 - 1e-6))
