"""Notes that keep two processes from the same long work."""

from __future__ import annotations

from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.leaderless.maintain.work_note import WorkNote, take
from firn.testing import GatedBucket, SimStore
from regressions.journals import append, journal_on, sweep

LAYOUT = TableLayout("db/t", "db/t")
KEY = LAYOUT.work_key("p=a")


def taken(bucket: GatedBucket, key: str = KEY) -> WorkNote | None:
    return take(bucket, key, clock_key=LAYOUT.clock_key, seconds=60)


def test_one_at_a_time_has_the_note_of_a_partition():
    store = SimStore()
    one, two = store.bucket("one"), store.bucket("two", skew_ms=3_600_000)
    note = taken(one)
    assert note is not None and taken(two) is None
    assert taken(two, LAYOUT.work_key("p=b")) is not None
    with note:
        assert taken(two) is None
    assert taken(two) is not None


def test_it_expires_by_the_stores_clock():
    store = SimStore()
    one, two = store.bucket("one"), store.bucket("two", skew_ms=-3_600_000)
    note = taken(one)
    assert note is not None
    one.clock.sleep(59)
    assert taken(two) is None and note.extend(60)
    one.clock.sleep(59)
    assert taken(two) is None
    one.clock.sleep(2)
    other = taken(two)
    assert other is not None and not note.extend(60)
    note.release()
    assert taken(one) is None, "it was another's, and is gone"


def test_a_damaged_note_keeps_nobody_away():
    bucket = SimStore().bucket("one")
    bucket.put(KEY, b"{")
    assert taken(bucket) is not None


def test_a_sweep_takes_old_notes_away():
    store = SimStore()
    journal = journal_on(store)
    append(journal, [1])
    taken(journal.bucket)
    journal.clock.sleep(20 * 3600)
    taken(journal.bucket, LAYOUT.work_key("p=b"))
    journal.clock.sleep(5 * 3600)
    sweep(journal)
    assert store.keys(LAYOUT.work_prefix) == [LAYOUT.work_key("p=b")]
