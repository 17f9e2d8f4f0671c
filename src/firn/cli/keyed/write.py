"""Commands that change keyed tables: put, merge, delete, load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from firn.cli.call import KeyedCall, on_table
from firn.cli.input.inputs import read_all, read_bytes
from firn.cli.keyed.group import Hex, KeyArg, Ttl, ValueArg, keyed
from firn.cli.keyed.ingest import columns_of, loaded_line
from firn.cli.keyed.text import Words
from firn.cli.options import argument
from firn.cli.write import Delimiter, Format, TimestampFormat, check_format
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from firn.keyed.write.writer import KeyedWriter


@on_table(keyed, "keyed")
def put(call: KeyedCall, key: KeyArg, value: ValueArg, ttl: Ttl = None, hex: Hex = False) -> None:
    """Set a key's value. This takes over from the table's writer: a program that has it open is fenced.

    firn keyed put ./prod/delays DTW 66
    """
    named, given = _entry(call, key, value, hex)
    _write(call, lambda kv: kv.put(named, given, ttl=ttl), f"put {key}")


@on_table(keyed, "keyed")
def merge(
    call: KeyedCall,
    key: KeyArg,
    operand: Annotated[str, argument("OPERAND", "What the table's merge operator takes, like a value.")],
    ttl: Ttl = None,
    hex: Hex = False,
) -> None:
    """Combine an operand with a key's value by the table's merge operator. Takes over from the writer, as put does.

    firn keyed merge ./prod/delays DTW '{"flights": 1, "minutes": 66}'
    """
    named, given = _entry(call, key, operand, hex)
    _write(call, lambda kv: kv.merge(named, given, ttl=ttl), f"merged into {key}")


@on_table(keyed, "keyed")
def delete(
    call: KeyedCall,
    keys: Annotated[list[str], argument("KEY...", "Text, a number, …; of several columns a JSON array.")],
    hex: Hex = False,
) -> None:
    """Delete keys, all at once; those that aren't there are fine. Takes over from the writer, as put does."""
    from firn.keyed.write.batch import WriteBatch

    words = Words.of(call.table, hex=hex)
    batch = WriteBatch()
    for key in keys:
        batch.delete(words.key(key))
    _write(call, lambda kv: kv.write(batch), f"deleted {', '.join(keys)}")


@on_table(keyed, "keyed")
def load(
    call: KeyedCall,
    files: Annotated[list[str], argument("FILE...", "JSON, JSON lines, CSV or Parquet; - is stdin.")],
    format: Format = "auto",
    delimiter: Delimiter = None,
    timestamp_format: TimestampFormat = None,
) -> None:
    """Load many rows at once, straight into sorted files. The table's writer may go on meanwhile.

    The files have the table's columns: key and value, or the typed ones. A compactor that is at work is fenced.

    firn keyed load ./prod/delays delays.parquet
    """
    check_format(format)
    known = columns_of(call.table)
    rows = read_all(files, format=format, delimiter=delimiter, timestamp_format=timestamp_format, known=known)
    with call.progress("loading"):
        report = call.table.load(_as_bytes(rows, known))
    call.answer(report, loaded_line(call.name, report))


def _as_bytes(rows: Any, known: dict[str, str]) -> Any:
    """Text as bytes, where the table has bytes."""
    import pyarrow as pa

    for i, field in enumerate(rows.schema):
        if known.get(field.name) == "BLOB" and pa.types.is_string(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.binary()))
    return rows


def _entry(call: KeyedCall, key: str, value: str, hex: bool) -> tuple[Any, Any]:
    """A key and a value of the table."""
    words = Words.of(call.table, hex=hex)
    return words.key(key), _value(words, value)


def _value(words: Words, word: str) -> Any:
    if word != "-":
        return words.value(word)
    data = read_bytes("-")
    if words.columns is None and not words.hex:
        return data
    try:
        return words.value(data.decode().strip())
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"the value on standard input isn't UTF-8 text: {error}.") from error


def _write(call: KeyedCall, change: Callable[[KeyedWriter], None], what: str) -> None:
    """Open the table, make one durable change, close it."""
    with call.table.open(compaction=False) as kv:
        change(kv)
    call.say({"durable": True, **call.meter.plain()}, f"{what} in {call.name}")
