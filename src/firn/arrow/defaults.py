"""Defaults of columns: what rows have whose file lacks the column. A definition keeps them as text."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pyarrow as pa

from firn.arrow.engine import run_query
from firn.arrow.inputs import to_reader
from firn.arrow.types import arrow_type
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import Decimal, Enum, Scalar, parse
from firn.names import fold

LONGEST = 4096
"""Bytes of a default as text: readers repeat it for each row of a batch, and each maintenance log has it."""


def default_text(value: Any, kind: str, column: str) -> str:
    """A default as the definition keeps it. That of a FLOAT has all digits of its value, so that it is the same in a
    DOUBLE, to which the column may widen.

    Raises:
        InvalidInputError: the value doesn't fit the type, or the type is nested.

    >>> default_text(False, "BOOLEAN", "c"), default_text("1.5", "DECIMAL(5,2)", "d")
    ('false', '1.50')
    >>> default_text(0.1, "FLOAT", "f")
    '0.10000000149011612'
    """
    if not isinstance(parse(kind), (Scalar, Decimal, Enum)):
        raise InvalidInputError(
            f"the column {column!r} is {kind}, and columns of nested types have no default. Leave it out."
        )
    try:
        rows = to_reader([{"v": value}], known={"v": kind})
        given = pa.Table.from_batches(rows.batches(), rows.schema)
        exact = f"CAST(CAST(v AS {kind}) AS DOUBLE)" if kind == "FLOAT" else f"CAST(v AS {kind})"
        sql = f"SELECT CAST({exact} AS VARCHAR) AS v FROM given"
        text = str(run_query(sql, {"given": given}, types=rows.columns).column(0)[0].as_py())
        default_value(text, kind)
        fits = not _is_rounded(value, text, kind)
    except (InvalidInputError, pa.ArrowException, UnicodeEncodeError):
        fits = False
    if not fits:
        raise InvalidInputError(
            f"the default {value!r} doesn't fit the column {column!r} ({kind}). Nothing was changed."
        )
    if len(text.encode()) > LONGEST:
        raise InvalidInputError(
            f"the default of the column {column!r} has more than {LONGEST:,} bytes. Nothing was changed."
        )
    return text


def _is_rounded(value: Any, text: str, kind: str) -> bool:
    """Whether a number became another one, as 1.5 does in a BIGINT."""
    if isinstance(value, bool) or not isinstance(value, (int, float, decimal.Decimal)):
        return False
    stored = arrow_type(kind)
    exact = pa.types.is_integer(stored) or pa.types.is_decimal(stored)
    return exact and decimal.Decimal(text) != decimal.Decimal(str(value))


@lru_cache(maxsize=1024)
def default_value(text: str, kind: str) -> pa.Scalar:
    """The value that a default has in a column of this type."""
    given = pa.table({"v": [text]})
    sql = f"SELECT CAST(v AS {kind}) AS v FROM given"
    return run_query(sql, {"given": given}, types={"v": "VARCHAR"}).column(0)[0]


def with_defaults(
    rows: pa.Table | pa.RecordBatch, defaults: Mapping[str, str], columns: ColumnTypes
) -> pa.Table | pa.RecordBatch:
    """Rows to be written under these columns, with the defaults of those that they lack: a file has each of its
    columns in all rows, like one by which they are placed."""
    given = set(map(fold, rows.schema.names))
    for name, text in defaults.items():
        if fold(name) not in given:
            rows = rows.append_column(name, pa.repeat(default_value(text, columns[name]), rows.num_rows))
    return rows
