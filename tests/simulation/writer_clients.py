"""The processes that share one writer's catalog: those that commit under its id, checkpointers and readers."""

from __future__ import annotations

from firn.errors import (
    CorruptObjectError,
    ForkError,
    HandleClosedError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StoreUnavailableError,
)
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.state import CatalogHead
from firn.journal.writer.history.checkpoint import add_checkpoint
from firn.journal.writer.history.history import History
from firn.testing import SimClient
from simulation.writer_catalog import commit, handle_of, history_of, numbers
from simulation.writer_model import Model

LANDS_S = 10
"""No put lands later than so after it was sent."""
STORE = (StoreUnavailableError, OutcomeUnknownError)


class Clients:
    """The programs of one world. `pace` stretches all their pauses."""

    def __init__(self, model: Model, rounds: int, *, pace: float = 1.0) -> None:
        self.model, self.rounds, self.pace = model, rounds, pace

    def rest(self, client: SimClient, seconds: float) -> None:
        client.clock.sleep(client.random.random() * seconds * self.pace)

    def writer(self, client: SimClient) -> None:
        """Commits with one handle for as long as it is open."""
        handle: Handle | None = None
        stop = self.model.stops
        for _ in range(self.rounds):
            self.rest(client, 2)
            with self.model.at_work(client):
                if handle is None or handle.closed or stop != self.model.stops:
                    stop, handle = self.model.stops, self._opened(client)
                if handle is not None and not self._commit(client, handle):
                    handle = None

    def _opened(self, client: SimClient) -> Handle | None:
        try:
            return handle_of(client.bucket, client.clock)
        except ForkError:
            self.model.happened["refused at a fork"] += 1
        except STORE:
            pass
        except CorruptObjectError:
            assert self._truncates(client), "a sound catalog was called corrupt"
        return None

    def _truncates(self, client: SimClient) -> bool:
        return any(str(call.fault) == "truncated" for call in client.world.trace)

    def _commit(self, client: SimClient, handle: Handle) -> bool:
        """False if the handle isn't to be used again."""
        number = self.model.next()
        again = False
        for _ in range(client.random.randint(1, 3)):
            try:
                head = handle.settle() if again else self.change(client, handle, number)
                self.model.acknowledge(number, head)
                return True
            except HandleClosedError:
                self.model.happened["closed"] += 1
                if not again:
                    self.model.failed(number)
                return False
            except ForkError:
                self.model.happened["fork"] += 1
                return False
            except StoreUnavailableError:
                if not again:
                    self.model.failed(number)
                return not again
            except OutcomeUnknownError:
                self.model.happened["unknown"] += 1
                again = True
                self.rest(client, 5)
        return False

    def change(self, client: SimClient, handle: Handle, number: int) -> CatalogHead:
        """What a writer commits."""
        return commit(handle, number)

    def checkpointer(self, client: SimClient) -> None:
        history = history_of(client.bucket)
        for _ in range(self.rounds):
            self.rest(client, 2)
            if client.random.random() < 0.3:
                history = history_of(client.bucket)
            try:
                with self.model.at_work(client):
                    newest = history.load().head.revision
                    chosen = (
                        client.random.randint(1, newest) if newest and client.random.random() < 0.3 else None
                    )
                    if add_checkpoint(history, chosen) is not None:
                        self.model.happened["checkpoint"] += 1
            except ForkError:
                history = history_of(client.bucket)
            except (*STORE, SnapshotTooOldError):
                continue
            except CorruptObjectError:
                assert self._truncates(client), "a sound catalog was called corrupt"

    def reader(self, client: SimClient) -> None:
        history = history_of(client.bucket)
        for _ in range(2 * self.rounds):
            self.rest(client, 1)
            if client.random.random() < 0.2:
                history = history_of(client.bucket)
            try:
                before = frozenset(self.model.decided)
                version = history.load()
                self.model.saw(version, before=before)
                self.model.happened["fork seen" if version.fork else "read"] += 1
                self._again(client, history, version.head.revision)
            except ForkError:
                self.model.happened["cursor refused"] += 1
                history = history_of(client.bucket)
            except (*STORE, SnapshotTooOldError):
                continue
            except CorruptObjectError:
                assert self._truncates(client), "a sound catalog was called corrupt"

    def _again(self, client: SimClient, history: History, newest: int) -> None:
        """An earlier revision shows what it showed."""
        if newest < 2:
            return
        revision = client.random.randint(1, newest - 1)
        past = history.at(revision)
        assert past.head.revision == revision
        self.model.saw(past)
        at_time = history.at_time(past.head.time_ms)
        assert numbers(past.state).items() <= numbers(at_time.state).items()
        assert at_time.head.time_ms == past.head.time_ms
        self.model.happened["time travel"] += 1
