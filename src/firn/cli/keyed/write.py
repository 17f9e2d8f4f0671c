"""Commands that change keyed tables: put, merge, delete, load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from firn.cli.input.inputs import read_all, read_bytes
from firn.cli.keyed.group import keyed
from firn.cli.keyed.ingest import columns_of, print_loaded
from firn.cli.keyed.target import Hex, KeyArg, Ttl, ValueArg, open_keyed
from firn.cli.keyed.text import Words
from firn.cli.options import argument
from firn.cli.target import DbOption, Json, StoreOptions, TableArg
from firn.cli.terminal import output, waiting
from firn.cli.write import Delimiter, Format, TimestampFormat, check_format
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from firn.keyed.table import KeyedTable
    from firn.keyed.write.writer import KeyedWriter


@keyed.command()
def put(
    table: TableArg,
    key: KeyArg,
    value: ValueArg,
    db: DbOption = None,
    ttl: Ttl = None,
    hex: Hex = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Set a key's value. This takes over from the table's writer: a program that has it open is fenced.

    firn keyed put ./prod/delays DTW 66
    """
    opened, named, given = _entry(table, db, options, key, value, hex)
    _write(opened, lambda kv: kv.put(named, given, ttl=ttl), f"put {key}", json)


@keyed.command()
def merge(
    table: TableArg,
    key: KeyArg,
    operand: Annotated[str, argument("OPERAND", "What the table's merge operator takes, like a value.")],
    db: DbOption = None,
    ttl: Ttl = None,
    hex: Hex = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Combine an operand with a key's value by the table's merge operator. Takes over from the writer, as put does.

    firn keyed merge ./prod/delays DTW '{"flights": 1, "minutes": 66}'
    """
    opened, named, given = _entry(table, db, options, key, operand, hex)
    _write(opened, lambda kv: kv.merge(named, given, ttl=ttl), f"merged into {key}", json)


@keyed.command()
def delete(
    table: TableArg,
    keys: Annotated[list[str], argument("KEY...", "Text, a number, …; of several columns a JSON array.")],
    db: DbOption = None,
    hex: Hex = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Delete keys, all at once; those that aren't there are fine. Takes over from the writer, as put does."""
    from firn.keyed.write.batch import WriteBatch

    _, opened = open_keyed(table, db, options)
    words = Words.of(opened.definition, hex=hex)
    batch = WriteBatch()
    for key in keys:
        batch.delete(words.key(key))
    _write(opened, lambda kv: kv.write(batch), f"deleted {', '.join(keys)}", json)


@keyed.command()
def load(
    table: TableArg,
    files: Annotated[list[str], argument("FILE...", "JSON, JSON lines, CSV or Parquet; - is stdin.")],
    db: DbOption = None,
    format: Format = "auto",
    delimiter: Delimiter = None,
    timestamp_format: TimestampFormat = None,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Load many rows at once, straight into sorted files. The table's writer may go on meanwhile.

    The files have the table's columns: key and value, or the typed ones. A compactor that is at work is fenced.

    firn keyed load ./prod/delays delays.parquet
    """
    check_format(format)
    database, opened = open_keyed(table, db, options)
    known = columns_of(opened)
    rows = read_all(files, format=format, delimiter=delimiter, timestamp_format=timestamp_format, known=known)
    meter = waiting.Meter(opened.bucket)
    with waiting.progress(database, f"loading {opened.name}"):
        report = opened.load(_as_bytes(rows, known))
    print_loaded(opened.name, report, meter, json)


def _as_bytes(rows: Any, known: dict[str, str]) -> Any:
    """Text as bytes, where the table has bytes."""
    import pyarrow as pa

    for i, field in enumerate(rows.schema):
        if known.get(field.name) == "BLOB" and pa.types.is_string(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.binary()))
    return rows


def _entry(
    table: str, db: str | None, options: list[str] | None, key: str, value: str, hex: bool
) -> tuple[KeyedTable, Any, Any]:
    """A table, with a key and a value of it."""
    _, opened = open_keyed(table, db, options)
    words = Words.of(opened.definition, hex=hex)
    return opened, words.key(key), _value(words, value)


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


def _write(table: KeyedTable, change: Callable[[KeyedWriter], None], what: str, json: bool) -> None:
    """Open the table, make one durable change, close it."""
    meter = waiting.Meter(table.bucket)
    with table.open(compaction=False) as kv:
        change(kv)
    if json:
        output.document({"table": table.name, "durable": True, **meter.plain()})
    else:
        output.line(f"{what} in {table.name}")
