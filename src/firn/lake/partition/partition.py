"""Partitioning: which directory a row belongs to, and what a directory says about its rows.

A `PartitionSpec` is a tuple of fields, each a transform of one column: `identity(origin)`, `month(date)`,
`bucket(16, id)`. It splits tables, names directories and turns their values back into a small typed table.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from firn.arrow.engine import row_mask
from firn.arrow.types import arrow_type, columns_of
from firn.errors import InvalidInputError, UnsupportedError
from firn.journal.model import ColumnTypes, DataFile, Places
from firn.lake.partition import transforms
from firn.lake.partition.path import (
    NULL,
    Values,
    check_directory,
    check_name,
    dir_of,
    directory_of,
    encode_value,
    is_told_by_path,
    parse_dir,
    told_values,
    values_of,
    without,
)
from firn.names import fold
from firn.predicate import binder
from firn.predicate.predicate import Predicate

__all__ = [
    "NULL",
    "Part",
    "PartitionField",
    "PartitionSpec",
    "Values",
    "dir_of",
    "directory_of",
    "encode_value",
    "is_told_by_path",
    "match_partitions",
    "parse_dir",
    "single_partition",
    "told_values",
    "values_of",
]

_SUFFIXES = {"identity": "", "truncate": "_trunc"}
_MOST_CODES = 1 << 22


@dataclass(frozen=True)
class PartitionField:
    """One field: a transform of the column `source`. Its values stand in directories as `name=value`."""

    source: str
    transform: str
    argument: int | None
    name: str

    @property
    def is_time(self) -> bool:
        """Whether values are years, months, days or hours."""
        return self.transform in transforms.TIMES

    def check_type(self, kind: str, table: str) -> None:
        """Raise `InvalidInputError` if the column, being of this DuckDB type, can't partition the table."""
        try:
            transforms.check_type(self.transform, self.source, kind)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{table}: {error} Nothing was changed. Cast the column to such a type; or create the table anew "
                "with another partition_by."
            ) from None

    def upper_bound_ms(self, value: str) -> int | None:
        """The end of a year, month, day or hour, in milliseconds since 1970: all its rows are before.

        None if the field isn't a time, or the value none.

        >>> PartitionField("date", "day", None, "date_day").upper_bound_ms("1970-01-02")
        172800000
        """
        bounds = transforms.time_range(self.transform, value) if self.is_time else None
        return None if bounds is None else bounds[1] // 1000

    def __str__(self) -> str:
        column = self.source if _BARE.fullmatch(self.source) else '"' + self.source.replace('"', '""') + '"'
        if self.transform == "identity":
            return column
        return f"{self.transform}({column if self.argument is None else f'{self.argument}, {column}'})"


class Part(NamedTuple):
    """One partition's rows of a table that was split."""

    directory: str
    values: dict[str, str | None]
    rows: pa.Table


class Place(NamedTuple):
    """A directory, and the id of the spec that says what it means."""

    spec: str
    directory: str


@dataclass(frozen=True)
class PartitionSpec:
    """How a table is partitioned. `id` follows from the fields; every data file records it. `older` are those by
    which other files may have been written. Picklable."""

    fields: tuple[PartitionField, ...] = ()
    id: str = field(default="", compare=False)
    older: tuple[PartitionSpec, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.fields and not self.id:
            text = orjson.dumps([[f.source, f.transform, f.argument, f.name] for f in self.fields])
            object.__setattr__(self, "id", hashlib.sha256(text).hexdigest()[:8])

    @staticmethod
    def parse(partition_by: str | Iterable[str], columns: ColumnTypes) -> PartitionSpec:
        """The spec of `partition_by`: `col`, `year(col)`, `month(col)`, `day(col)`, `hour(col)`,
        `bucket(16, col)`, `truncate(4, col)`; names with spaces stand in double quotes or backticks.

        Args:
            partition_by: the fields, in the order of the directories.
            columns: the table's columns so far; none at all means that they come with the first rows.

        Raises:
            InvalidInputError: a value that isn't a field, an unknown column, a column of a type that the transform
                doesn't take, or a field whose name is taken.

        Example:
            >>> columns = {"date": "DATE", "id": "BIGINT"}
            >>> spec = PartitionSpec.parse(["month(date)", "bucket(16, id)"], columns)
            >>> [f.name for f in spec.fields]
            ['date_month', 'id_bucket']
        """
        texts = [partition_by] if isinstance(partition_by, str) else list(partition_by)
        fields: list[PartitionField] = []
        for text in texts:
            found = _parse_field(text, columns)
            taken = {fold(f.name) for f in fields}
            if found.transform != "identity":
                taken |= {fold(name) for name in columns}
            if fold(found.name) in taken:
                raise InvalidInputError(
                    f"partition field {text!r} would be called {found.name!r}, which is the name of another "
                    "field or column; rename the column, or partition by another transform."
                )
            fields.append(found)
        return PartitionSpec(tuple(fields))

    def check_names(self) -> None:
        """Refuse fields after which no directory can be named. `InvalidInputError`."""
        for each in self.fields:
            check_name(each.name)

    def named(self, shown: Callable[[str], str]) -> PartitionSpec:
        """The same with other names of its columns."""
        fields = tuple(replace(each, source=shown(each.source)) for each in self.fields)
        return PartitionSpec(fields, self.id, tuple(each.named(shown) for each in self.older))

    def of(self, file: DataFile) -> PartitionSpec:
        """The spec that a file was written under: this one, where no other is known."""
        return self.of_id(file.spec)

    def of_id(self, id: str) -> PartitionSpec:
        return next((each for each in self.older if each.id == id), self)

    def to_json(self) -> dict[str, Any]:
        """As a JSON-able dict; `from_json` reads it back."""
        fields = [
            {"name": f.name, "source": f.source, "transform": f.transform}
            | ({} if f.argument is None else {"argument": f.argument})
            for f in self.fields
        ]
        return {"id": self.id, "fields": fields}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> PartitionSpec:
        """Raises `UnsupportedError` for a transform of a later version of Firn."""
        fields = []
        for each in raw["fields"]:
            if each["transform"] not in transforms.NAMES:
                raise UnsupportedError(
                    f"the table is partitioned by {each['transform']!r}, which this version of Firn doesn't "
                    "know; upgrade Firn to open it."
                )
            fields.append(
                PartitionField(each["source"], each["transform"], each.get("argument"), each["name"])
            )
        return PartitionSpec(tuple(fields), raw["id"])

    def split(self, table: pa.Table) -> list[Part]:
        """Deal the rows out to their partitions; within one they keep their order.

        Costs a pass over each field's column, and one gather of all columns unless the rows of each
        partition stand together already; the parts are slices without a copy.

        Raises:
            InvalidInputError: the table lacks a field's column, or it is of a type that can't be.
        """
        if table.num_rows == 0:
            return []
        if not self.fields:
            return [Part("", {}, table)]
        codes, texts = self._codes(table)
        counts = np.bincount(codes, minlength=1)
        present = np.flatnonzero(counts)
        starts = np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1, [table.num_rows]))
        if len(starts) - 1 == len(present):
            order = codes[starts[:-1]]
        else:
            order = present
            starts = np.concatenate(([0], np.cumsum(counts[present])))
            ranks = np.cumsum(counts > 0) - 1
            small = np.uint16 if len(present) <= 1 << 16 else np.int64  # numpy sorts 16 bits by radix
            rows = np.argsort(ranks[codes].astype(small), kind="stable")
            gather = pa.array(rows)  # column by column: half the memory of combining the table first
            columns = [column.combine_chunks().take(gather) for column in table.columns]
            table = pa.Table.from_arrays(columns, schema=table.schema)
        parts = []
        for code, start, stop in zip(order.tolist(), starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            values = texts[code]
            check_directory(directory := dir_of(values))
            parts.append(Part(directory, values, table.slice(start, stop - start)))
        return parts

    def _codes(self, table: pa.Table) -> tuple[transforms.Codes, Mapping[int, dict[str, str | None]]]:
        """For each row the number of its partition, and the values of the partitions."""
        codes = np.zeros(table.num_rows, np.int64)
        known: list[tuple[str | None, ...]] = [()]
        for each in self.fields:
            own, texts = _encode(each, table)
            codes = codes * len(texts) + own
            size = len(known) * len(texts)
            if size <= _MOST_CODES:
                present = np.flatnonzero(np.bincount(codes, minlength=1))
                ranks = np.zeros(size, np.int64)
                ranks[present] = np.arange(len(present))
                codes = ranks[codes]
            else:
                present, codes = np.unique(codes, return_inverse=True)
            known = [(*known[c // len(texts)], texts[c % len(texts)]) for c in present.tolist()]
        names = [f.name for f in self.fields]
        return codes, {n: dict(zip(names, values, strict=True)) for n, values in enumerate(known)}

    def place_of(self, file: DataFile, places: Places) -> tuple[Place, dict[str, str | None]]:
        """A file's place and partition values, without the fields that its rows don't bear out: the column is set
        aside in the file, so that it reads as null, or takes its values from others too."""
        directory, values = directory_of(file, places), values_of(file, places)
        if not file.odd:
            return Place(file.spec, directory), values
        odd = set(map(fold, file.odd))
        moved = {field.name for field in self.of(file).fields if fold(field.source) in odd}
        told = {name: value for name, value in values.items() if name not in moved}
        return Place(file.spec, without(directory, moved)), told

    def value_table(self, partitions: Sequence[Values], columns: ColumnTypes) -> pa.Table:
        """Partitions as rows of typed values, for predicates over them.

        Years and buckets are integers; months, days and hours text that sorts as time does; other values have
        their column's type, if all of them are of it. Names that the spec doesn't know (directories that the
        reference made) are text. A partition that lacks a name has null there.
        """
        names = dict.fromkeys(
            [f.name for f in self.fields] + [name for values in partitions for name in values]
        )
        arrays = []
        for name in names:
            texts = pa.array([values.get(name) for values in partitions], pa.string())
            kind = self._value_type(name, columns)
            typed = None if kind is None else binder.cast_or_none(texts, kind)
            arrays.append(texts if typed is None else typed)
        return pa.table(arrays, names=list(names))

    def _value_type(self, name: str, columns: ColumnTypes) -> str | None:
        for each in self.fields:
            if each.name == name:
                if each.transform in ("year", "bucket"):
                    return "INTEGER"
                if each.transform in ("identity", "truncate"):
                    return columns.get(each.source)
        return None


def match_partitions(
    where: str, spec: PartitionSpec, partitions: Sequence[Values], columns: ColumnTypes
) -> list[bool]:
    """For each partition, whether its values satisfy a predicate over partition values.

    Partitions that lack a value which the predicate reads don't match.

    Raises:
        InvalidInputError: the predicate can't be parsed, or reads what isn't a partition field.

    Example:
        >>> spec = PartitionSpec.parse(["month(date)"], {"date": "DATE"})
        >>> partitions = [{"date_month": "2001-01"}, {"date_month": None}]
        >>> match_partitions("date_month < '2001-02'", spec, partitions, {"date": "DATE"})
        [True, False]
    """
    table = spec.value_table(partitions, columns)
    kinds = dict.fromkeys(table.column_names, "VARCHAR") | columns_of(table.schema)
    try:
        predicate = Predicate.parse(where, kinds)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error} (Partitions are told apart by: {', '.join(kinds) or 'nothing'}.)"
        ) from None
    read = {name: table.column(name) for name in sorted(predicate.columns)}
    # A predicate without columns, like 1 = 0, still needs rows to be asked of.
    hits = row_mask(pa.table(read or {"none": pa.nulls(len(partitions))}), predicate.sql).to_pylist()
    return [
        hit and all(name in values for name in predicate.columns)
        for hit, values in zip(hits, partitions, strict=True)
    ]


def single_partition(
    spec: PartitionSpec, file: DataFile, columns: ColumnTypes, where: str
) -> dict[str, str | None]:
    """The one partition that all rows of a file lie in, by its statistics; for files that Firn didn't write.

    `columns` are the file's own, `where` names it in errors. Raises `InvalidInputError` if the rows lie in
    several partitions, or the statistics don't tell.
    """
    values: dict[str, str | None] = {}
    spelled = {fold(name): name for name in columns}
    for each in spec.fields:
        column = spelled.get(fold(each.source))
        entry = file.stats.get(column or "")
        if column is None:
            values[each.name] = None  # reads as null
            continue
        if entry is not None and file.rows is not None and entry[2] == file.rows:
            values[each.name] = None
            continue
        ends = _ends(entry, columns[column])
        if entry is not None and each.transform == "bucket" and entry[0] != entry[1]:
            ends = None  # what lies between may be in any bucket
        texts = None if ends is None else transforms.encode(each.transform, each.argument, ends)[1]
        if texts is None or len(texts) != 1:
            raise InvalidInputError(
                f"{where} can't become part of a table that is partitioned by {each}: its statistics don't "
                f"show that all of its rows have one value of {each.name}. Append the file instead."
            )
        values[each.name] = texts[0]
    return values


def _ends(entry: Sequence[Any] | None, kind: str) -> pa.ChunkedArray | None:
    """The bounds of a column without nulls, as values to transform."""
    if entry is None or entry[2] != 0 or entry[0] is None or entry[1] is None:
        return None
    target = arrow_type(kind)
    bounds = list(entry[:2])
    try:
        if len(entry) > 3 and entry[3] == "date":
            array = pa.array(bounds, pa.int32()).cast(pa.date32())
        elif len(entry) > 3 and entry[3] in ("timestamp", "timestamptz"):
            array = pa.array(bounds, pa.timestamp("us", target.tz))
        elif len(entry) > 3 and entry[3] == "time":
            array = pa.array(bounds, pa.time64("us"))
        elif len(entry) > 3:
            array = pa.array(bounds, pa.string()).cast(target)
        else:
            array = pa.array(bounds, target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, AttributeError):
        return None
    return pa.chunked_array([array])


def _encode(each: PartitionField, table: pa.Table) -> transforms.Encoded:
    names = [n for n in table.column_names if n == each.source] or [
        n for n in table.column_names if fold(n) == fold(each.source)
    ]
    if not names:
        raise InvalidInputError(
            f"the rows lack the column {each.source!r}, which the table is partitioned by; they have: "
            f"{', '.join(table.column_names) or 'none'}."
        )
    try:
        return transforms.encode(each.transform, each.argument, table.column(names[0]))
    except InvalidInputError as error:
        raise InvalidInputError(f"column {each.source!r}: {error}") from None


_BARE = re.compile(r"[^\s\"`(),]+")
_NAME = r"""(?:"(?:[^"]|"")*"|`(?:[^`]|``)*`|[^\s"`(),]+)"""
_CALL = re.compile(rf"\s*(\w+)\s*\(\s*({_NAME})\s*(?:,\s*({_NAME})\s*)?\)\s*")
_COLUMN = re.compile(rf"\s*({_NAME})\s*")


def _parse_field(text: str, columns: ColumnTypes) -> PartitionField:
    if not isinstance(text, str):
        raise InvalidInputError(f"partition_by takes texts like 'month(date)', not {text!r}.")
    if plain := _COLUMN.fullmatch(text):
        transform, column, argument = "identity", plain[1], None
    elif call := _CALL.fullmatch(text):
        transform, column, argument = call[1].lower(), call[2], call[3]
    else:
        raise InvalidInputError(
            f"partition field {text!r} is neither a column nor a transform like 'month(date)'; a column name "
            "with spaces stands in double quotes."
        )
    if transform not in transforms.NAMES:
        raise InvalidInputError(
            f"partition field {text!r}: there is no transform {transform!r}; there are "
            f"{', '.join(transforms.NAMES)}."
        )
    number = None
    if transform in transforms.PARAMETERISED:
        if argument is not None and column.isdecimal():
            column, argument = argument, column
        if argument is None or not argument.isdecimal() or not 1 <= int(argument) < 2**31:
            raise InvalidInputError(
                f"partition field {text!r}: {transform} takes a whole number from 1 on and a column, like "
                f"'{transform}(16, id)'."
            )
        number = int(argument)
    elif argument is not None:
        raise InvalidInputError(f"partition field {text!r}: {transform} takes nothing but a column.")
    source = _column(column, text, columns)
    if source in columns:
        transforms.check_type(transform, source, columns[source])
    name = source + _SUFFIXES.get(transform, "_" + transform)
    return PartitionField(source, transform, number, name)


def _column(token: str, text: str, columns: ColumnTypes) -> str:
    name = token
    if token[0] in '"`':
        name = token[1:-1].replace(token[0] * 2, token[0])
    if not name:
        raise InvalidInputError(f"partition field {text!r} names no column.")
    if not columns or name in columns:
        return name
    found = [known for known in columns if fold(known) == fold(name)]
    if len(found) != 1:
        raise InvalidInputError(
            f"partition field {text!r}: there is no column {name!r}; there are: {', '.join(columns)}."
        )
    return found[0]
