"""Tables with a key: which columns make it, which version of a row is the newest, and the hidden columns.

Pure, see docs/design/0008-keys.md. Reading by key is in `firn.lake.read.latest`, the verbs are in
`firn.lake.maintain.key_verbs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.deferred import DeferredModule
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import Decimal, Enum, Scalar, parse
from firn.names import fold

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = DeferredModule("pyarrow.compute")

CLOCK = "_firn_clock"  # frozen
DELETED = "_firn_deleted"  # frozen
HIDDEN: Mapping[str, str] = {CLOCK: "VARCHAR", DELETED: "BIGINT"}
"""Columns of files that no reader of the table sees: a row's clock, and when its key was deleted, in
milliseconds since 1970."""

Flags = npt.NDArray[np.bool_]

# Floats are out: whether NaN equals NaN, and zero its negative, is another question in each engine.
_UNFIT = ("FLOAT", "DOUBLE", "INTERVAL", "JSON", "BIT")


@dataclass(frozen=True)
class KeySpec:
    """The columns of the key, and the one whose greatest value makes a version the newest, if there is one."""

    key: tuple[str, ...]
    version_by: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return self.key if self.version_by is None else (*self.key, self.version_by)

    def bound(self, columns: Iterable[str]) -> KeySpec:
        """The same columns in the spelling of `columns`."""
        spelled = {fold(name): name for name in columns}
        key = tuple(spelled.get(fold(name), name) for name in self.key)
        by = self.version_by
        return KeySpec(key, None if by is None else spelled.get(fold(by), by))


def parse_key(
    key: Sequence[str], version_by: str | None, columns: ColumnTypes, partition_sources: Iterable[str]
) -> KeySpec | None:
    """The key of a new table; None for a table without one.

    Args:
        columns: the declared columns; none at all means that they come with the first rows.
        partition_sources: what the table is partitioned by: all versions of a row must be in one partition.

    Raises:
        InvalidInputError: a column that isn't there, stands twice or has an unfit type, or a partition by
            another column.

    >>> parse_key(["ID"], None, {"id": "BIGINT"}, ["id"])
    KeySpec(key=('id',), version_by=None)
    """
    if isinstance(key, str):
        raise InvalidInputError(f"key={key!r}: pass a list, like [{key!r}].")
    if not key:
        if version_by is not None:
            raise InvalidInputError(f"version_by={version_by!r} needs a key, like key=['id'].")
        return None
    keys = KeySpec(tuple(key), version_by).bound(columns)
    folded = [fold(name) for name in keys.columns]
    if twice := next((name for name in keys.columns if folded.count(fold(name)) > 1), None):
        raise InvalidInputError(f"the column {twice!r} stands twice in key and version_by.")
    if columns:
        if missing := next((name for name in keys.columns if name not in columns), None):
            raise InvalidInputError(
                f"the key names {missing!r}, which isn't in the schema: {', '.join(columns)}."
            )
        check_columns(keys, columns)
    for source in partition_sources:
        if fold(source) not in (fold(name) for name in keys.key):
            raise InvalidInputError(
                f"the table is partitioned by {source!r}, which isn't part of its key ({', '.join(keys.key)}): "
                "versions of one row could lie in different partitions. Add it to the key, or partition by "
                f"a column of the key, like 'bucket(16, {keys.key[0]})'."
            )
    return keys


def check_columns(keys: KeySpec, columns: ColumnTypes) -> None:
    """Refuse types that make no key, and columns with the names of the hidden ones.

    Raises:
        InvalidInputError: names the column.
    """
    for name in columns:
        if fold(name) in HIDDEN:
            raise InvalidInputError(f"the column {name!r} has a name that tables with a key use; rename it.")
    bound = keys.bound(columns)
    for name in bound.columns:
        kind = columns.get(name)
        if kind is None:
            continue
        parsed = parse(kind)
        fits = isinstance(parsed, (Decimal, Scalar)) and str(parsed) not in _UNFIT
        if not fits and not (isinstance(parsed, Enum) and name in bound.key):
            part = "a key" if name in bound.key else "version_by"
            raise InvalidInputError(
                f"the column {name!r} ({kind}) can't be {part}: use whole numbers, decimals, text, or times."
            )


def newest(rows: pa.Table, keys: KeySpec, ages: npt.NDArray[Any] | None = None) -> Flags:
    """For each row whether it is the newest version of its key: by `version_by` (null is least), then by `ages`
    (greater is newer), then by position (later is newer).

    >>> rows = pa.table({"id": [1, 2, 1], "n": [5, 6, 4]})
    >>> newest(rows, KeySpec(("id",))).tolist(), newest(rows, KeySpec(("id",), "n")).tolist()
    ([False, True, True], [True, True, False])
    """
    count = rows.num_rows
    ages = np.zeros(count, np.int64) if ages is None else ages
    if keys.version_by is None:
        order = np.argsort(ages, kind="stable")
    else:
        versions = rows.column(keys.version_by)
        # Sorts are stable, so that position decides where all else is equal.
        by = pa.table({"told": pc.is_valid(versions), "version": versions, "age": pa.array(ages)})
        order = pc.sort_indices(by, sort_keys=[(name, "ascending") for name in by.column_names]).to_numpy()
    ranks = np.empty(count, np.int64)
    ranks[order] = np.arange(count)
    names = [f"k{number}" for number in range(len(keys.key))]
    arrays = [rows.column(name) for name in keys.key]
    grouped = pa.table([*arrays, pa.array(ranks)], names=[*names, "rank"]).group_by(names)
    best = grouped.aggregate([("rank", "max")]).column("rank_max").to_numpy()
    flags = np.zeros(count, np.bool_)
    flags[order[best]] = True
    return flags


def folded(rows: pa.Table, keys: KeySpec) -> pa.Table:
    """The newest version of each key among rows of one append, in their order.

    Raises:
        InvalidInputError: a null in a column of the key.
    """
    bound = keys.bound(rows.column_names)
    for name in bound.key:
        if rows.column(name).null_count:
            raise InvalidInputError(
                f"{rows.column(name).null_count} rows have null in {name!r}, a column of the table's key: give "
                "them a value, or leave them out."
            )
    flags = newest(rows, bound)
    return rows if flags.all() else rows.filter(pa.array(flags))
