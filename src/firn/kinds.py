"""The kinds of tables, by name, and where each room has its part of one.

A kind is added here: its name in `Kind`, and the number of its definitions. All else is its own modules, under names
that follow from it; the page `docs/design/0013-add-a-kind-of-table.md` lists them, with what each promises.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, Literal, get_args

Kind = Literal["lake", "keyed", "records"]

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

FORMAT_VERSIONS: Final[Mapping[Kind, int]] = {"keyed": 3, "records": 4}  # frozen: lake tables have 1, 2 and 5
"""The numbers that definitions of one kind alone carry under `firn`, by which each version of Firn names what it
can't read."""

PARTS: Final = {
    "table": "firn.database.kinds.{}",
    "read": "firn.{}.plan.read",
    "sql": "firn.sql.kinds.{}",
    "spark": "firn.spark.{}.kind",
    "check": "firn.inspect.fsck.{}",
    "report": "firn.inspect.report.{}_section",
    "shell": "firn.cli.{}.kind",
}
"""The module of a kind, for each part that it has."""


def part_of(kind: str, part: str) -> Any:
    """The `PART` of a kind's module, which is imported when somebody asks for it.

    By name, so that no room imports the kinds: each kind's module imports what it needs, and nothing circular.
    """
    return import_module(PARTS[part].format(kind)).PART
