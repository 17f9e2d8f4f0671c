"""Many processes append to one table at the same time; nobody coordinates them.

    python examples/many_writers.py [DATABASE]

Each writer knows the table's URL and nothing else. Its appender gathers rows. Afterwards one merge makes a few files
of what all have appended.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import datetime, timedelta
from multiprocessing import get_context

import firn

WRITERS, ROWS, BATCH = 4, 100, 20
START = datetime(2026, 1, 30)


def write(url: str, writer: int) -> None:
    """One process: rows one by one. A batch has an id of its own, so that a process that is started again after a
    crash, and adds all of its rows again, doubles none."""
    events = firn.connect(url).table("events")
    with events.appender(batch_ids=f"writer-{writer}/", rows=BATCH) as out:
        for number in range(ROWS):
            out.add({"time": START + timedelta(hours=number), "writer": writer, "value": number})


def main(url: str) -> None:
    events = firn.connect(url).create_table(
        "events", partition_by=["month(time)"], sort_by=["time"], properties={"inline": "64KB"}
    )

    context = get_context("spawn")
    writers = [context.Process(target=write, args=(url, writer)) for writer in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()

    print(f"{WRITERS} writers made {len(events.history())} commits of {events.scan().count()} rows")
    assert events.scan().count() == WRITERS * ROWS

    merged = events.merge()
    print(f"a merge wrote them into {merged.files_added} files")
    assert events.scan().count() == WRITERS * ROWS

    # A writer that was killed begins anew.
    write(url, 0)
    print(f"the same writer once more adds nothing: {events.scan().count()} rows")
    assert events.scan().count() == WRITERS * ROWS


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        main(sys.argv[1] if len(sys.argv) > 1 else directory)
