"""Rows that don't fit into memory: a directory of a connection's own."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

from firn.arrow.connections import close_spilling
from firn.concurrency.at_exit import unclosed
from firn.concurrency.once import Once
from firn.errors import DatabaseClosedError, InvalidInputError


class SpillDirectory:
    """A directory of this connection's own below `parent`, of mode 0700, for rows that don't fit into memory. It is
    made when a query first needs it, and removed by `close`, or with the process. A killed process leaves it.

    Args:
        owner: the connection's engines, which close it.

    Raises:
        InvalidInputError: `parent` is no directory, and can't become one; when it is first needed.
        DatabaseClosedError: it is needed after `close`: what it would put there, nobody would remove.
    """

    def __init__(self, parent: str | os.PathLike[str], owner: object = None) -> None:
        self._parent, self.owner = Path(parent).expanduser().absolute(), owner
        self._made = Once(self._make)
        self._closed = False
        self._removal: weakref.finalize[..., SpillDirectory] | None = None
        unclosed.add(self)

    def path(self) -> str:
        if self._closed:
            raise DatabaseClosedError(
                f"the connection that spills to {self._parent} is closed: connect again."
            )
        return self._made()

    def close(self) -> None:
        self._closed = True
        if self._removal is not None:
            self._removal()

    _close_at_exit = close

    def _orphaned(self) -> None:
        """In a fork: the directory is its parent's."""
        if self._removal is not None:
            self._removal.detach()
        self._made = Once(self._make)

    def _make(self) -> str:
        try:
            self._parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = tempfile.mkdtemp(prefix="firn-", dir=self._parent)
        except OSError as error:
            reason = error.strerror or error
            raise InvalidInputError(f"nothing can be spilled to {self._parent}: {reason}.") from None
        self._removal = weakref.finalize(self, _remove, path)
        return path


def _remove(path: str) -> None:
    close_spilling(path)
    shutil.rmtree(path, ignore_errors=True)
