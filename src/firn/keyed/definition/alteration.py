"""What an `alter` of a keyed table asks for, and the entries of the definition that do it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from firn.alter import RESERVED, ColumnAlteration
from firn.arrow.defaults import default_text
from firn.arrow.inputs import declared_columns
from firn.errors import InvalidInputError
from firn.journal.columns import widens_to
from firn.journal.entries import (
    COMMENT,
    DEFAULT,
    DROP,
    LIMIT,
    NAME,
    PROPERTY,
    TIME,
    TYPE,
    Entries,
    time_entry,
)
from firn.journal.naming import free_name
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.definition.evolved import taken
from firn.keyed.definition.settings import KEYED_PROPERTIES, KeyedSettings
from firn.names import fold

FIXED = ("pointer_url",)
"""Says where the pointer is, and so can't be told by what the pointer names."""

INSTEAD = "Add another column, or load the rows into a table that is as you want it"


@dataclass(frozen=True)
class Alteration(ColumnAlteration):
    """The arguments of one `alter`; see `KeyedTable.alter`."""

    def check(self, table: str) -> None:
        """`InvalidInputError` for what can't be asked of any keyed table."""
        if self == Alteration():
            raise InvalidInputError(
                f"{table}: alter was told nothing to change. Pass rename, drop, add, types, comments, comment or "
                "set_properties."
            )
        for name in self.properties:
            if name in FIXED:
                raise InvalidInputError(
                    f"{table}: the property {name!r} can't be changed: it says where the table's pointer is. Make "
                    "another table."
                )
            if name not in KEYED_PROPERTIES:
                KeyedSettings.from_properties({name: self.properties[name]})  # which says what there is

    @property
    def of_columns(self) -> bool:
        """Whether it changes columns."""
        return bool(self.rename or self.drop or self.add or self.types)


def altered(created: KeyedDefinition, before: Entries, asked: Alteration, now_ms: int) -> Entries:
    """The definition's entries after an alteration; those that there were where nothing changes.

    Raises:
        InvalidInputError: it can't be; the message says why.
    """
    return _Planner(created, before, asked).plan(now_ms)


class _Planner:
    """Works out one alteration. `columns` are those of the values after it, and `physical` their names in files."""

    def __init__(self, created: KeyedDefinition, before: Entries, asked: Alteration) -> None:
        self.created, self.before, self.asked = created, before, asked
        self.now = now = created.altered(before)
        self.columns: dict[str, str] = dict(now.columns or {})
        self.physical = {name: now.stored.get(name, name) for name in self.columns}
        self.entries: dict[tuple[str, str], Any] = {}
        self.added: list[dict[tuple[str, str], Any]] = []

    def plan(self, now_ms: int) -> Entries:
        if self.asked.of_columns:
            self._change_columns()
        self._comment()
        self._set_properties(now_ms)
        after = self.before
        for entries in (*self.added, self.entries):  # in the order of the call, which clocks keep
            new = {key: value for key, value in entries.items() if not self._is_so(key, value)}
            if new:
                after = after.changed(new)
        if len(after.map) > LIMIT:
            raise self._bad(f"a definition has at most {LIMIT:,} entries")
        if after != self.before:
            self.created.altered(after).check()
        return after

    def _is_so(self, key: tuple[str, str], value: Any) -> bool:
        there = self.before.map.get(key)
        return (
            key[0] != PROPERTY
            and (value is None if there is None else there.value == value)
            and (key[0] not in (DEFAULT, TIME))
        )

    # -- columns

    def _change_columns(self) -> None:
        asked = self.asked
        if self.created.columns is None:
            raise self._bad(
                "its values are bytes, so it has no columns to change. Load the rows into a table with a schema"
            )
        operators = self.now.operators
        if isinstance(operators, str):
            raise self._bad(
                f"its merge operator {operators!r} gets whole rows, so their columns stay as they are. Load the rows "
                "into a table that is as you want it"
            )
        types = {self._column(name): kind for name, kind in asked.types.items()}
        dropped = [self._column(name) for name in asked.drop]
        names = {self._column(name): new for name, new in asked.rename.items()}
        for name, kind in types.items():
            if name in dropped:
                raise self._bad(f"the column {name!r} is dropped and gets another type at once")
            self._widen(name, kind)
        for name in dropped:
            if name not in self.columns:
                raise self._bad(f"drop names the column {name!r} twice")
            if name in names:
                raise self._bad(f"the column {name!r} is dropped and renamed at once")
            del self.columns[name]
            self.entries[DROP, self.physical.pop(name)] = True
        self._rename(names)
        known = taken(self.created.columns, self.before)
        for name, given in asked.add.items():
            self._add(name, given, known)
        if not self.columns:
            raise self._bad("a table keeps at least one column of its values")

    def _widen(self, name: str, kind: Any) -> None:
        if not isinstance(kind, str):
            raise self._bad(f"types takes DuckDB types, not {kind!r}")
        wanted, now = declared_columns({name: kind})[name], self.columns[name]
        if wanted == now:
            return
        if not widens_to(now, wanted):
            raise self._bad(
                f"{name!r} is {now}, and {wanted} doesn't hold all values of that exactly: a column only widens. Add "
                "another column, and put the values into it"
            )
        self.columns[name] = wanted
        self.entries[TYPE, self.physical[name]] = wanted

    def _rename(self, names: Mapping[str, str]) -> None:
        columns: dict[str, str] = {}
        physical: dict[str, str] = {}
        spelled: set[str] = set()
        for name, kind in self.columns.items():
            new = names.get(name, name)
            if new != name:
                self._check_name(new)
            if fold(new) in spelled:
                raise self._taken(new)
            spelled.add(fold(new))
            columns[new], physical[new] = kind, self.physical[name]
            if new != name:
                self.entries[NAME, physical[new]] = new
        self.columns, self.physical = columns, physical

    def _add(self, name: str, given: Any, known: set[str]) -> None:
        pair = (given, None) if isinstance(given, str) else given
        if not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise self._bad(f"add takes a type, or a type and a value, not {given!r}")
        self._check_name(name)
        if fold(name) in {fold(each) for each in self.columns}:
            raise self._taken(name)
        kind = declared_columns({name: pair[0]})[name]
        physical = name if fold(name) not in known else free_name(fold(name), known.__contains__)
        known.add(fold(physical))
        text = None if pair[1] is None else default_text(pair[1], kind, name)
        entries: dict[tuple[str, str], Any] = {(TYPE, physical): kind, (DEFAULT, physical): text}
        if physical != name:
            entries[NAME, physical] = name
        self.added.append(entries)
        self.columns[name], self.physical[name] = kind, physical

    # -- the rest

    def _comment(self) -> None:
        keys = self.created.keys.names
        values = self.physical if self.created.columns is not None else {"value": "value"}
        own = {fold(name): physical for name, physical in {**{name: name for name in keys}, **values}.items()}
        for name, text in self.asked.comments.items():
            if text is not None and not isinstance(text, str):
                raise self._bad(f"a comment is a text, not {text!r}")
            if not isinstance(name, str) or fold(name) not in own:
                raise self._bad(
                    f"comments names {name!r}, which is no column after the call: {', '.join([*keys, *values])}"
                )
            self.entries[COMMENT, own[fold(name)]] = text or None
        if self.asked.comment is not None:
            if not isinstance(self.asked.comment, str):
                raise self._bad(f"a comment is a text, not {self.asked.comment!r}")
            self.entries[COMMENT, ""] = self.asked.comment or None

    def _set_properties(self, now_ms: int) -> None:
        present = self.now.properties
        merged = {**present, **self.asked.properties}
        settings = KeyedSettings.from_properties({k: v for k, v in merged.items() if v is not None})
        for name, value in self.asked.properties.items():
            if value == present.get(name):
                continue
            self.entries[PROPERTY, name] = value
            if name == "l0_min_age":
                last_ms = [int(time.rpartition(" ")[2]) for time in self.before.of(TIME)]
                at_ms = max(now_ms, *(ms + 1 for ms in last_ms), 0)  # each stays
                self.entries[time_entry(name, at_ms)] = round(settings.l0_min_age * 1000)

    # -- names

    def _column(self, name: str) -> str:
        """A column of the values as it was called before the call, which may be changed."""
        now = self.now
        spelled = {fold(each): each for each in now.columns or ()}
        found = spelled.get(fold(name)) if isinstance(name, str) else None
        if found is None:
            raise self._bad(self._unknown(name))
        operators = now.operators
        if isinstance(operators, Mapping) and found in operators:
            raise self._bad(
                f"the column {found!r} has the merge operator {operators[found]!r}, whose operands lie in files as "
                f"they were written, so it stays as it is. {INSTEAD}"
            )
        return found

    def _unknown(self, name: Any) -> str:
        now, folded = self.now, fold(str(name))
        if folded in {fold(each) for each in self.created.keys.names}:
            return f"{name!r} is of the table's key, which stays. Load the rows into a table with another key"
        for shown, physical in now.stored.items():
            if fold(physical) == folded:
                return f"there is no column {name!r} any more: it is called {shown!r}"
        if any(kind == DROP and fold(each) == folded for kind, each in self.before.map):
            return f"there is no column {name!r} any more: it was dropped. Its values don't come back"
        return f"there is no column {name!r} in the values: {', '.join(now.columns or ())}"

    def _check_name(self, name: Any) -> None:
        if not isinstance(name, str) or not name:
            raise self._bad(f"{name!r} can't name a column")
        if "~" in name or fold(name).startswith(RESERVED):
            raise self._bad(
                f"{name!r} can't name a column: names with '~' or that begin with {RESERVED!r} are Firn's"
            )
        if fold(name) in {fold(each) for each in self.created.keys.names}:
            raise self._taken(name)

    def _taken(self, name: str) -> InvalidInputError:
        return self._bad(f"there is a column {name!r} already. Choose another name")

    def _bad(self, what: str) -> InvalidInputError:
        return InvalidInputError(f"{self.created.name}: {what}. Nothing was changed.")
