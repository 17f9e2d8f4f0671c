"""Each SST that was written stayed in memory for ever: its bytes and Arrow's stream onto them held one another."""

from __future__ import annotations

import weakref

import pytest

from firn.keyed.encoding.entries import PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.sst import sink
from firn.keyed.sst.writer import SstWriter

ROOM = 32 << 20


def write(*, finish: bool) -> None:
    values = Values()
    writer = SstWriter(values.schema, expected_bytes=ROOM)
    writer.add(values.batch([Entry(b"DTW", 1, PUT, None, b"66")]))
    if finish:
        writer.finish()


@pytest.mark.parametrize("finish", [True, False])
def test_the_bytes_of_an_sst_go_with_it(finish: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    rooms = sink._Room.__init__

    def watched(room: sink._Room, size: int) -> None:
        rooms(room, size)
        made.append((size, weakref.ref(room), weakref.ref(room._data)))

    monkeypatch.setattr(sink._Room, "__init__", watched)
    write(finish=finish)
    assert [size >= ROOM for size, *_ in made] == [True]
    assert [ref() for _, *refs in made for ref in refs] == [None, None]
