"""Columns of encoded keys as expressions of Spark's own, which its generated code runs: a function in Python would
have every key copied there and back. Pure: text in, text out.

docs/format/keyed-keys.md has the encoding: each column is a tag, then a number of fixed width or a text up to two
zero bytes; null is the tag alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from firn.keyed.encoding.key_cells import ESCAPED, NULL, TERMINATOR, TRUE

MOST_COLUMNS: Final = 4
"""Where a column begins is told by all before it, each time anew: with more of them a function is faster."""

_NULL = f"X'{NULL:02X}'"
_ESCAPED, _ZERO, _END = (f"CAST(X'{code.hex()}' AS STRING)" for code in (ESCAPED, b"\0", TERMINATOR))
_SIGN = "-9223372036854775808"
_WIDTHS: Final[Mapping[str, int]] = {"BOOLEAN": 0, "DATE": 4}
_TEXTS: Final = ("VARCHAR", "BLOB")
_SIGNED: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_UNSIGNED: Final = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_DECODED: Final = (*_TEXTS, *_SIGNED, *_UNSIGNED, "BOOLEAN", "DATE", "TIMESTAMP WITH TIME ZONE")


def key_expressions(
    key: str, columns: Mapping[str, str], types: Mapping[str, str], wanted: Sequence[str]
) -> dict[str, str] | None:
    """An expression for each wanted column of a key; None where Spark's functions can't tell one.

    Args:
        key: the encoded key, as an expression of binary.
        columns: the key's, name → DuckDB type.
        types: their types in Spark, by name.

    Example:
        >>> key_expressions("key", {"late": "BOOLEAN"}, {"late": "boolean"}, ["late"])
        {'late': "CASE WHEN substring(key, 1, 1) <> X'01' THEN substring(key, 1, 1) = X'03' END"}
    """
    found: dict[str, str] = {}
    at = "1"
    last = len(columns) - 1
    for number, (name, kind) in enumerate(columns.items()):
        if len(found) == len(set(wanted)):
            break
        if number >= MOST_COLUMNS or kind not in _DECODED:
            return None
        text = _text(key, at, last=number == last)
        if name in wanted:
            tag = f"substring({key}, {at}, 1)"
            found[name] = f"CASE WHEN {tag} <> {_NULL} THEN {_value(key, at, kind, types[name], text)} END"
        width = f"octet_length({text}) + 3" if kind in _TEXTS else str(1 + _WIDTHS.get(kind, 8))
        at = f"{at} + if(substring({key}, {at}, 1) = {_NULL}, 1, {width})"
    return found


def _text(key: str, at: str, *, last: bool) -> str:
    """The text between a tag and two zero bytes, with its own zero bytes still marked as such."""
    if last:
        return f"CAST(substring({key}, ({at}) + 1, octet_length({key}) - ({at}) - 2) AS STRING)"
    return f"substring_index(CAST(substring({key}, ({at}) + 1) AS STRING), {_END}, 1)"


def _value(key: str, at: str, kind: str, spark_type: str, text: str) -> str:
    if kind in _TEXTS:
        return _cast(f"replace({text}, {_ESCAPED}, {_ZERO})", spark_type, "string")
    if kind == "BOOLEAN":
        return f"substring({key}, {at}, 1) = X'{TRUE:02X}'"
    digits = f"hex(substring({key}, ({at}) + 1, {_WIDTHS.get(kind, 8)}))"
    if kind == "DATE":
        return f"date_from_unix_date(CAST(CAST(conv({digits}, 16, 10) AS BIGINT) - {1 << 31} AS INT))"
    if kind in _UNSIGNED:
        return f"CAST(conv({digits}, 16, 10) AS {spark_type})"
    number = f"(CAST(conv({digits}, 16, -10) AS BIGINT) ^ CAST('{_SIGN}' AS BIGINT))"
    if kind in _SIGNED:
        return _cast(number, spark_type, "bigint")
    return f"timestamp_micros({number})"


def _cast(expression: str, wanted: str, has: str) -> str:
    return expression if wanted == has else f"CAST({expression} AS {wanted})"
