"""Commits one batch after the other, each exactly once as long as the process lives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from firn.concurrency.background import log, pauses
from firn.errors import AppendExpiredError, FirnError, InvalidInputError, OutcomeUnknownError, StoreError
from firn.journal.model import AppendTicket, Namer
from firn.lake.appender.batches import Batch, Row, grouped
from firn.lake.appender.together import joined, together
from firn.lake.context import LakeContext
from firn.lake.write.append import check_rows, commit_of, publish, write

if TYPE_CHECKING:
    import pyarrow as pa

RETRIED = (StoreError, OutcomeUnknownError, AppendExpiredError)
"""Errors that another try may mend."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 30.0

OnRetry = Callable[[FirnError], object]
OnReject = Callable[[Sequence[Row], Exception], object]


class _StartOver(Exception):
    """The batch isn't there and never will be, or has fewer rows now."""


class BatchWriter:
    """Appends batches to a table, and tries for ever where the store fails.

    Without an id a batch is one PUT. If that isn't answered, the journal finds out what became of it before the rows
    are appended under another name. With an id another append of it is a no-op, whoever makes it.

    Args:
        wait: waits so many seconds; what it raises ends the batch.
    """

    def __init__(
        self,
        table: LakeContext,
        *,
        wait: Callable[[float], object],
        on_retry: OnRetry | None = None,
        on_reject: OnReject | None = None,
    ) -> None:
        self._table, self._wait = table, wait
        self._on_retry, self._on_reject = on_retry, on_reject
        self.retries = 0
        self.last_error: FirnError | None = None
        """The error of the last try; None if it went well."""

    def write(self, batch: Batch) -> str | None:
        """Commit the rows that fit; the version, None if none does.

        Raises:
            InvalidInputError: rows don't fit, and nobody takes what is rejected; nothing was committed.
            FirnError: any that no further try would mend.
        """
        after_failure = pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while batch.rows:
            try:
                version = self._attempt(batch)
            except _StartOver:
                continue
            except RETRIED as error:
                batch.joined = None  # others may alter the table meanwhile
                self._again(error, next(after_failure))
            else:
                self.last_error = None
                return version
        return None

    def _attempt(self, batch: Batch) -> str:
        table, journal = self._table, self._table.journal
        if batch.id is not None and (seen := journal.seen_batch(batch.id)) is not None:
            self._continue(batch)
            return seen
        ticket = journal.begin_append()
        try:
            rows = together(batch.rows, journal.known()) if batch.joined is None else batch.joined
            written, _ = write(table, rows, ticket.namer, inline=True)
        except Exception as error:
            if not _blames(error) or not self._sift(batch, ticket.namer):
                raise
            raise _StartOver from None
        counted = batch.counted if batch.tells else None
        commit = commit_of(table, written, batch_id=batch.id, counted=counted)
        version: str | None
        try:
            version = publish(table, ticket, commit)
        except OutcomeUnknownError as error:
            version = self._settled(ticket, error)
        if version is None:
            batch.joined = None
            raise _StartOver
        if ticket.duplicate:
            self._continue(batch)
        return version

    def _continue(self, batch: Batch) -> None:
        """Go on with the rows behind those that are there, if the batch was shorter when it was appended: its
        appender was closed before its source had ended, or the source has grown. At most 1 GET.

        Raises:
            InvalidInputError: its appender counted otherwise.
        """
        mine = batch.counted
        if mine is None or batch.id is None:
            return
        there = self._table.journal.counted_batch(batch.id)
        if there is None or there.rows == mine.rows:
            return
        if there.whole != mine.whole:
            raise InvalidInputError(
                f"{self._table.name}: the batch {batch.id!r} was appended by an appender with rows={there.whole}, "
                f"and this one has rows={mine.whole}: the source's batches would be other ones, and rows be lost or "
                f"doubled. Open it with rows={there.whole}."
            )
        if there.rows < mine.rows:
            batch.begin_behind(there.rows)
            raise _StartOver

    def _settled(self, ticket: AppendTicket, error: FirnError) -> str | None:
        """What became of a commit that wasn't answered, however long it takes to find out."""
        after_failure = pauses(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            self._again(error, next(after_failure))
            try:
                return ticket.settle(self._wait)
            except (OutcomeUnknownError, StoreError) as unsettled:
                error = unsettled

    def _again(self, error: FirnError, pause: float) -> None:
        self.retries += 1
        self.last_error = error
        if self._on_retry is None:
            log.warning("appender of %s: trying again in %.1f s: %s", self._table.name, pause, error)
        else:
            self._on_retry(error)
        self._wait(pause)

    def _sift(self, batch: Batch, namer: Namer) -> bool:
        """Take the rows that don't fit out of the batch, and hand them over; whether another try may go well. They
        are found by halving, without a commit: so one batch stays one commit, under one id. Rows that don't fit
        together are judged in order: the first ones stay. Those that fit one after the other, but make no list of
        one type, like a float and a `Decimal`, are joined. At most 1 LIST, and newer logs."""
        table, journal = self._table, self._table.journal
        known = journal.known(since=journal.moment())
        fitting: list[Row] = []
        tables: list[pa.Table] = []
        rejected: list[tuple[Row, Exception]] = []
        parts = [batch.rows]
        while parts:
            part = parts.pop()
            try:
                known, taken = check_rows(table, known, together(part, known), namer)
            except Exception as error:
                if not _blames(error):
                    raise
                if len(part) == 1 and self._on_reject is None:
                    return False
                if len(part) == 1:
                    rejected.append((part[0], self._refusal(error)))
                else:
                    half = len(part) // 2
                    parts += [part[half:], part[:half]]
            else:
                fitting += part
                tables.append(taken)
        if not rejected and batch.joined is not None:
            return False
        if self._on_reject is not None:
            for rows, why in grouped(rejected):
                self._on_reject(rows, why)
        batch.whole, batch.rows = batch.source, fitting
        batch.rejected += rejected
        batch.joined = joined(tables, known.columns) if tables else None
        return True

    def _refusal(self, error: Exception) -> Exception:
        """Why a row is rejected."""
        if isinstance(error, InvalidInputError):
            return error
        refusal = InvalidInputError(
            f"{self._table.name}: a value of the row can't be converted ({type(error).__name__}: {error})."
        )
        refusal.__cause__ = error
        return refusal


def _blames(error: Exception) -> bool:
    """Whether an error is one of the rows: of what they hold, or any that their values raise when converted."""
    return isinstance(error, InvalidInputError) or not isinstance(error, FirnError | MemoryError)
