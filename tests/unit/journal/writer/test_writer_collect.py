"""Collecting the garbage of a writer's catalog: what no retained revision needs, and nothing else, in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.bucket.base import ObjectInfo
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    ForkError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from firn.journal.model import DataFile
from firn.journal.writer.format.actions import Add, Define, Drop, Remove
from firn.journal.writer.format.metadata import FileRecord
from firn.journal.writer.history.checkpoint import add_checkpoint
from firn.journal.writer.maintain.collect import OrphanFile, collect, plan_waves
from firn.journal.writer.maintain.prune import prune
from firn.journal.writer.unclaimed.repair import repair
from firn.testing import FAILED, Rule, Script, SimStore
from simulation import writer_mutations as without
from simulation.writer_catalog import COLUMNS, LAYOUT, TABLE, handle_of, history_of
from simulation.writer_upkeep import (
    KINDS,
    OTHER,
    Change,
    body_of,
    data_of,
    live,
    paths_of,
    put_file,
    retained,
    told,
)

HOUR = 3600 * 1000


def store_of(*kinds, claims=False, store=None):
    """A store with a commit of each kind, an hour apart."""
    store = SimStore(conditional_put=claims) if store is None else store
    bucket = store.bucket()
    handle = handle_of(bucket, bucket.clock)
    for kind in kinds:
        store.time.advance(HOUR)
        kind(Change(bucket, handle, None)).commit()
    store.time.advance(HOUR)
    return store


def collected(store, hours=0, **options):
    return collect(history_of(store.bucket()), orphan_age_ms=hours * HOUR, **options)


def pruned(store, hours=0):
    return prune(history_of(store.bucket()), older_than_ms=hours * HOUR)


def markers(store):
    return [int(key.rpartition("/")[2][:20]) for key in store.keys(LAYOUT.markers_prefix)]


def head_state(store):
    return history_of(store.bucket()).load().state


def orphan(store, revision, *, replaces=(), previous="0" * 32, uuid="badc0ffee" + "0" * 23):
    """A data file that was begun for a revision and never committed."""
    ticket = handle_of(store.bucket(), store.bucket().clock).begin()
    ticket = ticket._replace(revision=revision, uuid=uuid, previous=previous if revision > 1 else None)
    return put_file(store.bucket(), ticket, OTHER, replaces=replaces).path


MANY = (
    Change.append,
    Change.append,
    Change.merge,
    Change.remove,
    Change.append,
    Change.append,
    Change.merge,
) * 2


@pytest.mark.parametrize("claims", [False, True])
def test_what_was_pruned_is_collected(claims):
    store = store_of(*MANY, claims=claims)
    assert collected(store).data_files == ()
    assert pruned(store).floor == 13
    readable = retained(store.bucket())
    before = data_of(store)
    report = collected(store, dry_run=True)
    assert data_of(store) == before
    assert collected(store) == replace(report, dry_run=False)
    assert set(report.data_files) == before - set().union(*readable.values())
    assert data_of(store) == set().union(*readable.values())
    assert (report.orphans, report.waiting, report.kept_foreign) == ((), (), ())
    assert report.bytes > 0 and retained(store.bucket()) == readable
    assert collected(store) == type(report)()


def test_a_file_goes_after_all_that_it_replaces():
    """Even where stamps say nothing of it."""

    def garbage(name, revision, *replaces):
        record = FileRecord("w", "db", "s", "", revision, "0" * 32, "1" * 32, (), replaces)
        return OrphanFile(ObjectInfo(name, 1, "", 0), record)

    entries = [
        garbage("d", 5, "b", "c"),
        garbage("c", 5, "a"),
        garbage("b", 4),
        garbage("a", 5),
        garbage("e", 4, "x"),
    ]
    waves, waiting = plan_waves(entries, "abcdex")
    assert [[entry.info.key for entry in wave] for wave in waves] == [["b"], ["a"], ["c"], ["d"]]
    assert [entry.info.key for entry in waiting] == ["e"]
    assert plan_waves([], "abc") == ([], [])


def test_every_removal_stays_told():
    """Whatever a collection that died has left, data files and markers tell what doesn't count any more."""
    store = store_of(*MANY)
    pruned(store)
    alive = paths_of(head_state(store))
    report = collected(store, dry_run=True)
    for key in (*report.data_files, *report.markers):
        store.remove(key)
        assert data_of(store) - alive <= told(store)


def test_what_is_young_stays():
    store = store_of(*MANY)
    pruned(store)
    whole = collected(store, dry_run=True).data_files
    assert collected(store, 1000).data_files == ()
    some = collected(store, 8, dry_run=True).data_files
    assert 0 < len(some) < len(whole)


def test_time_travel_keeps_its_files():
    """The newest checkpoint doesn't name them; the retained transactions before it do."""
    store = store_of(*MANY)
    for revision in (4, 9, 14):
        add_checkpoint(history_of(store.bucket()), revision)
    pruned(store, 6)
    readable = retained(store.bucket())
    assert min(readable) == 9
    collected(store)
    assert set().union(*readable.values()) <= data_of(store)


def test_an_orphan_is_of_a_revision_below_the_head():
    store = store_of(*MANY)
    keys = {revision: orphan(store, revision) for revision in (1, 13, 14, 15)}
    store.time.advance(HOUR)
    assert set(collected(store, 1).orphans) == {keys[1], keys[13]}
    store_of(Change.append, store=store)
    assert collected(store).orphans == (keys[14],)


def test_a_commit_that_was_overtaken_finds_its_files():
    """Older than the head's, its stamp doesn't protect them; their age does."""
    store = store_of(Change.append, Change.append)
    bucket = store.bucket()
    handle = handle_of(bucket, bucket.clock)
    slow = Change(bucket, handle, 100).append()
    for number in (3, 4, 5):
        Change(bucket, handle, number).append().commit()
    store.time.advance(HOUR)
    assert collected(store, 2).orphans == ()
    assert slow.commit().revision == 6
    assert collected(store).orphans == ()
    assert paths_of(head_state(store)) <= data_of(store)


def test_the_files_of_a_claim_that_its_owner_left_stay():
    store = store_of(*MANY, claims=True)
    script = Script(Rule(FAILED, verb="put", key="*.transaction", every=True))
    bucket = store.bucket(plan=script)
    handle = handle_of(bucket, bucket.clock)
    slow = Change(bucket, handle, 100).append()
    script.rules = ()
    for number in (15, 16):
        Change(bucket, handle, number).append().commit()
    script.rules = (Rule(FAILED, verb="put", key="*.transaction", every=True),)
    with pytest.raises(OutcomeUnknownError):
        slow.commit()
    store.time.advance(100 * HOUR)
    assert collected(store).orphans == ()
    other = handle_of(store.bucket(), store.bucket().clock)
    with pytest.raises(ConflictError):
        Change(store.bucket(), other, 101).commit()
    assert head_state(store).head.revision == 17
    assert paths_of(head_state(store)) <= data_of(store)


def test_losing_branches_keep_their_files():
    store = store_of(Change.append, Change.append)
    stranger = store_of(Change.append, store=store.copy())
    store_of(Change.append, store=store)
    for key, data in stranger.contents().items():
        if key not in store and not key.endswith("clock"):
            store.write(key, data)
    bucket = store.bucket()
    fork = history_of(bucket).load().fork
    with pytest.raises(ForkError, match=r"open fork at revision 3.*firn repair --keep.*collect then"):
        collected(store)
    repair(bucket, LAYOUT, fork.prefixes[0])
    store_of(Change.append, store=store)
    before = data_of(store)
    assert collected(store).orphans == () and data_of(store) == before
    assert pruned(store).floor == 4
    report = collected(store)
    assert len(report.data_files) == 1
    assert data_of(store) == set().union(*retained(store.bucket()).values())


# -- what isn't Firn's


def test_what_firn_does_not_know_is_left_alone_and_reported():
    store = store_of(*MANY)
    pruned(store)
    garbage = set(collected(store, dry_run=True).data_files)
    ticket = handle_of(store.bucket(), store.bucket().clock).begin()._replace(revision=3)
    name = f"{LAYOUT.data_prefix}{OTHER}/{'c' * 32}.parquet"
    strange = {
        f"{LAYOUT.data_prefix}README": b"?",
        f"{LAYOUT.data_prefix}{OTHER}/x.parquet": b"?",
        name: b"not Parquet",
        name.replace("c", "d"): body_of({}),
        name.replace("c", "e"): body_of(LAYOUT.namer(OTHER, ticket).metadata("", {}, extra={})),
        f"{LAYOUT.markers_prefix}README": b"?",
        f"{LAYOUT.markers_prefix}{3:020}.0badcafe.parquet": b"not Parquet",
    }
    for key, data in strange.items():
        store.write(key, data)
    report = collected(store)
    assert set(report.kept_foreign) == set(strange)
    assert set(report.data_files) == garbage
    assert all(key in store for key in strange)


def test_what_replaced_a_file_that_stays_waits():
    store = store_of(*MANY)
    kept = next(live(head_state(store)))
    first = orphan(store, 3, replaces=[kept])
    second = orphan(store, 4, replaces=[first], uuid="c" * 32)
    registered = orphan(store, 3, replaces=["elsewhere/x.parquet"], uuid="d" * 32)
    store.write("elsewhere/x.parquet", b"?")
    report = collected(store)
    assert (report.orphans, report.waiting) == ((), (*sorted([first, registered]), second))
    store.remove("elsewhere/x.parquet")
    assert collected(store).orphans == (registered,)


def test_files_outside_of_the_catalog_are_never_deleted():
    store = store_of(Change.append)
    store.write("elsewhere/x.parquet", b"?")
    bucket = store.bucket()
    handle = handle_of(bucket, bucket.clock)
    handle.commit([Add(TABLE, DataFile("elsewhere/x.parquet", 1, 0), COLUMNS)], op="register")
    handle.commit([Remove("elsewhere/x.parquet")], op="remove")
    store_of(Change.append, Change.append, store=store)
    pruned(store)
    collected(store)
    assert "elsewhere/x.parquet" in store
    assert markers(store) == [1, 2, 3]


# -- markers


def test_markers_go_with_what_they_tell():
    store = store_of(Change.append, Change.append, Change.remove, Change.soft_delete, Change.merge)
    assert markers(store) == [1, 3, 4]
    assert collected(store).markers == ()
    store_of(Change.append, Change.append, store=store)
    pruned(store)
    report = collected(store)
    assert [int(key.rpartition("/")[2][:20]) for key in report.markers] == [3, 4]
    assert markers(store) == [1], "it defines the tables"


def test_markers_of_retained_transactions_and_of_young_ones_stay():
    store = store_of(Change.append, Change.append, Change.remove, Change.append, Change.append)
    assert pruned(store, 3).floor == 3
    assert collected(store).markers == ()
    add_checkpoint(history_of(store.bucket()), 4)
    assert pruned(store).floor == 4
    assert collected(store, 1000).markers == ()
    assert len(collected(store).markers) == 1


def test_the_marker_of_a_commit_that_never_was_goes():
    store = store_of(Change.append, Change.append)
    bucket = store.bucket(plan=Script(Rule(FAILED, verb="put", key="*.transaction", every=True)))
    handle = handle_of(bucket, bucket.clock)
    with pytest.raises(StoreUnavailableError):
        Change(bucket, handle, 3).remove().commit()
    assert markers(store) == [1, 3]
    assert collected(store).markers == ()
    store_of(Change.append, Change.merge, Change.append, store=store)
    assert collected(store).markers == (), "its files exist"
    pruned(store)
    assert len(collected(store).markers) == 1


def test_a_dropped_table_is_told_as_long_as_its_files_exist():
    store = store_of(Change.append, Change.append)
    bucket = store.bucket()
    handle = handle_of(bucket, bucket.clock)
    handle.commit([Drop(OTHER)], op="drop")
    handle.commit([Define("u", b"")], op="create")
    handle.commit([Define("v", b"")], op="create")
    pruned(store)
    store.time.advance(HOUR)
    gone = collected(store, dry_run=True)
    for key in gone.data_files:
        assert 3 in markers(store)
        store.remove(key)
    assert [int(key.rpartition("/")[2][:20]) for key in collected(store).markers] == [3]


# -- what can't be told


@pytest.mark.parametrize("suffix", [".transaction", ".checkpoint"])
def test_damage_refuses(suffix):
    store = store_of(*MANY)
    pruned(store)
    key = next(k for k in store.keys(LAYOUT.transactions_prefix) if k.endswith(suffix))
    store.write(key, b"rot")
    before = store.contents(LAYOUT.data_prefix)
    with pytest.raises(CorruptObjectError, match=key):
        collected(store)
    assert store.contents(LAYOUT.data_prefix) == before


def collected_while_pruned():
    """A pruning deletes what this collection has listed and not read yet: how often it read, and what is lost."""
    store = store_of(*MANY)
    bucket = store.bucket()
    plain, calls = bucket.get_many, []

    def interrupted(keys):
        calls.extend([len(keys)] if keys else [])
        if keys and len(calls) == 1:
            assert pruned(store, 9).floor == 6
        return plain(keys)

    orphan(store, 2)
    history = history_of(bucket)
    history.load()
    bucket.get_many = interrupted
    collect(history, orphan_age_ms=0)
    return len(calls), set().union(*retained(store.bucket()).values()) - data_of(store)


def test_a_transaction_that_is_pruned_meanwhile_restarts_the_pass():
    assert collected_while_pruned() == (2, set())


def test_that_it_restarts_matters(monkeypatch):
    """Rule 24: only the checkpoint that the pruning wrote names some of the files, and nobody has listed it."""
    without.go_on_over_what_is_gone(monkeypatch)
    calls, lost = collected_while_pruned()
    assert calls == 1 and lost


def test_a_history_that_never_stands_still():
    store = store_of(*MANY)
    orphan(store, 2)
    bucket = store.bucket()
    history = history_of(bucket)
    history.load()
    bucket.get_many = lambda keys: [None for _ in keys]
    with pytest.raises(ConflictError, match=r"root/host-17/db was changed.*from one"):
        collect(history, orphan_age_ms=0)


def test_an_empty_catalog_has_nothing_to_collect():
    store = SimStore()
    orphan(store, 1)
    report = collected(store)
    assert (report.orphans, report.data_files) == ((), ())
    assert len(data_of(store)) == 1


# -- what it costs


@pytest.mark.parametrize("claims", [False, True])
def test_a_collection_costs(claims):
    store = store_of(*MANY, claims=claims)
    assert pruned(store).floor == 13
    bucket = store.bucket()
    history = history_of(bucket)
    history.load()

    def spent():
        before = bucket.counters.as_dict()
        report = collect(history, orphan_age_ms=0)
        after = bucket.counters.as_dict()
        return report, {v: after[v] - before[v] for v in ("get", "put", "list", "head", "delete")}

    report, cost = spent()
    gone, told_ = len(report.data_files), len(report.markers)
    assert gone > 5 and told_ > 1
    assert cost == {
        "get": 2 + 2 + gone + told_ + 1,
        "put": 1,
        "list": 6 if claims else 5,
        "head": 1,
        "delete": gone + told_,
    }
    assert spent()[1]["get"] == 2 + 2 + 1


def test_nothing_is_read_where_all_is_live():
    store = store_of(Change.append, Change.append)
    bucket = store.bucket()
    history = history_of(bucket)
    history.load()
    before = bucket.counters.as_dict()
    collect(history, orphan_age_ms=0)
    after = bucket.counters.as_dict()
    assert {v: after[v] - before[v] for v in ("get", "put", "list", "head")} == {
        "get": 0,
        "put": 1,
        "list": 5,
        "head": 1,
    }


def test_every_kind_is_collected_at_last():
    """Whatever was done, what is left in the end is what the newest two revisions read."""
    store = store_of(*KINDS, *KINDS[::-1], *KINDS, Change.merge, Change.append, Change.append)
    pruned(store)
    collected(store)
    assert data_of(store) == set().union(*retained(store.bucket()).values())
    assert not [m for m in markers(store) if m not in (1, history_of(store.bucket()).load().head.revision)]
