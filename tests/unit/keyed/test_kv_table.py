"""Keyed tables as a database has them: created, opened, listed, dropped and created again; what each costs."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace

import pytest

import firn
from firn.concurrency.background import Background
from firn.errors import (
    CorruptObjectError,
    FencedError,
    InvalidInputError,
    SnapshotTooOldError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.inspect.dump.dump import dump_object
from firn.inspect.fsck.fsck import check
from firn.inspect.report.keyed_facts import keyed_facts
from firn.journal.definition import decode_framed, definition_key
from firn.keyed.definition.definition import KeyedDefinition, create_definition
from firn.keyed.definition.settings import KEYED_PROPERTIES, KeyedSettings
from firn.keyed.maintain.clones import clones_of

SLOW = {"flush_ms": 3_600_000}
VERBS = ("get", "put", "list", "head", "delete")


def new(db, name="t", **options):
    return db.create_table(
        name, kind="keyed", properties={**SLOW, **options.pop("properties", {})}, **options
    )


def spent(table, work):
    before = table.bucket.counters.as_dict()
    result = work()
    counted = table.bucket.counters.since(before)
    return {verb: counted[verb] for verb in VERBS if counted[verb]}, result


def fill(table, *keys):
    with table.open(compaction=False) as kv:
        for key in keys:
            kv.put(key, b"v")


# -- a database's tables


def test_tables_of_both_kinds_share_a_name_space(db):
    new(db, "kv")
    db.create_table("lake")
    assert db.tables() == ["kv", "lake"]
    assert db.tables("keyed") == ["kv"] and db.tables("lake") == ["lake"]
    assert isinstance(db.table("kv"), firn.KeyedTable) and isinstance(db.table("lake"), firn.LakeTable)
    for taken, kind in (("kv", "lake"), ("kv", "keyed"), ("lake", "keyed")):
        with pytest.raises(TableExistsError):
            db.create_table(taken, kind=kind)


def test_who_asks_for_a_kind_is_told_when_it_is_another(db):
    new(db, "kv")
    db.create_table("lake")
    with pytest.raises(InvalidInputError, match="kv is a keyed table"):
        db.table("kv", kind="lake")
    with pytest.raises(InvalidInputError, match="lake is a lake table"):
        db.table("lake", kind="keyed")


def test_opening_gives_the_table_back_as_it_was_created(db):
    made = new(
        db, key={"state": "VARCHAR", "year": "BIGINT"}, schema={"n": "BIGINT"}, merge_operator="add", ttl="1h"
    )
    assert db.table("t").definition == made.definition
    assert made.definition.ttl_ms == 3_600_000


@pytest.mark.parametrize(
    "options",
    [
        {"partition_by": ["a"]},
        {"sort_by": ["a"]},
        {"version_by": "a"},
        {"journal": "writer"},
        {"key": ["a"]},
        {"key": {"a": "DOUBLE[]"}},
        {"key": {"a": "BIGINT"}, "schema": {"A": "BIGINT"}},
        {"schema": {"seq": "BIGINT"}},
        {"merge_operator": "multiply"},
        {"merge_operator": "os:system"},
        {"ttl": "soon"},
        {"properties": {"target_size": "1MB"}},
        {"properties": {"flush_ms": 0}},
        {"properties": {"compaction": "never"}},
        {"properties": {"poll_max": "5m"}},
        {"properties": {"pointer_url": "redis://x"}},
    ],
)
def test_what_no_keyed_table_can_have_is_refused_and_nothing_is_written(db, options):
    with pytest.raises(InvalidInputError):
        db.create_table("t", kind="keyed", **options)
    assert db.bucket.counters.put == 0


@pytest.mark.parametrize("options", [{"merge_operator": "add"}, {"ttl": "1h"}, {"key": {"a": "BIGINT"}}])
def test_what_only_keyed_tables_have_is_refused_for_lakes(db, options):
    with pytest.raises(InvalidInputError, match="keyed"):
        db.create_table("t", **options)


def test_the_defaults_are_those_of_the_settings():
    assert KeyedSettings.from_properties({}) == KeyedSettings()
    assert KeyedSettings.from_properties(dict(KEYED_PROPERTIES)) == KeyedSettings()


def test_a_store_without_conditional_puts_is_refused():
    db = firn.connect("memory://", options={"conditional_put": "disabled"})
    with pytest.raises(UnsupportedError, match="conditional puts"):
        db.create_table("t", kind="keyed")


def test_each_flipped_bit_of_a_definition_is_noticed():
    data = KeyedDefinition("t", {"n": "BIGINT"}, None, "add", 5, {"flush_ms": 7}, 9, "id").encode()
    whole = KeyedDefinition.decode(data, "x")
    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            with suppress(CorruptObjectError, UnsupportedError):
                assert KeyedDefinition.decode(bytes(flipped), "x") == whole  # white space between values


# -- dropped, and created again


def test_dropping_leaves_the_definition_alone(db):
    fill(new(db), b"a", b"b")
    planned = db.drop_table("t", dry_run=True)
    assert db.table("t").reader().get(b"a") == b"v"
    assert db.drop_table("t").objects == planned.objects
    assert db.tables() == [] and [i.key for i in db.bucket.list("").objects] == [definition_key("t")]
    with pytest.raises(TableNotFoundError):
        db.table("t")


def test_an_open_writer_of_a_dropped_table_acknowledges_nothing(db):
    kv = new(db, properties={"strict": True}).open()
    db.drop_table("t")
    with pytest.raises(FencedError):
        kv.put(b"a", b"1")
    with pytest.raises(FencedError):
        kv.get(b"a")


def test_an_open_writer_of_a_table_that_was_created_again_is_fenced_and_not_seen(db):
    old = new(db).open()
    old.put(b"a", b"old")
    db.drop_table("t")
    again = new(db)
    with pytest.raises(FencedError):
        old.poll()
    with pytest.raises(FencedError):
        old.put(b"b", b"old")
    with again.open() as kv:
        assert kv.epoch > old.epoch
        kv.put(b"c", b"new")
    assert list(again.reader().scan()) == [(b"c", b"new")]


def test_a_zombies_flush_into_a_table_that_was_created_again_never_counts(db):
    old = new(db).open()
    db.drop_table("t")
    again = new(db)
    old._session.put_l0(0, b"of the old table")  # it doesn't know yet, and the store takes it
    with again.open() as kv:
        kv.put(b"c", b"new")
        assert list(kv.scan()) == [(b"c", b"new")]
    with pytest.raises(FencedError):
        old.close()
        old.poll()


def test_a_handle_on_a_table_that_was_created_again_refuses_to_read_the_other(db):
    handle = new(db)
    reader = handle.reader(follow="0s")
    db.drop_table("t")
    new(db, schema={"n": "BIGINT"})
    for work in (handle.reader, handle.open, reader.refresh):
        with pytest.raises(TableNotFoundError, match="dropped"):
            work()


def test_an_interrupted_drop_is_ended_by_creating_again(db):
    table = new(db)
    fill(table, b"a")
    db.bucket.put(definition_key("t"), replace(table.definition, dropped=True).encode())
    assert db.tables() == []
    with pytest.raises(TableNotFoundError):
        db.table("t")
    assert list(new(db).reader().scan()) == []


def test_a_table_whose_creator_crashed_before_the_pointer_is_ended_by_whoever_opens_it(db):
    create_definition(db.bucket, "t", KeyedDefinition("t", first_epoch=5))
    fill(db.table("t"), b"a")
    assert db.table("t").reader().get(b"a") == b"v"


def test_a_table_is_not_dropped_under_its_clones(db):
    table = new(db)
    fill(table, b"a")
    table.clone("c")
    with pytest.raises(InvalidInputError, match="clones"):
        db.drop_table("t")
    db.drop_table("c")
    db.drop_table("t")
    assert [i.key for i in db.bucket.list("").objects] == [definition_key("c"), definition_key("t")]


def test_a_later_table_of_a_name_has_directories_of_its_own_and_a_feature_that_says_so(db):
    fill(new(db), b"a")
    first = {info.key for info in db.bucket.list("t/").objects}
    db.drop_table("t")
    fill(table := new(db), b"b")
    table.compact(full=True)
    table.checkpoint("c")
    table.sweep(older_than="0s")
    fill(table, b"c")
    listed = {info.key for info in db.bucket.list("t/").objects}
    assert {key.split("/")[1] for key in listed} == {"_firn", "_firn~1", "_metadata~1", "l0~1", "ssts~1"}
    assert listed & first == {definition_key("t")}
    kinds = {key: dump_object(db.bucket, key).kind for key in listed if key.split("/")[1] != "_firn~1"}
    of_keyed = ("pointer", "manifest", "snapshot", "flush", "fence", "SST")
    assert {*kinds.values()} == {"table definition", *(f"{kind} of a keyed table" for kind in of_keyed)}
    data = db.bucket.get(definition_key("t")).data
    assert KeyedDefinition.decode(data, "t") == table.definition
    with pytest.raises(UnsupportedError, match="t needs generation; this version of Firn reads keyed tables"):
        decode_framed(data, "t", dict, version=3, noun="keyed table", remedy="", known=["wide-seq"])
    assert check(db).problems == () and keyed_facts(table).files == 2
    db.bucket.delete(definition_key("t"))
    assert [finding.object for finding in check(db).problems] == [db.bucket.uri(definition_key("t"))]
    with pytest.raises(CorruptObjectError, match="files of a keyed table are there"):
        new(db)


def test_clones_count_generations_too(db):
    fill(new(db), b"a")
    db.drop_table("t")
    fill(table := new(db), b"b")
    table.clone("c")
    db.drop_table("c")
    clone = table.clone("c", at=table.checkpoint("kept"))
    assert (clone.definition.generation, [key for key, _ in clone.reader().scan()]) == (1, [b"b"])
    fill(clone, b"c")
    clone.compact(full=True)
    assert all("/ssts~1/" in "/" + sst.file for sst in clone.view().manifest.ssts)
    assert [key for key, _ in table.clone("d").reader().scan()] == [b"b"]
    with pytest.raises(InvalidInputError, match="clones read its objects: c, d"):
        db.drop_table("t")
    db.drop_table("d")
    clone.sweep(older_than="0s")
    db.drop_table("t")
    assert [key for key, _ in db.table("c").reader().scan()] == [b"b", b"c"]
    db.create_table("t").append([{"x": 1}])
    db.drop_table("c")  # which has nothing of its parent's to let go any more
    assert db.tables() == ["t"]


def test_a_drop_leaves_the_pin_of_a_clone_that_was_cut_short_to_the_next_sweep(db):
    fill(table := new(db), b"a")
    clone = table.clone("c")
    db.bucket.put(definition_key("c"), replace(clone.definition, dropped=True).encode())
    assert clones_of(table) == []
    db.drop_table("t")
    assert db.tables() == []


# -- what it costs


def test_dropping_and_creating_again(db):
    table = new(db)
    fill(table, b"a")
    assert spent(table, lambda: db.drop_table("t"))[0] == {"get": 4, "put": 1, "list": 3, "delete": 2}
    assert spent(table, lambda: new(db))[0] == {"get": 3, "put": 2, "list": 1}
    assert spent(table, lambda: new(db, "u"))[0] == {"get": 3, "put": 2, "list": 2}


def test_opening_a_writer(db):
    table = new(db)
    first, kv = spent(table, lambda: table.open(compaction=False))
    assert first == {"get": 1, "put": 1, "list": 1}  # the pointer, L0, the CAS: there is nobody to fence
    kv.put(b"a", b"1")
    kv.close()
    later, kv = spent(table, lambda: table.open(compaction=False))
    assert later == {"get": 1, "put": 2, "list": 1}  # and the fence
    kv.close()
    table.compact(full=True)
    chained, kv = spent(table, lambda: table.open(compaction=False))
    assert chained == {"get": 2, "put": 2, "list": 1}  # and the manifest
    kv.close()


def test_opening_and_refreshing_a_reader(db):
    table = new(db)
    fill(table, b"a")
    cost, reader = spent(table, lambda: table.reader(follow=None))
    assert cost == {"get": 2, "list": 1}
    assert spent(table, reader.refresh)[0] == {"get": 1, "list": 1}


def test_a_reader_that_is_not_asked_costs_nothing_and_one_that_may_be_old_refreshes_once_a_read(db):
    table = new(db)
    fill(table, b"a")
    reader = table.reader(follow="1h")
    reader.get(b"a")
    assert spent(table, lambda: reader.get(b"a"))[0] == {}
    eager = table.reader(follow="0s")
    eager.get(b"a")
    assert spent(table, lambda: eager.get(b"a"))[0] == {"get": 1, "list": 1}


def test_an_idle_writer_costs_nothing_but_the_poll(db):
    table = new(db, properties={"flush_ms": 1})
    with table.open(poll_every="2ms") as kv:
        kv.put(b"a", b"1")
        reader = table.reader(follow="1h")
        assert reader.get(b"a") == kv.get(b"a") == b"1"
        before = table.bucket.counters.as_dict()
        while (idle := table.bucket.counters.since(before))["get"] < 20:
            kv._poller._thread.join(0.001)
        assert {verb for verb in VERBS if idle[verb]} == {"get"}, "the pointer's, and nobody lists or writes"
    with table.open(poll_every="1d") as kv:
        assert spent(table, kv.poll)[0] == {"get": 1}
        assert spent(table, kv.flush)[0] == {}


def test_a_cold_get_is_one_get_a_run_and_a_scan_opens_only_what_overlaps(db):
    table = new(db, properties={"block_size": "1KB", "sst_size": "4KB", "compression": "none"})
    rows = {b"%04d" % n: b"x" * 64 for n in range(400)}
    with table.open(compaction=False) as kv:
        kv.write(rows)
    table.compact(full=True)
    view = table.view()
    assert len(view.manifest.ssts) > 3
    reader = table.reader(follow=None)
    cost, found = spent(table, lambda: list(reader.scan(b"0000", b"0005")))
    assert [key for key, _ in found] == [b"%04d" % n for n in range(5)]
    assert cost["get"] <= 2  # one SST's index and its first blocks, however many SSTs there are
    cost, _ = spent(table, lambda: reader.get(b"0350"))
    assert cost["get"] <= 2
    cost, _ = spent(table, lambda: reader.get(b"0351"))
    assert cost.get("get", 0) <= 1


@pytest.mark.parametrize("handle", ["writer", "reader"])
def test_a_cold_get_is_at_most_one_get_a_run(db, handle):
    """With all indices here and no block: an operand in every run costs a GET in each, and nothing costs more."""
    table = new(
        db, merge_operator="append", properties={"block_size": "1KB", "compression": "none", "block_cache": 1}
    )
    keys = [b"%03d" % n for n in range(100)]
    for run in range(5):
        with table.open(compaction=False) as kv:
            for key in keys:
                kv.merge(key, b"%d" % run * 30, durable=False)
            if run == 0:
                kv.put(b"0500", b"one run has it", durable=False)
        if run == 0:
            table.compact(full=True)
    view = table.view()
    assert (len(view.manifest.ssts), len(view.l0)) == (1, 4)
    opened = table.open(compaction=False) if handle == "writer" else table.reader(follow=None)
    with opened:
        list(opened.scan())  # all indices
        cost, value = spent(table, lambda: opened.get(b"050"))
        assert value == b"".join(b"%d" % run * 30 for run in range(5))
        assert cost == {"get": 5}
        assert spent(table, lambda: opened.get(b"0500")) == ({"get": 1}, b"one run has it")
        assert spent(table, lambda: opened.get(b"absent")) == ({}, None)


def test_memory_is_bounded_by_the_options(db):
    table = new(
        db,
        properties={
            "memtable_size": "64KB", "max_unflushed": "128KB", "block_cache": "100KB",
            "block_size": "4KB", "compression": "none",
        },
    )  # fmt: skip
    most = 0
    with table.open(compaction=False) as kv:
        for n in range(5000):
            kv.put(b"%06d" % n, b"x" * 400, durable=False)
            most = max(most, kv._queue.unflushed)
        kv.flush()
        assert most <= (128 << 10) + 1000
        assert kv.stats().flushes >= 2_000_000 // (64 << 10), (
            "full memtables are flushed, whatever flush_ms says"
        )
        for n in range(0, 5000, 7):
            assert kv.get(b"%06d" % n) == b"x" * 400
            assert kv.stats().cache_bytes <= 100 << 10
        assert kv.stats().cache_bytes > 50 << 10


# -- versions


def test_a_version_stays_until_it_is_compacted(db):
    table = new(db)
    fill(table, b"a")
    version = table.reader().version
    fill(table, b"b")
    assert list(table.reader(at=version).scan()) == [(b"a", b"v")]
    table.compact(full=True)
    with pytest.raises(SnapshotTooOldError, match="checkpoint"):
        table.reader(at=version)
    with pytest.raises(InvalidInputError):
        table.reader(at="x@y")


# -- compaction beside a writer


def test_a_writer_that_compacts_by_hand_is_not_fenced_by_its_own_background(db):
    with new(db).open() as kv:
        for round_ in range(3):
            for n in range(8):
                kv.put(b"%d" % n, b"%d" % round_)
            kv.compact(full=True)
        assert [value for _, value in kv.scan()] == [b"2"] * 8


# -- the thread behind


def test_a_background_goes_on_after_a_transient_error_and_ends_with_a_fatal_one():
    calls, failed, done = [], [], threading.Event()

    def work():
        calls.append(len(calls))
        if len(calls) == 1:
            raise firn.StoreUnavailableError("the store is away; try again")
        if len(calls) == 2:
            return 0.0
        raise firn.AccessDeniedError("no rights; ask for them")

    def fatal(error):
        failed.append(error)
        done.set()

    background = Background("test", work, fatal, first=0.0)
    assert done.wait(30)
    background.stop()
    assert len(calls) == 3 and isinstance(failed[0], firn.AccessDeniedError)
    assert background.last_error is failed[0]


def test_a_background_that_nobody_pokes_does_nothing():
    called = threading.Event()

    def work():
        called.set()

    background = Background("test", work, lambda error: None, first=None)
    assert not called.is_set()
    background.poke()
    assert called.wait(30)
    background.stop()
    assert not background.running


def test_calls_that_cant_be_say_what_they_take():
    db = firn.connect("memory://")
    table = db.create_table("t", kind="keyed")
    with pytest.raises(InvalidInputError, match="kind='x'"):
        db.table("t", kind="x")
    with pytest.raises(InvalidInputError, match="rows"):
        table.load(7)
    with table.open(compaction=False) as kv:
        for keys in (b"ab", "ab"):
            with pytest.raises(InvalidInputError, match="a list"):
                kv.multi_get(keys)
        for wrong in ([(b"a",)], [7], 7):
            with pytest.raises(InvalidInputError, match="pairs of a key and a value, for t"):
                kv.write(wrong)
        with pytest.raises(InvalidInputError, match="not a value"):
            kv.write([(b"a", 7)])


def test_names_of_columns_have_dots():
    db = firn.connect("memory://")
    schema = {"a": "STRUCT(b BIGINT)", "a.b": "VARCHAR", ".": "BIGINT[]"}
    table = new(db, key={"k.id": "BIGINT"}, schema=schema)
    row = {"a": {"b": 1}, "a.b": "x", ".": [2]}
    with table.open(compaction=False) as kv:
        kv.put(5, row)
        kv.flush()
    assert table.reader().get(5) == row
    assert list(db.sql('SELECT "k.id", "a.b" FROM t')) == [{"k.id": 5, "a.b": "x"}]
