"""`KeyedTable`: what users hold. Every verb is one call into the module that does it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol

from firn.bucket.base import Bucket
from firn.keyed.definition import KeyedDefinition
from firn.keyed.reader import KeyedReader
from firn.keyed.settings import KeyedSettings
from firn.keyed.writer import KeyedWriter
from firn.runner import Runner

Duration = float | str | timedelta


class Engines(Protocol):
    """Where a whole table's work runs; `firn.database` gives every table one."""

    def runner(self, input_bytes: int) -> Runner: ...


class KeyedTable:
    """Sorted keys with one writer and many readers. Get one from `Database.create_table` or `Database.table`."""

    def __init__(
        self, bucket: Bucket, prefix: str, definition: KeyedDefinition, engines: Engines | None = None
    ) -> None:
        self.bucket, self.prefix, self.definition = bucket, prefix, definition
        self.engines = engines

    def __repr__(self) -> str:
        return f"<KeyedTable {self.bucket.uri(self.prefix)}>"

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def settings(self) -> KeyedSettings:
        return self.definition.settings

    def open(self, *, wait_for_gaps: Duration = 0.0, compaction: bool = True) -> KeyedWriter:
        """Become the table's writer; the one before is fenced."""
        return KeyedWriter(self)

    def reader(self, at: Any = None, *, follow: Duration | None = "1s") -> KeyedReader:
        """Read the newest flush (at=None), never older than `follow`; or stay at a version or checkpoint."""
        return KeyedReader(self, None, follow=None)

    def view(self, at: Any = None) -> Any:
        """The SSTs and L0 objects of a moment: the newest, a version's or a checkpoint's. See `journal.read`."""
