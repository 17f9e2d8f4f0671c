"""The processes that keep a writer's catalog small and whole: pruners, collectors, a person who repairs. And what
they have to put up with: writers that merge and remove, and a disk that spoils a checkpoint."""

from __future__ import annotations

from firn.errors import ConflictError, CorruptObjectError, ForkError, OutcomeUnknownError, SnapshotTooOldError
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.state import CatalogHead
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.maintain.prune import prune
from firn.journal.writer.unclaimed.repair import repair
from firn.testing import SimClient, SimStore
from simulation.writer_catalog import LAYOUT, history_of
from simulation.writer_clients import LANDS_S, STORE, Clients
from simulation.writer_model import Model
from simulation.writer_upkeep import KINDS, WITH_ROWS, Change, check_whole, note_removed

RETENTION_S = 15
SPOILT = b"spoilt"
ORPHAN_S = 12
OVERLAPPING_S = 25
"""Longer than an append that waits for others takes."""


class Keepers(Clients):
    """The programs of a world. With `files`, commits write data files, and do all there is to do."""

    def __init__(
        self,
        model: Model,
        rounds: int,
        *,
        pace: float = 1.0,
        files: bool = False,
        overlapping: bool = False,
        rows: bool = False,
    ) -> None:
        super().__init__(model, rounds, pace=pace)
        self.files, self.overlapping, self.kinds = files, overlapping, WITH_ROWS if rows else KINDS

    def change(self, client: SimClient, handle: Handle, number: int) -> CatalogHead:
        """One of all kinds. Overlapping: its files are written, others commit, and then it does."""
        if not self.files:
            return super().change(client, handle, number)
        change = Change(client.bucket, handle, number)
        if not self.overlapping:
            kind = client.random.choice(self.kinds)
            self.model.happened["rows"] += kind is Change.inline
            return kind(change).commit()
        change.append()
        for _ in range(client.random.randint(0, 2)):
            between = self.model.next()
            try:
                self.model.acknowledge(between, Change(client.bucket, handle, between).append().commit())
            except OutcomeUnknownError as error:
                raise ForkError("given up, with a commit under way") from error
            self.model.happened["overtaken"] += 1
            self.rest(client, 2)
        return change.commit()

    def pruner(self, client: SimClient) -> None:
        for _ in range(self.rounds):
            self.rest(client, 4)
            store = client.world.store
            assert isinstance(store, SimStore)
            try:
                with self.model.at_work(client):
                    note_removed(self.model, store)
                    before = store.copy()
                    report = prune(history_of(client.bucket), older_than_ms=RETENTION_S * 1000)
            except (*STORE, ConflictError, ForkError, SnapshotTooOldError):
                continue
            except CorruptObjectError:
                assert self._truncates(client), "a sound catalog was called corrupt"
                continue
            if report.deleted:
                self.model.happened["pruned"] += 1
                self._check_floor(store, before, report.floor, client.time.now_ms)

    def _check_floor(self, store: SimStore, before: SimStore, floor: int, now_ms: int) -> None:
        """It was old enough, and can be read."""
        names = {
            key: LAYOUT.parse(key) for key in before.keys(LAYOUT.before(floor)) if key.endswith("transaction")
        }
        ages = [before.stat(key).modified_ms for key, name in names.items() if name[0] == floor]
        assert not ages or min(ages) <= now_ms - RETENTION_S * 1000, f"the floor {floor} is too young"
        was, now = (
            [s.fetch(k).data for k in s.keys(LAYOUT.before(floor)) if k[-1] == "t"] for s in (before, store)
        )
        assert SPOILT not in was or SPOILT not in now, f"the floor {floor} is spoilt"
        if now and SPOILT not in now:  # another has pruned further, or a disk came in between
            history_of(store.copy().bucket()).at(floor)

    def collector(self, client: SimClient) -> None:
        age_s = OVERLAPPING_S if self.overlapping else ORPHAN_S
        for _ in range(self.rounds):
            self.rest(client, 12)
            store = client.world.store
            assert isinstance(store, SimStore)
            before = store.copy()
            try:
                with self.model.at_work(client):
                    before = store.copy()
                    report = collect(history_of(client.bucket), orphan_age_ms=age_s * 1000)
            except (*STORE, ConflictError, ForkError, SnapshotTooOldError):
                continue
            except CorruptObjectError:
                assert self._truncates(client) or self.model.happened["spoilt"], (
                    "a sound catalog was called corrupt"
                )
                continue
            finally:
                if not client.crashed:
                    check_whole(self.model, store, before)
            if report.data_files or report.orphans:
                self.model.happened["collected"] += 1

    def person(self, client: SimClient) -> None:
        """Looks after forks: stops everybody, and chooses a side."""
        for _ in range(4 * self.rounds):
            self.rest(client, 2)
            try:
                if history_of(client.bucket).load(hint=False).fork is None:
                    continue
                with self.model.all_stopped(client, LANDS_S):
                    fork = history_of(client.bucket).load(hint=False).fork
                    if fork is not None:
                        repair(client.bucket, LAYOUT, self.model.side(fork))
                        self.model.happened["repaired"] += 1
            except (*STORE, ConflictError, SnapshotTooOldError):
                continue
            except CorruptObjectError:
                assert self._truncates(client), "a sound catalog was called corrupt"

    def disk(self, client: SimClient) -> None:
        """Spoils one checkpoint, once."""
        for _ in range(10 * self.rounds):
            self.rest(client, 4)
            keys = [
                k for k in client.world.store.keys(LAYOUT.transactions_prefix) if k.endswith(".checkpoint")
            ]  # type: ignore[union-attr]
            if keys and client.random.random() < 0.3:
                client.world.store.write(client.random.choice(keys), SPOILT)  # type: ignore[union-attr]
                self.model.happened["spoilt"] += 1
                return
