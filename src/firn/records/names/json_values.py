"""What JSON can hold, of the Python values that a program has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from firn.arrow.pyvalues import shown
from firn.errors import InvalidInputError
from firn.records.names.index_values import HIGHEST_INT, LOWEST_INT
from firn.records.names.names import check_unicode

MAX_DEPTH: Final = 100
"""Objects and lists that a document may hold in one another."""


def plain_json(value: Any, path: str = "$", depth: int = 0) -> Any:
    """A value of JSON's types, tuples as lists and subclasses as what they are of.

    Raises:
        InvalidInputError: anything that JSON can't hold, with its place.

    >>> plain_json({"a": [1, float("nan")]})
    Traceback (most recent call last):
    firn.errors.InvalidInputError: $.a[1] is a float (nan): JSON has no such number. Leave it out, or write None.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii():
            check_unicode(value, path)
        return value
    if value is None or kind is bool:
        return value
    if isinstance(value, int) and kind is not bool:
        if not LOWEST_INT <= value <= HIGHEST_INT:
            raise InvalidInputError(f"{path} is {value}, which has more than 64 bits: write it as text.")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInputError(
                f"{path} is {shown(value)}: JSON has no such number. Leave it out, or write None."
            )
        return float(value)
    if isinstance(value, str):
        check_unicode(value, path)
        return str.__str__(value)
    if isinstance(value, Mapping | list | tuple) and depth >= MAX_DEPTH:
        raise InvalidInputError(
            f"{path[:80]}… lies in more than {MAX_DEPTH} objects and lists: flatten the document."
        )
    if isinstance(value, Mapping):
        return {
            _key(key, path): plain_json(inner, f"{path}.{key}", depth + 1) for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain_json(inner, f"{path}[{at}]", depth + 1) for at, inner in enumerate(value)]
    raise InvalidInputError(
        f"{path} is {shown(value)}, which JSON can't hold. Write it as text or a number, or declare a schema with "
        "a type for it."
    )


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidInputError(f"{path} has the key {shown(key)}: keys of a document are text.")
    check_unicode(key, f"a key of {path}")
    return key
