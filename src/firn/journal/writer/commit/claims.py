"""The discipline of claims, where the store has put-if-absent (rules 14 to 17): no forks at all.

The process that creates `claims/<revision>` owns that revision. The claim holds the whole transaction, so that any
process that finds it can finish the owner's commit.
"""

from __future__ import annotations

from contextlib import suppress

from firn.bucket.base import Bucket
from firn.bucket.presence import find, is_there
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    HandleClosedError,
    ObjectExistsError,
    OutcomeUnknownError,
    UnsupportedError,
)
from firn.journal.writer.attempts import ATTEMPTS
from firn.journal.writer.commit.pending import NOTHING_SENT, Pending, Settled
from firn.journal.writer.format.actions import CatalogTransaction
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.layout import ObjectName, WriterLayout
from firn.journal.writer.format.messages import decode_transaction
from firn.journal.writer.format.state import CatalogHead
from firn.journal.writer.history.listing import list_from
from firn.journal.writer.history.objects import Reader


def check_claims_can_be(bucket: Bucket, layout: WriterLayout, doing: str) -> None:
    """Refuse to go on with a history that is kept by claims where this connection can't make any."""
    if not bucket.capabilities.conditional_put:
        raise UnsupportedError(
            f"{bucket.uri(layout.root)} is kept by claims, and this connection has no conditional puts. {doing} it "
            'without the option conditional_put="disabled".'
        )


class Claims:
    """Rules 14 to 17."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader

    def publish(self, pending: Pending, *, again: bool) -> Settled:
        self._claim(pending, sent=again)
        try:
            self._prove(pending)
            self._write(pending)
        except (*NOTHING_SENT, CorruptObjectError) as error:
            raise self._unknown(pending) from error
        return Settled.DONE

    def _claim(self, pending: Pending, *, sent: bool) -> None:
        """Rule 14: create the claim, or raise whose it is."""
        key = self.reader.layout.claim_key(pending.revision)
        unread: Exception | None = None
        for _ in range(ATTEMPTS):
            try:
                self.reader.bucket.put_if_absent(key, pending.body)
                return
            except (ObjectExistsError, OutcomeUnknownError):
                sent = True
            except NOTHING_SENT:
                if not sent:
                    raise
            try:
                found = self._read(pending.revision)
            except (*NOTHING_SENT, CorruptObjectError) as error:
                unread = error
                continue
            if found is None:
                continue
            if found[0].uuid == pending.uuid:
                return
            self._finish(pending, *found)
            raise self._closed(pending, f"{self.reader.bucket.uri(key)} is another process's claim")
        raise self._unknown(pending) from unread

    def _read(self, revision: int) -> tuple[CatalogTransaction, bytes] | None:
        """The transaction that a claim holds. 1 GET."""
        key = self.reader.layout.claim_key(revision)
        blob = find(self.reader.bucket, key)
        if blob is None:
            return None
        return decode_transaction(blob.data, where=self.reader.bucket.uri(key)), blob.data

    def _finish(self, pending: Pending, claimed: CatalogTransaction, body: bytes) -> None:
        """Rule 15: its owner may be gone; without its transaction nobody could ever commit again.

        If that fails, the next process that finds the claim does it.
        """
        with suppress(*NOTHING_SENT, OutcomeUnknownError, CorruptObjectError):
            if claimed.commit.previous == pending.before.uuid and self._follows(claimed):
                self._put(claimed, body)

    def finish_next(self, head: CatalogHead) -> bool:
        """Put the transaction of whoever has claimed what comes after the head and died over it (rule 15); whether
        there was one. 1 GET."""
        found = self._read(head.revision + 1)
        if found is None or found[0].commit.previous != head.uuid or not self._follows(found[0]):
            return False
        self._put(*found)
        return True

    def _put(self, claimed: CatalogTransaction, body: bytes) -> None:
        name = ObjectName(claimed.revision, prefix_of(claimed.uuid), "transaction")
        self.reader.bucket.put(self.reader.layout.object_key(name), body)

    def _follows(self, claimed: CatalogTransaction) -> bool:
        """Whether the claim before is that of the transaction before: a pruned number can be won again."""
        if claimed.revision == 1:
            names, _ = list_from(self.reader.bucket, self.reader.layout, 0)
            return prefix_of(claimed.uuid) in names.transactions.get(1, ()) or names.tip == 0
        before = self._read(claimed.revision - 1)
        return before is not None and before[0].uuid == claimed.commit.previous

    def _prove(self, pending: Pending) -> None:
        """Rule 16. A pruned claim before tells two cases apart no more: this process won a number anew that was
        pruned, and nothing is visible; or somebody finished its transaction, and that was pruned."""
        if not self._follows(pending.transaction):
            where = self.reader.bucket.uri(self.reader.layout.root)
            raise OutcomeUnknownError(
                f"{where} was pruned up to revision {pending.revision} while this process committed it, so it may "
                "be visible or not. Look with `firn log`, and open the catalog again."
            )

    def _write(self, pending: Pending) -> None:
        """Rule 17. Once claimed, it counts; the next committer would write it, too."""
        for _ in range(ATTEMPTS):
            try:
                self.reader.bucket.put(pending.key, pending.body)
                return
            except OutcomeUnknownError:
                if is_there(self.reader.bucket, pending.key):
                    return
        raise self._unknown(pending)

    def _closed(self, pending: Pending, why: str) -> ConflictError:
        return HandleClosedError(
            f"{why}: another process commits under the writer id {self.reader.layout.writer!r}. Nothing of this "
            f"commit as revision {pending.revision} is visible; stop one of them, or open the catalog again."
        )

    def _unknown(self, pending: Pending) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"{self.reader.bucket.uri(pending.key)} or its claim was sent and no answer came: this commit may be "
            "visible, now or later. Don't repeat it on this connection, whose next commit sends the same bytes again "
            "first, but for an append with a batch_id. `firn log` shows what has landed."
        )
