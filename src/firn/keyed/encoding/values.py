"""Values: bytes, or typed rows that are stored as real columns.

`check` turns what a user hands over into the stored form and refuses what a flush couldn't write, so that a flush
never fails over a value that was acknowledged. Stored are bytes, or a tuple of the columns' values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.types as pt

from firn.arrow.casting import MisfitError, convert
from firn.arrow.inputs import declared_columns
from firn.arrow.pyvalues import build, shown
from firn.arrow.texts import checked, unchecked
from firn.arrow.types import arrow_schema, duckdb_name
from firn.errors import InvalidInputError
from firn.journal.typenames import Enum, Type, parse
from firn.keyed.encoding.columns import ENTRY_COLUMNS, sst_schema
from firn.keyed.encoding.entries import DELETE, Entry
from firn.keyed.encoding.key_cells import UUID_FORM
from firn.names import fold

MAX_VALUE: Final = 1 << 26
"""Bytes that one value may have, 64 MiB: a batch of Arrow holds 2 GiB, and a merge has one of each run at hand."""

_UUID = re.compile(UUID_FORM)

BYTES: Final = pa.schema([("value", pa.binary())])
"""The value column of a table without a schema."""


class Values:
    """The values of one table.

    Args:
        columns: the declared columns, as a `pyarrow.Schema` or names to DuckDB types; None for bytes.
        stored: name → what the column is called in files, of those that are called otherwise there.
        defaults: name → what rows have whose file lacks the column, as text.
        optional: names in files of columns that a file may have or lack: that were added or dropped.

    Raises:
        InvalidInputError: a name or type that no keyed table can have.

    >>> Values({"city": "VARCHAR", "delay": "BIGINT"}).check({"delay": 66})
    (None, 66)
    >>> Values().check(b"66")
    b'66'
    """

    def __init__(
        self,
        columns: pa.Schema | Mapping[str, str] | None = None,
        stored: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] | None = None,
        optional: Collection[str] = (),
    ) -> None:
        self.columns: dict[str, str] | None = None if columns is None else declared_columns(columns)
        """Names to DuckDB types; None where values are bytes."""
        self.schema: pa.Schema = BYTES
        """The value columns of a run."""
        self.stored_schema: pa.Schema = BYTES
        """The same as files call them."""
        self.optional = frozenset(optional)
        self.readings: dict[pa.Schema, Any] = {}
        """How rows of other columns are read, for `firn.keyed.encoding.layouts`."""
        self._stored, self._texts = dict(stored or {}), dict(defaults or {})
        self._cells: tuple[Cell, ...] = ()
        self._checks: tuple[tuple[str, Callable[[Any], Any]], ...] = ()
        self._names: frozenset[str] = frozenset()
        if self.columns is not None:
            if not self.columns:
                raise InvalidInputError(
                    "a schema of values needs at least one column; leave it out for bytes"
                )
            for name, kind in self.columns.items():
                _refuse_column(name, kind)
            self.schema = self.stored_schema = arrow_schema(self.columns)
            if self._stored:
                self.stored_schema = pa.schema(
                    [field.with_name(self._stored.get(field.name, field.name)) for field in self.schema]
                )
            self._cells = tuple(
                Cell(name, self.columns[name], self.schema.field(name).type) for name in self.columns
            )
            self._checks = tuple((cell.name, cell.check) for cell in self._cells)
            self._names = frozenset(self.columns)

    def __reduce__(self) -> tuple[type[Values], tuple[Any, ...]]:
        return Values, (self.columns, self._stored, self._texts, self.optional)

    def same(self, other: Values) -> bool:
        """Whether the values of both are the same in memory and in files."""
        return self is other or (
            self._stored == other._stored
            and self._texts == other._texts
            and self.optional == other.optional
            and self.schema.equals(other.schema)
            and self.columns == other.columns
        )

    def select(self, names: Collection[str]) -> Values:
        """Some of the columns."""
        columns = {name: kind for name, kind in (self.columns or {}).items() if name in names}
        kept = {name: text for name, text in self._texts.items() if name in columns}
        return Values(columns, self._stored, kept, self.optional)

    def fits(self, names: Sequence[str]) -> bool:
        """Whether a file with these value columns can be one of the table."""
        own = self.stored_schema.names
        if names == own:
            return True
        there, needed = set(names), set(own) - self.optional
        return bool(self.optional) and needed <= there <= {*own, *self.optional}

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The columns, each of which checks and turns its values."""
        return self._cells

    @cached_property
    def defaults(self) -> dict[str, pa.Scalar]:
        """Name → what rows have whose file lacks the column."""
        from firn.arrow.defaults import default_value

        found = {}
        for cell in self._cells:
            if cell.name in self._texts:
                given = default_value(self._texts[cell.name], cell.kind)
                found[cell.name] = convert(pa.array([given.as_py()], given.type), cell.arrow)[0]
        return found

    @cached_property
    def _filled(self) -> tuple[tuple[str, Callable[[Any], Any], Any], ...]:
        """The columns with what a put has that leaves them out."""
        defaults = self.defaults
        return tuple(
            (cell.name, cell.check, cell.value(pa.array([defaults[cell.name]]), 0))
            if cell.name in defaults
            else (cell.name, cell.check, None)
            for cell in self._cells
        )

    @property
    def typed(self) -> bool:
        """Whether values are rows of columns."""
        return self.columns is not None

    @cached_property
    def run_schema(self) -> pa.Schema:
        """The columns of a run of this table."""
        return sst_schema(self.schema)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the value columns."""
        return tuple(self.schema.names)

    def check(self, value: object) -> object:
        """The stored form of a value that a user hands over.

        A typed row is a mapping; what it lacks has its default, or is null. Numbers, text, bytes and times stay what
        they are, or are refused; a Python float is rounded where the column is FLOAT.

        Raises:
            InvalidInputError: not a value of this table.
        """
        if self.columns is None:
            if type(value) is not bytes:
                if not isinstance(value, bytes | bytearray | memoryview):
                    raise InvalidInputError(
                        f"{shown(value)} is not a value of this table: give bytes, or create the table with a schema"
                    )
                value = bytes(value)
            if len(value) > MAX_VALUE:
                raise InvalidInputError(
                    f"a value of {len(value):,} bytes is too large: at most {MAX_VALUE:,} fit; keep it as an object "
                    "of its own and store its key"
                )
            return value
        if type(value) is not dict and not isinstance(value, Mapping):
            raise InvalidInputError(
                f"{shown(value)} is not a value of this table: give a dict with its columns, "
                f"{', '.join(self.columns)}"
            )
        get = value.get
        if self._texts:
            row = tuple([check(get(name, default)) for name, check, default in self._filled])
        else:
            row = tuple([check(get(name)) for name, check in self._checks])
        if not self._names.issuperset(value):
            unknown = next(name for name in value if name not in self._names)
            raise InvalidInputError(
                f"the table has no value column {unknown!r}; its columns are {', '.join(self.columns)}"
            )
        return row

    def check_operand(self, value: object) -> object:
        """`check` of what is merged onto a value: what it lacks is null, which leaves the value's as it is."""
        if self._texts and isinstance(value, Mapping):
            value = {**dict.fromkeys(self._texts), **value}
        return self.check(value)

    def check_column(self, name: str) -> Callable[[Any], Any]:
        """What `check` does to the value of one column."""
        return self._cells[self.names.index(name)].check

    def public(self, stored: Any) -> Any:
        """A stored value as users get it: bytes, or a dict of the columns.

        >>> Values({"a": "BIGINT", "b": "VARCHAR"}).public((1, "x"))
        {'a': 1, 'b': 'x'}
        """
        if self.columns is None:
            return stored
        return dict(zip(self.names, stored, strict=True))

    def size(self, stored: object) -> int:
        """About how many bytes a stored value has; 0 for None."""
        if stored is None:
            return 0
        if self.columns is None:
            return len(stored)  # type: ignore[arg-type]
        total = 8 * len(self._cells)
        for at, measure in self._variable:
            cell = stored[at]  # type: ignore[index]
            if cell is not None:
                total += measure(cell)
        return total

    @cached_property
    def _variable(self) -> tuple[tuple[int, Callable[[Any], int]], ...]:
        """Positions of columns whose values differ in size, and how to measure one."""
        found: list[tuple[int, Callable[[Any], int]]] = []
        for at, field in enumerate(self.schema):
            if pt.is_string(field.type):
                found.append((at, _text_size))
            elif pt.is_binary(field.type):
                found.append((at, len))
            elif pt.is_nested(field.type):
                found.append((at, _nested_size))
        return tuple(found)

    def to_arrays(self, stored: Sequence[object]) -> list[pa.Array]:
        """The value columns of stored values; None is a row of nulls.

        >>> [column.to_pylist() for column in Values({"a": "BIGINT", "b": "VARCHAR"}).to_arrays([(1, "x"), None])]
        [[1, None], ['x', None]]
        """
        if self.columns is None:
            return [pa.array(stored, pa.binary())]
        if any(row is None for row in stored):
            empty = (None,) * len(self._cells)
            stored = [empty if row is None else row for row in stored]
        columns = zip(*stored, strict=True) if stored else ((),) * len(self._cells)
        return [cell.array(list(column)) for cell, column in zip(self._cells, columns, strict=True)]

    def from_row(self, columns: Sequence[pa.Array], row: int) -> object:
        """The stored value in one row of the value columns.

        >>> values = Values({"a": "BIGINT", "b": "VARCHAR"})
        >>> values.from_row(values.to_arrays([(1, "x"), (2, "y")]), 1)
        (2, 'y')
        """
        if self.columns is None:
            return columns[0][row].as_py()
        return tuple([cell.value(column, row) for cell, column in zip(self._cells, columns, strict=True)])

    def from_columns(self, columns: Sequence[pa.Array]) -> list[object]:
        """The stored values of whole value columns, row by row.

        >>> values = Values({"a": "BIGINT"})
        >>> values.from_columns(values.to_arrays([(1,), (2,)]))
        [(1,), (2,)]
        """
        if self.columns is None:
            whole: list[object] = columns[0].to_pylist()
            return whole
        lists = [cell.list(column) for cell, column in zip(self._cells, columns, strict=True)]
        return list(zip(*lists, strict=True))

    def batch(self, entries: Iterable[Entry]) -> pa.RecordBatch:
        """Entries as a batch of a run, in the order given.

        >>> Values().batch([Entry(b"k", 4294967296, 0, None, b"v")]).to_pylist()
        [{'key': b'k', 'seq': 4294967296, 'kind': 0, 'expire_at': None, 'value': b'v'}]
        """
        rows = list(entries)
        if not rows:
            return self.empty
        *head, stored = (list(column) for column in zip(*rows, strict=True))
        arrays = [pa.array(column, field.type) for column, field in zip(head, self.run_schema, strict=False)]
        return pa.RecordBatch.from_arrays([*arrays, *self.to_arrays(stored)], schema=self.run_schema)

    def entries(self, batch: pa.RecordBatch) -> list[Entry]:
        """The entries of a batch of a run.

        >>> values = Values()
        >>> values.entries(values.batch([Entry(b"k", 1, 1, None, None)]))
        [Entry(key=b'k', seq=1, kind=1, expire_at=None, value=None)]
        """
        head = [batch.column(at).to_pylist() for at in range(len(ENTRY_COLUMNS))]
        stored = self.from_columns(batch.columns[len(ENTRY_COLUMNS) :])
        if self.columns is not None:
            stored = [None if kind == DELETE else row for kind, row in zip(head[2], stored, strict=True)]
        return [Entry(*row) for row in zip(*head, stored, strict=True)]

    @cached_property
    def empty(self) -> pa.RecordBatch:
        """A batch of a run with no rows."""
        columns = [pa.array([], field.type) for field in self.run_schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.run_schema)


class Cell:
    """One value column: checks Python values, and turns them into Arrow and back."""

    def __init__(self, name: str, kind: str, arrow: pa.DataType) -> None:
        self.name = name
        self.kind = kind
        self.arrow = arrow
        self._parsed: Type = parse(kind)
        self._python: type[Any] | None = None
        self._low = self._high = 0
        self._texts = unchecked({name: str(duckdb_name(arrow))}, {name: kind})
        self._maps = "MAP(" in kind  # which Arrow takes as lists of pairs, and users have as dicts
        if pt.is_integer(arrow):
            self._python = int
            bits = arrow.bit_width
            self._low, self._high = (
                (-(1 << bits - 1), (1 << bits - 1) - 1)
                if pt.is_signed_integer(arrow)
                else (0, (1 << bits) - 1)
            )
        elif pt.is_float64(arrow):
            self._python = float
        elif pt.is_boolean(arrow):
            self._python = bool
        elif pt.is_binary(arrow):
            self._python = bytes
        elif pt.is_string(arrow) and kind == "VARCHAR":
            self._python = str

    def check(self, value: Any) -> Any:
        if value is None:
            return None
        kind: Any = type(value)
        if kind is self._python:
            if kind is int:
                if self._low <= value <= self._high:
                    return value
            elif kind is str:
                if value.isascii():
                    if len(value) <= MAX_VALUE:
                        return value
                elif _is_unicode(value) and _text_size(value) <= MAX_VALUE:
                    return value
            elif kind is not bytes or len(value) <= MAX_VALUE:
                return value
        return self._convert(value)

    def _convert(self, value: Any) -> Any:
        size = _nested_size(value)
        if size > MAX_VALUE:
            raise InvalidInputError(
                f"a value of {size:,} bytes is too large for column {self.name!r}: at most {MAX_VALUE:,} fit"
            )
        try:
            array = self._built([value])
        except MisfitError:
            raise InvalidInputError(
                f"{shown(value)} doesn't fit the value column {self.name!r}, which is {self.kind}"
            ) from None
        if self._texts:
            array = self._checked(value, array)
        return self.value(array, 0)

    def _checked(self, value: Any, array: pa.Array) -> pa.Array:
        """Texts of another type, which not all texts are. Those that a table often has take microseconds."""
        if self.kind == "UUID" and _UUID.fullmatch(str(value)):
            return pa.array([str(value).lower()])
        if isinstance(self._parsed, Enum) and value in self._parsed.values:
            return array
        if self.kind == "JSON":
            with suppress(orjson.JSONDecodeError):  # which refuses some that DuckDB takes
                orjson.loads(value)
                return array
        return checked(pa.table({self.name: array}), self._texts).column(0).combine_chunks()

    def _built(self, column: list[Any]) -> pa.Array:
        array = build(column, range(len(column)), f"the value column {self.name!r}", self._parsed)
        return convert(array, self.arrow)  # an empty list, say, has no type yet

    def array(self, column: list[Any]) -> pa.Array:
        return self._built(column) if self._maps else pa.array(column, self.arrow)

    def value(self, column: pa.Array, row: int) -> Any:
        return column[row].as_py(maps_as_pydicts="strict") if self._maps else column[row].as_py()

    def list(self, column: pa.Array) -> Iterable[Any]:
        listed: Iterable[Any] = (
            column.to_pylist(maps_as_pydicts="strict") if self._maps else column.to_pylist()
        )
        return listed


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text_size(value: str) -> int:
    """Bytes in UTF-8."""
    return len(value) if value.isascii() else len(value.encode(errors="replace"))


def _nested_size(value: Any) -> int:
    if isinstance(value, str):
        return _text_size(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return len(value)
    if isinstance(value, Mapping):
        return 16 + sum(_nested_size(key) + _nested_size(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return 16 + sum(map(_nested_size, value))
    return 8


def _refuse_column(name: str, kind: str) -> None:
    if fold(name) in ENTRY_COLUMNS:
        raise InvalidInputError(
            f"a value column can't be called {name!r}: the SSTs of keyed tables have a column of that name; rename it"
        )
    if "_NS" in kind:
        raise InvalidInputError(
            f"value column {name!r} is {kind}, and Python's times have microseconds: declare it as TIMESTAMP or TIME"
        )
