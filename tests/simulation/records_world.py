"""Many processes on one database of record tables: `build` makes a world of a `RecordsShape`, and all follows from
its seed."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from firn.bucket.base import BytesLike
from firn.journal.sequence import LogRecord, RowWrite, SequenceLayout
from firn.journal.sequence.catalog import after_members
from firn.records.apply import apply
from firn.records.definition.definition import Index, RecordDefinition, read_definition
from firn.records.documents.documents import Documents
from firn.records.documents.predicates import Contains
from firn.records.maintain import collection
from firn.records.maintain.ddl import define
from firn.records.objects.row import Row
from firn.records.objects.store import RecordStore
from firn.records.write.transaction import begin
from firn.testing import RandomFaults, Replay, SimStore, World
from simulation.records_clients import SHIFTS, Clients, Habits, tables_of
from simulation.records_model import TOTAL, Model, indexed

PREFIX = "db"
LAYOUT = SequenceLayout(PREFIX)
SKEW_MS = 3_600_000
MOST_STEPS = 50_000

DEFINITIONS: Mapping[str, RecordDefinition] = {
    "bank": RecordDefinition("bank", db="db", state="ready", indices=(Index("kind"), Index("balance"))),
    "lists": RecordDefinition(
        "lists", db="db", state="ready", indices=(Index("group"),), properties={"inline": "32B"}
    ),
    "doctors": RecordDefinition("doctors", db="db", state="ready", indices=(Index("shift"),)),
    "moved": RecordDefinition("moved", db="db", state="ready", indices=(Index("n"),)),
    "users": RecordDefinition("users", db="db", state="ready", indices=(Index("email", unique=True),)),
    "badges": RecordDefinition("badges", db="db", state="ready"),
    "tagged": RecordDefinition("tagged", db="db", state="ready"),
    "entries": RecordDefinition("entries", db="db", state="ready", indices=(Index("list"), Index("at"))),
}

ALL = {"bank": 4, "lists": 4, "doctors": 1, "users": 3}


@dataclass(frozen=True)
class RecordsShape:
    """How large and how hostile a world is. `faults` scales all rates, `stalls` those of sleeping clients and of puts
    that land late, of up to `stall_s` seconds. `page_size` None draws one."""

    clients: int = 4
    appliers: int = 1
    collectors: int = 1
    indexers: int = 0
    alterers: int = 0
    habits: Habits = field(default_factory=lambda: Habits(ALL, rounds=10))
    faults: float = 1.0
    stalls: float = 1.0
    stall_s: float = 300.0
    crash: float = 0.002
    page_size: int | None = None


def _habits(rounds: int = 10, mix: Mapping[str, int] = ALL, **options: Any) -> Habits:
    return Habits(mix, rounds, **options)


RECORDS_SHAPES: dict[str, RecordsShape] = {
    "mixed": RecordsShape(habits=_habits(serializable=0.2, lock=0.1)),
    "calm": RecordsShape(habits=_habits(serializable=0.3), faults=0),
    "bank": RecordsShape(habits=_habits(mix={"bank": 1}, pause_s=8), appliers=2),
    "lists": RecordsShape(habits=_habits(mix={"lists": 2, "entries": 1}), page_size=1),
    "serializable": RecordsShape(
        habits=_habits(mix={"lists": 2, "entries": 2, "doctors": 1}, serializable=1.0)
    ),
    "users": RecordsShape(habits=_habits(mix={"users": 1}), indexers=1),
    "unique": RecordsShape(
        clients=3,
        indexers=2,
        habits=_habits(
            12, {"badges": 1}, threads=2, pause_s=4, builds=(("badges", Index("badge", unique=True)),)
        ),
    ),
    # Rows with lists, while indices of their elements come and go.
    "elements": RecordsShape(
        clients=3,
        indexers=2,
        habits=_habits(
            7,
            {"tags": 1},
            threads=2,
            pause_s=4,
            serializable=0.2,
            builds=(("tagged", Index("tags", each=True)), ("tagged", Index("keys", unique=True, each=True))),
        ),
    ),
    "threads": RecordsShape(clients=2, habits=_habits(rounds=8, threads=3, pause_s=2)),
    "sleepers": RecordsShape(clients=5, collectors=2, habits=_habits(pause_s=15), stalls=5, stall_s=600),
    "locks": RecordsShape(habits=_habits(mix={"bank": 2, "lists": 1}, lock=1.0)),
    # R of nothing: the horizon is asked for each time, and collected at once.
    "impatient": RecordsShape(collectors=2, habits=_habits(freshness_s=0.0, max_lag=2)),
    # Processes that come and go while the log is truncated.
    "truncated": RecordsShape(
        clients=3,
        collectors=3,
        crash=0.01,
        habits=_habits(12, {"bank": 2, "lists": 1, "users": 1}, pause_s=20),
    ),
    # Who reads while rows are brought up to date.
    "appliers": RecordsShape(clients=5, appliers=4, habits=_habits(pause_s=3, max_lag=1)),
    # Processes that apply what they commit, and what others leave behind, with nobody else to do it.
    "owners": RecordsShape(
        clients=5, appliers=0, crash=0.005, habits=_habits(pause_s=3, serializable=0.2, applies=True)
    ),
    # Few rows that change all the time, while what nobody reads any more is given up.
    "hot": RecordsShape(
        clients=5, appliers=3, collectors=2, habits=_habits(15, {"bank": 3, "lists": 1}, pause_s=6)
    ),
    "movers": RecordsShape(clients=5, habits=_habits(rounds=8, mix={"moves": 1}, pause_s=3)),
    # A table that is altered, dropped and created again among those who use it.
    "altered": RecordsShape(
        clients=4, alterers=2, habits=_habits(12, {"orders": 3, "bank": 1}, pause_s=4, serializable=0.4)
    ),
    "verbs": RecordsShape(clients=5, habits=_habits(mix={"verbs": 1}, pause_s=1, serializable=0.8)),
}


class Remembering(SimStore):
    """Knows all staged bodies that ever were, by their names."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.bodies: dict[str, bytes] = {}

    def write(self, key: str, data: BytesLike, *, absent: bool = False, match: str | None = None) -> str:
        if key.startswith(LAYOUT.bodies_prefix):
            self.bodies[key.removeprefix(LAYOUT.bodies_prefix)] = bytes(data)
        return super().write(key, data, absent=absent, match=match)

    def body(self, write: RowWrite) -> bytes:
        """What a write put, even if nothing refers to it any more."""
        return write.body if write.ref is None else self.bodies[write.ref]  # type: ignore[return-value]


def build(seed: int | Replay, shape: RecordsShape) -> World:
    """A world of `shape`, ready to run."""
    number = seed if isinstance(seed, int) else 0
    rng = random.Random(f"records {number}")
    page_size = rng.choice([1, 2, 3, 1000]) if shape.page_size is None else shape.page_size
    store = Remembering(
        page_size=page_size,
        etags=rng.choice(["content", "counter"]),
        modified_step_ms=rng.choice([1, 1000]),
    )
    world = World(
        seed, store=store, faults=_faults(seed, shape), wake=rng.choice(["idle", "any"]), max_steps=MOST_STEPS
    )
    setup = world.observer("setup")

    drawn = random.Random(f"records far behind {number}")
    far, pack_bytes = drawn.choice([1, 4, 128]), drawn.choice([1, 400, 4 << 20])
    drops = drawn.choice([1, 1, 16])
    whole_bytes = drawn.choice([0, 0, 2 << 10])

    def open_store(bucket: Any, clock: Any) -> RecordStore:
        opened = RecordStore(
            bucket,
            PREFIX,
            clock=clock,
            freshness_s=shape.habits.freshness_s,
            max_lag=shape.habits.max_lag,
            drops=drops,
            pack_bytes=pack_bytes,
            whole_bytes=whole_bytes,
            definitions=lambda name: (
                DEFINITIONS.get(name) or read_definition(bucket, f"{PREFIX}/{name}", clock=clock)
            ),
        )
        opened.log.far = far
        return opened

    create(open_store(setup, setup.clock))
    model = Model()
    clients = Clients(model, shape.habits, open_store)
    for kind, count, program in (
        ("client", shape.clients, clients.client),
        ("apply", shape.appliers, clients.applier),
        ("collect", shape.collectors, clients.collector),
        ("index", shape.indexers, clients.indexer),
        ("alter", shape.alterers, clients.alterer),
    ):
        for n in range(count):
            world.spawn(f"{kind}{n}", program, skew_ms=rng.randint(-SKEW_MS, SKEW_MS), restarts=1)

    @world.check
    def everything_is_as_promised() -> None:
        bucket = world.observer()
        final(model, open_store(bucket, bucket.clock), store)

    world.model = model  # type: ignore[attr-defined]
    return world


def _faults(seed: int | Replay, shape: RecordsShape) -> RandomFaults | None:
    f, s = shape.faults, shape.faults * shape.stalls
    if not f:
        return None
    return RandomFaults(
        seed,
        crash=shape.crash * f,
        lost_ack=0.02 * f,
        retried=0.02 * f,
        delayed=0.01 * s,
        duplicated=0.01 * s,
        failed=0.005 * f,
        slow=0.02 * f,
        stalled=0.01 * s,
        truncated=0.002 * f,
        delay_s=shape.stall_s,
        stall_s=shape.stall_s,
    )


def create(store: RecordStore) -> None:
    """The tables, and what the workloads begin with."""
    for definition in DEFINITIONS.values():
        define(store, definition.creation())
    fill(store)


def fill(store: RecordStore) -> None:
    """What the workloads begin with."""
    with begin(store) as tx:
        for n in range(4):
            tx.insert("bank", f"account{n}", {"kind": "account", "balance": TOTAL // 4})
        for shift in SHIFTS:
            for n in range(3):
                tx.insert("doctors", f"{shift}{n}", {"shift": shift, "on": True})
    apply.settle(store)


def final(model: Model, store: RecordStore, objects: Remembering) -> None:
    """With everybody gone: the log explains all that was seen; rows and indices are what it says; nothing is left
    behind but what is needed."""
    records = whole_log(store)
    model.holds(records, objects.body)
    follow_their_schemas(records, objects)
    end_what_was_begun(store)
    with begin(store) as tx:
        tx.upsert("doctors", "day0", {"shift": "day", "on": True})
    apply.settle(store)
    records = whole_log(store)
    rows = all_rows(store)
    follow_the_log(store, records, rows)
    has_all_entries(store, rows, objects)
    store.clock.sleep(store.log.freshness_s + 10)
    with begin(store) as tx:
        tx.upsert("doctors", "day1", {"shift": "day", "on": True})
    apply.settle(store)
    store.clock.sleep(store.log.freshness_s + 10)
    with begin(store) as tx:
        tx.upsert("doctors", "day2", {"shift": "day", "on": True})
    apply.settle(store)
    collection.collect(store, retention_s=0)
    swept = collection.sweep(store, orphan_age_s=0)
    model.happened["swept at the end"] += swept.entries
    records, rows = whole_log(store, packs=False), all_rows(store)
    follow_the_log(store, records, rows, whole=False)
    has_all_entries(store, rows, objects)
    left = entries_there(store, objects) - entries_of(store, rows)
    assert not left, f"a sweep left {sorted(left)}, which no row has"
    bodies = {f"{LAYOUT.bodies_prefix}{v.ref}" for _, row in rows for v in row.versions if v.ref}
    bodies |= {f"{LAYOUT.bodies_prefix}{w.ref}" for r in records for m in r.group for w in m.writes if w.ref}
    assert bodies == set(objects.keys(LAYOUT.bodies_prefix)), "staged bodies"
    assert [r.number for r in records] == [
        LAYOUT.parse_record(key) for key in objects.keys(LAYOUT.records_prefix)
    ]
    finds_what_is_there(store, rows)


def whole_log(store: RecordStore, *, packs: bool = True) -> list[LogRecord]:
    """All records from the first on; without packs, those that aren't in any."""
    head = store.log.refresh().number
    return store.log.records(0 if packs else store.log.store.horizon().lo, head)


def follow_their_schemas(records: list[LogRecord], objects: Remembering) -> None:
    """Documents are of the kind that their table allows when they are committed."""
    for record in records:
        for number, member in enumerate(record.group):
            state = after_members(record.catalog, record.group[:number], record.number).get("orders")
            if state is not None and state.documents is not None:
                judge = Documents("orders", schema=state.documents.schema)
                for write in member.writes:
                    if write.table == "orders" and not write.deletes:
                        judge.must_follow(write.id, objects.body(write))


def all_rows(store: RecordStore) -> list[tuple[str, Row]]:
    return [
        (table, row)
        for table, state in store.log.refresh().catalog.items()
        for row in store.rows(
            [info.key for info in store.bucket.list(store.layout(table, state.generation).rows).objects]
        )
    ]


def end_what_was_begun(store: RecordStore) -> None:
    """The creation or the drop of a table."""
    definition = read_definition(store.bucket, f"{PREFIX}/orders", clock=store.clock)
    tables = tables_of(store)
    if definition is not None and definition.dropped:
        tables.erase(definition)
    elif definition is not None:
        tables.usable(definition)


def follow_the_log(
    store: RecordStore, records: list[LogRecord], rows: list[tuple[str, Row]], *, whole: bool = True
) -> None:
    """Each row has its last versions, the newest included; each that the log knows has one."""
    catalog = store.log.refresh().catalog
    written: dict[tuple[str, str], list[int]] = {}
    for record in records:
        for member in record.group:
            for write in member.writes:
                if write.table in catalog and record.number > catalog[write.table].since:
                    written.setdefault((write.table, write.id), []).append(record.number)
    there = {(table, row.id): row for table, row in rows}
    if whole:
        assert there.keys() == written.keys()
    for key, numbers in written.items():
        versions = [version.seq for version in reversed(there[key].versions)]
        kept = numbers[-len(versions) :]
        assert versions[-len(kept) :] == kept, f"{key} has {versions}, and was written by {numbers}"


class Keys(Protocol):
    """Who can list keys."""

    def keys(self, prefix: str = "") -> Iterable[str]: ...


def has_all_entries(store: RecordStore, rows: list[tuple[str, Row]], objects: Keys) -> None:
    """Every version that a snapshot may read is in every index. A collector may have been cut off among others."""
    horizon = store.log.store.horizon().horizon
    readable = [(name, row.pruned(horizon)[0]) for name, row in rows]
    missing = entries_of(store, readable, ready=True) - entries_there(store, objects)
    assert not missing, f"an index lacks {sorted(missing)}"


def entries_of(store: RecordStore, rows: list[tuple[str, Row]], *, ready: bool = False) -> set[str]:
    """The entries of all versions of all rows, in all indices, or those that are ready."""
    catalog = store.log.refresh().catalog
    wanted = set()
    for name, row in rows:
        table = store.table(name, catalog)
        for version in row.versions:
            if not version.deleted:
                document = table.documents.decode(store.body(version))
                for name_, index in table.state.fields.items():
                    if index.stage == "ready" or not ready:
                        wanted |= {
                            table.layout.entry(name_, value, row.id, version.seq, index.generation)
                            for value in indexed(document, name_, index)
                        }
    return wanted


def entries_there(store: RecordStore, objects: Keys) -> set[str]:
    catalog = store.log.refresh().catalog.items()
    return {
        key for name, state in catalog for key in objects.keys(store.layout(name, state.generation).indices)
    }


def finds_what_is_there(store: RecordStore, rows: list[tuple[str, Row]]) -> None:
    """By id, by each index and by a scan."""
    tx = begin(store)
    for name, state in store.log.head().catalog.items():
        found = {row["_id"]: row.document for row in tx.scan(name)}
        alive = {row.id for table, row in rows if table == name and not row.versions[0].deleted}
        assert found.keys() == alive
        for id, document in found.items():
            assert tx.get(name, id).document == document
            for name_, index in state.fields.items():
                if index.stage == "ready":
                    for value in indexed(document, name_, index):
                        asked = Contains(value) if index.each else value
                        assert id in {row["_id"] for row in tx.find(name, {name_: asked})}
