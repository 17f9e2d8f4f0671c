"""The writer: open (rules 1 to 3), flush (4 and 5), acknowledge (6 and 7)."""

from __future__ import annotations

from firn.errors import UnsupportedError
from firn.journal.manifest.model import View


class WriterSession:
    """The right to write a table, until another writer opens it. Safe to use from several threads.

    `epoch`: this writer's. `start`: its first L0 number. After a `FencedError` every method raises it.
    """

    epoch: int
    start: int

    @property
    def view(self) -> View:
        """The table as this writer knows it: the last manifest it has seen and all its own flushes that are up
        without a gap. No request."""
        raise UnsupportedError("not yet")

    @property
    def next_number(self) -> int:
        """The lowest number that no `put_l0` was called for; `start` at first."""
        raise UnsupportedError("not yet")

    @property
    def fenced(self) -> bool:
        """Whether this writer knows that it may write no more. No request."""
        raise UnsupportedError("not yet")

    def put_l0(self, number: int, data: bytes) -> None:
        """Put flush `number` up (rules 4 and 5). Several may be in flight, in any order; a number is put again with the
        same bytes until it is up.

        Raises:
            FencedError: another writer has put a fence there. This flush will never be seen.
            StoreError, OutcomeUnknownError: it may or may not be there; call again with the same number and bytes.
        """
        raise UnsupportedError("not yet")

    def confirm(self, number: int) -> None:
        """Return as soon as flush `number` may be acknowledged (rules 6 and 7): all lower numbers of this writer are
        up, and the pointer was seen to name this writer last, begun less than `poll_max_s` ago; in strict mode begun
        after the flush was up. 0 or 1 GET.

        Raises:
            FencedError: another writer is last. What wasn't acknowledged has an unknown outcome.
        """
        raise UnsupportedError("not yet")

    def poll(self) -> View | None:
        """Look at the pointer: a view if there is a newer manifest than in the last one, else None. 1 GET, and 1 a
        manifest of the chain that is new.

        Raises:
            FencedError: another writer is last.
        """
        raise UnsupportedError("not yet")
