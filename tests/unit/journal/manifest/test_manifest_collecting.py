"""Garbage collection: rules 16 to 21."""

from __future__ import annotations

import pytest

from firn.errors import AccessDeniedError, CorruptObjectError, FencedError
from firn.journal.manifest import ManifestJournal, compactor
from firn.journal.manifest.pointer_store import BucketPointerStore, StoredPointer
from firn.testing import CRASH_AFTER, LOST_ACK, Crashed, delayed, retried
from manifest_tables import Before, merge, names, put

SWAP = "put_if_match"


def collect(table, *befores, **options):
    return table.journal("collector", *befores).collect(**{"l0_min_age_s": 300, "buffer_s": 0, **options})


def base(keys):
    return [key.rpartition("/")[2] for key in keys]


def test_a_dry_run_tells_what_a_run_deletes(table):
    table.write(0, 1, 2)
    session = table.compact(0)
    table.compact(1, session)
    ref = table.journal().snapshot(expires_ms=1)
    table.write(3)
    table.age(1000)
    before = {key for key in table.store.keys("") if not key.endswith("_firn/clock")}
    told = collect(table, dry_run=True)
    assert {key for key in table.store.keys("") if not key.endswith("_firn/clock")} == before
    done = collect(table)
    assert told.dry_run
    assert told.deleted == done.deleted
    assert told.bytes == done.bytes > 0
    assert set(done.deleted) == before - set(table.store.keys())
    assert done.snapshots == (ref.key,)
    assert base(done.l0) == [
        "000000000000000001.000000000000000000.sst",
        "000000000000000001.000000000000000001.sst",
    ]
    assert (done.live_l0, done.live_ssts, done.live_manifests, done.live_snapshots) == (2, 1, 1, 0)


def test_nothing_live_is_ever_deleted_and_nothing_dead_stays(table):
    journal = table.journal()
    session = journal.open_compactor()
    refs = []
    for step in range(12):
        last = table.read().last_l0
        table.write(last + 1, last + 2)
        if step % 3:
            merge(session, session.refresh(), last)
        if step % 4 == 0:
            refs.append(journal.snapshot())
        if step == 9:
            journal.delete_snapshot(refs.pop(0))
        table.age(1000)
        report = collect(table)
        assert len(report.dangling) == 0
        live = {journal.layout.pointer_key, journal.layout.clock_key, *(ref.key for ref in refs)}
        for view in [table.read(), *(journal.view_of(ref) for ref in refs)]:
            live.update(journal.layout.sst_key(sst.file) for sst in view.manifest.ssts)
            live.update(journal.layout.manifest_key(name) for name in view.manifest.chain)
            live.update(file.key for file in view.l0)
        left = set(table.store.keys())
        assert live <= left
        assert {key for key in left - live if "/l0/" in key} <= {
            key for key in left if table.store.fetch(key).data == b""
        }, "beside what is live, only fences that still keep somebody out"
        assert not [key for key in left - live if "/l0/" not in key]


def test_rule_16_an_expired_snapshot_goes_after_the_buffer(table):
    journal = table.journal()
    ref = journal.snapshot(expires_ms=journal.clock.now_ms() + 10_000)
    for seconds, there in ((9, True), (60, True), (60, False)):
        table.age(seconds)
        collect(table, buffer_s=100)
        assert (ref.key in table.store) == there


def test_rule_16_a_tombstone_comes_first(table):
    """A collector that dies before the delete has made it unreadable for good."""
    journal = table.journal()
    ref = journal.snapshot(expires_ms=1)
    with pytest.raises(Crashed):
        collect(table, Before(SWAP, ref.id, CRASH_AFTER))
    assert (ref.key in table.store, journal.snapshots()) == (True, [])
    assert collect(table).snapshots == (ref.key,)


def test_rule_16_a_snapshot_that_was_refreshed_meanwhile_is_alive(table):
    table.write(0)
    journal = table.journal()
    ref = journal.snapshot(expires_ms=1)
    view = journal.view_of(ref)
    table.compact()
    table.age(1000)
    report = collect(table, Before(SWAP, ref.id, lambda: journal.refresh_snapshot(ref, None)))
    assert (report.snapshots, report.live_snapshots) == ((), 1)
    assert journal.view_of(ref) == view
    assert all(file.key in table.store for file in view.l0)


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1), delayed(0.001), delayed(3600)])
def test_rule_16_a_tombstone_that_was_not_answered_is_made_again(table, fault):
    journal = table.journal()
    ref = journal.snapshot(expires_ms=1)
    assert collect(table, Before(SWAP, ref.id, fault)).snapshots == (ref.key,)
    assert ref.key not in table.store


@pytest.mark.parametrize("way", ["expires", "is deleted", "is deleted by another collector"])
def test_rule_16_snapshots_are_listed_until_all_that_are_listed_live(table, way):
    """One that was made of another after the list, just before that one went, isn't in the list."""
    table.write(0)
    journal = table.journal()
    now = journal.clock.now_ms()
    first = journal.snapshot(expires_ms=now + 5_000_000 if way != "expires" else now + 10)
    table.compact()
    table.age(1000)
    copies = []

    def copied():
        copies.append(journal.snapshot(like=first))
        if way == "is deleted":
            journal.delete_snapshot(first)
        if way == "is deleted by another collector":
            table.age(10_000)
            collect(table)

    collect(table, Before("get", first.id, copied))
    (copy,) = copies
    for file in journal.view_of(copy).l0:
        assert journal.read_l0(file)


def test_rule_17_what_snapshots_name_is_live(table):
    table.write(0, 1)
    journal = table.journal()
    session = table.compact(0)
    ref = journal.snapshot()
    kept = journal.view_of(ref)
    table.compact(1, session)
    table.age(1000)
    report = collect(table)
    assert (report.live_l0, report.live_ssts, report.live_manifests) == (1, 2, 2)
    assert journal.view_of(ref) == kept
    assert {file.key for file in kept.l0} <= set(table.store.keys())
    journal.delete_snapshot(ref)
    report = collect(table)
    assert [len(keys) for keys in (report.l0, report.ssts, report.manifests)] == [1, 1, 1]


def test_rule_17_every_object_of_a_chain_is_live(table):
    table.write(*range(6))
    session = table.compact(0)
    for n in range(1, 5):
        extra = [put(session, run=10 * n + i) for i in range(3 if n == 1 else 1)]
        session.commit(adds=extra, deletes=[], last_compacted=n)
    assert len(session.view.manifest.chain) > 2
    table.age(1000)
    collect(table)
    assert table.read() == session.view


def test_a_snapshot_that_cannot_be_read_stops_the_collection(table):
    table.write(0)
    ref = table.journal().snapshot()
    table.compact()
    table.age(1000)
    table.store.bucket().put(ref.key, b"{}")
    before = set(table.store.keys())
    with pytest.raises(CorruptObjectError, match=ref.id):
        collect(table)
    assert before <= set(table.store.keys())


def test_a_snapshot_without_its_manifest_is_told(table):
    table.write(0)
    session = table.compact()
    ref = table.journal().snapshot()
    table.compact(0, session)
    table.store.bucket().delete(table.journal().layout.manifest_key(ref.manifest))
    assert collect(table).dangling == (ref.key,)


def test_rule_18_what_a_compactor_is_about_to_commit_is_spared(table):
    """However old it is, and though its epoch isn't in any manifest yet."""
    table.write(0)
    table.compact(0)
    session = table.journal("slow").open_compactor()
    sst = put(session)
    table.age(10**6)

    def late():
        report = collect(table)
        assert (report.ssts, report.manifests) == ((), ())

    late()
    session._store.bucket.client.plan = Before(SWAP, "current_manifest", late)
    view = session.commit(adds=[sst], deletes=[], last_compacted=0)
    assert view == table.read()
    assert all(table.journal().layout.sst_key(s.file) in table.store for s in view.manifest.ssts)
    assert all(table.journal().layout.manifest_key(name) in table.store for name in view.manifest.chain)


def test_rule_18_the_next_manifest_of_the_current_epoch_is_spared(table):
    table.write(0, 1)
    session = table.compact(0)

    def between():
        assert collect(table).manifests == ()

    session._store.bucket.client.plan = Before(SWAP, "current_manifest", between)
    assert merge(session, session.refresh(), 1) == table.read()
    assert collect(table).manifests == ()
    table.age(1000)
    assert len(collect(table).manifests) == 1


def test_rule_18_ssts_in_flight_are_spared_in_their_own_epoch_too(table):
    table.write(0, 1)
    session = table.journal().open_compactor()
    slow = put(session)
    session.commit(adds=[put(session)], deletes=[], last_compacted=0, in_flight=slow.number)
    dead = put(session)
    assert collect(table).ssts == ()
    session.commit(adds=[slow], deletes=[], last_compacted=1)
    report = collect(table)
    assert report.ssts == (session.sst_key(dead.number),)


def test_rule_18_what_an_older_compactor_left_goes_at_once(table):
    table.write(0)
    old = table.journal("old").open_compactor()
    orphan = put(old)
    new = table.journal("new").open_compactor()
    with pytest.raises(FencedError):
        merge(old, old.view, 0)
    report = collect(table)
    assert set(report.ssts) == {old.sst_key(orphan.number), old.sst_key(orphan.number + 1)}
    assert base(report.manifests) == ["manifest.000000000000000001.000000000000000000"]
    assert merge(new, new.refresh(), 0) == table.read()


def test_rule_19_a_compacted_flush_stays_while_any_object_of_its_number_is_young(table):
    table.write(0)
    table.compact()
    table.age(200)
    zombie = table.l0(7, 0)
    table.store.bucket().put_if_absent(zombie, b"zombie")
    table.age(200)
    assert collect(table).l0 == ()
    table.age(200)
    assert set(collect(table).l0) == {table.l0(1, 0), zombie}


def test_rule_19_ages_are_the_stores(table):
    """A collector whose clock is a day ahead doesn't take a young flush for an old one."""
    table.write(0)
    table.compact()
    table.age(100)
    journal = table.journal("collector", skew_ms=86_400_000)
    assert journal.collect(l0_min_age_s=300, buffer_s=0).l0 == ()
    table.age(300)
    journal = table.journal("collector", skew_ms=-86_400_000)
    assert len(journal.collect(l0_min_age_s=300, buffer_s=0).l0) == 1


def test_rule_20_a_zombies_flush_goes_at_once_and_its_fence_when_nobody_can_ask_any_more(table):
    old = table.journal("old", poll_max_s=30).open_writer()
    old.put_l0(0, b"0")
    table.write(1)
    table.store.bucket().put_if_absent(table.l0(1, 2), b"zombie")
    report = collect(table)
    assert (report.l0, report.fences) == ((table.l0(1, 2),), ())
    with pytest.raises(FencedError):
        old.put_l0(1, b"the fence is there")
    table.age(301)
    assert collect(table).fences == (table.l0(1, 1),)
    assert names(table.read()) == [(2, 1), (1, 0)]


def test_rule_20_a_fence_stays_while_the_writer_that_made_it_has_not_claimed(table):
    """Its epoch is the newest: an opener may be between its fence and its claim."""
    old = table.journal("old").open_writer()

    def long_after():
        table.age(10**6)
        assert collect(table).fences == ()
        with pytest.raises(FencedError):
            old.put_l0(0, b"0")

    new = table.journal("new", Before(SWAP, "current_manifest", long_after)).open_writer()
    assert (new.epoch, new.start, names(table.read())) == (2, 0, [])


def test_rule_20_what_the_owner_wrote_above_a_gap_stays(table):
    writer = table.journal("writer").open_writer()
    writer.put_l0(1, b"1")
    table.age(10**6)
    assert collect(table).l0 == ()
    writer.put_l0(0, b"0")
    assert names(table.read()) == [(1, 1), (1, 0)]


def test_rule_20_a_newer_writers_flush_is_spared_by_an_older_pointer(table):
    table.write(0)
    late = Before("list", "l0/", lambda: table.write(1))
    assert collect(table, late).l0 == ()
    assert names(table.read()) == [(2, 1), (1, 0)]


def test_where_nobody_tells_when_the_pointer_was_written_fences_stay_until_compacted(table):
    class Untimed(BucketPointerStore):
        def get(self):
            found = super().get()
            return found and StoredPointer(found.data, found.etag, None)

    table.write(0)
    table.write(1)
    table.age(10**6)
    bucket = table.store.bucket()
    pointers = Untimed(bucket, table.journal().layout.pointer_key)
    journal = ManifestJournal(bucket, "t", pointers=pointers, clock=bucket.clock)
    assert journal.collect(l0_min_age_s=300, buffer_s=0).fences == ()
    table.compact()
    assert journal.collect(l0_min_age_s=300, buffer_s=0).fences == (table.l0(1, 1),)


def test_what_a_former_table_left_goes(table):
    table.write(0, 1)
    table.compact(0)
    table.journal().drop()
    table.journal().create({}, 1000)
    report = collect(table, l0_min_age_s=0)
    assert [len(keys) for keys in (report.l0, report.ssts, report.manifests)] == [2, 1, 1]
    writer = table.journal().open_writer()
    writer.put_l0(0, b"0")
    assert names(table.read()) == [(1000, 0)]


def test_two_collectors_at_once(table):
    table.write(0, 1)
    table.journal().snapshot(expires_ms=1)
    table.compact()
    table.age(1000)
    again = Before("list", "_metadata/snapshots/", lambda: collect(table))
    collect(table, again)
    assert collect(table).deleted == ()
    assert names(table.read()) == []


def test_a_dry_run_needs_no_permission_to_write(table, monkeypatch):
    table.write(0)
    table.compact()
    table.age(1000)
    journal = table.journal()

    def refused(*args):
        raise AccessDeniedError("t/_firn/clock: no permission to write")

    monkeypatch.setattr(journal.bucket, "put", refused)
    report = journal.collect(l0_min_age_s=300, buffer_s=0, dry_run=True)
    assert len(report.l0) == 1
    with pytest.raises(AccessDeniedError):
        journal.collect(l0_min_age_s=300, buffer_s=0)


def test_rule_21_what_was_replaced_a_moment_ago_is_spared(table):
    table.write(0, 1, 2)
    table.age(1000)
    session = table.compact(0)
    table.age(1000)
    before = table.read()
    table.compact(2, session)
    assert collect(table).deleted == (table.l0(1, 0),), "it was compacted long ago"
    table.age(299)
    report = collect(table)
    assert report.deleted == () and (report.live_ssts, report.live_manifests) == (1, 1)
    table.age(2)
    assert base(collect(table).deleted) == [
        "000000000000000001.000000000000000001.sst",
        "000000000000000001.000000000000000002.sst",
        *(sst.file.rpartition("/")[2] for sst in before.manifest.ssts),
        before.manifest.name,
    ]


def churned(table, **options):
    """One commit of long ago, and ten since: each is a Full manifest, as each replaces all that there is."""
    table.write(*range(12))
    session = table.compact(0, table.journal("compactor", **options).open_compactor())
    table.age(1000)
    before = table.read()
    for n in range(1, 11):
        table.compact(n, session)
        table.age(20)
    return before


def collected(table):
    """GETs of a collection, and what it deletes."""
    journal = table.journal("collector")
    before = journal.bucket.counters.as_dict()
    report = journal.collect(l0_min_age_s=300, buffer_s=0)
    return journal.bucket.counters.since(before)["get"], report.deleted


def test_rule_21_costs_no_request(table):
    """However many commits there were: the pointer and its manifest are read."""
    churned(table)
    assert collected(table) == (2, (table.l0(1, 0),)), "what was compacted long ago"
    table.age(299)
    assert [(n, len(gone)) for n, gone in [collected(table)]] == [(2, 3 * 10)], "flushes, SSTs and manifests"


def test_rule_21_manifests_forget_what_is_old(table):
    table.write(0)
    session = table.compact()
    for _ in range(20):
        table.age(100)
        table.compact(0, session)
    told = table.read().manifest.replaced
    assert [len(step.ssts) for step in told] == [0, *[1] * 7], (
        "of the age, a minute, and the name of the one before"
    )


@pytest.mark.parametrize("older", [True, False], ids=["older", "shorter"])
def test_rule_21_where_manifests_tell_too_little_others_are_read(table, monkeypatch, older):
    """Those of an older Firn tell nothing; those that were made for a shorter age less."""
    if older:
        monkeypatch.setattr(compactor, "remembered", lambda *args: ())
    churned(table, l0_min_age_s=0)
    told = table.read().manifest.replaced
    assert collected(table) == (2 + 11 - len(told), (table.l0(1, 0),))
    assert len(told) == (1 if older else 4)
    table.age(299)
    assert len(collected(table)[1]) == 3 * 10
