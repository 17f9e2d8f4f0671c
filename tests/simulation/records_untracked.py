"""Each verb of a transaction that reads, without a note of what it read: simulations must notice (rule 14).

`records_mutations` leaves out the protocol's other rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from firn.records.documents.documents import Record
from firn.records.write.transaction import Transaction


def _untracked(patch: pytest.MonkeyPatch, verb: str, where: Any = None) -> None:
    """Calls of the verb, or those with such options, leave the footprint as it was, but for writes."""
    sound = getattr(Transaction, verb)

    def call(self: Transaction, *arguments: Any, **options: Any) -> Any:
        reads, predicates = set(self._footprint.reads), list(self._footprint.predicates)
        try:
            return sound(self, *arguments, **options)
        finally:
            if where is None or where(options):
                self._footprint.reads, self._footprint.predicates = reads, predicates

    patch.setattr(Transaction, verb, call)


def forget_gets(patch: pytest.MonkeyPatch) -> None:
    _untracked(patch, "get")


def forget_gets_of_many(patch: pytest.MonkeyPatch) -> None:
    _untracked(patch, "get_many")


def forget_finds(patch: pytest.MonkeyPatch) -> None:
    _untracked(patch, "find")


def forget_scans(patch: pytest.MonkeyPatch) -> None:
    _untracked(patch, "scan")


def forget_streams(patch: pytest.MonkeyPatch) -> None:
    sound = Transaction._streamed

    def streamed(self: Transaction, *arguments: Any) -> Iterator[Record]:
        kept = set(self._footprint.reads)
        for row in sound(self, *arguments):
            self._footprint.reads -= {("moved", row.id)} - kept
            yield row

    _untracked(patch, "stream")
    patch.setattr(Transaction, "_streamed", streamed)


def forget_pages(patch: pytest.MonkeyPatch) -> None:
    for verb in ("find", "scan"):
        _untracked(patch, verb, lambda options: options.get("limit") is not None)


def forget_ordered_reads(patch: pytest.MonkeyPatch) -> None:
    for verb in ("find", "scan"):
        _untracked(patch, verb, lambda options: options.get("order_by") is not None)


def forget_counts(patch: pytest.MonkeyPatch) -> None:
    _untracked(patch, "count")


def forget_what_was_counted(patch: pytest.MonkeyPatch) -> None:
    """The predicate stays, the rows don't."""
    sound = Transaction.count

    def count(self: Transaction, *arguments: Any, **options: Any) -> int:
        reads = set(self._footprint.reads)
        counted = sound(self, *arguments, **options)
        self._footprint.reads = reads
        return counted

    patch.setattr(Transaction, "count", count)


def forget_refused_inserts(patch: pytest.MonkeyPatch) -> None:
    _untracked(patch, "insert")


def forget_what_comes_after_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    """A refusal may tell of a later commit: what wrote nothing fails by it, too."""
    patch.setattr(Transaction, "_must_be_of_one_moment", lambda self: None)


def forget_missed_updates(patch: pytest.MonkeyPatch) -> None:
    _untracked(patch, "update")


def forget_missed_deletes(patch: pytest.MonkeyPatch) -> None:
    _untracked(patch, "delete")
