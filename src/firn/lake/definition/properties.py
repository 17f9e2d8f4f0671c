"""The properties of lake tables: which there are, their defaults, and what they can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from firn.bucket.base import Bucket
from firn.errors import InvalidInputError
from firn.journal.columns import ON_CONFLICT
from firn.journal.leaderless.format.settings import PROPERTIES as LEADERLESS_PROPERTIES
from firn.journal.leaderless.format.settings import LeaderlessSettings
from firn.journal.model import ColumnTypes
from firn.journal.writer.settings import PROPERTIES as WRITER_PROPERTIES
from firn.journal.writer.settings import WriterSettings
from firn.lake.parquet.encode import AUTO, CODECS, BloomColumns
from firn.names import fold
from firn.predicate.bloom import has_filters
from firn.units import parse_duration, parse_size

TABLE_PROPERTIES = {
    "target_size": "128MB",
    "row_group_rows": None,
    "codec": None,
    "memory_budget": None,
    "stats_columns": 32,
    "bloom_filters": None,
    "write_distribution": "auto",
    "retention": None,
    "shared": None,
    "log_url": None,
    "on_conflict": "aside",
    "delete_retention": "1d",
    "inline": None,
    "maintain": None,
    "fold_at": 64,
}
"""Properties of the lake's own, with their defaults (None: not set); the journal's are durations."""

NEW_TABLES: dict[str, Any] = {"inline": "64KB", "maintain": "auto"}
"""What new tables get of these properties if nobody says otherwise; absent, a property has the default above."""

MOST_INLINED = 1 << 20
"""Bytes that the property `inline` can be."""

LEAST_FOLD_AT = 8
"""Commits that the property `fold_at` must be."""

LEADERLESS_ONLY = ("shared", "log_url", "maintain", "fold_at")
"""Those that only a log of the table's own can have."""


def parse_bloom_filters(value: Any) -> BloomColumns:
    """The property `bloom_filters`: "auto", or columns, as a list or with commas between them.

    >>> parse_bloom_filters("id, email"), parse_bloom_filters(["a,b"]), parse_bloom_filters(None)
    (('id', 'email'), ('a,b',), ())
    """
    if value is None or value == AUTO:
        return AUTO if value else ()
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names):
        raise InvalidInputError(
            f"table property bloom_filters is {value!r}; it can be 'auto', or names of columns: a list of them, or "
            "one text with commas between them."
        )
    if len({fold(name) for name in names}) < len(names):
        raise InvalidInputError(f"table property bloom_filters names a column twice: {', '.join(names)}.")
    return tuple(names)


def check_names(properties: Iterable[str], journal: str) -> None:
    """Refuse properties that there aren't."""
    theirs = WRITER_PROPERTIES if journal == "writer" else LEADERLESS_PROPERTIES
    known = TABLE_PROPERTIES.keys() - (LEADERLESS_ONLY if journal == "writer" else ()) | set(theirs)
    if unknown := sorted(set(properties) - known):
        raise InvalidInputError(
            f"unknown table property {unknown[0]!r} for the journal {journal!r}; there are: "
            f"{', '.join(sorted(known))}."
        )


def check_properties(
    properties: Mapping[str, Any], columns: ColumnTypes | None = None, *, journal: str = "leaderless"
) -> None:
    """Refuse unknown names and values that can't be read, before anything is written. `columns` are those that
    are declared; others may come later."""
    check_names(properties, journal)
    if properties.get("on_conflict", "aside") not in ON_CONFLICT:
        raise InvalidInputError(
            f"on_conflict is {properties['on_conflict']!r}; it can be 'aside', 'widen' or 'error'."
        )
    (WriterSettings if journal == "writer" else LeaderlessSettings).from_properties(properties)
    for name in ("target_size", "memory_budget"):
        if properties.get(name) is not None:
            parse_size(properties[name])
    if (inline := parse_size(properties.get("inline") or 0)) > MOST_INLINED:
        raise InvalidInputError(
            f"table property inline is {properties['inline']!r}; it can be 1 MB at most: larger appends are better "
            "off in files."
        )
    if inline and properties.get("shared"):
        raise InvalidInputError(
            f"table property inline is {properties['inline']!r}, and shared is {properties['shared']!r}: the other "
            "programs that read the table don't find rows in logs, and would lose them. Leave inline out."
        )
    if properties.get("maintain") == "auto" and properties.get("shared"):
        raise InvalidInputError(
            f"table property maintain is 'auto', and shared is {properties['shared']!r}: another program may "
            "maintain the table. Leave maintain out; `firn keep` keeps the table where it is named."
        )
    if (fold_at := _whole(properties.get("fold_at"))) is None or fold_at < LEAST_FOLD_AT:
        raise InvalidInputError(
            f"table property fold_at is {properties['fold_at']!r}; it must be a whole number, {LEAST_FOLD_AT} or "
            "more."
        )
    for name in ("retention", "delete_retention"):
        if properties.get(name) is not None:
            parse_duration(properties[name])
    kinds = {fold(name): kind for name, kind in (columns or {}).items()}
    wanted = parse_bloom_filters(properties.get("bloom_filters"))
    for name in () if isinstance(wanted, str) else wanted:
        if not has_filters(kind := kinds.get(fold(name), "VARCHAR")):
            raise InvalidInputError(
                f"table property bloom_filters names {name!r}, which is {kind}; there are filters for whole numbers "
                "but HUGEINT, VARCHAR, BLOB, DATE, TIMESTAMP, TIMESTAMP WITH TIME ZONE, and DECIMAL of up to 18 "
                "digits. Leave it out."
            )
    for name in ("stats_columns", "row_group_rows"):
        value = properties.get(name)
        if value is not None and not (str(value).isdecimal() and (int(value) > 0 or name == "stats_columns")):
            raise InvalidInputError(
                f"table property {name} is {value!r}; it must be a positive whole number."
            )
    choices = {
        "codec": (None, *CODECS),
        "write_distribution": ("auto", "none", "hash"),
        "shared": (None, "icedb"),
        "maintain": (None, "none", "auto"),
    }
    for name, allowed in choices.items():
        if properties.get(name, allowed[0]) not in allowed:
            raise InvalidInputError(
                f"table property {name} is {properties[name]!r}; it can be {' or '.join(map(repr, allowed))}."
            )


def _whole(value: Any) -> int | None:
    """A whole number, as one or as its text; the least `fold_at` where there is none, None for anything else."""
    if value is None:
        return LEAST_FOLD_AT
    return int(value) if str(value).isdecimal() else None


def check_keeping(properties: Mapping[str, Any], table: str, bucket: Bucket) -> None:
    """Refuse tables that can't keep themselves: their lock has to be in the bucket."""
    if properties.get("maintain") == "auto" and not bucket.capabilities.conditional_put:
        raise InvalidInputError(
            f"{table}: the table property maintain is 'auto', and the store of its log has no conditional puts to "
            "make a lock of. Leave maintain out; `table.keep()` of a connection with lock= keeps the table."
        )
