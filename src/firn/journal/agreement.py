"""The agreement of all files of a table: its columns, which type each has, and how each file's columns are read.

Commits that don't know of each other may land two types for one column. Reading never fails for that: values of
a type that the column's doesn't take in are *set aside*, in a column of their own that is called after column and
type, `delay~double`. Its name follows from these two alone, so it is the same for all readers and versions, and
merges write it. See docs/design/0012-conflicting-types.md.

Pure. `agree` settles the columns; `Agreement.reads` then tells of a file, by the types that it has, which of its
own columns each of the table's is read from. All readers ask it. Rules and sources have physical names; agreements
show columns as they are called.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from firn.journal.column_entries import NULLS, ColumnEntries
from firn.journal.columns import OnConflict, converts, join, join_loose, older_types, widens_to
from firn.journal.entries import INTO, PROPERTY, TYPE, Entries
from firn.journal.model import LACKING, ColumnTypes, Conflict, DataFile, Reads
from firn.journal.naming import PLAIN, Naming, name_columns
from firn.journal.typenames import NULL, Scalar, parse
from firn.names import fold

DECLARED = "the table's definition"


@dataclass(frozen=True)
class Rules:
    """The inputs that decide about a table's columns, beside its files.

    Args:
        declared: the columns that it was created with.
        explicit: types that were set since, by column.
        into: columns whose values are another column's, by that.
        key: the columns of its key, which are never set aside; nor is `version_by`.
        definition: the entries that say how columns are called.
        noted: physical name → name, as commits that brought new columns say it.
        naming: how columns are called, whatever the definition says: of a stream, as they were when it began.
    """

    declared: ColumnTypes = field(default_factory=dict)
    explicit: ColumnTypes = field(default_factory=dict)
    into: Mapping[str, str] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    version_by: str | None = None
    on_conflict: OnConflict = "aside"
    definition: Entries = field(default_factory=Entries)
    noted: Mapping[str, str] = field(default_factory=dict)
    naming: Naming | None = None

    def altered(self, definition: Entries) -> Rules:
        """As the definition's entries have changed them."""
        if not definition:
            return self
        properties = definition.of(PROPERTY)
        return replace(
            self,
            definition=definition,
            explicit=definition.present(TYPE),
            into=definition.present(INTO),
            on_conflict=(properties["on_conflict"] or "aside")
            if "on_conflict" in properties
            else self.on_conflict,
        )


class Source(NamedTuple):
    """A source of columns' types: a file or a log, by its name for people, and the types that it has. `beside` are
    the file's own columns that hold values which were set aside before it was written."""

    name: str
    columns: ColumnTypes
    beside: ColumnTypes = MappingProxyType({})


@dataclass(frozen=True)
class _Reading:
    """How files are read; `entries` say of which own column the statistics are."""

    reads: Reads
    odd: tuple[str, ...]
    entries: Mapping[str, str | None]


@dataclass(frozen=True)
class Agreement:
    """`columns` are those shown, with their types; `aside` those of them that hold what was set aside; `loose` those
    that are read from types which don't widen to theirs. `refusal` is why reading is refused, where
    `on_conflict="error"` asks for that. `stored` are all columns under their physical names, `beside` those of them
    that hold what was set aside; `moved` are the types of columns whose values are another column's by now."""

    columns: dict[str, str]
    aside: frozenset[str] = frozenset()
    loose: frozenset[str] = frozenset()
    conflicts: tuple[Conflict, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str | None = None
    naming: Naming = PLAIN
    stored: Mapping[str, str] = field(default_factory=dict)
    beside: frozenset[str] = frozenset()
    moved: Mapping[str, str] = field(default_factory=dict)
    _places: Mapping[tuple[str, str], str] = field(default_factory=dict)
    _spelled: Mapping[str, str] = field(default_factory=dict)
    _into: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    _seen: dict[tuple[tuple[str, str], ...], _Reading] = field(default_factory=dict, compare=False)

    @property
    def plain(self) -> bool:
        """Whether every file's columns are read as they are called, and exactly."""
        return self.settled and not self.naming

    @property
    def settled(self) -> bool:
        """Whether every file's columns are read exactly, under whatever name."""
        return not (self.conflicts or self.loose or self.aside or self._into)

    @property
    def set_aside(self) -> dict[str, str]:
        """The columns that hold what was set aside, each with the column that it is of."""
        of = {each.aside: each.column for each in self.conflicts}
        return {name: of.get(name, self.naming.shown(name.rpartition("~")[0])) for name in sorted(self.aside)}

    @property
    def known(self) -> frozenset[str]:
        """Folded names of all columns that files may have, shown or not."""
        return frozenset(self._spelled) | {fold(name) for name in (*self.stored, *self.naming.hidden)}

    def differing(self, columns: ColumnTypes) -> dict[str, str]:
        """Those of a file's columns that have another type than the table has, and those with a default that it
        lacks."""
        found = older_types(columns, self.stored)
        if self.naming.lackable:
            own = {fold(name) for name in columns}
            lacking = (name for name in self.naming.lackable if fold(name) not in own)
            found.update(dict.fromkeys(sorted(lacking), LACKING))
        return found

    def ordered(self, names: Iterable[str]) -> Agreement:
        """The same with columns in this order of their physical names, as far as it goes."""
        known = {fold(name): name for name in self.stored}
        found = [known[folded] for name in names if (folded := fold(name)) in known]
        stored = {**{name: self.stored[name] for name in found}, **self.stored}
        shown = (self.naming.shown(name) for name in stored if name not in self.naming.hidden)
        return replace(self, stored=stored, columns={name: self.columns[name] for name in shown})

    def as_read(self, file: DataFile) -> DataFile:
        """A file as readers need it, whose `types` are noted: with its reads, and statistics and Bloom filters of
        columns as they are read. They say nothing about values that are read as another type."""
        extra = file.extra or {}
        found = self._reading(extra.get("types") or {})
        if (cols := extra.get("cols")) is not None:
            reads = self._in_file(found.reads, cols)
            found = replace(found, reads=reads, odd=self._odd(reads))
        if not found.reads and not found.entries:
            return file
        seen = {**extra, "reads": found.reads, "odd": found.odd}
        if isinstance(stats := extra.get("stats"), Mapping):
            rows = extra.get("rows")
            seen["stats"] = ColumnEntries(stats, found.entries, None if rows is None else [None, None, rows])
        if isinstance(blooms := extra.get("bloom"), Mapping):
            seen["bloom"] = ColumnEntries(blooms, found.entries, None)
        return DataFile(file.path, file.size, file.created_ms, seen)

    def reads(self, types: ColumnTypes) -> Reads:
        """How a file is read whose columns have the table's types, but for those in `types`: for each column of the
        table that isn't simply the file's own of its name, those own ones that it is read from (the first that
        isn't null), none where it is null in all rows, or has its default."""
        own = self._physical_reads(types)
        if not self.naming:
            return own
        named = {name: (physical,) for name, physical in self.naming.stored.items()}
        shown = {
            self.naming.shown(name): tuple(names) or self._nothing(name, types)
            for name, names in own.items()
            if name not in self.naming.hidden
        }
        return {**named, **shown}

    def _nothing(self, physical: str, types: ColumnTypes) -> tuple[str, ...]:
        """How a column is read that no column of the file is read as: it has its default, unless the file's own
        values were set aside. Then it is null."""
        if self.naming.shown(physical) not in self.naming.defaults:
            return ()
        own = next((kind for name, kind in types.items() if fold(name) == fold(physical)), LACKING)
        return () if own == LACKING else (NULLS,)

    def _reading(self, types: ColumnTypes) -> _Reading:
        """How files of these types are read, once for all that are alike."""
        key = tuple(types.items())
        found = self._seen.get(key)
        if found is None:
            reads = {} if self.plain else self.reads(types)
            entries = {place: self._entry(place, own) for place, own in reads.items()}
            found = self._seen[key] = _Reading(reads, self._odd(reads), entries)
        return found

    def _odd(self, reads: Reads) -> tuple[str, ...]:
        physical = self.naming.physical
        return tuple(name for name, own in reads.items() if [*map(fold, own)] != [fold(physical(name))])

    def _entry(self, place: str, own: Sequence[str]) -> str | None:
        """The own column whose statistics are the column's, `NULLS` if it is null in all rows, None if nobody knows
        them."""
        if not own:
            return None if place in self.naming.defaults else NULLS
        return own[0] if len(own) == 1 and place not in self.loose else None

    def _in_file(self, reads: Reads, cols: Mapping[str, str]) -> Reads:
        """Reads of a file whose columns are called otherwise than their physical names."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self.columns:
            own = tuple(
                cols.get(each, each) for each in reads.get(name, (name,)) if each in cols or each == NULLS
            )
            if own != (name,):
                found[name] = own
        return found

    def _physical_reads(self, types: ColumnTypes) -> Reads:
        given = {fold(name): (name, kind) for name, kind in types.items()}
        found: dict[str, list[str]] = {}
        odd: dict[str, None] = {}
        for folded, (name, kind) in given.items():
            home = self._spelled.get(folded)
            if kind == LACKING and home is not None:
                found.setdefault(home, [])
                odd[home] = None
                continue
            place = self._places.get((folded, kind), home)
            if place is None:
                continue
            found.setdefault(place, []).append(name)
            if fold(place) != folded or place in self.loose:
                odd[place] = None
            if home is not None and fold(place) != folded:
                found.setdefault(home, [])
                odd[home] = None
        for folded, (name, place) in self._into.items():
            if folded not in given:
                found.setdefault(place, []).append(name)
                odd[place] = None
                if name in self.stored:  # for the sake of other types of it
                    found.setdefault(name, [])
                    odd[name] = None
        for place in odd:
            if fold(place) not in given and fold(place) not in self._into and place not in self.beside:
                found[place].insert(0, place)
        return {place: tuple(found[place]) for place in odd}


def agree(rules: Rules, live: Iterable[Source], others: Iterable[Source] = ()) -> Agreement:
    """The columns of a table.

    A column has the type that was set for it, else the declared one, else that of the first source in `live`; wider
    types widen it. Columns stand in the order in which they first appear, under canonical type names. A column that
    differs from an earlier one by case alone is that column, under its earlier spelling, and a warning says so. One
    of NULL type has no type yet and is left out.

    Costs a dict comparison for each source that says what an earlier one said.

    Args:
        live: types of files that are live, whoever comes first has the column.
        others: of files that aren't: they make columns, and widen them, and nothing else.

    >>> found = agree(Rules(), [Source("a", {"x": "BIGINT"}), Source("b", {"x": "DOUBLE"})])
    >>> found.columns, found.reads({"x": "DOUBLE"})
    ({'x': 'BIGINT', 'x~double': 'DOUBLE'}, {'x~double': ('x',), 'x': ()})
    """
    union = _Union(rules)
    union.take(Source(DECLARED, rules.declared))
    for source in live:
        union.take(source)
    union.turn()
    for source in others:
        union.take(source)
    return union.agreement()


def agree_streamed(rules: Rules, now: Agreement, table: str, sources: Iterable[Source]) -> Agreement:
    """The agreement of a table with the files that a stream delivers, live or not: the columns stay as they are
    shown `now`, and values that don't fit them are set aside.

    >>> rules = Rules()
    >>> found = agree_streamed(rules, agree(rules, [Source("a", {"x": "BIGINT"})]), "t", [Source("b", {"x": "DATE"})])
    >>> found.reads({"x": "DATE"})
    {'x~date': ('x',), 'x': ()}
    """
    shown = {name: kind for name, kind in now.stored.items() if name not in now.beside}
    beside = {name: kind for name, kind in now.stored.items() if name in now.beside}
    return agree(rules, [Source(f"the table {table}", shown, beside), *sources])


def aside_name(column: str, kind: str) -> str:
    """The name of the column for values that have another type than theirs.

    >>> aside_name("delay", "DOUBLE"), aside_name("x", "TIMESTAMP WITH TIME ZONE"), aside_name("x", "DECIMAL(5,2)")
    ('delay~double', 'x~timestamptz', 'x~decimal-68bc')
    """
    parsed = parse(kind)
    if isinstance(parsed, Scalar):
        return f"{column}~{parsed.name.lower().replace(' with time zone', 'tz').replace(' ', '-')}"
    return f"{column}~{type(parsed).__name__.lower()}-{zlib.crc32(str(parsed).encode()):08x}"[:-4]


class _Column(NamedTuple):
    name: str
    type: str
    owner: str


class _Union:
    """The columns so far, each with the source that gave it its present type."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.binding = True
        self.columns: dict[str, _Column] = {}
        self.said: dict[tuple[str, str], str] = {}  # (column, type) of live files → the first source
        self.loose: set[str] = set()
        self.warned: dict[
            tuple[str, ...], str
        ] = {}  # one warning for each sort of trouble, not for each source
        self._explicit = {fold(name): kind for name, kind in rules.explicit.items()}
        self._key = {fold(name) for name in rules.key}
        self._version_by = fold(rules.version_by) if rules.version_by else None
        self.proper: set[str] = set()  # columns that somebody has who set nothing aside
        self._previous: ColumnTypes | None = None
        self._taken: set[tuple[tuple[str, str], ...]] = set()

    def take(self, source: Source) -> None:
        if source.beside:
            for name, kind in source.beside.items():
                if kind != LACKING:
                    self._take(name, str(parse(kind)), source.name, beside=True)
        if source.columns == self._previous:
            return
        self._previous = source.columns
        key = tuple(source.columns.items())
        if key in self._taken:
            return
        self._taken.add(key)
        for name, text in source.columns.items():
            parsed = parse(text)
            if parsed != NULL:
                self._take(name, str(parsed), source.name)

    def turn(self) -> None:
        """From now on, all files that come aren't live."""
        self.binding = False
        self._previous = None
        self._taken.clear()

    def _take(self, name: str, kind: str, source: str, *, beside: bool = False) -> None:
        folded = fold(name)
        there = self.columns.get(folded)
        if self.binding:
            self.said.setdefault((folded, kind), source)
        if not beside:
            self.proper.add(folded)
        if there is None:
            explicit = self._explicit.get(folded)
            self.columns[folded] = _Column(name, explicit or kind, DECLARED if explicit else source)
            return
        if there.name != name:
            self.warned[name,] = (
                f"column {name!r} in {source} is read as {there.name!r}: only the case differs"
            )
        if folded in self._explicit:
            return
        joined = join(there.type, kind)
        if joined is None and self.binding:
            joined = self._forced(folded, there, kind, source)
        if joined is not None and joined != there.type:
            self.columns[folded] = _Column(there.name, joined, source)

    def _forced(self, folded: str, there: _Column, kind: str, source: str) -> str | None:
        """The common type of a column that isn't set aside; None for one that is."""
        if folded in self._key:
            return "VARCHAR"
        if folded == self._version_by or self.rules.on_conflict == "widen":
            joined = join_loose(there.type, kind)
            self.warned.setdefault(
                (there.name, kind),
                f"column {there.name!r} is {there.type} in {there.owner} and {kind} in {source}; both are read as "
                f"{joined}",
            )
            return joined
        return None

    def agreement(self) -> Agreement:
        """Find each type's place, now that all columns have theirs."""
        rules = self.rules
        for name, kind in rules.explicit.items():  # of columns that were added, and no file has yet
            if fold(name) not in self.columns:
                self._take(name, kind, DECLARED)
        into = {fold(a): fold(b) for a, b in rules.into.items() if fold(b) in self.columns}
        into = {a: b for a, b in into.items() if a in self.columns and a != b}
        aside = {c.name for folded, c in self.columns.items() if folded not in self.proper}
        places: dict[tuple[str, str], str] = {}
        conflicts: list[Conflict] = []
        stay: set[str] = set()  # columns of `into` with a type that the other one doesn't take in
        for (folded, kind), source in list(self.said.items()):
            there = self.columns[folded]
            if folded in into and self._fits(self.columns[into[folded]], kind, widely=True):
                places[folded, kind] = self.columns[into[folded]].name
                continue
            if folded in into:
                stay.add(folded)
            if self._fits(there, kind):
                places[folded, kind] = there.name
                continue
            place = places[folded, kind] = self._beside(there.name, kind, aside)
            conflicts.append(_conflict(there, kind, place, source))
        moved: dict[str, tuple[str, str]] = {}
        for folded, target in into.items():
            column = self.columns[folded]
            if folded not in stay:
                aside.discard(column.name)
            if folded in self.proper and self._fits(self.columns[target], column.type, widely=True):
                moved[folded] = column.name, self.columns[target].name
        gone = [self.columns.pop(folded) for folded in sorted(into.keys() - stay)]
        told = {conflict.aside for conflict in conflicts}
        for name in sorted(aside - told):  # set aside before its file was written
            column, beside = self.columns[fold(name)], self.columns.get(fold(name.rpartition("~")[0]))
            if beside is not None:
                conflicts.append(_conflict(beside, column.type, name, column.owner))
        stored = {column.name: column.type for column in self.columns.values()}
        naming = rules.naming
        if naming is None:
            naming = name_columns(
                stored, rules.definition, declared=rules.declared, aside=aside, noted=rules.noted
            )
        shown = {name: naming.shown(name) for name in stored if name not in naming.hidden}
        seen = [
            each._replace(column=shown.get(each.column, each.column), aside=shown[each.aside])
            for each in conflicts
            if each.aside in shown
        ]
        return Agreement(
            {name: stored[physical] for physical, name in shown.items()},
            frozenset(shown[name] for name in aside & shown.keys()),
            frozenset(shown[name] for name in self.loose & shown.keys()),
            tuple(seen),
            (*self.warned.values(), *naming.warnings, *map(str, seen)),
            _refusal(seen[0]) if seen and rules.on_conflict == "error" else None,
            naming,
            stored,
            frozenset(aside),
            {column.name: column.type for column in gone if fold(column.name) in moved},
            places,
            {folded: column.name for folded, column in self.columns.items()},
            moved,
        )

    def _fits(self, column: _Column, kind: str, *, widely: bool = False) -> bool:
        if widens_to(kind, column.type):
            return True
        folded = fold(column.name)
        forced = self.rules.on_conflict == "widen" or folded in self._key or folded == self._version_by
        if (widely or forced or folded in self._explicit) and converts(kind, column.type):
            self.loose.add(column.name)
            return True
        return False

    def _beside(self, name: str, kind: str, aside: set[str]) -> str:
        """The column beside `name` for values of this type, made if need be."""
        place = aside_name(name, kind)
        there = self.columns.get(fold(place))
        if there is None:
            self.columns[fold(place)] = _Column(place, kind, "")
            aside.add(place)
            return place
        return there.name if widens_to(kind, there.type) else self._beside(place, kind, aside)


def _conflict(column: _Column, kind: str, aside: str, source: str) -> Conflict:
    common = join_loose(column.type, kind)
    return Conflict(column.name, kind, aside, source, column.type, column.owner, common)


def _refusal(conflict: Conflict) -> str:
    column, kind, _, source, kept, owner, common = conflict
    return (
        f"column {column!r} is {kept} in {owner} and {kind} in {source}, no type holds the values of both exactly, "
        f"and the table's on_conflict is 'error'. Make them one column with resolve({column!r}, "
        f"to={common!r}), or read them side by side: alter(set_properties={{'on_conflict': None}})."
    )
