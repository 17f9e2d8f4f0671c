"""Reading the log from a commit on: records in their order, from packs as far as they are packed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firn.errors import SnapshotTooOldError
from firn.journal.sequence.log import SequenceLog
from firn.journal.sequence.model import LogRecord

CHUNK: Final = 128
"""Records that are fetched at once: one may have megabytes."""


def chunks(log: SequenceLog, after: int, upto: int) -> Iterator[LogRecord]:
    """`log.records`, few in memory at a time."""
    for at in range(after, upto, CHUNK):
        yield from log.records(at, min(at + CHUNK, upto))


def history(log: SequenceLog, after: int, upto: int) -> Iterator[LogRecord]:
    """The records in (after, upto], of which the last is known to exist, ascending.

    1 GET for the horizon; 1 LIST sequence and 1 GET a pack of records; 1 GET a record behind these that isn't
    in memory, and 1 for the horizon for each `CHUNK` of them.

    Raises:
        SnapshotTooOldError: one is neither in the log nor in a pack any more.
    """
    if after >= upto:
        return
    store, at = log.store, after
    packed = min(log.learn(store.horizon()).lo, upto)
    while at < packed:
        # Packs follow one another: only the first has to be looked for.
        pack = (None if at == after else store.pack(at + 1)) or store.pack_with(at + 1)
        if pack is None:
            raise SnapshotTooOldError(
                f"{store.bucket.uri(store.layout.record_key(at + 1))} was packed, and its pack is swept: what was "
                f"committed after {after} can't be told any more. Read the table as it is now, and its changes from "
                "there"
            )
        yield from (record for record in pack.records if at < record.number <= upto)
        at = pack.hi
    # Records that are truncated meanwhile are found in their pack.
    yield from chunks(log, at, upto)
