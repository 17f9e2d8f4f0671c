"""How long a protocol's client goes on: waits between attempts that grow, and answers that were cut short."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from firn.bucket.base import Blob, Bucket
from firn.bucket.presence import find
from firn.bucket.retry import RetryPolicy
from firn.clock import Clock
from firn.errors import ObjectNotFoundError, StoreUnavailableError

T = TypeVar("T")

_PATIENCE = RetryPolicy(attempts=60, first_wait=0.02, longest_wait=2.0)


@dataclass
class Backoff:
    """Waits that grow, with full jitter, between attempts of one operation."""

    clock: Clock
    failed: int = 0

    def wait(self) -> bool:
        """Sleep before the next attempt; False, without sleeping, if there were enough of them."""
        pause = self.next_pause()
        if pause is None:
            return False
        self.clock.sleep(pause)
        return True

    def next_pause(self) -> float | None:
        """For whoever sleeps by itself: the seconds until the next attempt, None if there were enough of them."""
        self.failed += 1
        if self.failed >= _PATIENCE.attempts:
            return None
        return _PATIENCE.wait(self.failed, random.Random(random.getrandbits(64)))

    def persist(self, attempt: Callable[[], T], on: type[Exception] | tuple[type[Exception], ...]) -> T:
        """The first result, with waits between attempts that fail `on` these errors; the last one's error."""
        while True:
            try:
                return attempt()
            except on:
                if not self.wait():
                    raise


def whole(bucket: Bucket, blob: Blob, clock: Clock) -> Blob:
    """The object, again if half of it came: that must not be taken for a corrupt one, nor for an empty one.

    Raises:
        ObjectNotFoundError: it is gone.
        StoreUnavailableError: half of it comes all the time.
    """
    backoff = Backoff(clock)
    while len(blob.data) != blob.info.size:
        if not backoff.wait():
            raise StoreUnavailableError(f"{bucket.uri(blob.info.key)}: answers are cut short; retry later")
        blob = bucket.get(blob.info.key)
    return blob


def whole_or_none(bucket: Bucket, blob: Blob | None, clock: Clock) -> Blob | None:
    """`whole`, None if there was no object, or it is gone."""
    try:
        return None if blob is None else whole(bucket, blob, clock)
    except ObjectNotFoundError:
        return None


def find_whole(bucket: Bucket, key: str, clock: Clock) -> Blob | None:
    """The object, whole; None if there is none. 1 GET, again if half of it came."""
    return whole_or_none(bucket, find(bucket, key), clock)
