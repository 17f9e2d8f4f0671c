"""What `alter` and `resolve` return, for every kind of table."""

from __future__ import annotations

from dataclasses import dataclass


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
