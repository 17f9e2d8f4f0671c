"""Many clients on one leaderless table, and a model of what each may see.

Rows are ids. A data file holds some of them as JSON; everything else is the real journal. The model knows
for each id whether it was acknowledged, failed, or is in doubt, and the same of each removal; a reader checks
against it at any moment, and at the end a sweep must leave exactly the live objects.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import orjson

from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.errors import (
    AppendExpiredError,
    ConflictError,
    InvalidInputError,
    LockHeldError,
    LockLostError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StoreUnavailableError,
)
from firn.journal.leaderless import LeaderlessJournal, Settings, stream
from firn.journal.leaderless.cleanup import plan_cleanup, run_cleanup
from firn.journal.leaderless.sweep import record
from firn.journal.model import Commit, DataFile, Snapshot, SweepReport
from firn.testing import Call, Fault, RandomFaults, Replay, SimClient, SimStore, World

HOUR = 3_600_000
SETTINGS = Settings(grace_ms=HOUR, orphan_age_ms=2 * HOUR, lock_wait_ms=240_000)
PARTITIONS = ("p=a", "p=b")
TRANSIENT = (StoreUnavailableError, LockHeldError, LockLostError)


@dataclass
class Model:
    """What was promised to whom. Sets of row ids."""

    attempted: set[int] = field(default_factory=set)
    acked: set[int] = field(default_factory=set)
    failed: set[int] = field(default_factory=set)
    removing: set[int] = field(default_factory=set)
    removed: set[int] = field(default_factory=set)
    sessions: list[tuple[float, set[int]]] = field(default_factory=list)
    next_id: int = 0
    reads: int = 0
    published: Counter[str] = field(default_factory=Counter)

    def new_ids(self, n: int) -> list[int]:
        ids = list(range(self.next_id, self.next_id + n))
        self.next_id += n
        self.attempted.update(ids)
        return ids

    def required(self) -> set[int]:
        return self.acked - self.removing - self.removed

    def forbidden(self) -> set[int]:
        return set(self.removed)


def journal_of(bucket: Bucket, clock: Clock, settings: Settings = SETTINGS) -> LeaderlessJournal:
    return LeaderlessJournal(bucket, "db/t", settings=settings, clock=clock, renew_in_background=False)


def put_rows(journal: LeaderlessJournal, partition: str, ids: list[int], *, maintenance: bool) -> DataFile:
    """One data file."""
    path = journal.namer(maintenance=maintenance)(partition)
    body = orjson.dumps(ids)
    journal.bucket.put(path, body)
    return DataFile(path, len(body), journal.clock.now_ms(), {"rows": len(ids)})


def rows_of(journal: LeaderlessJournal, file: DataFile) -> list[int]:
    return list(orjson.loads(journal.bucket.get(file.path).data))


def partition_of(file: DataFile) -> str:
    return file.path.split("/")[3]


def read_all(journal: LeaderlessJournal, snapshot: Snapshot) -> list[int]:
    return [i for file in snapshot.files for i in rows_of(journal, file)]


# -- clients: each takes a SimClient and goes through a number of operations


class Clients:
    """The programs, sharing one model."""

    def __init__(self, model: Model, rounds: int = 4) -> None:
        self.model = model
        self.rounds = rounds

    def appender(self, client: SimClient) -> None:
        rng, journal = client.random, journal_of(client.bucket, client.clock)
        for _ in range(self.rounds):
            client.clock.sleep(rng.random() * 1200)
            parts = rng.sample(PARTITIONS, rng.randint(1, 2))
            ids = {p: self.model.new_ids(rng.randint(1, 2)) for p in parts}
            every = {i for v in ids.values() for i in v}
            batch = f"b{client.name}-{min(every)}" if rng.random() < 0.4 else None
            for _retry in range(3 if batch else 1):
                try:
                    ticket = journal.begin_append()
                    files = [put_rows(journal, p, v, maintenance=False) for p, v in ids.items()]
                    ticket.commit(Commit("append", files, columns={"id": "BIGINT"}, batch_id=batch))
                    self.model.acked |= every
                    break
                except (AppendExpiredError, InvalidInputError):
                    if batch is None:
                        self.model.failed |= every
                except StoreUnavailableError:
                    continue
                except OutcomeUnknownError:
                    continue

    def merger(self, client: SimClient) -> None:
        for _ in range(self.rounds):
            client.clock.sleep(client.random.random() * 1500)
            journal = journal_of(client.bucket, client.clock)
            try:
                with journal.exclusive("merge") as session:
                    adds, removes = [], []
                    for p in PARTITIONS:
                        files = [f for f in session.snapshot.files if partition_of(f) == p]
                        if len(files) < 2:
                            continue
                        chosen = client.random.sample(files, client.random.randint(2, len(files)))
                        ids = [i for f in chosen for i in rows_of(journal, f)]
                        adds.append(put_rows(journal, p, ids, maintenance=True))
                        removes += [f.path for f in chosen]
                        session.lease.renew() if session.lease is not None else None
                    session.publish(Commit("merge", adds, removes))
                    self.model.published["merge"] += 1
            except (*TRANSIENT, OutcomeUnknownError, ObjectNotFoundError):
                continue

    def remover(self, client: SimClient) -> None:
        """Removes a whole partition, or rewrites its files without some rows."""
        for _ in range(max(1, self.rounds // 2)):
            client.clock.sleep(client.random.random() * 3000)
            journal = journal_of(client.bucket, client.clock)
            rewriting = client.random.random() < 0.5
            going: set[int] = set()
            try:
                with journal.exclusive("remove") as session:
                    self.model.sessions.append((client.time.now_ms, going))
                    p = client.random.choice(PARTITIONS)
                    files = [f for f in session.snapshot.files if partition_of(f) == p]
                    adds, removes = [], []
                    for f in files:
                        ids = rows_of(journal, f)
                        erased = {i for i in ids if not rewriting or i % 3 == 0}
                        if erased:
                            going |= erased
                            removes.append(f.path)
                            kept = [i for i in ids if i not in erased]
                            if rewriting and kept:
                                adds.append(put_rows(journal, p, kept, maintenance=True))
                    if not removes:
                        continue
                    self.model.removing |= going
                    session.publish(Commit("rewrite" if rewriting else "remove", adds, removes))
                    self.model.removed |= going
                    self.model.published["remove"] += 1
            except (LockLostError, LockHeldError, StoreUnavailableError):
                # Nothing of it will ever be visible: the ids must stay.
                self.model.removing -= going - self.model.removed
            except (OutcomeUnknownError, ObjectNotFoundError):
                continue

    def cleaner(self, client: SimClient) -> None:
        """Cleanup without any lock, by the client's own clock."""
        for _ in range(self.rounds):
            client.clock.sleep(client.random.random() * 3000)
            journal = journal_of(client.bucket, client.clock)
            try:
                loaded = journal.loader.load(every=True)
                s = journal.settings
                before = client.clock.now_ms() - s.grace_ms - 2 * s.max_skew_ms
                plan = plan_cleanup(journal.fold(loaded.logs), loaded.listed, before_ms=before)
                if plan.empty:
                    continue
                record(journal, plan, SweepReport(), client.clock.now_ms())
                run_cleanup(
                    plan,
                    bucket=journal.bucket,
                    log_bucket=journal.log_bucket,
                    layout=journal.layout,
                    listed=loaded.listed,
                )
                self.model.published["cleanup"] += 1
            except (StoreUnavailableError, OutcomeUnknownError):
                continue

    def sweeper(self, client: SimClient) -> None:
        for _ in range(max(1, self.rounds // 2)):
            client.clock.sleep(client.random.random() * 4000)
            journal = journal_of(client.bucket, client.clock)
            s = journal.settings
            try:
                report = journal.sweep(
                    grace_ms=s.grace_ms, orphan_age_ms=s.orphan_age_ms, margin=True, dry_run=False
                )
                self.model.published["sweep"] += bool(report.data_files or report.logs or report.orphans)
            except (*TRANSIENT, OutcomeUnknownError):
                continue

    def checkpointer(self, client: SimClient) -> None:
        for _ in range(self.rounds):
            client.clock.sleep(client.random.random() * 1500)
            try:
                journal_of(client.bucket, client.clock).checkpoint()
            except (StoreUnavailableError, OutcomeUnknownError):
                continue

    def reader(self, client: SimClient) -> None:
        """Reads now, and once more as of then, while the grace lasts."""
        rng = client.random
        journal = journal_of(client.bucket, client.clock)
        for _ in range(self.rounds):
            client.clock.sleep(rng.random() * 1200)
            required, forbidden = self.model.required(), self.model.forbidden()
            acked, asked = set(self.model.acked), client.clock.monotonic()
            try:
                snapshot, seen = self._read_now(journal)
            except StoreUnavailableError:
                continue
            self._judge(seen, required, forbidden)
            self.model.reads += 1
            read_until = client.time.now_ms
            client.clock.sleep(rng.random() * 1500)
            try:
                again = read_all(journal, journal.snapshot(snapshot.version))
            except StoreUnavailableError:
                continue
            except (SnapshotTooOldError, ObjectNotFoundError):
                age = client.clock.monotonic() - asked
                assert age * 1000 > SETTINGS.grace_ms, f"version {snapshot.version} unreadable after {age} s"
                continue
            late = Counter(again) - Counter(seen)
            # A removal that was under way may be stamped before this version and published after it.
            under_way = {i for t, ids in self.model.sessions if t <= read_until for i in ids}
            lost = Counter(seen) - Counter({*again, *under_way}) - Counter(again)
            assert not lost, f"{snapshot.version} lost {set(lost)}"
            assert not set(late) & acked, f"{snapshot.version} gained {set(late) & acked}"

    def _read_now(self, journal: LeaderlessJournal) -> tuple[Snapshot, list[int]]:
        for _ in range(20):
            snapshot = journal.snapshot()
            try:
                return snapshot, read_all(journal, snapshot)
            except ObjectNotFoundError:
                continue
        raise AssertionError("a live file is missing in twenty snapshots in a row")

    def _judge(self, seen: list[int], required: set[int], forbidden: set[int]) -> None:
        doubled = [i for i, n in Counter(seen).items() if n > 1]
        assert not doubled, f"rows doubled: {doubled}"
        lost = required - set(seen) - self.model.removing - self.model.removed
        assert not lost, f"acknowledged rows lost: {sorted(lost)}"
        back = forbidden & set(seen)
        assert not back, f"removed rows came back: {sorted(back)}"
        ghosts = self.model.failed & set(seen)
        assert not ghosts, f"rows of failed appends are visible: {sorted(ghosts)}"

    def final(self, bucket: Bucket, clock: Clock) -> None:
        """With everybody gone: the right rows, and after a sweep nothing but live objects."""
        journal = journal_of(bucket, clock)
        _, seen = self._read_now(journal)
        self._judge(seen, self.model.required(), self.model.forbidden())
        clock.sleep(20 * HOUR / 1000)
        for _ in range(3):  # logs replaced by logs that are replaced go pass by pass
            with journal.exclusive("merge") as session:
                session.publish(Commit("merge"))
            journal.sweep(grace_ms=0, orphan_age_ms=0, margin=False, dry_run=False)
        snapshot, after = self._read_now(journal)
        assert Counter(after) == Counter(seen), "sweep changed the rows"
        data = {i.key for i in bucket.list("db/t/_data/").objects}
        assert data == {f.path for f in snapshot.files}, "sweep left dead data files, or deleted live ones"
        logs = [i.key for i in bucket.list("db/t/_log/").objects]
        assert len(logs) == 1, f"logs are left: {logs}"


class StreamReader:
    """A stream that keeps its offset over crashes, and counts what it delivers."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.delivered: Counter[int] = Counter()
        self.offset: stream.StreamOffset | None = None
        self.lapsed = False

    def run(self, client: SimClient) -> None:
        rng = client.random
        for _ in range(12):
            client.clock.sleep(rng.random() * 900)
            self.step(journal_of(client.bucket, client.clock))

    def step(self, journal: LeaderlessJournal) -> None:
        try:
            if self.offset is None:
                begun = stream.start(journal)
                rows = [i for f in begun.files for i in rows_of(journal, f)]
                self._deliver(rows, begun.offset)
                return
            delivery = stream.poll(journal, self.offset, limit=3)
            rows = [i for log in delivery.logs for f in log.files for i in rows_of(journal, f)]
            self._deliver(rows, delivery.offset)
        except (StoreUnavailableError, ObjectNotFoundError):
            return
        except SnapshotTooOldError:
            self.lapsed = True

    def _deliver(self, rows: list[int], offset: stream.StreamOffset) -> None:
        if self.lapsed:
            return
        self.delivered.update(rows)
        self.offset = offset

    def final(self, journal: LeaderlessJournal, started_with: set[int]) -> None:
        doubled = [i for i, n in self.delivered.items() if n > 1]
        assert not doubled, f"the stream delivered {doubled} twice"
        if self.offset is None or self.lapsed:
            return
        for _ in range(40):
            self.step(journal)
        if not self.lapsed:
            missing = self.model.acked - set(self.delivered) - self.model.removing - self.model.removed
            assert not missing, f"the stream never delivered {sorted(missing)}"
            doubled = [i for i, n in self.delivered.items() if n > 1]
            assert not doubled, f"the stream delivered {doubled} twice"


class AppendsLandWithinZ:
    """Random faults, but the log of an append lands within Z of its being sent or never, conditional or not:
    what rule 4, streams and batch claims rely on. Other conditional puts may be as late as they like."""

    def __init__(self, faults: RandomFaults, longest_s: float) -> None:
        self.faults, self.longest_s = faults, longest_s

    def decide(self, call: Call) -> Fault | None:
        fault = self.faults.decide(call)
        late = fault is not None and fault.kind in ("delayed", "duplicated", "retried")
        if late and "/_log/" in call.key and "_m_" not in call.key:
            return replace(fault, seconds=min(fault.seconds, self.longest_s))
        return fault


@dataclass(frozen=True)
class Shape:
    """How large and how hostile a world is."""

    appenders: int = 4
    mergers: int = 2
    removers: int = 1
    cleaners: int = 1
    sweepers: int = 1
    readers: int = 2
    checkpointers: int = 1
    streams: int = 1
    rounds: int = 4
    faults: float = 1.0
    skew_ms: int = 55_000


def build(seed: int | Replay, shape: Shape = Shape(), *, store: SimStore | Bucket | None = None) -> World:
    """A world of `shape`, ready to run. Everything follows from the seed."""
    number = seed if isinstance(seed, int) else 0
    rng = random.Random(f"leaderless {number}")
    f = shape.faults
    longest = SETTINGS.landing_delay_ms / 1000 - 20
    faults = RandomFaults(
        seed,
        crash=0.004 * f,
        lost_ack=0.01 * f,
        retried=0.01 * f,
        delayed=0.01 * f,
        duplicated=0.01 * f,
        failed=0.01 * f,
        slow=0.03 * f,
        stalled=0.012 * f,
        delay_s=longest,
        stall_s=3 * SETTINGS.grace_ms / 1000,
    )
    if store is None:
        store = SimStore(page_size=rng.choice([1, 2, 3, 1000]), etags=rng.choice(["content", "counter"]))
    world = World(seed, store=store, faults=AppendsLandWithinZ(faults, longest) if f else None)
    model = Model()
    clients = Clients(model, shape.rounds)

    def spawn(kind: str, count: int, program: object, restarts: int = 1) -> None:
        for n in range(count):
            skew = rng.randint(-shape.skew_ms, shape.skew_ms) if shape.skew_ms else 0
            world.spawn(f"{kind}{n}", program, skew_ms=skew, restarts=restarts, expected=(ConflictError,))  # type: ignore[arg-type]

    spawn("append", shape.appenders, clients.appender)
    spawn("merge", shape.mergers, clients.merger)
    spawn("remove", shape.removers, clients.remover)
    spawn("clean", shape.cleaners, clients.cleaner)
    spawn("sweep", shape.sweepers, clients.sweeper)
    spawn("read", shape.readers, clients.reader)
    spawn("checkpoint", shape.checkpointers, clients.checkpointer)
    streams = [StreamReader(model) for _ in range(shape.streams)]
    for n, reader in enumerate(streams):
        spawn(f"stream{n}-", 1, reader.run)

    @world.check
    def everything_is_as_promised() -> None:
        bucket = world.observer()
        for reader in streams:
            reader.final(journal_of(bucket, bucket.clock), set())
        clients.final(bucket, bucket.clock)

    world.model = model  # type: ignore[attr-defined]
    return world
