"""Bounds that a file's partition values set on its rows, in the same domain as statistics."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from firn.journal.model import ColumnTypes, DataFile
from firn.lake.partition.partition import PartitionField, PartitionSpec
from firn.lake.partition.path import HASHED, Values, encode_value, parse_dir
from firn.lake.partition.transforms import time_range
from firn.names import fold
from firn.predicate.domain import DAY, Bounds, Family, family_of, read_time
from firn.predicate.stats import above


@dataclass(frozen=True)
class PartitionBounds:
    """By column: bounds (None where the value is null, and so is all of the column), and buckets.

    `prefixes` are columns whose bounds come of a text's first characters: they hold only if the file's values
    were text when it was written, for the `50` that numbers are truncated to is no prefix of them.
    """

    bounds: Mapping[str, Bounds | None] = field(default_factory=dict)
    buckets: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    prefixes: frozenset[str] = frozenset()

    def without(self, columns: Container[str]) -> PartitionBounds:
        """The bounds of all other columns."""
        return PartitionBounds(
            {name: bounds for name, bounds in self.bounds.items() if name not in columns},
            {name: buckets for name, buckets in self.buckets.items() if name not in columns},
            self.prefixes,
        )


NOTHING = PartitionBounds()


class PartitionReader:
    """Reads what the partitions of files say, once a directory.

    Only files that record the spec's id are believed: a directory of somebody else's making may be called
    after a column and hold something else.
    """

    def __init__(self, spec: PartitionSpec, columns: ColumnTypes, used: Iterable[str]) -> None:
        folded = {fold(name): name for name in used}
        self._spec = spec
        self._fields = [(f, folded[fold(f.source)]) for f in spec.fields if fold(f.source) in folded]
        self._columns = columns
        self._heads = [dir_head(f.name) for f in spec.fields]
        self._known: dict[str, PartitionBounds] = {}

    @property
    def useful(self) -> bool:
        """Whether partitions can say anything about the columns used."""
        return bool(self._fields)

    def read(self, file: DataFile) -> PartitionBounds:
        extra = file.extra
        if extra is None or extra.get("spec") != self._spec.id:
            return NOTHING
        part = extra.get("part")
        if part:
            return self._of(part)
        directory = file.path.rpartition("/")[0]
        found = self._known.get(directory)
        if found is None:
            found = self._known[directory] = self._of(self._values(directory))
        return found

    def _values(self, directory: str) -> Values:
        """The values in a path's last directories, if those are the spec's own fields."""
        segments = directory.split("/")
        if "=" not in segments[-1]:
            segments.pop()  # a writer's files lie in their table's directory, below the partition's
        segments = segments[-len(self._heads) :]
        if len(segments) < len(self._heads):
            return {}
        if not all(segment.startswith(head) for segment, head in zip(segments, self._heads, strict=True)):
            return {}
        plain = [s for s, head in zip(segments, self._heads, strict=True) if not s.startswith(head + HASHED)]
        return parse_dir("/".join(plain))

    def _of(self, values: Values) -> PartitionBounds:
        bounds: dict[str, Bounds | None] = {}
        buckets: dict[str, tuple[tuple[int, int], ...]] = {}
        prefixes = set()
        for each, column in self._fields:
            if each.name not in values:
                continue
            value = values[each.name]
            kind = self._columns[column]
            if value is None:
                bounds[column] = None
            elif each.transform == "bucket":
                if value.isdecimal():
                    buckets[column] = (*buckets.get(column, ()), (each.argument or 1, int(value)))
            elif (found := _bounds(each, value, kind)) is not None and column not in bounds:
                bounds[column] = found
                if each.transform == "truncate" and isinstance(found[0], str):
                    prefixes.add(column)
        return PartitionBounds(bounds, buckets, frozenset(prefixes))


def dir_head(name: str) -> str:
    """How a field's directories begin: its encoded name and `=`."""
    return encode_value(name) + "="


def _bounds(each: PartitionField, value: str, kind: str) -> Bounds | None:
    family = family_of(kind)
    try:
        if each.is_time:
            return _time_bounds(each, value, family, kind)
        read = _READERS.get(family)
        if read is None:
            return None
        low = read(value)
        if each.transform == "identity" or low is None:
            return None if low is None else (low, low)
        return _truncated(low, each.argument or 1)
    except (ValueError, ArithmeticError):
        return None  # a value of another time's type says nothing about this one's


def _time_bounds(each: PartitionField, value: str, family: Family, kind: str) -> Bounds | None:
    span = time_range(each.transform, value)
    if span is None or family not in ("date", "timestamp", "timestamptz"):
        return None
    if family == "date":
        return span[0], span[1] - DAY
    return span[0], span[1] - (kind != "TIMESTAMP_NS")


def _truncated(low: Any, width: int) -> Bounds | None:
    if isinstance(low, int):
        return low, low + width - 1
    if isinstance(low, Decimal):
        return low, low + Decimal(width - 1).scaleb(int(low.as_tuple().exponent))
    return low, low if len(low) < width else above(low)


def _moment(text: str) -> int | None:
    found = read_time(text.removesuffix("+00"))
    return None if found is None or found.zone or found.low != found.high else found.low


def _decimal(text: str) -> Decimal | None:
    value = Decimal(text)
    return value if value.is_finite() else None


_READERS: Mapping[Family, Callable[[str], Any]] = {
    "boolean": {"true": True, "false": False}.get,
    "integer": int,
    "decimal": _decimal,
    "string": str,
    "date": _moment,
    "timestamp": _moment,
    "timestamptz": _moment,
}
