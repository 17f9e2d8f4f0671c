"""What a commit's bookkeeping costs by the number of live files of its writer: the state after an append, of which
all readers of the process make their snapshots. No request is made."""

from __future__ import annotations

import time

from firn.journal.model import DataFile
from firn.journal.writer.format.actions import Add, CatalogTransaction, CommitRecord
from firn.journal.writer.format.state import CatalogHead, CatalogState, CatalogTable, LiveFile, follow

FILES = (1_000, 10_000, 100_000)
COMMITS = 400


def live(files: int) -> CatalogState:
    """A catalog of one table with so many files."""
    paths = (f"w/db/data/t/{number:032x}.parquet" for number in range(files))
    entries = {path: LiveFile(DataFile(path, 1, 0), (), 1) for path in paths}
    return CatalogState("w", "db", CatalogHead(1, "0" * 32), 1, {"t": CatalogTable("t", b"", ((),), entries)})


def measure(files: int) -> float:
    """Milliseconds a commit."""
    state = live(files)
    begun = time.perf_counter()
    for number in range(COMMITS):
        head = state.head
        record = CommitRecord(f"{number + 1:032x}", head.uuid, 0, "append")
        add = Add("t", DataFile(f"{number}.parquet", 1, 0))
        state = follow(state, CatalogTransaction("w", "db", head.revision + 1, [add], record))
    return (time.perf_counter() - begun) / COMMITS * 1000


if __name__ == "__main__":
    for files in FILES:
        print(f"{files:>9,} live files: {measure(files):8.3f} ms a commit")
