"""Appenders that go on beside something else, and how many of their appends fail."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

Append = Callable[[], object]


@contextmanager
def appending(appenders: Sequence[Iterator[Append]]) -> Iterator[Counter[str]]:
    """Run each in a thread of its own while the body runs; counts its `appends`, and the `failed` ones."""
    ended, counts = threading.Event(), Counter[str]()

    def on(appends: Iterator[Append]) -> None:
        for append in appends:
            if ended.is_set():
                return
            try:
                append()
                counts["appends"] += 1
            except Exception:  # whatever the engine calls a conflict
                counts["failed"] += 1

    with ThreadPoolExecutor(len(appenders)) as pool:
        for appends in appenders:
            pool.submit(on, appends)
        try:
            yield counts
        finally:
            ended.set()
