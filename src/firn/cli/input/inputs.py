"""Files and standard input that `firn append` reads in this process, as Arrow tables."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
NO_NUMBER = r"^\s*(\+|-?0[0-9])"
"""How digits begin that are a name, like a postal code or a telephone number."""
# Directives of times in files: those of Python that Spark's readers know too.
_DIRECTIVES = {
    "%Y": "yyyy", "%y": "yy", "%m": "MM", "%b": "MMM", "%B": "MMMM", "%d": "dd", "%j": "DDD", "%H": "HH", "%I": "hh",
    "%p": "a", "%M": "mm", "%S": "ss", "%f": "SSSSSS", "%z": "XX",
}  # fmt: skip
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
    types: Mapping[str, str] | None = None,
) -> pa.Table:
    """The rows of several files, one after the other; see `read_rows`.

    `types` are those that the caller chose for some of the columns, as DuckDB names them.

    Raises:
        InvalidInputError: one of them can't be read, or their columns don't fit together.
    """
    import pyarrow as pa

    types = types or {}
    # As text, which a cast loses nothing of.
    known = {**(known or {}), **dict.fromkeys(types, "VARCHAR")}
    parts = [
        read_rows(name, format=format, delimiter=delimiter, timestamp_format=timestamp_format, known=known)
        for name in names
    ]
    try:
        rows = parts[0] if len(parts) == 1 else pa.concat_tables(parts, promote_options="permissive")
    except pa.ArrowException as error:
        raise InvalidInputError(f"the files' columns don't fit together: {error}") from error
    return _typed(rows, types) if types else rows


def _typed(rows: pa.Table, types: Mapping[str, str]) -> pa.Table:
    """Columns as DuckDB casts them to the chosen types."""
    from firn.arrow.engine import run_query
    from firn.arrow.inputs import declared_columns
    from firn.journal.typenames import quoted

    types = declared_columns(types)
    for name in types:
        if name not in rows.column_names:
            raise InvalidInputError(
                f"the files have no column {name!r}; they have: {', '.join(rows.column_names)}."
            )
    casts = ", ".join(
        f"CAST({quoted(name)} AS {types[name]}) AS {quoted(name)}" if name in types else quoted(name)
        for name in rows.column_names
    )
    try:
        return run_query(f"SELECT {casts} FROM _rows", {"_rows": rows})
    except InvalidInputError as error:
        reason = str(error).partition(" fails: ")[2].partition("\n")[0] or str(error)
        raise InvalidInputError(f"a value isn't of the type that --column says. {reason}") from None


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
    if timestamp_format is not None:
        spark_pattern(timestamp_format)  # a format that `firn ingest` takes, too
    shown = "standard input" if name == "-" else name
    try:
        if chosen == "parquet":
            return _parquet(data)
        if chosen == "csv":
            return _csv(
                data, delimiter or ("\t" if name.endswith(".tsv") else ","), timestamp_format, known or {}
            )
        return _json(data, chosen, timestamp_format, known or {}, shown)
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

    def read(texts: Iterable[str], only: Sequence[str] = ()) -> pa.Table:
        return pc.read_csv(
            pa.BufferReader(data),
            parse_options=pc.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pc.ConvertOptions(
                column_types=dict.fromkeys(texts, pa.string()), include_columns=list(only), **convert
            ),
        )

    # A column of digits that the table holds as text, like a postal code, stays text.
    table = read([name for name, kind in known.items() if kind in ("VARCHAR", "BLOB")])
    new = [f for f in table.schema if f.name not in known]
    if numbers := [f.name for f in new if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]:
        written = read(numbers, numbers)
        for name in numbers:
            if _no_number(written[name]):
                table = table.set_column(table.column_names.index(name), name, written[name])
    for i, field in enumerate(table.schema):
        if field.name not in known:
            table = table.set_column(i, field.name, _storable(table.column(i)))
    return with_times(table, None, known)


def _no_number(written: pa.ChunkedArray) -> bool:
    """Whether the digits are a name: a number would lose the zeros or the plus that one of them begins with."""
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(written, NO_NUMBER)).as_py())


def _storable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of a type that says too little, as text; and one that says more than it holds, without it."""
    import pyarrow as pa

    if pa.types.is_null(column.type):
        return column.cast(pa.string())
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        try:
            return column.cast(pa.timestamp("us", column.type.tz))
        except pa.ArrowInvalid:
            return column
    return column


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
            table = table.set_column(i, field.name, _iso(field.name, column, wanted.field(field.name).type))
    return table


def _iso(name: str, column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Strings in ISO 8601 as times; `Z` and offsets are read also where the table keeps no zone: as UTC."""
    import pyarrow as pa

    zoneless = pa.types.is_timestamp(kind) and kind.tz is None
    for way in (kind, pa.timestamp(kind.unit, "UTC")) if zoneless else (kind,):
        try:
            return column.cast(way).cast(kind)
        except pa.ArrowInvalid as error:
            failed = error
    found = re.search(r"'(.*?)'", str(failed))
    text = "a text" if found is None else repr(found[1])
    raise InvalidInputError(
        f"column {name!r} has times in the table, and {text} isn't one: write them like "
        "2001-01-31T08:00:00, or say how they are written with --timestamp-format."
    ) from failed


def spark_pattern(text: str) -> str:
    """The format as Spark's readers take it.

    Raises:
        InvalidInputError: it has no directive, or one that isn't known everywhere.

    Example:
        >>> spark_pattern("%Y/%m/%d %H:%M"), spark_pattern("%Y-%m-%dT%H:%M")
        ('yyyy/MM/dd HH:mm', "yyyy-MM-dd'T'HH:mm")
    """
    unknown = [part for part in re.findall(r"%.?", text) if part not in _DIRECTIVES]
    if unknown or "%" not in text:
        wrong = f"has {unknown[0]!r}, which isn't known" if unknown else "has no directive"
        raise InvalidInputError(
            f"the time format {text!r} {wrong}; write it like %Y/%m/%d %H:%M (known: {' '.join(_DIRECTIVES)})."
        )

    def turned(part: re.Match[str]) -> str:
        return _DIRECTIVES.get(part[0]) or "'" + part[0].replace("'", "''") + "'"

    return re.sub(r"%.|[A-Za-z']+", turned, text)
