"""Names: how two of them compare, and which may name a table."""

from __future__ import annotations

import re

from firn.errors import InvalidInputError

_NAME = re.compile(r"[A-Za-z0-9.\-][A-Za-z0-9_.\-]{0,99}")


def fold(name: str) -> str:
    """The form by which names of columns, fields and tables in SQL compare: two that fold alike are one name.

    It is the one rule of the product, and Spark's. (`casefold` joins more: ``straße`` and ``strasse``.)
    """
    return name.lower()


def is_name(name: str) -> bool:
    """Whether a directory of this name may be a table's."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> None:
    """Refuse names that could leave the database's prefix or clash with Firn's own.

    Example:
        >>> check_name("../other")
        Traceback (most recent call last):
        firn.errors.InvalidInputError: '../other' can't name a table: use letters, digits, '_', '-' and '.', ...
    """
    if not isinstance(name, str) or not is_name(name) or set(name) <= {"."}:
        raise InvalidInputError(
            f"{name!r} can't name a table: use letters, digits, '_', '-' and '.', at most 100, not "
            "beginning with '_'."
        )
