"""Say once that an answer leaves something out: as a Python warning and as a line of the log."""

from __future__ import annotations

import logging
import warnings
from threading import Lock

from firn.errors import DegradedReadWarning

_log = logging.getLogger("firn")
_log.addHandler(logging.NullHandler())  # a program without logs sees the warning, and not both
_lock = Lock()
_said: set[tuple[str, str]] = set()


def warn_degraded(table: str, message: str) -> None:
    """Warn that reads of `table` (its URI) leave something out, or show it aside. Once a message and process.

    The message names the object, says what happened and which verb mends it. The same text belongs into
    `explain()`, so that it is seen where the warning was not.
    """
    with _lock:
        if (table, message) in _said:
            return
        _said.add((table, message))
    _log.warning("%s: %s", table, message)
    warnings.warn(f"{table}: {message}", DegradedReadWarning, stacklevel=3)


def forget_warnings() -> None:
    """Say everything again. Tests call it, so that none depends on those before it."""
    with _lock:
        _said.clear()
