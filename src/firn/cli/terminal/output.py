"""All printing: answers to standard output, messages to standard error, JSON by one encoder."""

from __future__ import annotations

import base64
import csv
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import orjson

from firn.cli.terminal.grid import Grid, lay_out
from firn.cli.terminal.values import values_of
from firn.units import size_text

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

WIDE = 100_000
"""Columns of a pipe: nothing there wraps lines."""

BLOCKS = 20
"""Rows that are shown of a table that is wider than the terminal: each takes several lines."""

MANY = 10_000
"""Values that Arrow casts faster than Python, with the time to load what casts them."""

SHOWN = 20
"""Keys that a dry run prints of each kind."""


def stdout() -> Console:
    """Made at each use: tests and shells replace the stream."""
    return _console(sys.stdout)


def stderr() -> Console:
    return _console(sys.stderr)


def stderr_is_terminal() -> bool:
    """Whether a person sees messages."""
    return _is_terminal(sys.stderr)


def stdin_is_terminal() -> bool:
    """Whether there is somebody to ask."""
    return sys.stdin is not None and sys.stdin.isatty()


def _console(stream: Any) -> Console:
    from rich.console import Console  # which takes longer to load than most answers to print

    terminal = _is_terminal(stream)
    width = None if terminal else WIDE
    return Console(file=stream, force_terminal=terminal, highlight=False, soft_wrap=not terminal, width=width)


def _is_terminal(stream: Any) -> bool:
    return bool(stream.isatty())


def settle_encoding() -> None:
    """Whatever the locale says, files and pipes get UTF-8, and a terminal escapes for what it can't show."""
    stream = sys.stdout
    if isinstance(stream, TextIOWrapper) and stream.encoding.lower().replace("-", "") != "utf8":
        if _is_terminal(stream):
            stream.reconfigure(errors="backslashreplace")
        else:
            stream.reconfigure(encoding="utf-8")


def line(text: str) -> None:
    """One line of an answer, taken literally."""
    sys.stdout.write(f"{text.translate(_OBEYED)}\n")
    sys.stdout.flush()


_OBEYED = dict.fromkeys(map(ord, "\a\b\v\f\r"))
"""What a terminal would do, and not show."""


def keys(found: Sequence[str]) -> None:
    """The first keys of many, a line each, and how many more there are."""
    for key in found[:SHOWN]:
        line(f"  {key}")
    if len(found) > SHOWN:
        line(f"  … and {len(found) - SHOWN} more")


def note(text: str, *, answer: bool = False) -> None:
    """A message for a person, on standard error; or, with `answer`, a less important line of the answer."""
    from rich.text import Text

    (stdout() if answer else stderr()).print(Text(text, style="dim"), soft_wrap=True)


def warn(text: str) -> None:
    _message("warning: ", "yellow", text)


def error(text: str) -> None:
    _message("error: ", "bold red", text)


def _message(kind: str, style: str, text: str) -> None:
    from rich.text import Text

    stderr().print(Text.assemble((kind, style), text), soft_wrap=True)


def encode(value: Any) -> bytes:
    """JSON: times in ISO 8601, decimals and durations as strings, bytes in base64."""
    return orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS)


def document(value: Any) -> None:
    """Print one JSON document."""
    _write(encode(value) + b"\n")
    sys.stdout.flush()


def _write(data: bytes) -> None:
    sys.stdout.write(data.decode())


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Decimal) and not value.as_tuple().exponent and abs(value) < 1 << 63:
        return int(value)
    if isinstance(value, (Decimal, timedelta)):
        return str(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    raise TypeError(type(value).__name__)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[int] = ()) -> None:
    """Print a table; where it is wider than the terminal, a block of lines for each row.

    `right`: columns of numbers.
    """
    print_grid(grid(columns, rows, right=right))


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[int] = ()) -> Grid:
    """The layout of a table on this terminal."""
    texts = [[cell(value) for value in row] for row in rows]
    return lay_out(columns, texts, right=frozenset(right), width=_width())


def _width() -> int:
    return stdout().width if _is_terminal(sys.stdout) else WIDE


def print_grid(shown: Grid) -> None:
    """Print a table that is laid out."""
    if not _is_terminal(sys.stdout):
        sys.stdout.write("".join(f"{text}\n" for text in shown.lines))
        return
    from rich.text import Text

    console = stdout()
    for number, text in enumerate(shown.lines):
        console.print(Text(text, style="bold" if number < shown.heads - 1 else ""), soft_wrap=True)


def cell(value: Any) -> str:
    """A value as people read it.

    >>> cell(None), cell(1.5), cell(datetime(2001, 1, 1, 0, 47)), cell(b"\\x01")
    ('null', '1.5', '2001-01-01 00:47:00', '01')
    """
    if value is None:
        return "null"
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        return encode(value).decode()
    return str(value)


def size(count: int | None) -> str:
    """Bytes for people, where they are known."""
    return "?" if count is None else size_text(count)


def number(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def plural(count: int | None, noun: str) -> str:
    """
    >>> plural(1, "file"), plural(1200, "row"), plural(2, "batch")
    ('1 file', '1,200 rows', '2 batches')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{number(count)} {noun}{'es' if noun.endswith(('ch', 's', 'sh')) else 's'}"


def counted(count: int, nouns: str) -> str:
    """The same for who has the plural.

    >>> counted(1, "flushes"), counted(1, "data files"), counted(2, "flushes")
    ('1 flush', '1 data file', '2 flushes')
    """
    if count != 1:
        return f"{number(count)} {nouns}"
    return f"1 {nouns.removesuffix('es' if nouns.endswith(('ches', 'shes')) else 's')}"


def plain(value: Any) -> Any:
    """A result dataclass as what JSON holds."""
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


# -- rows


def rows_of(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[tuple[Any, ...]]:
    """Rows as Python values, at most `limit`."""
    for batch in limited(batches, limit):
        yield from zip(*map(values_of, batch.columns), strict=True)


def limited(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Batches of at most `limit` rows together."""
    left = limit
    for batch in batches:
        if left is None:
            yield batch
            continue
        yield batch.slice(0, left)
        left -= batch.num_rows
        if left <= 0:
            return


def _csv_cells(column: pa.Array) -> list[str]:
    """A column's values as `cell` shows them, null as nothing; cast as a whole where that comes to the same."""
    import pyarrow as pa
    import pyarrow.types as pt

    kind = column.type
    if pt.is_temporal(kind):
        texts = _times(column)
    elif pt.is_string(kind):
        texts = column
    elif len(column) >= MANY and (pt.is_integer(kind) or pt.is_boolean(kind)):
        texts = column.cast(pa.string())
    else:
        texts = None
    if texts is None:
        return ["" if value is None else cell(value) for value in values_of(column)]
    # pc.fill_null(texts, "") would load pandas, where it is installed
    return ["" if text is None else text for text in texts.to_pylist()]


def _times(column: pa.Array) -> pa.Array | None:
    """Times as `cell` shows them; None where Arrow has no text for some."""
    import pyarrow as pa
    import pyarrow.compute as pc  # which takes long to load
    import pyarrow.types as pt

    kind = column.type
    if pt.is_timestamp(kind) and kind.unit == "us" and kind.tz in (None, "UTC"):
        texts = column.cast(pa.timestamp("us")).cast(pa.string())
        texts = pc.replace_substring_regex(texts, r"\.000000$", "")
        texts = texts if kind.tz is None else pc.binary_join_element_wise(texts, "+00:00", "")
    elif pt.is_date32(kind):
        texts = column.cast(pa.string())
    else:
        return None
    return None if pc.any(pc.match_substring_regex(texts, "^[<-]")).as_py() else texts


def unique(names: Sequence[str]) -> list[str]:
    """Names that keys of one JSON object can be: a query may return two columns of one name.

    >>> unique(["state", "n", "state"])
    ['state', 'n', 'state_2']
    """
    found: list[str] = []
    for name in names:
        candidate, count = name, 1
        while candidate in found:
            count += 1
            candidate = f"{name}_{count}"
        found.append(candidate)
    return found


def print_rows(
    schema: pa.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    json: bool = False,
    as_csv: bool = False,
    limit: int | None,
    shown: int = 100,
) -> None:
    """Print rows as JSON lines, CSV, or a table of at most `shown` rows unless a limit is given."""
    if json:
        names = unique(schema.names)
        for batch in limited(batches, limit):
            for row in rows_of([batch], None):
                _write(encode(dict(zip(names, row, strict=True))) + b"\n")
            sys.stdout.flush()  # a pipe has the first rows while others are computed
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(schema.names)
        for batch in limited(batches, limit):
            writer.writerows(zip(*map(_csv_cells, batch.columns), strict=True))
            sys.stdout.flush()
    else:
        _print_table(schema, batches, limit, shown)
    sys.stdout.flush()


def _print_table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], limit: int | None, shown: int) -> None:
    import pyarrow.types as pt

    rows = list(rows_of(batches, shown + 1 if limit is None else limit))
    more = limit is None and len(rows) > shown
    right = [
        i
        for i, f in enumerate(schema)
        if pt.is_integer(f.type) or pt.is_floating(f.type) or pt.is_decimal(f.type)
    ]
    laid = grid(schema.names, rows[:shown] if more else rows, right=right)
    if laid.blocks and limit is None and len(rows) > BLOCKS:
        more, shown = True, BLOCKS
        laid = grid(schema.names, rows[:shown], right=right)
    print_grid(laid)
    if more:
        note(f"The first {shown} rows. --limit N shows more; --json and --csv print all.")
    elif not rows:
        note("No rows.")
