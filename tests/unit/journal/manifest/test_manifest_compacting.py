"""Compactors and their commits: rules 10 to 13."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.errors import (
    FencedError,
    FirnError,
    InvalidInputError,
    ObjectChangedError,
    ObjectExistsError,
    OutcomeUnknownError,
)
from firn.journal.manifest import ManifestJournal
from firn.journal.manifest.codec import decode_manifest
from firn.journal.manifest.compactor import put_sst
from firn.testing import FAILED, LOST_ACK, TRUNCATED, delayed, retried
from manifest_tables import Before, merge, names, put

POINTER = "current_manifest"
SWAP = "put_if_match"


def infos(table):
    return [(i.writer_epoch, i.starting_sst) for i in table.journal().pointer().infos]


def test_rule_10_each_compactor_has_an_epoch_of_its_own(table):
    assert [table.journal().open_compactor().epoch for _ in range(3)] == [1, 2, 3]


def test_rule_10_a_conflict_raises_it_again(table):
    rivals = []
    conflict = Before(SWAP, POINTER, lambda: rivals.append(table.journal("rival").open_compactor()))
    mine = table.journal("mine", conflict).open_compactor()
    assert (rivals[0].epoch, mine.epoch) == (1, 2)


def test_rule_10_an_unknown_outcome_raises_it_again(table):
    """The rival takes the epoch that the unanswered CAS asked for."""
    rivals = []
    befores = (
        Before(SWAP, POINTER, delayed(3600)),
        Before("get", POINTER, lambda: rivals.append(table.journal("rival").open_compactor()), nth=1),
    )
    mine = table.journal("mine", *befores).open_compactor()
    assert (rivals[0].epoch, mine.epoch) == (1, 2)
    with pytest.raises(FencedError):
        rivals[0].commit(adds=[put(rivals[0])], deletes=[], last_compacted=-1)


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1), delayed(0.001), delayed(3600)])
def test_rule_10_whatever_became_of_the_answer_one_compactor_has_the_epoch(table, fault):
    session = table.journal("mine", Before(SWAP, POINTER, fault)).open_compactor()
    table.age(7200)
    assert table.journal().pointer().compactor_epoch == session.epoch
    table.write(0)
    assert merge(session, session.refresh(), 0) == table.read()


def test_any_walked_prefix_may_be_compacted(table):
    table.write(0, 1, 2)
    session = table.compact(0)
    assert names(session.view) == [(1, 2), (1, 1)]
    table.compact(2, session)
    assert (names(table.read()), len(table.read().manifest.ssts)) == ([], 1)
    assert table.read().manifest.last_compacted_epoch == 1


def test_rule_11_what_is_named_is_up_before_it_is_named(table):
    table.write(0)
    session = table.journal("compactor").open_compactor()
    merge(session, session.view, 0)
    trace = [
        (call.verb, call.key.rpartition("/")[2]) for call in session._store.bucket.client.trace
    ]  # no other way to see the order
    assert trace[-3:] == [
        ("put_if_absent", "000000000000000001.000000000000000000.sst"),
        ("put_if_absent", "manifest.000000000000000001.000000000000000000"),
        (SWAP, POINTER),
    ]


def test_rule_11_the_next_sst_is_the_lowest_in_flight(table):
    table.write(0, 1)
    session = table.journal().open_compactor()
    slow = session.reserve_ssts(3)
    done = put(session)
    view = session.commit(adds=[done], deletes=[], last_compacted=0, in_flight=slow[0])
    assert view.manifest.next_sst == table.read().manifest.next_sst == 0
    session.put_sst(slow[1], b"later")
    later = replace(done, number=slow[1], file=session.sst_file(slow[1]), run=1)
    view = session.commit(adds=[later], deletes=[], last_compacted=1)
    assert view.manifest.next_sst == 4


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1)])
def test_rule_11_a_commit_that_was_not_answered_is_known_by_its_manifest(table, fault):
    table.write(0)
    session = table.journal("compactor", Before(SWAP, POINTER, fault, nth=1)).open_compactor()
    assert merge(session, session.view, 0) == table.read()
    assert session.view.manifest.last_compacted == 0


def test_rule_11_it_is_known_too_when_a_writer_has_gone_on_from_it(table):
    table.write(0)
    befores = (
        Before(SWAP, POINTER, LOST_ACK, nth=1),
        Before("get", POINTER, lambda: table.write(1), nth=3),
    )
    session = table.journal("compactor", *befores).open_compactor()
    view = merge(session, session.view, 0)
    assert [i.writer_epoch for i in view.pointer.infos] == [1, 2]
    assert view.manifest == table.read().manifest


def test_rule_11_another_compactors_epoch_ends_it(table):
    table.write(0)
    session = table.journal("old").open_compactor()
    new = table.journal("new").open_compactor()
    with pytest.raises(FencedError, match="of epoch 2 has taken over from this one, of epoch 1"):
        merge(session, session.view, 0)
    assert table.read().manifest.last_compacted == -1
    merge(new, new.view, 0)
    with pytest.raises(FencedError):
        session.refresh()
    assert table.read() == new.view


def test_rule_11_a_writer_in_between_is_kept(table):
    """The conflict is with a writer's claim: its info stays, and the commit goes on."""
    table.write(0, 1)
    session = table.journal(
        "compactor", Before(SWAP, POINTER, lambda: table.write(2), nth=1)
    ).open_compactor()
    merge(session, session.view, 1)
    assert infos(table) == [(2, 2)]
    assert names(table.read()) == [(2, 2)]
    assert names(session.view) == []
    assert session.refresh() == table.read()


def test_rule_11_an_earlier_commit_that_lands_late_is_not_undone(table):
    """Its outcome was unknown to the end; the next commit would put the table back to before it."""
    table.write(0, 1)
    store_fails = [Before("get", POINTER, FAILED, nth=n) for n in range(3, 6)]
    session = table.journal(
        "compactor", Before(SWAP, POINTER, delayed(10), nth=1), *store_fails
    ).open_compactor()
    with pytest.raises(FirnError):
        merge(session, session.view, 1)
    late = session.view
    number = put(session)
    table.age(60)
    assert table.read().manifest.last_compacted == 1
    with pytest.raises((ObjectChangedError, FirnError)):
        session.commit(adds=[number], deletes=[], last_compacted=0)
    assert table.read().manifest.last_compacted == 1
    assert late.manifest.last_compacted == -1
    view = session.refresh()
    assert merge(session, view, 1) == table.read()


def test_rule_12_an_info_stays_while_a_walk_may_need_it(table):
    table.write(0, 1, 2)
    table.write(3, 4)
    table.write(5)
    session = table.journal().open_compactor()
    merge(session, session.view, 1)
    assert infos(table) == [(1, 0), (2, 3), (3, 5)]
    assert names(table.read()) == [(3, 5), (2, 4), (2, 3), (1, 2)]
    merge(session, session.view, 2)
    assert infos(table) == [(2, 3), (3, 5)]
    merge(session, session.view, 5)
    assert infos(table) == [(3, 5)]


def test_rule_12_the_last_info_stays(table):
    """Else the next writer would have an epoch of long ago, and its zombies would count."""
    table.write(0)
    table.compact()
    table.compact()
    assert infos(table) == [(1, 0)]
    assert table.journal().open_writer().epoch == 2


def test_rule_13_changes_apply_in_order_up_to_a_cap(table):
    table.write(*range(40))
    session = table.journal("compactor", max_chain=4).open_compactor()
    kept = [put(session, run=n) for n in range(6)]
    session.commit(adds=kept, deletes=[], last_compacted=0)
    lengths, kinds = [], []
    for n in range(1, 12):
        moved = next(sst for sst in session.view.manifest.ssts if sst.level == n)
        view = session.commit(adds=[replace(moved, level=n + 1, run=n)], deletes=[moved], last_compacted=n)
        assert view == table.read()
        lengths.append(len(view.manifest.chain))
        name = view.manifest.name
        data = table.store.contents()[table.journal().layout.manifest_key(name)]
        kinds.append(decode_manifest(name, data, where=name).base is None)
    assert lengths == [2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4]
    assert kinds == [length == 1 for length in lengths]
    assert sorted(s.level for s in table.read().manifest.ssts) == [1, 1, 1, 1, 1, 12]


def test_rule_13_every_change_of_a_chain_counts_and_later_ones_count_more(table):
    table.write(*range(9))
    session = table.journal("compactor", max_chain=9).open_compactor()
    kept = [put(session, run=n) for n in range(6)]
    session.commit(adds=kept, deletes=[], last_compacted=0)
    first, second = put(session, run=7), put(session, run=8)
    moved = replace(kept[0], level=2)
    expected = {sst.file: sst for sst in kept}
    for n, (adds, deletes) in enumerate(
        [([first], []), ([second], [kept[1]]), ([moved], [kept[0]]), ([], [first]), ([first], [second])], 1
    ):
        expected = {file: sst for file, sst in expected.items() if sst not in deletes}
        expected |= {sst.file: sst for sst in adds}
        view = session.commit(adds=adds, deletes=deletes, last_compacted=n)
        assert len(view.manifest.chain) == n + 1
        assert view == table.read()
        assert {sst.file: sst for sst in table.read().manifest.ssts} == expected


def test_rule_13_a_full_manifest_is_written_where_changes_are_no_shorter(table):
    table.write(0, 1)
    session = table.compact(0)
    table.compact(1, session)
    assert len(session.view.manifest.chain) == 1


def test_an_sst_is_never_replaced(table):
    session = table.journal().open_compactor()
    session.put_sst(0, b"one")
    session.put_sst(0, b"one")
    with pytest.raises(ObjectExistsError, match="take another number"):
        session.put_sst(0, b"two")
    assert table.store.contents()[session.sst_key(0)] == b"one"


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1)])
def test_an_sst_that_was_not_answered_is_looked_at(table, fault):
    journal = table.journal("task", Before("put_if_absent", "x.sst", fault))
    put_sst(journal.bucket, "x.sst", b"one")


def test_an_sst_in_doubt_is_left_to_the_caller(table):
    lost = table.journal("task", Before("put_if_absent", "x.sst", delayed(60)))
    with pytest.raises(OutcomeUnknownError):
        put_sst(lost.bucket, "x.sst", b"one")
    put_sst(lost.bucket, "x.sst", b"one")
    cut = table.journal("task", Before("put_if_absent", "x.sst", LOST_ACK), Before("get", "x.sst", TRUNCATED))
    with pytest.raises(OutcomeUnknownError, match="cut short"):
        put_sst(cut.bucket, "x.sst", b"one")


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1), delayed(3600)])
def test_a_manifest_that_was_not_answered_is_put_again(table, fault):
    table.write(0)
    name = "manifest.000000000000000001.000000000000000000"
    session = table.journal("compactor", Before("put_if_absent", name, fault)).open_compactor()
    assert merge(session, session.view, 0) == table.read()


def test_commits_that_make_no_sense_are_refused(table):
    table.write(0, 1)
    session = table.compact(0)
    (known,) = session.view.manifest.ssts
    foreign = replace(known, file="ssts/x")
    for adds, deletes, upto, why in (
        ([], [foreign], 0, "ssts/x can't be deleted"),
        ([known], [], 0, "can't be added twice"),
        ([foreign, foreign], [], 0, "can't be added twice"),
        ([], [], 2, "it ends at 1"),
        ([], [], -1, "up to 0 is compacted already"),
    ):
        with pytest.raises(InvalidInputError, match=why):
            session.commit(adds=adds, deletes=deletes, last_compacted=upto)
    assert table.read() == session.view


def test_a_table_may_begin_with_ssts_of_another(table):
    """As a clone does: numbers go on above those of its parent."""
    table.write(0, 1, 2)
    session = table.compact(2)
    parent = session.view.manifest
    clone = ManifestJournal(table.store.bucket(), "clone")
    own = [replace(sst, file="/" + table.journal().layout.sst_key(sst.file)) for sst in parent.ssts]
    clone.create({"clone": True}, 500, ssts=own, last_compacted=2)
    view = clone.read()
    assert (view.manifest.ssts, view.last_l0) == (tuple(own), 2)
    writer = clone.open_writer()
    assert (writer.epoch, writer.start) == (500, 3)
    assert clone.open_compactor().epoch == 501
    assert clone.layout.sst_key(own[0].file) in table.store


def test_an_sst_that_was_collected_between_put_and_echo_tells_of_another_compactor(table):
    old = table.journal("old").open_compactor()
    key = old.sst_key(0)

    def taken():
        table.journal("new").open_compactor()
        assert table.journal("collector").collect(l0_min_age_s=0, buffer_s=0).ssts == (key,)

    bucket = table.journal("task", Before("put_if_absent", key, retried(1)), Before("get", key, taken)).bucket
    with pytest.raises(FencedError, match="was collected, so another compactor took over"):
        put_sst(bucket, key, b"one")
