"""Lakes over each journal, for suites that know none: what differs in meaning is said here, once.

A suite opens its lakes by a fixture with `LAKES` as parameters, and asks them for tables, connections, and for what
each journal has its own way of: making old versions garbage, and telling what is stored.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import firn
from firn.journal.model import CommitInfo, SweepReport
from firn.journal.writer.format.layout import WriterLayout
from firn.lake.table import LakeTable
from firn.lake.write.append import write


class Lake(ABC):
    """A database whose tables are kept by one journal. A bare `memory://` is a new one each time."""

    journal: str
    bookkeeping: frozenset[str] = frozenset()
    """What operations are called in a table's history that change no row."""
    too_old: str
    """What the error says whose version was forgotten."""

    def __init__(self, url: str = "memory://", options: Mapping[str, Any] | None = None) -> None:
        self.url = f"memory://{secrets.token_hex(8)}/db" if url == "memory://" else url
        self.options = dict(options or {})
        self.db = self.connect()

    @abstractmethod
    def connect(self, writer: str = "w") -> firn.Database:
        """One more connection that may write; `writer` for journals of several."""

    def create(self, name: str, **definition: Any) -> LakeTable:
        return self.db.create_table(name, **{"journal": self.journal, **definition})

    @abstractmethod
    def age(self) -> None:
        """Whatever isn't live is garbage from now on."""

    def forget(self, table: LakeTable) -> SweepReport:
        """Delete of a table all that isn't live, and with it all older versions."""
        self.age()
        return table.sweep(older_than="0s", orphans="0s")

    @abstractmethod
    def stored(self, name: str) -> set[str]:
        """The data files that are there of a table, live or not."""

    @abstractmethod
    def erase(self, name: str) -> None:
        """Drop a table and give its space back."""

    @abstractmethod
    def checkpoints(self, table: LakeTable) -> set[str]:
        """The keys of its replay caches."""

    def commits(self, table: LakeTable) -> list[CommitInfo]:
        """What changed rows of a table, oldest first."""
        return [line for line in table.history() if line.op not in self.bookkeeping]


class LeaderlessLake(Lake):
    """Every table has a log of its own. Sweep makes garbage of what it may, and deletes it."""

    journal = "leaderless"
    bookkeeping = frozenset({"sweep"})
    too_old = "sweep has deleted"

    def connect(self, writer: str = "w") -> firn.Database:
        return firn.connect(self.url, options=self.options)

    def age(self) -> None:
        pass

    def stored(self, name: str) -> set[str]:
        return _keys(self.db, f"{_below(self.db, name)}/_data/")

    def erase(self, name: str) -> None:
        self.db.drop_table(name)

    def checkpoints(self, table: LakeTable) -> set[str]:
        return _keys(self.db, f"{table.prefix}/_firn/checkpoint")


class WriterLake(Lake):
    """Tables are kept by writers' catalogs. A file is garbage once no retained revision names it: behind two more
    revisions, each with a checkpoint, prune forgets all that was before them."""

    journal = "writer"
    bookkeeping = frozenset({"create"})
    too_old = "was pruned"

    def connect(self, writer: str = "w") -> firn.Database:
        return firn.connect(self.url, options=self.options, writer=writer)

    def age(self) -> None:
        for writer in self.db.writers():
            self.age_of(self.connect(writer.name), writer.name)

    def age_of(self, db: firn.Database, writer: str) -> None:
        """As `age`, for one writer, while others go on."""
        db.create_table(f"passing-{writer}", journal="writer")
        db.checkpoint()
        db.drop_table(f"passing-{writer}")
        db.checkpoint()
        db.prune("0s")

    def stored(self, name: str) -> set[str]:
        found = set()
        for writer in self.db.writers():
            layout = WriterLayout(self.db.prefix, writer.name, "db")
            for key in _keys(self.db, layout.data_prefix):
                place = layout.parse_data(key)
                if place is not None and place.table == name:
                    found.add(key)
        return found

    def erase(self, name: str) -> None:
        self.db.drop_table(name)
        self.forget(self.create("survivor"))
        self.db.drop_table("survivor")

    def checkpoints(self, table: LakeTable) -> set[str]:
        found = _keys(self.db, WriterLayout(self.db.prefix, "w", "db").transactions_prefix)
        return {key for key in found if key.endswith(".checkpoint")}


class ListingWriterLake(WriterLake):
    """The same on a store without conditional puts, so by the discipline of PUT and LIST."""

    def __init__(self, url: str = "memory://", options: Mapping[str, Any] | None = None) -> None:
        super().__init__(url, {**(options or {}), "conditional_put": "disabled"})


LAKES: Mapping[str, type[Lake]] = {"leaderless": LeaderlessLake, "writer": WriterLake}
EVERY_LAKE: Mapping[str, type[Lake]] = {**LAKES, "writer-by-listing": ListingWriterLake}


def abandon(table: LakeTable, rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """The files of an append whose process died before it was committed."""
    written, _ = write(table.context, rows, table.journal.begin_append().namer)
    return {file.path for file in written.files}


def _below(db: firn.Database, name: str) -> str:
    return f"{db.prefix}/{name}" if db.prefix else name


def _keys(db: firn.Database, prefix: str) -> set[str]:
    return {info.key for info in db.bucket.list(prefix).objects}
