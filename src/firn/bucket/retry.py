"""Retries: exponential backoff with full jitter, and the one place that tells failure from doubt.

A write whose answer got lost may have happened. Retrying may settle it: an unconditional put that finally succeeds
has happened, whatever the earlier attempts did. If the retries end without that, the outcome is unknown, and no
later failure, however definite, takes this back.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from firn.bucket.failures import Failure, Meaning, classify
from firn.clock import Clock
from firn.errors import (
    AccessDeniedError,
    FirnError,
    NotFoundError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreUnavailableError,
    UnsupportedError,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds. Waits are in seconds: the n-th is drawn from [0, first_wait × 2ⁿ), `longest_wait` at most.
    No attempt begins later than `retry_for` seconds after the first."""

    attempts: int = 10
    retry_for: float = 120.0
    first_wait: float = 0.1
    longest_wait: float = 10.0

    def wait(self, failed: int, rng: random.Random) -> float:
        """Seconds to wait after the `failed`-th attempt, counted from 1."""
        return rng.random() * min(self.longest_wait, self.first_wait * 2.0 ** min(failed - 1, 30))


# A machine without credentials would otherwise ask a metadata service that isn't there for minutes.
_FEW_ATTEMPTS = 3

SAY_AFTER_S, SAY_EVERY_S = 3.0, 10.0
"""A call that takes longer says that it is tried again, and why; all calls of a bucket together say it so often."""

log = logging.getLogger("firn")


@dataclass(frozen=True)
class Retrier:
    """Runs calls on the store and turns what is left of their failures into Firn's errors."""

    policy: RetryPolicy
    clock: Clock
    rng: random.Random
    secrets: Sequence[str] = ()
    _said: list[float] = field(default_factory=list, repr=False, compare=False)

    def run(
        self,
        call: Callable[[], T],
        *,
        verb: str,
        target: str,
        write: bool = False,
        refusal: Meaning | None = None,
        retry_for: float | None = None,
    ) -> T:
        """The result of the first attempt that succeeds.

        Args:
            call: one attempt; it counts its own requests.
            verb: what is done, for messages: "read", "write".
            target: the object's full name, for messages.
            write: True where an attempt without an answer may have changed the bucket.
            refusal: EXISTS or CHANGED, where that is how the store declines this call.
            retry_for: seconds, instead of the policy's.
        """
        limit = self.policy.retry_for if retry_for is None else retry_for
        began = self.clock.monotonic()
        doubt: Failure | None = None
        attempt = 0
        while True:
            attempt += 1
            try:
                return call()
            except FirnError:
                raise
            except Exception as error:
                failure = classify(error, self.secrets)
            if failure.meaning is refusal:
                raise _declined(refusal, target)
            if write and failure.meaning is Meaning.IN_DOUBT:
                doubt = failure
            if failure.meaning.retriable and attempt < self._attempts(failure):
                wait = self.policy.wait(attempt, self.rng)
                takes = self.clock.monotonic() - began + wait
                if takes <= limit:
                    if takes >= SAY_AFTER_S:
                        self._say(
                            f"{target}: cannot {verb} ({failure.reason}); trying again for up to {limit:.0f} s"
                        )
                    self.clock.sleep(wait)
                    continue
            # Raised outside the except block: the store's own error text must not show in a traceback.
            raise _final(failure, doubt, verb, target, attempt, write)

    def _say(self, text: str) -> None:
        now = self.clock.monotonic()
        if not self._said or now - self._said[-1] >= SAY_EVERY_S:
            self._said[:] = [now]
            log.warning(text)

    def _attempts(self, failure: Failure) -> int:
        if failure.meaning.lasting:
            return min(_FEW_ATTEMPTS, self.policy.attempts)
        return self.policy.attempts


def _declined(refusal: Meaning, target: str) -> FirnError:
    if refusal is Meaning.EXISTS:
        return ObjectExistsError(f"{target} exists already")
    return ObjectChangedError(f"{target} is not at the expected version: changed or deleted meanwhile")


def _final(
    failure: Failure, doubt: Failure | None, verb: str, target: str, attempts: int, write: bool
) -> FirnError:
    meaning, reason = failure.meaning, failure.reason
    tries = f"after {attempts} attempts" if attempts > 1 else "at the first attempt"
    if doubt is not None:
        return OutcomeUnknownError(
            f"{target}: a {verb} was sent and not answered ({doubt.reason}; last: {reason}; {tries}); "
            "it may or may not have happened, look before retrying"
        )
    if meaning is Meaning.MISSING and not write:
        return ObjectNotFoundError(f"{target} does not exist")
    if meaning in (Meaning.NO_BUCKET, Meaning.MISSING):
        return NotFoundError(f"{target}: the bucket does not exist; create it, or check its name ({reason})")
    if meaning is Meaning.UNSUPPORTED:
        return UnsupportedError(f"{target}: the store cannot {verb} this way ({reason})")
    if meaning is Meaning.DENIED:
        return AccessDeniedError(
            f"{target}: no permission to {verb} ({reason}); check the credentials' rights"
        )
    if meaning is Meaning.NO_CREDENTIALS:
        return AccessDeniedError(
            f"{target}: no credentials to {verb} with; set them in the environment or in the options"
        )
    if meaning is Meaning.UNREACHABLE:
        return StoreUnavailableError(f"{target}: cannot {verb} {tries} ({reason})")
    if meaning.retriable:
        return StoreUnavailableError(f"{target}: cannot {verb} {tries} ({reason}); retry later")
    return StoreUnavailableError(f"{target}: the store refused to {verb} ({reason})")
