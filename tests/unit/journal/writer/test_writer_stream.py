"""Streams over writers' catalogs: a vector of revisions, each append once, and histories that change under it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import firn
from firn.errors import CorruptObjectError, ForkError, SnapshotTooOldError
from firn.journal.model import Commit, DataFile
from firn.journal.position import Offset, StreamPosition
from firn.journal.writer.commit.local_writer import PendingCommit
from firn.journal.writer.format.actions import Resolve
from firn.journal.writer.format.identity import new_uuid
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.messages import encode_transaction
from firn.journal.writer.history.history import History
from firn.journal.writer.stream import RENEW_MS, VectorOffset, WriterStream
from firn.lake.read.read import ReadSpec, read_table
from firn.lake.table import LakeTable

Connect = Callable[..., firn.Database]
Position = StreamPosition[VectorOffset]

NO_CLAIMS = {"conditional_put": "disabled"}


@pytest.fixture
def a(connect: Connect) -> LakeTable:
    return connect("a").create_table("t", journal="writer", schema={"id": "BIGINT"})


def position(connect: Connect, **more: Any) -> Position:
    """A fresh look at the table, as after a restart."""
    return StreamPosition(connect(**more).table("t").journal.stream())


def fill(table: LakeTable, *numbers: int) -> None:
    for number in numbers:
        table.append([{"id": number}])


def ids(connect: Connect, files: list[DataFile]) -> list[int]:
    spec = ReadSpec(columns={"id": "BIGINT"}, table_columns={"id": "BIGINT"})
    return sorted(read_table(connect().bucket, files, spec)["id"].to_pylist())


def step(
    connect: Connect, stream: Position, start: Offset[VectorOffset], limit: int | None = None
) -> tuple[Offset[VectorOffset], list[int]]:
    after = stream.advance(start, limit)
    if after is None:
        return start, []
    kept = stream.parse(after.to_json())
    assert kept == after
    return after, ids(connect, stream.delivered(start, after).files)


def test_a_stream_follows_all_writers(connect: Connect, a: LakeTable) -> None:
    fill(a, 1, 2)
    b = connect("b").table("t")
    fill(b, 10)
    stream = position(connect)
    offset = stream.begin(None)
    assert ids(connect, stream.delivered(None, offset).files) == [1, 2, 10]
    assert stream.advance(offset, None) is None
    fill(a, 3)
    fill(b, 11)
    fill(connect("new").table("t"), 20, 21)
    offset, seen = step(connect, stream, offset)
    assert seen == [3, 11, 20, 21]
    assert {w: r for w, (r, _) in offset.log.reached.items()} == {"a": 4, "b": 2, "new": 2}
    assert step(connect, stream, offset) == (offset, [])


def test_what_takes_the_place_of_other_files_is_not_new(connect: Connect, a: LakeTable) -> None:
    fill(a, 1)
    stream = position(connect)
    offset = stream.begin(None)
    fill(a, 2, 3)
    a.merge()
    fill(a, 4)
    a.delete("id = 1", soft=False)
    a.rewrite("id <> 99")
    first = a.history()[1].version
    a.restore(first)
    a.overwrite([{"id": 5}])
    offset, seen = step(connect, stream, offset)
    assert seen == [2, 3, 4], "each appended row, wherever it is now"
    fill(a, 6)
    assert step(connect, stream, offset)[1] == [6]


def test_soft_deletes_are_those_at_the_end(connect: Connect, a: LakeTable) -> None:
    a.append([{"id": 1}, {"id": 2}])
    a.delete("id = 1")
    stream = position(connect)
    offset = stream.begin(None)
    assert ids(connect, stream.delivered(None, offset).files) == [2]
    a.append([{"id": 3}, {"id": 4}, {"id": 5}])
    middle, seen = step(connect, stream, offset)
    assert seen == [3, 4, 5]
    a.delete("id = 4")
    a.append([{"id": 6}, {"id": 7}])
    a.delete("id = 7")
    a.merge()
    assert step(connect, stream, middle)[1] == [6]
    # The earlier batch is what it was, and one over both has the deletes of its end.
    assert ids(connect, position(connect).delivered(offset, middle).files) == [3, 4, 5]
    assert step(connect, position(connect), offset)[1] == [3, 5, 6]


def test_a_transaction_over_tables_gives_what_it_added(connect: Connect, a: LakeTable) -> None:
    fill(a, 1)
    db = connect("a")
    db.create_table("u", journal="writer")
    stream = position(connect)
    offset = stream.begin(None)
    with db.writer_transaction() as tx:
        tx.append("t", [{"id": 2}])
        tx.append("u", [{"id": 77}])
        tx.append("t", [{"id": 3}, {"id": 4}])
        tx.delete("t", "id = 3")
    offset, seen = step(connect, stream, offset)
    assert seen == [2, 4]
    with db.writer_transaction() as tx:
        tx.append("t", [{"id": 5}])
        tx.table("t").merge()
    offset, seen = step(connect, stream, offset)
    assert seen == [5]
    with db.writer_transaction() as tx:
        tx.append("t", [{"id": 6}])
        tx.delete("t", "id >= 6")
        tx.append("t", [{"id": 7}])
    assert step(connect, stream, offset)[1] == [7], "nobody ever saw the 6"


def test_limits_take_the_oldest_first(connect: Connect, a: LakeTable) -> None:
    fill(a, 1, 2, 3)
    stream = position(connect)
    offset = stream.begin(2)
    batches = [ids(connect, stream.delivered(None, offset).files)]
    b = connect("b").table("t")
    for number in range(4, 8):
        fill(b if number % 2 else a, number)
    offsets: list[Offset[VectorOffset] | None] = [None, offset]
    while (after := stream.advance(offset, 2)) is not None:
        batches.append(ids(connect, stream.delivered(offset, after).files))
        offset = after
        offsets.append(after)
    assert [len(batch) for batch in batches] == [2, 2, 2, 1]
    assert sorted(batches[0] + batches[1]) == [1, 2, 3, 4] and batches[2:] == [[5, 6], [7]]
    a.merge()
    b.delete("id = 5")
    for (before, after), batch in zip(pairwise(offsets), batches, strict=True):
        assert after is not None
        assert ids(connect, position(connect).delivered(before, after).files) == batch


def test_a_limit_passes_over_nothing(connect: Connect, a: LakeTable) -> None:
    """Not over an append that has to wait either, where the same writer has merged since."""
    stream = position(connect)
    offset = stream.begin(None)
    fill(a, 1, 2)
    a.merge()
    offset, seen = step(connect, stream, offset, 1)
    assert seen == [1] and offset.log.reached["a"].revision == 2
    assert step(connect, stream, offset, 1)[1] == [2]


def test_only_what_was_there_is_a_target(connect: Connect, a: LakeTable) -> None:
    stream = position(connect)
    offset = stream.begin(None)
    fill(a, 1)
    target = stream.stream.target()
    fill(a, 2)
    fill(connect("b").table("t"), 3)
    after = stream.advance(offset, None, among=target)
    assert after is not None and ids(connect, stream.delivered(offset, after).files) == [1]
    assert stream.advance(after, None, among=target) is None
    assert step(connect, stream, after)[1] == [2, 3]


def test_since_a_time(connect: Connect, a: LakeTable) -> None:
    fill(a, 1, 2)
    second = int(a.history()[-1].time.timestamp() * 1000)
    stream = position(connect)
    start = Offset(stream.stream.since(second))
    assert stream.parse(start.to_json()) == start
    fill(connect("b").table("t"), 3)
    offset, seen = step(connect, stream, start)
    assert seen == [2, 3] or (seen == [1, 2, 3] and a.history()[1].time == a.history()[2].time)
    fill(connect("c").table("t"), 4)
    assert step(connect, stream, offset)[1] == [4]
    assert ids(connect, position(connect).delivered(start, offset).files) == seen


def test_what_was_pruned_is_not_skipped(connect: Connect, a: LakeTable) -> None:
    fill(a, 1)
    stream = position(connect)
    first = stream.begin(None)
    fill(a, 2)
    second, _ = step(connect, stream, first)
    fill(a, 3)
    a.checkpoint()
    fill(a, 4)
    layout = a.journal.own.history.layout  # type: ignore[attr-defined]
    bucket = connect().bucket
    for info in bucket.list(layout.transactions_prefix).objects:
        if info.key < layout.before(4):
            bucket.delete(info.key)
    assert step(connect, position(connect), second)[1] == [3, 4]
    with pytest.raises(
        SnapshotTooOldError, match=r"writer a up to revision 2, and revision 3 was pruned.*anew"
    ):
        position(connect).advance(first, None)
    with pytest.raises(SnapshotTooOldError):
        position(connect).delivered(first, second)
    with pytest.raises(SnapshotTooOldError, match="this stream began with was pruned"):
        position(connect).delivered(None, first)


def test_an_idle_stream_passes_over_what_brings_nothing(
    connect: Connect, a: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(a, 1, 2)
    stream = position(connect)
    offset = stream.begin(None)
    a.merge()
    assert stream.advance(offset, None) is None
    now = stream.stream._table.clock.now_ms()  # type: ignore[attr-defined]
    journal = stream.stream._table  # type: ignore[attr-defined]
    monkeypatch.setattr(journal.clock, "now_ms", lambda: now + RENEW_MS + 60_000, raising=False)
    renewed = stream.advance(offset, None)
    assert renewed is not None and stream.delivered(offset, renewed).files == ()
    assert renewed.log.reached["a"].revision == offset.log.reached["a"].revision + 1
    assert stream.advance(renewed, None) is None


def test_polls_cost_a_list_a_writer_and_a_get_or_two_a_transaction(connect: Connect, a: LakeTable) -> None:
    fill(a, 1)
    stream = position(connect)
    offset = stream.begin(None)
    counters = stream.stream._table.bucket.counters  # type: ignore[attr-defined]
    fill(a, 2, 3)
    before = counters.as_dict()
    after = stream.advance(offset, None)
    spent = {verb: counters.as_dict()[verb] - before[verb] for verb in ("get", "put", "list")}
    assert after is not None and spent["get"] == 2 * 2 and spent["put"] == 0
    before = counters.as_dict()
    assert len(stream.delivered(offset, after).files) == 2 and counters.as_dict() == before


# -- writers in trouble


def put_rival(connect: Connect, writer: str) -> tuple[str, str]:
    """Another process's transaction beside the newest one of a writer: (the newest's uuid, the rival's)."""
    history = history_of(connect, writer)
    last = history.load() and history.transactions()[-1]
    rival = replace(last, actions=(), commit=replace(last.commit, uuid=new_uuid()))
    connect().bucket.put(
        history.layout.transaction_key(rival.revision, rival.uuid), encode_transaction(rival)
    )
    return last.uuid, rival.uuid


def history_of(connect: Connect, writer: str) -> History:
    db = connect()
    return History(db.bucket, WriterLayout(db.prefix, writer, "prod"))


def resolve(connect: Connect, tip: str, revision: int) -> None:
    """Decide a fork at `revision` for the branch that ends with `tip` there."""
    history = history_of(connect, "a")
    found = next(
        t for t in history.reader.transactions([(revision, tip[:8])]).values() if not isinstance(t, Exception)
    )
    commit = replace(found.commit, uuid=new_uuid(), previous=tip, op="repair")
    decided = replace(found, revision=revision + 1, actions=(Resolve(revision, tip),), commit=commit)
    key = history.layout.transaction_key(decided.revision, decided.uuid)
    connect().bucket.put(key, encode_transaction(decided))


def test_one_broken_writer_holds_up_nobody(connect: Connect, a: LakeTable) -> None:
    b = connect("b").table("t")
    fill(b, 10)
    stream = position(connect)
    offset = stream.begin(None)
    fill(a, 1)
    fill(b, 11)
    history = history_of(connect, "b")
    history.load()
    last = history.transactions()[-1]
    key = history.layout.transaction_key(last.revision, last.uuid)
    body = connect().bucket.get(key).data
    connect().bucket.put(key, body[:-1])
    offset, seen = step(connect, position(connect), offset)
    assert seen == [1] and offset.log.reached["b"].revision == 1
    with pytest.raises(CorruptObjectError):
        position(connect, strict=True).advance(offset, None)
    connect().bucket.put(key, body)
    assert step(connect, position(connect), offset)[1] == [11]


def test_a_fork_above_what_was_delivered_is_waited_for(connect: Connect) -> None:
    a = connect("a", options=NO_CLAIMS).create_table("t", journal="writer", schema={"id": "BIGINT"})
    fill(a, 1)
    stream = position(connect)
    offset = stream.begin(None)
    fill(a, 2)
    stream.stream.target()  # this process has seen the 2
    ours, _ = put_rival(connect, "a")
    fill(connect("b").table("t"), 10)
    offset, seen = step(connect, stream, offset)
    assert seen == [10] and offset.log.reached["a"].revision == 2
    resolve(connect, ours, 3)
    assert step(connect, position(connect), offset)[1] == [2]


def test_a_fork_below_what_was_delivered_stops_the_stream(connect: Connect) -> None:
    a = connect("a", options=NO_CLAIMS).create_table("t", journal="writer", schema={"id": "BIGINT"})
    fill(a, 1)
    stream = position(connect)
    before = stream.begin(None)
    fill(a, 2)
    offset, _ = step(connect, stream, before)
    ours, rival = put_rival(connect, "a")
    for reader in (stream, position(connect)):
        with pytest.raises(ForkError, match=r"delivered revision 3 of the writer a, .*firn repair --keep"):
            reader.advance(offset, None)
    with pytest.raises(ForkError, match="firn repair --keep"):
        position(connect).delivered(before, offset)
    resolve(connect, rival, 3)
    for reader in (stream, position(connect)):
        with pytest.raises(ForkError, match=r"under the uuid .* Start the stream anew"):
            reader.advance(offset, None)
    with pytest.raises(ForkError, match="Start the stream anew"):
        position(connect).delivered(before, offset)
    assert ours != rival


def test_a_history_that_shrank_stops_the_stream(connect: Connect, a: LakeTable) -> None:
    fill(a, 1, 2)
    offset = position(connect).begin(None)
    history = history_of(connect, "a")
    history.load()
    last = history.transactions()[-1]
    connect().bucket.delete(history.layout.transaction_key(last.revision, last.uuid))
    with pytest.raises(
        CorruptObjectError, match=r"has no revision 3 any more; its newest is 2.*firn rebuild"
    ):
        position(connect).advance(offset, None)
    with pytest.raises(CorruptObjectError, match="firn rebuild"):
        position(connect).delivered(None, offset)


def test_another_transaction_in_the_place_of_one_that_was_delivered(connect: Connect) -> None:
    a = connect("a", options=NO_CLAIMS).create_table("t", journal="writer", schema={"id": "BIGINT"})
    fill(a, 1)
    offset = position(connect).begin(None)
    ours, _ = put_rival(connect, "a")
    connect().bucket.delete(history_of(connect, "a").layout.transaction_key(2, ours))
    with pytest.raises(ForkError, match=r"delivered revision 2 .* Start the stream anew"):
        position(connect).advance(offset, None)
    with pytest.raises(ForkError, match="Start the stream anew"):
        position(connect).delivered(None, offset)


def test_steps_of_a_side_that_lost_are_forgotten(connect: Connect) -> None:
    """Read ahead under a limit, and then decided against."""
    a = connect("a", options=NO_CLAIMS).create_table("t", journal="writer", schema={"id": "BIGINT"})
    stream = position(connect)
    offset = stream.begin(None)
    fill(a, 1, 2)
    offset, seen = step(connect, stream, offset, 1)
    assert seen == [1]
    _, rival = put_rival(connect, "a")
    resolve(connect, rival, 3)
    fill(connect("a", options=NO_CLAIMS).table("t"), 3)
    # This process has seen the side that lost; what it delivered is below.
    assert step(connect, stream, offset)[1] == [3]


def test_a_revision_that_was_lost_stops_streams_over_the_writers_tables(
    connect: Connect, a: LakeTable
) -> None:
    connect("b").table("t").append([{"id": 9}])
    connect("c").create_table("u", journal="writer")
    stream = position(connect)
    offset = stream.begin(None)
    a.journal.own.commit(PendingCommit("lost", lambda state, clock: ()))  # type: ignore[attr-defined]
    with pytest.raises(
        SnapshotTooOldError, match=r"revision 2 of the writer a was lost.*Start the stream anew"
    ):
        stream.advance(offset, None)
    other = StreamPosition(connect().table("u").journal.stream())
    start = other.begin(None)
    fill(connect("c").table("u"), 1)
    after = other.advance(start, None)
    assert after is not None and ids(connect, other.delivered(start, after).files) == [1]


@pytest.mark.parametrize(
    "raw",
    [
        {"firn": 1, "log": {}},
        {"firn": 1, "log": {"reached": []}},
        {"firn": 1, "log": {"reached": {"a": [1]}}},
        {"firn": 1, "log": {"w": 1, "names": [], "polled": 1, "count": 0}},
        {"firn": 1, "log": {"reached": {"a": ["x", ""]}}},
    ],
)
def test_what_isnt_an_offset_is_refused(connect: Connect, a: LakeTable, raw: dict[str, Any]) -> None:
    with pytest.raises(CorruptObjectError, match="not an offset"):
        position(connect).parse(raw)


def test_only_what_streams_deliver_goes_by_a_ticket(a: LakeTable) -> None:
    assert isinstance(a.journal.stream(), WriterStream)
    with pytest.raises(AssertionError):
        a.journal.begin_append().commit(Commit("merge"))
