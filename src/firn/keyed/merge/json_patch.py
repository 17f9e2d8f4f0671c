"""JSON merge patches (RFC 7396): applied to a document, and two made one where one can say both.

Numbers that no machine type holds exactly keep the digits that they were written with.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import orjson

MAX_DEPTH: Final = 250
"""Levels of nesting: what writes JSON here goes no deeper than 254."""

_LONG = re.compile(rb"[0-9][0-9.]{14}|[0-9][eE]")
"""Finds text that may be a number that a double or 64 bits don't hold, or that is written in a way of its own."""


def load_json(text: str | bytes) -> Any:
    """A JSON document as Python values; numbers that would change stay as they are written.

    Raises:
        ValueError: it isn't JSON, or nested too deeply.

    >>> dump_json(load_json(b'{"a": 123456789012345678901234567890, "b": [0.1, 2]}'))
    b'{"a":123456789012345678901234567890,"b":[0.1,2]}'
    """
    data = text.encode() if isinstance(text, str) else bytes(text)
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH and _depth(data) > MAX_DEPTH:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    if _LONG.search(data) is None:
        return orjson.loads(data)
    try:
        orjson.loads(data)  # which refuses more than Python's own parser
    except orjson.JSONDecodeError as error:
        if "infinity" not in str(error):  # a number too large for a double is JSON all the same
            raise
        value = _digits(data)
        try:
            dump_json(value)  # it wasn't read to its end before
        except TypeError as text:
            raise ValueError(str(text)) from None
        return value
    return _digits(data)


def dump_json(value: Any) -> bytes:
    """What `load_json` gave, as compact JSON."""
    return orjson.dumps(value)


def _digits(data: bytes) -> Any:
    return json.loads(data, parse_int=_number, parse_float=_number, parse_constant=_refuse)


def _number(text: str) -> Any:
    return orjson.Fragment(text.encode())


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _depth(data: bytes) -> int:
    """How deep the brackets outside of strings are nested."""
    depth = deepest = 0
    for bracket in re.findall(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', data, re.DOTALL):
        if bracket in (b"[", b"{"):
            depth += 1
            deepest = max(deepest, depth)
        elif bracket in (b"]", b"}"):
            depth -= 1
    return deepest


def apply_patch(document: Any, patch: Any) -> Any:
    """The document that a patch makes of one.

    >>> apply_patch({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"d": 3}})
    {'b': {'c': 2, 'd': 3}}
    """
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for name, inner in patch.items():
        if inner is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_patch(merged.get(name), inner)
    return merged


def compose_patches(older: Any, newer: Any) -> tuple[Any] | None:
    """One patch that does what two do, in a tuple; None where no patch does.

    An object over something that replaces, or removes, can't be said in one: what the object leaves alone would
    come back from the document. Nor can a value that is set after its removal: it comes last then, and would keep the
    place that it has in the document.

    >>> compose_patches({"a": 1}, {"a": None, "b": 2})
    ({'a': None, 'b': 2},)
    >>> compose_patches({"a": 1}, {"a": {"b": 1}}) is None and compose_patches({"a": None}, {"a": 1}) is None
    True
    """
    if not isinstance(newer, dict):
        return (newer,)
    if not isinstance(older, dict):
        return None
    merged = dict(older)
    for name, inner in newer.items():
        if name in merged:
            if merged[name] is None and inner is not None:
                return None
            both = compose_patches(merged[name], inner)
            if both is None:
                return None
            (merged[name],) = both
        else:
            merged[name] = inner
    return (merged,)
