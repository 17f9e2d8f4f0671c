"""Many clients, one thread, virtual time: a seeded scheduler that chooses at every request who goes on.

A program under test is a function of one client. It takes its bucket, its clock and its random numbers
from there and knows nothing else of the simulation:

    >>> from firn.testing import World
    >>> def increment(client):
    ...     seen = client.bucket.get("n")
    ...     client.bucket.put("n", b"%d" % (int(seen.data) + 1))
    >>> world = World(seed=2)
    >>> _ = world.observer().put("n", b"0")
    >>> a, b = world.spawn("a", increment), world.spawn("b", increment)
    >>> world.run()
    >>> world.store.contents()              # one update is lost; with seed 1 it isn't
    {'n': b'1'}
    >>> for call in world.trace:
    ...     print(call.client, call.verb)
    a get
    b get
    b put
    a put

Wait through `client.clock` only, and use no threads (`LocalRunner(threads=1)`). Random names are seeded; the
order of a set of strings is not, it changes with each Python process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal, NoReturn, TypeVar

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError
from firn.testing.client import Call, Client, Crashed, Solo, Timeline, milliseconds
from firn.testing.entropy import seeded_entropy
from firn.testing.faults import FaultPlan
from firn.testing.gated import GatedBucket
from firn.testing.schedule import RandomSchedule, Replay, ReplaySchedule, Schedule, Seed, stream
from firn.testing.store import START_MS, SimBucket, SimStore
from firn.testing.verbs import Verb
from firn.testing.wrapped import BucketBacking, InterleavedBucket

try:
    from greenlet import getcurrent, greenlet
except ImportError as error:
    raise ImportError("firn.testing needs greenlet: pip install 'firn[testing]'") from error

Check = TypeVar("Check", bound=Callable[[], object])
Program = Callable[["SimClient"], Any]

TRACE_SHOWN = 40


class SimulationFailure(AssertionError):
    """A check failed, a client raised what it wasn't expected to, or the simulation didn't end.

    `seed` makes it fail again; `trace` is every call until then, and the message shows the last ones.
    """

    def __init__(self, why: str, seed: Seed | None, trace: Iterable[Call]) -> None:
        self.seed = seed
        self.trace = tuple(trace)
        shown = "\n".join(f"  {call}" for call in self.trace[-TRACE_SHOWN:])
        again = "" if seed is None else f"\nrun it again with seed {seed!r}"
        super().__init__(f"{why}{again}\nlast of {len(self.trace)} calls:\n{shown}")


class SimClient(Client):
    """One process of a `World`: give its `bucket` and `clock` to the program under test.

    After the run: `result` is what the program returned, `error` what ended it if that was expected,
    `crashed` whether a fault killed it, `done` whether it has ended at all.
    """

    def __init__(
        self,
        world: World,
        name: str,
        program: Program,
        *,
        skew_ms: int,
        expected: tuple[type[Exception], ...],
        restarts: int,
    ) -> None:
        super().__init__(
            name, world.time, skew_ms=skew_ms, monotonic_start_s=1000.0 * (1 + len(world.clients))
        )
        self.world = world
        self.random = stream(world.seed, f"client {name}")
        self.bucket: GatedBucket = world.bucket_for(self)
        self.result: Any = None
        self.error: Exception | None = None
        self.done = False
        self._program = program
        self._expected = expected
        self._restarts = restarts
        self._greenlet: Any = None

    def call(self, verb: Verb, key: str) -> Call:
        self._must_run()
        world = self.world
        world._give_way(self, self)
        call = Call(len(world.trace), world.time.now_ms, self.name, verb, key)
        world.trace.append(call)
        if world.faults is not None:
            call.fault = world.faults.decide(call)
        return call

    def pause(self, seconds: float) -> None:
        self._must_run()
        self.world._sleep(self, seconds)

    def note(self, verb: Verb, key: str, outcome: str) -> None:
        world = self.world
        world.trace.append(Call(len(world.trace), world.time.now_ms, self.name, verb, key, None, outcome))

    def changed(self) -> None:
        self.world._hold_invariants()

    def order(self, n: int) -> Iterable[int]:
        return self.world._shuffled(n)

    def _must_run(self) -> None:
        self.must_live()
        if getcurrent() is not self._greenlet:
            raise InvalidInputError(
                f"client {self.name} was used outside of its own program: each client keeps its bucket and "
                "clock to itself and to one thread (LocalRunner(threads=1)); setup and checks have "
                "World.observer()"
            )

    def _switch(self) -> None:
        if self._greenlet is None:
            self._greenlet = greenlet(self._main, parent=self.world._hub)
        self._greenlet.switch()

    def _kill(self) -> None:
        self.crashed = True
        self._restarts = 0
        if self._greenlet is not None and not self._greenlet.dead:
            self._greenlet.throw(Crashed("the simulation is over"))

    def _main(self) -> None:
        try:
            self.result = self._program(self)
        except Crashed:
            pass
        except Exception as error:
            # Nobody hears what a dead process says in its `finally:` blocks.
            if self.crashed:
                pass
            elif isinstance(error, self._expected):
                self.error = error
            else:
                self.world._why = f"client {self.name} raised {type(error).__name__}: {error}", error
        self.done = True
        self.world._left(self)


class World:
    """A store, its clients, and the order in which their requests reach it: all from `seed`.

    `store` is a `SimStore` (a fresh one unless given) or any real bucket. `faults` says what goes wrong.
    Each request takes up to `latency_ms` of virtual time. When no client can go on, time jumps to the next
    sleeper's or late put's moment; with `wake="any"` at times before, as if all the others had stalled.
    `page_size` cuts a real bucket's LISTs into pages; a SimStore has its own. More than `max_steps` steps
    are taken for a livelock.
    """

    def __init__(
        self,
        seed: Seed = 0,
        *,
        store: SimStore | Bucket | None = None,
        faults: FaultPlan | None = None,
        latency_ms: int = 20,
        wake: Literal["idle", "any"] = "idle",
        page_size: int | None = None,
        max_steps: int = 1_000_000,
    ) -> None:
        self.seed = seed
        self.faults = faults
        self.clients: list[SimClient] = []
        self.trace: list[Call] = []
        self.steps = 0
        self.max_steps = max_steps
        self._page_size = page_size
        self._store: SimStore | Bucket = SimStore(page_size=page_size or 1000) if store is None else store
        self.time = self._store.time if isinstance(self._store, SimStore) else Timeline(START_MS)
        self._backings: dict[int, BucketBacking] = {}
        self._schedule: Schedule = (
            RandomSchedule(seed, latency_ms) if isinstance(seed, int) else ReplaySchedule(seed)
        )
        self._wake_any = wake == "any"
        self._entropy = stream(seed, "entropy")
        self._order = stream(seed, "order")
        self._hub: Any = None
        self._starting = False
        self._ending = False
        self._ready: list[SimClient] = []
        self._living = 0
        self._unstarted: list[SimClient] = []
        self._why: tuple[str, BaseException | None] | None = None
        self._checks: list[Callable[[], object]] = []
        self._invariants: list[Callable[[], object]] = []
        self._checking = False

    @property
    def store(self) -> SimStore:
        """The simulated store; over a real bucket there is none, see `observer`."""
        if not isinstance(self._store, SimStore):
            raise InvalidInputError(
                f"this world runs over {self._store.url}, not a SimStore: look at it through World.observer()"
            )
        return self._store

    def spawn(
        self,
        name: str,
        program: Program,
        *,
        skew_ms: int = 0,
        after: float = 0.0,
        expected: tuple[type[Exception], ...] = (),
        restarts: int = 0,
    ) -> SimClient:
        """Add a client that runs `program(client)`, `after` seconds from now, with a clock off by `skew_ms`.

        Errors of the types `expected` end it quietly (`client.error`); any other fails the simulation.
        After a crash, `restarts` new processes named name~1, name~2, … try the program again.
        """
        if self._ending:
            raise InvalidInputError(f"checks can't spawn {name}: spawn before run(), or run() once more")
        client = SimClient(self, name, program, skew_ms=skew_ms, expected=expected, restarts=restarts)
        self.clients.append(client)
        self._living += 1
        if after > 0:
            self.time.after(milliseconds(after), lambda: self._ready.append(client))
        elif self._hub is None:
            self._unstarted.append(client)
        else:
            self._ready.append(client)
        return client

    def observer(self, name: str = "observer", *, store: SimStore | Bucket | None = None) -> GatedBucket:
        """A bucket for setup and checks: no faults, nobody comes in between, and sleeping moves time."""
        return self.bucket_for(Solo(name, self.time), store)

    def bucket_for(self, client: Client, store: SimStore | Bucket | None = None) -> GatedBucket:
        """The client's bucket on another store of this world: a log kept apart from the data, say."""
        store = self._store if store is None else store
        if isinstance(store, SimStore):
            store.time = self.time
            return SimBucket(store, client)
        backing = self._backings.get(id(store))
        if backing is None:
            backing = BucketBacking(store, self.time, page_size=self._page_size)
            self._backings[id(store)] = backing
        return InterleavedBucket(backing, client)

    def check(self, check: Check) -> Check:
        """Call it when all clients have ended and all late puts have landed. Usable as a decorator."""
        self._checks.append(check)
        return check

    def invariant(self, check: Check) -> Check:
        """Call it after every change of the store. Usable as a decorator."""
        self._invariants.append(check)
        return check

    def run(self) -> None:
        """Let all clients run to their ends, then check. `SimulationFailure` names the seed.

        It may be called again after more `spawn`s.
        """
        if self._hub is not None:
            raise InvalidInputError("this world is running already; spawn the client instead")
        self._hub = getcurrent()
        try:
            with seeded_entropy(self._entropy):
                self._run()
                if isinstance(self.seed, Replay) and self.seed.diverged:
                    self._failed("the program did something else than when the replay was made")
                self._ending = True
                self.time.settle()
                for check in self._checks:
                    self._guard(check, "check")
        finally:
            for client in self.clients:
                if not client.done:
                    client._kill()
            self._ready.clear()
            self._hub = None
            self._ending = False

    def _run(self) -> None:
        # All clients go to the brink of their first call before any is let through.
        self._starting = True
        while self._unstarted:
            client = self._unstarted.pop(0)
            self._ready.append(client)
            client._switch()
            self._raise_failure()
        self._starting = False
        while self._living:
            self._choose(None)._switch()
            self._raise_failure()

    def _choose(self, current: SimClient | None) -> SimClient:
        """Let time pass and say who goes on; `current` is in line itself, or None."""
        self.steps += 1
        if self.steps > self.max_steps:
            self._failed(f"no end after {self.max_steps} steps: a livelock, or max_steps is too small")
        schedule, ready = self._schedule, self._ready
        self.time.advance(schedule.latency_ms())
        if self._wake_any and ready:
            while self.time.pending and schedule.jumps():
                self.time.jump()
        while not ready:
            if not self.time.jump():
                waiting = ", ".join(c.name for c in self.clients if not c.done)
                self._failed(f"deadlock: {waiting} sleep for ever and nothing is due")
        here = -1 if current is None else ready.index(current)
        return ready[schedule.pick(len(ready), here)]

    def _sleep(self, client: SimClient, seconds: float) -> None:
        self._ready.remove(client)
        if math.isfinite(seconds):
            self.time.after(milliseconds(seconds), lambda: self._ready.append(client))
        self._give_way(client, None)

    def _give_way(self, client: SimClient, in_line: SimClient | None) -> None:
        """Let another client run, unless the one that is chosen is this one."""
        if self._starting:
            self._hub.switch()
            return
        chosen = self._choose(in_line)
        if chosen is not client:
            chosen._switch()

    def _left(self, client: SimClient) -> None:
        self._living -= 1
        with suppress(ValueError):
            self._ready.remove(client)
        if client.crashed and client._restarts:
            base, _, count = client.name.partition("~")
            self.spawn(
                f"{base}~{int(count or 0) + 1}",
                client._program,
                skew_ms=client.clock.skew_ms,
                after=client.random.random(),
                expected=client._expected,
                restarts=client._restarts - 1,
            )

    def _shuffled(self, n: int) -> Iterable[int]:
        if isinstance(self.seed, Replay) or n < 2:
            return range(n)
        order = list(range(n))
        self._order.shuffle(order)
        return order

    def _hold_invariants(self) -> None:
        # An invariant that writes through an observer would otherwise check itself without end.
        if not self._invariants or self._checking:
            return
        self._checking = True
        try:
            for check in self._invariants:
                self._guard(check, "invariant")
        finally:
            self._checking = False

    def _guard(self, check: Callable[[], object], what: str) -> None:
        try:
            check()
        except Exception as error:
            name = getattr(check, "__name__", what)
            self._failed(f"{what} {name}: {type(error).__name__}: {error}", error)

    def _failed(self, why: str, cause: BaseException | None = None) -> NoReturn:
        """End the simulation from wherever it is noticed."""
        if self._why is None:
            self._why = (why, cause)
        if getcurrent() is not self._hub:
            self._hub.switch()
            raise Crashed("the simulation is over")
        self._raise_failure()
        raise AssertionError(why)

    def _raise_failure(self) -> None:
        if self._why is not None:
            (why, cause), self._why = self._why, None
            raise SimulationFailure(why, self.seed, self.trace) from cause
