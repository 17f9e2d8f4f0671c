"""A bulk load replaces what was put before, and is below what is put after; all of it or nothing is visible."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pyarrow as pa
import pytest

from firn.errors import FencedError, InvalidInputError
from firn.keyed.encoding.seqs import WIDE
from firn.keyed.load import rows as load_rows
from firn.keyed.load.bulk_load import BulkLoad, load, load_task
from firn.keyed.maintain.compaction import compact
from firn.keyed.maintain.policy import Policy
from firn.keyed.read.runs import runs_of
from kv_tables import Flusher, entries_of, live, new_table

SMALL = {"sst_size": "8KB", "block_size": "1KB", "compression": "none"}


def rows(*keys: bytes, value: bytes = b"loaded") -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"key": pa.array(keys, pa.binary()), "value": pa.array([value] * len(keys), pa.binary())}
    )


def test_rows_are_there() -> None:
    table = new_table(SMALL)
    keys = [b"k%05d" % n for n in range(2_000)]
    random.Random(1).shuffle(keys)
    before = table.bucket.counters.as_dict()
    report = load(table, rows(*keys))
    spent = table.bucket.counters.since(before)
    assert live(table) == dict.fromkeys(keys, b"loaded")
    assert (report.rows, report.runs) == (2_000, 1) and report.ssts > 3
    assert report.version == table.journal.read().version
    assert spent["put"] == 1 + report.ssts + 2, "epoch, SSTs, manifest and pointer"


def test_it_stands_between_before_and_after() -> None:
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a", b"b", value=b"before")
    load(table, rows(b"a", b"c"))
    writer.put(b"c", b"d", value=b"after")
    assert live(table) == {b"a": b"loaded", b"b": b"before", b"c": b"after", b"d": b"after"}
    compact(table, full=True)
    assert live(table) == {b"a": b"loaded", b"b": b"before", b"c": b"after", b"d": b"after"}


def test_it_wins_over_what_was_flushed_before_it_began() -> None:
    """L0 is compacted first: else it would shadow what is loaded."""
    table = new_table()
    Flusher(table).put(b"a", value=b"before")
    assert len(table.journal.read().l0) == 1
    load(table, rows(b"a"))
    assert live(table) == {b"a": b"loaded"}


def test_what_is_flushed_meanwhile_stands_above() -> None:
    table = new_table()
    writer = Flusher(table)
    with BulkLoad(table, parts=1) as bulk:
        part = load_task(table.bucket, bulk.context, 0, 0, [rows(b"a", b"b")])
        writer.put(b"b", value=b"meanwhile")
        bulk.commit([part])
    assert live(table) == {b"a": b"loaded", b"b": b"meanwhile"}
    compact(table, full=True)
    assert live(table) == {b"a": b"loaded", b"b": b"meanwhile"}


def test_seq_is_above_all_compacted_and_below_all_later() -> None:
    table = new_table()
    writer = Flusher(table)
    for _ in range(3):
        writer.put(b"a")
    for n in range(3):
        load(table, rows(b"b"))
        newest = runs_of(table.journal.read().manifest.ssts)[0][0]
        assert newest.max_seq == newest.max_loaded == WIDE.of(2, WIDE.half) + 1 + n
        assert WIDE.of(2, WIDE.half) < newest.max_seq < WIDE.of(3, 0)


def test_a_later_load_wins() -> None:
    table = new_table()
    for n in range(3):
        load(table, rows(b"a", value=b"%d" % n))
    assert live(table) == {b"a": b"2"}
    compact(table, full=True)
    assert live(table) == {b"a": b"2"}


@pytest.mark.parametrize("policy", ["tiered", "leveled"])
def test_an_empty_table_is_loaded_at_the_bottom(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "firn.keyed.load.bulk_load.policy_of", lambda table: Policy(policy, level_bytes=20_000)
    )
    table = new_table({**SMALL, "compaction": policy})
    load(table, rows(*(b"k%05d" % n for n in range(3_000))))
    levels = {sst.level for sst in table.journal.read().manifest.ssts}
    assert levels == ({1} if policy == "tiered" else {2})


@pytest.mark.parametrize("policy", ["tiered", "leveled"])
def test_loads_and_flushes_and_compactions(policy: str) -> None:
    table = new_table({**SMALL, "compaction": policy})
    writer = Flusher(table)
    state: dict[bytes, object] = {}
    rng = random.Random(3)
    for n in range(12):
        keys = rng.sample([b"k%03d" % at for at in range(300)], 60)
        if n % 3 == 0:
            load(table, rows(*keys, value=b"l%d" % n))
            state |= dict.fromkeys(keys, b"l%d" % n)
        elif n % 3 == 1:
            writer.put(*keys, value=b"p%d" % n)
            state |= dict.fromkeys(keys, b"p%d" % n)
        else:
            writer.delete(*keys)
            state = {key: value for key, value in state.items() if key not in keys}
        if n % 4 == 0:
            compact(table, full=n % 8 == 0)
        assert live(table) == state


def test_rows_in_no_order_become_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal keys the last stays, also where they are sorted apart."""
    monkeypatch.setattr(load_rows, "CHUNK_BYTES", 500)
    table = new_table()
    batches = [rows(b"c", b"a", b"c", value=b"%d" % n) for n in range(40)]
    report = load(table, pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert report.runs > 1
    assert live(table) == {b"a": b"39", b"c": b"39"}
    compact(table, full=True)
    assert live(table) == {b"a": b"39", b"c": b"39"}


def test_rows_in_order_become_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_rows, "CHUNK_BYTES", 500)
    table = new_table()
    batches = [rows(*(b"k%05d" % n for n in range(at, at + 10))) for at in range(0, 500, 10)]
    report = load(table, pa.RecordBatchReader.from_batches(batches[0].schema, batches))
    assert (report.runs, report.rows, report.ssts) == (1, 500, 1)
    assert len(live(table)) == 500


def test_typed_rows() -> None:
    table = new_table(
        key={"state": "VARCHAR", "year": "BIGINT"}, schema={"delay": "BIGINT", "note": "VARCHAR"}
    )
    load(
        table,
        [
            {"year": 2001, "state": "OH", "delay": 12, "note": None},
            {"year": -5, "state": "MI", "delay": None, "note": "x"},
        ],
    )
    keys = table.keys
    assert live(table) == {keys.encode(("MI", -5)): (None, "x"), keys.encode(("OH", 2001)): (12, None)}


def test_rows_live_as_long_as_the_table_says() -> None:
    table = new_table(ttl="1h")
    before = table.clock.now_ms()
    load(table, rows(b"a"))
    (entry,) = entries_of(table, table.journal.read().manifest.ssts)
    assert (
        entry.expire_at is not None
        and before + 3_600_000 <= entry.expire_at <= table.clock.now_ms() + 3_600_000
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([{"key": b"a"}], "lack the column 'value'"),
        ([{"value": b"a"}], "lack the column 'key'"),
        ([{"key": b"a", "value": b"b", "more": 1}], "no column 'more'"),
        ([{"key": b"", "value": b"b"}], "empty key"),
        ([{"key": None, "value": b"b"}, {"key": b"a", "value": b"b"}], "null key"),
        ([{"key": b"x" * 65_536, "value": b"b"}], "65,536 bytes"),
        ([{"key": b"a", "value": None}, {"key": b"b", "value": b"c"}], "null value"),
    ],
)
def test_rows_that_dont_fit(data: list[dict[str, Any]], why: str) -> None:
    table = new_table()
    Flusher(table).put(b"a")
    with pytest.raises(InvalidInputError, match=why):
        load(table, data)
    assert live(table) == {b"a": b"v"}


def test_texts_that_are_no_values_of_their_column() -> None:
    table = new_table(schema={"id": "UUID"})
    with pytest.raises(InvalidInputError, match="'id' is UUID, and the value 'no'"):
        load(table, [{"key": b"a", "id": "no"}])
    load(table, [{"key": b"a", "id": "6FA1C2E093B54C7E8D215B0A9E4F7C38"}])
    assert live(table) == {b"a": ("6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38",)}


def test_values_that_cant_be_merged_upon() -> None:
    with pytest.raises(InvalidInputError):
        load(new_table(merge_operator="add"), rows(b"a", value=b"not a number"))


def test_a_table_whose_creator_crashed_is_founded_first() -> None:
    """Its definition was there, its pointer not yet."""
    table = new_table()
    table.journal.drop()
    load(table, rows(b"a"))
    assert live(table) == {b"a": b"loaded"}
    table = new_table()
    table.journal.drop()
    assert compact(table).rounds == 0
    assert live(table) == {}


def test_nothing_to_load() -> None:
    table = new_table()
    version = table.journal.read().version
    assert load(table, rows()).rows == 0
    assert table.journal.read().version == version


def test_tasks_of_a_cluster() -> None:
    """Some run twice, some at the same time, with other bytes; what is committed is what the driver was told of."""
    table = new_table(SMALL)
    with BulkLoad(table, parts=3) as bulk:
        context = pickle.loads(pickle.dumps(bulk.context))
        parts = []
        for part in range(3):
            keys = [b"%d-%04d" % (part, n) for n in range(500)]
            batches = [rows(*keys[at : at + 100]) for at in range(0, 500, 100)]
            load_task(table.bucket, context, part, 0, [rows(*keys, value=b"of a try that died")])
            parts.append(load_task(table.bucket, context, part, 1, batches))
        assert live(table) == {}
        report = bulk.commit(reversed(parts))
    assert report.rows == 1_500
    assert live(table) == {b"%d-%04d" % (p, n): b"loaded" for p in range(3) for n in range(500)}


def test_a_task_that_runs_again_writes_the_same_objects() -> None:
    table = new_table()
    with BulkLoad(table, parts=2) as bulk:
        first = load_task(table.bucket, bulk.context, 1, 0, [rows(b"a", b"b")])
        assert load_task(table.bucket, bulk.context, 1, 0, [rows(b"a", b"b")]) == first
        bulk.commit([first])
    assert set(live(table)) == {b"a", b"b"}


@pytest.mark.parametrize(
    "batches",
    [[rows(b"b", b"a")], [rows(b"b"), rows(b"a")], [rows(b"a", b"c"), rows(b"b")]],
    ids=["within", "between", "overlap"],
)
def test_keys_of_a_part_must_be_in_order(batches: list[pa.RecordBatch]) -> None:
    table = new_table()
    with BulkLoad(table, parts=1) as bulk, pytest.raises(InvalidInputError, match="order of their keys"):
        load_task(table.bucket, bulk.context, 0, 0, batches)


def test_of_one_key_the_last_row_stays() -> None:
    table = new_table()
    batches = [rows(b"a", b"b", value=b"1"), rows(b"b", value=b"2"), rows(b"b", b"c", value=b"3")]
    with BulkLoad(table, parts=1) as bulk:
        assert bulk.commit([load_task(table.bucket, bulk.context, 0, 0, batches)]).rows == 3
    assert live(table) == {b"a": b"1", b"b": b"3", b"c": b"3"}


def test_parts_must_not_overlap() -> None:
    table = new_table()
    with BulkLoad(table, parts=2) as bulk:
        parts = [
            load_task(table.bucket, bulk.context, 0, 0, [rows(b"a", b"c")]),
            load_task(table.bucket, bulk.context, 1, 0, [rows(b"b", b"d")]),
        ]
        with pytest.raises(InvalidInputError, match="overlap"):
            bulk.commit(parts)
    assert live(table) == {}


def test_a_compactor_meanwhile_fences_it() -> None:
    table = new_table()
    Flusher(table).put(b"a")
    with BulkLoad(table, parts=1) as bulk:
        part = load_task(table.bucket, bulk.context, 0, 0, [rows(b"a")])
        compact(table)
        with pytest.raises(FencedError):
            bulk.commit([part])
    assert live(table) == {b"a": b"v"}
