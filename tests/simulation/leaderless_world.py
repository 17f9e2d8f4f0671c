"""Many clients on one leaderless table: `build` makes a world of a `Shape`, and everything follows from its seed.

What clients do is in `leaderless_clients` and `leaderless_streams`, what they were promised in
`leaderless_model`, what the store watches over in `watched`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.errors import ConflictError
from firn.journal.leaderless import LeaderlessSettings
from firn.journal.model import Commit
from firn.testing import Call, Fault, FaultPlan, RandomFaults, Replay, SimClient, SimStore, World
from simulation import appender_clients
from simulation.appender_clients import Gatherers, Outages
from simulation.faults import LandsInTime
from simulation.leaderless_clients import Clients
from simulation.leaderless_model import Model
from simulation.leaderless_streams import StreamReader
from simulation.leaderless_table import (
    HOUR,
    PREFIX,
    SETTINGS,
    journal_of,
    put_rows,
    read_all,
    rows_that_stay,
)
from simulation.outside_lock import LockService
from simulation.watched import WatchedStore


@dataclass(frozen=True)
class Shape:
    """How large and how hostile a world is.

    `faults` scales all rates, `stalls` those of sleeping clients and of puts that land late. `skew_ms` is how far
    clocks may be off, `appenders_off_ms` those of appenders if it is another. `page_size` None draws one.
    `conditional=False` is a store without conditional puts, under a lock from outside. `pace` stretches
    pauses. `inline` is the part of the appends whose rows stand in their logs. `unlocked` mergers take the lock
    only to publish. In a `windowed` world views build on earlier ones, and each log lands within Z of its being
    sent or never. `hasty` sweepers take all that is dead. `gatherers` are appenders, to which the store is gone now
    and then.
    """

    appenders: int = 4
    mergers: int = 2
    removers: int = 1
    restorers: int = 1
    cleaners: int = 1
    sweepers: int = 1
    readers: int = 2
    checkpointers: int = 1
    folders: int = 0
    streams: int = 1
    stream_limit: int | None = 3
    rounds: int = 4
    faults: float = 1.0
    stalls: float = 1.0
    skew_ms: int = 55_000
    appenders_off_ms: int | None = None
    page_size: int | None = None
    conditional: bool = True
    pace: float = 1.0
    orphan_age_ms: int = 2 * HOUR
    inline: float = 0.0
    unlocked: int = 0
    windowed: bool = False
    hasty: bool = False
    gatherers: int = 0


def _is_late_log(call: Call, fault: Fault) -> bool:
    return fault.kind in ("delayed", "duplicated", "retried") and "/_log/" in call.key


def _lands_in_time(call: Call, fault: Fault) -> bool:
    """The log of an append lands within Z of its being sent or never, conditional or not, and so does that of a
    restore, and of a merge without the lock. Other conditional puts are as late as they like."""
    bounded = "_m_" not in call.key or call.client.startswith(("restore", "unlocked"))
    return bounded and _is_late_log(call, fault)


def build(
    seed: int | Replay, shape: Shape = Shape(), *, store: Bucket | None = None, watch: bool | None = None
) -> World:
    """A world of `shape`, ready to run, over `store` if that is given. `watch` has the store look at deletions;
    by default in one seed of four, as it takes time."""
    number = seed if isinstance(seed, int) else 0
    rng = random.Random(f"leaderless {number}")
    settings = replace(
        SETTINGS,
        orphan_age_ms=shape.orphan_age_ms,
        lock_wait_ms=rng.choice([0, 30_000, 240_000]),
        lease_ms=rng.choice([30_000, 120_000]),
    )
    page_size = rng.choice([1, 2, 3, 1000]) if shape.page_size is None else shape.page_size
    backing: SimStore | Bucket
    if store is None:
        watched = number % 4 == 0 if watch is None else watch
        watched = watched and not shape.hasty  # which deletes what died just now
        options = {
            "page_size": page_size,
            "etags": rng.choice(["content", "counter"]),
            "modified_step_ms": rng.choice([1, 1000]),
            "conditional_put": shape.conditional,
        }
        backing = WatchedStore(settings, **options) if watched else SimStore(**options)  # type: ignore[arg-type]
    else:
        backing = store
    # Half of the worlds spare their streams, which else often stall for so long that they are told to give up.
    spare = [f"stream{n}-0" for n in range(shape.streams)] if rng.random() < 0.5 else []
    faults = _faults(seed, shape, settings, spare)
    world = World(seed, store=backing, faults=faults, page_size=page_size)
    model = Model()
    service = None if shape.conditional else LockService(lifetime_ms=12 * HOUR)
    clients = Clients(
        model,
        settings,
        shape.rounds,
        twins=shape.conditional,
        pace=shape.pace,
        lock_of=None if service is None else service.of,
        inline=shape.inline,
        windowed=shape.windowed,
        hasty=shape.hasty,
    )
    streams = [StreamReader(clients, limit=shape.stream_limit) for _ in range(shape.streams)]

    def spawn(
        kind: str, count: int, program: Callable[[SimClient], None], off_ms: int = shape.skew_ms
    ) -> None:
        for n in range(count):
            skew = rng.randint(-off_ms, off_ms) if off_ms else 0
            world.spawn(f"{kind}{n}", program, skew_ms=skew, restarts=1, expected=(ConflictError,))

    off = shape.skew_ms if shape.appenders_off_ms is None else shape.appenders_off_ms
    spawn("append", shape.appenders, clients.appender, off)
    spawn(appender_clients.NAME, shape.gatherers, Gatherers(clients, settings).run)
    spawn("merge", shape.mergers, clients.merger)
    spawn("remove", shape.removers, clients.remover)
    spawn("restore", shape.restorers, clients.restorer)
    spawn("clean", shape.cleaners, clients.cleaner)
    spawn("sweep", shape.sweepers, clients.sweeper)
    spawn("read", shape.readers, clients.reader)
    spawn("checkpoint", shape.checkpointers, clients.checkpointer)
    spawn("fold", shape.folders, clients.folder)
    for n, reader in enumerate(streams):
        spawn(f"stream{n}-", 1, reader.run)
    spawn("unlocked", shape.unlocked, clients.unlocked_merger)

    if isinstance(backing, WatchedStore):

        @world.invariant
        def deletions_follow_the_rules() -> None:
            assert not backing.violations, backing.violations[0]

    @world.check
    def everything_is_as_promised() -> None:
        bucket = world.observer()
        lock = None if service is None else service.of_bucket(bucket)
        for reader in streams:
            reader.final(journal_of(bucket, bucket.clock, settings, lock))
        if isinstance(backing, WatchedStore):
            backing.watching = False
        _final(model, clients, bucket, bucket.clock, settings, lock)

    world.model = model  # type: ignore[attr-defined]
    return world


def _faults(
    seed: int | Replay, shape: Shape, settings: LeaderlessSettings, spare: Sequence[str]
) -> FaultPlan | None:
    f = shape.faults
    if not f:
        return None
    longest = settings.landing_delay_ms / 1000 - 20
    faults = RandomFaults(
        seed,
        crash=0.004 * f,
        lost_ack=0.01 * f,
        retried=0.01 * f,
        delayed=0.01 * f * shape.stalls,
        duplicated=0.01 * f * shape.stalls,
        failed=0.01 * f,
        slow=0.03 * f,
        stalled=0.012 * f * shape.stalls,
        delay_s=longest,
        stall_s=3 * settings.grace_ms / 1000,
        spare=spare,
    )
    plan = LandsInTime(faults, longest, bounded=_is_late_log if shape.windowed else _lands_in_time)
    return Outages(seed, plan, longest_s=longest) if shape.gatherers else plan


def _final(
    model: Model, clients: Clients, bucket: Bucket, clock: Clock, settings: LeaderlessSettings, lock: object
) -> None:
    """With everybody gone: the right rows, and after a sweep nothing but live objects."""
    # Long enough to take over from the dead.
    settings = replace(settings, lock_wait_ms=2 * settings.lease_ms)
    journal = journal_of(bucket, clock, settings, lock)  # type: ignore[arg-type]
    snapshot = journal.snapshot()
    seen = read_all(journal, snapshot)
    model.check(journal, snapshot, seen)
    clock.sleep(20 * HOUR / 1000)
    for _ in range(3):  # logs replaced by logs that are replaced go pass by pass
        with journal.exclusive("merge") as session:
            parts = [f for f in session.snapshot.files if f.inlined is not None]
            rows = rows_that_stay(journal, parts)
            adds = [put_rows(journal, p, ids, maintenance=True) for p, ids in rows.items()]
            session.publish(Commit("merge", adds, [f.path for f in parts]))
        journal.sweep(grace_ms=0, orphan_age_ms=0, margin=False, dry_run=False)
    after = journal.snapshot()
    assert sorted(read_all(journal, after)) == sorted(seen), "sweep changed the rows"
    assert set(after.columns) == set(snapshot.columns), "sweep changed the columns"
    data = {i.key for i in bucket.list(f"{PREFIX}/_data/").objects}
    assert data == {f.path for f in after.objects}, "sweep left dead data files, or deleted live ones"
    logs = [i.key for i in bucket.list(f"{PREFIX}/_log/").objects]
    assert len(logs) == 1, f"logs are left: {logs}"
