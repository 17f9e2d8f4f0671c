"""The columns of a keyed table's values as they are now: those of its creation, and what `alter` has changed since.

A column has one name in files for ever, its *physical* name. Entries of the definition say what it is called, whether
it was dropped, its type if that was widened, and of one that was added what older rows have. See
docs/format/keyed-manifest.md. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firn.arrow.inputs import declared_columns
from firn.errors import CorruptObjectError, InvalidInputError
from firn.journal.entries import COMMENT, DEFAULT, DROP, NAME, TYPE, Entries
from firn.names import fold

COLUMNS = (NAME, DROP, TYPE, DEFAULT)
"""The kinds of entries that change columns."""


@dataclass(frozen=True)
class EvolvedColumns:
    """`columns` are name → DuckDB type in their order; the others are as `KeyedDefinition` has them."""

    columns: Mapping[str, str]
    stored: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    since: Mapping[str, int] = field(default_factory=dict)


def evolve(created: Mapping[str, str], changes: Entries, where: str) -> EvolvedColumns:
    """The columns after changes, `created` being those of the table's creation.

    Raises:
        CorruptObjectError: the entries don't fit the table. `where` says which table.

    >>> changed = Entries().changed({(NAME, "a"): "b", (DROP, "b"): True, (DEFAULT, "c"): "1", (TYPE, "c"): "BIGINT"})
    >>> found = evolve({"a": "DATE", "b": "DATE"}, changed, "t")
    >>> found.columns, found.stored, found.defaults, found.optional
    ({'b': 'DATE', 'c': 'BIGINT'}, {'b': 'a'}, {'c': '1'}, ('b', 'c'))
    """
    names, types, dropped = changes.present(NAME), changes.present(TYPE), changes.present(DROP)
    entries = {name: entry for (kind, name), entry in changes.map.items() if kind == DEFAULT}
    added = sorted(entries, key=lambda name: entries[name].stamp)
    columns: dict[str, str] = {}
    stored: dict[str, str] = {}
    defaults: dict[str, str] = {}
    since: dict[str, int] = {}
    shown: list[str] = []
    for physical in (*created, *added):
        if dropped.get(physical):
            continue
        name = str(names.get(physical, physical))
        shown.append(name)
        columns[name] = _type(types.get(physical, created.get(physical)), physical, where)
        if name != physical:
            stored[name] = physical
        if physical in entries and entries[physical].value is not None:
            defaults[name] = str(entries[physical].value)
        clocks = [
            entry.clock for entry in (changes.map.get((TYPE, physical)), entries.get(physical)) if entry
        ]
        if clocks and (name in defaults or physical in created or max(clocks) > min(clocks)):
            since[name] = max(clocks)
    if len({*map(fold, shown)}) < len(shown) or not shown:
        raise CorruptObjectError(
            f"{where}: its columns would be {', '.join(shown) or 'none'} after the entries of its manifest. Copy "
            "the manifest back from a backup, or upgrade Firn."
        )
    optional = sorted({*added, *(name for name, gone in dropped.items() if gone)})
    return EvolvedColumns(columns, stored, defaults, tuple(optional), since)


def taken(created: Mapping[str, str], changes: Entries) -> set[str]:
    """Folded names in files that no new column may have: of all columns that there are, or ever were."""
    known = {name for kind, name in changes.map if kind in COLUMNS}
    return {fold(name) for name in (*created, *known)}


def comments_of(changes: Entries, columns: EvolvedColumns) -> dict[str, str]:
    """Name → comment; "" is the table's. Those of dropped columns aren't told."""
    shown = {physical: name for name, physical in columns.stored.items()}
    gone = {*columns.optional} - {columns.stored.get(name, name) for name in columns.columns}
    return {
        shown.get(name, name): str(text)
        for name, text in changes.present(COMMENT).items()
        if name not in gone
    }


def _type(kind: object, physical: str, where: str) -> str:
    try:
        return declared_columns({physical: str(kind)})[physical]
    except InvalidInputError:
        raise CorruptObjectError(
            f"{where}: its manifest gives the column {physical!r} the type {kind!r}. Copy the manifest back from a "
            "backup, or upgrade Firn."
        ) from None
