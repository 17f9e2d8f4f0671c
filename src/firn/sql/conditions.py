"""What IF EXISTS and IF NOT EXISTS leave of an ALTER TABLE, by the columns and checks that the table has."""

from __future__ import annotations

from typing import Any

from firn.names import fold
from firn.reads import plan_read
from firn.sql.kinds.kind import sql_kind
from firn.sql.syntax.statements import AlterTable


def counting(table: Any, statement: AlterTable) -> dict[str, Any]:
    """The changes that count for the table as it is now; checks by the names that it has for them.

    A column that the statement drops or renames isn't in the way of one that it adds.

    Cost: nothing, or that of planning a read if there are conditions.
    """
    changes = {
        keyword: dict(given) if isinstance(given, dict) else given
        for keyword, given in statement.changes.items()
    }
    if None in changes.get("checks", {}).values():
        known = {fold(name): name for name in sql_kind(table.kind).checks(table)}
        changes["checks"] = {
            known.get(fold(name), name) if text is None else name: text
            for name, text in changes["checks"].items()
        }
        gone = [one for one in statement.conditions if one.keywords == ("checks",)]
        _leave_out(changes, [one.name for one in gone if fold(one.name) not in known], ("checks",))
    of_columns = [one for one in statement.conditions if one.keywords != ("checks",)]
    if not of_columns:
        return changes
    there = {fold(name) for name in plan_read(table).known}
    for one in of_columns:
        if one.there and fold(one.name) not in there:
            _leave_out(changes, [one.name], one.keywords)
    renamed: dict[str, str] = changes.get("rename", {})
    there -= {fold(name) for name in (*changes.get("drop", ()), *renamed)}
    there |= {fold(name) for name in renamed.values()}
    for one in of_columns:
        if not one.there and fold(one.name) in there:
            _leave_out(changes, [one.name], one.keywords)
    return changes


def _leave_out(changes: dict[str, Any], names: list[str], keywords: tuple[str, ...]) -> None:
    """Take names out of these arguments, and those out that become empty."""
    for keyword in keywords:
        given = changes.get(keyword, {})
        if isinstance(given, dict):
            changes[keyword] = {name: value for name, value in given.items() if name not in names}
        else:
            changes[keyword] = [name for name in given if name not in names]
        if not changes[keyword]:
            del changes[keyword]
