"""Rows that stand in a log, as JSON has them: what an append of few rows has instead of files.

Here they are plain values; `firn.arrow.json_columns` makes columns of them. See docs/design/0018-inlined-rows.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import orjson

from firn.errors import CorruptObjectError
from firn.lumps import lumps
from firn.pauses import no_collection

INLINE = "inline"  # frozen
"""The key of a log's line that holds rows, and the feature that its header needs."""

ROWS = "#rows"  # frozen
"""The end of the path under which the rows of a log are known. No object has such a key."""

LINE_START = b'{"firn":{"%b":' % INLINE.encode()
"""How Firn begins a line of rows."""

PARSED_BYTES = 128 << 10
"""Bytes of rows up to which they are parsed by one pass: less than a millisecond."""

_COUNTED = re.compile(re.escape(LINE_START) + rb'\{"n":([1-9][0-9]*),')
_WRAPPED = len(LINE_START) + len(b"}}")
_KEYS = frozenset(("n", "v"))


@dataclass(frozen=True)
class InlinedRows:
    """Rows of one log, or of several alike: a value for each column of `columns` (physical name → DuckDB type name),
    `count` times. `line` is the log's line as it stands there, which is parsed when the values are asked for; of
    several logs, `parts` has each. `where` names the log, for errors. Picklable."""

    columns: Mapping[str, str] = field(hash=False)
    line: bytes
    count: int
    where: str = field(default="", compare=False)
    parts: tuple[InlinedRows, ...] = ()

    @staticmethod
    def of(columns: Mapping[str, str], values: Sequence[Sequence[Any]], count: int) -> InlinedRows:
        """These values, `count` of each column.

        >>> InlinedRows.of({"a": "BIGINT"}, [[1, 2]], 2).line
        b'{"firn":{"inline":{"n":2,"v":[[1,2]]}}}'
        """
        return InlinedRows(columns, orjson.dumps({"firn": {INLINE: {"n": count, "v": values}}}), count)

    @staticmethod
    def of_body(columns: Mapping[str, str], body: bytes, count: int, where: str) -> InlinedRows:
        """Rows of a writer's catalog, which has them without the frame of a line."""
        return InlinedRows(columns, LINE_START + body + b"}}", count, where)

    @property
    def body(self) -> bytes:
        """The encoded rows alone."""
        return self.line[len(LINE_START) : -len(b"}}")]

    @property
    def size(self) -> int:
        """Bytes of the encoded rows alone."""
        return len(self.line) - _WRAPPED

    def values(self) -> dict[str, Sequence[Any]]:
        """The values of each column. Parses the lines, each time that it is called.

        Raises:
            CorruptObjectError: they aren't rows of these columns. Whether values are of their types is seen when they
                are decoded.
        """
        parts = self.parts or (self,)
        with no_collection():
            each = [part._checked(line) for part, line in zip(parts, _parsed(parts), strict=True)]
            columns = (list(chain.from_iterable(values)) for values in zip(*each, strict=True))
            return dict(zip(self.columns, columns, strict=True))

    def _checked(self, line: Any) -> Sequence[Sequence[Any]]:
        try:
            raw = (orjson.loads(self.line) if line is None else line)["firn"][INLINE]
            if not isinstance(raw, dict) or raw.keys() != _KEYS or raw["n"] != self.count:
                raise ValueError("its rows aren't an object of `n` and `v`")
            values = raw["v"]
            if not isinstance(values, list) or len(values) != len(self.columns):
                raise ValueError(f"its rows haven't the {len(self.columns)} columns of its schema")
            for name, column in zip(self.columns, values, strict=True):
                if not isinstance(column, list) or len(column) != self.count:
                    raise ValueError(f"the column {name!r} of its rows hasn't {self.count} values")
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptObjectError(
                f"{self.where}: {error}: the object was changed. Copy it back from a backup or an older object "
                "version."
            ) from error
        return values


def _parsed(parts: Sequence[InlinedRows]) -> Sequence[Any]:
    """The parsed lines, a lump of them by one pass, so that other threads needn't wait for long; None for each of a
    lump where one is damaged, and it isn't known which."""
    found: list[Any] = []
    for lump in lumps([part.line for part in parts], len, PARSED_BYTES):
        try:
            lines = orjson.loads(b"[" + b",".join(lump) + b"]")
        except ValueError:
            lines = ()
        found += lines if len(lines) == len(lump) else [None] * len(lump)
    return found


def rows_in(line: bytes, columns: Mapping[str, str], where: str) -> InlinedRows:
    """The rows of a log's line. `ValueError`, `KeyError` or `TypeError` if it doesn't say how many.

    >>> rows_in(b'{"firn":{"inline":{"n":2,"v":[[1,2]]}}}', {"a": "BIGINT"}, "").count
    2
    """
    told = _COUNTED.match(line)
    count = int(told[1]) if told is not None else orjson.loads(line)["firn"][INLINE]["n"]
    if type(count) is not int or count < 1:
        raise ValueError("its rows have no count")
    return InlinedRows(columns, line, count, where)


def joined(parts: Sequence[InlinedRows]) -> InlinedRows:
    """The rows of several parts with the same columns, one after the other."""
    first = parts[0]
    return InlinedRows(first.columns, b"", sum(part.count for part in parts), first.where, tuple(parts))
