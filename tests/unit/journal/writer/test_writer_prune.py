"""Pruning a writer's catalog: what goes, what stays, what is validated first, what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.bucket import open_bucket
from firn.clock import SystemClock
from firn.errors import ConflictError, CorruptObjectError, ForkError, SnapshotTooOldError
from firn.journal.writer.format.messages import encode_checkpoint
from firn.journal.writer.history.checkpoint import add_checkpoint
from firn.journal.writer.history.history import History
from firn.journal.writer.maintain.prune import prune
from firn.testing import SimStore
from simulation.writer_catalog import LAYOUT, commit, handle_of, history_of, numbers

HOUR = 3600 * 1000


def store_of(commits, *, claims=False, checkpoints=(), hours=1):
    """A store with so many commits, each `hours` after the one before."""
    store = SimStore(conditional_put=claims)
    bucket = store.bucket()
    handle = handle_of(bucket, bucket.clock)
    for n in range(1, commits + 1):
        store.time.advance(hours * HOUR)
        commit(handle, n)
        if n in checkpoints:
            assert handle.checkpoint()
    return store


def names(store):
    return [key.rpartition("/")[2] for key in store.keys(LAYOUT.transactions_prefix)]


def revisions(store, suffix=".transaction"):
    return [int(name[:20]) for name in names(store) if name.endswith(suffix)]


def key_of(store, revision, suffix=".transaction"):
    (name,) = (name for name in names(store) if name.startswith(f"{revision:020}") and name.endswith(suffix))
    return LAYOUT.transactions_prefix + name


def pruned(store, hours=0, **options):
    return prune(history_of(store.bucket()), older_than_ms=hours * HOUR, **options)


def everything(store):
    """What every revision shows that can be read."""
    found = {}
    newest = history_of(store.bucket()).load().head.revision
    for revision in range(1, newest + 1):
        try:
            found[revision] = numbers(history_of(store.bucket()).at(revision).state)
        except SnapshotTooOldError:
            continue
    return found


@pytest.mark.parametrize(
    ("checkpoints", "hours", "floor", "written"),
    [
        ((10, 20, 30), 0, 39, [39, 40]),
        ((10, 20, 30), 10, 30, [40]),
        ((10, 20, 30), 15, 25, [25]),
        ((10, 20, 30), 20, 20, []),
        ((10, 20, 30), 35, 5, [5]),
        ((39, 40), 0, 39, []),
        ((40,), 0, 39, [39]),
        ((), 10, 30, [30, 40]),
    ],
)
def test_the_floor_is_the_newest_revision_of_age(checkpoints, hours, floor, written):
    store = store_of(40, checkpoints=checkpoints)
    store.time.advance(HOUR // 2)
    before = everything(store)
    expected = {r: shown for r, shown in before.items() if r >= floor}
    report = pruned(store, hours, dry_run=True)
    assert everything(store) == before
    assert pruned(store, hours) == replace(report, dry_run=False)
    assert (report.floor, report.warnings) == (floor, ())
    assert [int(key.rpartition("/")[2][:20]) for key in report.written] == written
    assert report.deleted == tuple(sorted(report.deleted))
    assert everything(store) == expected
    assert revisions(store) == list(range(floor, 41))
    assert len(revisions(store, ".checkpoint")) >= 2
    assert report.bytes > 0
    with pytest.raises(SnapshotTooOldError, match="pruned"):
        history_of(store.bucket()).at(floor - 1)


def test_pruning_again_deletes_nothing():
    store = store_of(40, checkpoints=(10, 20, 30))
    floor = pruned(store).floor
    left = store.contents(LAYOUT.transactions_prefix)
    again = pruned(store)
    assert (again.floor, again.deleted, again.written) == (floor, (), ())
    assert store.contents(LAYOUT.transactions_prefix) == left


def test_pruning_goes_on_as_the_history_does():
    store = store_of(10)
    assert pruned(store).floor == 9
    handle = handle_of(store.bucket(), store.bucket().clock)
    for n in range(11, 15):
        store.time.advance(HOUR)
        commit(handle, n)
    assert pruned(store, 2).floor == 12
    assert pruned(store, 1).floor == 13
    assert pruned(store, 3).deleted == ()
    assert everything(store).keys() == {13, 14}


@pytest.mark.parametrize("commits", [0, 1, 2])
def test_nothing_goes_where_there_is_nothing_to_go(commits):
    store = store_of(commits)
    report = pruned(store)
    assert (report.floor, report.deleted, report.written) == (0, (), ())
    assert revisions(store) == list(range(1, commits + 1))


def test_what_is_young_stays():
    store = store_of(10, checkpoints=(4, 8))
    before = store.contents(LAYOUT.root)
    assert pruned(store, 1000).deleted == ()
    assert {k: v for k, v in store.contents(LAYOUT.root).items() if k != LAYOUT.clock_key} == before


def test_age_is_told_by_the_stores_clock():
    """Clients' clocks may be off by days: they neither stamp the objects nor say what time it is."""
    store = store_of(10, checkpoints=(4, 8))
    for skew in (-1000 * HOUR, 1000 * HOUR):
        report = prune(history_of(store.bucket(skew_ms=skew)), older_than_ms=6 * HOUR, dry_run=True)
        assert report.floor == 4


def test_a_hint_that_names_what_goes_is_mended():
    store = store_of(40, checkpoints=(10,))
    for revision in (20, 30):
        add_checkpoint(history_of(store.bucket()), revision)
    assert b'"revision":10' in store.contents()[LAYOUT.hint_key]
    assert pruned(store, 20).floor == 20
    bucket = store.bucket()
    assert numbers(history_of(bucket).load().state) == {n: n for n in range(1, 41)}
    assert bucket.counters.list == 1


def test_claims_below_the_floor_go_too():
    store = store_of(20, claims=True, checkpoints=(8, 16))
    store.write(f"{LAYOUT.claims_prefix}README", b"left alone")
    report = pruned(store, 4)
    claims = [key.rpartition("/")[2] for key in store.keys(LAYOUT.claims_prefix)]
    assert report.floor == 16
    assert claims == [*(f"{n:020}" for n in range(16, 21)), "README"]
    commit(handle_of(store.bucket(), store.bucket().clock), 21)
    assert history_of(store.bucket()).load().head.revision == 21


def test_unknown_objects_are_left_alone():
    store = store_of(20, checkpoints=(8, 16))
    strange = [f"{LAYOUT.transactions_prefix}{name}" for name in ("0", "00000000000000000003.tmp", "a/b")]
    for key in strange:
        store.write(key, b"?")
    assert set(strange).isdisjoint(pruned(store).deleted)
    assert all(key in store for key in strange)


def test_a_directory(tmp_path):
    bucket = open_bucket(str(tmp_path))
    handle = handle_of(bucket, SystemClock())
    for n in range(1, 6):
        commit(handle, n)
    assert prune(history_of(bucket), older_than_ms=3600_000).deleted == ()
    assert prune(history_of(bucket), older_than_ms=0).floor == 4
    assert numbers(history_of(bucket).load().state) == {n: n for n in range(1, 6)}


def test_a_history_that_others_prune_again_and_again():
    bucket = store_of(10).bucket()
    history = history_of(bucket)
    history.load()
    bucket.get_many = lambda keys: [None for _ in keys]
    with pytest.raises(
        ConflictError, match=r"root/host-17/db was pruned by another process in each of 4.*one process"
    ):
        prune(history, older_than_ms=0)


# -- validation


def test_a_damaged_checkpoint_proves_nothing():
    store = store_of(40, checkpoints=(10, 20, 30))
    store.write(key_of(store, 30, ".checkpoint"), b"rot")
    report = pruned(store, 20)
    assert report.floor == 20
    assert f"{30:020}" in report.warnings[0] and "delete it" in report.warnings[0]
    assert [int(key.rpartition("/")[2][:20]) for key in report.written] == [40]


def test_a_damaged_checkpoint_is_written_anew_where_it_is_needed():
    store = store_of(10, checkpoints=(9,))
    key = key_of(store, 9, ".checkpoint")
    store.write(key, b"rot")
    report = pruned(store)
    assert report.floor == 9 and key in report.written
    assert everything(store).keys() == {9, 10}


@pytest.mark.parametrize("which", [16, 18])
def test_a_checkpoint_that_says_something_else_is_refused(which):
    """Whole by its checksum, and wrong: what a bug writes."""
    store = store_of(20, checkpoints=(16, 18))
    key = key_of(store, which, ".checkpoint")
    state = history_of(store.bucket()).at(which).state
    table = state.tables["t"]
    files = dict(list(table.files.items())[1:])
    store.write(key, encode_checkpoint(replace(state, tables={"t": replace(table, files=files)})))
    store.remove(LAYOUT.hint_key)
    before = store.contents(LAYOUT.transactions_prefix)
    with pytest.raises(CorruptObjectError, match=f"{key} isn't what the transactions.*delete it, and prune"):
        pruned(store, 4)
    assert store.contents(LAYOUT.transactions_prefix) == before
    store.remove(key)
    pruned(store)


def test_a_damaged_transaction_refuses():
    store = store_of(20, checkpoints=(8, 16))
    key = key_of(store, 5)
    store.write(key, b"rot")
    before = store.contents(LAYOUT.transactions_prefix)
    with pytest.raises(CorruptObjectError, match=f"{key}.*firn rebuild"):
        pruned(store)
    assert store.contents(LAYOUT.transactions_prefix) == before


def test_what_nothing_older_proves_is_no_floor():
    """A transaction is lost, and the oldest checkpoint above it, 20, can't be compared with anything."""
    store = store_of(40, checkpoints=(10, 20, 30))
    store.remove(key_of(store, 15))
    assert pruned(store, 20).deleted == ()
    assert pruned(store, 15).floor == 25


def test_what_a_pruning_that_died_has_left_goes():
    store = store_of(40, checkpoints=(10, 20, 30))
    for key in pruned(store, 20, dry_run=True).deleted[:17]:
        store.remove(key)
    assert revisions(store)[0] == 17
    report = pruned(store, 20)
    assert (report.floor, revisions(store)[0], revisions(store, ".checkpoint")) == (20, 20, [20, 30])


def test_what_a_process_that_slept_has_sent_goes():
    """It was about to write revision 1, and woke when that was pruned."""
    store = store_of(6, checkpoints=(2, 4))
    stranger = SimStore()
    commit(handle_of(stranger.bucket(), stranger.bucket().clock), 100)
    assert pruned(store, 4).floor == 2
    (stray,) = stranger.keys(LAYOUT.transactions_prefix)
    store.write(stray, stranger.contents()[stray])
    with pytest.raises(SnapshotTooOldError, match=r"revision 1 of .* was pruned, and another process"):
        history_of(store.bucket()).at(1)
    report = pruned(store, 2)
    assert report.floor == 4 and stray in report.deleted
    assert everything(store).keys() == {4, 5, 6}


# -- forks


def rival_of(store, number):
    """What another process of that id wrote at the newest revision, at the same time."""
    key = key_of(store, number)
    stranger = store.copy()
    stranger.remove(key)
    commit(handle_of(stranger.bucket(), stranger.bucket().clock), 1000 + number)
    return next((k, v) for k, v in stranger.contents(LAYOUT.transactions_prefix).items() if k not in store)


def test_an_open_fork_refuses():
    store = store_of(10, checkpoints=(4, 8))
    store.write(*rival_of(store, 10))
    with pytest.raises(ForkError, match=r"open fork at revision 10.*firn repair --keep"):
        pruned(store)


def test_a_branch_that_lost_goes_first_and_is_never_cut():
    store = store_of(10)
    key, data = rival_of(store, 10)
    handle = handle_of(store.bucket(), store.bucket().clock)
    for n in range(11, 21):
        store.time.advance(HOUR)
        commit(handle, n)
        if n == 11:
            store.write(key, data)
    for revision in (10, 18):
        add_checkpoint(history_of(store.bucket()), revision)
    report = pruned(store, 10)
    assert report.floor == 9 and key in store
    report = pruned(store)
    assert report.floor == 19 and report.deleted[0] == key
    assert list(report.deleted[1:]) == sorted(report.deleted[1:])
    assert everything(store).keys() == {19, 20}


# -- what it costs


@pytest.mark.parametrize("claims", [False, True])
def test_a_prune_costs(claims):
    store = store_of(40, claims=claims, checkpoints=(10, 20, 30))
    bucket = store.bucket()
    history = History(bucket, LAYOUT)
    history.load()
    before = bucket.counters.as_dict()
    report = prune(history, older_than_ms=20 * HOUR)
    after = bucket.counters.as_dict()
    spent = {verb: after[verb] - before[verb] for verb in ("get", "put", "list", "head", "delete")}
    assert report.floor == 20
    assert spent == {
        "get": 30 + 2 + 1,
        "put": 1,
        "list": 3 if claims else 2,
        "head": 1,
        "delete": 19 + 1 + (19 if claims else 0),
    }
    before = bucket.counters.as_dict()
    prune(history, older_than_ms=20 * HOUR)
    after = bucket.counters.as_dict()
    spent = {verb: after[verb] - before[verb] for verb in ("get", "put", "list", "head", "delete")}
    assert spent == {"get": 1, "put": 1, "list": 3 if claims else 2, "head": 1, "delete": 0}
