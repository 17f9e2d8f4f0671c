"""Open writers and readers, directly and through asyncio: what is put is read, what is durable stays."""

from __future__ import annotations

import threading
import time

import boto3
import pyarrow as pa
import pytest
from moto import mock_aws

import firn
from firn.clock import SystemClock
from firn.errors import (
    FencedError,
    InvalidInputError,
    OutcomeUnknownError,
    SnapshotTooOldError,
    StoreUnavailableError,
    TableExistsError,
)
from firn.keyed.table import KeyedTable
from firn.keyed.write.batch import WriteBatch
from kv_twins import Twins
from twins import Loop

SLOW = {"flush_ms": 3_600_000}
"""So that nothing is flushed but by hand, or because somebody waits."""


@pytest.fixture(params=["sync", "asyncio"])
def twins(request):
    loop = Loop() if request.param == "asyncio" else None
    yield Twins(loop)
    if loop is not None:
        loop.stop()


def new(db, **options):
    return db.create_table("t", kind="keyed", properties={**SLOW, **options.pop("properties", {})}, **options)


class Shaky:
    """A bucket whose next puts fail as `errors` say: an exception, which the put doesn't survive, or after which
    it has landed all the same."""

    def __init__(self, bucket):
        self.bucket, self.errors, self.gate = bucket, [], None

    def __getattr__(self, name):
        return getattr(self.bucket, name)

    def put_if_absent(self, key, data, **options):
        if self.gate is not None:
            self.gate.wait(30)
        if self.errors and "/l0/" in f"/{key}":
            error, lands = self.errors.pop(0)
            if lands:
                self.bucket.put_if_absent(key, data, **options)
            raise error
        return self.bucket.put_if_absent(key, data, **options)


def shaky(table):
    return KeyedTable(Shaky(table.bucket), table.prefix, table.definition)


def l0(table):
    return [info for info in table.bucket.list(f"{table.prefix}/l0/").objects if info.size]


def test_what_is_put_is_read(db, twins):
    with twins.open(new(db)) as kv:
        kv.put(b"b", b"1")
        kv.put(b"a", b"2", durable=False)
        kv.write({b"c": b"3", b"d": b"4"}, durable=False)
        kv.delete(b"d", durable=False)
        assert [kv.get(key) for key in (b"a", b"b", b"c", b"d", b"x")] == [b"2", b"1", b"3", None, None]
        assert kv.multi_get([b"d", b"c", b"c"]) == [None, b"3", b"3"]
        assert list(kv.scan()) == [(b"a", b"2"), (b"b", b"1"), (b"c", b"3")]
        assert list(kv.scan(b"b", b"c")) == [(b"b", b"1")]
        assert [key for key, _ in kv.scan(reverse=True)] == [b"c", b"b", b"a"]
        assert kv.scan().to_arrow().to_pydict() == {"key": [b"a", b"b", b"c"], "value": [b"2", b"1", b"3"]}
        assert sum(batch.num_rows for batch in kv.scan_prefix(b"a").to_batches()) == 1


def test_a_durable_read_leaves_out_what_a_crash_could_undo(db, twins):
    with twins.open(new(db)) as kv:
        kv.put(b"a", b"1")
        kv.put(b"a", b"2", durable=False)
        kv.put(b"b", b"2", durable=False)
        assert (kv.get(b"a"), kv.get(b"a", durable=True)) == (b"2", b"1")
        assert list(kv.scan(durable=True)) == [(b"a", b"1")]
        assert kv.multi_get([b"a", b"b"], durable=True) == [b"1", None]
        kv.flush()
        assert list(kv.scan(durable=True)) == [(b"a", b"2"), (b"b", b"2")]


def test_a_durable_put_is_there_for_whoever_reads(db, twins):
    table = new(db)
    with twins.open(table) as kv:
        kv.put(b"a", b"1")
        kv.put(b"b", b"1", durable=False)
        assert list(db.table("t").reader().scan()) == [(b"a", b"1")]


def test_closing_loses_nothing(db, twins):
    table = new(db)
    with twins.open(table) as kv:
        for n in range(1000):
            kv.put(b"%04d" % n, b"x", durable=False)
    assert len(list(twins.reader(table).scan())) == 1000
    with twins.open(table) as kv:
        assert kv.get(b"0999") == b"x"


def test_flush_ms_flushes_what_nobody_waits_for(db, twins):
    table = db.create_table("soon", kind="keyed", properties={"flush_ms": 5})
    with twins.open(table) as kv, twins.reader(table, follow="0s") as reader:
        kv.put(b"a", b"1", durable=False)
        deadline = time.monotonic() + 30
        while reader.get(b"a") is None:
            assert time.monotonic() < deadline


def test_puts_that_wait_share_flushes(db):
    table = new(db)
    with table.open() as kv:
        threads = [threading.Thread(target=kv.put, args=(b"%d" % n, b"x")) for n in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(list(kv.scan(durable=True))) == 40
        assert kv.stats().flushes <= 40


def test_a_batch_is_in_one_flush(db, twins):
    table = new(db, properties={"memtable_size": "64KB"})
    with twins.open(table, compaction=False) as kv:
        batch = WriteBatch()
        for n in range(5000):
            batch.put(b"%06d" % n, b"x" * 40)
        batch.delete(b"000000")
        kv.write(batch)
    assert len(l0(table)) == 1
    assert len(list(twins.reader(table).scan())) == 4999


def test_a_flush_is_one_put(db, twins):
    table = new(db)
    with twins.open(table, compaction=False, poll_every="1d") as kv:
        before = table.bucket.counters.as_dict()
        kv.put(b"a", b"1")
        spent = table.bucket.counters.since(before)
        assert (spent["put"], spent["get"], spent["list"]) == (1, 0, 0)
        assert kv.get(b"a") == b"1"
        before = table.bucket.counters.as_dict()
        kv.put(b"b", b"1", durable=False)
        kv.get(b"b")
        assert table.bucket.counters.since(before)["put"] == 0
    strict = db.create_table("strict", kind="keyed", properties={**SLOW, "strict": True})
    with twins.open(strict, compaction=False, poll_every="1d") as kv:
        before = strict.bucket.counters.as_dict()
        kv.put(b"a", b"1")
        spent = strict.bucket.counters.since(before)
        assert (spent["put"], spent["get"]) == (1, 1)


def test_a_fenced_writer_fails_everything_after_it_knows(db, twins):
    table = new(db)
    old = twins.open(table)
    old.put(b"a", b"1")
    with twins.open(table) as kv:
        assert kv.get(b"a") == b"1"
        with pytest.raises(FencedError):
            old.put(b"a", b"zombie")
        for doomed in (
            lambda: old.get(b"a"),
            lambda: list(old.scan()),
            lambda: old.put(b"b", b"2", durable=False),
            lambda: old.delete(b"a"),
            old.flush,
            old.snapshot,
        ):
            with pytest.raises(FencedError):
                doomed()
        with pytest.raises(FencedError):
            old.close()
        assert kv.get(b"a") == b"1"


def test_a_poll_finds_the_next_writer(db, twins):
    table = new(db)
    old = twins.open(table)
    with table.open():
        with pytest.raises(FencedError):
            old.poll()
        with pytest.raises(FencedError):
            old.get(b"a")
    with pytest.raises(FencedError):
        old.close()


def test_a_closed_writer_says_so(db, twins):
    table = new(db)
    kv = twins.open(table)
    kv.close()
    kv.close()
    reader = twins.reader(table)
    reader.close()
    reader.close()
    for doomed in (
        lambda: kv.put(b"a", b"1"),
        lambda: kv.get(b"a"),
        lambda: list(kv.scan()),
        kv.flush,
        lambda: reader.get(b"a"),
    ):
        with pytest.raises(InvalidInputError, match="closed"):
            doomed()


@pytest.mark.parametrize("lands", [False, True])
@pytest.mark.parametrize("kind", [StoreUnavailableError, OutcomeUnknownError])
def test_a_transient_error_of_the_store_is_waited_out(db, twins, kind, lands):
    table = shaky(new(db))
    with twins.open(table, compaction=False) as kv:
        table.bucket.errors = [(kind("not now"), lands), (kind("nor now"), False)]
        kv.put(b"a", b"1")
        kv.put(b"b", b"2")
        assert not table.bucket.errors
    assert list(table.reader().scan()) == [(b"a", b"1"), (b"b", b"2")]


def test_a_fatal_error_of_the_store_is_told_to_all(db, twins):
    table = shaky(new(db))
    kv = twins.open(table, compaction=False)
    table.bucket.errors = [(firn.AccessDeniedError("no right to write there"), False)] * 9
    with pytest.raises(firn.AccessDeniedError, match="no right to write there"):
        kv.put(b"a", b"1")
    with pytest.raises(firn.AccessDeniedError):
        kv.put(b"b", b"1", durable=False)
    with pytest.raises(firn.AccessDeniedError):
        kv.close()


def test_puts_wait_while_too_much_is_unflushed(db):
    table = shaky(new(db, properties={"memtable_size": "64KB", "max_unflushed": "256KB"}))
    with table.open(compaction=False) as kv:
        table.bucket.gate = threading.Event()
        done = threading.Event()

        def fill():
            for n in range(2000):
                kv.put(b"%06d" % n, b"x" * 500, durable=False)
            done.set()

        thread = threading.Thread(target=fill)
        thread.start()
        while not kv.stats().stalls:
            assert thread.is_alive(), "a megabyte was put where a quarter of one has room"
        assert kv.stats().unflushed_bytes < 400_000
        assert kv.get(b"000000") == b"x" * 500, "reads go on"
        table.bucket.gate.set()
        thread.join()
        assert done.is_set()
        assert len(list(kv.scan())) == 2000


def test_a_snapshot_stays(db, twins):
    with twins.open(new(db)) as kv:
        kv.put(b"a", b"1")
        kv.put(b"b", b"1", durable=False)
        with kv.snapshot() as before:
            kv.put(b"a", b"2")
            kv.delete(b"b")
            kv.compact()
            assert list(before.scan()) == [(b"a", b"1"), (b"b", b"1")]
            assert (before.get(b"a"), before.get(b"b", durable=True)) == (b"1", None)
        assert list(kv.scan()) == [(b"a", b"2")]


def test_a_reader_that_stays_says_when_its_objects_were_swept(db, twins):
    table = new(db)
    with twins.open(table, compaction=False) as kv:
        kv.put(b"a", b"1")
        elsewhere = shaky(table)  # as in another process: nothing is cached
        staying = twins.reader(elsewhere, follow=None)
        kv.compact()
        table.sweep(older_than="0s")
        with pytest.raises(SnapshotTooOldError, match="compacted and swept"):
            staying.get(b"a")
        staying.refresh()
        assert staying.get(b"a") == b"1"


def test_values_live_as_long_as_they_may(db, twins):
    now = [1_000_000]

    class Clock(SystemClock):
        def now_ms(self):
            return now[0]

    made = new(db, ttl="1h")
    table = KeyedTable(made.bucket, made.prefix, made.definition, clock=Clock())
    with twins.open(table) as kv:
        kv.put(b"table's", b"1")
        kv.put(b"own", b"1", ttl="1m")
        now[0] += 61_000
        assert (kv.get(b"table's"), kv.get(b"own")) == (b"1", None)
        assert [key for key, _ in kv.scan()] == [b"table's"]
        now[0] += 3_600_000
        assert kv.multi_get([b"table's", b"own"]) == [None, None]


def test_merging(db, twins):
    table = new(db, merge_operator="add")
    with twins.open(table) as kv:
        for n in range(5):
            kv.merge(b"n", b"%d" % n, durable=n % 2 == 0)
        assert kv.get(b"n") == b"10"
        kv.compact()
        kv.merge(b"n", b"5")
        assert kv.get(b"n") == b"15"
    with (
        twins.open(db.create_table("plain", kind="keyed")) as kv,
        pytest.raises(InvalidInputError, match="merge"),
    ):
        kv.merge(b"n", b"1")


def test_typed_keys_and_values(db, twins):
    table = new(db, schema={"delay": "BIGINT"}, key={"state": "VARCHAR", "year": "BIGINT"})
    with twins.open(table) as kv:
        kv.put(("MI", 2001), {"delay": 5})
        kv.put(("MI", 1999), {"delay": 7})
        kv.put(("HI", 2001), {"delay": None})
        kv.flush()
        assert kv.get(("MI", 1999)) == {"delay": 7}
        assert [key for key, _ in kv.scan(("MI",))] == [("MI", 1999), ("MI", 2001)]
        assert kv.scan_prefix(("HI",)).to_arrow().to_pydict() == {
            "state": ["HI"],
            "year": [2001],
            "delay": [None],
        }
        with pytest.raises(InvalidInputError):
            kv.put(("MI", "1999"), {"delay": 7})
        with pytest.raises(InvalidInputError):
            kv.put(("MI", 1999), {"dealy": 7})


def test_readers_follow_or_stay(db, twins):
    table = new(db)
    with twins.open(table) as kv:
        kv.put(b"a", b"1")
        following, staying = twins.reader(table, follow="0s"), twins.reader(table, follow=None)
        kv.put(b"a", b"2")
        assert (following.get(b"a"), staying.get(b"a")) == (b"2", b"1")
        assert twins.reader(table, at=staying.version).get(b"a") == b"1"
        assert staying.refresh() == following.version
        assert staying.get(b"a") == b"2"


def test_a_following_reader_goes_on_over_compaction_and_sweep(db, twins):
    table = new(db)
    with twins.open(table, compaction=False) as kv:
        reader = twins.reader(table, follow="1h")
        kv.put(b"a", b"1")
        reader.refresh()
        kv.compact()
        table.sweep(older_than="0s")
        assert reader.get(b"a") == b"1"
        assert list(reader.scan()) == [(b"a", b"1")]


def test_opening_a_reader_writes_nothing_and_reads_little(db, twins):
    table = new(db)
    with twins.open(table) as kv:
        kv.put(b"a", b"1")
    again = db.table("t")
    before = again.bucket.counters.as_dict()
    reader = twins.reader(again, follow="1h")
    spent = again.bucket.counters.since(before)
    assert (spent["get"], spent["list"], spent["put"]) == (2, 1, 0)
    assert reader.get(b"a") == b"1"
    before = again.bucket.counters.as_dict()
    assert reader.get(b"a") == b"1"
    assert again.bucket.counters.since(before)["get"] == 0


def test_compaction_in_the_background(db, twins):
    table = new(db)
    with twins.open(table) as kv:
        for n in range(40):
            kv.put(b"%02d" % n, b"x")
        deadline = time.monotonic() + 30
        while kv.stats().compactions == 0:
            assert time.monotonic() < deadline
        assert len(list(kv.scan())) == 40
        assert kv.stats().last_error is None


def test_a_pointer_elsewhere(db, twins, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    with mock_aws():
        boto3.client("dynamodb", region_name="eu-west-1").create_table(
            TableName="pointers",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        table = new(db, properties={"pointer_url": "dynamodb://pointers/t?region=eu-west-1"})
        with twins.open(table) as kv:
            kv.put(b"a", b"1")
            kv.compact()
        assert twins.reader(db.table("t")).get(b"a") == b"1"
        assert not [info.key for info in table.bucket.list("t/").objects if "current_manifest" in info.key]
        with pytest.raises(TableExistsError, match="pointers/t exists"):
            db.create_table("u", kind="keyed", properties=table.definition.properties)
        assert db.tables() == ["t"] and table.pointers.get() is not None
        assert db.create_table("u", kind="keyed").definition.generation == 1
        db.drop_table("t")
        again = new(db, properties=table.definition.properties)
        assert again.pointers.where == "dynamodb://pointers/t~1"
        assert table.pointers.get() is None and again.pointers.get() is not None
        assert db.table("t").reader().get(b"a") is None


def test_what_arrow_used_is_given_back_when_a_writer_is_closed(db, monkeypatch):
    here, others, given_back = threading.current_thread(), set(threading.enumerate()), []

    class Pool:
        def release_unused(self):
            if threading.current_thread() is here:  # writers of other tests may still flush
                flushing = {t.name for t in set(threading.enumerate()) - others}
                given_back.append([name for name in flushing if name.startswith("firn-flush")])

    kv = new(db).open(compaction=False)
    kv.put(b"DTW", b"66")
    monkeypatch.setattr(pa, "default_memory_pool", Pool)
    assert not given_back
    kv.close()
    assert given_back == [[]]
