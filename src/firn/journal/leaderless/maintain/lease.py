"""The lease: one object that says who maintains a table (rules 5 to 7 of the maintenance protocol).

    {"firn": 1, "nonce": …, "epoch": 7, "holder": "host-1234" | null, "op": "merge",
     "intent": "…/_log/….jsonl" | null, "lease_ms": 30000}

No wall clocks are compared: a waiter takes over only after it has seen the same version of the object for
a whole lease on its own monotonic clock. A holder proves that it lives by writing a new nonce.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from firn.bucket.base import Bucket
from firn.bucket.conditional import create, swap
from firn.bucket.presence import find
from firn.clock import Clock
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    FirnError,
    LockHeldError,
    LockLostError,
    ObjectChangedError,
    ObjectExistsError,
)
from firn.journal.leaderless.format.codec import Log, decode, encode
from firn.journal.sealed import seal, unseal

_FIELDS = frozenset(("firn", "nonce", "epoch", "holder", "op", "intent", "lease_ms"))

POLL_S = 0.1, 1.0
"""How long a waiter rests between two looks at a held lock, at first and at most, but no longer than a tenth of the
lease: keepers hold it for far less than a second."""


@dataclass(frozen=True)
class LockState:
    """The lock object's content."""

    nonce: str
    epoch: int
    holder: str | None
    op: str
    intent: str | None
    lease_ms: int

    @staticmethod
    def new(epoch: int, holder: str, op: str, lease_ms: int) -> LockState:
        """Of one who takes the lock."""
        return LockState(secrets.token_hex(16), epoch, holder, op, None, lease_ms)

    def encode(self) -> bytes:
        return seal({"firn": 1, **vars(self)})  # in the order of the fields

    @staticmethod
    def decode(data: bytes, where: str) -> LockState:
        try:
            raw = unseal(data, _FIELDS)
            return LockState(
                raw["nonce"], int(raw["epoch"]), raw["holder"], raw["op"], raw["intent"], int(raw["lease_ms"])
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptObjectError(
                f"{where} is not a lock of Firn ({error!r}). Make sure that no maintenance runs, then delete it."
            ) from error


@dataclass
class Sighting:
    """The version of the lock that a process saw last, and since when on its own monotonic clock: one that tries the
    lock now and then, and never waits for it, takes over from a dead holder by it."""

    etag: str = ""
    since: float = 0.0

    def note(self, etag: str, now: float) -> float:
        """Take note of a version; for how many seconds it has been there."""
        if etag != self.etag:
            self.etag, self.since = etag, now
        return now - self.since


class Lease:
    """Holding the lock. Get one by `acquire`; `release` it, or let it lapse."""

    def __init__(self, bucket: Bucket, key: str, clock: Clock, state: LockState, etag: str) -> None:
        self.bucket, self.key, self.clock = bucket, key, clock
        self._state, self._etag = state, etag
        self._lost: LockLostError | None = None
        self._mutex = threading.RLock()
        self._stop = threading.Event()
        self._keeper: threading.Thread | None = None

    def check(self) -> None:
        """Raise `LockLostError` if a renewal was refused. No request."""
        if self._lost is not None:
            raise self._lost

    def renew(self) -> None:
        """Write a new nonce: 1 PUT. Refused means that somebody took over: abort."""
        self._write(intent=self._state.intent, holder=self._state.holder)

    def announce(self, intent: str) -> None:
        """Name the log that is about to be published, for the next holder (rule 8b): 1 PUT."""
        self._write(intent=intent, holder=self._state.holder)

    def release(self) -> None:
        """Give the lock back: 1 PUT. A lock that was lost meanwhile is no error: the work is published."""
        try:
            self._give_back()
        except KeyboardInterrupt:  # which may have met the request
            self._give_back()
            raise

    def _give_back(self) -> None:
        self.stop_keeper()
        if self._lost is None:
            with suppress(FirnError):  # else it lapses by itself
                self._write(intent=None, holder=None)

    def _write(self, *, intent: str | None, holder: str | None) -> None:
        with self._mutex:
            self.check()
            state = replace(self._state, intent=intent, holder=holder, nonce=secrets.token_hex(16))
            try:
                self._etag = swap(self.bucket, self.key, state.encode(), self._etag, nonce=state.nonce)
            except ObjectChangedError as error:
                self._lost = LockLostError(f"{self.bucket.uri(self.key)}: {self._why_lost()}")
                raise self._lost from error
            except KeyboardInterrupt:  # which may have met the request when it was done
                with suppress(FirnError):
                    if (etag := _etag_of(self.bucket, self.key, state)) is not None:
                        self._etag, self._state = etag, state
                raise
            self._state = state

    def _why_lost(self) -> str:
        """What became of the lock, for an error. 1 GET."""
        op = self._state.op
        with suppress(FirnError):
            if find(self.bucket, self.key) is None:
                return f"the lock of this {op} is gone, as when a table is dropped. Nothing of it is visible."
        return (
            f"another process took over the lock of this {op}, which was silent for longer than the lease. "
            "Nothing of it is visible; run it again."
        )

    def start_keeper(self) -> None:
        """Renew from a thread at every third of the lease, while the caller works."""
        self._keeper = threading.Thread(target=self._keep, name="firn-lease", daemon=True)
        self._keeper.start()

    def stop_keeper(self) -> None:
        self._stop.set()
        if self._keeper is not None and self._keeper is not threading.current_thread():
            self._keeper.join()

    def _keep(self) -> None:
        while not self._stop.wait(self._state.lease_ms / 3000):
            try:
                self.renew()
            except LockLostError:
                return
            except FirnError:
                continue  # the store is failing; the next renewal, or the publish, will tell


def acquire(
    bucket: Bucket,
    key: str,
    clock: Clock,
    *,
    op: str,
    lease_ms: int,
    wait_ms: int,
    seen: Sighting | None = None,
) -> Lease:
    """Take the lock, waiting up to `wait_ms` for a living holder. `seen` is what was seen of it before.

    Cost: 1 GET + 1 PUT when free; 1 GET a poll while waiting; to take over from a dead holder that had
    announced a log, 1 GET + at most 1 PUT more.

    Raises:
        LockHeldError: somebody alive holds it for all that time.
    """
    holder = f"{socket.gethostname()}-{os.getpid()}"
    started = clock.monotonic()
    seen, (rest, longest) = seen or Sighting(), POLL_S
    while True:
        blob = find(bucket, key)
        if blob is None:
            state = LockState.new(1, holder, op, lease_ms)
            try:
                with _back_if_interrupted(bucket, key, state):
                    etag = create(bucket, key, state.encode(), nonce=state.nonce)
                    return Lease(bucket, key, clock, state, etag)
            except ObjectExistsError:
                continue
        current = LockState.decode(blob.data, bucket.uri(key))
        now = clock.monotonic()
        silent = seen.note(blob.info.etag, now)
        free = current.holder is None
        if free or silent >= current.lease_ms / 1000:
            if current.intent is not None:
                settle_intent(bucket, current.intent)
            state = LockState.new(current.epoch + 1, holder, op, lease_ms)
            try:
                with _back_if_interrupted(bucket, key, state):
                    etag = swap(bucket, key, state.encode(), blob.info.etag, nonce=state.nonce)
                    return Lease(bucket, key, clock, state, etag)
            except ObjectChangedError:
                continue
        if now - started >= wait_ms / 1000:
            raise LockHeldError(
                f"{bucket.uri(key)}: {current.holder} holds the table's lock for a {current.op} "
                f"(epoch {current.epoch}). Retry when it is done; a dead holder's lock is taken over "
                f"{current.lease_ms / 1000:g} s after its last sign of life."
            )
        clock.sleep(min(rest, current.lease_ms / 10_000))
        rest = min(2 * rest, longest)


@contextmanager
def _back_if_interrupted(bucket: Bucket, key: str, state: LockState) -> Iterator[None]:
    """Ctrl-C may meet the request that takes the lock when it is done: without the lock given back, others would wait
    until it lapses."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(FirnError):
            if (etag := _etag_of(bucket, key, state)) is not None:
                free = replace(state, holder=None, nonce=secrets.token_hex(16))
                swap(bucket, key, free.encode(), etag, nonce=free.nonce)
        raise


def _etag_of(bucket: Bucket, key: str, state: LockState) -> str | None:
    """The ETag of the lock's object, if it has this state. 1 GET."""
    blob = find(bucket, key)
    there = blob is not None and LockState.decode(blob.data, bucket.uri(key)).nonce == state.nonce
    return blob.info.etag if blob is not None and there else None


def settle_intent(bucket: Bucket, intent: str) -> None:
    """Rule 6: before taking over, make the old holder's announced log either published or void for ever.

    Voiding puts a no-op onto the reservation: the old holder's put-if-match can never succeed after that.
    Deleting it instead would erase a log published meanwhile.
    """
    blob = find(bucket, intent)
    if blob is None:
        return  # If-Match on an absent name fails for ever
    log = decode(intent.rpartition("/")[2], blob.data, where=bucket.uri(intent))
    if not log.is_reservation:
        return
    nonce = secrets.token_hex(16)
    void: dict[str, Any] = {"op": "fence"}
    try:
        swap(
            bucket, intent, encode(Log(log.name, log.t, notes=void, nonce=nonce)), blob.info.etag, nonce=nonce
        )
    except ConflictError:
        return  # published, or voided by another waiter
