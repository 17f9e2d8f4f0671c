"""What `alter` is asked, as far as kinds of table have it in common, and what it and `resolve` return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

RESERVED = "_firn_"
"""The beginning of names that are Firn's."""


@dataclass(frozen=True)
class ColumnAlteration:
    """The changes of columns, comments and properties that one `alter` asks for, by its arguments."""

    rename: Mapping[str, str] = field(default_factory=dict)
    drop: Sequence[str] = ()
    add: Mapping[str, str | tuple[str, Any]] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str | None] = field(default_factory=dict)
    comment: str | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AlterResult:
    """One change of a table's definition.

    Attributes:
        version: the commit that holds the change; the present version where nothing had to change. Of tables whose
            definition is altered in place, how often that was done: tables that are shared with the reference, and
            record tables with isolation="row".
        changes: what changed, a line each; empty where nothing had to change, and then nothing was committed.
    """

    version: str
    changes: tuple[str, ...]
