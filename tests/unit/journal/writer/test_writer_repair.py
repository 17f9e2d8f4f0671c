"""Deciding forks of a writer's catalog by hand: which branch, what is checked first, what can't be done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.errors import (
    CorruptObjectError,
    ForkError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    UnsupportedError,
)
from firn.journal.writer.format.actions import Add
from firn.journal.writer.format.marker import decode_marker
from firn.journal.writer.format.messages import decode_transaction
from firn.journal.writer.history.checkpoint import add_checkpoint
from firn.journal.writer.maintain.prune import prune
from firn.journal.writer.unclaimed.repair import repair
from firn.lake.parquet.footer import read_footer
from firn.testing import FAILED, LOST_ACK, Rule, Script, SimStore
from simulation.writer_catalog import LAYOUT, commit, handle_of, history_of, numbers


def grown(store, *numbers_):
    """A copy with these commits more."""
    store = store.copy()
    handle = handle_of(store.bucket(), store.bucket().clock)
    for n in numbers_:
        store.time.advance(1000)
        commit(handle, n)
    return store


def joined(*stores):
    """What a bucket holds that all of them wrote to, and all data files."""
    whole = stores[0].copy()
    for store in stores[1:]:
        for key, data in store.contents(LAYOUT.transactions_prefix).items():
            if key not in whole:
                whole.write(key, data)
    for key, data in whole.contents(LAYOUT.transactions_prefix).items():
        if key.endswith(".transaction"):
            for action in decode_transaction(data, where=key).actions:
                if isinstance(action, Add):
                    whole.write(action.file.path, b"12345678")
    return whole


def uuid_of(store, revision):
    (key,) = (
        k
        for k in store.keys(LAYOUT.transactions_prefix)
        if f"/{revision:020}" in k and "transaction" in k[-12:]
    )
    return decode_transaction(store.contents()[key], where=key).uuid


def key_of(store, revision):
    return LAYOUT.transaction_key(revision, uuid_of(store, revision))


def repaired(store, keep, **options):
    return repair(store.bucket(), LAYOUT, keep, **options)


def number_uuid(store, number):
    """The uuid of the transaction that holds this commit."""
    for key, data in store.contents(LAYOUT.transactions_prefix).items():
        if key.endswith(".transaction"):
            transaction = decode_transaction(data, where=key)
            if any(
                isinstance(a, Add) and a.file.path.endswith(f"{number:024}.parquet")
                for a in transaction.actions
            ):
                return transaction.uuid
    raise AssertionError(number)


@pytest.fixture
def sides():
    """Three commits that both share, then one on each side."""
    shared = grown(SimStore(conditional_put=False), 1, 2, 3)
    return grown(shared, 4), grown(shared, 5)


@pytest.mark.parametrize("digits", [5, 8, 20, 32])
def test_a_fork_is_decided_for_either_side(sides, digits):
    for kept, other, number in (*[(*sides, 4)], (*sides[::-1], 5)):
        store = joined(*sides)
        uuid = uuid_of(kept, 4)
        planned = repaired(store, uuid[:digits], dry_run=True)
        assert history_of(store.bucket()).load().fork is not None
        report = repaired(store, uuid[:digits].upper())
        assert report == replace(planned, dry_run=False)
        assert (report.kept, report.revisions, report.lost) == (uuid, (4,), (key_of(other, 4),))
        version = history_of(store.bucket()).load()
        assert version.fork is None and set(report.written) <= set(store.keys())
        assert numbers(version.state) == {1: 1, 2: 2, 3: 3, 4: number}
        assert version.head.revision == 5
        commit(handle_of(store.bucket(), store.bucket().clock), 9)
        assert numbers(history_of(store.bucket()).load().state)[6] == 9


def test_a_fork_at_the_first_revision():
    empty = SimStore(conditional_put=False)
    sides = grown(empty, 1), grown(empty, 2)
    store = joined(*sides)
    repaired(store, uuid_of(sides[1], 1))
    assert numbers(history_of(store.bucket()).load().state) == {1: 2}


def test_a_hard_fork_is_decided_and_no_hint_hides_it():
    """Both sides went on, one of them to a checkpoint that a hint names: readers begin there."""
    shared = grown(SimStore(conditional_put=False), 1, 2)
    one, other = grown(shared, 3, 4), grown(shared, 5, 6, 7)
    assert add_checkpoint(history_of(other.bucket())).revision == 5
    store = joined(one, other)
    assert history_of(store.bucket()).load().fork.hard
    store.write(LAYOUT.hint_key, other.contents()[LAYOUT.hint_key])
    assert numbers(history_of(store.bucket()).load().state)[5] == 7
    with pytest.raises(ForkError, match=r"a hard fork at revision 3 .*firn repair"):
        prune(history_of(store.bucket()), older_than_ms=0)
    report = repaired(store, uuid_of(one, 3))
    assert report.revisions == (3,) and len(report.lost) == 3
    assert LAYOUT.hint_key not in store
    assert numbers(history_of(store.bucket()).load().state) == {1: 1, 2: 2, 3: 3, 4: 4}


def test_forks_above_one_another_are_decided_together():
    shared = grown(SimStore(conditional_put=False), 1)
    one = grown(shared, 2)
    store = joined(grown(one, 3, 4), grown(one, 5, 6), grown(shared, 7, 8))
    with pytest.raises(
        InvalidInputError, match=r"fork at revision 3 .*above it. Name a transaction of one of its"
    ):
        repaired(store, number_uuid(store, 2))
    report = repaired(store, number_uuid(store, 6))
    assert report.revisions == (2, 3) and len(report.lost) == 4
    assert numbers(history_of(store.bucket()).load().state) == {1: 1, 2: 2, 3: 5, 4: 6}


@pytest.mark.parametrize("longer", [1, 2, 5])
def test_a_longer_branch_that_loses_is_in_nobodys_way(longer):
    """Whoever commits takes what stands above its head for another process's."""
    shared = grown(SimStore(conditional_put=False), 1)
    one, other = grown(shared, 2, 3), grown(shared, *range(10, 12 + longer))
    store = joined(one, other)
    report = repaired(store, uuid_of(one, 2))
    assert len(report.written) == 1 + longer
    version = history_of(store.bucket()).load()
    assert version.head.revision == 3 + longer + 1
    commit(handle_of(store.bucket(), store.bucket().clock), 99)
    assert numbers(history_of(store.bucket()).load().state) == {
        1: 1,
        2: 2,
        3: 3,
        version.head.revision + 1: 99,
    }


def test_a_repair_is_told_by_a_marker(sides):
    store = joined(*sides)
    report = repaired(store, uuid_of(sides[0], 4))
    (key,) = store.keys(LAYOUT.markers_prefix)[-1:]
    footer = read_footer(store.bucket(), key, len(store.contents()[key]))
    marker = decode_marker(LAYOUT, key, footer.metadata.metadata, where=key)
    assert LAYOUT.transaction_key(marker.revision, marker.uuid) == report.written[0]
    assert [r.keep for r in marker.transaction.resolves] == [report.kept]


def test_repairing_again_says_that_it_is_done(sides):
    store = joined(*sides)
    uuid = uuid_of(sides[0], 4)
    first = repaired(store, uuid)
    before = store.contents()
    again = repaired(store, uuid)
    assert (again.kept, again.revisions, again.written, again.lost) == (first.kept, (4,), (), ())
    assert store.contents() == before
    with pytest.raises(InvalidInputError, match="has no fork: every revision is decided"):
        repaired(store, uuid_of(sides[1], 4))


def test_what_was_sent_and_not_answered_is_no_rival(sides):
    """The same bytes go under the same name, however often."""
    store = joined(*sides)
    late = store.copy()
    uuid = uuid_of(sides[0], 4)
    repaired(store, uuid)
    late.time.advance(10_000)
    assert set(repaired(late, uuid).written) <= set(store.keys())
    assert late.contents(LAYOUT.transactions_prefix) == store.contents(LAYOUT.transactions_prefix)
    with pytest.raises(OutcomeUnknownError):
        lost = joined(*sides).bucket(plan=Script(Rule(LOST_ACK, verb="put", key="*.transaction")))
        repair(lost, LAYOUT, uuid)


def test_a_repaired_history_can_be_pruned(sides):
    store = joined(*sides)
    repaired(store, uuid_of(sides[0], 4))
    handle = handle_of(store.bucket(), store.bucket().clock)
    for n in range(6, 12):
        commit(handle, n)
    report = prune(history_of(store.bucket()), older_than_ms=0)
    assert report.floor == 10 and report.deleted[0] == key_of(sides[1], 4)
    assert numbers(history_of(store.bucket()).load().state)[11] == 11


# -- what is refused


@pytest.mark.parametrize("keep", ["", "xyz", "4" * 33, "../a"])
def test_what_is_no_uuid(sides, keep):
    with pytest.raises(InvalidInputError, match=r"isn't a transaction's uuid.*firn log"):
        repaired(joined(*sides), keep)


def test_a_history_without_fork():
    store = grown(SimStore(conditional_put=False), 1, 2)
    with pytest.raises(InvalidInputError, match=r"root/host-17/db has no fork: every revision.*firn rebuild"):
        repaired(store, uuid_of(store, 2))


def test_a_history_by_claims_has_none():
    store = grown(SimStore(conditional_put=True), 1, 2)
    with pytest.raises(InvalidInputError, match=r"no fork: it is kept by claims, by which there are none"):
        repaired(store, uuid_of(store, 2))


def test_an_unknown_uuid(sides):
    store = joined(*sides)
    with pytest.raises(
        NotFoundError, match=r"no transaction 0badcafe from revision 4 on.*open fork at revision 4"
    ):
        repaired(store, "0badcafe")
    with pytest.raises(NotFoundError):
        repaired(store, uuid_of(sides[0], 3))


def test_an_ambiguous_prefix():
    shared = grown(SimStore(conditional_put=False), 1)
    sides = [grown(shared, n) for n in range(2, 20)]
    uuids = [uuid_of(side, 2) for side in sides]
    first = next(u[0] for u in uuids if [v[0] for v in uuids].count(u[0]) > 1)
    with pytest.raises(
        InvalidInputError, match=rf"{first} is the beginning of \d+ transactions.*more digits"
    ):
        repaired(joined(*sides), first)


def test_missing_data_files_refuse(sides):
    store = joined(*sides)
    (path,) = (k for k in store.keys(LAYOUT.data_prefix) if k.endswith(f"{4:024}.parquet"))
    store.remove(path)
    before = store.contents()
    with pytest.raises(
        CorruptObjectError, match=rf"lacks 1 data files: .*{path}. Copy them back, or keep another"
    ):
        repaired(store, uuid_of(sides[0], 4))
    assert store.contents() == before
    repaired(store, uuid_of(sides[1], 4))


def test_a_damaged_side_cannot_be_kept(sides):
    store = joined(*sides)
    key = key_of(sides[0], 4)
    store.write(key, store.contents()[key][:-1])
    with pytest.raises(CorruptObjectError, match=f"{key}.*firn rebuild"):
        repaired(store, uuid_of(sides[0], 4))
    repaired(store, uuid_of(sides[1], 4))
    assert numbers(history_of(store.bucket()).load().state)[4] == 5


def test_damage_above_a_side_is_named():
    shared = grown(SimStore(conditional_put=False), 1)
    one, other = grown(shared, 2), grown(shared, 3, 4)
    store = joined(one, other)
    key = key_of(other, 3)
    store.write(key, b"rot")
    with pytest.raises(CorruptObjectError, match=rf"{key} is damaged, so that nobody can tell.*delete it"):
        repaired(store, uuid_of(one, 2))
    store.remove(key)
    repaired(store, uuid_of(one, 2))


def test_damage_on_the_shared_part_is_for_rebuild(sides):
    store = joined(*sides)
    store.write(key_of(sides[0], 2), b"rot")
    with pytest.raises(CorruptObjectError, match=r"firn rebuild"):
        repaired(store, uuid_of(sides[0], 4))


def test_two_repairs_that_disagree(sides):
    one, other = joined(*sides), joined(*sides)
    repaired(one, uuid_of(sides[0], 4))
    wrong = repaired(other, uuid_of(sides[1], 4))
    store = joined(one, other)
    with pytest.raises(
        ForkError, match=rf"{wrong.written[0]} is a repair that kept another side.*delete it while"
    ):
        repaired(store, uuid_of(sides[0], 4))
    store.remove(wrong.written[0])
    assert repaired(store, uuid_of(sides[0], 4)).kept == uuid_of(sides[0], 4)


def test_another_process_that_still_writes(sides):
    store = joined(*sides)
    bucket = store.bucket()
    plain = bucket.put

    def put(key, data, **options):
        etag = plain(key, data, **options)
        if key.endswith(".transaction"):
            store.write(LAYOUT.transaction_key(5, "0" * 32), b"a rival")
        return etag

    bucket.put = put
    with pytest.raises(ForkError, match=r"was written, and .* has an open fork at revision 5.*still writes"):
        repair(bucket, LAYOUT, uuid_of(sides[0], 4))


# -- claims


def both_disciplines():
    """Two processes began one catalog, one of them told not to use conditional puts."""
    empty = SimStore(conditional_put=True)
    plain = SimStore(conditional_put=False)
    by_claims, by_lists = grown(empty, 1), grown(plain, 2)
    return by_claims, by_lists, joined(by_claims, by_lists)


def test_a_branch_by_claims_is_kept_by_a_claim():
    by_claims, _, store = both_disciplines()
    report = repaired(store, uuid_of(by_claims, 1))
    assert store.contents()[LAYOUT.claim_key(2)] == store.contents()[report.written[0]]
    commit(handle_of(store.bucket(), store.bucket().clock), 3)
    assert numbers(history_of(store.bucket()).load().state) == {1: 1, 3: 3}


def test_the_other_branch_needs_none():
    _, by_lists, store = both_disciplines()
    repaired(store, uuid_of(by_lists, 1))
    assert LAYOUT.claim_key(2) not in store
    commit(handle_of(store.bucket(), store.bucket().clock), 3)
    assert numbers(history_of(store.bucket()).load().state) == {1: 2, 3: 3}


def test_a_branch_by_claims_needs_a_store_with_conditional_puts():
    by_claims, _, store = both_disciplines()
    store.conditional_put = False
    with pytest.raises(UnsupportedError, match=r"kept by claims.*without the option conditional_put"):
        repaired(store, uuid_of(by_claims, 1))


def test_a_claim_that_its_owner_left_decides():
    """Its transaction is written for it, and as a child it proves the side that it stands on."""
    by_claims, by_lists, _ = both_disciplines()
    owner = handle_of(
        by_claims.bucket(plan=Script(Rule(FAILED, verb="put", every=True))), by_claims.bucket().clock
    )
    with pytest.raises(OutcomeUnknownError):
        commit(owner, 7)
    store = joined(by_claims, by_lists)
    report = repaired(store, uuid_of(by_claims, 1))
    assert (report.revisions, report.written) == ((1,), ())
    assert numbers(history_of(store.bucket()).load().state) == {1: 1, 2: 7}


def test_a_repair_costs(sides):
    """3 transactions that both share, 1 on each side, no checkpoint: 5, and 6 with the one that decides."""
    bucket = joined(*sides).bucket()
    repair(bucket, LAYOUT, uuid_of(sides[0], 4))
    spent = {k: v for k, v in bucket.counters.as_dict().items() if not k.startswith("bytes") and v}
    assert spent == {"get": 5 + 2 + 6, "list": 4, "put": 2, "delete": 1}
