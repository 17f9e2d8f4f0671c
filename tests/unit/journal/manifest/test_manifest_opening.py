"""Opening a writer: rules 1 to 3."""

from __future__ import annotations

import pytest

from firn.errors import FencedError, FirnError, TableExistsError, TableNotFoundError, UnsupportedError
from firn.journal.manifest import ManifestJournal
from firn.testing import CRASH_BEFORE, LOST_ACK, TRUNCATED, Crashed, SimStore, delayed, retried
from manifest_tables import Before, Plan, names

POINTER = "current_manifest"
SWAP = "put_if_match"
CREATE = "put_if_absent"


def test_the_first_writer_fences_nobody(table):
    before = table.store.keys()
    writer = table.journal("first").open_writer()
    assert (writer.epoch, writer.start, writer.next_number) == (1, 0, 0)
    assert table.store.keys() == before


def test_epochs_begin_where_the_table_says():
    store = SimStore()
    bucket = store.bucket()
    journal = ManifestJournal(bucket, "t", clock=bucket.clock)
    journal.create({}, 1_767_225_600_000)
    assert journal.open_writer().epoch == 1_767_225_600_000
    assert journal.open_compactor().epoch == 1_767_225_600_000
    assert journal.open_writer().epoch == 1_767_225_600_001


def test_a_table_is_created_once(table):
    with pytest.raises(TableExistsError, match="current_manifest exists"):
        table.journal().create({}, 1)
    with pytest.raises(TableNotFoundError, match="u/_metadata/current_manifest does not"):
        ManifestJournal(table.store.bucket(), "u").read()


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1)])
def test_a_table_whose_creation_was_not_answered_is_created(fault):
    store = SimStore()
    bucket = store.bucket("creator", plan=Plan(Before(CREATE, POINTER, fault)))
    ManifestJournal(bucket, "t").create({"x": 1}, 5)
    assert ManifestJournal(store.bucket(), "t").pointer().settings == {"x": 1}


def test_a_store_without_conditional_puts_is_refused():
    journal = ManifestJournal(SimStore(conditional_put=False).bucket(), "t")
    with pytest.raises(UnsupportedError, match="needs conditional puts"):
        journal.create({}, 1)


def test_rule_1_the_old_writer_is_fenced_before_the_new_one_serves(table):
    """Without the fence, a zombie's file would count whose successor has written nothing."""
    old = table.journal("old").open_writer()
    old.put_l0(0, b"0")
    new = table.journal("new").open_writer()
    assert (new.epoch, new.start) == (2, 1)
    assert table.store.contents()[table.l0(1, 1)] == b""
    with pytest.raises(FencedError, match="is a fence of another writer"):
        old.put_l0(1, b"zombie")
    assert names(table.read()) == [(1, 0)]


def test_rule_1_a_flush_that_comes_before_the_fence_counts(table):
    old = table.journal("old").open_writer()
    old.put_l0(0, b"0")
    late = Before(CREATE, table.l0(1, 1), lambda: (old.put_l0(1, b"1"), old.put_l0(2, b"2")))
    new = table.journal("new", late).open_writer()
    assert new.start == 3
    assert names(new.view) == [(1, 2), (1, 1), (1, 0)] == names(table.read())
    with pytest.raises(FencedError):
        old.put_l0(3, b"3")


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1)])
def test_rule_1_a_fence_that_was_not_answered_is_looked_at(table, fault):
    table.write(0)
    assert table.journal("new", Before(CREATE, table.l0(1, 1), fault)).open_writer().start == 1


def test_rule_1_a_fence_that_is_not_there_yet_is_put_again(table):
    old = table.journal("old").open_writer()
    new = table.journal("new", Before(CREATE, table.l0(1, 0), delayed(60))).open_writer()
    with pytest.raises(FencedError):
        old.put_l0(0, b"0")
    assert new.start == 0


def test_rule_1_a_flush_read_in_half_is_no_fence(table):
    old = table.journal("old").open_writer()
    befores = (
        Before(CREATE, table.l0(1, 0), lambda: old.put_l0(0, b"0")),
        Before("get", table.l0(1, 0), TRUNCATED),
    )
    assert table.journal("new", *befores).open_writer().start == 1


def test_rule_1_begins_again_when_what_refused_the_fence_was_collected(table):
    """The refused number was compacted and collected in between, so the pointer that was read is of long ago."""
    old = table.journal("old").open_writer()

    def collected():
        compactor = table.compact()
        assert compactor.view.manifest.last_compacted == 0
        table.age(1000)
        table.journal("collector").collect(l0_min_age_s=300, buffer_s=0)
        assert table.l0(1, 0) not in table.store

    befores = (
        Before(CREATE, table.l0(1, 0), lambda: old.put_l0(0, b"0")),
        Before("get", table.l0(1, 0), collected),
    )
    new = table.journal("new", *befores).open_writer()
    assert (new.epoch, new.start, new.view.manifest.last_compacted) == (2, 1, 0)
    with pytest.raises(FencedError):
        old.put_l0(1, b"1")


def test_an_opener_that_dies_after_the_fence_leaves_the_way_free(table):
    old = table.journal("old").open_writer()
    old.put_l0(0, b"0")
    with pytest.raises(Crashed):
        table.journal("dead", Before(SWAP, POINTER, CRASH_BEFORE)).open_writer()
    with pytest.raises(FencedError):
        old.put_l0(1, b"1")
    new = table.journal("new").open_writer()
    assert (new.epoch, new.start) == (2, 1)


def test_rule_2_an_opener_that_was_overtaken_begins_again(table):
    """The claim is swapped on the pointer of step 1: what was walked is what is claimed above."""
    rivals = []

    def overtaken():
        rival = table.journal("rival").open_writer()
        rival.put_l0(1, b"rival's")
        rivals.append(rival)

    table.write(0)
    new = table.journal("new", Before(SWAP, POINTER, overtaken)).open_writer()
    assert (rivals[0].epoch, new.epoch, new.start) == (2, 3, 2)
    assert names(new.view) == [(2, 1), (1, 0)]
    with pytest.raises(FencedError):
        rivals[0].put_l0(2, b"too late")


def test_rule_2_an_opener_whose_list_is_older_than_a_compaction_begins_again(table):
    table.write(0, 1)
    new = table.journal("new", Before(SWAP, POINTER, table.compact)).open_writer()
    assert (new.start, new.view.manifest.last_compacted, names(new.view)) == (2, 1, [])


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1)])
def test_rule_3_a_claim_that_was_not_answered_is_known_by_its_nonce(table, fault):
    writer = table.journal("new", Before(SWAP, POINTER, fault)).open_writer()
    assert (writer.epoch, [i.writer_epoch for i in table.journal().pointer().infos]) == (1, [1])


def test_rule_3_it_is_known_too_when_a_compactor_has_gone_on_from_it(table):
    table.write(0)
    befores = (
        Before(SWAP, POINTER, LOST_ACK),
        Before("get", POINTER, table.compact, nth=1),  # the look into the lost answer
    )
    writer = table.journal("new", *befores).open_writer()
    assert (writer.epoch, writer.start) == (2, 1)
    assert writer.view == table.read()
    writer.put_l0(1, b"1")
    writer.confirm(1)


def test_rule_3_another_claim_of_the_same_epoch_is_not_mistaken_for_ones_own(table):
    rivals = []
    befores = (
        Before(SWAP, POINTER, delayed(3600)),
        Before("get", POINTER, lambda: rivals.append(table.journal("rival").open_writer()), nth=1),
    )
    writer = table.journal("new", *befores).open_writer()
    assert (rivals[0].epoch, writer.epoch) == (1, 2)
    with pytest.raises(FencedError):
        rivals[0].put_l0(writer.start, b"not alone")


def test_a_claim_that_lands_late_is_fenced_like_any_other(table):
    journal = table.journal("new", Before(SWAP, POINTER, delayed(0.001)))
    writer = journal.open_writer()
    table.age(10)
    writer.put_l0(writer.start, b"1")
    writer.confirm(writer.start)
    assert names(table.read()) == [(writer.epoch, writer.start)]


def test_a_gap_is_waited_for(table):
    old = table.journal("old").open_writer()
    old.put_l0(1, b"1")
    filled = Before("list", "l0/", lambda: old.put_l0(0, b"0"), nth=2)
    new = table.journal("new", filled).open_writer(wait_for_gaps_s=10)
    assert (new.start, names(new.view)) == (2, [(1, 1), (1, 0)])


def test_what_is_above_a_gap_is_lost_after_the_wait(table):
    old = table.journal("old").open_writer()
    old.put_l0(1, b"1")
    began = table.store.time.now_ms
    new = table.journal("new").open_writer(wait_for_gaps_s=10)
    assert 10_000 <= table.store.time.now_ms - began < 11_000
    assert (new.start, names(table.read())) == (0, [])
    with pytest.raises(FencedError):
        old.put_l0(0, b"0")


def test_no_gap_is_no_wait(table):
    table.write(0, 1)
    began = table.store.time.now_ms
    table.journal("new").open_writer(wait_for_gaps_s=10)
    assert table.store.time.now_ms - began < 1000


def test_a_table_that_was_dropped_and_created_again_is_another(table):
    writer = table.journal("old").open_writer()
    writer.put_l0(0, b"0")
    table.journal().drop()
    table.journal().create({}, 100)
    with pytest.raises(FencedError, match="names another writer"):
        writer.poll()
    assert table.journal("new").open_writer().epoch == 100
    assert table.read().l0 == ()
    with pytest.raises(FencedError, match="may not write"):
        writer.put_l0(1, b"1")


def test_a_dropped_table_fences_its_writer(table):
    writer = table.journal("old").open_writer()
    table.journal().drop()
    assert not table.journal().exists()
    with pytest.raises(FencedError, match="was dropped"):
        writer.poll()
    with pytest.raises(FirnError):
        writer.confirm(0)
