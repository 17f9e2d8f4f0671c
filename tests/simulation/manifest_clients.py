"""The processes that share a keyed table: writers and what they leave behind as zombies, compactors, readers,
snapshotters and collectors."""

from __future__ import annotations

from contextlib import suppress

from firn.errors import (
    ConflictError,
    FencedError,
    NotFoundError,
    ObjectChangedError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StoreUnavailableError,
)
from firn.journal.manifest import (
    CompactorSession,
    ManifestJournal,
    SnapshotRef,
    SSTInfo,
    View,
    WriterSession,
)
from firn.testing import SimClient
from simulation.manifest_model import Kept, Model
from simulation.manifest_process import Process
from simulation.manifest_table import (
    BUFFER_S,
    L0_MIN_AGE_S,
    Entry,
    contents_of,
    fetch,
    journal_of,
    put_sst,
    read_all,
    sst_entries,
)

STORE = (StoreUnavailableError, OutcomeUnknownError)


class Clients:
    """The programs of one world. `pace` stretches all their pauses."""

    def __init__(self, model: Model, rounds: int, *, pace: float = 1.0, told_s: float = L0_MIN_AGE_S) -> None:
        self.model, self.rounds, self.pace, self.told_s = model, rounds, pace, told_s

    def rest(self, client: SimClient, seconds: float) -> None:
        client.clock.sleep(client.random.random() * seconds * self.pace)

    # -- writers

    def writer(self, client: SimClient) -> None:
        """Opens, flushes with several in flight, and opens again when it is fenced or has lost its way. What it
        leaves in flight goes on, a zombie."""
        process = Process(client)
        journal = journal_of(process.bucket, process.clock)
        session: WriterSession | None = None
        with process.dying_together():
            for _ in range(self.rounds):
                self.rest(client, 20)
                try:
                    if session is None:
                        session = self._opened(client, journal)
                    if not self._flush(client, process, session):
                        session = None
                    elif client.random.random() < 0.3:
                        self._poll(client, journal, session)
                except FencedError:
                    self.model.happened["fenced"] += 1
                    session = None
                except STORE:
                    session = None

    def _opened(self, client: SimClient, journal: ManifestJournal) -> WriterSession:
        floor = self.model.floor()
        session = journal.open_writer(
            wait_for_gaps_s=client.random.choice([0.0, 1.0]), strict=client.random.random() < 0.3
        )
        self.model.opened(session.epoch, session.start, floor)
        _, contents = read_all(journal, session.view)
        self.model.saw(contents, floor)
        return session

    def _flush(self, client: SimClient, process: Process, session: WriterSession) -> bool:
        """Up to three flushes in flight at once. False: not all of them are acknowledged in time."""
        first = session.next_number
        numbers = range(first, first + client.random.randint(1, 3))
        done: list[int] = []
        for number in numbers:
            body = self.model.send(session.epoch, number)

            def put(thread: SimClient, number: int = number, body: bytes = body) -> None:
                if self._put(thread, session, number, body):
                    done.append(number)

            process.start(f"put{number}", put)
        for _ in range(20):
            if len(done) == len(numbers):
                return True
            self.rest(client, 10)
        self.model.happened["left in flight"] += 1
        return False

    def _put(self, client: SimClient, session: WriterSession, number: int, body: bytes) -> bool:
        """A number is put until it is up or the writer is fenced, and so it is confirmed."""
        self.rest(client, client.random.choice([0, 0, 0, 2]))
        steps = [
            lambda: session.put_l0(number, body),
            lambda: self.rest(client, client.random.choice([0, 0, 1, 60])),
            lambda: self._confirm(client, session, number, body),
        ]
        while steps:
            try:
                steps[0]()
                steps.pop(0)
            except STORE:
                self.model.happened["tried again"] += 1
                self.rest(client, 5)
            except FencedError:
                self.model.happened["fenced in flight"] += 1
                return False
        return True

    def _confirm(self, client: SimClient, session: WriterSession, number: int, body: bytes) -> None:
        session.confirm(number)
        self.model.acknowledge(number, body)

    def _poll(self, client: SimClient, journal: ManifestJournal, session: WriterSession) -> None:
        floor = self.model.floor()
        view = session.poll()
        if view is not None:
            self.model.happened["polled"] += 1
            _, contents = read_all(journal, journal.read(view))
            self.model.saw(contents, floor)

    # -- compactors

    def compactor(self, client: SimClient) -> None:
        journal = journal_of(client.bucket, client.clock, told_s=self.told_s)
        session: CompactorSession | None = None
        for _ in range(self.rounds):
            self.rest(client, 60)
            try:
                if session is None:
                    session = journal.open_compactor()
                self._compact(client, journal, session)
            except FencedError:
                self.model.happened["compactor fenced"] += 1
                session = None
            except (ObjectNotFoundError, ObjectChangedError):  # planned by a view that has passed
                continue
            except STORE:
                # Half of them go on with the session they have.
                session = session if client.random.random() < 0.5 else None

    def _compact(self, client: SimClient, journal: ManifestJournal, session: CompactorSession) -> None:
        """Some of L0 into a run; and at times some SSTs into one, begun before the first is committed."""
        view = session.refresh()
        l0 = sorted(view.l0, key=lambda file: file.number)
        l0 = l0[: client.random.randint(0, len(l0))] if client.random.random() < 0.5 else l0
        old = list(view.manifest.ssts)
        chosen = old if client.random.random() < 0.3 else []
        aside = [info for info in old if info not in chosen] if client.random.random() < 0.5 else []
        last = l0[-1].number if l0 else view.manifest.last_compacted
        run = 1 + max((info.run for info in old), default=-1)
        in_flight: int | None = None
        merged: list[SSTInfo] = []
        fresh: list[SSTInfo] = []
        if l0 or chosen:
            entries = [(file.number, journal.read_l0(file)) for file in l0]
            fresh = self._written(client, session, 1, run, entries + self._entries(client, chosen))
        if aside:
            merged = self._written(client, session, 2, run, self._entries(client, aside))
            in_flight = min(info.number for info in merged)
        if fresh:
            self.rest(client, client.random.choice([0, 0, 10, 200]))
            session.commit(adds=fresh, deletes=chosen, last_compacted=last, in_flight=in_flight)
            self.model.happened["compacted"] += 1
        if merged:
            self.rest(client, client.random.choice([0, 0, 10, 200]))
            session.commit(adds=merged, deletes=aside, last_compacted=last)
            self.model.happened["merged"] += 1

    def _entries(self, client: SimClient, infos: list[SSTInfo]) -> list[Entry]:
        return [entry for info in infos for entry in sst_entries(fetch(client.bucket, info.file))]

    def _written(
        self, client: SimClient, session: CompactorSession, level: int, run: int, entries: list[Entry]
    ) -> list[SSTInfo]:
        entries.sort()
        cut = client.random.randint(0, len(entries) - 1) if client.random.random() < 0.5 else 0
        parts = [part for part in (entries[:cut], entries[cut:]) if part]
        return [put_sst(session, level, run, part) for part in parts]

    # -- readers

    def reader(self, client: SimClient) -> None:
        """Follows with one view, and now and then begins anew."""
        journal = journal_of(client.bucket, client.clock)
        view: View | None = None
        for _ in range(2 * self.rounds):
            self.rest(client, 30)
            if client.random.random() < 0.3:
                view = None
            floor = self.model.floor()
            try:
                view = journal.read(view)
                if client.random.random() < 0.3:
                    self.rest(client, 400)
                view, contents = read_all(journal, view)
            except STORE:
                continue
            self.model.saw(contents, floor)
            self.model.happened["read"] += 1

    # -- snapshots

    def snapshotter(self, client: SimClient) -> None:
        journal = journal_of(client.bucket, client.clock)
        refs: list[SnapshotRef] = []
        deleted: list[SnapshotRef] = []
        for _ in range(2 * self.rounds):
            self.rest(client, 60)
            try:
                if deleted and client.random.random() < 0.3:
                    self._stays_dead(client, journal, client.random.choice(deleted))
                if not refs or client.random.random() < 0.3:
                    refs.append(self._snapshot(client, journal))
                ref = client.random.choice(refs)
                if client.random.random() < 0.2:
                    refs.append(self._copied(client, journal, ref))
                deed = client.random.random()
                if deed < 0.15:
                    refs.remove(ref)
                    self.model.kept.pop(ref.id, None)
                    journal.delete_snapshot(ref)
                    deleted.append(ref)
                elif deed < 0.5:
                    self._refresh(client, journal, ref)
                else:
                    self._reread(client, journal, ref)
            except (*STORE, SnapshotTooOldError):
                continue

    def _stays_dead(self, client: SimClient, journal: ManifestJournal, ref: SnapshotRef) -> None:
        """Whatever of its making lands once more: nobody is told again that it is kept."""
        self.model.happened["deleted looked for"] += 1
        if ref.key in client.world.store:
            self.model.happened["landed after its deletion"] += 1
        for look in (lambda: journal.view_of(ref), lambda: journal.refresh_snapshot(ref, None)):
            with suppress(SnapshotTooOldError):
                look()
                assert self._both_landed_again(client, ref), f"{ref.key} was deleted, and is there again"
                self.model.happened["came back"] += 1

    def _both_landed_again(self, client: SimClient, ref: SnapshotRef) -> bool:
        """The one way in which a snapshot comes back: its put, and then its swap, which a hash of the content lets
        pass."""
        late = [str(step) for step in client.world.trace if "late landing" in str(step)]
        verbs = [
            verb for verb in ("put_if_absent", "put_if_match") for step in late if f"{verb} {ref.key}" in step
        ]
        return client.world.store.etags == "content" and len(set(verbs)) == 2

    def _expiry(self, client: SimClient) -> int | None:
        if client.random.random() < 0.1:
            return None
        return client.clock.now_ms() + int(client.random.random() * 1_000_000)

    def _snapshot(self, client: SimClient, journal: ManifestJournal) -> SnapshotRef:
        floor = self.model.floor()
        expires_ms = self._expiry(client)
        ref = journal.snapshot(name=None, expires_ms=expires_ms)
        self.model.kept[ref.id] = Kept(expires_ms)
        self._reread(client, journal, ref, floor)
        return ref

    def _copied(self, client: SimClient, journal: ManifestJournal, ref: SnapshotRef) -> SnapshotRef:
        """A snapshot of a snapshot, at times of one that is about to expire."""
        kept = self.model.kept.get(ref.id)
        expires_ms = self._expiry(client)
        copied = journal.snapshot(expires_ms=expires_ms, like=ref)
        self.model.kept[copied.id] = Kept(expires_ms, kept.contents if kept else None)
        self.model.happened["snapshot copied"] += 1
        self._reread(client, journal, copied)
        return copied

    def _reread(self, client: SimClient, journal: ManifestJournal, ref: SnapshotRef, floor: int = 0) -> None:
        """Its files stay where they are for as long as it lives, so nothing of it is ever gone."""
        try:
            contents = contents_of(journal, journal.view_of(ref))
        except NotFoundError as gone:
            kept = self.model.kept.get(ref.id)
            if kept is not None and not self._over(client, kept):
                raise AssertionError(f"snapshot {ref.id} lacks something") from gone
            # Should a put of it land once more by now, nobody may rely on that.
            self.model.kept.pop(ref.id, None)
            self.model.happened["snapshot expired"] += 1
            return
        if ref.id in self.model.kept:
            self.model.read_again(ref.id, contents, floor)

    def _over(self, client: SimClient, kept: Kept) -> bool:
        return kept.expires_ms is not None and client.time.now_ms >= kept.expires_ms

    def _refresh(self, client: SimClient, journal: ManifestJournal, ref: SnapshotRef) -> None:
        kept = self.model.kept.get(ref.id)
        expires_ms = self._expiry(client)
        if kept is None:
            return
        before = kept.expires_ms
        # While nobody knows which expiry counts, nothing is promised beyond the earlier one.
        kept.expires_ms = min((ms for ms in (before, expires_ms) if ms is not None), default=None)
        try:
            journal.refresh_snapshot(ref, expires_ms)
        except (NotFoundError, ConflictError):
            assert self._over(client, kept), f"snapshot {ref.id} is gone before {kept.expires_ms}"
            self.model.kept.pop(ref.id, None)
            self.model.happened["refreshed too late"] += 1
            return
        kept.expires_ms = expires_ms
        self.model.happened["refreshed"] += 1

    # -- collectors

    def collector(self, client: SimClient) -> None:
        journal = journal_of(client.bucket, client.clock)
        for _ in range(2 * self.rounds):
            self.rest(client, 200)
            try:
                report = journal.collect(l0_min_age_s=L0_MIN_AGE_S, buffer_s=BUFFER_S)
            except STORE:
                continue
            for kind in ("l0", "fences", "ssts", "manifests", "snapshots"):
                self.model.happened[f"collected {kind}"] += len(getattr(report, kind))
