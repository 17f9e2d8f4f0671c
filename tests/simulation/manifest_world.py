"""Many processes on one keyed table: `build` makes a world of a `ManifestShape`, and all follows from its seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from firn.errors import NotFoundError, SnapshotTooOldError
from firn.journal.manifest import View
from firn.testing import Call, Fault, GatedBucket, Replay, SimStore, World
from simulation.faults import LandsInTime, rough
from simulation.manifest_clients import Clients
from simulation.manifest_model import Model
from simulation.manifest_table import (
    BUFFER_S,
    L0_MIN_AGE_S,
    LAYOUT,
    PREFIX,
    contents_of,
    create,
    journal_of,
    put_sst,
)
from simulation.manifest_watch import WatchedManifests

SKEW_MS = 50_000
LANDS_S = 60
"""No unconditional put lands later than so after it was sent."""


@dataclass(frozen=True)
class ManifestShape:
    """How large and how hostile a world is. `faults` scales all rates, `stalls` those of sleeping clients and of
    puts that land late. `page_size` None draws one. `pace` stretches pauses. `told_s`: how far back manifests tell
    what was replaced."""

    writers: int = 2
    compactors: int = 1
    readers: int = 2
    snapshotters: int = 1
    collectors: int = 1
    rounds: int = 6
    faults: float = 1.0
    stalls: float = 1.0
    page_size: int | None = None
    pace: float = 1.0
    told_s: float = L0_MIN_AGE_S


MANIFEST_SHAPES: dict[str, ManifestShape] = {
    "mixed": ManifestShape(),
    "calm": ManifestShape(faults=0),
    # Who opens most often: writers that fence one another.
    "rivals": ManifestShape(writers=4, readers=1, snapshotters=0, collectors=0, pace=0.1),
    "zombies": ManifestShape(writers=4, readers=1, snapshotters=0, stalls=6, pace=0.5),
    "compactors": ManifestShape(compactors=3, readers=1, snapshotters=0, collectors=2, pace=0.6),
    "snapshots": ManifestShape(writers=1, compactors=1, readers=0, snapshotters=3, collectors=3, rounds=8),
    "collectors": ManifestShape(writers=2, compactors=2, readers=2, collectors=3, rounds=8, stalls=3),
    # Puts and swaps of snapshots that land again, after these were deleted.
    "late": ManifestShape(
        writers=1, compactors=1, readers=0, snapshotters=3, collectors=2, rounds=10, stalls=8, pace=0.4
    ),
    # Manifests that tell less than collectors have to know.
    "terse": ManifestShape(writers=1, compactors=2, readers=1, collectors=3, told_s=0, pace=0.5),
    "paged": ManifestShape(writers=3, page_size=1, pace=0.3),
}


def _lands_in_time(call: Call, fault: Fault) -> bool:
    """Unconditional puts and deletes land soon or never, conditional puts as late as they like."""
    return fault.kind != "stalled" and call.verb not in ("put_if_absent", "put_if_match")


def build(seed: int | Replay, shape: ManifestShape) -> World:
    """A world of `shape`, ready to run."""
    number = seed if isinstance(seed, int) else 0
    rng = random.Random(f"manifest {number}")
    page_size = rng.choice([1, 2, 3, 1000]) if shape.page_size is None else shape.page_size
    etags = rng.choice(["content", "counter"])
    store = WatchedManifests(LAYOUT, L0_MIN_AGE_S, page_size=page_size, etags=etags)
    world = World(seed, store=store, faults=_faults(seed, shape))
    setup = world.observer("setup")
    create(setup, setup.clock)
    model = Model()
    clients = Clients(model, shape.rounds, pace=shape.pace, told_s=shape.told_s)
    for kind, count, program in (
        ("write", shape.writers, clients.writer),
        ("compact", shape.compactors, clients.compactor),
        ("read", shape.readers, clients.reader),
        ("snapshot", shape.snapshotters, clients.snapshotter),
        ("collect", shape.collectors, clients.collector),
    ):
        for n in range(count):
            world.spawn(f"{kind}{n}", program, skew_ms=rng.randint(-SKEW_MS, SKEW_MS), restarts=2)

    @world.check
    def everything_is_as_promised() -> None:
        final(model, world.observer(), store)
        assert not store.violations, store.violations

    world.model = model  # type: ignore[attr-defined]
    return world


def _faults(seed: int | Replay, shape: ManifestShape) -> LandsInTime | None:
    if not shape.faults:
        return None
    faults = rough(seed, shape.faults, shape.stalls, slow=0.03, delay_s=LANDS_S, stall_s=2000)
    return LandsInTime(faults, LANDS_S, bounded=_lands_in_time)


def final(model: Model, bucket: GatedBucket, store: SimStore) -> None:
    """With everybody gone: nothing is lost, snapshots can be read, the table goes on, a sweep leaves what is live."""
    journal = journal_of(bucket, bucket.clock)
    model.saw(contents_of(journal, journal.read()), model.floor())
    _reads_snapshots(model, bucket)
    session = journal.open_writer()
    model.opened(session.epoch, session.start, model.floor())
    number = session.next_number
    body = model.send(session.epoch, number)
    session.put_l0(number, body)
    session.confirm(number)
    model.acknowledge(number, body)
    _compacts_all(bucket)
    model.saw(contents_of(journal, journal.read()), model.floor())
    for _ in range(2):
        bucket.clock.sleep(L0_MIN_AGE_S + 1)
        report = journal.collect(l0_min_age_s=L0_MIN_AGE_S, buffer_s=BUFFER_S)
    _reads_snapshots(model, bucket)
    _tells_what_is_broken(bucket, store, report.dangling)
    model.saw(contents_of(journal, journal.read()), model.floor())
    live, may = live_keys(bucket)
    keys = {key for key in store.keys(PREFIX) if "/_firn/" not in key}
    assert live <= keys, f"a live object is gone: {sorted(live - keys)}"
    assert keys <= live | may, f"a sweep left what nobody names: {sorted(keys - live - may)}"


def _reads_snapshots(model: Model, bucket: GatedBucket) -> None:
    journal = journal_of(bucket, bucket.clock)
    refs = {ref.id: ref for ref in journal.snapshots()}
    for name, kept in model.kept.items():
        if kept.contents is None or (
            kept.expires_ms is not None and kept.expires_ms <= bucket.clock.now_ms()
        ):
            continue
        assert name in refs, f"snapshot {name} is gone"
        model.read_again(name, contents_of(journal, journal.view_of(refs[name])), 0)


def _tells_what_is_broken(bucket: GatedBucket, store: SimStore, dangling: Sequence[str]) -> None:
    """Nothing is left of a snapshot but live ones; and those that its maker died over can be read, or are told."""
    journal = journal_of(bucket, bucket.clock)
    refs = journal.snapshots()
    assert {ref.key for ref in refs} == set(store.keys(LAYOUT.snapshots_prefix)), "a dead snapshot was left"
    for ref in refs:
        try:
            contents_of(journal, journal.view_of(ref))
        except NotFoundError:
            assert ref.key in dangling, f"{ref.key} can't be read, and no collection tells it"


def _compacts_all(bucket: GatedBucket) -> None:
    journal = journal_of(bucket, bucket.clock)
    session = journal.open_compactor()
    view = session.refresh()
    entries = sorted((file.number, journal.read_l0(file)) for file in view.l0)
    if entries:
        run = 1 + max((info.run for info in view.manifest.ssts), default=-1)
        session.commit(adds=[put_sst(session, 1, run, entries)], deletes=[], last_compacted=entries[-1][0])


def live_keys(bucket: GatedBucket) -> tuple[set[str], set[str]]:
    """What pointer and snapshots name; and what snapshots name of which nobody knows that it exists, as nobody has
    been told of them: one that was given up and landed late."""
    journal = journal_of(bucket, bucket.clock)
    view = journal.read()
    live = {LAYOUT.pointer_key, *_named(view)}
    may: set[str] = set()
    for ref in journal.snapshots():
        live.add(ref.key)
        with suppress(SnapshotTooOldError):  # one of which a put landed once more, after it had gone
            may |= _named(journal.view_of(ref))
    return live, may


def _named(view: View) -> set[str]:
    return {
        *(LAYOUT.manifest_key(name) for name in view.manifest.chain),
        *(LAYOUT.sst_key(info.file) for info in view.manifest.ssts),
        *(file.key for file in view.l0),
    }
