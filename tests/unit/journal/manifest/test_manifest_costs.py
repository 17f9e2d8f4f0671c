"""What each verb costs in requests, and crashes at every one of them."""

from __future__ import annotations

import pytest

from firn.bucket import open_bucket
from firn.journal.manifest import ManifestJournal
from firn.testing import LOST_ACK, FaultBucket, Rule, Script, SimStore, crash_points
from manifest_tables import Table, merge, names, put


@pytest.fixture
def table():
    """Three flushes of two writers, one compacted; a chain of two manifests."""
    table = Table()
    table.write(0, 1, 2, 3)
    session = table.journal().open_compactor()
    session.commit(adds=[put(session, run=n) for n in range(4)], deletes=[], last_compacted=0)
    session.commit(adds=[put(session, run=5)], deletes=[], last_compacted=1)
    assert len(session.view.manifest.chain) == 2
    return table


def cost(journal, action):
    before = journal.bucket.counters.as_dict()
    result = action()
    spent = journal.bucket.counters.since(before)
    return result, {verb: n for verb, n in spent.items() if n and not verb.startswith("bytes")}


def test_creating():
    journal = ManifestJournal(SimStore().bucket(), "t")
    assert cost(journal, lambda: journal.create({}, 1))[1] == {"put": 1}
    assert cost(journal, journal.exists)[1] == {"get": 1}


def test_opening_a_writer(table):
    """GET pointer, GET each manifest of the chain, LIST, PUT the fence, CAS."""
    journal = table.journal()
    _, spent = cost(journal, journal.open_writer)
    assert spent == {"get": 1 + 2, "list": 1, "put": 2}


def test_the_list_begins_above_what_is_compacted(table):
    """Flushes that wait for the collector cost nothing."""
    table = Table(page_size=10)
    table.write(*range(100))
    table.compact(97)
    journal = table.journal()
    _, spent = cost(journal, journal.open_writer)
    assert spent["list"] == 1


def test_a_flush_is_one_put(table):
    journal = table.journal()
    writer = journal.open_writer()
    _, spent = cost(journal, lambda: (writer.put_l0(4, b"4"), writer.confirm(4)))
    assert spent == {"put": 1}
    assert cost(journal, lambda: (writer.view, writer.next_number, writer.check()))[1] == {}
    assert cost(journal, writer.poll)[1] == {"get": 1}


def test_a_strict_flush_is_one_put_and_one_get(table):
    journal = table.journal()
    writer = journal.open_writer(strict=True)
    _, spent = cost(journal, lambda: (writer.put_l0(4, b"4"), writer.confirm(4)))
    assert spent == {"put": 1, "get": 1}


def test_reading(table):
    """Two GETs of the pointer, the chain, one LIST; LIST and GET to refresh; new manifests only."""
    journal = table.journal()
    view, spent = cost(journal, journal.read)
    assert spent == {"get": 2 + 2, "list": 1}
    assert cost(journal, lambda: journal.read(view))[1] == {"get": 1, "list": 1}
    session = table.journal().open_compactor()
    session.commit(adds=[put(session, run=6)], deletes=[], last_compacted=1)
    assert cost(journal, lambda: journal.read(view))[1] == {"get": 2, "list": 1}


def test_compacting(table):
    journal = table.journal()
    session, spent = cost(journal, journal.open_compactor)
    assert spent == {"get": 1 + 2 + 2, "list": 1, "put": 1}
    assert cost(journal, lambda: (session.view, session.reserve_ssts(9), session.sst_key(0)))[1] == {}
    assert cost(journal, session.refresh)[1] == {"get": 1, "list": 1}
    sst, spent = cost(journal, lambda: put(session))
    assert spent == {"put": 1}
    _, spent = cost(journal, lambda: session.commit(adds=[sst], deletes=[], last_compacted=2))
    assert spent == {"put": 2}


def test_snapshots(table):
    journal = table.journal()
    view = journal.read()
    ref, spent = cost(journal, lambda: journal.snapshot(view))
    assert spent == {"put": 2, "get": 1}
    assert cost(journal, journal.snapshots)[1] == {"list": 1, "get": 1}
    assert cost(journal, lambda: journal.view_of(ref))[1] == {"get": 1 + 2}
    assert cost(journal, lambda: journal.refresh_snapshot(ref, 10**15))[1] == {"get": 1, "head": 1, "put": 1}
    assert cost(journal, lambda: journal.delete_snapshot(ref))[1] == {"get": 1, "put": 1, "delete": 1}


def test_collecting(table):
    """The clock's PUT and HEAD, GET pointer and chain, four LISTs, GET each snapshot, DELETE each object."""
    table.journal().snapshot()
    table.age(1000)
    journal = table.journal()
    report, spent = cost(journal, lambda: journal.collect(l0_min_age_s=300, buffer_s=0))
    assert len(report.deleted) == 2
    assert spent == {"put": 1, "head": 1, "get": 1 + 2 + 1, "list": 4, "delete": 2}


def started():
    table = Table()
    table.write(0, 1, 2)
    table.compact(0)
    table.age(10)
    return table.store


def on(bucket):
    return ManifestJournal(bucket, "t", clock=bucket.clock)


def write(bucket):
    writer = on(bucket).open_writer()
    for number in range(writer.start, writer.start + 2):
        writer.put_l0(number, b"%d" % number)
        writer.confirm(number)


def compact(bucket):
    session = on(bucket).open_compactor()
    merge(session, session.view, session.view.last_l0)


def keep(bucket):
    journal = on(bucket)
    ref = journal.snapshot(expires_ms=journal.clock.now_ms() + 10**6)
    journal.refresh_snapshot(ref, journal.clock.now_ms() + 2 * 10**6)


def drop_and_collect(bucket):
    journal = on(bucket)
    for ref in journal.snapshots():
        journal.delete_snapshot(ref)
    journal.collect(l0_min_age_s=0, buffer_s=0)


@pytest.mark.parametrize("operation", [write, compact, keep, drop_and_collect], ids=lambda f: f.__name__)
def test_a_crash_at_every_request(operation):
    """Whatever was cut off: nothing is lost, everything can be done again, and collection leaves what is live."""
    modes = ("before", "after", "lost_ack", "retried", "failed")

    def check(store, point):
        bucket = store.bucket("survivor")
        journal = on(bucket)
        view = journal.read()
        assert view.last_l0 >= 2
        assert [n for _, n in names(view)] == list(range(view.last_l0, view.manifest.last_compacted, -1))
        for again in (write, compact, keep, drop_and_collect):
            again(bucket)
        after = journal.read()
        assert after.last_l0 >= view.last_l0 + 2
        assert after.manifest.last_compacted == after.last_l0
        left = [key for key in store.keys("") if "/l0/" not in key or store.fetch(key).data]
        assert len(left) == 4, "the pointer, its manifest, one SST, the clock"

    assert crash_points(started, operation, check, modes=modes) > 10


def test_a_crash_at_every_request_of_creation():
    def check(store, point):
        journal = on(store.bucket())
        if not journal.exists():
            journal.create({}, 2)
        assert journal.open_writer().start == 0

    assert crash_points(SimStore, lambda bucket: on(bucket).create({}, 1), check) == 4


def test_over_a_directory(tmp_path):
    """The same over a real store's conditional puts, none of which is answered."""
    silent = Script(Rule(LOST_ACK, verb=("put_if_absent", "put_if_match"), every=True))
    bucket = FaultBucket(open_bucket(tmp_path), silent)
    on(bucket).create({}, 1)
    for _ in range(3):
        write(bucket)
        compact(bucket)
        keep(bucket)
    drop_and_collect(bucket)
    view = on(bucket).read()
    assert (view.last_l0, view.manifest.last_compacted, len(view.manifest.ssts)) == (5, 5, 1)
