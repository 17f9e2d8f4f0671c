"""Keys: bytes, or tuples of typed columns in an encoding whose bytes sort as the tuples do.

docs/format/keyed-keys.md has the encoding. No encoded tuple is the beginning of another, so the keys that begin
with some columns' values are those that begin with these columns' bytes. `key_columns` does the same for Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from firn.arrow.inputs import declared_columns
from firn.arrow.pyvalues import shown
from firn.arrow.types import arrow_schema
from firn.errors import InvalidInputError
from firn.keyed.encoding.key_cells import BLOB, KEY_TYPES, LATER, TAGS, TERMINATOR, TEXT, KeyCell, tag_of
from firn.keyed.encoding.key_columns import corrupt, decode_columns, encode_columns

MAX_KEY: Final = 65_535
"""Bytes that an encoded key may have."""


class Keys:
    """The keys of one table.

    Args:
        columns: the key's columns, name → DuckDB type, in the order they sort by; None where keys are bytes.

    Raises:
        InvalidInputError: a name or type that no key can have.

    >>> keys = Keys({"state": "VARCHAR", "year": "BIGINT"})
    >>> keys.decode(keys.encode(("MI", 2001)))
    ('MI', 2001)
    >>> Keys().encode(b"DTW")
    b'DTW'
    """

    def __init__(self, columns: pa.Schema | Mapping[str, str] | None = None) -> None:
        self.columns: dict[str, str] | None = None if columns is None else declared_columns(columns)
        """Names to DuckDB types; None where keys are bytes."""
        self.schema: pa.Schema = pa.schema([("key", pa.binary())])
        """The columns that users see."""
        self._cells: tuple[KeyCell, ...] = ()
        self._encoders: tuple[Callable[[Any], bytes], ...] = ()
        if self.columns is not None:
            if not self.columns:
                raise InvalidInputError(
                    "a typed key needs at least one column; leave `key` out for keys of bytes"
                )
            for name, kind in self.columns.items():
                if tag_of(kind) is None:
                    raise InvalidInputError(
                        f"key column {name!r} is {kind}; a key's columns can be {', '.join(TAGS)}"
                    )
            self.schema = arrow_schema(self.columns)
            self._cells = tuple(KeyCell(name, kind) for name, kind in self.columns.items())
            self._encoders = tuple(cell.encode for cell in self._cells)

    def __reduce__(self) -> tuple[type[Keys], tuple[dict[str, str] | None]]:
        return Keys, (self.columns,)

    @property
    def typed(self) -> bool:
        """Whether keys are tuples of columns."""
        return self.columns is not None

    @property
    def features(self) -> tuple[str, ...]:
        """The features that a reader must know to read them: `key-types`, where a column is DECIMAL or UUID."""
        return (KEY_TYPES,) if any(cell.tag in LATER for cell in self._cells) else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns that users see."""
        return tuple(self.schema.names)

    def encode(self, key: Any) -> bytes:
        """The bytes of a key: bytes as they are; of a typed key a tuple, or a lone value if it has one column.

        Raises:
            InvalidInputError: not a key of this table, empty or too long.
        """
        if self.columns is None:
            encoded = key if type(key) is bytes else _as_bytes(key)
            if not encoded:
                raise InvalidInputError("an empty key can't be: a key has at least one byte")
        else:
            parts = self._parts(key)
            if len(parts) != len(self._cells):
                raise InvalidInputError(
                    f"{shown(key)} has {len(parts)} of the key's {len(self._cells)} columns ({', '.join(self.names)})"
                )
            encoded = b"".join([encode(part) for encode, part in zip(self._encoders, parts, strict=True)])
        if len(encoded) > MAX_KEY:
            raise InvalidInputError(f"a key of {len(encoded):,} bytes is too long: at most {MAX_KEY:,} fit")
        return encoded

    def bound(self, key: Any) -> bytes | None:
        """The bytes where a range begins or ends: as `encode`, but a tuple may have only the first columns.

        None stays None, the open end.
        """
        if key is None:
            return None
        if self.columns is None:
            return key if type(key) is bytes else _as_bytes(key)
        parts = self._parts(key)
        if len(parts) > len(self._cells):
            raise InvalidInputError(
                f"{shown(key)} has {len(parts)} columns, the key {len(self._cells)} ({', '.join(self.names)})"
            )
        return b"".join([cell.encode(part) for cell, part in zip(self._cells, parts, strict=False)])

    def prefix(self, key: Any) -> tuple[bytes | None, bytes | None]:
        """The range of keys that begin with `key`: its first byte string, and the first behind it or None.

        A typed key begins with it if its first columns are these; if all columns are given and the last is text or
        bytes, if its last column begins with it.

        >>> Keys().prefix(b"DT")
        (b'DT', b'DU')
        >>> Keys({"state": "VARCHAR", "city": "VARCHAR"}).prefix(("MI", "De"))
        (b' MI\\x00\\x00 De', b' MI\\x00\\x00 Df')
        """
        start = self.bound(key)
        if start is None:
            return None, None
        if self._cells:
            last = self._parts(key)
            whole = len(last) == len(self._cells) and last[-1] is not None
            if whole and self._cells[-1].tag in (TEXT, BLOB):
                start = start[: -len(TERMINATOR)]
        return start or None, successor(start)

    def decode(self, encoded: bytes) -> Any:
        """The key that was encoded: bytes, a tuple, or the lone value of a key with one column.

        Raises:
            CorruptObjectError: not an encoded key of this table.
        """
        try:
            return self.decode_list(pa.array([encoded], pa.binary()))[0]
        except (OverflowError, ValueError) as error:  # a time that Python doesn't have
            raise corrupt(self._cells) from error

    def decode_array(self, encoded: pa.Array) -> list[pa.Array]:
        """The columns that users see, of an array of encoded keys. Vectorised.

        >>> keys = Keys({"state": "VARCHAR", "year": "BIGINT"})
        >>> [column.to_pylist() for column in keys.decode_array(pa.array([keys.encode(("MI", 2001))]))]
        [['MI'], [2001]]
        """
        return [encoded] if self.columns is None else decode_columns(self._cells, encoded)

    def decode_list(self, encoded: pa.Array) -> list[Any]:
        """What `decode` gives for each of many keys, faster.

        >>> keys = Keys({"state": "VARCHAR", "year": "BIGINT"})
        >>> keys.decode_list(pa.array([keys.encode(("MI", 2001))]))
        [('MI', 2001)]
        """
        if self.columns is None:
            return list(encoded.to_pylist())
        columns = [column.to_pylist() for column in decode_columns(self._cells, encoded)]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def encode_arrays(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The encoded keys of whole columns, in the order and of the types of `schema`. Vectorised."""
        return columns[0] if self.columns is None else encode_columns(self._cells, columns)

    def _parts(self, key: Any) -> tuple[Any, ...]:
        kind = type(key)
        if kind is tuple:
            return key  # type: ignore[no-any-return]
        if kind is str or kind is int:
            return (key,)
        if isinstance(key, list):
            return tuple(key)
        if isinstance(key, Mapping):
            names = self.names[: len(key)]
            if set(names) != set(key):
                raise InvalidInputError(
                    f"{shown(key)} doesn't name the first of the key's columns, {', '.join(self.names)}"
                )
            return tuple(key[name] for name in names)
        return (key,)


def successor(prefix: bytes) -> bytes | None:
    """The first byte string behind all that begin with `prefix`; None where there is none.

    >>> successor(b"a\\xff"), successor(b"\\xff")
    (b'b', None)
    """
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


def _as_bytes(key: Any) -> bytes:
    if not isinstance(key, bytes | bytearray | memoryview):
        raise InvalidInputError(
            f"{shown(key)} is not a key of this table: give bytes, or create the table with key={{column: type}}"
        )
    return bytes(key)
