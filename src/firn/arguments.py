"""Arguments of public methods are checked by their annotations, in this one place.

    @checked
    class LakeTable: …

Each public method of the class then refuses an argument of another type than its annotation says, by an
`InvalidInputError` that names the method, the argument and what it takes. An annotation that has a type in it that
`_KINDS` doesn't know isn't checked: the method does so itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date, timedelta
from functools import cache, wraps
from numbers import Integral, Real
from os import PathLike
from typing import Any, NamedTuple, TypeVar, cast

from firn.errors import InvalidInputError

C = TypeVar("C", bound=type)
Verb = TypeVar("Verb", bound=Callable[..., object])
Check = Callable[[Any], bool]

NAMES = {
    "At": "str | int | datetime | None",
    "Duration": "float | str | timedelta",
    "Size": "int | str",
}
"""What aliases in annotations stand for."""


class _Kind(NamedTuple):
    check: Check
    words: str


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, bytearray, Mapping))


def _is_list_of_texts(value: Any) -> bool:
    if not _is_list(value):
        return False
    return not isinstance(value, (list, tuple, AbstractSet)) or all(isinstance(item, str) for item in value)


def _is_mapping_of_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(name, str) for name in value)


def _gives_texts(value: Any) -> bool:
    """As a dict by id gives its ids."""
    return _is_list_of_texts(value) or _is_mapping_of_texts(value)


def _maps_texts(value: Any) -> bool:
    return _is_mapping_of_texts(value) and all(isinstance(item, str) for item in value.values())


_KINDS = {
    "str": _Kind(lambda value: isinstance(value, str), "a text"),
    "int": _Kind(_is_whole, "a whole number"),
    "float": _Kind(_is_real, "a number"),
    "bool": _Kind(lambda value: isinstance(value, bool), "True or False"),
    "None": _Kind(lambda value: value is None, "None"),
    "datetime": _Kind(lambda value: isinstance(value, date), "a datetime"),
    "timedelta": _Kind(lambda value: isinstance(value, timedelta), "a timedelta"),
    "PathLike[str]": _Kind(lambda value: isinstance(value, PathLike), "a path"),
    "Sequence[str]": _Kind(_is_list_of_texts, "a list of texts"),
    "Iterable[str]": _Kind(_gives_texts, "a list of texts"),
    "Mapping[str, str]": _Kind(_maps_texts, "a dict of texts by name"),
    "Mapping[str, Any]": _Kind(_is_mapping_of_texts, "a dict by name"),
    "Callable": _Kind(callable, "a function"),
}


def checked(cls: C) -> C:
    """Check the arguments of the public methods that the class defines."""
    for name, method in list(vars(cls).items()):
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(cls, name, _checked(method))
    return cls


def documented(function: Callable[..., object]) -> Callable[[Verb], Verb]:
    """Give a method the docstring of the function that does its work."""

    def take(method: Verb) -> Verb:
        method.__doc__ = function.__doc__
        return method

    return take


def _checked(method: Callable[..., Any]) -> Callable[..., Any]:
    parameters = list(inspect.signature(method).parameters.values())[1:]
    named = {
        p.name: kind
        for p in parameters
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and (kind := _kind_of(str(p.annotation))) is not None
    }
    if not named:
        return method
    placed = [
        (p.name, named.get(p.name))
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    keywords = {p.name: named[p.name] for p in parameters if p.name in named and p.kind != p.POSITIONAL_ONLY}

    @wraps(method)
    def call(self: Any, /, *args: Any, **options: Any) -> Any:
        for value, (name, kind) in zip(args, placed, strict=False):
            if kind is not None and not kind.check(value):
                raise _refused(method, name, value, kind)
        for name, value in options.items():
            kind = keywords.get(name)
            if kind is not None and not kind.check(value):
                raise _refused(method, name, value, kind)
        return method(self, *args, **options)

    return cast("Callable[..., Any]", call)


def _refused(method: Callable[..., Any], name: str, value: Any, kind: _Kind) -> InvalidInputError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else f"{shown[:79]}…"
    return InvalidInputError(f"{method.__name__}: {name} is {shown}; it must be {kind.words}.")


@cache
def _kind_of(annotation: str) -> _Kind | None:
    """What values of an annotation are; None if it has a part that isn't known."""
    parts = [part for word in _alternatives(annotation) for part in _alternatives(NAMES.get(word, word))]
    kinds = []
    for part in dict.fromkeys(parts):
        if part.startswith("Literal["):
            kinds.append(_choice(part))
        elif part.startswith("Callable["):
            kinds.append(_KINDS["Callable"])
        elif part in _KINDS:
            kinds.append(_KINDS[part])
        elif part.startswith("Mapping["):
            kinds.append(_Kind(lambda value: isinstance(value, Mapping), "a dict"))
        elif part.startswith(("Sequence[", "Iterable[")):
            kinds.append(_Kind(_is_list, "a list"))
        else:
            return None
    checks = tuple(kind.check for kind in kinds)
    words = [kind.words for kind in kinds]
    said = words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
    return _Kind(checks[0] if len(checks) == 1 else lambda value: any(check(value) for check in checks), said)


def _choice(literal: str) -> _Kind:
    values = [word.strip().strip("\"'") for word in literal[len("Literal[") : -1].split(",")]
    return _Kind(lambda value: isinstance(value, str) and value in values, " or ".join(map(repr, values)))


def _alternatives(annotation: str) -> list[str]:
    """The types between the bars, but for those inside of brackets.

    >>> _alternatives("str | Sequence[Partition | str] | None")
    ['str', 'Sequence[Partition | str]', 'None']
    """
    found, depth, start = [], 0, 0
    for at, letter in enumerate(annotation):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            found.append(annotation[start:at].strip())
            start = at + 1
    return [*found, annotation[start:].strip()]
