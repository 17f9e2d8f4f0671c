"""Rows that a soft delete had taken were back after a second loss: nothing but the transaction that ended the first
rebuild proved the delete, and that left no marker."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from firn.journal.writer.format.actions import Remove
from firn.journal.writer.format.footers import read_pairs
from firn.journal.writer.format.marker import decode_marker
from firn.journal.writer.format.messages import encode_checkpoint
from firn.journal.writer.history.history import History
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.maintain.prune import prune
from firn.testing import SimStore
from rebuilding import LAYOUT, Historian, facts, loaded, opened, rebuilt


def lose(store: SimStore, *parts: str) -> None:
    for part in parts:
        for key in store.keys(f"{LAYOUT.root}/{part}/"):
            store.remove(key)


def lose_one(store: SimStore, revision: int) -> None:
    for key in store.keys(LAYOUT.root):
        if f"/{revision:020d}" in key and "/markers/" not in key:
            store.remove(key)


def grown(claims: bool) -> Historian:
    made = Historian(SimStore(conditional_put=claims), random.Random(3))
    made.append("t")
    made.append("t")
    return made


def goes_on(made: Historian, commits: int = 7) -> None:
    made.handle = opened(made.bucket)
    for _ in range(commits):
        made.append("t")


LAST: dict[str, Callable[[Historian], None]] = {
    "soft delete": Historian.delete,
    "remove": Historian.remove,
    "merge": Historian.merge,
    "batch": Historian.batch,
    "register": Historian.register,
    "drop": Historian.drop,
}


@pytest.mark.parametrize("last", LAST)
@pytest.mark.parametrize("lost", [1, 2])
@pytest.mark.parametrize("claims", [True, False])
def test_a_second_loss_brings_nothing_back_that_was_gone(last: str, lost: int, claims: bool) -> None:
    made = grown(claims)
    made.append("u")
    LAST[last](made)
    head = made.handle.head.revision
    lose_one(made.store, lost)
    rebuilt(made.store)
    assert facts(loaded(made.store)) == made.truth[head]
    for _ in range(3):
        goes_on(made)
        lose(made.store, "transactions", "claims")
        rebuilt(made.store)
        assert facts(loaded(made.store)) == made.truth[made.handle.head.revision]


@pytest.mark.parametrize("claims", [True, False])
def test_what_a_revision_of_which_nothing_was_left_stood_on_stays_gone(claims: bool) -> None:
    """The lost revision is written as an empty one, and has no marker of its own that proves the one before it."""
    made = grown(claims)
    made.delete()
    made.bucket.put_many([])
    made.append("t")
    made.append("t")
    lost = made.handle.head.revision - 1
    truth = {p: live for p, live in made.truth[lost + 1]["t"][1].items() if live[2] != lost}
    for key in made.store.keys(LAYOUT.data_prefix):
        if key in made.truth[lost]["t"][1] and made.truth[lost]["t"][1][key][2] == lost:
            made.store.remove(key)
    lose_one(made.store, lost)
    rebuilt(made.store)
    assert facts(loaded(made.store))["t"][1] == truth
    goes_on(made)
    wanted = made.truth[made.handle.head.revision]
    lose(made.store, "transactions", "claims")
    rebuilt(made.store)
    assert facts(loaded(made.store)) == wanted


def test_the_marker_of_a_rebuild_stays_as_long_as_its_files() -> None:
    made = grown(True)
    made.delete()
    lose_one(made.store, 1)
    closing = rebuilt(made.store).revision
    goes_on(made)
    prune(History(made.bucket, LAYOUT), older_than_ms=0)
    collect(History(made.bucket, LAYOUT), orphan_age_ms=0)
    assert any(f"{closing:020d}" in key for key in made.store.keys(LAYOUT.markers_prefix))
    wanted = facts(loaded(made.store))
    lose(made.store, "transactions", "claims")
    rebuilt(made.store)
    found = facts(loaded(made.store))
    assert {name: (spec, files) for name, (spec, files, _) in found.items()} == {
        name: (spec, files) for name, (spec, files, _) in wanted.items()
    }


def test_the_marker_of_a_rebuild_forgets_files_that_are_gone() -> None:
    """Their paths, statistics and predicates may tell values that were to be erased."""
    made = grown(True)
    made.delete()
    lose_one(made.store, 1)
    closing = rebuilt(made.store).revision
    made.handle = opened(made.bucket)
    first = made.live()[0].path
    made.commit([Remove(first)], op="remove")
    goes_on(made)
    prune(History(made.bucket, LAYOUT), older_than_ms=0)
    collect(History(made.bucket, LAYOUT), orphan_age_ms=0)
    assert first not in made.store
    (key,) = [key for key in made.store.keys(LAYOUT.markers_prefix) if f"{closing:020d}" in key]
    marker = decode_marker(
        LAYOUT, key, read_pairs(made.bucket, key, len(made.store.contents()[key])), where=key
    )
    assert marker.state is not None
    assert first.encode() not in encode_checkpoint(marker.state) and marker.state.tables["t"].files
