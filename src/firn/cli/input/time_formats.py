"""Formats of times in files: Python's directives and Spark's letters, each turned into the other."""

from __future__ import annotations

import re

from firn.errors import InvalidInputError

_PAIRS = {
    "%Y": "yyyy",
    "%y": "yy",
    "%m": "MM",
    "%b": "MMM",
    "%B": "MMMM",
    "%d": "dd",
    "%H": "HH",
    "%I": "hh",
    "%M": "mm",
    "%S": "ss",
    "%f": "SSSSSS",
    "%p": "a",
    "%z": "XX",
    "%j": "DDD",
}
_LETTERS = {letters: directive for directive, letters in _PAIRS.items()} | {"SSS": "%f", "Z": "%z", "X": "%z"}


def spark_pattern(text: str) -> str:
    """The format as Spark's readers take it.

    >>> spark_pattern("%Y/%m/%d %H:%M"), spark_pattern("%Y-%m-%dT%H:%M"), spark_pattern("yyyy/MM/dd")
    ('yyyy/MM/dd HH:mm', "yyyy-MM-dd'T'HH:mm", 'yyyy/MM/dd')
    """
    if "%" not in text:
        return text
    parts = []
    for part in re.findall(r"%.|[A-Za-z]+|[^%A-Za-z]+|%$", text):
        if part.startswith("%"):
            parts.append(_PAIRS.get(part) or _unknown(text, part))
        else:
            parts.append(f"'{part}'" if part.isalpha() else part)
    return "".join(parts)


def strptime_format(text: str) -> str:
    """The format as Python and Arrow take it.

    >>> strptime_format("yyyy/MM/dd HH:mm"), strptime_format("yyyy-MM-dd'T'HH"), strptime_format("%d.%m.%Y")
    ('%Y/%m/%d %H:%M', '%Y-%m-%dT%H', '%d.%m.%Y')
    """
    if "%" in text:
        for directive in re.findall(r"%.|%$", text):
            if directive not in _PAIRS:
                _unknown(text, directive)
        return text
    parts = []
    for part in _runs(text):
        if part.startswith("'"):
            parts.append(part.strip("'"))
        else:
            parts.append((_LETTERS.get(part) or _unknown(text, part)) if part.isalpha() else part)
    return "".join(parts)


def _runs(text: str) -> list[str]:
    """Quoted text, runs of one letter, and what stands between them."""
    return [m.group() for m in re.finditer(r"'[^']*'|([A-Za-z])\1*|[^A-Za-z']+", text)]


def _unknown(text: str, part: str) -> str:
    raise InvalidInputError(
        f"the time format {text!r} has {part!r}, which isn't known; write it like %Y/%m/%d %H:%M "
        f"(known: {' '.join(_PAIRS)}) or like yyyy/MM/dd HH:mm."
    )
