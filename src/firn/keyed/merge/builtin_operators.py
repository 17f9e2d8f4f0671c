"""The built-in merge operators, on bytes and column by column on typed rows, and operators that users write.

All built-in ones are associative: what operands make of one another, and then of a base, is what they make of the
base one by one. None of them ever fails on values that passed its `check`.
"""

from __future__ import annotations

import importlib
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from firn.arrow.casting import is_list
from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError
from firn.keyed.encoding.values import Values
from firn.keyed.merge.json_patch import apply_patch, compose_patches, dump_json, load_json

BUILT_IN: Final = ("add", "max", "min", "append", "json_merge")

_INTEGER = re.compile(rb"[+-]?[0-9]{1,1000}")
_EXACT = Context(prec=100)
"""Python's own context has 28 digits, and a DECIMAL up to 38."""
_NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Cells:
    """Merges the values of one column, or of a table of bytes. `merge` and `combine` get no nulls among operands."""

    compact = True
    on_base_as_among_operands = True
    """Whether an operand does to a base what it does to an older operand; then nothing else than `combine` counts."""

    def check(self, value: Any) -> None:
        """`InvalidInputError` for what can't be merged."""

    def both(self, older: Any, newer: Any) -> Any:
        """`combine` of two."""
        return self.combine((older, newer))

    def merge(self, base: Any, operands: Sequence[Any]) -> Any:
        return self.combine(operands if base is None else (base, *operands))

    def combine(self, operands: Sequence[Any]) -> Any:
        """None where they can't be combined."""
        return operands[-1]


class AddText(Cells):
    """Whole numbers as decimal text, of any size."""

    def check(self, value: bytes) -> None:
        if _INTEGER.fullmatch(value) is None:
            raise InvalidInputError(
                f"{shown(value)} can't be added: values of this table are whole numbers as text, such as b'66'"
            )

    def combine(self, operands: Sequence[bytes]) -> bytes:
        return b"%d" % sum(map(int, operands))


class AddIntegers(Cells):
    """Sums of whole numbers; past the ends of the type they go round, as in the machine, so that no sum fails."""

    def __init__(self, kind: pa.DataType) -> None:
        self._span = 1 << kind.bit_width
        self._low = -(self._span >> 1) if pt.is_signed_integer(kind) else 0
        self._end = self._low + self._span

    def both(self, older: int, newer: int) -> int:
        total = older + newer
        return total if self._low <= total < self._end else self.combine((total,))

    def combine(self, operands: Sequence[int]) -> int:
        return int((sum(operands) - self._low) % self._span + self._low)


class AddDecimals(Cells):
    """Sums of decimals; they go round as whole numbers do, past the digits of the type."""

    def __init__(self, kind: pa.DataType) -> None:
        self._scale = kind.scale
        self._half = 10**kind.precision

    def combine(self, operands: Sequence[Decimal]) -> Decimal:
        units = sum(int(operand.scaleb(self._scale, _EXACT)) for operand in operands)
        units = (units + self._half) % (2 * self._half) - self._half
        sign, digits = int(units < 0), tuple(map(int, str(abs(units))))
        return Decimal((sign, digits, -self._scale))


class AddFloats(Cells):
    """Sums of floats, rounded to the column's width."""

    def __init__(self, kind: pa.DataType) -> None:
        self._single = pt.is_float32(kind)

    def combine(self, operands: Sequence[float]) -> float:
        total = float(sum(operands))
        if not self._single:
            return total
        try:
            return float(struct.unpack("<f", struct.pack("<f", total))[0])
        except OverflowError:
            return math.copysign(math.inf, total)


class Extreme(Cells):
    """The greatest or the least; NaN counts only where there is nothing else."""

    def __init__(self, *, greatest: bool) -> None:
        self.greatest = greatest

    def both(self, older: Any, newer: Any) -> Any:
        if older != older:
            return newer
        if newer != newer:
            return older
        return max(older, newer) if self.greatest else min(older, newer)

    def combine(self, operands: Sequence[Any]) -> Any:
        ordered = [operand for operand in operands if operand == operand]
        if not ordered:
            return operands[0]
        return max(ordered) if self.greatest else min(ordered)


class Append(Cells):
    """One behind the other: text, bytes or lists."""

    compact = False

    def combine(self, operands: Sequence[Any]) -> Any:
        first = operands[0]
        if isinstance(first, list):
            return [item for operand in operands for item in operand]
        return first[:0].join(operands)


class JsonMerge(Cells):
    """JSON merge patches (RFC 7396): objects are merged, a null removes its key, all else replaces."""

    compact = False
    on_base_as_among_operands = False

    def __init__(self, *, text: bool) -> None:
        self._text = text

    def check(self, value: Any) -> None:
        try:
            load_json(value)
        except ValueError as error:
            raise InvalidInputError(
                f"{shown(value)} is not JSON, and values of this table are: {error}"
            ) from None

    def merge(self, base: Any, operands: Sequence[Any]) -> Any:
        merged = None if base is None else load_json(base)
        for operand in operands:
            merged = apply_patch(merged, load_json(operand))
        return self._dumped(merged)

    def combine(self, operands: Sequence[Any]) -> Any:
        patch = load_json(operands[0])
        for operand in operands[1:]:
            composed = compose_patches(patch, load_json(operand))
            if composed is None:
                return None
            (patch,) = composed
        return self._dumped(patch)

    def _dumped(self, value: Any) -> bytes | str:
        data = dump_json(value)
        return data.decode() if self._text else data


class UserFunction(Cells):
    """A marked function of the user's, on values as users see them."""

    compact = False
    on_base_as_among_operands = False

    def __init__(
        self,
        name: str,
        function: Callable[[Any, Any], Any],
        public: Callable[[Any], Any],
        stored: Callable[[Any], Any],
    ) -> None:
        self._name = name
        self._function = function
        self._public = public
        self._stored = stored
        self._associative = bool(function.__firn_merge__)  # type: ignore[attr-defined]

    def merge(self, base: Any, operands: Sequence[Any]) -> Any:
        value = None if base is None else self._public(base)
        for operand in operands:
            value = self._function(value, self._public(operand))
        if value is None:
            raise InvalidInputError(f"the merge operator {self._name} returned None: return the value")
        return self._stored(value)

    def combine(self, operands: Sequence[Any]) -> Any:
        return self.merge(operands[0], operands[1:]) if self._associative else None


class ColumnOperators:
    """Merges typed rows column by column; a null, in a base or an operand, leaves the other as it is."""

    def __init__(self, cells: Mapping[str, Cells]) -> None:
        self.by_name = dict(cells)
        self._choosy = tuple(
            (at, name, cell.check)
            for at, (name, cell) in enumerate(cells.items())
            if type(cell).check is not Cells.check
        )
        self._cells = tuple(cells.values())
        self._boths = tuple(cell.both for cell in self._cells)
        self._quick = all(cell.on_base_as_among_operands for cell in self._cells)
        self.compact = all(cell.compact for cell in self._cells)

    def check(self, stored: Any) -> None:
        for at, name, check in self._choosy:
            if stored[at] is not None:
                try:
                    check(stored[at])
                except InvalidInputError as error:
                    raise InvalidInputError(f"value column {name!r}: {error}") from None

    def merge(self, base: Any, operands: Sequence[Any]) -> Any:
        if self._quick and len(operands) == 1:
            return operands[0] if base is None else self._two(base, operands[0])
        columns = zip(*operands, strict=True)
        bases = (None,) * len(self._cells) if base is None else base
        merged = []
        for cell, start, column in zip(self._cells, bases, columns, strict=True):
            given = [value for value in column if value is not None]
            merged.append(cell.merge(start, given) if given else start)
        return tuple(merged)

    def _two(self, older: Any, newer: Any) -> Any:
        """One row on another, which counters do most."""
        return tuple(
            [
                b if a is None else a if b is None else both(a, b)
                for both, a, b in zip(self._boths, older, newer, strict=True)
            ]
        )

    def combine(self, operands: Sequence[Any]) -> Any:
        if self._quick and len(operands) == 2:
            return self._two(*operands)
        combined = []
        for cell, column in zip(self._cells, zip(*operands, strict=True), strict=True):
            given = [value for value in column if value is not None]
            both = cell.combine(given) if len(given) > 1 else given[0] if given else None
            if both is None and given:
                return None
            combined.append(both)
        return tuple(combined)


def resolve(merge: str | Mapping[str, str], values: Values) -> Cells | ColumnOperators:
    """The operator by what a table was created with; see `operators.operator_of`."""
    if values.columns is None and not isinstance(merge, str):
        raise InvalidInputError("operators by column need a schema; values of this table are bytes")
    if isinstance(merge, str) and ":" in merge:
        return _function(merge, values.public, values.check)
    if values.columns is None:
        return AddText() if merge == "add" else _cells(str(merge), pa.binary()) or _unknown(merge)
    return ColumnOperators(_by_column(merge, values))


def _by_column(merge: str | Mapping[str, str], values: Values) -> dict[str, Cells]:
    kinds = {field.name: field.type for field in values.schema}
    if isinstance(merge, str):
        if merge not in BUILT_IN:
            _unknown(merge)
        found = by_column(merge, values)
        if not any(found.values()):
            has = ", ".join(f"{name} {kind}" for name, kind in (values.columns or {}).items())
            raise InvalidInputError(
                f"the merge operator {merge!r} suits none of the table's value columns ({has}): choose another, or "
                "leave it out"
            )
        return {name: cell or Cells() for name, cell in found.items()}
    if not isinstance(merge, Mapping):
        raise InvalidInputError(
            f"{shown(merge)} is no merge operator: give a name, or a dict of columns to names"
        )
    if unknown := sorted(merge.keys() - kinds.keys(), key=str):
        raise InvalidInputError(f"merge names {unknown[0]!r}, which is no value column ({', '.join(kinds)})")
    cells: dict[str, Cells] = {}
    for name, kind in kinds.items():
        wanted = merge.get(name)
        if wanted is None:
            cells[name] = Cells()
        elif ":" in wanted:
            cells[name] = _function(wanted, lambda value: value, values.check_column(name))
        else:
            cell = _cells(wanted, kind)
            if cell is None:
                if wanted not in BUILT_IN:
                    _unknown(wanted)
                raise InvalidInputError(
                    f"the merge operator {wanted!r} doesn't suit column {name!r}, which is {kind}"
                )
            cells[name] = cell
    return cells


def by_column(merge: str, values: Values) -> dict[str, Cells | None]:
    """What a built-in operator is on each column; None where it doesn't suit."""
    return {field.name: _cells(merge, field.type) for field in values.schema}


def _cells(name: str, kind: pa.DataType) -> Cells | None:
    """The built-in operator on values of one Arrow type; None where it doesn't suit."""
    plain = pt.is_string(kind) or pt.is_binary(kind)
    if name == "add":
        if pt.is_integer(kind):
            return AddIntegers(kind)
        if pt.is_floating(kind):
            return AddFloats(kind)
        return AddDecimals(kind) if pt.is_decimal(kind) else None
    if name in ("max", "min"):
        return None if pt.is_nested(kind) else Extreme(greatest=name == "max")
    if name == "append":
        return Append() if plain or (is_list(kind) and not pt.is_fixed_size_list(kind)) else None
    if name == "json_merge":
        return JsonMerge(text=pt.is_string(kind)) if plain else None
    return None


def _function(name: str, public: Callable[[Any], Any], stored: Callable[[Any], Any]) -> UserFunction:
    if _NAMED.fullmatch(name) is None:
        _unknown(name)
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidInputError(
            f"the merge operator {name!r} can't be found here ({error}): install its module where the table is read, "
            "compacted and written, on executors too"
        ) from None
    if not callable(function) or not hasattr(function, "__firn_merge__"):
        raise InvalidInputError(
            f"{name!r} is not marked as a merge operator: decorate it with firn.keyed.merge.operators.merge_operator"
        )
    return UserFunction(name, function, public, stored)


def _unknown(name: object) -> Any:
    raise InvalidInputError(
        f"there is no merge operator {name!r}; there are {', '.join(BUILT_IN)}, and 'module:function' for one's own"
    )
