"""A writer's catalog on a store: reading, going back in time, committing, and what damaged or dirty stores do."""

from __future__ import annotations

import random

import pytest

from firn.bucket import open_bucket
from firn.bucket.base import Listing
from firn.errors import (
    CorruptObjectError,
    ForkError,
    HandleClosedError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StoreUnavailableError,
    UnsupportedError,
)
from firn.journal.model import DataFile
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.actions import Add, Define, Remove
from firn.journal.writer.format.layout import WriterLayout, padded
from firn.journal.writer.history.checkpoint import add_checkpoint, is_due
from firn.journal.writer.history.history import History
from firn.testing import FAILED, LOST_ACK, TRUNCATED, Rule, Script, SimStore, delayed

LAYOUT = WriterLayout("", "w", "db")


def store_of(commits, *, claims=False, checkpoints=(), page_size=1000):
    """A store with so many commits; commit n adds the file n."""
    store = SimStore(conditional_put=claims, page_size=page_size)
    bucket = store.bucket()
    handle = open_handle(bucket)
    for n in range(1, commits + 1):
        put(handle, n)
        if n in checkpoints:
            assert handle.checkpoint()
    return store


def open_handle(bucket):
    return Handle(History(bucket, LAYOUT), clock=getattr(bucket, "clock", None))


def put(handle, n, *, ticket=None, **options):
    """Commit the file n, which was begun with the ticket."""
    ticket = ticket or handle.begin()
    define = [] if handle.head.revision else [Define("t", b"")]
    return handle.commit([*define, Add("t", file_of(ticket, n))], op="append", ticket=ticket, **options)


def file_of(ticket, n):
    return DataFile(f"{LAYOUT.data_prefix}t/{ticket.uuid[:8]}{n:024}.parquet", 1, 0)


def names(version):
    table = version.state.tables.get("t")
    return [] if table is None else [f"f{int(path[-32:-8])}" for path in table.files]


def all_names(n):
    return [f"f{i}" for i in range(1, n + 1)]


def spent(bucket, work):
    before = bucket.counters.as_dict()
    work()
    after = bucket.counters.as_dict()
    return {v: after[v] - before[v] for v in ("get", "put", "list", "head", "delete") if after[v] > before[v]}


def keys(store, suffix):
    return [key for key in store.keys(LAYOUT.transactions_prefix) if key.endswith(suffix)]


# -- reading


def test_an_empty_catalog():
    version = History(SimStore().bucket(), LAYOUT).load()
    assert (version.head.revision, version.state.tables, version.warnings) == (0, {}, ())


def test_opening_costs_one_list_from_the_checkpoint_on_one_get_and_the_tail():
    bucket = store_of(30, checkpoints=(10, 25)).bucket()
    history = History(bucket, LAYOUT)
    assert spent(bucket, history.load) == {"list": 1, "get": 2 + 5}
    assert names(history.load()) == all_names(30)


def test_a_refresh_costs_one_list_and_what_is_new():
    store = store_of(5)
    bucket = store.bucket()
    history = History(bucket, LAYOUT)
    history.load()
    assert spent(bucket, history.load) == {"list": 1}
    put(open_handle(store.bucket()), 6)
    assert spent(bucket, history.load) == {"list": 1, "get": 1}
    assert names(history.load()) == all_names(6)


@pytest.mark.parametrize(("claims", "cost"), [(False, {"put": 1, "list": 2}), (True, {"put": 2, "get": 1})])
def test_a_commit_costs(claims, cost):
    bucket = store_of(3, claims=claims).bucket()
    handle = open_handle(bucket)
    for n in (4, 5):
        assert spent(bucket, lambda n=n: put(handle, n)) == cost
    assert spent(bucket, handle.history.load) == {"list": 1}


@pytest.mark.parametrize("checkpoints", [(), (4,), (4, 8), (10,)])
def test_time_travel(checkpoints):
    store = store_of(10, checkpoints=checkpoints)
    history = History(store.bucket(), LAYOUT)
    times = {t.revision: t.commit.time_ms for t in History(store.bucket(), LAYOUT).transactions()}
    assert list(times) == list(range(1, 11))
    for revision in range(11):
        assert names(history.at(revision)) == all_names(revision)
    for revision, ms in times.items():
        assert names(history.at_time(ms)) == all_names(revision)
        assert names(History(store.bucket(), LAYOUT).at_time(ms - 1)) == all_names(revision - 1)
    assert names(history.at_time(times[10] + 10**9)) == all_names(10)
    with pytest.raises(NotFoundError, match="no revision 11; the newest is 10"):
        history.at(11)
    with pytest.raises(InvalidInputError):
        history.at(-1)


def test_what_was_pruned_is_too_old():
    store = store_of(10, checkpoints=(4, 8))
    for key in store.keys(LAYOUT.transactions_prefix):
        if key < LAYOUT.before(8):
            store.remove(key)
    history = History(store.bucket(), LAYOUT)
    assert names(history.load()) == all_names(10)
    assert names(history.at(8)) == all_names(8)
    for revision in (0, 3, 7):
        with pytest.raises(SnapshotTooOldError, match="w/db"):
            history.at(revision)
    with pytest.raises(SnapshotTooOldError, match="begins with revision 8"):
        history.at_time(0)
    assert [t.revision for t in history.transactions()] == [8, 9, 10]


def test_the_order_of_a_listing_changes_nothing(monkeypatch):
    store = store_of(12, checkpoints=(5, 9))
    expected = History(store.bucket(), LAYOUT).load()
    for seed in range(5):
        bucket = store.bucket()
        plain = bucket.list

        def shuffled(prefix, *, after=None, plain=plain, seed=seed):
            objects = list(plain(prefix, after=after).objects)
            random.Random(seed).shuffle(objects)
            return Listing(tuple(objects), atomic=True)

        monkeypatch.setattr(bucket, "list", shuffled)
        history = History(bucket, LAYOUT)
        assert history.load() == expected
        assert names(history.at(7)) == all_names(7)


@pytest.mark.parametrize("page_size", [1, 2, 3])
def test_pages_change_nothing(page_size):
    store = store_of(9, checkpoints=(4,), page_size=page_size)
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(9)


def test_a_directory_where_no_list_is_of_one_moment(tmp_path):
    bucket = open_bucket(str(tmp_path))
    handle = open_handle(bucket)
    for n in (1, 2, 3):
        put(handle, n)
    assert add_checkpoint(History(bucket, LAYOUT)).revision == 3
    put(handle, 4)
    assert names(History(bucket, LAYOUT).load()) == all_names(4)


# -- damage


def test_a_corrupt_checkpoint_costs_a_warning():
    store = store_of(10, checkpoints=(4, 8))
    store.write(keys(store, ".checkpoint")[1], b"rot")
    for key in (None, LAYOUT.hint_key):
        if key is not None:
            store.remove(key)
        version = History(store.bucket(), LAYOUT).load()
        assert names(version) == all_names(10)
        assert "0008" in version.warnings[0] and "delete it" in version.warnings[0]


@pytest.mark.parametrize(
    "hint", [b"", b"{}", b"[1]", b'{"revision": 3, "uuid": "00000000"}', b'{"revision": -1, "uuid": ""}']
)
def test_a_hint_is_never_trusted(hint):
    store = store_of(10, checkpoints=(4,))
    store.write(LAYOUT.hint_key, hint)
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(10)


def test_a_missing_transaction_is_named():
    store = store_of(5)
    store.remove(keys(store, ".transaction")[2])
    with pytest.raises(CorruptObjectError, match=r"w/db.*revision 3 is missing.*firn rebuild"):
        History(store.bucket(), LAYOUT).load()


def test_a_damaged_transaction_is_named():
    store = store_of(5)
    key = keys(store, ".transaction")[2]
    store.write(key, store.contents()[key][:-1])
    with pytest.raises(CorruptObjectError, match=f"{key}.*firn rebuild"):
        History(store.bucket(), LAYOUT).load()


@pytest.mark.parametrize("kind", [".transaction", ".checkpoint"])
@pytest.mark.parametrize("change", ["revision", "uuid", "writer"])
def test_an_object_under_a_wrong_name_is_refused(kind, change):
    store = store_of(3, checkpoints=(3,))
    key = keys(store, kind)[-1]
    body = store.contents()[key]
    store.remove(LAYOUT.hint_key)
    layout = LAYOUT
    if change == "writer":
        layout = WriterLayout("", "other", "db")
        for k, data in store.contents(LAYOUT.transactions_prefix).items():
            store.write(k.replace("w/db/", "other/db/"), data)
    else:
        store.remove(key)
        renamed = (
            key.replace(padded(3), padded(2))
            if change == "revision"
            else key[: -len(kind) - 8] + "0" * 8 + kind
        )
        if change == "revision":
            for k in keys(store, ""):
                if padded(2) in k:
                    store.remove(k)
        store.write(renamed, body)
    reader = History(store.bucket(), layout).reader
    names_ = [layout.parse(k) for k in store.keys(layout.transactions_prefix) if k.endswith(kind)]
    with pytest.raises(CorruptObjectError, match="it says that"):
        if kind == ".checkpoint":
            reader.checkpoint(names_[-1])
        else:
            for found in reader.transactions([(n.revision, n.prefix) for n in names_]).values():
                if isinstance(found, CorruptObjectError):
                    raise found


def test_unknown_objects_are_left_alone_with_a_warning():
    store = store_of(3)
    for name in (
        "README",
        "00000000000000000002.0badcafe.tmp",
        "old/00000000000000000009.0badcafe.transaction",
    ):
        store.write(LAYOUT.transactions_prefix + name, b"?")
    before = store.keys()
    handle = open_handle(store.bucket())
    assert len(handle.history.load().warnings) == 3
    put(handle, 4)
    assert set(before) < set(store.keys())
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(4)


def test_a_history_that_shrinks_is_an_error():
    store = store_of(5)
    history = History(store.bucket(), LAYOUT)
    history.load()
    store.remove(keys(store, ".transaction")[-1])
    with pytest.raises(CorruptObjectError, match="had revision 5 and now ends at 4"):
        history.load()


# -- committing


def test_times_never_fall_though_clocks_do():
    store = store_of(2)
    handle = open_handle(store.bucket(skew_ms=-3_600_000))
    assert put(handle, 3).time_ms == handle.history.at(2).head.time_ms


def test_what_cannot_be_committed_sends_nothing():
    store = store_of(2)
    bucket = store.bucket()
    handle = open_handle(bucket)
    there = next(iter(handle.state.tables["t"].files.values())).file
    for actions in ([Add("t", there)], [Remove("f9")], [Add("u", DataFile("x", 1, 0))]):
        with pytest.raises(InvalidInputError, match=r"can't be committed.*revision 3"):
            assert spent(bucket, lambda a=actions: handle.commit(a, op="append")) == {}
    with pytest.raises(InvalidInputError):
        handle.commit([], op="x", summary={"bad": object()})
    put(handle, 3)


@pytest.mark.parametrize("claims", [False, True])
def test_a_second_process_closes_the_handle_of_the_first(claims):
    store = store_of(2, claims=claims)
    first, second = open_handle(store.bucket()), open_handle(store.bucket())
    put(second, 3)
    with pytest.raises(HandleClosedError, match="open the catalog again"):
        put(first, 4)
    assert first.closed
    with pytest.raises(HandleClosedError):
        put(first, 4)
    put(open_handle(store.bucket()), 4)
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(4)


def test_a_fork_is_refused_by_writers_and_shown_to_readers():
    store = store_of(3)
    stranger = store.copy()
    cursor = History(store.bucket(), LAYOUT)
    put(open_handle(store.bucket()), 4)
    cursor.load()
    put(open_handle(stranger.bucket()), 5)
    (rival,) = (k for k in stranger.contents() if k not in store)
    store.write(rival, stranger.contents()[rival])
    version = History(store.bucket(), LAYOUT).load()
    assert version.head.revision == 3 and version.fork.revision == 4 and not version.fork.hard
    assert "open fork at revision 4" in version.warnings[-1]
    for refused in (
        lambda: open_handle(store.bucket()),
        cursor.load,
        lambda: History(store.bucket(), LAYOUT).at(4),
        lambda: add_checkpoint(History(store.bucket(), LAYOUT)),
    ):
        with pytest.raises(ForkError, match=r"firn repair --keep"):
            refused()


def test_an_unanswered_commit_is_settled_by_the_same_bytes():
    store = store_of(2)
    script = Script(Rule(delayed(3600), verb="put", every=True))
    handle = open_handle(store.bucket(plan=script))
    with pytest.raises(OutcomeUnknownError, match=r"sends the same bytes again"):
        put(handle, 3)
    with pytest.raises(OutcomeUnknownError, match=r"nothing can be committed after it"):
        put(handle, 4)
    script.rules = ()
    assert handle.settle().revision == 3
    put(handle, 4)
    store.time.settle()
    assert names(History(store.bucket(), LAYOUT).load()) == ["f1", "f2", "f3", "f4"]
    assert len(keys(store, ".transaction")) == 4


@pytest.mark.parametrize("claims", [False, True])
def test_a_lost_answer_is_no_loss(claims):
    store = store_of(2, claims=claims)
    for verb in ("put", "put_if_absent") if claims else ("put",):
        handle = open_handle(store.bucket(plan=Script(Rule(LOST_ACK, verb=verb))))
        head = put(handle, handle.head.revision + 1)
        assert names(History(store.bucket(), LAYOUT).load()) == all_names(head.revision)


@pytest.mark.parametrize("claims", [False, True])
def test_a_commit_that_was_not_sent_leaves_the_handle_usable(claims):
    store = store_of(2, claims=claims)
    handle = open_handle(store.bucket(plan=Script(Rule(FAILED, verb=("put", "put_if_absent")))))
    with pytest.raises(StoreUnavailableError):
        put(handle, 3)
    assert put(handle, 3).revision == 3


@pytest.mark.parametrize("claims", [False, True])
def test_overlapping_commits_of_one_handle_all_count(claims):
    store = store_of(2, claims=claims)
    handle = open_handle(store.bucket())
    first, second = handle.begin(), handle.begin()
    assert first[:1] == second[:1] == (3,) and first.previous == second.previous == handle.head.uuid
    assert put(handle, 3, ticket=second).uuid == second.uuid
    overtaken = put(handle, 4, ticket=first)
    assert overtaken.revision == 4 and overtaken.uuid not in (first.uuid, second.uuid)
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(4)
    assert [LAYOUT.parse_marker(key).revision for key in store.keys(LAYOUT.markers_prefix)] == [1, 4]


def test_a_claim_that_its_owner_left_is_finished():
    store = store_of(2, claims=True)
    owner = open_handle(store.bucket(plan=Script(Rule(FAILED, verb="put", every=True))))
    with pytest.raises(OutcomeUnknownError):
        put(owner, 3)
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(2)
    with pytest.raises(HandleClosedError):
        put(open_handle(store.bucket()), 4)
    put(open_handle(store.bucket()), 4)
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(4)


def test_a_history_keeps_its_discipline():
    plain, claimed = store_of(2), store_of(2, claims=True)
    plain.conditional_put, claimed.conditional_put = True, False
    bucket = plain.bucket()
    handle = open_handle(bucket)
    assert spent(bucket, lambda: put(handle, 3)) == {"put": 1, "list": 2}
    with pytest.raises(UnsupportedError, match="kept by claims"):
        open_handle(claimed.bucket())


# -- checkpoints


def test_checkpoints_can_be_added_later():
    store = store_of(9)
    history = History(store.bucket(), LAYOUT)
    assert add_checkpoint(history, 4).revision == 4
    assert add_checkpoint(history).revision == 9
    assert len(keys(store, ".checkpoint")) == 2
    bucket = store.bucket()
    assert spent(bucket, History(bucket, LAYOUT).load) == {"list": 1, "get": 2}
    assert add_checkpoint(History(SimStore().bucket(), LAYOUT)) is None


def test_a_checkpoint_equals_a_replay():
    store = store_of(9, checkpoints=(5,))
    bare = store.copy()
    for key in keys(bare, ".checkpoint"):
        bare.remove(key)
    assert History(store.bucket(), LAYOUT).load() == History(bare.bucket(), LAYOUT).load()


def test_no_checkpoint_beside_a_rival():
    store = store_of(3)
    handle = open_handle(store.bucket())
    put(handle, 4)
    store.write(LAYOUT.transaction_key(4, "0" * 32), b"a rival, whatever it holds")
    assert not handle.checkpoint()
    assert keys(store, ".checkpoint") == []


def test_checkpoints_are_due_by_count():
    history = History(store_of(7, checkpoints=(4,)).bucket(), LAYOUT)
    assert history.load().head.revision == 7
    assert is_due(history, 7, every=3) and not is_due(history, 7, every=4)


def test_a_fork_whose_past_is_pruned_is_decided():
    store = store_of(10, checkpoints=(8,))
    store.remove(LAYOUT.hint_key)
    for key in store.keys(LAYOUT.transactions_prefix):
        if key < LAYOUT.before(5):
            store.remove(key)
    store.write(LAYOUT.transaction_key(5, "0" * 32), b"a rival that lost")
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(10)
    with pytest.raises(SnapshotTooOldError):
        History(store.bucket(), LAYOUT).at(6)


def test_a_checkpoint_that_was_written_below_the_floor_is_no_base():
    store = store_of(10, checkpoints=(3, 8))
    for key in store.keys(LAYOUT.transactions_prefix):
        if key < LAYOUT.before(8) and not key.endswith(".checkpoint"):
            store.remove(key)
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(10)
    for revision in (4, 7):
        with pytest.raises(SnapshotTooOldError):
            History(store.bucket(), LAYOUT).at(revision)


def test_a_checkpoint_that_is_cut_short_once_is_read_again():
    store = store_of(10, checkpoints=(8,))
    for key in store.keys(LAYOUT.transactions_prefix):
        if key < LAYOUT.before(8):
            store.remove(key)
    bucket = store.bucket(plan=Script(Rule(TRUNCATED, key="*.checkpoint")))
    version = History(bucket, LAYOUT).load()
    assert names(version) == all_names(10) and version.warnings == ()


# -- what another process does meanwhile


def meanwhile(handle, monkeypatch, work):
    """Run `work` right after the handle's next PUT."""
    bucket = handle.history.bucket
    plain = bucket.put

    def interrupted(key, data, **options):
        monkeypatch.undo()
        etag = plain(key, data, **options)
        work()
        return etag

    monkeypatch.setattr(bucket, "put", interrupted)


def test_a_child_proves_its_parent_and_closes_the_handle(monkeypatch):
    store = store_of(2)
    handle = open_handle(store.bucket())
    meanwhile(handle, monkeypatch, lambda: put(open_handle(store.bucket()), 4))
    assert put(handle, 3).revision == 3
    assert handle.closed
    with pytest.raises(HandleClosedError, match="after revision 3"):
        put(handle, 5)
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(4)


def test_a_rival_is_never_acknowledged_over(monkeypatch):
    store = store_of(2)
    handle = open_handle(store.bucket())
    rival = LAYOUT.transaction_key(3, "0" * 32)
    meanwhile(handle, monkeypatch, lambda: store.write(rival, b"whatever"))
    with pytest.raises(ForkError, match=f"{rival}.*isn't acknowledged"):
        put(handle, 3)
    assert handle.closed


def test_a_settled_commit_meets_its_rival():
    store = store_of(2)
    script = Script(Rule(delayed(3600), verb="put", every=True))
    handle = open_handle(store.bucket(plan=script))
    with pytest.raises(OutcomeUnknownError):
        put(handle, 3)
    script.rules = ()
    put(open_handle(store.bucket()), 4)
    with pytest.raises(ForkError):
        handle.settle()
    assert len(keys(store, ".transaction")) == 3


def test_a_rival_that_lands_late_is_decided_by_the_next_commit():
    store = store_of(2)
    stranger = store.copy()
    handle = open_handle(store.bucket())
    put(handle, 3)
    put(open_handle(stranger.bucket()), 9)
    (key,) = (k for k in stranger.contents() if padded(3) in k)
    store.write(key, stranger.contents()[key])
    assert History(store.bucket(), LAYOUT).load().fork.revision == 3
    put(handle, 4)
    assert names(History(store.bucket(), LAYOUT).load()) == all_names(4)


def test_a_foreign_checkpoint_at_the_head_is_a_fork():
    store = store_of(2)
    handle = open_handle(store.bucket())
    store.write(LAYOUT.checkpoint_key(2, "0" * 32), b"whatever")
    with pytest.raises(ForkError, match="checkpoint of another transaction"):
        put(handle, 3)


def test_a_wiped_store_closes_the_handle():
    store = store_of(2)
    handle = open_handle(store.bucket())
    for key in store.contents():
        store.remove(key)
    with pytest.raises(HandleClosedError, match="has lost revision 2"):
        put(handle, 3)
    assert store.keys() == []
