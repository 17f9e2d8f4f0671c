"""How an operation that is struck at one of its requests ended, as whoever called it knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from firn.errors import FirnError, OutcomeUnknownError


class Outcome:
    """`ended`: "done"; "failed" or "unknown" by its error; "crashed" where nobody was told."""

    def __init__(self) -> None:
        self.ended = ""

    @contextmanager
    def told(self) -> Iterator[None]:
        self.ended = "crashed"
        try:
            yield
            self.ended = "done"
        except OutcomeUnknownError:
            self.ended = "unknown"
            raise
        except FirnError:
            self.ended = "failed"
            raise
