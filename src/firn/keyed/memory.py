"""Memory that a writer doesn't need any more goes back to the system.

Memtables are made by one thread and let go by others, and so is what flushes and compactions hold. The C library and
Arrow keep all of that for later, in pools of each thread, where it would add up to several times what is in use.
"""

from __future__ import annotations

import ctypes
import threading
from functools import lru_cache
from typing import Any

import pyarrow as pa

EVERY_BYTES = 32 << 20
"""How much is let go before it is given back: it takes milliseconds."""


def release() -> None:
    """Return to the system what Arrow keeps for this thread, which is all that a thread can."""
    pa.default_memory_pool().release_unused()


def give_back() -> None:
    """Return to the system what is free: of Arrow's memory this thread's, of the C library's all."""
    release()
    trim = _trim()
    if trim is not None:
        trim(0)


class LetGo:
    """Counts what is let go, and gives it back every now and then. Safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0

    def add(self, size: int) -> None:
        """So many bytes aren't needed any more."""
        with self._lock:
            self._bytes += size
            if self._bytes < EVERY_BYTES:
                return
            self._bytes = 0
        give_back()


@lru_cache(maxsize=1)
def _trim() -> Any:
    """`malloc_trim` of the C library, where it is glibc's."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
