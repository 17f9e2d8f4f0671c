"""Rebuilding a writer's catalog: what is brought back, what is left out and named, what is left alone, its cost."""

from __future__ import annotations

import random
import struct
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn.journal.writer.rebuild.recovery as recovery
from firn.bucket import open_bucket
from firn.errors import (
    CorruptObjectError,
    ForkError,
    HandleClosedError,
    SnapshotTooOldError,
    UnsupportedError,
)
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.actions import (
    CatalogTransaction,
    CommitRecord,
    Define,
    Remove,
    Resolve,
    Tombstones,
)
from firn.journal.writer.format.identity import new_uuid
from firn.journal.writer.format.layout import padded
from firn.journal.writer.format.messages import encode_transaction
from firn.journal.writer.history.history import History
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.maintain.prune import prune
from firn.journal.writer.rebuild.surviving_objects import FoundFile
from firn.lake.maintain.rebuild import footers_task, rebuild
from firn.lake.parquet.footer import footer_crc
from firn.lake.partition.partition import PartitionSpec
from firn.lake.write.write import WriteSpec, write_batches
from firn.runner import LocalRunner
from firn.testing import SimStore
from rebuilding import (
    COLUMNS,
    LAYOUT,
    Historian,
    catalog_keys,
    facts,
    loaded,
    opened,
    rebuilt,
    written,
)


def started(appends=3, *, claims=False):
    """A store whose writer appended so often, each time one file."""
    made = Historian(SimStore(conditional_put=claims), random.Random(1))
    for _ in range(appends):
        append(made)
    return made


def append(made, **options):
    ticket = made.handle.begin()
    adds = written(made.bucket, ticket, made.rows(), **options)
    made.commit(list(adds), op="append", ticket=ticket)
    return adds[0].file.path


def lose(store, *suffixes):
    """Delete the catalog, or the objects whose names end or begin so."""
    for key in catalog_keys(store):
        name = key.rpartition("/")[2]
        if not suffixes or any(name.endswith(s) or name.startswith(s) for s in suffixes):
            store.remove(key)


def transaction(n):
    return padded(n) + "."


def key_of(store, n, kind=".transaction"):
    (key,) = (k for k in store.keys(LAYOUT.transactions_prefix) if f"/{padded(n)}." in k and k.endswith(kind))
    return key


def paths(store):
    state = loaded(store)
    return [path for table in state.tables.values() for path in table.files]


def orphan(made, **changes):
    """A file that was begun for the next revision and never committed; its path."""
    ticket = made.handle.begin()._replace(**changes)
    return written(made.bucket, ticket, made.rows())[0].file.path


# -- a whole catalog


def test_an_empty_store_is_nothing_to_rebuild():
    store = SimStore()
    report = rebuilt(store)
    assert report.healthy and report.revision == 0 and not store.contents()
    assert rebuilt(store, force=True).healthy and not store.contents()


@pytest.mark.parametrize("claims", [False, True])
def test_a_whole_catalog_is_left_alone(claims):
    made = started(claims=claims)
    made.checkpoint()
    left = orphan(made)
    before = made.store.contents()
    report = rebuilt(made.store)
    assert report.healthy and report.revision == 3 and report.unproven == (left,)
    assert made.store.contents() == before


def test_by_force_files_that_nothing_names_come_back():
    made = started()
    left = orphan(made)
    report = rebuilt(made.store, force=True)
    assert report.damage == ("it was asked for",) and report.unproven == report.files == (left,)
    assert left in paths(made.store) and report.revision == 5


def test_a_dry_run_writes_nothing():
    made = started()
    lose(made.store)
    before = made.store.contents()
    report = rebuilt(made.store, dry_run=True)
    assert report.dry_run and report.rebuilt == (1, 2, 3, 4) and made.store.contents() == before
    assert rebuilt(made.store).rebuilt == report.rebuilt


# -- what it costs


@pytest.mark.parametrize("claims", [False, True])
def test_a_rebuild_reads_footers_only(claims):
    made = started(20, claims=claims)
    lose(made.store)
    bucket = made.store.bucket()
    before = bucket.counters.as_dict()
    report = rebuild(bucket, LAYOUT, LocalRunner(threads=2), clock=bucket.clock)
    spent = {verb: n - before[verb] for verb, n in bucket.counters.as_dict().items()}
    # 20 data files and 1 marker, and a hint that isn't there; 21 transactions, 1 checkpoint, 1 marker and 1 hint
    assert (spent["list"], spent["get"], spent["put"]) == (4, 22, 24 + 21 * claims)
    assert report.footers_read == 21 and 0 < report.bytes_read <= spent["bytes_in"]


def test_files_that_a_sound_transaction_adds_are_not_read():
    made = started(5)
    lose(made.store, transaction(3))
    assert rebuilt(made.store).footers_read == 1 + 1


# -- damage


def test_a_damaged_transaction_is_written_anew_under_its_name():
    made = started(4)
    key = key_of(made.store, 3)
    made.store.write(key, made.store.contents()[key][:-1])
    report = rebuilt(made.store)
    assert (
        report.rebuilt == (3, 5)
        and key in report.unreadable
        and "is not a transaction" in report.unreadable[key]
    )
    assert facts(loaded(made.store)) == made.truth[4]
    assert facts(History(made.store.bucket(), LAYOUT).at(3).state) == made.truth[3]
    assert key_of(made.store, 3) == key


def test_a_damaged_transaction_of_which_nothing_else_tells_is_proven_by_its_object():
    made = started(3)
    path = next(iter(made.handle.state.tables["t"].files))
    made.commit([Remove(path)], op="remove")
    key = key_of(made.store, 4)
    made.store.write(key, b"")
    assert not rebuilt(made.store).unproven
    assert facts(loaded(made.store)) == made.truth[4]


def test_a_checkpoint_on_which_all_rests_is_brought_back():
    made = started(6)
    made.checkpoint()
    append(made)
    for n in range(1, 6):
        made.store.remove(key_of(made.store, n))
    key = key_of(made.store, 6, ".checkpoint")
    made.store.write(key, b"x")
    with pytest.raises(SnapshotTooOldError, match="firn rebuild"):
        loaded(made.store)
    report = rebuilt(made.store)
    # its beginning is all there, in data files and markers
    assert report.damage and report.first == 0 and facts(loaded(made.store)) == made.truth[7]


def test_what_is_pruned_stays_pruned():
    made = started(6)
    made.checkpoint()
    append(made)
    for n in range(1, 6):
        made.store.remove(key_of(made.store, n))
    made.store.remove(key_of(made.store, 7))
    report = rebuilt(made.store, force=True)
    assert facts(loaded(made.store)) == made.truth[7] and report.revision == 8


def test_the_transaction_beside_the_oldest_checkpoint_is_not_missed():
    made = started(4)
    made.checkpoint()
    append(made)
    append(made)
    for n in (1, 2, 4):
        made.store.remove(key_of(made.store, n))
    path = next(p for p, live in made.handle.state.tables["t"].files.items() if live.revision == 2)
    made.store.remove(path)  # else the beginning would come back
    assert rebuilt(made.store).healthy
    made.store.remove(key_of(made.store, 5))
    report = rebuilt(made.store)
    assert report.rebuilt == (5, 7) and report.first == 4 and report.missing == (path,)
    assert facts(loaded(made.store)) == made.truth[6]
    assert rebuilt(made.store).healthy


def test_a_pruned_and_collected_catalog_that_is_lost_comes_back():
    made = started(3)
    made.merge()
    made.merge()
    delete = [Tombstones("t", "id = 0", tuple(made.handle.state.tables["t"].files))]
    made.commit(delete, op="delete")
    append(made)
    made.checkpoint()
    for n in range(1, 7):
        made.store.remove(key_of(made.store, n))
    assert collect(History(made.store.bucket(), LAYOUT), orphan_age_ms=0).data_files
    lose(made.store)
    # What came after the delete named it as the one before, so its marker is believed.
    assert rebuilt(made.store).revision == 8
    assert facts(loaded(made.store)) == made.truth[7]


def test_sound_checkpoints_agree_with_what_is_rebuilt_below_them():
    made = started(2)
    ticket = made.handle.begin()
    (add,) = written(made.bucket, ticket, made.rows())
    # as merges do, whose commits tell no columns
    made.commit([replace(add, columns=())], op="merge", ticket=ticket)
    made.commit([Remove(add.file.path)], op="remove")
    made.checkpoint()
    append(made)
    made.checkpoint()
    append(made)
    lose(made.store, transaction(3))
    assert rebuilt(made.store).rebuilt == (3, 7)
    report = prune(History(made.store.bucket(), LAYOUT), older_than_ms=0)
    assert report.floor >= 4 and report.deleted
    assert facts(loaded(made.store)) == made.truth[6]


def test_holes_are_filled_and_named():
    made = started(5)
    lose(made.store)
    for path, live in made.handle.state.tables["t"].files.items():
        if live.revision == 3:
            made.store.remove(path)
    report = rebuilt(made.store)
    assert report.empty == (3,) and report.first == 0
    shown = {live.revision for live in loaded(made.store).tables["t"].files.values()}
    assert shown == {1, 2, 4, 5}


def test_many_holes_are_not_filled(monkeypatch):
    monkeypatch.setattr(recovery, "MOST_HOLES", 2)
    made = started(9)
    lose(made.store)
    files = made.handle.state.tables["t"].files
    for path, live in files.items():
        if live.revision in (3, 4, 5, 6):
            made.store.remove(path)
    report = rebuilt(made.store)
    assert report.first == 7 and report.revision == 10
    kept = facts(loaded(made.store))["t"][1]
    assert kept == {p: v for p, v in made.truth[9]["t"][1].items() if v[2] not in (3, 4, 5, 6)}
    assert facts(History(made.store.bucket(), LAYOUT).at(8).state)["t"][1].keys() < kept.keys()
    with pytest.raises(SnapshotTooOldError):
        History(made.store.bucket(), LAYOUT).at(2)
    assert rebuilt(made.store).healthy


def test_no_revision_is_given_out_twice():
    made = started(2)
    lose(made.store)
    bucket = made.store.bucket()
    bucket.put(LAYOUT.marker_key(7, "0badcafe" * 4), b"not Parquet")
    bucket.put(f"{LAYOUT.transactions_prefix}{padded(9)}.0badcafe.transaction", b"not a transaction")
    report = rebuilt(made.store)
    assert report.revision == 10 and report.empty == tuple(range(3, 10))
    assert LAYOUT.marker_key(7, "0badcafe" * 4) in report.unreadable
    assert facts(loaded(made.store)) == made.truth[2]


def test_a_name_far_above_is_above_what_comes_next():
    made = started(3)
    far = 2**40
    made.bucket.put(f"{LAYOUT.transactions_prefix}{padded(far)}.0badcafe.transaction", b"")
    report = rebuilt(made.store)
    assert report.damage[0] == f"nothing is left of revisions 4 to {far - 1}"
    assert (report.first, report.revision) == (far, far + 1)
    assert facts(loaded(made.store)) == made.truth[3]
    append(Historian(made.store, made.rng))
    made.bucket.put(f"{LAYOUT.transactions_prefix}{padded(2**63 - 1)}.0badcafe.transaction", b"")
    with pytest.raises(CorruptObjectError, match=r"revision 9223372036854775807.*delete it"):
        rebuilt(made.store)


# -- what nobody can prove


def test_the_last_removal_is_not_applied_where_nothing_proves_it():
    made = started(3)
    path = next(iter(made.handle.state.tables["t"].files))
    made.commit([Remove(path)], op="remove")
    marker = made.store.keys(LAYOUT.markers_prefix)[-1]
    lose(made.store)
    report = rebuilt(made.store)
    assert report.unproven == (marker,) and path in paths(made.store)


def test_what_names_a_transaction_as_the_one_before_proves_it():
    made = started(3)
    path = next(iter(made.handle.state.tables["t"].files))
    made.commit([Remove(path)], op="remove")
    left = orphan(made)
    lose(made.store)
    report = rebuilt(made.store)
    assert report.unproven == (left,) and path not in paths(made.store) and left in paths(made.store)


def test_the_hint_proves_the_checkpoint_that_it_names():
    made = started(3)
    path = next(iter(made.handle.state.tables["t"].files))
    made.commit([Remove(path)], op="remove")
    made.checkpoint()
    lose(made.store, ".transaction", ".checkpoint")
    assert not rebuilt(made.store).unproven and path not in paths(made.store)


def test_a_merge_that_nobody_can_prove_doubles_nothing():
    made = started(2)
    before = set(made.handle.state.tables["t"].files)
    made.merge()
    (merged,) = set(made.handle.state.tables["t"].files) - before
    lose(made.store)
    copy = made.store.copy()
    report = rebuilt(made.store)
    assert set(paths(made.store)) == before and report.unproven == (merged,)
    for path in before:
        copy.remove(path)
    report = rebuilt(copy)
    assert paths(copy) == [merged] and report.unproven == (merged,)


def test_files_of_a_transaction_that_was_not_the_one_are_left_out():
    made = started(2)
    left = orphan(made)
    append(made)
    append(made)
    lose(made.store)
    report = rebuilt(made.store)
    assert left in report.orphans and left not in paths(made.store) and left in made.store


def test_of_the_last_ones_nobody_can_tell_which_was_committed():
    made = started(3)
    left = orphan(made)
    last = append(made)
    lose(made.store)
    report = rebuilt(made.store)
    assert set(report.unproven) == {left, last} <= set(paths(made.store))


def test_what_the_next_checkpoint_does_not_hold_is_left_out():
    made = started(1)
    left = orphan(made)
    gone = [append(made), append(made)]
    made.checkpoint()
    for key in (key_of(made.store, 2), key_of(made.store, 3), *gone):
        made.store.remove(key)
    report = rebuilt(made.store)
    assert left in report.orphans and set(gone) == set(report.missing)
    assert facts(loaded(made.store)) == made.truth[3]
    assert left not in facts(History(made.store.bucket(), LAYOUT).at(2).state)["t"][1]


def test_a_checkpoint_tells_what_a_lost_revision_removed():
    made = started(2)
    path = next(iter(made.handle.state.tables["t"].files))
    made.commit([Remove(path)], op="remove")
    append(made)
    made.checkpoint()
    for key in (key_of(made.store, 3), made.store.keys(LAYOUT.markers_prefix)[-1]):
        made.store.remove(key)
    rebuilt(made.store)
    for key in made.store.keys(LAYOUT.transactions_prefix):
        if key.endswith(".checkpoint"):
            made.store.remove(key)
    made.store.remove(LAYOUT.hint_key)
    history = History(made.store.bucket(), LAYOUT)
    assert facts(history.load().state) == made.truth[4]
    assert {n: facts(history.at(n).state) for n in (1, 2, 3)} == {n: made.truth[n] for n in (1, 2, 3)}


def test_times_come_back_where_a_checkpoint_tells_them():
    made = started(2)
    made.bucket.clock.sleep(60)
    path = append(made)
    made.bucket.clock.sleep(60)
    made.checkpoint()
    append(made)
    time_ms = made.handle.history.at(3).head.time_ms
    made.store.remove(key_of(made.store, 3))
    made.store.remove(path)  # whose own time would do otherwise
    rebuilt(made.store)
    assert [t.commit.time_ms for t in History(made.store.bucket(), LAYOUT).transactions()][2] == time_ms


def test_a_rebuild_proves_nothing_of_its_own():
    made = started(3)
    path = next(iter(made.handle.state.tables["t"].files))
    made.commit([Remove(path)], op="remove")
    lose(made.store)
    first = rebuilt(made.store)
    made.store.remove(key_of(made.store, 4))
    made.store.remove(key_of(made.store, 5, ".checkpoint"))
    assert rebuilt(made.store).unproven == first.unproven != ()
    assert path in paths(made.store)


def test_what_proved_a_transaction_once_proves_it_again():
    made = started(2)
    path = next(iter(made.handle.state.tables["t"].files))
    made.commit([Remove(path)], op="remove")
    append(made)
    lose(made.store)
    rebuilt(made.store)
    made.store.remove(key_of(made.store, 3))
    made.store.remove(key_of(made.store, 5, ".checkpoint"))
    rebuilt(made.store)
    assert path not in paths(made.store)


# -- forks


def fork(made):
    """Two transactions of revision 3, each with files that prove it."""
    sides = []
    head = made.handle.head
    for _ in range(2):
        ticket = made.handle.begin()
        adds = written(made.bucket, ticket, made.rows())
        record = CommitRecord(ticket.uuid, head.uuid, head.time_ms, "append")
        said = CatalogTransaction(LAYOUT.writer, LAYOUT.database, 3, tuple(adds), record)
        made.bucket.put(LAYOUT.transaction_key(3, ticket.uuid), encode_transaction(said))
        sides.append((ticket.uuid, adds[0].file.path))
    return sides


def test_a_fork_is_not_decided_by_a_rebuild():
    made = started(2)
    (one, kept), (_, lost) = fork(made)
    with pytest.raises(ForkError, match=r"at revision 3 .*firn repair --keep.*keep="):
        rebuilt(made.store)
    lose(made.store, transaction(2))
    with pytest.raises(ForkError, match="nothing tells which one counted"):
        rebuilt(made.store)
    report = rebuilt(made.store, keep=[one[:8]])
    assert kept in paths(made.store) and lost not in paths(made.store)
    assert report.revision == 4 and LAYOUT.hint_key not in made.store
    assert facts(History(made.store.bucket(), LAYOUT).at(2).state) == made.truth[2]


def test_a_repair_that_is_lost_decides_again():
    made = started(2)
    (one, kept), (_, lost) = fork(made)
    record = CommitRecord(new_uuid(), one, made.handle.head.time_ms, "repair")
    repair = CatalogTransaction(LAYOUT.writer, LAYOUT.database, 4, (Resolve(3, one),), record)
    made.bucket.put(LAYOUT.transaction_key(4, record.uuid), encode_transaction(repair))
    handle = opened(made.store.bucket())
    ticket = handle.begin()
    handle.commit(written(made.bucket, ticket, made.rows()), op="append", ticket=ticket)
    truth = facts(handle.state)
    lose(made.store, transaction(2), transaction(5))
    rebuilt(made.store)
    assert facts(loaded(made.store)) == truth
    assert kept in truth["t"][1] and lost not in truth["t"][1]


# -- claims


def test_a_history_by_claims_is_brought_back_with_its_claims():
    made = started(3, claims=True)
    lose(made.store)
    report = rebuilt(made.store)
    assert report.claims == (1, 2, 3, 4)
    handle = opened(made.store.bucket())
    assert handle.head.claimed
    handle.commit([Define("next", b"")], op="define")
    with pytest.raises(HandleClosedError, match="another process"):
        made.handle.commit([Define("late", b"")], op="define")


def test_transactions_come_back_from_their_claims():
    made = started(4, claims=True)
    made.commit([Remove(next(iter(made.handle.state.tables["t"].files)))], op="remove")
    before = made.store.contents()
    lose(made.store, ".transaction")
    report = rebuilt(made.store)
    assert not report.unproven and facts(loaded(made.store)) == made.truth[5]
    assert {key: made.store.contents()[key] for key in before} == before


def test_a_lost_claim_of_the_head_is_damage():
    made = started(3, claims=True)
    made.store.remove(LAYOUT.claim_key(3))
    report = rebuilt(made.store)
    assert "claims/" in report.damage[0] and report.claims == (3, 4)
    append(Historian(made.store, made.rng))


def test_a_checkpoint_may_be_all_that_is_left():
    made = started(3, claims=True)
    made.checkpoint()
    lose(made.store, ".transaction")
    for n in (1, 2, 3):
        made.store.remove(LAYOUT.claim_key(n))
    for key in [*made.store.keys(LAYOUT.data_prefix), *made.store.keys(LAYOUT.markers_prefix)]:
        made.store.remove(key)
    report = rebuilt(made.store)
    assert report.damage and (report.first, report.revision, report.claims) == (3, 4, (4,))
    assert len(report.missing) == 3 and facts(loaded(made.store)) == made.truth[3]
    append(Historian(made.store, made.rng))
    assert rebuilt(made.store).healthy


def test_a_claim_that_can_follow_nothing_is_damage():
    made = started(3, claims=True)
    record = CommitRecord(new_uuid(), new_uuid(), 0, "append", claimed=True)
    stale = CatalogTransaction(LAYOUT.writer, LAYOUT.database, 4, (), record)
    made.bucket.put(LAYOUT.claim_key(4), encode_transaction(stale))
    report = rebuilt(made.store)
    assert "is not a claim that can follow revision 3" in report.damage[0]
    assert facts(loaded(made.store)) == made.truth[3] and report.revision == 5
    append(Historian(made.store, made.rng))


def test_a_claim_that_waits_for_its_transaction_gets_it():
    made = started(3, claims=True)
    append(made)
    key = key_of(made.store, 4)
    body = made.store.contents()[key]
    made.store.remove(key)
    assert rebuilt(made.store).rebuilt == (4, 5) and made.store.contents()[key] == body
    assert facts(loaded(made.store)) == made.truth[4]


def test_without_conditional_puts_a_claimed_history_is_not_rebuilt():
    made = started(2, claims=True)
    lose(made.store)
    made.store.conditional_put = False
    before = made.store.contents()
    with pytest.raises(UnsupportedError, match="kept by claims"):
        rebuilt(made.store)
    assert made.store.contents() == before


@pytest.mark.parametrize("claims", [False, True])
def test_processes_that_sleep_through_a_rebuild_are_refused(claims):
    made = Historian(SimStore(conditional_put=claims), random.Random(1))
    sleepers = []
    for _ in range(5):
        append(made)
        sleepers.append(opened(made.store.bucket()))
    lose(made.store)
    rebuilt(made.store)
    before = made.store.contents()
    for sleeper in sleepers:
        with pytest.raises((HandleClosedError, ForkError)):
            sleeper.commit([Define("late", b"")], op="define")
    late = made.store.contents().keys() - before.keys()
    assert not any(key.startswith((LAYOUT.transactions_prefix, LAYOUT.claims_prefix)) for key in late)
    assert facts(loaded(made.store)) == made.truth[5]


# -- definitions


def test_a_lost_definition_is_named_and_can_be_given():
    made = started(3)
    lose(made.store)
    for key in made.store.keys(LAYOUT.markers_prefix):
        made.store.remove(key)
    copy = made.store.copy()
    report = rebuilt(made.store)
    assert report.undefined == ("t",) and len(report.orphans) == 3 and not paths(made.store)
    report = rebuilt(copy, definitions={"t": b"t"})
    assert report.undefined == () and facts(loaded(copy)) == made.truth[3]


def test_sound_transactions_get_the_table_that_they_need():
    made = started(3)
    lose(made.store, transaction(1))
    for key in made.store.keys(LAYOUT.markers_prefix):
        made.store.remove(key)
    report = rebuilt(made.store, definitions={"t": b"t"})
    assert report.rebuilt == (1, 4) and facts(loaded(made.store)) == made.truth[3]


def test_a_file_that_a_sound_transaction_needs_and_nobody_has_is_named():
    made = started(3)
    path = next(p for p, live in made.handle.state.tables["t"].files.items() if live.revision == 2)
    made.commit([Tombstones("t", "id = 0", (path,))], op="delete")
    lose(made.store, transaction(2))
    made.store.remove(path)
    report = rebuilt(made.store)
    assert report.missing == (path,) and path in paths(made.store)


def test_sound_transactions_that_contradict_one_another_are_named():
    made = started(2)
    head = made.handle.head
    record = CommitRecord(new_uuid(), head.uuid, head.time_ms, "remove")
    wrong = CatalogTransaction(LAYOUT.writer, LAYOUT.database, 3, (Remove("elsewhere"),), record)
    made.bucket.put(LAYOUT.transaction_key(3, record.uuid), encode_transaction(wrong))
    with pytest.raises(CorruptObjectError, match=r"revision 3 .*can't follow.*delete its object"):
        rebuilt(made.store, force=True)


# -- what is left alone


def test_dirty_stores():
    made = started(3)
    dirt = [
        LAYOUT.data_prefix + "t/notes.txt",
        LAYOUT.data_prefix + "loose.parquet",
        LAYOUT.markers_prefix + "readme",
        LAYOUT.transactions_prefix + "backup.zip",
        LAYOUT.claims_prefix + "7",
        f"{LAYOUT.data_prefix}t/{'0badcafe' * 4}.parquet",
    ]
    for key in dirt:
        made.bucket.put(key, b"somebody's")
    lose(made.store, ".transaction", ".checkpoint")
    report = rebuilt(made.store)
    assert set(report.unknown) == set(dirt[:-1]) and set(report.unreadable) == {dirt[-1]}
    assert all(made.store.contents()[key] == b"somebody's" for key in dirt)
    assert facts(loaded(made.store)) == made.truth[3]


def test_a_file_of_somebody_else_is_left_alone():
    made = started(1)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1]}), sink)
    body = bytes(sink.getvalue())
    key = f"{LAYOUT.data_prefix}t/{'a' * 8}{footer_crc(body):08x}{'0' * 16}.parquet"
    made.bucket.put(key, body)
    lose(made.store)
    assert key in rebuilt(made.store).unknown and key not in paths(made.store)


def test_a_file_that_was_moved_is_not_believed():
    made = started(2)
    path = next(p for p, live in made.handle.state.tables["t"].files.items() if live.revision == 2)
    moved = path.replace("/t/", "/u/")
    made.store.write(moved, made.store.contents()[path])
    lose(made.store)
    report = rebuilt(made.store)
    assert "it says that it is of host-17/db//t" in report.unreadable[moved]
    assert facts(loaded(made.store)) == made.truth[2]


def test_a_flipped_bit_of_a_footer_is_noticed_and_one_of_a_filter_costs_the_filter():
    made = started(1)
    ticket = made.handle.begin()
    rows = [{"id": n, "x": 0.5, "s": str(n)} for n in range(40)]
    (add,) = written(made.bucket, ticket, rows, bloom_filters=("id",))
    path, file = add.file.path, add.file
    data = made.store.contents()[path]
    (info,) = made.bucket.list(path).objects
    footer = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    assert "bloom" in file.extra
    kinds = set()
    for position in range(footer - 400, len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        store = made.store.copy()
        store.write(path, bytes(flipped))
        (found,) = footers_task(store.bucket(), LAYOUT, [info])
        if position >= footer:
            assert "Parquet" in found.reason and path in found.reason
            continue
        assert isinstance(found, FoundFile)
        without = {key: value for key, value in file.extra.items() if key != "bloom"}
        assert found.file.extra in (file.extra, without)
        kinds.add("bloom" in found.file.extra)
    assert kinds == {True, False}


# -- the very files


@pytest.mark.parametrize("url", ["memory", "directory"])
def test_a_file_tells_all_that_its_commit_did(url, tmp_path):
    bucket = open_bucket("memory://" if url == "memory" else str(tmp_path))
    handle = Handle(History(bucket, LAYOUT))
    ticket = handle.begin()
    spec = WriteSpec(
        LAYOUT.namer("t", ticket),
        {**COLUMNS, "d": "DATE", "n": "INTEGER[]"},
        PartitionSpec.parse(["s"], COLUMNS),
        sort_by=("id",),
        stats_columns=3,
        bloom_filters=("id", "s"),
    )
    rows = [
        {
            "id": n,
            "x": float("nan") if n % 7 == 0 else n / 2,
            "s": "long" * 100 if n % 2 else "ö",
            "d": None,
            "n": [n],
        }
        for n in range(50)
    ]
    table = pa.Table.from_pylist([{**row, "d": None} for row in rows]).cast(
        pa.schema(
            [
                ("id", "int64"),
                ("x", "float64"),
                ("s", "string"),
                ("d", pa.date32()),
                ("n", pa.list_(pa.int32())),
            ]
        )
    )
    files = write_batches(bucket, spec, [table])
    infos = {info.key: info for info in bucket.list(LAYOUT.data_prefix).objects}
    for file in files:
        (found,) = footers_task(bucket, LAYOUT, [infos[file.path]])
        assert found.file == file._replace(created_ms=infos[file.path].modified_ms)
        assert found.record.columns == tuple(spec.columns.items())
    assert len(files) == 2
