"""The directories of a table, which of the second table of a name on end in `~` and its generation."""

from __future__ import annotations


def directory(name: str, generation: int) -> str:
    """A table's directory.

    >>> directory("_log", 0), directory("_log", 2)
    ('_log', '_log~2')
    """
    return f"{name}~{generation}" if generation else name


def generation_of(found: str, name: str) -> int | None:
    """The generation of the table that has a directory of this name; None if it is another one.

    >>> generation_of("_log", "_log"), generation_of("_log~2", "_log"), generation_of("_data", "_log")
    (0, 2, None)
    """
    base, tilde, number = found.partition("~")
    if base != name or (tilde and not number.isdecimal()):
        return None
    return int(number or 0)
