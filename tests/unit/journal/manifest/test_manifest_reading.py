"""Views: rules 8 and 9, changes between them, and a model of what may be walked."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.errors import CorruptObjectError, ObjectNotFoundError, SnapshotTooOldError
from firn.journal.manifest import EpochInfo, L0File
from firn.journal.manifest.walk import reduced, walk
from manifest_tables import Before, names, put

POINTER = "current_manifest"


def test_a_new_table_is_empty(table):
    view = table.read()
    assert (view.manifest.ssts, view.l0, view.last_l0) == ((), (), -1)
    assert view.version == "manifest.000000000000000000.000000000000000000@-1"
    assert view.pointer.settings == {"flush_ms": 100}


def test_rule_8_a_list_is_read_with_the_pointer_that_comes_after_it(table):
    """Between the two, a compactor takes all flushes of the list's beginning, and a collector deletes them."""
    table.write(0, 1)

    def taken():
        table.compact()
        table.age(1000)
        table.journal("collector").collect(l0_min_age_s=300, buffer_s=0)
        table.write(2)

    view = table.journal("reader", Before("list", "l0/", taken)).read()
    assert (view.manifest.last_compacted, names(view)) == (1, [(2, 2)])
    assert view == table.read()


def test_rule_8_a_zombies_file_of_the_list_is_void_by_the_pointer_after_it(table):
    """The pointer that was read first would still give the number to the old writer."""
    old = table.journal("old").open_writer()
    old.put_l0(0, b"0")

    def succeeded():
        table.journal("next").open_writer()
        # As where its fence was collected long ago.
        table.store.bucket().delete(table.l0(1, 1))
        old.put_l0(1, b"zombie")

    view = table.journal("reader", Before("list", "l0/", succeeded)).read()
    assert names(view) == [(1, 0)]


def test_rule_8_a_refresh_reads_the_pointer_after_its_list(table):
    old = table.journal("old").open_writer()
    old.put_l0(0, b"0")
    since = table.read()

    def succeeded():
        table.journal("next").open_writer()
        table.store.bucket().delete(table.l0(1, 1))
        old.put_l0(1, b"zombie")

    assert names(table.journal("reader", Before("list", "l0/", succeeded)).read(since)) == [(1, 0)]


def test_a_refresh_gives_what_opening_gives(table):
    since = [table.read()]
    for step in range(8):
        if step % 3 == 2:
            table.compact(table.read().last_l0 - 1)
        else:
            table.write(*range(table.read().last_l0 + 1, table.read().last_l0 + 3))
        since.append(table.read())
        for view in since:
            assert table.journal("reader").read(view) == since[-1]


def test_a_refresh_over_a_collected_chain(table):
    """The manifests between are gone, and so is the base of what the reader knows."""
    table.write(0)
    since = table.read()
    session = table.compact()
    for _ in range(15):
        session.commit(adds=[put(session, run=1)], deletes=[], last_compacted=0)
    table.journal("collector").collect(l0_min_age_s=0, buffer_s=0)
    assert table.journal("reader").read(since) == table.read()


def test_a_chain_that_goes_while_it_is_read(table):
    table.write(0)
    session = table.compact()
    first = session.view.manifest.name

    def replaced():
        session.commit(adds=[put(session)], deletes=session.view.manifest.ssts, last_compacted=0)
        table.journal("collector").collect(l0_min_age_s=0, buffer_s=0)
        assert table.journal().layout.manifest_key(first) not in table.store

    assert table.journal("reader", Before("get", first, replaced)).read() == table.read()
    with pytest.raises(SnapshotTooOldError, match=first):
        table.journal().manifest(first)


def test_a_missing_manifest_is_named(table):
    table.write(0)
    name = table.compact().view.manifest.name
    table.store.bucket().delete(table.journal().layout.manifest_key(name))
    with pytest.raises(CorruptObjectError, match=f"names {name}, of which an object is missing"):
        table.read()


def test_a_table_created_again_is_read_anew(table):
    table.write(0, 1)
    since = table.read()
    table.journal().drop()
    table.journal().create({"again": True}, 100)
    assert table.journal("reader").read(since) == table.read()
    assert table.read().l0 == ()


def test_foreign_objects_below_l0_are_left_alone(table):
    table.write(0)
    for name in ("x.sst", "000000000000000001.1.sst", "000000000000000001.000000000000000001.sst.tmp"):
        table.store.bucket().put(f"t/l0/{name}", b"?")
    assert names(table.read()) == [(1, 0)]


def test_rule_9_a_read_is_restarted_when_a_file_is_gone(table):
    table.write(0, 1)
    journal = table.journal("reader")
    view = journal.read()
    table.compact()
    table.age(1000)
    table.journal("collector").collect(l0_min_age_s=300, buffer_s=0)
    tried = []

    def read(each):
        tried.append(each.version)
        return [journal.read_l0(file) for file in each.l0]

    newer, found = journal.restarting(view, read)
    assert (newer, found) == (table.read(), [])
    assert tried == [view.version, newer.version]


def test_rule_9_a_fence_in_a_collected_flushs_place_is_a_file_gone(table):
    """An opener's fence, sent before the flush was there, lands after it was collected."""
    table.write(0)
    journal = table.journal("reader")
    view = journal.read()
    table.compact()
    table.age(1000)
    table.journal("collector").collect(l0_min_age_s=300, buffer_s=0)
    table.store.bucket("late").put_if_absent(table.l0(1, 0), b"")
    with pytest.raises(ObjectNotFoundError, match="was compacted and collected"):
        journal.read_l0(view.l0[0])
    newer, found = journal.restarting(view, lambda each: [journal.read_l0(file) for file in each.l0])
    assert (newer.manifest.last_compacted, found) == (0, [])


def test_rule_9_what_is_missing_from_the_newest_view_is_corruption(table):
    table.write(0)
    journal = table.journal("reader")
    view = journal.read()
    table.store.bucket().delete(table.l0(1, 0))
    with pytest.raises(CorruptObjectError, match=r"000000\.sst doesn't exist"):
        journal.restarting(view, lambda each: [journal.read_l0(file) for file in view.l0])


def test_views_travel(table):
    table.write(0)
    table.compact()
    view = table.read()
    assert pickle.loads(pickle.dumps(view)) == view


FILES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 8), st.booleans()), max_size=25)
STARTS = st.lists(st.integers(0, 8), min_size=1, max_size=4).map(sorted)


def walked_by_hand(starts, last_compacted, files):
    """As the paper words it: for each number up, who has it, and is it there?"""
    found = {(epoch, number): data for epoch, number, data in files}
    numbers = []
    for number in range(last_compacted + 1, 20):
        owners = [epoch for epoch, start in enumerate(starts, 1) if start <= number]
        if not owners or not found.get((owners[-1], number), False):
            break
        numbers.append((owners[-1], number))
    return numbers[::-1]


@settings(max_examples=150, deadline=None)
@given(STARTS, st.integers(-1, 8), FILES)
def test_the_walk_against_the_paper_in_words(starts, last_compacted, files):
    infos = [EpochInfo(epoch, start, "") for epoch, start in enumerate(starts, 1)]
    unique = {(e, n): data for e, n, data in files}
    objects = [L0File(e, n, "", 5 if data else 0) for (e, n), data in unique.items()]
    walked = walk(infos, last_compacted, objects)
    assert [(f.epoch, f.number) for f in walked] == walked_by_hand(
        starts, last_compacted, [(e, n, data) for (e, n), data in unique.items()]
    )
    # Rule 12: what is dropped is needed by no walk from there or from above.
    for above in range(last_compacted, last_compacted + 4):
        assert walk(reduced(infos, last_compacted), above, objects) == walk(infos, above, objects)
