"""One tree of errors, grouped by what the caller can do about them.

    FirnError
      InvalidInputError      fix the call: a bad name, predicate, type or option
        SchemaConflictError  fix the data, or widen the table
        CheckFailedError     fix the row, or change the table's check
        CardinalityError     make the source's rows unique
        NoSuchVerbError      use another verb, or a table of another kind
      NotFoundError          name something that exists
        TableNotFoundError, ObjectNotFoundError, NoSuchKeyError, SnapshotTooOldError
      AlreadyExistsError     choose another name
        TableExistsError, ObjectExistsError, DuplicateKeyError
      ConflictError          nothing was changed: read again and retry
        ObjectChangedError, LockHeldError, LockLostError, AppendExpiredError,
        HandleClosedError, ForkError, FencedError, StaleObjectError, ObjectLockedError,
        TransactionTimedOutError, TransactionClosedError, DatabaseClosedError
      OutcomeUnknownError    it may or may not have happened: look before retrying
      StoreError             the bucket failed: retry later, or mend access
        AccessDeniedError, StoreUnavailableError
        BackPressureError    the row wasn't taken: add it again later
      AppenderError          rows weren't committed: mend the cause, and add them to another appender
      CorruptObjectError     an object's bytes are not what Firn wrote
      UnsupportedError       this store, format version or engine can't do it
        QueryTooLargeError   raise the limit, let it spill, or use Spark

    DegradedReadWarning      a warning: an answer leaves something out, or shows it aside

Every message names the object, says what happened and what to do. `kind` is a stable, machine-readable
name of the class (the command line prints it with ``--json``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class FirnError(Exception):
    """Base of all errors that Firn raises on purpose."""

    kind: ClassVar[str] = "firn"

    def __init_subclass__(cls) -> None:
        name = cls.__name__.removesuffix("Error")
        cls.kind = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


class InvalidInputError(FirnError, ValueError):
    """The call itself is wrong; nothing was read or written because of it."""


class SchemaConflictError(InvalidInputError):
    """Two types for one column that no widening joins."""


class CheckFailedError(InvalidInputError):
    """A row fails a check of its table; nothing of its append is visible. `row` is one that does, as a dict."""

    row: dict[str, Any]

    @staticmethod
    def of(message: str, row: dict[str, Any]) -> CheckFailedError:
        error = CheckFailedError(message)
        error.row = row  # an error's dict is pickled, its arguments are not more than the message
        return error


class CardinalityError(InvalidInputError):
    """Two rows of a source would change one row of a table."""


class NoSuchVerbError(InvalidInputError, AttributeError):
    """Tables of this kind don't have that verb. Also an `AttributeError`, so that `hasattr` says no."""


class NotFoundError(FirnError, LookupError):
    """What was named doesn't exist."""


class TableNotFoundError(NotFoundError):
    """No table of that name in the database."""


class ObjectNotFoundError(NotFoundError):
    """No object under that key."""


class NoSuchKeyError(NotFoundError, KeyError):
    """No row of that id in a record table, as far as the transaction sees. Also a `KeyError`."""

    # KeyError would show the message in quotes.
    __str__ = Exception.__str__


class SnapshotTooOldError(NotFoundError):
    """The version is older than what sweep has kept."""


class AlreadyExistsError(FirnError):
    """The name is taken."""


class TableExistsError(AlreadyExistsError):
    """A table of that name exists."""


class ObjectExistsError(AlreadyExistsError):
    """put_if_absent found an object."""


class DuplicateKeyError(AlreadyExistsError):
    """A row of that id, or with that value of a unique index, is there."""


class ConflictError(FirnError):
    """Somebody else was first; nothing of this call is visible."""


class ObjectChangedError(ConflictError):
    """put_if_match found another version, or none."""


class LockHeldError(ConflictError):
    """Another maintenance job holds the table's lock."""


class LockLostError(ConflictError):
    """The table's lock was taken over; what this job prepared will never be visible."""


class AppendExpiredError(ConflictError):
    """The append or change took so long that sweep might have removed its first files; start it over."""


class HandleClosedError(ConflictError):
    """Another process has committed under this writer's id; open the catalog again to go on from there."""


class ForkError(ConflictError):
    """Two processes have committed one revision under one writer's id.

    A commit that ends so is not acknowledged, and nobody sees it unless the fork is decided in its favour.
    """


class FencedError(ConflictError):
    """Another writer has opened the keyed table since. Nothing is written or read here any more: open it again."""


class StaleObjectError(ConflictError):
    """A row was changed or deleted by somebody else since this transaction, or the ETag's owner, saw it.

    `current` is the row as it is now, None if it was deleted. Of a conflict that concerns no single row, as
    ``serializable=True`` may find, it is None too. `lasting` says that beginning again won't help: the ETag that was
    given is of the past.
    """

    def __init__(self, message: str = "", current: Any = None, *, lasting: bool = False) -> None:
        super().__init__(message)
        self.current = current
        self.lasting = lasting


class ObjectLockedError(ConflictError):
    """Another transaction holds the row's advisory lock. Wait for it, or go on with another row."""


class TransactionTimedOutError(ConflictError):
    """The transaction took longer than its timeout: it was rolled back. Begin another."""


class TransactionClosedError(ConflictError):
    """The transaction was committed or rolled back already. Begin another."""


class DatabaseClosedError(ConflictError):
    """The connection was closed. Connect again."""


class OutcomeUnknownError(FirnError):
    """A commit was sent and no answer came: it may be there, now or within a few minutes."""

    sent: tuple[int, str] | None = None
    """The revision and uuid of a transaction of a writer's catalog that was sent."""


class StoreError(FirnError):
    """The object store refused or failed."""


class AccessDeniedError(StoreError):
    """Missing or insufficient credentials."""


class StoreUnavailableError(StoreError):
    """Still failing after all retries; known not to have happened."""


class BackPressureError(StoreError):
    """An appender has as many unsent rows as it may, and none was sent in time. The row wasn't taken: add it
    again."""


class AppenderError(FirnError):
    """An appender has failed, or was ended before all of its rows were committed. `unsent` are the rows that aren't
    known to be committed, in order; `__cause__` is why."""

    unsent: Sequence[Mapping[str, Any]] = ()

    @staticmethod
    def of(message: str, unsent: Sequence[Mapping[str, Any]]) -> AppenderError:
        error = AppenderError(message)
        error.unsent = unsent
        return error


class CorruptObjectError(FirnError):
    """An object can't be decoded, or its checksum is wrong."""


class UnsupportedError(FirnError):
    """Neither this store, nor this version of Firn, nor this engine can do it."""


class QueryTooLargeError(UnsupportedError):
    """A query would read more bytes, or take more memory, than it may in this process."""


class DegradedReadWarning(UserWarning):
    """An answer leaves something out, or shows it aside: the message names the object and the verb that mends it.

    It comes once a table and process, through `warnings` and the logger ``firn``.
    """
