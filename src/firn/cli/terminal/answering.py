"""How a command's errors and Ctrl-C are answered, by messages and exit codes. Loads no parser of the command line."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from firn.cli.terminal import output
from firn.cli.terminal.exits import INTERRUPTED, OK, UNEXPECTED, exit_code
from firn.errors import FirnError


class _Warns(logging.Handler):
    """Prints what the library logs: that a request is tried again, that an answer leaves something out."""

    def emit(self, record: logging.LogRecord) -> None:
        output.warn(record.getMessage())


@contextmanager
def printing() -> Iterator[None]:
    """Settle how the block prints, and print what the library logs meanwhile."""
    output.settle_encoding()
    log = logging.getLogger("firn")
    warns = _Warns(logging.WARNING)
    log.addHandler(warns)
    try:
        yield
    finally:
        log.removeHandler(warns)


def ended(
    work: Callable[[], object], *, json: bool, passed_on: tuple[type[BaseException], ...] = ()
) -> int | None:
    """Run a command: the exit code that an error makes, whose message is printed, and None for the usual end.

    Args:
        json: whether messages are documents.
        passed_on: what is the caller's to answer.
    """
    try:
        work()
    except FirnError as error:
        return failed(error.kind, str(error), exit_code(error), json)
    except KeyboardInterrupt:
        return failed("interrupted", "interrupted", INTERRUPTED, json)
    except BrokenPipeError:
        # The reader of the answer, like `head`, has enough: nothing is left to be said, or flushed at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except passed_on:
        raise
    except Exception as error:
        if os.environ.get("FIRN_TRACEBACK"):
            raise
        text = f"unexpected {type(error).__name__}: {error} (FIRN_TRACEBACK=1 shows where)"
        return failed("unexpected", text, UNEXPECTED, json)
    return None


def failed(kind: str, message: str, code: int, json: bool) -> int:
    """Print what went wrong, and give its code."""
    if json:
        output.document({"error": {"kind": kind, "message": message}})
    else:
        output.error(message)
    return code
