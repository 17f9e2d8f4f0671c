"""Rows that wait to be appended, their size, and where a batch of them ends. Nothing here touches the bucket."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, TypeAlias

from firn.arrow.inputs import InputRows
from firn.errors import InvalidInputError
from firn.journal.model import Counted
from firn.units import Duration, Size, parse_duration, parse_size

Row: TypeAlias = dict[str, Any]

BatchIds: TypeAlias = str | Callable[[Any], str | None]
"""A text before the number of each batch; or what gives the id of the batch that ends with the row at a position,
None if it goes on."""

ROW_BYTES = 256
"""What a row takes in memory besides its values, about."""

_NUMBER_BYTES = 8
_TEXTS = frozenset((str, bytes))
_NUMBERS = frozenset((int, float, bool, type(None), datetime, date, time, Decimal))
_FIXED = _TEXTS | _NUMBERS


def bytes_of(row: Mapping[str, Any]) -> int:
    """The bytes of a row's values, about: texts and bytes have their length, everything else that isn't nested 8.

    >>> bytes_of({"kind": "click", "at": 5, "tags": ["a", "bc"]})
    24
    """
    size = 0
    for value in row.values():
        kind = type(value)
        if kind in _TEXTS:
            size += len(value)
        elif kind in _NUMBERS:
            size += _NUMBER_BYTES
        else:
            size += _bytes_of_value(value)
    return size


def _bytes_of_value(value: Any) -> int:
    if isinstance(value, str | bytes | bytearray):
        return len(value)
    if isinstance(value, Mapping):
        return bytes_of(value)
    if isinstance(value, list | tuple | set):
        return _NUMBER_BYTES + sum(map(_bytes_of_value, value))
    size = getattr(value, "nbytes", _NUMBER_BYTES)  # arrays have it
    return size if isinstance(size, int) else _NUMBER_BYTES


def copied(row: Mapping[str, Any]) -> Row:
    """A row that nothing changes any more: its program may go on with the lists and dicts in it, too.

    >>> tags = ["a"]
    >>> row = copied({"tags": tags})
    >>> tags.append("b")
    >>> row
    {'tags': ['a']}
    """
    row = dict(row)
    for name, value in row.items():
        if type(value) not in _FIXED:
            row[name] = _copied_value(value)
    return row


def _copied_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied_value(item) for item in value]
    if isinstance(value, tuple):
        return tuple(map(_copied_value, value))
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value.copy() if type(value).__name__ == "ndarray" else value


@dataclass(frozen=True)
class Limits:
    """When a commit begins, and how many bytes of rows may wait."""

    seconds: float
    rows: int
    bytes: int
    max_pending: int

    @staticmethod
    def of(seconds: Duration, rows: int, size: Size, max_pending: Size) -> Limits:
        """As users write them; `InvalidInputError` for what can't be."""
        limits = Limits(parse_duration(seconds), rows, parse_size(size), parse_size(max_pending))
        for name, value in (("rows", rows), ("bytes", limits.bytes), ("max_pending", limits.max_pending)):
            if value < 1:
                raise InvalidInputError(f"appender: {name} is {value}; it must be at least 1.")
        return limits


class BatchEnds:
    """The rows as they are taken, and the batches that end with one because its source says so."""

    def __init__(self, table: str, ids: BatchIds | None) -> None:
        self._table, self._ids = table, ids

    def checked(self, row: Mapping[str, Any]) -> Row:
        """A row as it is now."""
        if not ((type(row) is dict or isinstance(row, Mapping)) and row):  # a DataFrame has no truth value
            raise InvalidInputError(
                f"{self._table}: {row!r:.80} isn't a row: add a dict of values by column, with at least one."
            )
        try:
            return copied(row)
        except RecursionError:
            raise InvalidInputError(
                f"{self._table}: a row is nested too deeply. It wasn't taken: nest its values less, or add them as "
                "JSON text."
            ) from None

    def id_at(self, position: Any, wait: bool) -> str | None:
        """The id of the batch that ends with a row, by a function; None if it goes on, or its size says."""
        if not callable(self._ids):
            if position is not None:
                raise InvalidInputError(
                    f"{self._table}: position={position!r:.80} says nothing to this appender: open it with a "
                    "function as batch_ids, which gives the id of the batch that ends with the row there."
                )
            if wait and self._ids is not None:
                raise self._waits_for_itself()
            return None
        found = None if position is None else self._ids(position)
        if found is not None and not (isinstance(found, str) and found):
            raise InvalidInputError(
                f"{self._table}: batch_ids gave {found!r:.80} for the position {position!r:.80}: it must be the id "
                "of the batch that ends there, a text, or None."
            )
        if wait and found is None:
            raise self._waits_for_itself()
        return found

    def _waits_for_itself(self) -> InvalidInputError:
        return InvalidInputError(
            f"{self._table}: wait=True for a row with which no batch ends would wait for rows that come after it. "
            "Leave wait out, and call flush() where a batch ends."
        )


@dataclass(eq=False)
class Batch:
    """Rows of one commit. `since` is the time of the first; `done` becomes whether it was committed; `rejected` are
    rows that didn't fit, with their errors, and aren't in `rows` any more. `joined` are the rows as they were brought
    together by parts, if Python values of all of them at once make no column.

    `counted` says how many rows of its source a batch has that is called by a number. `tells`: it is remembered, of
    the first one, which shows whether another appender counted as this one does, and of those that aren't whole.
    `there` counts rows that a shorter batch of its id had; `whole` has the source's rows if some were rejected."""

    rows: list[Row] = field(default_factory=list)
    size: int = 0
    since: float = 0.0
    id: str | None = None
    weight: int = 0
    rejected: list[tuple[Row, Exception]] = field(default_factory=list)
    joined: InputRows | None = None
    counted: Counted | None = None
    tells: bool = False
    there: int = 0
    whole: list[Row] | None = None
    done: Future[bool] = field(default_factory=Future)

    def add(self, row: Row, size: int) -> None:
        self.rows.append(row)
        self.size += size
        self.weight += size + ROW_BYTES

    def is_full(self, limits: Limits) -> bool:
        """Whether it needn't wait for more rows."""
        return len(self.rows) >= limits.rows or self.size >= limits.bytes

    def wait(self, limits: Limits, now: float) -> float:
        """Seconds until it is to be committed; 0 or less by now."""
        return 0.0 if self.is_full(limits) else self.since + limits.seconds - now

    @property
    def source(self) -> list[Row]:
        """Its rows, with those that were rejected."""
        return self.rows if self.whole is None else self.whole

    def begin_behind(self, rows: int) -> None:
        """Leave out the first rows of its source: they are there, under its id. The others have one of their own."""
        assert self.counted is not None
        self.whole = self.source[rows:]
        left = {id(row) for row in self.whole}
        kept = [row for row in self.rows if id(row) in left]
        self.there += len(self.rows) - len(kept)
        self.rows, self.joined = kept, None
        self.counted = Counted(self.counted.rows - rows, self.counted.whole - rows)
        self.id, self.tells = f"{self.id}+{rows}", True

    def error_of(self, row: Row) -> Exception | None:
        """Why a row of it was rejected, if it was."""
        return next((error for rejected, error in self.rejected if rejected is row), None)


def grouped(rejected: Sequence[tuple[Row, Exception]]) -> list[tuple[list[Row], Exception]]:
    """Rows that were rejected by the same error together, in order."""
    found: dict[tuple[type, str], tuple[list[Row], Exception]] = {}
    for row, error in rejected:
        found.setdefault((type(error), str(error)), ([], error))[0].append(row)
    return list(found.values())
