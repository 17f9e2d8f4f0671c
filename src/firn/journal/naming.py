"""What a table's columns are called, and what they are called in files, which never changes.

A column has one *physical* name for ever: in Parquet files, schemas, statistics, filters and specs. Entries of the
definition say under which name it is shown. See docs/design/0017-names-of-columns.md. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from firn.journal.entries import DEFAULT, DROP, NAME, PARTITION, SPEC, Entries
from firn.names import fold


@dataclass(frozen=True)
class Naming:
    """The names of a table's columns at one version. Immutable and picklable.

    Attributes:
        stored: name → physical name, of the columns that are called otherwise in files.
        hidden: physical names of columns that aren't shown.
        taken: folded physical names that no new column may have.
        own: columns with `~` in their names that are called as in files: of what was set aside, and old ones.
        defaults: name → what rows have whose file lacks the column, as text.
        lackable: physical names of all columns that have a default, shown or not.
        warnings: columns that aren't called as they should be, as another one has the name.
    """

    stored: Mapping[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    taken: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    lackable: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything isn't plain."""
        return bool(self.stored or self.hidden or self.lackable)

    def physical(self, name: str) -> str:
        """A column's name in files; of a new column, the one that it gets.

        >>> naming = Naming({"b": "a"}, taken=frozenset(("a", "b", "b~1")))
        >>> [naming.physical(name) for name in ("b", "c", "A")]
        ['a', 'c', 'a~1']
        """
        if name in self.stored:
            return self.stored[name]
        if fold(name) not in self.taken or name in self.own:
            return name
        return free_name(fold(name), self.taken.__contains__)

    def in_files(self, columns: Mapping[str, str]) -> dict[str, str]:
        """Columns under their physical names."""
        return {self.physical(name): kind for name, kind in columns.items()}

    def brought(self, columns: Iterable[str]) -> dict[str, str]:
        """Physical name → name, of those columns that are new and called otherwise in files."""
        new = {self.physical(name): name for name in columns if name not in self.stored}
        return {physical: name for physical, name in new.items() if physical != name}

    @cached_property
    def _folded(self) -> Mapping[str, str]:
        return {fold(physical): name for name, physical in self.stored.items()}

    def shown(self, physical: str) -> str:
        """The name of a physical column that is shown, in whatever case it is given."""
        return self._folded.get(fold(physical), physical)


def name_columns(
    columns: Collection[str],
    entries: Entries,
    *,
    declared: Collection[str] = (),
    aside: Collection[str] = (),
    noted: Mapping[str, str] | None = None,
) -> Naming:
    """The names of columns.

    Args:
        columns: physical names, in the order in which the columns appeared.
        entries: the definition's.
        declared: those of `columns` that the table was created with.
        aside: those that hold what was set aside.
        noted: physical name → name, as commits that brought new columns say it.

    >>> changed = Entries().changed({(NAME, "a"): "b", (DROP, "c"): True})
    >>> found = name_columns(["a", "b", "c"], changed)
    >>> found.stored, found.hidden
    ({'b': 'a', 'b~1': 'b'}, frozenset({'c'}))
    """
    said = {name: entry for (kind, name), entry in entries.map.items() if kind == NAME}
    dropped = {name for name, gone in entries.of(DROP).items() if gone} - _placing(entries)
    noted = noted or {}
    if not (said or dropped or noted):
        defaults = entries.present(DEFAULT)
        return Naming(defaults=defaults, lackable=frozenset(defaults)) if defaults else PLAIN
    every = dict.fromkeys([*columns, *said, *noted, *dropped])
    hidden = {name for name in every if name in dropped or (name in aside and _is_beside(name, dropped))}
    wanted = {
        name: name if name in aside else said[name].value if name in said else noted.get(name, name)
        for name in every
        if name not in hidden
    }
    own = {fold(name) for name in declared}

    def rank(name: str) -> tuple[Any, ...]:
        if name in said and name not in aside:
            return 0, said[name].stamp
        return (1, ()) if fold(name) in own else (2, ())

    called: dict[str, str] = {}
    later: list[str] = []
    winners: set[str] = set()
    for name in sorted(wanted, key=rank):
        if fold(wanted[name]) in winners:
            later.append(name)
        else:
            winners.add(fold(wanted[name]))
            called[name] = wanted[name]
    warnings = []
    for name in later:
        called[name] = free_name(wanted[name], lambda text: fold(text) in winners)
        winners.add(fold(called[name]))
        warnings.append(
            f"column {wanted[name]!r} is shown as {called[name]!r}: another one has its name. alter(rename=…) gives "
            "it a name of its own"
        )
    return Naming(
        {called[name]: name for name in every if name in called and called[name] != name},
        frozenset(hidden),
        frozenset(fold(name) for name in every if called.get(name) != name or "~" in name),
        frozenset(name for name in every if called.get(name) == name and "~" in name),
        {called[name]: text for name, text in entries.present(DEFAULT).items() if name in called},
        frozenset(entries.present(DEFAULT)),
        tuple(warnings),
    )


def _placing(entries: Entries) -> set[str]:
    """Physical names of the columns by which the table is partitioned now, if that was altered. A column that another
    writer, or a restore, lets go beside that is shown until nothing is placed by it: rows need their place."""
    spec = entries.of(SPEC).get(entries.of(PARTITION).get("", ""), {})
    return {each["source"] for each in spec.get("fields", ())}


def free_name(name: str, taken: Callable[[str], bool]) -> str:
    """The name with `~` and the least number behind it that isn't taken."""
    k = 1
    while taken(f"{name}~{k}"):
        k += 1
    return f"{name}~{k}"


def _is_beside(aside: str, columns: Collection[str]) -> bool:
    """Whether a column holds what was set aside of one of these."""
    while aside:
        aside = aside.rpartition("~")[0]
        if aside in columns:
            return True
    return False


PLAIN = Naming()
"""Of a table none of whose columns was altered."""
