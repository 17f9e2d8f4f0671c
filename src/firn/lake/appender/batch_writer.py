"""Commits one batch after the other, each exactly once as long as the process lives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from firn.concurrency.background import log, pauses
from firn.errors import AppendExpiredError, FirnError, InvalidInputError, OutcomeUnknownError, StoreError
from firn.journal.model import AppendTicket, ColumnTypes, Namer
from firn.lake.appender.batches import Batch, Row, grouped
from firn.lake.context import LakeContext
from firn.lake.write.append import check_rows, commit_of, publish, write
from firn.names import fold

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
                self._again(error, next(after_failure))
            else:
                self.last_error = None
                if self._table.definition.keeps_itself:
                    self._table.engines.appended(self._table)
                return version
        return None

    def _attempt(self, batch: Batch) -> str:
        table, journal = self._table, self._table.journal
        if batch.id is not None and (seen := journal.seen_batch(batch.id)) is not None:
            return seen
        ticket = journal.begin_append()
        try:
            rows = typed(batch.rows, journal.known().columns)
            written, _ = write(table, rows, ticket.namer, inline=True)
        except InvalidInputError:
            if self._on_reject is None or not self._sift(batch, ticket.namer, self._on_reject):
                raise
            raise _StartOver from None
        try:
            return publish(table, ticket, commit_of(table, written, batch_id=batch.id))
        except OutcomeUnknownError as error:
            if (version := self._settled(ticket, error)) is None:
                raise _StartOver from None
            return version

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

    def _sift(self, batch: Batch, namer: Namer, reject: OnReject) -> bool:
        """Take the rows that don't fit out of the batch, and hand them over; whether there were any. They are found
        by halving, without a commit: so one batch stays one commit, under one id. Rows that don't fit together are
        judged in order: the first ones stay. At most 1 LIST, and newer logs."""
        table, journal = self._table, self._table.journal
        known = journal.known(since=journal.moment())
        fitting: list[Row] = []
        rejected: list[tuple[Row, Exception]] = []
        parts = [batch.rows]
        while parts:
            part = parts.pop()
            try:
                known = check_rows(table, known, typed(part, known.columns), namer)
            except InvalidInputError as error:
                if len(part) == 1:
                    rejected.append((part[0], error))
                else:
                    half = len(part) // 2
                    parts += [part[half:], part[:half]]
            else:
                fitting += part
        for rows, why in grouped(rejected):
            reject(rows, why)
        batch.rows = fitting
        batch.rejected += rejected
        return bool(rejected)


def typed(rows: Sequence[Row], known: ColumnTypes) -> Sequence[Mapping[str, Any]]:
    """The rows without columns that the table lacks and none of them has a value in: nothing tells their type, and
    rows that lack them read the same.

    >>> typed([{"n": 1, "m": None}], {"n": "BIGINT"})
    [{'n': 1}]
    """
    names = set(map(fold, known))
    new = {name for name in set().union(*rows) if not isinstance(name, str) or fold(name) not in names}
    untyped = {name for name in new if all(row.get(name) is None for row in rows)}
    if not untyped:
        return rows
    return [{name: value for name, value in row.items() if name not in untyped} for row in rows]
