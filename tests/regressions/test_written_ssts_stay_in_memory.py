"""Each SST that was written stayed in memory for ever: its bytes and Arrow's stream onto them held one another."""

from __future__ import annotations

import tracemalloc

import pytest

from firn.keyed.entries import PUT, Entry
from firn.keyed.sst_writer import SstWriter
from firn.keyed.values import Values

ROOM = 32 << 20


def write(*, finish: bool) -> None:
    values = Values()
    writer = SstWriter(values.schema, expected_bytes=ROOM)
    writer.add(values.batch([Entry(b"DTW", 1, PUT, None, b"66")]))
    if finish:
        writer.finish()


@pytest.mark.parametrize("finish", [True, False])
def test_the_bytes_of_an_sst_go_with_it(finish: bool) -> None:
    write(finish=finish)  # imports what is only needed then
    tracemalloc.start()
    try:
        write(finish=finish)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most > ROOM
    assert held < ROOM
