"""The contents of one object, and how values are put into words; shared by all decoders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from firn.errors import FirnError

Read = Callable[[int, int], bytes]
"""(start, length) → bytes."""

SHOWN_BYTES = 256


@dataclass
class Decoded:
    """The finds so far; decoders add to it and never raise."""

    kind: str = "bytes"
    fields: dict[str, Any] = field(default_factory=dict)
    sections: dict[str, list[Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def judge(self, read: Callable[[], object]) -> None:
        """Add what a reader says to it: nothing here is refused."""
        try:
            read()
        except FirnError as error:
            self.problems.append(f"readers refuse it: {error}")
        except Exception as error:
            self.problems.append(f"readers fail on it: {error!r}")


def when(ms: Any) -> str:
    """Unix milliseconds as a time, the number beside it.

    >>> when(1795224444056), when("soon")
    ('1795224444056 (2026-11-21 01:27:24.056 UTC)', "'soon'")
    """
    if type(ms) is not int or not 0 <= ms < 253402300800000:
        return repr(ms)
    return f"{ms} ({moment(ms)})"


def moment(ms: int) -> str:
    """
    >>> moment(1795224444056)
    '2026-11-21 01:27:24.056 UTC'
    """
    return f"{datetime.fromtimestamp(ms / 1000, timezone.utc):%Y-%m-%d %H:%M:%S}.{ms % 1000:03d} UTC"


def excerpt(data: bytes) -> str:
    """The beginning of bytes that should be text."""
    return data[:SHOWN_BYTES].decode(errors="backslashreplace")
