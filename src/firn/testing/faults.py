"""Faults of a request, and plans that say when they happen: by script or by seed.

| fault | what the store sees | what the client sees |
| --- | --- | --- |
| `CRASH_BEFORE` | nothing | the process is gone: `Crashed`, now and at every later call |
| `CRASH_AFTER` | the request | the same |
| `LOST` | nothing | `OutcomeUnknownError` |
| `LOST_ACK` | the write | `OutcomeUnknownError` |
| `retried(s)` | the write, and again s seconds later | the second answer: often a refusal |
| `delayed(s)` | the put, s seconds later, its condition checked then | `OutcomeUnknownError` at once |
| `duplicated(s)` | the put, and again s seconds later, its condition checked then | the first answer |
| `FAILED` | nothing | `StoreUnavailableError` |
| `slow(s)` | the request, s seconds later | the answer |
| `stalled(s)` | the request | the answer, s seconds later: others have gone on meanwhile |
| `TRUNCATED` | the read | half of the body |
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import accumulate
from typing import Literal, Protocol

from firn.testing.schedule import Seed, stream
from firn.testing.verbs import CONDITIONAL_PUTS, PUTS, READS, WRITES, Request, Verb

FaultKind = Literal[
    "crash_before",
    "crash_after",
    "lost",
    "lost_ack",
    "retried",
    "delayed",
    "duplicated",
    "failed",
    "slow",
    "stalled",
    "truncated",
]

_ONLY: dict[FaultKind, frozenset[Verb]] = {
    "lost": WRITES,
    "lost_ack": WRITES,
    "retried": WRITES,
    "delayed": PUTS,
    "duplicated": PUTS,
    "truncated": frozenset({"get", "get_range"}),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong with one request; `seconds` as the kind needs them."""

    kind: FaultKind
    seconds: float = 0.0

    def applies(self, verb: Verb) -> bool:
        """Whether a request of this verb can suffer it: a lost acknowledgement is for writes, and so on."""
        return self.kind not in _ONLY or verb in _ONLY[self.kind]

    def __str__(self) -> str:
        return f"{self.kind} {self.seconds:g} s" if self.seconds else self.kind


CRASH_BEFORE = Fault("crash_before")
CRASH_AFTER = Fault("crash_after")
LOST = Fault("lost")
LOST_ACK = Fault("lost_ack")
FAILED = Fault("failed")
TRUNCATED = Fault("truncated")


def retried(seconds: float = 0.0) -> Fault:
    """The answer is lost and the bucket sends the write again, unless `retry_for` has passed by then."""
    return Fault("retried", seconds)


def delayed(seconds: float) -> Fault:
    """The client gives up on a put that lands later all the same, even if the client is dead by then."""
    return Fault("delayed", seconds)


def duplicated(seconds: float) -> Fault:
    """The put lands, is answered, and lands again later."""
    return Fault("duplicated", seconds)


def slow(seconds: float) -> Fault:
    """The request takes its time to reach the store."""
    return Fault("slow", seconds)


def stalled(seconds: float) -> Fault:
    """The client sleeps after the request landed and before it goes on, as a paused process does."""
    return Fault("stalled", seconds)


class FaultPlan(Protocol):
    """Says for each call, in the order in which they reach the store, what goes wrong with it."""

    def decide(self, call: Request) -> Fault | None: ...


class Rule:
    """`fault` for the nth (from 0) call that matches client, verb and key (a glob), each optional.

    `every=True` makes it all calls from the nth on. Calls that the fault doesn't apply to don't count.
    """

    def __init__(
        self,
        fault: Fault,
        *,
        client: str | None = None,
        verb: Verb | Collection[Verb] | None = None,
        key: str | None = None,
        nth: int = 0,
        every: bool = False,
    ) -> None:
        self.fault = fault
        self.client = client
        self.verbs: Collection[Verb] | None = (verb,) if isinstance(verb, str) else verb
        self.key = key
        self.nth = nth
        self.every = every
        self.seen = 0

    @property
    def fired(self) -> bool:
        """Whether it has struck."""
        return self.seen > self.nth

    def strikes(self, call: Request) -> bool:
        if (
            (self.client is not None and call.client != self.client)
            or (self.verbs is not None and call.verb not in self.verbs)
            or (self.key is not None and not fnmatchcase(call.key, self.key))
            or not self.fault.applies(call.verb)
        ):
            return False
        self.seen += 1
        return self.seen == self.nth + 1 or (self.every and self.fired)


class Script:
    """Faults by rule. It counts calls, so make a new one for each run.

    Example:
        >>> from firn.errors import OutcomeUnknownError
        >>> from firn.testing import LOST_ACK, Rule, Script, SimStore
        >>> store = SimStore()
        >>> bucket = store.bucket(plan=Script(Rule(LOST_ACK, verb="put_if_absent", key="*.lock")))
        >>> try:
        ...     bucket.put_if_absent("a.lock", b"mine")
        ... except OutcomeUnknownError as error:
        ...     print(error.kind)
        outcome_unknown
        >>> store.keys()
        ['a.lock']
    """

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def decide(self, call: Request) -> Fault | None:
        # Every rule counts every call, so that the order of rules doesn't shift what "nth" means.
        struck = [rule.fault for rule in self.rules if rule.strikes(call)]
        return struck[0] if struck else None


class RandomFaults:
    """Faults by seed; each rate is the probability that a call suffers it, 0 to 1.

    `delay_s` is the longest that an unconditional put may be under way: the bound that protocols rely on.
    `stall_s` is the longest stall of a client and the longest delay of a conditional put, whose condition is
    checked when it lands. Both are drawn so that short ones are common. `spare` names clients that
    never suffer, in none of their restarts.

    Example:
        >>> from firn.testing import World
        >>> world = World(7, faults=RandomFaults(7, crash=0.001, lost_ack=0.02, stalled=0.01))
    """

    def __init__(
        self,
        seed: Seed,
        *,
        crash: float = 0.0,
        lost_ack: float = 0.0,
        retried: float = 0.0,
        delayed: float = 0.0,
        duplicated: float = 0.0,
        failed: float = 0.0,
        slow: float = 0.0,
        stalled: float = 0.0,
        truncated: float = 0.0,
        delay_s: float = 300.0,
        stall_s: float = 10_800.0,
        spare: Collection[str] = (),
    ) -> None:
        self.delay_s = delay_s
        self.stall_s = stall_s
        self.spare = frozenset(spare)
        self._random: Callable[[], float] = stream(seed, "faults").random
        rates: dict[FaultKind, float] = {
            "crash_before": crash / 2,
            "crash_after": crash / 2,
            "lost_ack": lost_ack,
            "retried": retried,
            "delayed": delayed,
            "duplicated": duplicated,
            "failed": failed,
            "slow": slow,
            "stalled": stalled,
            "truncated": truncated,
        }
        self._by_verb: dict[Verb, tuple[float, Sequence[float], Sequence[FaultKind]]] = {}
        for verb in READS | WRITES:
            kinds = [k for k, rate in rates.items() if rate > 0 and Fault(k).applies(verb)]
            bounds = list(accumulate(rates[k] for k in kinds))
            self._by_verb[verb] = (bounds[-1] if bounds else 0.0, bounds, kinds)

    def decide(self, call: Request) -> Fault | None:
        drawn = self._random()
        total, bounds, kinds = self._by_verb[call.verb]
        if drawn >= total or call.client.partition("~")[0] in self.spare:
            return None
        kind = kinds[bisect_right(bounds, drawn)]
        if kind not in ("retried", "delayed", "duplicated", "slow", "stalled"):
            return Fault(kind)
        # A client's pause after the answer, and a condition checked at landing, may be as late as they like.
        unbounded = kind == "stalled" or (kind != "slow" and call.verb in CONDITIONAL_PUTS)
        longest = self.stall_s if unbounded else self.delay_s
        return Fault(kind, longest * self._random() ** 4)
