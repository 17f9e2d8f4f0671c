"""Many processes append to one table at the same time; nobody coordinates them.

    python examples/many_writers.py [DATABASE]

Each writer knows the table's URL and nothing else. Afterwards one merge makes a few files of the many.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import datetime, timedelta
from multiprocessing import get_context

import firn

WRITERS, APPENDS, ROWS = 4, 5, 20
START = datetime(2026, 1, 30)


def write(url: str, writer: int) -> None:
    """One process: small appends, each with an id of its own, so that a retry never doubles rows."""
    events = firn.connect(url).table("events")
    for number in range(APPENDS):
        rows = [
            {"time": START + timedelta(hours=number * ROWS + i), "writer": writer, "value": i}
            for i in range(ROWS)
        ]
        events.append(rows, batch_id=f"writer-{writer}/{number}")


def main(url: str) -> None:
    events = firn.connect(url).create_table("events", partition_by=["month(time)"], sort_by=["time"])

    context = get_context("spawn")
    writers = [context.Process(target=write, args=(url, writer)) for writer in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()

    before = events.snapshot()
    print(f"{WRITERS} writers made {len(before.files)} files and {len(events.history())} commits")
    assert events.scan().count() == WRITERS * APPENDS * ROWS

    merged = events.merge()
    print(f"a merge turned {merged.files_removed} files into {merged.files_added}")
    assert events.scan().count() == WRITERS * APPENDS * ROWS

    # A writer that doesn't know whether its append went through sends it again.
    again = events.append([{"time": START, "writer": 0, "value": 0}], batch_id="writer-0/0")
    print(f"the same batch once more is a duplicate: {again.duplicate}")
    assert again.duplicate


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(sys.argv[1] if len(sys.argv) > 1 else directory)
