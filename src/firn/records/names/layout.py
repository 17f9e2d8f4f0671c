"""Names of a record table's objects, built and parsed here and nowhere else. Frozen: docs/format/records.md.

    <database>/<table>/data/<id>.json
    <database>/<table>/indices/<field>/<first two characters>/<value>/<db>___<table>___<id>___<seq>
    <database>/<table>/indices/<field>~<n>/…         once <n> indices of the field were dropped
    <database>/<table>/_firn/table.json
    <database>/<table>/_firn/locks/<id>
    <database>/<table>/_firn/copies/<target>
    <database>/<table>/data~<n>/…                    and `indices~<n>`, `locks~<n>`, `copies~<n>`, once <n> tables
                                                     of the name were dropped

Names of bounded length: with names of tables as `firn.names` has them, a key below the database's prefix has at
most 800 bytes, and no segment more than 255.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from firn.records.names.index_values import IndexValue, value_path
from firn.records.names.names import HASHED, SEPARATOR, field_part, id_part, owner_part, shown_id

SUFFIX: Final = ".json"
SEQUENCE_DIGITS: Final = 20
_DIGITS = re.compile(r"[0-9]{20}")
_OF_TABLE = re.compile(rf"(?:data|indices|locks|copies)(?:{HASHED}([1-9][0-9]*))?")


def check_row_name(key: str, id: str) -> None:
    """A ValueError unless this is the name of that row's object: else the object was copied from elsewhere.

    >>> check_row_name("db/t/data/ada.json", "ada")
    >>> check_row_name("db/t/data/alan.json", "ada")
    Traceback (most recent call last):
    ValueError: it holds the row 'ada', so it was copied here from that row's object
    """
    if key.rpartition("/")[2] != f"{id_part(id)}{SUFFIX}":
        raise ValueError(f"it holds the row {shown_id(id)}, so it was copied here from that row's object")


@dataclass(frozen=True)
class IndexEntry:
    """The facts in an index entry's name.

    `level` and `value` are the directories that stand for the value, `id_name` the id's part of the name, by
    which `RecordLayout.row_named` finds the row, and `seq` the number of the commit that made the version.
    """

    level: str
    value: str
    id_name: str
    seq: int


@dataclass(frozen=True)
class RecordLayout:
    """The names of one table's objects.

    Args:
        prefix: the table's directory, with the database's, without a slash at its end.
        table: its name.
        db: the database's name, as the table's definition recorded it.
        generation: how many tables of the name were dropped before: who still deletes theirs mustn't find this one.

    Example:
        >>> layout = RecordLayout("prod/people", "people", "prod")
        >>> layout.row("ada")
        'prod/people/data/ada.json'
        >>> layout.entry("city", "Ann Arbor", "ada", 7)
        'prod/people/indices/city/An/Ann%20Arbor/prod___people___ada___00000000000000000007'
        >>> layout.parse_entry("city", layout.entry("city", "Ann Arbor", "ada", 7))
        IndexEntry(level='An', value='Ann%20Arbor', id_name='ada', seq=7)
    """

    prefix: str
    table: str
    db: str
    generation: int = 0

    @cached_property
    def rows(self) -> str:
        """The prefix of all rows' keys."""
        return f"{self.prefix}/data{self._mark}/"

    @cached_property
    def indices(self) -> str:
        """The prefix of the keys of all indices' entries."""
        return f"{self.prefix}/indices{self._mark}/"

    @cached_property
    def locks(self) -> str:
        """The prefix of all locks' keys."""
        return f"{self.prefix}/_firn/locks{self._mark}/"

    @cached_property
    def copies(self) -> str:
        """The prefix of the keys of all cursors of copies."""
        return f"{self.prefix}/_firn/copies{self._mark}/"

    @cached_property
    def _mark(self) -> str:
        return f"{HASHED}{self.generation}" if self.generation else ""

    @cached_property
    def _owner(self) -> str:
        return f"{owner_part(self.db)}{SEPARATOR}{owner_part(self.table)}{SEPARATOR}"

    def row(self, id: str) -> str:
        """The key of a row. `InvalidInputError` if no row can have this id."""
        return f"{self.rows}{id_part(id)}{SUFFIX}"

    def row_named(self, id_name: str) -> str:
        """The key of the row whose id is this part of an entry's name."""
        return f"{self.rows}{id_name}{SUFFIX}"

    def row_name(self, key: str) -> str | None:
        """The id's part of a row's key; None where the key isn't a row's. `names.part_text` tells the id of most."""
        name = key.removeprefix(self.rows)
        if name == key or "/" in name or not name.endswith(SUFFIX):
            return None
        return name[: -len(SUFFIX)]

    def lock(self, id: str) -> str:
        """The key of a row's advisory lock."""
        return f"{self.locks}{id_part(id)}"

    def copy(self, target: str) -> str:
        """The key of the cursor of the copy into that table."""
        return f"{self.copies}{target}"

    def index(self, field: str, generation: int = 0) -> str:
        """The prefix of the keys of an index's entries. `generation`: how many of its field were dropped."""
        return f"{self.indices}{index_part(field, generation)}/"

    def entry(self, field: str, value: IndexValue, id: str, seq: int, generation: int = 0) -> str:
        """The key of an index entry: the row of that id has that value in its version of commit `seq`."""
        return self.entry_of(f"{self.index(field, generation)}{value_path(value)}", id_part(id), seq)

    def entry_of(self, directory: str, id_name: str, seq: int) -> str:
        """The key of an entry in a value's directory, which has no slash at its end."""
        return f"{directory}/{self._owner}{id_name}{SEPARATOR}{seq:0{SEQUENCE_DIGITS}}"

    def stem(self, field: str, value: IndexValue, id: str, generation: int = 0) -> str:
        """The key of an entry below `indices`, without the commit's number: what commits and rows keep of it.

        >>> layout = RecordLayout("prod/people", "people", "prod")
        >>> layout.entry_of_stem(layout.stem("city", "Ann Arbor", "ada"), 7) == layout.entry(
        ...     "city", "Ann Arbor", "ada", 7
        ... )
        True
        """
        return f"{index_part(field, generation)}/{value_path(value)}/{self._owner}{id_part(id)}"

    def entry_of_stem(self, stem: str, seq: int) -> str:
        """The key of the entry with that stem. It doesn't depend on the database's name in the layout."""
        return f"{self.indices}{stem}{SEPARATOR}{seq:0{SEQUENCE_DIGITS}}"

    def parse_entry(self, field: str, key: str, generation: int = 0) -> IndexEntry | None:
        """The facts in the key of an index's entry; None where the key isn't an entry's.

        A database that was copied elsewhere keeps the names of its entries, so the name of the database counts
        for nothing here.
        """
        below = key.removeprefix(self.index(field, generation))
        return None if below == key else self._entry(below)

    def entry_anywhere(self, key: str) -> IndexEntry | None:
        """The same for the key of an entry of any index, whichever fields those are of."""
        below = key.removeprefix(self.indices)
        return None if below == key else self._entry(below.partition("/")[2])

    def _entry(self, below: str) -> IndexEntry | None:
        segments = below.split("/")
        if len(segments) != 3:
            return None
        level, value, name = segments
        parts = name.split(SEPARATOR)
        if len(parts) != 4 or not _DIGITS.fullmatch(parts[3]):
            return None
        return IndexEntry(level, value, parts[2], int(parts[3]))


def generation_of(directory: str) -> int | None:
    """The generation of the table that has a directory of this name; None where no record table has one.

    >>> generation_of("data"), generation_of("indices~3"), generation_of("_log")
    (0, 3, None)
    """
    match = _OF_TABLE.fullmatch(directory)
    return None if match is None else int(match[1] or 0)


def index_part(field: str, generation: int = 0) -> str:
    """The directory of an index. Each that is made anew has another, as entries of the last may yet be deleted.

    >>> index_part("city"), index_part("city", 2)
    ('city', 'city~2')
    """
    return f"{field_part(field)}{HASHED}{generation}" if generation else field_part(field)
