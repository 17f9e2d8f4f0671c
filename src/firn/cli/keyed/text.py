"""Keys and values as words of a shell: bytes as text or hexadecimal, typed keys and rows as JSON.

Nothing is guessed from how a word looks: the table's definition says what it is, and `--hex` that bytes come and go
as hexadecimal digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson

from firn.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.keyed.table import KeyedTable


def columns_now(table: KeyedTable) -> Mapping[str, str] | None:
    """The columns of values; None for values that are bytes. The cost of reading the table's metadata."""
    from firn.keyed.maintain.alter import definition_now

    return None if table.definition.columns is None else definition_now(table).columns


@dataclass(frozen=True)
class Words:
    """How one table's keys and values are written.

    Example:
        >>> Words(None, None).key("DTW"), Words(None, None, hex=True).key("445457")
        (b'DTW', b'DTW')
        >>> Words({"state": "VARCHAR", "year": "BIGINT"}, None).key('["MI", 2001]')
        ('MI', 2001)
        >>> Words(None, {"n": "BIGINT"}).value('{"n": 7}')
        {'n': 7}
    """

    keys: Mapping[str, str] | None
    columns: Mapping[str, str] | None
    hex: bool = False

    @staticmethod
    def of(table: KeyedTable, *, hex: bool = False) -> Words:
        """Those of a table, by the columns that it has now."""
        return Words(table.definition.key, columns_now(table), hex)

    def key(self, word: str) -> Any:
        """A key: text, a number, …; of several columns a JSON array."""
        if self.keys is None:
            return self._bytes(word, "key")
        if len(self.keys) > 1:
            return self._tuple(word)
        ((name, kind),) = self.keys.items()
        return self._column(name, kind, word)

    def bound(self, word: str) -> Any:
        """Where a range begins or ends: a key, or of several columns the values of the first ones."""
        return (
            self._tuple(word, part=True) if self.keys is not None and len(self.keys) > 1 else self.key(word)
        )

    def prefix(self, word: str) -> Any:
        """The beginning of a key: of several columns, the values of the first ones."""
        return self._bytes(word, "prefix") if self.keys is None else self.bound(word)

    def value(self, word: str) -> Any:
        """A value: text; of a table with a schema a JSON object."""
        if self.columns is None:
            return self._bytes(word, "value")
        try:
            row = orjson.loads(word)
        except orjson.JSONDecodeError as error:
            raise InvalidInputError(f"the value {word!r} isn't a JSON object: {error}.") from error
        if not isinstance(row, dict):
            raise InvalidInputError(
                f"the value {word!r} isn't a JSON object like {{{self._first_column()}: …}}."
            )
        return typed_row(row, self.columns)

    def plain_key(self, key: Any) -> Any:
        """A key as JSON holds it."""
        return self.plain(key) if self.keys is None else list(key) if isinstance(key, tuple) else key

    def plain(self, value: Any) -> Any:
        """A value as JSON holds it: bytes become text."""
        if isinstance(value, (bytes, bytearray)):
            return bytes(value).hex() if self.hex else _text(bytes(value))
        return value

    def shown(self, value: Any) -> str:
        """A value, or a key, on a line of its own."""
        from firn.cli.terminal.output import encode

        plain = self.plain(list(value) if isinstance(value, tuple) else value)
        return plain if isinstance(plain, str) else encode(plain).decode()

    def batches(self, found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A scan's batches with bytes as text, or as hexadecimal digits."""
        import pyarrow as pa

        for batch in found:
            columns = [
                self._shown_column(name, column) if _holds_bytes(column.type) else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def schema(self, of: pa.Schema) -> pa.Schema:
        """The columns of `batches`."""
        import pyarrow as pa

        return pa.schema([(f.name, pa.string() if _holds_bytes(f.type) else f.type) for f in of])

    # -- parts

    def _bytes(self, word: str, what: str) -> bytes:
        if not self.hex:
            # Bytes of a shell that aren't UTF-8 arrive as surrogates, and leave as the same bytes.
            return word.encode("utf-8", "surrogateescape")
        try:
            return bytes.fromhex(word.removeprefix("0x"))
        except ValueError:
            raise InvalidInputError(f"the {what} {word!r} isn't hexadecimal, as --hex says.") from None

    def _tuple(self, word: str, *, part: bool = False) -> tuple[Any, ...]:
        assert self.keys is not None
        like = f"a JSON array of {', '.join(self.keys)}"
        try:
            values = json.loads(word, parse_float=Decimal)  # which is exact
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, list) or len(values) > len(self.keys) or not values:
            raise InvalidInputError(f"the key {word!r} isn't {like}.")
        if len(values) < len(self.keys) and not part:
            raise InvalidInputError(f"the key {word!r} has {len(values)} of the columns: it must be {like}.")
        kinds = list(self.keys.items())[: len(values)]
        return tuple(self._column(n, k, v) for (n, k), v in zip(kinds, values, strict=True))

    def _column(self, name: str, kind: str, value: Any) -> Any:
        """One column's value of its type, from a word or from JSON."""
        import pyarrow as pa

        from firn.arrow.types import arrow_type

        if value is None:
            return None
        if kind == "BLOB" and isinstance(value, str):
            return self._bytes(value, name)
        text = isinstance(value, str)
        if not text and kind == "VARCHAR":
            raise InvalidInputError(f"the key's column {name} is text, not {value}: write it in quotes.")
        try:
            if kind.startswith("DECIMAL("):
                value = str(value)
            elif isinstance(value, Decimal):
                value = float(value)
            return pa.array([value]).cast(arrow_type(kind)).to_pylist()[0]
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise InvalidInputError(
                f"{value!r} can't be the key's column {name}, which is {kind}."
            ) from error

    def _first_column(self) -> str:
        return f'"{next(iter(self.columns or {}), "name")}"'

    def _shown_column(self, name: str, column: pa.Array) -> pa.Array:
        import pyarrow as pa

        if self.hex:
            return pa.array([None if v is None else v.hex() for v in column.to_pylist()], pa.string())
        try:
            return column.cast(pa.string())
        except pa.ArrowInvalid:
            raise InvalidInputError(
                f"the column {name} holds bytes that aren't UTF-8 text: give --hex."
            ) from None


def typed_row(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """A row of JSON with the types of a table's columns; those that it lacks are left out."""
    import pyarrow as pa

    from firn.arrow.types import conform
    from firn.cli.input.inputs import with_times

    if unknown := [name for name in row if name not in columns]:
        raise InvalidInputError(
            f"the table's values have no column {unknown[0]!r}; there are: {', '.join(columns)}."
        )
    if not row:
        raise InvalidInputError(f"a value needs one of the columns at least: {', '.join(columns)}.")
    mine = {name: kind for name, kind in columns.items() if name in row}
    read: dict[str, pa.ChunkedArray] = {}
    for name, kind in mine.items():
        try:
            one = with_times(pa.table({name: pa.array([row[name]])}), None, {name: kind})
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise InvalidInputError(
                f"{row[name]!r} can't be the value's column {name}, which is {kind}."
            ) from error
        read[name] = one.column(name)
    found: dict[str, Any] = conform(pa.table(read), mine).to_pylist()[0]
    return found


def _holds_bytes(kind: pa.DataType) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind))


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise InvalidInputError(
            f"{value[:20]!r}{'…' if len(value) > 20 else ''} isn't UTF-8 text: give --hex."
        ) from None


def one_of(options: Sequence[tuple[str, bool]]) -> None:
    """Refuse options that exclude one another."""
    given = [name for name, there in options if there]
    if len(given) > 1:
        raise InvalidInputError(f"choose one of {' and '.join(given)}.")
