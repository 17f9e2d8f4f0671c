"""Texts that stand for values of another type: UUID, JSON and ENUM are strings in Arrow, and not all strings are."""

from __future__ import annotations

import pyarrow as pa

from firn.arrow.connections import connection
from firn.arrow.engine import run_query
from firn.arrow.types import arrow_type, duckdb_name
from firn.errors import InvalidInputError
from firn.journal.columns import of_text
from firn.journal.model import ColumnTypes
from firn.journal.typenames import quoted
from firn.names import fold


def unchecked(has: ColumnTypes, wanted: ColumnTypes) -> dict[str, str]:
    """The columns of plain text that are to be of a type whose texts are some texts alone, with that type.

    >>> unchecked({"id": "VARCHAR", "n": "INTEGER"}, {"ID": "UUID", "n": "BIGINT"})
    {'id': 'UUID'}
    """
    kinds = {fold(name): kind for name, kind in wanted.items()}
    found = {name: of_text(kind, kinds.get(fold(name), kind)) for name, kind in has.items()}
    return {name: kind for name, kind in found.items() if kind != has[name]}


def checked(rows: pa.Table, types: ColumnTypes, *, alterable: bool = False) -> pa.Table:
    """The rows, with the texts of these columns as values of their types have them: a UUID in lower case.

    Free without such columns; else the columns go through DuckDB, 2 ms at least. `alterable`: whether errors may say
    that the column's type can be changed.

    Raises:
        InvalidInputError: a text that isn't one; the message says which.

    >>> checked(pa.table({"id": ["6FA1C2E093B54C7E8D215B0A9E4F7C38"]}), {"id": "UUID"})["id"][0].as_py()
    '6fa1c2e0-93b5-4c7e-8d21-5b0a9e4f7c38'
    """
    names = [name for name in rows.column_names if name in types and rows.column(name).type != "null"]
    if not names or not rows.num_rows:
        return rows
    texts, kinds = rows.select(names), {name: types[name] for name in names}
    try:
        values = run_query("SELECT * FROM texts", {"texts": texts}, types=kinds)
    except InvalidInputError as error:
        raise _refusal(texts, kinds, error, alterable) from None
    for name in names:
        rows = rows.set_column(rows.column_names.index(name), name, values.column(name))
    return rows


def _refusal(
    rows: pa.Table, kinds: ColumnTypes, error: InvalidInputError, alterable: bool
) -> InvalidInputError:
    for name, kind in kinds.items():
        column = quoted(name)
        with connection() as duck:
            wrong = duck.from_arrow(rows).filter(
                f"{column} IS NOT NULL AND TRY_CAST({column} AS {kind}) IS NULL"
            )
            found = wrong.project(column).limit(1).fetchall()
        if not found:
            continue
        known = (
            f"the column {name!r} is {kind}, and the value {str(found[0][0])[:100]!r} of the data isn't one"
        )
        if not alterable:
            return InvalidInputError(f"{known}: correct the data.")
        wide = duckdb_name(arrow_type(kind))
        return InvalidInputError(
            f"{known}: correct the data, or let the column take any text (ALTER TABLE … ALTER COLUMN "
            f"{column} TYPE {wide})."
        )
    said = ", ".join(f"{name!r} ({kind})" for name, kind in kinds.items())
    reason = str(error).rpartition(" fails: ")[2]
    return InvalidInputError(f"texts of the data don't fit the columns {said}: {reason}. Correct the data.")
