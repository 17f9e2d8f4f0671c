"""A thread that does one thing again and again: looks at a pointer, compacts, applies commits."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator

from firn.errors import OutcomeUnknownError, StoreUnavailableError

TRANSIENT = (StoreUnavailableError, OutcomeUnknownError)
"""Errors that another try may mend."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 60.0

log = logging.getLogger("firn")


def pauses(first: float, longest: float) -> Iterator[float]:
    """Seconds to wait after each try that failed: ever more, up to `longest`, with jitter."""
    while True:
        yield first * (0.5 + random.random() / 2)
        first = min(longest, 2 * first)


class Background:
    """Calls `work` when its time has come or somebody pokes, until it is stopped.

    A transient error of the store is waited out, with rising pauses and jitter; any other one goes to `failed`, and
    the thread ends.

    Args:
        work: returns the seconds until it wants to be called again; None: when poked.
        failed: called with what no further try would mend.
        first: seconds until the first call; None: when poked.
        wake: set by others to have it called soon, as `poke` does.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], float | None],
        failed: Callable[[BaseException], None],
        *,
        first: float | None,
        wake: threading.Event | None = None,
    ) -> None:
        self._name, self._work, self._failed, self._first = name, work, failed, first
        self._wake = threading.Event() if wake is None else wake
        self._stopped = False
        self.last_error: BaseException | None = None
        """The error of the last call; None if it went well."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def poke(self) -> None:
        """Have it called soon."""
        self._wake.set()

    def stop(self, timeout: float | None = None) -> None:
        """End it; a call under way is waited for."""
        self._stopped = True
        self._wake.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        pause, after_failure = self._first, pauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            self._wake.wait(None if pause is None else min(pause, threading.TIMEOUT_MAX))
            self._wake.clear()
            if self._stopped:
                return
            try:
                pause, self.last_error = self._work(), None
                after_failure = pauses(_FIRST_PAUSE, _LONGEST_PAUSE)
            except TRANSIENT as error:
                self.last_error = error
                pause = next(after_failure)
                log.warning("%s failed, trying again in %.1f s: %s", self._name, pause, error)
            except BaseException as error:  # a thread that ends in silence would look like one that idles
                self.last_error = error
                self._failed(error)
                return
