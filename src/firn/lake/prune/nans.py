"""Columns in which a file may hold a NaN: engines prune by Parquet's statistics, which leave NaNs out."""

from __future__ import annotations

from firn.journal.model import ColumnTypes, DataFile
from firn.journal.typenames import Struct, parse
from firn.predicate.domain import family_of


def may_hold_nan(file: DataFile, columns: ColumnTypes) -> set[str]:
    """The columns in which a file may hold a NaN, by its statistics; structs have none."""
    found = set()
    for name, kind in columns.items():
        if family_of(kind) == "float":
            entry = file.stats.get(name)
            if entry is None or (entry[1] is None and (entry[2] is None or entry[2] != file.rows)):
                found.add(name)
        elif holds_floats(kind):
            found.add(name)
    return found


def holds_floats(kind: str) -> bool:
    """Whether a type is a float, or a struct with one: what an engine's filters reach.

    >>> holds_floats("STRUCT(a STRUCT(b DOUBLE))"), holds_floats("DOUBLE[]")
    (True, False)
    """
    parsed = parse(kind)
    if isinstance(parsed, Struct):
        return any(holds_floats(str(inner)) for _, inner in parsed.fields)
    return str(parsed) in ("FLOAT", "DOUBLE")
