"""The position of a stream of a table's appends, and the appends between two positions.

A stream from the beginning first delivers all live files of one snapshot, in parts if need be, and then later
appends. This is the same above every journal; the journal knows the meaning of its offsets.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic

from firn.errors import CorruptObjectError, SnapshotTooOldError
from firn.journal.model import ColumnTypes, DataFile, Delivered, JournalStream, OffsetT

BEGINNING = {"firn": "beginning"}
"""The offset of a stream that hasn't looked at the table yet: always the same, as Spark doesn't keep it."""


@dataclass(frozen=True)
class SnapshotProgress(Generic[OffsetT]):
    """How far the first snapshot is delivered: `index` of its `total` files, ordered by path."""

    version: str
    index: int
    total: int
    digest: str
    base: OffsetT

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "base": self.base.to_json()}


@dataclass(frozen=True)
class Offset(Generic[OffsetT]):
    """Where a stream stands: in the snapshot it began with, if that isn't done, and in the journal."""

    log: OffsetT
    snapshot: SnapshotProgress[OffsetT] | None = None

    def to_json(self) -> dict[str, Any]:
        raw: dict[str, Any] = {"firn": 1, "log": self.log.to_json()}
        if self.snapshot is not None:
            raw["snapshot"] = self.snapshot.to_json()
        return raw


class StreamPosition(Generic[OffsetT]):
    """Moves a stream's offset on, and tells the files between two offsets."""

    def __init__(self, stream: JournalStream[OffsetT]) -> None:
        self.stream = stream
        self._snapshots: dict[str, Delivered] = {}

    def parse(self, raw: Mapping[str, Any]) -> Offset[OffsetT] | None:
        """An offset from its JSON; None for the beginning.

        Raises:
            CorruptObjectError: it isn't one of this table's journal.
        """
        if raw == BEGINNING:
            return None
        try:
            progress = None
            if "snapshot" in raw:
                s = raw["snapshot"]
                base = self.stream.parse(s["base"])
                progress = SnapshotProgress(s["version"], s["index"], s["total"], s["digest"], base)
            return Offset(self.stream.parse(raw["log"]), progress)
        except (KeyError, TypeError) as error:
            raise CorruptObjectError(f"not an offset of a Firn stream: {raw!r}") from error

    def begin(self, limit: int | None) -> Offset[OffsetT]:
        """The first offset after the beginning: pins a snapshot, delivers at most `limit` of its files."""
        begun = self.stream.start()
        files = _ordered(begun.files)
        if not files:
            return Offset(begun.offset)
        self._snapshots[begun.version] = Delivered(files, (begun.columns,))
        index = len(files) if limit is None else min(limit, len(files))
        progress = SnapshotProgress(begun.version, index, len(files), _digest(files), begun.offset)
        return Offset(begun.offset, progress)

    def advance(
        self, start: Offset[OffsetT], limit: int | None, *, among: Any = None
    ) -> Offset[OffsetT] | None:
        """The offset after the next batch of at most `limit` files; None if there is nothing to deliver.

        `among` restricts it to the appends that a `JournalStream.target` saw. An idle stream's offset is renewed
        before it grows too old.
        """
        progress, taken = start.snapshot, 0
        if progress is not None:
            left = progress.total - progress.index
            taken = left if limit is None else min(left, limit)
            progress = replace(progress, index=progress.index + taken) if left else None
        delivery = self.stream.poll(start.log, among=among)
        chosen = _fitting(delivery.appends, None if limit is None else limit - taken, alone=not taken)
        if chosen < len(delivery.appends):
            delivery = self.stream.poll(start.log, limit=chosen, among=among)
        if not taken and not any(delivery.appends) and not delivery.renew:
            return None
        return Offset(delivery.offset, progress)

    def delivered(self, start: Offset[OffsetT] | None, end: Offset[OffsetT]) -> Delivered:
        """The appends between two offsets; the same at every call.

        Raises:
            SnapshotTooOldError: some of it may be gone.
        """
        files: tuple[DataFile, ...] = ()
        schemas: tuple[ColumnTypes, ...] = ()
        if end.snapshot is not None:
            first = start.snapshot.index if start is not None and start.snapshot is not None else 0
            snapshot = self._snapshot(end.snapshot)
            if files := snapshot.files[first : end.snapshot.index]:
                schemas = snapshot.schemas
        if start is not None:
            appended = self.stream.between(start.log, end.log)
            files, schemas = files + appended.files, schemas + appended.schemas
        return Delivered(files, schemas)

    def _snapshot(self, progress: SnapshotProgress[OffsetT]) -> Delivered:
        if progress.version not in self._snapshots:
            found = self.stream.restart(progress.version, progress.base)
            files = _ordered(found.files)
            if len(files) != progress.total or _digest(files) != progress.digest:
                raise SnapshotTooOldError(
                    f"version {progress.version} of {self.stream.name}, which this stream began with, can't be "
                    "read any more: start the stream anew, with a new checkpoint."
                )
            self._snapshots[progress.version] = Delivered(files, found.schemas)
        return self._snapshots[progress.version]


def _ordered(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    return tuple(sorted(files, key=lambda file: file.path))


def _digest(files: Sequence[DataFile]) -> str:
    return hashlib.sha256("\n".join(file.path for file in files).encode()).hexdigest()[:16]


def _fitting(appends: Sequence[Sequence[DataFile]], limit: int | None, *, alone: bool) -> int:
    """How many of the appends, from the first, hold at most `limit` files; at least one if `alone`."""
    if limit is None:
        return len(appends)
    total = 0
    for count, files in enumerate(appends):
        total += len(files)
        if total > limit and not (alone and total == len(files)):
            return count
    return len(appends)
