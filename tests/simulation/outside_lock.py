"""A lock service beside a simulated store, for stores without conditional puts."""

from __future__ import annotations

from itertools import count

from firn.errors import LockHeldError, LockLostError
from firn.testing import GatedBucket, SimClient, SimClock


class LockService:
    """Who holds what. A holder that hasn't renewed for `lifetime_ms` loses it, as a session does."""

    def __init__(self, lifetime_ms: int) -> None:
        self.lifetime_ms = lifetime_ms
        self.held: dict[str, tuple[int, int]] = {}
        self.tokens = count()

    def of(self, client: SimClient) -> OutsideLock:
        return OutsideLock(self, client.clock)

    def of_bucket(self, bucket: GatedBucket) -> OutsideLock:
        return OutsideLock(self, bucket.clock)


class OutsideLock:
    """An `ExclusiveLock` as one process sees it. The service has a clock of its own: the world's."""

    def __init__(self, service: LockService, clock: SimClock) -> None:
        self.service, self.clock = service, clock

    def acquire(self, name: str, *, timeout: float) -> tuple[str, int]:
        deadline = self.clock.monotonic() + timeout
        while True:
            holder = self.service.held.get(name)
            if holder is None or holder[1] <= self._now():
                token = next(self.service.tokens)
                self.service.held[name] = token, self._now() + self.service.lifetime_ms
                return name, token
            if self.clock.monotonic() >= deadline:
                raise LockHeldError(f"{name} is locked by another process")
            self.clock.sleep(10)

    def renew(self, token: tuple[str, int]) -> None:
        name, number = token
        if self.service.held.get(name, (None, 0))[0] != number:
            raise LockLostError(f"the lock {name} was lost")
        self.service.held[name] = number, self._now() + self.service.lifetime_ms

    def release(self, token: tuple[str, int]) -> None:
        name, number = token
        if self.service.held.get(name, (None, 0))[0] == number:
            del self.service.held[name]

    def _now(self) -> int:
        return self.clock.now_ms() - self.clock.skew_ms
