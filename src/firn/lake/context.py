"""The context of every verb of a lake table: the table as a value, and the engine above it.

`firn.database.database` gives every table its `Engines`; the lake itself imports no Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import ClassVar, NamedTuple

from firn.bucket.base import Bucket
from firn.errors import FirnError, InvalidInputError
from firn.journal.entries import Entries
from firn.journal.model import ColumnTypes, DataFile, KnownColumns, LakeJournal, Places, Snapshot
from firn.journal.naming import PLAIN, Naming
from firn.kinds import Kind
from firn.lake.definition.definition import LakeDefinition
from firn.lake.definition.keys import KeySpec
from firn.lake.definition.lost_names import lost_name
from firn.lake.partition.partition import PartitionSpec, Place
from firn.lake.results import Partition
from firn.names import fold
from firn.predicate.predicate import Predicate, columns_in
from firn.runner import Engines


class _Made(NamedTuple):
    """A definition, and what it was made of."""

    created: LakeDefinition
    definition: Entries
    naming: Naming | None
    altered: LakeDefinition


@dataclass(frozen=True, eq=False)
class LakeContext:
    """A table as its verbs need it. `created` is the definition that it was created with. If the table is shared with
    the reference, it is the definition as this process has read it. `defined` is the one of a snapshot, see `at`, and
    `as_of` the snapshot's time."""

    kind: ClassVar[Kind] = "lake"

    bucket: Bucket
    prefix: str
    created: LakeDefinition
    journal: LakeJournal
    engines: Engines
    defined: LakeDefinition | None = None
    as_of: datetime | None = None
    _made: dict[bool, _Made] = field(default_factory=dict, repr=False)

    def at(self, seen: Snapshot | KnownColumns) -> LakeContext:
        """The table as it is in a snapshot, or as an appender knows it: by that definition, and under these names."""
        as_of = None
        if isinstance(seen, Snapshot):
            as_of = datetime.fromtimestamp(seen.time_ms / 1000, timezone.utc)
        return replace(self, defined=self._altered(seen.definition, seen.naming), as_of=as_of)

    @property
    def definition(self) -> LakeDefinition:
        """The definition, with what was changed since the table's creation as far as this process has read."""
        if self.defined is not None:
            return self.defined
        return self._altered(self.journal.definition, None)

    def _altered(self, definition: Entries, naming: Naming | None) -> LakeDefinition:
        """As `LakeDefinition.altered`, which each append asks for several times: the last ones are kept."""
        last = self._made.get(naming is None)
        if last is None or last.created is not self.created or last[1:3] != (definition, naming):
            altered = self.created.altered(definition, naming)
            last = self._made[naming is None] = _Made(self.created, definition, naming, altered)
        return last.altered

    @property
    def name(self) -> str:
        return self.created.name

    @property
    def places(self) -> Places:
        """Where the table's data files lie."""
        return self.journal.places

    @property
    def partition_spec(self) -> PartitionSpec:
        return self.definition.partition

    @property
    def keys(self) -> KeySpec | None:
        """The key by which rows are versions of one row, if the table has one."""
        return self.definition.keys

    def column_of(self, name: str, columns: Collection[str]) -> str:
        """The one of these columns that has the name, in this case if it can be. `InvalidInputError` for none, which
        tells what became of one that was altered; see `became`."""
        spelled = {fold(known): known for known in columns} | {known: known for known in columns}
        if found := spelled.get(name, spelled.get(fold(name))):
            return found
        raise InvalidInputError(
            f"{self.name} has no column {name!r}{self.became(name, columns, ': ')}; it has: "
            f"{', '.join(columns) or 'none yet'}."
        )

    def became(self, name: str, columns: Collection[str], before: str = "") -> str:
        """What became of a column that isn't there by this name any more, with a text before it; nothing if there was
        none. If any column was altered, it costs what `LakeJournal.recent_history` does."""
        if not self.definition.naming:
            return ""
        with suppress(FirnError):  # there is an error to tell already
            history = self.journal.recent_history()
            if self.as_of is not None:
                history = [commit for commit in history if commit.time <= self.as_of]
            if told := lost_name(history, name, columns):
                return before + told
        own = self.definition.naming.stored
        now = next((shown for shown, each in own.items() if fold(each) == fold(name)), None)
        return "" if now is None else f"{before}it is called {now!r} now"

    def predicate(self, where: str, columns: ColumnTypes) -> Predicate:
        """A predicate over columns of the table. `InvalidInputError` as `column_of` has it."""
        try:
            return Predicate.parse(where, columns)
        except InvalidInputError as error:
            if told := self._lost_in(where, columns):
                raise InvalidInputError(f"{error} {told}.") from None
            raise

    def _lost_in(self, where: str, columns: ColumnTypes) -> str:
        known = {fold(name) for name in columns}
        with suppress(InvalidInputError):
            for name in sorted(columns_in(where)):
                if fold(name) not in known:
                    return self.became(name, columns, f"As for {name!r}, ")
        return ""

    def partitions_of(self, snapshot: Snapshot) -> dict[Place, Partition]:
        """Partitions of a snapshot by their place, as `PartitionSpec.place_of` says it."""
        spec = self.partition_spec
        members: dict[Place, list[DataFile]] = {}
        told: dict[Place, dict[str, str | None]] = {}
        for file in snapshot.files:
            place, values = spec.place_of(file, self.places)
            members.setdefault(place, []).append(file)
            told.setdefault(place, values)
        found = {}
        for place, files in sorted(members.items(), key=lambda member: member[0].directory):
            rows = [f.live_rows for f in files]
            found[place] = Partition(
                told[place],
                sum(f.inlined is None for f in files),
                None if None in rows else sum(r for r in rows if r is not None),
                sum(f.size for f in files),
            )
        return found


@dataclass(frozen=True)
class Written:
    """Files that tasks wrote and nobody sees yet, and the columns that they hold, by the table's `naming`."""

    files: Sequence[DataFile]
    columns: ColumnTypes
    naming: Naming = PLAIN
