"""Read ahead: the next tables are fetched and decoded while the present one is worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


class _End:
    """The reading thread's last item: its error, if it had one."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


def ahead(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """The items in order, made by a thread of their own that is at most `depth` items ahead.

    An error of the thread is raised here, after the items before it. Closing the iterator ends the thread.

    >>> list(ahead(range(3)))
    [0, 1, 2]
    """
    waiting: queue.Queue[T | _End] = queue.Queue(depth)
    stop = threading.Event()

    def run() -> None:
        error: BaseException | None = None
        try:
            for item in items:
                waiting.put(item)
                if stop.is_set():
                    break
        except BaseException as raised:
            error = raised
        waiting.put(_End(error))

    thread = threading.Thread(target=run, name="firn-ahead", daemon=True)
    thread.start()
    try:
        while not isinstance(item := waiting.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        stop.set()
        while thread.is_alive():
            try:
                waiting.get(timeout=0.01)
            except queue.Empty:
                continue
        thread.join()
