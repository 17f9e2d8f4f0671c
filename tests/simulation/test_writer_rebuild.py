"""Random histories that lose a part of their catalog, or all of it, and come back; also where rebuild is struck."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

import firn.lake.maintain.rebuild as footers
from firn.errors import CorruptObjectError, SnapshotTooOldError
from firn.journal.writer.format.actions import Define
from firn.journal.writer.format.identity import prefix_of
from firn.journal.writer.format.messages import decode_transaction
from firn.journal.writer.history.history import History
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.maintain.prune import prune
from firn.journal.writer.rebuild.surviving_objects import look
from firn.lake.maintain.rebuild import rebuild
from firn.testing import CrashMode, CrashPoint, GatedBucket, SimStore, crash_points
from rebuilding import (
    LAYOUT,
    RUNNER,
    Historian,
    Truth,
    catalog_keys,
    facts,
    history,
    loaded,
    opened,
    rebuilt,
    without_last,
)
from simulation.seeds import seeds

pytestmark = pytest.mark.long


def _lose(made: Historian, rng: random.Random) -> None:
    """Delete some objects of the catalog, and flip a bit of some."""
    share, flipped = rng.choice([0.1, 0.4, 0.8, 1.0]), rng.choice([0.0, 0.2])
    for key in catalog_keys(made.store, but_claims=made.inlines):
        body = bytearray(made.store.contents()[key])
        if body and rng.random() < flipped:
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
            made.store.write(key, bytes(body))
        elif rng.random() < share:
            made.store.remove(key)


def _lose_again(made: Historian) -> None:
    """All that proved what was there before the first loss, or a part."""
    share, last = made.rng.choice([0.6, 1.0]), f"/{made.handle.head.revision:020d}"
    for key in catalog_keys(made.store, but_claims=made.inlines):
        if made.rng.random() < share and (share == 1.0 or last not in key):
            made.store.remove(key)


def _is_proven(made: Historian) -> bool:
    """Whether anything but files and markers tells of the last commit: a name, a claim, or the hint."""
    head = made.handle.head
    uuid = head.uuid or ""
    keys = [LAYOUT.transaction_key(head.revision, uuid), LAYOUT.checkpoint_key(head.revision, uuid)]
    hint = History(made.store.bucket(), LAYOUT).reader.hint()
    if any(key in made.store for key in keys) or (hint and hint[:2] == (head.revision, prefix_of(uuid))):
        return True
    claim = made.store.contents().get(LAYOUT.claim_key(head.revision))
    try:
        return claim is not None and bool(decode_transaction(claim, where=""))
    except CorruptObjectError:
        return False


def _time_travel(store: SimStore, last: int) -> dict[int, Truth]:
    history = History(store.bucket(), LAYOUT)
    return {revision: facts(history.at(revision).state) for revision in range(1, last + 1)}


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_what_is_lost_comes_back(claims: bool, rows: bool) -> None:
    happened = set()
    for seed in seeds(20):
        made = history(seed, claims=claims, rows=rows)
        head, alternative = made.handle.head.revision, without_last(made)
        _lose(made, made.rng)
        proven = _is_proven(made)
        report = rebuilt(made.store)
        state = loaded(made.store)
        expected = made.truth[head] if proven else alternative
        if report.healthy and state.head.revision == head - 1 and not proven:
            # Only the last transaction is lost: from outside, its commit never ended.
            assert facts(state) == made.truth[head - 1], f"seed {seed}"
            happened.add("undone")
            continue
        assert facts(state) == expected, f"seed {seed}"
        if not report.healthy:
            assert report.revision == state.head.revision == head + 1, f"seed {seed}"
            past = _time_travel(made.store, head - 1)
            assert past == {r: made.truth[r] for r in past}, f"seed {seed}"
            happened.add("unproven" if report.unproven else "rebuilt")
        before = made.store.contents()
        assert rebuilt(made.store).healthy and made.store.contents() == before, f"seed {seed}"
        made.handle, made.waiting = opened(made.bucket), None
        made.step()
        made.append("t")
        assert made.handle.head.revision > head
        _lose_again(made)
        rebuilt(made.store)
        assert facts(loaded(made.store)) == made.truth[made.handle.head.revision], f"seed {seed}, again"
    wanted = {"rebuilt"} if claims and rows else {"unproven", "rebuilt"}
    assert wanted <= happened or len(seeds(20)) < 20


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("rows", [False, True])
def test_what_was_pruned_and_collected_and_then_lost_comes_back(claims: bool, rows: bool) -> None:
    """Files of the head come back, all of them, but for a merge's whose sources are there."""
    for seed in seeds(15):
        made = history(f"pruned {seed}", claims=claims, steps=10, rows=rows)
        for step in (made.checkpoint, made.append, made.checkpoint, made.step, made.step, made.step):
            step()
        prune(History(made.store.bucket(), LAYOUT), older_than_ms=0)
        collect(History(made.store.bucket(), LAYOUT), orphan_age_ms=0)
        live = {path for table in made.handle.state.tables.values() for path in table.files}
        head = made.handle.head.revision
        _lose(made, made.rng)
        report = rebuilt(made.store)
        state = loaded(made.store)
        if not report.healthy or state.head.revision == head:
            found = {path for table in state.tables.values() for path in table.files}
            assert live <= found | {*report.unproven}, f"seed {seed}"
        before = made.store.contents()
        assert rebuilt(made.store).healthy and made.store.contents() == before, f"seed {seed}"
        _is_whole(made.store, f"seed {seed}")
        opened(made.store.bucket()).commit([Define("next", b"")], op="define")


def _is_whole(store: SimStore, seed: str) -> None:
    """Whoever looks at all of the history finds it readable: by revision, by time, as a list, and as a collector, who
    says of damaged checkpoints that they are to be deleted."""
    for key in look(store.bucket(), LAYOUT).damaged:
        if key.endswith(".checkpoint"):
            store.remove(key)
    history = History(store.bucket(), LAYOUT)
    there = history.transactions()
    assert not there or there[-1].revision == history.load().head.revision, seed
    for transaction in there:
        try:
            state = history.at(transaction.revision).state
        except SnapshotTooOldError:
            continue
        found = History(store.bucket(), LAYOUT).at_time(state.head.time_ms)
        assert found.head.revision >= transaction.revision, seed
    collect(History(store.bucket(), LAYOUT), orphan_age_ms=0, dry_run=True)


def _all_is_lost(claims: bool, rows: bool) -> Historian:
    made = history("struck", claims=claims, steps=7, rows=rows)
    for key in catalog_keys(made.store, but_claims=rows):
        made.store.remove(key)
    return made


def _some_is_lost(claims: bool, rows: bool) -> Historian:
    made = history("struck in part", claims=claims, steps=7, rows=rows)
    for key in catalog_keys(made.store, but_claims=rows):
        if made.rng.random() < 0.6:
            made.store.remove(key)
    return made


def _lost_on_both_sides_of_a_checkpoint(claims: bool, rows: bool) -> Historian:
    """Its beginning lacks, as if it were pruned; and so does its end, of which nothing proves the last."""
    made = Historian(SimStore(conditional_put=claims), random.Random(1))
    for _ in range(3):
        made.append("t")
    if rows:
        made.inline()
    made.checkpoint()
    made.append("t")
    made.append("t")
    made.remove()
    for revision in (1, 2, 6, 7) if rows else (1, 2, 5, 6):
        for key in catalog_keys(made.store, but_claims=rows):
            if f"/{revision:020d}" in key:
                made.store.remove(key)
    return made


@pytest.mark.parametrize("claims", [False, True])
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("lost", [_all_is_lost, _some_is_lost, _lost_on_both_sides_of_a_checkpoint])
def test_a_rebuild_struck_anywhere_is_ended_by_another(
    claims: bool, rows: bool, lost: Callable[[bool, bool], Historian], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "THREADS", 1)
    store = lost(claims, rows).store
    whole = store.copy()
    last = rebuilt(whole).revision
    expected, past = facts(loaded(whole)), _time_travel(whole, last - 1)

    def operation(bucket: GatedBucket) -> None:
        rebuild(bucket, LAYOUT, RUNNER, clock=bucket.clock)

    def check(store: SimStore, point: CrashPoint) -> None:
        rebuilt(store)
        assert facts(loaded(store)) == expected
        assert _time_travel(store, last - 1) == past
        before = store.contents()
        assert rebuilt(store).healthy and store.contents() == before

    modes: tuple[CrashMode, ...] = ("before", "after", "lost_ack", "failed")
    assert crash_points(store.copy, operation, check, modes=modes) > 50
