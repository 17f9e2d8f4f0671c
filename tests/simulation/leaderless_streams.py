"""A stream over a simulated table that keeps its offset over crashes and counts what it delivers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from firn.errors import ObjectNotFoundError, SnapshotTooOldError, StoreUnavailableError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.stream import StreamOffset
from firn.journal.model import DataFile
from firn.testing import SimClient
from simulation.leaderless_clients import Clients
from simulation.leaderless_model import Model
from simulation.leaderless_table import rows_of


class StreamReader:
    """`lapsed` once the table said that it can't go on: nothing is promised after that."""

    def __init__(self, clients: Clients, *, limit: int | None = 3) -> None:
        self.clients = clients
        self.model: Model = clients.model
        self.limit = limit
        self.delivered: Counter[int] = Counter()
        self.offset: StreamOffset | None = None
        self.lapsed = False

    def run(self, client: SimClient) -> None:
        """Poll for as long as anybody else does anything."""
        journals = self.clients.journals(client)
        while any(not other.done and other.name[:6] != "stream" for other in client.world.clients):
            self.clients.rest(client, 900)
            self.step(next(journals), again=client.random.random() < 0.3)

    def step(self, journal: LeaderlessJournal, *, again: bool = False) -> None:
        """One poll; with `again`, its batch is read once more, as after a crash."""
        try:
            if self.offset is None:
                self._start(journal, again=again)
                return
            stream = journal.stream()
            delivery = stream.poll(self.offset, limit=self.limit)
            rows = _rows(journal, [file for append in delivery.appends for file in append])
            if again:
                repeated = _rows(journal, stream.between(self.offset, delivery.offset).files)
                assert sorted(repeated) == sorted(rows), f"a batch was {rows}, and read again {repeated}"
            self._deliver(rows, delivery.offset)
        except (StoreUnavailableError, ObjectNotFoundError):
            return
        except SnapshotTooOldError:
            self.lapsed = True

    def _start(self, journal: LeaderlessJournal, *, again: bool) -> None:
        stream = journal.stream()
        begun = stream.start()
        rows = _rows(journal, begun.files)
        if again:
            repeated = set(_rows(journal, stream.restart(begun.version, begun.offset).files))
            # A removal that was under way may be stamped before the start and published after it.
            changed = {i for op in self.model.operations if op.kind != "append" for i in op.going | op.coming}
            differ = (repeated ^ set(rows)) - changed
            assert not differ, f"the first batch was read again with {sorted(differ)} different"
        self._deliver(rows, begun.offset)

    def _deliver(self, rows: list[int], offset: StreamOffset) -> None:
        if not self.lapsed:
            self.delivered.update(rows)
            self.offset = offset
            self.model.happened["delivered"] += len(rows)

    def final(self, journal: LeaderlessJournal) -> None:
        """Drain it: everything appended was delivered exactly once."""
        self._check_once()
        if self.offset is None:
            return
        for _ in range(40):
            self.step(journal)
        self.model.happened["lapsed" if self.lapsed else "streamed"] += 1
        self._check_once()
        if not self.lapsed:
            appended = {
                i
                for op in self.model.operations
                if op.kind == "append" and op.fate == "done"
                for i in op.coming
            }
            gone = {i for op in self.model.operations for i in op.going}
            missing = appended - set(self.delivered) - gone
            assert not missing, f"the stream never delivered {sorted(missing)}"

    def _check_once(self) -> None:
        doubled = [i for i, n in self.delivered.items() if n > 1]
        assert not doubled, f"the stream delivered {doubled} twice"


def _rows(journal: LeaderlessJournal, files: Iterable[DataFile]) -> list[int]:
    return [i for file in files for i in rows_of(journal, file)]
