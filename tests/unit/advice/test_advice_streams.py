"""The table of advice: streams over lake tables, and over writers' catalogs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import firn
from advice import advises
from firn.journal.leaderless.stream import StreamOffset
from firn.journal.position import Offset, StreamPosition
from firn.journal.writer.commit.local_writer import PendingCommit
from firn.lake.table import LakeTable
from unit.journal.writer.test_writer_stream import NO_CLAIMS, history_of, put_rival
from writer_databases import keys

Connect = Callable[..., firn.Database]
PUT_AND_LIST = ("--option", "conditional_put=disabled")


@pytest.fixture
def table() -> LakeTable:
    properties = {"retry_window": "1ms", "landing_delay": "1ms", "max_skew": "1ms"}
    return firn.connect("memory://").create_table("t", properties=properties)


def position(table: LakeTable) -> StreamPosition[Any]:
    """A fresh look at the table, as after a restart."""
    return StreamPosition(table.journal.stream())


def begins_anew(table: LakeTable, rows: int) -> None:
    """A stream that starts anew, with a new checkpoint, delivers what there is, and goes on."""
    stream = position(table)
    first = stream.begin(None)
    delivered = stream.delivered(None, first).files
    assert sum(file.rows or 0 for file in delivered) == rows
    table.append([{"id": 99}])
    after = position(table).advance(first, None)
    assert after is not None and len(position(table).delivered(first, after).files) == 1


def fill(table: LakeTable, *numbers: int) -> None:
    for number in numbers:
        table.append([{"id": number}])


# -- the leaderless log


def swept(table: LakeTable) -> None:
    """Sweep what was replaced just now; and be 5 ms older: by this table's times, all appends have appeared then."""
    table.merge()
    table.sweep(older_than="0s")
    end = table.journal.clock.now_ms() + 5
    while table.journal.clock.now_ms() <= end:
        pass


def test_a_stream_from_before_a_sweep_starts_anew(table: LakeTable) -> None:
    fill(table, 1, 2)
    swept(table)
    with advises(
        "merged and swept. Start anew from a snapshot (or at a later time), and raise the", names="t"
    ):
        position(table).advance(Offset(StreamOffset(1)), None)
    careless = firn.connect("memory://").create_table("t")
    fill(careless, 1, 2)
    careless.merge()
    careless.sweep(older_than="0s")
    with advises("Start anew from a snapshot (or at a later time)", names=["t", "9 min from now"]):
        position(careless).advance(Offset(StreamOffset(1)), None)
    table.alter(set_properties={"tombstone_grace": "30d"})
    later = Offset(StreamOffset(table.journal.clock.now_ms()))
    fill(table, 3)
    assert position(table).advance(later, None) is not None
    begins_anew(table, 3)


def test_a_batch_whose_logs_were_swept_starts_anew(table: LakeTable) -> None:
    fill(table, 1)
    first = position(table).begin(None)
    fill(table, 2)
    second = position(table).advance(first, None)
    assert second is not None
    swept(table)
    with advises("Start the stream anew from a snapshot, and poll more often than the", names="t"):
        position(table).delivered(first, second)
    begins_anew(table, 2)


def test_a_stream_that_rested_for_long_starts_anew(table: LakeTable) -> None:
    fill(table, 1)
    first = position(table).begin(None)
    old = replace(first, log=replace(first.log, polled_ms=first.log.polled_ms - 3_600_000))
    with advises("and raise the table's tombstone_grace if streams rest for longer", names="t"):
        position(table).advance(old, None)
    begins_anew(table, 1)
    other = firn.connect("memory://").create_table("t", properties={"tombstone_grace": "2h"})
    fill(other, 1)
    first = position(other).begin(None)
    old = replace(first, log=replace(first.log, polled_ms=first.log.polled_ms - 3_600_000))
    fill(other, 2)
    assert position(other).advance(old, None) is not None


def test_a_version_that_a_stream_began_with_and_is_gone(table: LakeTable) -> None:
    fill(table, 1, 2)
    first = position(table).begin(1)
    swept(table)
    with advises("can't be read any more: start the stream anew, with a new checkpoint", names="version"):
        position(table).delivered(None, first)
    begins_anew(table, 2)


# -- writers' catalogs


@pytest.fixture
def a(connect: Connect) -> LakeTable:
    return connect("a", options=NO_CLAIMS).create_table("t", journal="writer", schema={"id": "BIGINT"})


def test_a_fork_below_what_was_delivered_is_decided(connect: Connect, a: LakeTable, tmp_path: Path) -> None:
    for kept in (0, 1):
        fill(a, 1)
        offset = position(a).begin(None)
        sides = put_rival(connect, "a")
        fresh = connect(options=NO_CLAIMS).table("t")
        with advises("if it is the other one, start the stream anew", names=["writer a", "over t"]) as advice:
            position(fresh).advance(offset, None)
        advice.follow(0, tmp_path / "prod", "--yes", *PUT_AND_LIST, UUID=sides[kept])
        a = connect("a", options=NO_CLAIMS).table("t")
        fill(a, 2)
        if kept == 0:
            assert position(a).advance(offset, None) is not None
        else:
            with advises("or the catalog rebuilt. Start the stream anew", names=["writer a", "over t"]):
                position(a).advance(offset, None)
            begins_anew(a, 3)


def test_a_history_that_shrank_is_mended(connect: Connect, a: LakeTable, tmp_path: Path) -> None:
    fill(a, 1, 2)
    for follow in ("copy", "rebuild"):
        offset = position(a).begin(None)
        history = history_of(connect, "a")
        history.load()
        last = history.transactions()[-1]
        key = history.layout.transaction_key(last.revision, last.uuid)
        body = connect().bucket.get(key).data
        connect().bucket.delete(key)
        fresh = connect(options=NO_CLAIMS).table("t")
        with advises(
            "Copy the missing transactions back, or rebuild the", names=["writer a", "over t"]
        ) as advice:
            position(fresh).advance(offset, None)
        if follow == "copy":
            connect().bucket.put(key, body)
        else:
            advice.follow(0, tmp_path / "prod", *PUT_AND_LIST, ID="a")
        a = connect("a", options=NO_CLAIMS).table("t")
        position(a).advance(offset, None)
    begins_anew(a, 2)


def test_what_was_pruned_or_lost_starts_anew(connect: Connect, a: LakeTable) -> None:
    fill(a, 1)
    first = position(a).begin(None)
    fill(a, 2)
    second = position(a).advance(first, None)
    assert second is not None
    fill(a, 3)
    a.checkpoint()
    fill(a, 4)
    layout = history_of(connect, "a").layout
    bucket = connect().bucket
    bucket.delete_many([key for key in keys(bucket, layout.transactions_prefix) if key < layout.before(4)])
    fresh = connect("a", options=NO_CLAIMS).table("t")
    with advises("and keep history for longer than a stream may rest", names=["writer a", "over t"]):
        position(fresh).advance(first, None)
    with advises("that this stream began with was pruned (", names="a=2 of t"):
        position(fresh).delivered(None, first)
    fresh.journal.own.commit(PendingCommit("lost", lambda state, clock: ()))  # type: ignore[attr-defined]
    with advises("no rebuild can tell what it appended. Start the stream anew", names=["writer a", "over t"]):
        position(fresh).advance(second, None)
    begins_anew(fresh, 4)


def test_an_offset_of_another_kind_starts_anew(a: LakeTable) -> None:
    with advises("Start the stream anew, with a new checkpoint", names="'reached': []"):
        position(a).parse({"firn": 1, "log": {"reached": []}})
    begins_anew(a, 0)
