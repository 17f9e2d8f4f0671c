"""Each rule of the writer's protocol, left out: a mutation patches the journal, and simulations must notice.

The rules are those of docs/format/writer-catalog.md, by number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from firn.bucket.base import ObjectInfo
from firn.errors import ForkError
from firn.journal.writer.commit import claims, commit
from firn.journal.writer.commit.pending import Pending, Settled
from firn.journal.writer.format.actions import CatalogTransaction
from firn.journal.writer.format.layout import ObjectName
from firn.journal.writer.format.messages import encode_checkpoint
from firn.journal.writer.format.metadata import FileRecord
from firn.journal.writer.format.state import CatalogState
from firn.journal.writer.history import forks, history, listing
from firn.journal.writer.history.listing import Names
from firn.journal.writer.history.objects import Reader
from firn.journal.writer.maintain import collect, prune

Mutation = Callable[[pytest.MonkeyPatch], None]


# -- rules 2 and 3


def report_at_once(patch: pytest.MonkeyPatch) -> None:
    """Rule 2: list again before an anomaly is reported."""
    patch.setattr(history, "ATTEMPTS", 1)


def choose_the_first(patch: pytest.MonkeyPatch) -> None:
    """Rule 3: where nothing is proven, nobody chooses."""
    patch.setattr(forks, "_fork", lambda *args: None)
    proven = forks._proven

    def first(revision: int, prefix: str, *rest: Any) -> bool:
        return proven(revision, prefix, *rest) or not any(
            proven(revision, other, *rest) for other in forks._candidates(revision, *rest)
        )

    patch.setattr(forks, "_proven", first)


# -- rules 5 to 10


def believe_the_put(patch: pytest.MonkeyPatch) -> None:
    """Rule 7: LIST after the PUT."""

    def look(self: commit.PutAndList, pending: Pending) -> Settled | None:
        return Settled.DONE

    patch.setattr(commit.PutAndList, "_look", look)


def list_before_the_put(patch: pytest.MonkeyPatch) -> None:
    """Rule 7: a LIST that began before the PUT shows no rival that came between."""
    sound = commit.PutAndList._look

    def publish(self: commit.PutAndList, pending: Pending, *, again: bool) -> Settled:
        self._check_head(pending.before)
        names, _ = listing.list_from(self.reader.bucket, self.reader.layout, pending.revision)
        if names.tip:
            return sound(self, pending) or Settled.DONE
        self.reader.bucket.put(pending.key, pending.body)
        return Settled.DONE

    patch.setattr(commit.PutAndList, "publish", publish)


def withdraw_at_a_fork(patch: pytest.MonkeyPatch) -> None:
    """Rule 10: somebody who saw it alone may have built on it."""
    judged = commit.PutAndList._judged

    def withdraw(self: commit.PutAndList, pending: Pending, names: Names) -> Settled | None:
        try:
            return judged(self, pending, names)
        except ForkError:
            self.reader.bucket.delete(pending.key)
            raise

    patch.setattr(commit.PutAndList, "_judged", withdraw)


# -- claims


def leave_foreign_claims(patch: pytest.MonkeyPatch) -> None:
    """Rule 15: without its transaction nobody could ever commit again."""
    patch.setattr(claims.Claims, "_finish", lambda self, pending, claimed, body: None)


def believe_any_claim(patch: pytest.MonkeyPatch) -> None:
    """Rule 16: a pruned number can be won again."""
    patch.setattr(claims.Claims, "_prove", lambda self, pending: None)


def believe_refused_claims(patch: pytest.MonkeyPatch) -> None:
    """Rule 14: a refusal may be the echo of one's own success."""

    def claim(self: claims.Claims, pending: Pending, *, sent: bool) -> None:
        key = self.reader.layout.claim_key(pending.revision)
        try:
            self.reader.bucket.put_if_absent(key, pending.body)
        except claims.ObjectExistsError:
            raise self._closed(pending, "claimed") from None

    patch.setattr(claims.Claims, "_claim", claim)


# -- checkpoints


def checkpoint_before_acknowledging(patch: pytest.MonkeyPatch) -> None:
    """Rule 18: a checkpoint proves its transaction, so nothing may be proven that isn't decided."""
    look = commit.PutAndList._look

    def early(self: commit.PutAndList, pending: Pending) -> Settled | None:
        key = self.reader.layout.checkpoint_key(pending.revision, pending.uuid)
        self.reader.bucket.put(key, encode_checkpoint(pending.state))
        return look(self, pending)

    patch.setattr(commit.PutAndList, "_look", early)


# -- pruning and collecting


def prune_lost_branches_in_order(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: what decided against a branch, or what it stands on, goes after it."""
    patch.setattr(
        prune._Pruning,
        "_doomed",
        lambda self, floor: sorted(
            (info for name, info in self.listed if name.revision < floor), key=lambda info: info.key
        ),
    )


def trust_checkpoints(patch: pytest.MonkeyPatch) -> None:
    """Rule 20: read the checkpoint back and compare it."""

    def write_what_lacks(self: prune._Pruning, base: CatalogState, *revisions: int) -> CatalogState:
        states = [base]
        for revision in revisions:
            states.append(self._replayed(states[-1], revision))
            if revision not in self.checkpoints:
                self._written(states[-1])
        return states[1]

    patch.setattr(prune._Pruning, "_validate", write_what_lacks)


def keep_one_checkpoint(patch: pytest.MonkeyPatch) -> None:
    """Rule 21: two, as one may be spoilt."""
    patch.setattr(prune._Pruning, "_second", lambda self, floor: floor)


def trust_ones_own_clock(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: the age is told by the store's clock."""
    patch.setattr(prune, "store_now", lambda bucket, layout: bucket.clock.now_ms())


def prune_claims_from_above(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: ascending, so that whoever wins a pruned number finds the one before it pruned."""
    sound = prune._Pruning._claims
    patch.setattr(prune._Pruning, "_claims", lambda self, floor: sound(self, floor)[::-1])


def prune_claims_of_rows(patch: pytest.MonkeyPatch) -> None:
    """Rule 22: a claim is the second copy of its rows."""
    patch.setattr(prune, "_oldest_rows", lambda state: state.head.revision + 1)


def always_begin_at_the_empty_start(patch: pytest.MonkeyPatch) -> None:
    """Rule 23: only if nothing of the history lacks."""
    patch.setattr(Names, "unbroken", lambda self, last, first=1: True)


def keep_only_what_is_live(patch: pytest.MonkeyPatch) -> None:
    """Rule 24: what retained revisions read isn't what the newest one reads."""
    patch.setattr(collect._Collection, "_references", lambda self: set())


def forget_lost_branches(patch: pytest.MonkeyPatch) -> None:
    """Rule 24: the files of branches that lost stay as long as their transactions do."""
    sound = collect._Collection._references

    def references(self: collect._Collection) -> set[str]:
        kept = dict(self.history.counting(self.names))
        self.names = replace(self.names, transactions={r: (p,) for r, p in kept.items()})
        return sound(self)

    patch.setattr(collect._Collection, "_references", references)


def go_on_over_what_is_gone(patch: pytest.MonkeyPatch) -> None:
    """Rule 24: a 404 restarts the pass, as what came in its place was listed by nobody."""
    sound = Reader.transactions

    def references(self: collect._Collection) -> set[str]:
        reader = self.history.reader
        there = [(r, p) for r, ps in self.names.transactions.items() for p in ps]
        found = sound(reader, there)
        paths = {
            path for t in found.values() if isinstance(t, CatalogTransaction) for path in collect._added(t)
        }
        for revision, prefixes in self.names.checkpoints.items():
            for prefix in prefixes:
                state = reader.checkpoint(ObjectName(revision, prefix, "checkpoint"))
                tables = () if state is None else state.tables.values()
                paths.update(path for table in tables for path in table.files)
        return paths

    patch.setattr(collect._Collection, "_references", references)


def collect_of_any_revision(patch: pytest.MonkeyPatch) -> None:
    """Rule 25: what is begun now is of the next revision, and may be under way for as long as it likes."""
    sound = collect._Collection._record

    def record(self: collect._Collection, info: ObjectInfo) -> FileRecord | None:
        found = sound(self, info)
        return None if found is None else replace(found, revision=1)

    patch.setattr(collect._Collection, "_record", record)


def collect_at_any_age(patch: pytest.MonkeyPatch) -> None:
    """Rule 25: a commit that was overtaken names files of an older revision than its own."""
    patch.setattr(collect, "store_now", lambda bucket, layout: 2**62)


def collect_in_any_order(patch: pytest.MonkeyPatch) -> None:
    """Rule 26: a file goes after all that it replaces."""

    def plan(garbage: Any, existing: Any) -> Any:
        return [[entry] for entry in sorted(garbage, key=lambda g: g.order, reverse=True)], []

    patch.setattr(collect, "plan_waves", plan)


def collect_rows_last(patch: pytest.MonkeyPatch) -> None:
    """Rule 26: rows go from markers before the files go that replaced them."""
    patch.setattr(collect._Collection, "_without_rows", lambda self, markers, needed, existing: [])
