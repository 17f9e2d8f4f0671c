"""Many processes on one writer's catalog: `build` makes a world of a `WriterShape`, and all follows from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from firn.errors import HandleClosedError
from firn.journal.writer.unclaimed.repair import repair
from firn.testing import GatedBucket, Replay, SimClient, SimStore, World
from simulation.faults import LandsInTime, rough
from simulation.writer_catalog import LAYOUT, commit, handle_of, history_of, numbers
from simulation.writer_clients import LANDS_S
from simulation.writer_keepers import Keepers
from simulation.writer_model import Model
from simulation.writer_upkeep import Change, check_swept, lay_files


@dataclass(frozen=True)
class WriterShape:
    """How large and how hostile a world is. `faults` scales all rates, `stalls` those of sleeping clients and of
    puts that land late. `claims` is a store with conditional puts. `page_size` None draws one. With `files`, commits
    have data files and do all there is to do; `overlapping`, they commit in another order than they began; with
    `rows`, some add rows that stand in the catalog."""

    writers: int = 2
    readers: int = 2
    checkpointers: int = 1
    pruners: int = 0
    collectors: int = 0
    people: int = 0
    disks: int = 0
    files: bool = False
    overlapping: bool = False
    rows: bool = False
    rounds: int = 5
    faults: float = 1.0
    stalls: float = 1.0
    claims: bool = False
    page_size: int | None = None
    pace: float = 1.0


WRITER_SHAPES: dict[str, WriterShape] = {
    "plain": WriterShape(),
    "crowd": WriterShape(writers=4, readers=1, rounds=4, pace=0.3),
    "paged": WriterShape(page_size=1, pace=0.5),
    "stalls": WriterShape(stalls=6, checkpointers=2, rounds=6),
    "calm": WriterShape(faults=0),
    "claims": WriterShape(claims=True, pace=0.5),
    "claims-pruned": WriterShape(claims=True, writers=3, pruners=1, checkpointers=2, readers=1, rounds=7, stalls=5),
    "kept": WriterShape(files=True, pruners=1, collectors=1, people=1, readers=1, rounds=7),
    "repaired": WriterShape(files=True, writers=4, people=1, pruners=1, readers=1, rounds=4, pace=0.3),
    "claims-kept": WriterShape(files=True, claims=True, pruners=1, collectors=1, readers=1, rounds=7, stalls=4),
    "spoilt": WriterShape(files=True, writers=1, pruners=2, checkpointers=2, disks=1, rounds=8, faults=0.3),
    "overlapping": WriterShape(files=True, overlapping=True, pruners=1, collectors=2, readers=1, rounds=5, stalls=0),
    "rows": WriterShape(files=True, rows=True, pruners=1, collectors=1, people=1, readers=1, rounds=7),
    "claims-rows": WriterShape(
        files=True, rows=True, claims=True, pruners=1, collectors=1, readers=1, rounds=7, stalls=4
    ),
}  # fmt: skip


def build(seed: int | Replay, shape: WriterShape) -> World:
    """A world of `shape`, ready to run."""
    number = seed if isinstance(seed, int) else 0
    rng = random.Random(f"writer {number}")
    page_size = rng.choice([1, 2, 3, 1000]) if shape.page_size is None else shape.page_size
    store = SimStore(page_size=page_size, conditional_put=shape.claims)
    world = World(seed, store=store, faults=_faults(seed, shape))
    model = Model()
    clients = Keepers(
        model,
        shape.rounds,
        pace=shape.pace,
        files=shape.files,
        overlapping=shape.overlapping,
        rows=shape.rows,
    )
    for kind, count, program in (
        ("write", shape.writers, clients.writer),
        ("checkpoint", shape.checkpointers, clients.checkpointer),
        ("read", shape.readers, clients.reader),
        ("prune", shape.pruners, clients.pruner),
        ("collect", shape.collectors, clients.collector),
        ("person", shape.people, clients.person),
        ("disk", shape.disks, clients.disk),
    ):
        for n in range(count):
            skew = rng.randint(-30_000, 30_000)
            world.spawn(f"{kind}{n}", _spawned(program), skew_ms=skew, restarts=1)

    @world.check
    def everything_is_as_promised() -> None:
        final(model, world.observer(), store, shape)

    world.model = model  # type: ignore[attr-defined]
    return world


def _spawned(program: object) -> object:
    def run(client: SimClient) -> None:
        program(client)  # type: ignore[operator]

    return run


def _faults(seed: int | Replay, shape: WriterShape) -> LandsInTime | None:
    if not shape.faults:
        return None
    faults = rough(seed, shape.faults, shape.stalls, slow=0.04, delay_s=LANDS_S, stall_s=120)
    # Pruning assumes that a put, conditional or not, lands soon or never.
    return LandsInTime(faults, LANDS_S, bounded=lambda call, fault: fault.kind != "stalled")


def final(model: Model, bucket: GatedBucket, store: SimStore, shape: WriterShape) -> None:
    """With everybody gone: what was acknowledged is there, all ways of reading agree, and the next one can go on."""
    version = history_of(bucket).load()
    model.final(version)
    assert not (shape.claims and version.fork), "a fork in spite of claims"
    if not shape.pruners:
        _reads_the_same_without_checkpoints(bucket, store)
    if version.fork is not None:
        model.happened["fork repaired"] += 1
        if not shape.files:
            lay_files(store)
        repair(bucket, LAYOUT, model.side(version.fork))
        version = history_of(bucket).load()
        assert version.fork is None
        assert version.head.revision >= 2
        shown = numbers(version.state)
        for number, head in model.acknowledged.items():
            assert shown.get(head.revision) == number, "a repair lost what was acknowledged"
    before = numbers(version.state)
    number = model.next()
    for _ in range(4):
        try:
            handle = handle_of(bucket, bucket.clock)
            head = Change(bucket, handle, number).commit() if shape.files else commit(handle, number)
            break
        except HandleClosedError:  # a claim that its owner left, finished by this
            continue
    else:
        raise AssertionError("nobody can commit any more")
    after = numbers(history_of(bucket).load().state)
    assert after[head.revision] == number
    assert before.items() <= after.items()
    if shape.files:
        check_swept(model, store)


def _reads_the_same_without_checkpoints(bucket: GatedBucket, store: SimStore) -> None:
    copy = store.copy()
    for key in copy.keys(LAYOUT.root):
        if key.endswith(".checkpoint") or key == LAYOUT.hint_key:
            copy.remove(key)
    short = history_of(bucket).load()
    whole = history_of(copy.bucket()).load()
    if whole.fork is None or short.fork is not None:
        assert (whole.state, whole.fork) == (short.state, short.fork)
