"""Flushes of a writer and their acknowledgement: rules 4 to 7."""

from __future__ import annotations

import threading

import pytest

from firn.bucket import open_bucket
from firn.clock import SystemClock, seconds_awake_or_not
from firn.errors import FencedError, FirnError, InvalidInputError, OutcomeUnknownError, StoreUnavailableError
from firn.journal.manifest import ManifestJournal
from firn.testing import FAILED, LOST_ACK, TRUNCATED, delayed, retried
from manifest_tables import Before, Table, names

POINTER = "current_manifest"
CREATE = "put_if_absent"


def test_rule_4_a_flush_never_replaces_anything(table):
    writer = table.journal("writer").open_writer()
    writer.put_l0(0, b"first")
    with pytest.raises(FencedError, match="somebody else's object"):
        writer.put_l0(0, b"other bytes")
    assert table.store.contents()[table.l0(1, 0)] == b"first"


def test_rule_4_several_may_be_in_flight_in_any_order(table):
    writer = table.journal("writer").open_writer()
    writer.put_l0(2, b"2")
    assert (writer.next_number, names(writer.view), names(table.read())) == (3, [], [])
    writer.put_l0(0, b"0")
    assert names(writer.view) == names(table.read()) == [(1, 0)]
    writer.put_l0(1, b"1")
    assert names(writer.view) == names(table.read()) == [(1, 2), (1, 1), (1, 0)]


@pytest.mark.parametrize("fault", [LOST_ACK, retried(1)])
def test_rule_5_a_flush_that_was_not_answered_is_known_by_its_bytes(table, fault):
    writer = table.journal("writer", Before(CREATE, table.l0(1, 0), fault)).open_writer()
    writer.put_l0(0, b"0")
    writer.confirm(0)
    assert names(table.read()) == [(1, 0)]


def test_rule_5_a_flush_that_is_not_there_is_put_again(table):
    writer = table.journal("writer", Before(CREATE, table.l0(1, 0), delayed(3600))).open_writer()
    writer.put_l0(0, b"0")
    assert names(table.read()) == [(1, 0)]


def test_rule_5_a_fence_in_place_of_an_unanswered_flush_fences(table):
    """The put never landed, and the next writer's fence came first."""
    befores = (
        Before(CREATE, table.l0(1, 0), delayed(3600)),
        Before("get", table.l0(1, 0), lambda: table.journal("next").open_writer()),
    )
    writer = table.journal("writer", *befores).open_writer()
    with pytest.raises(FencedError, match="fence"):
        writer.put_l0(0, b"0")
    assert writer.fenced
    for doomed in (lambda: writer.put_l0(1, b"1"), lambda: writer.confirm(0), writer.poll, writer.check):
        with pytest.raises(FencedError, match="of epoch 1"):
            doomed()


def test_rule_5_half_an_answer_is_not_somebody_elses(table):
    befores = (Before(CREATE, table.l0(1, 0), LOST_ACK), Before("get", table.l0(1, 0), TRUNCATED))
    table.journal("writer", *befores).open_writer().put_l0(0, b"some bytes")
    assert names(table.read()) == [(1, 0)]


def test_a_flush_that_failed_is_put_again_by_the_caller(table):
    writer = table.journal("writer", Before(CREATE, table.l0(1, 0), FAILED)).open_writer()
    with pytest.raises(StoreUnavailableError):
        writer.put_l0(0, b"0")
    assert not writer.fenced
    writer.put_l0(0, b"0")
    writer.confirm(0)


def test_an_answer_that_cannot_be_looked_into_leaves_the_flush_to_the_caller(table):
    befores = (Before(CREATE, table.l0(1, 0), LOST_ACK), Before("get", table.l0(1, 0), FAILED))
    writer = table.journal("writer", *befores).open_writer()
    with pytest.raises(FirnError):
        writer.put_l0(0, b"0")
    writer.put_l0(0, b"0")
    writer.confirm(0)
    assert names(writer.view) == [(1, 0)]


def test_a_store_that_never_answers_ends_in_doubt(table):
    lost = [Before(CREATE, table.l0(1, 0), delayed(10**6), nth=n) for n in range(100)]
    writer = table.journal("writer", *lost).open_writer()
    with pytest.raises(OutcomeUnknownError, match="put the same bytes again"):
        writer.put_l0(0, b"0")


def test_an_empty_flush_and_a_number_of_others_are_refused(table):
    table.write(0)
    writer = table.journal("writer").open_writer()
    with pytest.raises(InvalidInputError, match="would be a fence"):
        writer.put_l0(1, b"")
    with pytest.raises(InvalidInputError, match="begin at 1"):
        writer.put_l0(0, b"0")


def test_rule_6_a_flush_is_acknowledged_only_when_all_lower_ones_are_up(table):
    waited = []

    class Sleeping(SystemClock):
        def sleep(self, seconds):
            waited.append(seconds)
            if len(waited) == 3:
                writer.put_l0(0, b"0")

    journal = ManifestJournal(table.store.bucket("writer"), "t", clock=Sleeping())
    writer = journal.open_writer()
    writer.put_l0(1, b"1")
    writer.confirm(1)
    assert len(waited) == 3


def test_rule_6_waiting_ends_when_a_lower_flush_is_fenced(table):
    class Sleeping(SystemClock):
        def sleep(self, seconds):
            table.journal("next").open_writer()
            with pytest.raises(FencedError):
                writer.put_l0(0, b"0")

    writer = ManifestJournal(table.store.bucket("writer"), "t", clock=Sleeping()).open_writer()
    writer.put_l0(1, b"1")
    with pytest.raises(FencedError):
        writer.confirm(1)


def gets(journal, action):
    before = journal.bucket.counters.get
    action()
    return journal.bucket.counters.get - before


def test_rule_7_a_look_at_the_pointer_holds_for_poll_max(table):
    journal = table.journal("writer", poll_max_s=30)
    writer = journal.open_writer()
    writer.put_l0(0, b"0")
    assert gets(journal, lambda: writer.confirm(0)) == 0
    table.age(30)
    writer.put_l0(1, b"1")
    assert gets(journal, lambda: writer.confirm(1)) == 1
    assert gets(journal, lambda: writer.confirm(1)) == 0


def test_rule_7_a_writer_that_slept_is_told_by_the_pointer(table):
    """Its flush landed before it slept; the fence stands above it and the collector has taken both."""
    writer = table.journal("writer", poll_max_s=30).open_writer()
    table.journal("next").open_writer()
    table.age(31)
    # As after rule 20: nothing is left in the zombie's way.
    table.store.bucket().delete(table.l0(1, 0))
    writer.put_l0(0, b"zombie")
    with pytest.raises(FencedError, match="names another writer, of epoch 2"):
        writer.confirm(0)
    assert names(table.read()) == []


def test_rule_7_the_look_counts_from_its_beginning(table):
    """A slow answer is as old as the question."""

    def slow():
        table.age(40)

    journal = table.journal("writer", Before("get", POINTER, slow, nth=1), poll_max_s=30)
    writer = journal.open_writer()
    writer.poll()
    writer.put_l0(0, b"0")
    assert gets(journal, lambda: writer.confirm(0)) == 1


def test_rule_7_polls_keep_it_fresh(table):
    journal = table.journal("writer", poll_max_s=30)
    writer = journal.open_writer()
    for number in range(5):
        table.age(20)
        writer.poll()
        writer.put_l0(number, b"x")
        assert gets(journal, lambda n=number: writer.confirm(n)) == 0


def test_rule_7_the_clock_goes_on_in_suspension():
    """Where the system tells: a process that was suspended must look at the pointer again."""

    class Simulated(SystemClock):
        pass

    assert seconds_awake_or_not(Simulated()) == pytest.approx(seconds_awake_or_not(SystemClock()), abs=60)
    table = Table()
    bucket = table.store.bucket()
    assert seconds_awake_or_not(bucket.clock) == bucket.clock.monotonic()


def test_strict_mode_looks_after_each_flush(table):
    journal = table.journal("writer")
    writer = journal.open_writer(strict=True)
    writer.put_l0(0, b"0")
    writer.put_l0(1, b"1")
    assert gets(journal, lambda: writer.confirm(0)) == 1
    assert gets(journal, lambda: writer.confirm(1)) == 0, "the look came after both"
    writer.put_l0(2, b"2")
    table.journal("next").open_writer()
    with pytest.raises(FencedError):
        writer.confirm(2)


def test_strict_mode_does_not_count_a_look_that_began_before_the_flush_was_up(table):
    def late():
        writer.put_l0(0, b"0")

    journal = table.journal("writer", Before("get", POINTER, late, nth=1))
    writer = journal.open_writer(strict=True)
    writer.poll()
    assert gets(journal, lambda: writer.confirm(0)) == 1


def test_a_poll_shows_a_newer_manifest_once(table):
    writer = table.journal("writer").open_writer()
    for n in range(3):
        writer.put_l0(n, b"%d" % n)
    assert writer.poll() is None
    table.compact(1)
    view = writer.poll()
    assert view is not None
    assert view == writer.view == table.read()
    assert (view.manifest.last_compacted, names(view)) == (1, [(1, 2)])
    assert writer.poll() is None


def test_threads_of_one_writer(tmp_path):
    """32 flushes at once over real threads: all are up, in order, and acknowledged."""
    journal = ManifestJournal(open_bucket(tmp_path), "t")
    journal.create({}, 1)
    writer = journal.open_writer()
    acknowledged = []

    def flush(number):
        writer.put_l0(number, b"%d" % number)
        writer.confirm(number)
        acknowledged.append(number)

    threads = [threading.Thread(target=flush, args=(n,)) for n in range(32)]
    for thread in reversed(threads):
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(acknowledged) == list(range(32))
    assert names(writer.view) == names(journal.read()) == [(1, n) for n in range(31, -1, -1)]
