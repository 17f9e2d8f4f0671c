"""Processes of the demo: started without losing a Ctrl-C, heard and told through pipes, ended whatever happens."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from firn.errors import FirnError, OutcomeUnknownError
from firn.spark.session.session import interrupt_later


class Worker:
    """A process that runs `work(pipe, *args)`. As a context manager it is ended with the block.

    What `work` raises is what is heard next; that the pipe has ended, as there is nobody any more, ends it silently.
    """

    def __init__(self, work: Callable[..., None], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=_run, args=(work, theirs, *args), daemon=True)
        resource_tracker.ensure_running()  # which lifts the mask below, if it is started there
        with interrupts_held_back():
            self.process.start()
        theirs.close()  # or its end would never be seen

    def hear(self) -> Any:
        """The next thing that it says.

        Raises:
            FirnError: what ended it.
            OutcomeUnknownError: somebody else ended it.
        """
        try:
            said = self._pipe.recv()
        except (EOFError, OSError):
            raise OutcomeUnknownError("a process of the demo was ended from outside.") from None
        if isinstance(said, FirnError):
            raise said
        return said

    def tell(self, word: Any) -> None:
        self._pipe.send(word)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.join()
        self._pipe.close()


def _run(work: Callable[..., None], pipe: Connection, *args: Any) -> None:
    try:
        work(pipe, *args)
    except (EOFError, BrokenPipeError):
        return
    except Exception as error:
        pipe.send(error if isinstance(error, FirnError) else FirnError(f"{type(error).__name__}: {error}"))


@contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Ctrl-C reaches the whole group of processes. Those that start here never see it, and leave it to this one
    to end them; what arrives meanwhile is answered afterwards: half a start would make the other half complain.
    """
    # A handler as well as a mask: another thread may get the signal, and this one then runs its handler.
    with interrupt_later():
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
