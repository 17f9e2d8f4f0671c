"""Formats of times in files: Python's directives, of which those are allowed that Spark's readers know too."""

from __future__ import annotations

import re

from firn.errors import InvalidInputError

_SPARK = {
    "%Y": "yyyy", "%y": "yy", "%m": "MM", "%b": "MMM", "%B": "MMMM", "%d": "dd", "%j": "DDD", "%H": "HH", "%I": "hh",
    "%p": "a", "%M": "mm", "%S": "ss", "%f": "SSSSSS", "%z": "XX",
}  # fmt: skip


def spark_pattern(text: str) -> str:
    """The format as Spark's readers take it.

    Raises:
        InvalidInputError: it has no directive, or one that isn't known everywhere.

    Example:
        >>> spark_pattern("%Y/%m/%d %H:%M"), spark_pattern("%Y-%m-%dT%H:%M")
        ('yyyy/MM/dd HH:mm', "yyyy-MM-dd'T'HH:mm")
    """
    unknown = [part for part in re.findall(r"%.?", text) if part not in _SPARK]
    if unknown or "%" not in text:
        wrong = f"has {unknown[0]!r}, which isn't known" if unknown else "has no directive"
        raise InvalidInputError(
            f"the time format {text!r} {wrong}; write it like %Y/%m/%d %H:%M (known: {' '.join(_SPARK)})."
        )

    def turned(part: re.Match[str]) -> str:
        return _SPARK.get(part[0]) or "'" + part[0].replace("'", "''") + "'"

    return re.sub(r"%.|[A-Za-z']+", turned, text)
