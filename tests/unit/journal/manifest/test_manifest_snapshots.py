"""Durable snapshots: rules 14 and 15."""

from __future__ import annotations

import pytest

from firn.errors import InvalidInputError, ObjectChangedError, SnapshotTooOldError
from firn.testing import LOST_ACK, TRUNCATED, delayed, duplicated, retried
from manifest_tables import Before, Table, names

CREATE = "put_if_absent"
SWAP = "put_if_match"


@pytest.fixture
def table():
    table = Table()
    table.write(0, 1)
    return table


def snapshots_dir(table):
    return table.store.keys("t/_metadata/snapshots/")


def collect(table, **options):
    return table.journal("collector").collect(**{"l0_min_age_s": 0, "buffer_s": 0, **options})


def test_a_snapshot_keeps_its_view(table):
    journal = table.journal()
    view = journal.read()
    ref = journal.snapshot(name="before", expires_ms=None)
    assert (ref.name, ref.version, ref.manifest) == ("before", view.version, view.manifest.name)
    for _ in range(3):
        last = table.read().last_l0
        table.write(last + 1, last + 2)
        table.compact()
        table.age(1000)
        collect(table)
    assert journal.view_of(ref) == view
    for file in view.l0:
        journal.read_l0(file)
    assert journal.snapshots() == [ref]


def test_rule_14_a_snapshot_of_an_outdated_view_is_not_valid(table):
    """A compactor comes between the read and the put, and the collector between put and check."""

    def gone():
        table.compact()
        table.age(1000)
        collect(table)

    ref = table.journal("snapshotter", Before(CREATE, "", gone)).snapshot()
    table.age(1000)
    collect(table)
    view = table.journal().view_of(ref)
    assert (view.manifest, names(view)) == (table.read().manifest, [])
    assert all(table.journal().layout.sst_key(s.file) in table.store for s in view.manifest.ssts)
    assert snapshots_dir(table) == [ref.key], "what wasn't valid is deleted"


def test_rule_14_a_given_view_is_kept_or_refused(table):
    journal = table.journal()
    old = journal.read()
    ref = journal.snapshot(old)
    table.write(2)
    assert journal.view_of(ref) == old
    assert journal.view_of(journal.snapshot(old)) == old, "flushes after it are no harm"
    table.compact()
    with pytest.raises(ObjectChangedError, match="take the snapshot of a newer view"):
        journal.snapshot(old)
    assert len(snapshots_dir(table)) == 2


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1), delayed(3600)])
def test_rule_14_a_put_that_was_not_answered_makes_one_snapshot(table, fault):
    ref = table.journal("snapshotter", Before(CREATE, "", fault)).snapshot()
    table.age(7200)
    assert snapshots_dir(table) == [ref.key]
    assert table.journal().view_of(ref) == table.read()


@pytest.mark.parametrize("verb", [CREATE, SWAP])
@pytest.mark.parametrize("fault", [duplicated(3600), delayed(3600)])
def test_rule_14_what_lands_after_the_deletion_brings_nothing_back(table, verb, fault):
    journal = table.journal()
    ref = table.journal("snapshotter", Before(verb, "", fault)).snapshot()
    journal.delete_snapshot(ref)
    table.compact()
    table.age(1000)
    assert len(collect(table).l0) == 2
    table.age(7200)
    assert snapshots_dir(table) == ([ref.key] if verb == CREATE else [])
    assert journal.snapshots() == []
    for look in (lambda: journal.view_of(ref), lambda: journal.refresh_snapshot(ref, None)):
        with pytest.raises(SnapshotTooOldError, match="take a new one"):
            look()
    collect(table)
    assert snapshots_dir(table) == []


def test_rule_14_a_collector_that_takes_it_before_it_lives_makes_it_begin_again(table):
    before = Before(SWAP, "", lambda: collect(table))
    ref = table.journal("snapshotter", before).snapshot(name="monday")
    assert before.done
    assert [each.name for each in table.journal().snapshots()] == ["monday"]
    assert snapshots_dir(table) == [ref.key]
    assert table.journal().view_of(ref) == table.read()


@pytest.mark.parametrize("expires_ms", [0, -1])
def test_an_expiry_that_says_unborn_is_refused(table, expires_ms):
    journal = table.journal()
    ref = journal.snapshot()
    for wrong in (
        lambda: journal.snapshot(expires_ms=expires_ms),
        lambda: journal.refresh_snapshot(ref, expires_ms),
    ):
        with pytest.raises(InvalidInputError, match="above 0"):
            wrong()


def test_rule_15_one_whose_manifest_is_gone_is_not_refreshed(table):
    table.compact()
    journal = table.journal()
    ref = journal.snapshot()
    journal.bucket.delete(journal.layout.manifest_key(ref.manifest))
    with pytest.raises(SnapshotTooOldError):
        journal.refresh_snapshot(ref, None)


@pytest.mark.parametrize("part", ["l0", "ssts"])
def test_one_of_which_something_is_gone_is_told_and_kept(table, part):
    table.compact(0)
    journal = table.journal()
    ref = journal.snapshot()
    table.compact()
    view = journal.view_of(ref)
    assert collect(table).dangling == ()
    key = view.l0[0].key if part == "l0" else journal.layout.sst_key(view.manifest.ssts[0].file)
    journal.bucket.delete(key)
    assert collect(table).dangling == (ref.key,)
    assert ref.key in table.store


def test_rule_15_expiry_is_moved_by_cas(table):
    journal = table.journal()
    now = journal.clock.now_ms()
    ref = journal.snapshot(expires_ms=now + 1000)
    newer = journal.refresh_snapshot(ref, now + 10**9)
    assert (newer.id, newer.expires_ms) == (ref.id, now + 10**9)
    assert journal.snapshots() == [newer]
    table.age(5000)
    collect(table)
    assert journal.view_of(ref).version == ref.version
    assert journal.refresh_snapshot(newer, None).expires_ms is None


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1), delayed(0.001)])
def test_rule_15_a_refresh_that_was_not_answered_holds(table, fault):
    journal = table.journal()
    ref = journal.snapshot(expires_ms=journal.clock.now_ms() + 1000)
    table.journal("refresher", Before(SWAP, ref.id, fault)).refresh_snapshot(ref, None)
    table.age(5000)
    assert [r.expires_ms for r in journal.snapshots()] == [None]


def test_rule_15_what_has_a_tombstone_is_not_refreshed(table):
    journal = table.journal()
    ref = journal.snapshot(expires_ms=journal.clock.now_ms())
    table.age(10)
    # The collector has made a tombstone of it, and not deleted it yet.
    seen = []

    def while_deleting():
        seen.append([journal.snapshots()])
        for doomed in (lambda: journal.refresh_snapshot(ref, None), lambda: journal.view_of(ref)):
            with pytest.raises(SnapshotTooOldError, match="was deleted, or expired and was collected"):
                doomed()

    table.journal("collector", Before("delete", ref.id, while_deleting)).collect(l0_min_age_s=0, buffer_s=0)
    assert seen == [[[]]]


def test_rule_15_a_refresh_under_way_does_not_bring_a_deleted_one_back(table):
    journal = table.journal()
    ref = journal.snapshot(expires_ms=None)
    deleted = Before(SWAP, ref.id, lambda: journal.delete_snapshot(ref))
    with pytest.raises(SnapshotTooOldError):
        table.journal("refresher", deleted).refresh_snapshot(ref, None)
    assert snapshots_dir(table) == []
    journal.delete_snapshot(ref)


def test_a_snapshot_of_a_snapshot(table):
    journal = table.journal()
    first = journal.snapshot(name="a")
    table.compact()
    copy = journal.snapshot(like=first, name="b", expires_ms=journal.clock.now_ms() + 10**9)
    journal.delete_snapshot(first)
    table.age(1000)
    collect(table)
    assert copy.id != first.id
    assert [ref.name for ref in journal.snapshots()] == ["b"]
    assert names(journal.view_of(copy)) == [(1, 1), (1, 0)]
    for file in journal.view_of(copy).l0:
        journal.read_l0(file)


def test_a_snapshot_of_a_snapshot_that_goes_meanwhile_is_refused(table):
    journal = table.journal()
    first = journal.snapshot()
    gone = Before(CREATE, "", lambda: journal.delete_snapshot(first))
    with pytest.raises(SnapshotTooOldError):
        table.journal("copier", gone).snapshot(like=first)
    assert snapshots_dir(table) == []


def test_an_own_reader_needs_no_list(table):
    journal = table.journal()
    ref = journal.snapshot()
    table.compact()
    before = journal.bucket.counters.as_dict()
    journal.view_of(ref)
    spent = journal.bucket.counters.since(before)
    assert (spent["get"], spent["list"], spent["put"]) == (1, 0, 0)


def test_a_snapshot_that_goes_while_it_is_read_again_is_gone(table):
    """The first answer was cut short."""
    journal = table.journal()
    ref = journal.snapshot()
    befores = (
        Before("get", ref.id, TRUNCATED),
        Before("get", ref.id, lambda: journal.delete_snapshot(ref), nth=1),
    )
    assert table.journal("reader", *befores).snapshots() == []
