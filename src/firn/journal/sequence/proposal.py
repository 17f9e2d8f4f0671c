"""Commit (rules 13 and 16 to 19): the transactions that may go into the next record, and what became of it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from firn.errors import (
    FirnError,
    ObjectExistsError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StoreError,
)
from firn.journal.sequence.catalog import after_members
from firn.journal.sequence.codec import encode_record
from firn.journal.sequence.log import SequenceLog
from firn.journal.sequence.model import Catalog, Head, LogRecord, LogTransaction

LARGEST_BYTES: Final = 4 << 20
"""Bytes of bodies in one record, about: after these, the next transaction goes into another."""

ALL: Final = 1 << 62

PATIENT: Final = 8
"""Races that are lost before a commit stops to wait between them."""

WIDEST: Final = 16
"""Puts of a record that a commit waits for at most after a lost race."""

LONGEST_S: Final = 1.0
"""Seconds of that, at most."""

Outcome = int | Exception
"""The number of the record that a transaction is in, or why it is in none."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The state that a transaction is validated against: the end of the log with its definitions (rule 16), the
    records that it hasn't seen, and those that are to be in the same record before it (rule 15). `shared` holds
    what the proposals of one record find out for each other."""

    head: Head
    since: Sequence[LogRecord]
    earlier: Sequence[LogTransaction]
    shared: dict[str, Any] = field(default_factory=dict)

    @property
    def catalog(self) -> Catalog:
        """The definitions that a transaction is judged by: those after all that comes before it."""
        return after_members(self.head.catalog, self.earlier, self.head.number + 1)


class Proposal(Protocol):
    """A transaction that wants into the log."""

    @property
    def txid(self) -> str: ...

    @property
    def snapshot(self) -> int: ...

    def admit(self, moment: Moment) -> LogTransaction:
        """The writes to commit now. Called at each attempt anew.

        Raises:
            FirnError: it may not be committed; it won't be tried again.
        """
        ...


def commit(log: SequenceLog, proposals: Sequence[Proposal]) -> dict[str, Outcome]:
    """Commit transactions in as few records as conflicts allow, mostly one. Returns each outcome, by its txid.

    1 PUT, and 1 GET for the horizon if nobody has asked for it within R; a conflict: as `refresh`, and again; after
    several of them a wait, of a second at most, before that.
    An outcome is an `OutcomeUnknownError` only if the store failed for so long that the record may yet land.
    """
    outcomes: dict[str, Outcome] = {}
    sent: LogRecord | None = None
    races = _Races(log)
    waiting = list(proposals)
    while waiting:
        try:
            head = log.head()
            group = _admitted(log, waiting, head, sent, outcomes)
            if group:
                record = log.next_record(head, group)
                began_s = log.now_s()
                try:
                    sent_s = _put(log, record)
                except OutcomeUnknownError:
                    sent = record
                    raise
                sent = record
                if sent_s is not None and _counts(log, head, record):
                    log.advance(record, sent_s)
                    outcomes.update((member.txid, record.number) for member in group)
                    log.put_s = log.now_s() - began_s
                else:
                    races.lost()
                    # All records since the snapshot are needed to judge by, however far behind this is.
                    log.refresh(taken=0 if sent_s is not None else record.number, far=ALL)
        except (StoreError, OutcomeUnknownError) as error:
            for proposal in waiting:
                outcomes.setdefault(proposal.txid, _settled(log, proposal.txid, sent, error))
        waiting = [proposal for proposal in waiting if proposal.txid not in outcomes]
    return outcomes


class _Races:
    """The races for a number that one commit has lost. After the first it goes on at once. From the second one on it
    waits before that, for as long as some puts take, by lot: else all who lost come back together, and of n puts
    of a record one counts. After many it waits no longer, so that nobody is always the last."""

    def __init__(self, log: SequenceLog) -> None:
        self._log = log
        self._lost = 0

    def lost(self) -> None:
        self._lost += 1
        if 1 < self._lost <= PATIENT:
            puts = min(2 ** (self._lost - 1), WIDEST)
            self._log.store.clock.sleep(random.random() * min(puts * self._log.put_s, LONGEST_S))


def _admitted(
    log: SequenceLog,
    waiting: Sequence[Proposal],
    head: Head,
    sent: LogRecord | None,
    outcomes: dict[str, Outcome],
) -> list[LogTransaction]:
    """The transactions that pass validation after the log and after one another, as far as they fit in a record;
    the outcomes of the others are noted."""
    group: list[LogTransaction] = []
    shared: dict[str, Any] = {}
    size = 0
    for proposal in waiting:
        if size >= LARGEST_BYTES:
            break
        try:
            since = log.records(proposal.snapshot, head.number)
            landed = find(proposal.txid, since)
            if landed is not None:
                log.own(landed)
                outcomes[proposal.txid] = landed
            else:
                group.append(proposal.admit(Moment(head, since, tuple(group), shared)))
                size += sum(len(write.body or b"") for write in group[-1].writes)
        except (StoreError, OutcomeUnknownError):
            raise
        except SnapshotTooOldError as error:
            outcomes[proposal.txid] = _settled(log, proposal.txid, sent, error)
        except Exception as error:
            outcomes[proposal.txid] = error
    return group


def find(txid: str, records: Iterable[LogRecord]) -> int | None:
    """The number of the record that a transaction is in (rule 13)."""
    return next((r.number for r in records if any(member.txid == txid for member in r.group)), None)


def _put(log: SequenceLog, record: LogRecord) -> float | None:
    """Put it, at the same number until that is taken (rule 18). When it was first sent; None: somebody has the
    number, maybe this record by a request that was never answered. The log then tells.

    Raises:
        OutcomeUnknownError: it may land yet. Any other error: it won't.
    """
    store, key, data = log.store, log.store.layout.record_key(record.number), encode_record(record)
    sent_s, backoff = log.now_s(), store.backoff()
    unanswered: OutcomeUnknownError | None = None
    while True:
        try:
            store.bucket.put_if_absent(key, data)
            return sent_s
        except ObjectExistsError:
            return None
        except OutcomeUnknownError as error:
            unanswered = error
        except StoreError:
            if unanswered is None:
                raise
        if not backoff.wait():
            raise unanswered


def _counts(log: SequenceLog, head: Head, record: LogRecord) -> bool:
    """Whether the log wasn't truncated beyond a record that was put (rule 17). If it was, the object is no record and
    goes; the record may be in a pack."""
    if not log.is_ghost(head, record.number):
        return True
    log.store.bucket.delete(log.store.layout.record_key(record.number))
    return False


def _settled(log: SequenceLog, txid: str, sent: LogRecord | None, error: FirnError) -> Outcome:
    """The outcome of a transaction that can't go on (rule 19): a failure is reported only if the last record that
    it was sent in is known to be another's."""
    if sent is None or find(txid, [sent]) is None:
        return error
    try:
        log.refresh()
        there = log.records(sent.number - 1, sent.number) if log.head().number >= sent.number else []
    except FirnError:
        there = []
    if there:
        return find(txid, there) or error
    return OutcomeUnknownError(
        f"{log.store.bucket.uri(log.store.layout.record_key(sent.number))}: this commit was sent, and whether it "
        f"landed can't be told ({error}). It may be there, now or within minutes: look before retrying."
    )
