"""Offsets of streams: what lies between two of them is the same whenever it is asked. No Spark here."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import firn
from firn.errors import CorruptObjectError, SnapshotTooOldError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.stream import StreamOffset
from firn.journal.position import BEGINNING, Offset, StreamPosition

MINUTE = 60_000


class TurnedClock:
    """A clock turned by hand, at the store's time to begin with."""

    def __init__(self) -> None:
        import time

        self.ahead_ms = 0
        self._time = time

    def now_ms(self) -> int:
        return self._time.time_ns() // 1_000_000 + self.ahead_ms

    def monotonic(self) -> float:
        return self._time.monotonic()

    def sleep(self, seconds: float) -> None:
        self._time.sleep(seconds)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def table() -> firn.LakeTable:
    return firn.connect("memory://").create_table("t")


def position(table: firn.LakeTable, clock: TurnedClock | None = None) -> StreamPosition[StreamOffset]:
    """A fresh look at the table, as after a restart."""
    journal = LeaderlessJournal(table.bucket, table.prefix, clock=clock)
    return StreamPosition(journal.stream())


def values(table: firn.LakeTable, files: Any) -> list[int]:
    from firn.lake.read.read import ReadSpec, read_table

    return sorted(read_table(table.bucket, files, ReadSpec(columns={"a": "BIGINT"}))["a"].to_pylist())


def fill(table: firn.LakeTable, *numbers: int) -> None:
    for number in numbers:
        table.append([{"a": number}])


def test_a_stream_begins_with_a_snapshot_and_goes_on_with_appends(table: firn.LakeTable) -> None:
    fill(table, 1, 2)
    stream = position(table)
    first = stream.begin(None)
    assert values(table, stream.delivered(None, first).files) == [1, 2]
    assert stream.advance(first, None) is None
    fill(table, 3)
    table.merge()
    fill(table, 4)
    second = stream.advance(first, None)
    assert second is not None
    assert values(table, stream.delivered(first, second).files) == [3, 4]
    assert stream.advance(second, None) is None


def test_limits_divide_the_snapshot_and_the_log(table: firn.LakeTable) -> None:
    fill(table, 1, 2, 3)
    stream = position(table)
    offset = stream.begin(2)
    seen = [values(table, stream.delivered(None, offset).files)]
    fill(table, 4, 5, 6)
    while (after := stream.advance(offset, 2)) is not None:
        seen.append(values(table, stream.delivered(offset, after).files))
        offset = after
    assert [len(batch) for batch in seen] == [2, 2, 2]
    assert sorted(n for batch in seen for n in batch) == [1, 2, 3, 4, 5, 6]


def test_an_append_of_more_files_than_the_limit_comes_alone() -> None:
    table = firn.connect("memory://").create_table("t", partition_by=["a"])
    stream = position(table)
    offset = stream.begin(2)
    table.append([{"a": n} for n in range(5)])
    fill(table, 10)
    first = stream.advance(offset, 2)
    assert first is not None
    assert values(table, stream.delivered(offset, first).files) == [0, 1, 2, 3, 4]
    second = stream.advance(first, 2)
    assert second is not None
    assert values(table, stream.delivered(first, second).files) == [10]


def test_every_batch_reads_the_same_after_a_restart(table: firn.LakeTable) -> None:
    fill(table, 1, 2, 3)
    stream = position(table)
    offsets: list[Offset[StreamOffset] | None] = [None, stream.begin(2)]
    fill(table, 4)
    while (after := stream.advance(offsets[-1], 1)) is not None:  # type: ignore[arg-type]
        offsets.append(after)
    batches = [stream.delivered(a, b).files for a, b in pairwise(offsets)]  # type: ignore[arg-type]
    table.delete("a = 2")
    table.merge()
    fill(table, 5)
    for (before, after), batch in zip(pairwise(offsets), batches, strict=True):
        assert after is not None
        kept = stream.parse(after.to_json())
        assert kept is not None
        again = position(table).delivered(before, kept).files
        assert [file.path for file in again] == [file.path for file in batch]
        assert values(table, again) == values(table, batch)


def test_an_empty_table_has_no_snapshot_phase(table: firn.LakeTable) -> None:
    stream = position(table)
    offset = stream.begin(None)
    assert offset.snapshot is None
    assert stream.delivered(None, offset).files == ()
    fill(table, 1)
    after = stream.advance(offset, None)
    assert after is not None
    assert values(table, stream.delivered(offset, after).files) == [1]


def test_only_the_logs_asked_for_are_delivered(table: firn.LakeTable) -> None:
    stream = position(table)
    offset = stream.begin(None)
    fill(table, 1, 2)
    names = stream.stream.target()
    fill(table, 3)
    after = stream.advance(offset, None, among=names)
    assert after is not None
    assert values(table, stream.delivered(offset, after).files) == [1, 2]
    assert stream.advance(after, None, among=names) is None
    rest = stream.advance(after, None)
    assert rest is not None
    assert values(table, stream.delivered(after, rest).files) == [3]


def test_an_idle_streams_offset_is_renewed_before_it_is_too_old(
    table: firn.LakeTable, clock: TurnedClock
) -> None:
    fill(table, 1)
    stream = position(table, clock)
    offset = stream.begin(None)
    clock.ahead_ms = 10 * MINUTE
    assert stream.advance(offset, None) is None
    clock.ahead_ms = 15 * MINUTE
    renewed = stream.advance(offset, None)
    assert renewed is not None
    assert stream.delivered(offset, renewed).files == ()
    assert renewed.log.polled_ms > offset.log.polled_ms
    clock.ahead_ms = 60 * MINUTE
    assert stream.advance(renewed, None) is not None


def test_a_stream_that_rested_too_long_says_so(table: firn.LakeTable, clock: TurnedClock) -> None:
    fill(table, 1)
    stream = position(table, clock)
    offset = stream.begin(None)
    clock.ahead_ms = 54 * MINUTE
    with pytest.raises(SnapshotTooOldError, match="Start it anew"):
        stream.advance(offset, None)


def test_a_snapshot_that_was_swept_says_so(table: firn.LakeTable) -> None:
    fill(table, 1, 2)
    first = position(table).begin(1)
    table.delete("a = 1")
    table.sweep(older_than="0s")
    with pytest.raises(SnapshotTooOldError):
        position(table).delivered(None, first)


def test_what_isnt_an_offset_is_refused(table: firn.LakeTable) -> None:
    stream = position(table)
    assert stream.parse(dict(BEGINNING)) is None
    assert stream.parse(Offset(StreamOffset(5)).to_json()) == Offset(StreamOffset(5))
    for raw in ({}, {"log": {}}, {"log": StreamOffset(5).to_json(), "snapshot": {"version": "x"}}):
        with pytest.raises(CorruptObjectError, match="not an offset"):
            stream.parse(raw)
