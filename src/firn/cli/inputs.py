"""Files and standard input that `firn append` reads in this process, as Arrow tables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firn.cli.timeformat import strptime_format
from firn.errors import AccessDeniedError, InvalidInputError, ObjectNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = ("auto", "csv", "json", "jsonl", "parquet")
_BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_TIME_TYPES = ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP_NS", "DATE", "TIME")


def format_of(name: str, head: bytes) -> str:
    """The format by a file's name, else by how it begins.

    >>> format_of("a.csv", b""), format_of("-", b'[{"a": 1}]'), format_of("-", b'{"a": 1}'), format_of("-", b"a,b")
    ('csv', 'json', 'jsonl', 'csv')
    """
    start = head.lstrip()[:4]
    suffix = Path(name).suffix.lower()
    if suffix == ".json" and start[:1] == b"{":
        return "jsonl"
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    if start == b"PAR1":
        return "parquet"
    return {b"[": "json", b"{": "jsonl"}.get(start[:1], "csv")


def read_bytes(name: str) -> bytes:
    """A whole file, or standard input for `-`."""
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(name).read_bytes()
    except FileNotFoundError:
        raise ObjectNotFoundError(f"there is no file {name}.") from None
    except PermissionError:
        raise AccessDeniedError(f"{name} may not be read by this user.") from None
    except OSError as error:
        raise InvalidInputError(f"{name} can't be read: {error.strerror or error}.") from None


def read_all(
    names: Sequence[str],
    *,
    format: str = "auto",
    delimiter: str | None = None,
    timestamp_format: str | None = None,
    known: Mapping[str, str] | None = None,
) -> pa.Table:
    """The rows of several files, one after the other; see `read_rows`.

    Raises:
        InvalidInputError: one of them can't be read, or their columns don't fit together.
    """
    import pyarrow as pa

    parts = [
        read_rows(name, format=format, delimiter=delimiter, timestamp_format=timestamp_format, known=known)
        for name in names
    ]
    if len(parts) == 1:
        return parts[0]
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidInputError(f"the files' columns don't fit together: {error}") from error


def read_rows(
    name: str,
    *,
    data: bytes | None = None,
    format: str = "auto",
    delimiter: str | None = None,
    timestamp_format: str | None = None,
    known: Mapping[str, str] | None = None,
) -> pa.Table:
    """A file's rows.

    Args:
        name: a path, or `-` for standard input.
        data: what it holds, where that has been read.
        format: one of `FORMATS`.
        delimiter: of CSV; a tab for `.tsv`, else a comma.
        timestamp_format: columns all of whose values have it become timestamps.
        known: the table's columns: strings of JSON are read as times where the table has times.

    Raises:
        InvalidInputError: the bytes aren't of that format.
    """
    data = read_bytes(name) if data is None else data
    chosen = format_of(name, data[:64]) if format == "auto" else format
    times = None if timestamp_format is None else strptime_format(timestamp_format)
    shown = "standard input" if name == "-" else name
    try:
        if chosen == "parquet":
            return _parquet(data)
        if chosen == "csv":
            return _csv(data, delimiter or ("\t" if name.endswith(".tsv") else ","), times, known or {})
        return _json(data, chosen, times, known or {}, shown)
    except (ValueError, TypeError, NotImplementedError, OSError) as error:
        # Arrow's errors for bad content, mixed types, formats it can't read and pages that can't be decompressed
        # derive from these, in that order, and orjson's from the first; so does the one that already has its message.
        if isinstance(error, InvalidInputError):
            raise
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InvalidInputError(f"{shown} can't be read as {chosen}: {reason}.") from error


def _parquet(data: bytes) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.read_table(pa.BufferReader(data))


def _csv(data: bytes, delimiter: str, times: str | None, known: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.csv as pc

    convert: dict[str, Any] = {"strings_can_be_null": True, "null_values": [""]}
    if times is not None:
        convert["timestamp_parsers"] = [times, pc.ISO8601]
    # A column of digits that the table holds as text, like a postal code, stays text.
    texts = {name: pa.string() for name, kind in known.items() if kind == "VARCHAR"}
    table = pc.read_csv(
        pa.BufferReader(data),
        parse_options=pc.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pc.ConvertOptions(column_types=texts, **convert),
    )
    return with_times(table, None, known)


def _json(data: bytes, chosen: str, times: str | None, known: Mapping[str, str], shown: str) -> pa.Table:
    import orjson

    if chosen == "json":
        rows = orjson.loads(data)
        if not isinstance(rows, list):
            rows = [rows]
    else:
        rows = []
        for number, text in enumerate(data.split(b"\n"), 1):
            if text.strip():
                try:
                    rows.append(orjson.loads(text))
                except orjson.JSONDecodeError as error:
                    raise InvalidInputError(f"{shown}, line {number}, isn't JSON: {error}.") from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise InvalidInputError(f"{shown}: row {number} isn't a JSON object but {type(row).__name__}.")
    return with_times(_union(rows), times, known)


def _union(rows: list[dict[str, Any]]) -> pa.Table:
    """One table with the columns of all rows, not only of the first."""
    import pyarrow as pa

    names = list(dict.fromkeys(name for row in rows for name in row))
    return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})


def with_times(table: pa.Table, times: str | None, known: Mapping[str, str]) -> pa.Table:
    """Strings and dates as times, where the table has times or all of them have the given format."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from firn.arrow.types import arrow_schema

    wanted = arrow_schema({n: t for n, t in known.items() if t in _TIME_TYPES})
    for i, field in enumerate(table.schema):
        column = table.column(i)
        if not pa.types.is_string(field.type) and not pa.types.is_temporal(field.type):
            continue
        if times is not None and pa.types.is_string(field.type):
            try:
                table = table.set_column(i, field.name, pc.strptime(column, format=times, unit="us"))
                continue
            except pa.ArrowInvalid:
                pass
        if field.name in wanted.names:
            table = table.set_column(i, field.name, _iso(column, wanted.field(field.name).type))
    return table


def _iso(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Strings in ISO 8601 as times; `Z` and offsets are read also where the table keeps no zone: as UTC."""
    import pyarrow as pa

    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        if not pa.types.is_timestamp(kind) or kind.tz is not None:
            raise
    return column.cast(pa.timestamp(kind.unit, "UTC")).cast(kind)
