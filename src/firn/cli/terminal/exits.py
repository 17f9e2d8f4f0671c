"""Exit codes, for scripts: what the caller can do next. Shown by `firn --help` and in the reference pages."""

from __future__ import annotations

from firn.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    ConflictError,
    CorruptObjectError,
    FirnError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StoreError,
    UnsupportedError,
)

OK, UNEXPECTED, USAGE, NOT_FOUND, CONFLICT, UNKNOWN, STORE, UNREADABLE = range(8)
INTERRUPTED = 130

FOUND = 1
"""The code of fsck if the check was made, and found a problem."""

EXIT_CODES: tuple[tuple[int, str], ...] = (
    (OK, "done"),
    (UNEXPECTED, "something that Firn did not foresee; of fsck, a problem"),
    (USAGE, "wrong use: an option, a name, a predicate, a type; a name that is taken"),
    (NOT_FOUND, "no such table, object, file or version"),
    (CONFLICT, "somebody else was first, or holds the table's lock: retry"),
    (UNKNOWN, "it may or may not have happened: look before you retry"),
    (STORE, "the store refused or failed: access, network"),
    (UNREADABLE, "a corrupt object, or what this store or version can't do"),
    (INTERRUPTED, "interrupted by Ctrl-C"),
)
"""Frozen: scripts depend on them."""

_BY_ERROR: tuple[tuple[type[FirnError], int], ...] = (
    (InvalidInputError, USAGE),
    (AlreadyExistsError, USAGE),
    (NotFoundError, NOT_FOUND),
    (ConflictError, CONFLICT),
    (OutcomeUnknownError, UNKNOWN),
    (AccessDeniedError, STORE),
    (StoreError, STORE),
    (CorruptObjectError, UNREADABLE),
    (UnsupportedError, UNREADABLE),
)


def exit_code(error: FirnError) -> int:
    """The code by which the command line answers an error.

    >>> from firn.errors import LockHeldError, TableNotFoundError
    >>> exit_code(TableNotFoundError("…")), exit_code(LockHeldError("…"))
    (3, 4)
    """
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), UNEXPECTED)
