"""A stream over writers' catalogs delivered files without what is set aside in them: values that didn't fit a column
failed the stream, for ever."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

import firn
from firn.journal.position import StreamPosition
from firn.lake.read.read import ReadSpec, read_table
from firn.lake.table import LakeTable
from moments import append_late


def streamed(reader: LakeTable, start: Any, stream: StreamPosition[Any]) -> list[Any]:
    after = stream.advance(start, None)
    assert after is not None
    spec = ReadSpec(columns={"c": "BIGINT"}, table_columns={"c": "BIGINT"})
    found = []
    for again in (stream, StreamPosition(reader.journal.stream())):  # that polled, and one after a restart
        files = again.delivered(start, after).files
        found.append(sorted(read_table(reader.bucket, files, spec)["c"].to_pylist(), key=str))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("merged", [False, True])
def test_a_stream_of_a_log_sets_aside_what_does_not_fit(merged: bool) -> None:
    """Once no live file conflicts, the log's appends still do."""
    t = firn.connect(f"memory://{uuid4().hex}").create_table("t")
    t.append([{"c": 1}])
    stream = StreamPosition(t.journal.stream())
    start = stream.begin(None)
    t.append([{"c": 2}])
    append_late(t, [{"c": "oops"}])
    if merged:
        t.delete("c IS NULL")
        t.merge()
        assert not t.conflicts()
    with pytest.warns(firn.DegradedReadWarning, match="shown as 'c~varchar'"):
        assert streamed(t, start, stream) == [2, None]


@pytest.mark.parametrize("merged", [False, True])
def test_a_stream_of_writers_sets_aside_what_does_not_fit(merged: bool) -> None:
    url = f"memory://{uuid4().hex}"
    zed = firn.connect(url, writer="zed").create_table("t", journal="writer")
    abe = firn.connect(url, writer="abe").table("t")
    abe.journal.known()
    zed.append([{"c": 1}])
    reader = firn.connect(url).table("t")
    stream = StreamPosition(reader.journal.stream())
    start = stream.begin(None)
    zed.append([{"c": 2}])
    append_late(abe, [{"c": "oops"}])
    append_late(abe, [{"c": "again"}])
    if merged:  # no live file conflicts by now, and the stream delivers those that did
        abe.merge()
    with pytest.warns(firn.DegradedReadWarning, match="shown as 'c~varchar'"):
        assert streamed(reader, start, stream) == [2, None, None]
