"""Where types place values: under which of them equal values have equal directories and hashes.

A directory has the text of a value, or the hash of its bytes, under the type that its column has when a file is
written. When the column widens, 5 may become 5.00 there, or hash otherwise; then versions of one row of a table
with a key would stand apart. So appends don't widen such columns; where two of them that didn't see each other did,
all files are one group until a merge has dealt them out anew. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firn.errors import SchemaConflictError
from firn.journal.model import LACKING, ColumnTypes, DataFile
from firn.journal.naming import PLAIN, Naming
from firn.journal.typenames import Decimal, Enum, parse
from firn.lake.partition.partition import PartitionField, PartitionSpec
from firn.names import fold
from firn.predicate.domain import family_of


def placed_as(transform: str, kind: str) -> str:
    """A name for how a transform places values of a DuckDB type: two types of one name place equal values alike.

    >>> placed_as("identity", "BIGINT") == placed_as("identity", "DECIMAL(20,0)")
    True
    >>> placed_as("bucket", "BIGINT") == placed_as("bucket", "DECIMAL(20,0)")
    False
    """
    parsed = parse(kind)
    if isinstance(parsed, Enum) or kind in ("VARCHAR", "UUID", "JSON"):
        return "text"
    if kind in ("HUGEINT", "UHUGEINT"):
        parsed = Decimal(38, 0)
    if isinstance(parsed, Decimal):
        whole = parsed.scale == 0 and transform != "bucket"
        return "whole" if whole else f"decimal of scale {parsed.scale}"
    family = family_of(kind)
    if family == "integer":
        return "whole"
    return family if family in ("date", "timestamp", "timestamptz") else kind


def moved_field(spec: PartitionSpec, before: ColumnTypes, after: ColumnTypes) -> PartitionField | None:
    """The first field that places values otherwise under the types `after` than under those `before`."""
    old, new = ({fold(name): kind for name, kind in columns.items()} for columns in (before, after))
    for field in spec.fields:
        was, now = old.get(fold(field.source)), new.get(fold(field.source))
        if was and now and was != now and placed_as(field.transform, was) != placed_as(field.transform, now):
            return field
    return None


def refuse_moves(table: str, spec: PartitionSpec, known: ColumnTypes, widened: ColumnTypes) -> None:
    """Raise `SchemaConflictError` if rows would widen a column by which they are placed, so that equal values stood
    apart. Nothing was committed."""
    field = moved_field(spec, known, widened)
    if field is None:
        return
    was, now = (
        next(kind for name, kind in columns.items() if fold(name) == fold(field.source))
        for columns in (known, widened)
    )
    raise SchemaConflictError(
        f"{table}: the rows would widen {field.source!r} from {was} to {now}, and {field} places values of {now} in "
        f"other partitions: equal values would stand apart. Nothing was changed. Cast the column to {was}."
    )


def scattered_by(
    spec: PartitionSpec, files: Iterable[DataFile], columns: ColumnTypes, naming: Naming = PLAIN
) -> PartitionField | None:
    """The first field whose values some live file places otherwise than the table's types do now; None if all files
    agree."""
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for file in files:
        key = file.spec, tuple(file.types.items())
        if not key[1] or key in seen:
            continue
        seen.add(key)
        types = {
            naming.shown(n): kind
            for n, kind in file.types.items()
            if n not in naming.hidden and kind != LACKING
        }
        field = moved_field(spec.of(file), types, columns)
        if field is not None:
            return field
    return None


def is_scattered(
    spec: PartitionSpec, files: Sequence[DataFile], columns: ColumnTypes, naming: Naming = PLAIN
) -> bool:
    """Whether equal values may stand in different places: files disagree on the spec, or by `scattered_by`."""
    several = bool(spec.older) and len({file.spec for file in files}) > 1
    return several or scattered_by(spec, files, columns, naming) is not None
