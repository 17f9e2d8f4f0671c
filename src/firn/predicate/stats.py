"""Column statistics of a file or row group, from its Parquet footer, in the form that logs record.

A column's statistics are `[min, max, nulls]`, JSON-able, where None is unknown. The JSON type tells booleans,
integers, floats and text apart; other values have their family as a fourth element:

| family | min and max |
| --- | --- |
| `"date"` | days since 1970-01-01 |
| `"timestamp"`, `"timestamptz"` | microseconds since then, as the clock reads and in UTC |
| `"time"` | microseconds since midnight |
| `"decimal"` | text, with all digits of its scale |

So statistics keep their meaning when the table's type widens later. Bounds never lie inside of the values:
text is cut to 64 code points, and a maximum is rounded up for it. A float's maximum is unknown where a NaN
may be, for a NaN is larger than all numbers. Columns with no value but null have as many nulls as the file
has rows. Binary and other types have at most nulls, nested ones nothing. Frozen: a part of the format.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from firn.deferred import DeferredModule

if TYPE_CHECKING:
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    pc = DeferredModule("pyarrow.compute")

Entry = Sequence[Any]
"""One column's `[min, max, nulls]` or `[min, max, nulls, family]`."""

LONGEST_TEXT = 64
MAX_COLUMNS = 32

_PER_MICROSECOND = {"milliseconds": (1000, 1), "microseconds": (1, 1), "nanoseconds": (1, 1000)}
_UNITS = {"s": (1_000_000, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}


def from_metadata(
    metadata: pq.FileMetaData,
    schema: pa.Schema,
    *,
    nan_columns: AbstractSet[str] | None = None,
    max_columns: int = MAX_COLUMNS,
    first: Sequence[str] = (),
) -> dict[str, list[Any]]:
    """Statistics of a whole file, over all its row groups.

    Args:
        metadata: the file's footer.
        schema: the Arrow schema that the file reads as.
        nan_columns: the columns that hold a NaN; None if that isn't known, and then no float has a maximum.
        max_columns: how many columns get statistics: those of `first`, then the others in order.
        first: the columns that matter most, such as those the table is partitioned and sorted by.
    """
    chosen = _columns(metadata, schema, first)[:max_columns]
    groups = range(metadata.num_row_groups)
    return {name: _entry(metadata, groups, at, kind, nan_columns, name) for name, at, kind in chosen}


def row_group_stats(
    metadata: pq.FileMetaData,
    group: int,
    schema: pa.Schema,
    columns: Iterable[str],
    *,
    nan_columns: AbstractSet[str] | None = None,
) -> dict[str, list[Any]]:
    """Statistics of some columns of one row group; for `Pruner.may_match_stats`.

    Columns that the file lacks are left out.
    """
    wanted = set(columns)
    found = (c for c in _columns(metadata, schema, ()) if c[0] in wanted)
    return {name: _entry(metadata, (group,), at, kind, nan_columns, name) for name, at, kind in found}


def of_values(values: pa.ChunkedArray) -> list[Any]:
    """The statistics that a file of these values would have; without bounds for floats and what has no family.

    >>> of_values(pa.chunked_array([["b", None], ["a"]]))
    ['a', 'b', 1]
    """
    kind, nulls = values.type, values.null_count
    family, times, parts = None, 1, 1
    if pt.is_timestamp(kind) or pt.is_time(kind):
        family = "time" if pt.is_time(kind) else "timestamp" if kind.tz is None else "timestamptz"
        times, parts = _UNITS[kind.unit]
    elif pt.is_date32(kind):
        family = "date"
    elif pt.is_decimal(kind):
        family = "decimal"
    elif not (pt.is_boolean(kind) or pt.is_integer(kind) or pt.is_string(kind)):
        return [None, None, nulls]
    ends = pc.min_max(values)
    low, high = ends["min"], ends["max"]
    if not low.is_valid:
        return [None, None, nulls]
    if family is None or family == "decimal":
        return _finished(low.as_py(), high.as_py(), nulls, family, False)
    return [low.value * times // parts, -(-high.value * times // parts), nulls, family]


def _columns(
    metadata: pq.FileMetaData, schema: pa.Schema, first: Sequence[str]
) -> list[tuple[str, int, pa.DataType]]:
    """(name, leaf number, Arrow type) of the columns that aren't nested."""
    kinds = {field.name: field.type for field in schema}
    flat = []
    for at in range(metadata.num_columns):
        leaf = metadata.schema.column(at)
        if leaf.path == leaf.name and leaf.max_repetition_level == 0 and leaf.name in kinds:
            flat.append((leaf.name, at, kinds[leaf.name]))
    rank = {name: number for number, name in enumerate(dict.fromkeys(first))}
    return sorted(flat, key=lambda c: rank.get(c[0], len(rank)))


def _entry(
    metadata: pq.FileMetaData,
    groups: Iterable[int],
    at: int,
    kind: pa.DataType,
    nan_columns: AbstractSet[str] | None,
    name: str,
) -> list[Any]:
    family, encode = _encoding(metadata.schema.column(at), kind)
    low: Any = None
    high: Any = None
    nulls: int | None = 0
    bounded = encode is not None
    for number in groups:
        chunk = metadata.row_group(number).column(at)
        statistics = chunk.statistics
        if chunk.num_values == 0:
            continue
        if statistics is None or not statistics.has_null_count:
            nulls = None
        elif nulls is not None:
            nulls += statistics.null_count
        if statistics is not None and statistics.has_null_count and statistics.null_count == chunk.num_values:
            continue  # nothing but nulls
        if encode is None or statistics is None or not statistics.has_min_max:
            bounded = False
            continue
        bounds = _bounds(statistics, encode)
        if bounds is None:
            bounded = False
        elif bounded:
            low = bounds[0] if low is None else min(low, bounds[0])
            high = bounds[1] if high is None else max(high, bounds[1])
    if not bounded or low is None:
        return [None, None, nulls]
    return _finished(low, high, nulls, family, nan_columns is None or name in nan_columns)


def _bounds(statistics: Any, encode: Callable[[Any], tuple[Any, Any]]) -> tuple[Any, Any] | None:
    try:
        low, high = encode(statistics)
    except (UnicodeDecodeError, ValueError, ArithmeticError):
        return None  # written by something else than it claims; unknown is always right
    return None if low != low or high != high or low > high else (low, high)


def _finished(low: Any, high: Any, nulls: int | None, family: str | None, nan: bool) -> list[Any]:
    if isinstance(low, str):
        high = high if len(high) <= LONGEST_TEXT else above(high[:LONGEST_TEXT])
        return [low[:LONGEST_TEXT], high, nulls]
    if isinstance(low, float):
        return [low if math.isfinite(low) else None, high if math.isfinite(high) and not nan else None, nulls]
    if isinstance(low, Decimal):
        low, high = format(low, "f"), format(high, "f")
    return [low, high, nulls] if family is None else [low, high, nulls, family]


def above(prefix: str) -> str | None:
    """The least text of this length or shorter that is above all texts with this prefix, if there is one."""
    while prefix:
        code = ord(prefix[-1]) + 1
        if 0xD800 <= code <= 0xDFFF:
            code = 0xE000  # surrogates are no text
        if code <= sys.maxunicode:
            return prefix[:-1] + chr(code)
        prefix = prefix[:-1]
    return None


Encode = Callable[[Any], tuple[Any, Any]]


def _encoding(leaf: Any, kind: pa.DataType) -> tuple[str | None, Encode | None]:
    """The family of a column, and how its bounds are taken from Parquet's statistics; None if they aren't."""
    if pt.is_dictionary(kind):
        kind = kind.value_type
    logical = leaf.logical_type.type
    if pt.is_boolean(kind):
        return None, _typed(bool)
    if pt.is_integer(kind) and logical in ("INT", "NONE"):
        return None, _typed(int)
    if (pt.is_float32(kind) or pt.is_float64(kind)) and logical == "NONE":
        return None, _typed(float)
    if pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
        return None, _typed(str)
    if pt.is_date(kind) and logical == "DATE":
        return "date", lambda s: (int(s.min_raw), int(s.max_raw))
    if pt.is_timestamp(kind) and logical == "TIMESTAMP" and leaf.physical_type == "INT64":
        return ("timestamp" if kind.tz is None else "timestamptz"), _microseconds(leaf)
    if pt.is_time(kind) and logical == "TIME":
        return "time", _microseconds(leaf)
    if pt.is_decimal(kind) and logical == "DECIMAL":
        return "decimal", _decimals(kind.scale)
    return None, None


def _typed(kind: type) -> Encode:
    def encode(statistics: Any) -> tuple[Any, Any]:
        low, high = statistics.min, statistics.max
        if type(low) is not kind or type(high) is not kind:
            raise ValueError("statistics of another type")
        return low, high

    return encode


def _microseconds(leaf: Any) -> Encode:
    unit = json.loads(leaf.logical_type.to_json())["timeUnit"]
    times, parts = _PER_MICROSECOND[unit]

    def encode(statistics: Any) -> tuple[int, int]:
        low, high = int(statistics.min_raw), int(statistics.max_raw)
        return low * times // parts, -(-high * times // parts)

    return encode


def _decimals(scale: int) -> Encode:
    def exact(value: Any) -> Decimal:
        if not isinstance(value, Decimal) or value.as_tuple().exponent != -scale:
            raise ValueError("statistics of another scale")
        return value

    return lambda statistics: (exact(statistics.min), exact(statistics.max))
