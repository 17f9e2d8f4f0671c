"""obstore's threads: one runtime a process, begun by its first request, which a forked child hasn't got."""

from __future__ import annotations

from firn.concurrency.forked import after_fork
from firn.errors import UnsupportedError

_begun = False
_lost = False


def use(root: str) -> None:
    """Say that a request is made to a store on the network. Called before each: it costs an attribute.

    Raises:
        UnsupportedError: the process was forked from one that had made requests, so that it would wait for ever.
    """
    global _begun
    if _lost:
        raise UnsupportedError(
            f"{root} can't be reached from this process: it was forked from one that had made requests already, "
            "and the threads that make them aren't copied. Start children by "
            "multiprocessing.get_context('spawn') or 'forkserver', or fork before the first request."
        )
    _begun = True


def begin() -> None:
    """Say that the threads were begun by a store that needs none of them, like memory."""
    global _begun
    _begun = True


def _in_child() -> None:
    global _lost
    _lost = _begun


after_fork(_in_child)
