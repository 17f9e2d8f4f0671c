"""The programs that share a simulated table: those that write, those that maintain, those that read.

Each takes a `SimClient`, goes through some rounds with pauses in between, and tells the model what it was
promised. A restart after a crash begins anew, with nothing in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

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
from firn.journal.leaderless import LeaderlessJournal, LeaderlessSettings
from firn.journal.leaderless.maintain.lease import Sighting
from firn.journal.leaderless.maintain.session import MaintenanceSession
from firn.journal.leaderless.maintain.unlocked import UnlockedMerge
from firn.journal.lock import ExclusiveLock
from firn.journal.model import Commit, DataFile, Snapshot
from firn.lake.keep.policy import wants_whole_view
from firn.testing import SimClient
from simulation import leaderless_table
from simulation.leaderless_model import Batch, Model, Operation
from simulation.leaderless_table import (
    PARTITIONS,
    clean,
    inlined_rows,
    journal_of,
    partition_of,
    put_rows,
    read_all,
    rows_by_partition,
    rows_of,
)

NOTHING_DONE = (StoreUnavailableError, LockHeldError, LockLostError)


class MergedUnit(NamedTuple):
    """What a merge has written in place of others: all of it is published, or nothing."""

    removes: list[str]
    adds: list[DataFile]


class Clients:
    """The programs of one world. `pace` stretches all their pauses; `inline` is the part of the appends whose rows
    stand in their logs. `hasty` sweepers take all that is dead at once."""

    def __init__(
        self,
        model: Model,
        settings: LeaderlessSettings,
        rounds: int,
        *,
        twins: bool = True,
        pace: float = 1.0,
        lock_of: Callable[[SimClient], ExclusiveLock] | None = None,
        inline: float = 0.0,
        windowed: bool = False,
        hasty: bool = False,
    ) -> None:
        self.windowed, self.hasty = windowed, hasty
        self.model, self.settings, self.rounds = model, settings, rounds
        self.twins, self.pace, self.lock_of, self.inline = twins, pace, lock_of, inline

    def journals(self, client: SimClient) -> Iterator[LeaderlessJournal]:
        """A journal for each round: one for all of them, with what it remembers, or a new one each time."""
        keeps = client.random.random() < 0.5
        kept = self.journal(client)
        while True:
            yield kept if keeps else self.journal(client)

    def journal(self, client: SimClient) -> LeaderlessJournal:
        lock = None if self.lock_of is None else self.lock_of(client)
        return journal_of(client.bucket, client.clock, self.settings, lock, windowed=self.windowed)

    def rest(self, client: SimClient, seconds: float) -> None:
        client.clock.sleep(client.random.random() * seconds * self.pace)

    # -- writing

    def appender(self, client: SimClient) -> None:
        rng, journals = client.random, self.journals(client)
        for _ in range(self.rounds):
            self.rest(client, 1200)
            journal = next(journals)
            batch = rng.random() < 0.4
            if batch and self.twins and self.model.batches and rng.random() < 0.3:
                # Somebody else's batch, done or not: a retry by another process.
                self._append_batch(client, journal, rng.choice(self.model.batches))
                continue
            op = self.model.operation("append", f"c{rng.randint(0, 9)}" if rng.random() < 0.2 else None)
            parts = rng.sample(PARTITIONS, rng.randint(1, 2))
            rows = {p: self.model.new_rows(op, rng.randint(1, 2)) for p in parts}
            if batch:
                self.model.batches.append(Batch(f"batch-{op.number}", op, rows))
                self._append_batch(client, journal, self.model.batches[-1])
            else:
                self._append_once(client, journal, op, rows)

    def _append_once(
        self, client: SimClient, journal: LeaderlessJournal, op: Operation, rows: dict[str, list[int]]
    ) -> None:
        try:
            self._append(client, journal, op, rows, None)
            self.model.done(op, client.time.now_ms)
        except (AppendExpiredError, StoreUnavailableError):
            self.model.failed(op)
        except InvalidInputError:
            self._refused(client)
            self.model.failed(op)
        except OutcomeUnknownError:
            return

    def _append_batch(self, client: SimClient, journal: LeaderlessJournal, batch: Batch) -> None:
        for _ in range(3):
            try:
                if journal.seen_batch(batch.id) is None:
                    self._append(client, journal, batch.operation, batch.rows, batch.id)
                self.model.done(batch.operation, client.time.now_ms)
                return
            except InvalidInputError:
                self._refused(client)
                return
            except (AppendExpiredError, StoreUnavailableError, OutcomeUnknownError):
                self.rest(client, 30)

    def _append(
        self,
        client: SimClient,
        journal: LeaderlessJournal,
        op: Operation,
        rows: dict[str, list[int]],
        batch: str | None,
    ) -> None:
        if client.random.random() < 0.3:
            journal.known()
        ticket = journal.begin_append()
        columns = {"id": "BIGINT"} | ({op.column: "BIGINT"} if op.column else {})
        if self.inline and client.random.random() < self.inline:
            files = [inlined_rows([i for ids in rows.values() for i in ids], columns)]
        else:
            files = [put_rows(journal, p, ids, maintenance=False) for p, ids in rows.items()]
        self.model.begin(op, client.time.now_ms)
        ticket.commit(Commit("append", files, columns=columns, batch_id=batch, summary={"n": op.number}))

    def _refused(self, client: SimClient) -> None:
        self.model.happened["refused"] += 1
        skew, allowed = abs(client.clock.skew_ms), self.settings.max_skew_ms
        assert skew > allowed - 5000, f"{client.name} was refused with a clock that is {skew} ms off"

    # -- maintenance

    @contextmanager
    def publishing(self, client: SimClient, op: Operation) -> Iterator[None]:
        """Around `publish`: what its errors say about the operation."""
        self.model.begin(op, client.time.now_ms)
        try:
            yield
            self.model.done(op, client.time.now_ms)
        except (*NOTHING_DONE, ConflictError):
            self.model.failed(op)
            raise

    def merger(self, client: SimClient) -> None:
        rng, journals = client.random, self.journals(client)
        for _ in range(self.rounds):
            self.rest(client, 1500)
            journal = next(journals)
            try:
                with journal.exclusive("merge") as session:
                    adds, removes = [], []
                    parts = [f for f in session.snapshot.files if f.inlined is not None]
                    parts = rng.sample(parts, rng.randint(0, len(parts))) if parts else []
                    told = leaderless_table.rows_that_stay(journal, parts)
                    removes += [f.path for f in parts]
                    for p in PARTITIONS:
                        files = [f for f in session.snapshot.objects if partition_of(f) == p]
                        if len(files) < 2 and p not in told:
                            continue
                        chosen = rng.sample(files, rng.randint(2, len(files))) if len(files) > 1 else []
                        ids = [i for f in chosen for i in rows_of(journal, f)] + told.get(p, [])
                        adds.append(put_rows(journal, p, ids, maintenance=True))
                        removes += [f.path for f in chosen]
                        _renew(session)
                    op = self.model.operation("merge")
                    with self.publishing(client, op):
                        session.publish(Commit("merge", adds, removes, summary={"n": op.number}))
            except (*NOTHING_DONE, OutcomeUnknownError, ObjectNotFoundError):
                continue

    def unlocked_merger(self, client: SimClient) -> None:
        """Merges each partition's files, and rows of logs, without the lock, and publishes what others have left."""
        rng, journals = client.random, self.journals(client)
        for _ in range(self.rounds):
            self.rest(client, 1500)
            journal = next(journals)
            work = journal.begin_merge()
            assert work is not None
            try:
                units = self._merge_unlocked(client, journal, work)
                if not units:
                    continue
                with work.publishing("merge") as session:
                    left = [unit for unit in units if session.holds(unit.removes)]
                    self.model.happened["overtaken"] += len(left) < len(units)
                    if not left:
                        continue
                    op = self.model.operation("merge")
                    adds = [file for unit in left for file in unit.adds]
                    removes = [path for unit in left for path in unit.removes]
                    kind = rng.choice(["merge", "fold"])
                    with self.publishing(client, op):
                        session.publish(Commit(kind, adds, removes, summary={"n": op.number}))
                    self.model.happened["unlocked"] += 1
            except (*NOTHING_DONE, ConflictError, OutcomeUnknownError, ObjectNotFoundError):
                continue

    def _merge_unlocked(
        self, client: SimClient, journal: LeaderlessJournal, work: UnlockedMerge
    ) -> list[MergedUnit]:
        rng, units = client.random, list[MergedUnit]()
        parts = [f for f in work.snapshot.files if f.inlined is not None]
        if parts and rng.random() < 0.5:
            told = leaderless_table.rows_that_stay(journal, parts)
            adds = [put_rows(journal, p, ids, namer=work.namer) for p, ids in told.items()]
            units.append(MergedUnit([f.path for f in parts], adds))
        for p in PARTITIONS:
            files = [f for f in work.snapshot.objects if partition_of(f) == p]
            if len(files) > 1:
                chosen = rng.sample(files, rng.randint(2, len(files)))
                ids = [i for f in chosen for i in rows_of(journal, f)]
                self.rest(client, 1500)
                units.append(
                    MergedUnit([f.path for f in chosen], [put_rows(journal, p, ids, namer=work.namer)])
                )
        self.rest(client, 1500)
        return units

    def folder(self, client: SimClient) -> None:
        """Writes rows of logs into files, by what is new in the log; never waits for the lock."""
        journal, known, lock = self.journal(client), None, Sighting()
        viewed, since = client.clock.monotonic(), 0
        for _ in range(3 * self.rounds):
            self.rest(client, 500)
            age = client.clock.monotonic() - viewed
            if wants_whole_view(age, since, self.settings):
                known = None
            try:
                with journal.exclusive("fold", once=lock, known=known) as session:
                    for _ in range(client.random.randint(1, 2)):
                        self._fold(client, journal, session)
                        if session.published is None:
                            break
                        if session.whole:
                            viewed, since = client.clock.monotonic(), 0
                        since += 1
                        known = session.known()
                        session.look_again()
            except (*NOTHING_DONE, OutcomeUnknownError, ObjectNotFoundError):
                continue

    def _fold(self, client: SimClient, journal: LeaderlessJournal, session: MaintenanceSession) -> None:
        self.model.happened["new view"] += not session.whole
        parts = [f for f in session.snapshot.files if f.inlined is not None]
        told, removes = leaderless_table.rows_that_stay(journal, parts), [f.path for f in parts]
        adds = []
        for p in PARTITIONS:
            files = [f for f in session.snapshot.objects if partition_of(f) == p]
            if len(files) < 4:
                files = []
            elif p in told or client.random.random() < 0.5:
                told[p] = told.get(p, []) + [i for f in files for i in rows_of(journal, f)]
                removes += [f.path for f in files]
        for p, ids in told.items():
            adds.append(put_rows(journal, p, ids, maintenance=True))
            _renew(session)
        if not removes:
            return
        op = self.model.operation("fold")
        self.model.happened["folded rows"] += sum(f.rows or 0 for f in parts)
        with self.publishing(client, op):
            session.publish(Commit("fold", adds, removes, summary={"n": op.number}))

    def remover(self, client: SimClient) -> None:
        """Removes a partition, rewrites its files without some rows, or replaces it by new rows."""
        rng, journals = client.random, self.journals(client)
        for _ in range(max(1, self.rounds // 2)):
            self.rest(client, 3000)
            journal = next(journals)
            kind = rng.choice(["remove", "rewrite", "overwrite"])
            op = self.model.operation(kind)
            try:
                with journal.exclusive(kind) as session:
                    p = rng.choice(PARTITIONS)
                    adds, removes = [], []
                    for file in _that_may_match(session.snapshot.files, p):
                        ids = rows_by_partition(journal, file).get(p, [])
                        erased = {i for i in ids if kind != "rewrite" or i % 3 == 0}
                        if not erased:
                            continue
                        op.going.update(erased)
                        removes.append(file.path)
                        for place, kept in leaderless_table.rows_that_stay(journal, [file], erased).items():
                            adds.append(put_rows(journal, place, kept, maintenance=True))
                    if kind == "overwrite":
                        rows = self.model.new_rows(op, 2)
                        adds.append(put_rows(journal, p, rows, maintenance=True))
                    if adds or removes:
                        with self.publishing(client, op):
                            session.publish(Commit(kind, adds, removes, summary={"n": op.number}))
            except (*NOTHING_DONE, OutcomeUnknownError, ObjectNotFoundError):
                continue

    def restorer(self, client: SimClient) -> None:
        """Makes the table what it was at a commit of its history."""
        rng, journals = client.random, self.journals(client)
        for _ in range(max(1, self.rounds // 2)):
            self.rest(client, 4000)
            journal = next(journals)
            op = self.model.operation("restore")
            try:
                with journal.exclusive("restore") as session:
                    versions = [c.version for c in journal.history() if c.version]
                    if not versions:
                        continue
                    past = session.revivable(rng.choice(versions[-8:]))
                    now = {f.path for f in session.snapshot.files}
                    then = {f.path for f in past.files}
                    back = [f for f in past.files if f.path not in now]
                    gone = [f for f in session.snapshot.files if f.path not in then]
                    coming = {i for f in back for i in rows_of(journal, f)}
                    going = {i for f in gone for i in rows_of(journal, f)}
                    op.coming, op.going = coming - going, going - coming
                    adds = [f for f in back if f.inlined is None]
                    for p, ids in leaderless_table.rows_that_stay(
                        journal, [f for f in back if f.inlined is not None]
                    ).items():
                        adds.append(put_rows(journal, p, ids, maintenance=True))
                    with self.publishing(client, op):
                        paths = [f.path for f in gone]
                        session.publish(Commit("restore", adds, paths, summary={"n": op.number}))
            except (*NOTHING_DONE, OutcomeUnknownError, ObjectNotFoundError, SnapshotTooOldError):
                continue

    def cleaner(self, client: SimClient) -> None:
        """Cleanup without any lock, by the client's own clock."""
        journals = self.journals(client)
        for _ in range(self.rounds):
            self.rest(client, 3000)
            try:
                if clean(next(journals)):
                    self.model.happened["cleanup"] += 1
            except (StoreUnavailableError, OutcomeUnknownError):
                continue

    def sweeper(self, client: SimClient) -> None:
        journals = self.journals(client)
        for _ in range(max(1, self.rounds // 2)):
            self.rest(client, 4000)
            s = self.settings
            grace_ms = 0 if self.hasty else s.grace_ms
            try:
                report = next(journals).sweep(
                    grace_ms=grace_ms, orphan_age_ms=s.orphan_age_ms, margin=not self.hasty, dry_run=False
                )
                self.model.happened["sweep"] += bool(report.data_files or report.logs or report.orphans)
            except (*NOTHING_DONE, OutcomeUnknownError):
                continue

    def checkpointer(self, client: SimClient) -> None:
        journals = self.journals(client)
        for _ in range(self.rounds):
            self.rest(client, 1500)
            try:
                next(journals).checkpoint()
                self.model.happened["checkpoint"] += 1
            except (StoreUnavailableError, OutcomeUnknownError):
                continue

    # -- reading

    def reader(self, client: SimClient) -> None:
        """Reads now, and as of versions it has seen while the grace lasts."""
        rng, journals = client.random, self.journals(client)
        witnessed: frozenset[int] = frozenset()
        for _ in range(self.rounds):
            self.rest(client, 1200)
            journal = next(journals)
            began, asked = client.clock.monotonic(), client.time.now_ms
            try:
                snapshot, rows, asked, listed = read_now(client, journal)
            except StoreUnavailableError:
                continue
            witnessed = self.model.saw(
                client.name, snapshot, rows, now=True, from_ms=asked, until_ms=listed, before=witnessed
            )
            began = client.clock.monotonic() - (client.time.now_ms - asked) / 1000
            if self.hasty:  # older versions may be gone at any time
                continue
            self._again(client, journal if rng.random() < 0.5 else next(journals), snapshot, began, witnessed)

    def _again(
        self,
        client: SimClient,
        journal: LeaderlessJournal,
        snapshot: Snapshot,
        began: float,
        witnessed: frozenset[int],
    ) -> None:
        self.rest(client, 1500)
        asked = client.time.now_ms
        try:
            again = journal.snapshot(snapshot.version)
            listed = client.time.now_ms
            rows = read_all(journal, again)
        except StoreUnavailableError:
            return
        except (SnapshotTooOldError, ObjectNotFoundError):
            age = client.clock.monotonic() - began
            assert age * 1000 > self.settings.grace_ms, f"{snapshot.version} can't be read after {age} s"
            return
        assert again.version == snapshot.version
        self.model.saw(client.name, again, rows, now=False, from_ms=asked, until_ms=listed, before=witnessed)


def read_now(client: SimClient, journal: LeaderlessJournal) -> tuple[Snapshot, list[int], int, int]:
    """The table now: snapshot, rows, and between which moments the log was read."""
    for _ in range(20):
        asked = client.time.now_ms
        snapshot = journal.snapshot()
        listed = client.time.now_ms
        try:
            return snapshot, read_all(journal, snapshot), asked, listed
        except ObjectNotFoundError:
            continue
    raise AssertionError("a live file is missing in twenty snapshots in a row")


def _that_may_match(files: Sequence[DataFile], partition: str) -> list[DataFile]:
    """The files of a partition, and the rows of logs, which may be of any."""
    return [f for f in files if f.inlined is not None or partition_of(f) == partition]


def _renew(session: MaintenanceSession) -> None:
    """What the keeper's thread does in a real process."""
    if session.lease is not None:
        session.lease.renew()
