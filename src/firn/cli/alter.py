"""Commands that change a table's definition: alter, resolve."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

from firn.cli.app import MAINTAIN, app
from firn.cli.call import AnyCall, LakeCall, TableCall, on_table
from firn.cli.opening import pairs
from firn.cli.options import argument, flag, option
from firn.cli.terminal import output
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.alter import AlterResult

_WORDS = {
    "rename": "--rename",
    "drop": "--drop",
    "add": "--add",
    "types": "--type",
    "comments": "--comment",
    "comment": "--comment-table",
    "partition_by": "--partition-by",
    "sort_by": "--sort-by",
    "checks": "--check",
    "fence": "--fence",
}
"""How the shell says the arguments of `alter`."""


def _altered(call: TableCall[Any], result: AlterResult) -> None:
    if not result.changes:
        line = f"nothing to change in {call.name}"
    elif call.dry_run:
        line = f"{call.name} would change (dry run: nothing was changed)"
    else:
        line = f"{call.name} changed; version {result.version}"

    def rest() -> None:
        for change in result.changes:
            output.line(f"  {change}")

    call.answer(result, line, rest)


@on_table(app, None, "writer", "dry_run", panel=MAINTAIN)
def alter(
    call: AnyCall,
    rename: Annotated[list[str] | None, option("OLD=NEW", "Rename a column. Repeatable.")] = None,
    drop: Annotated[list[str] | None, option("COLUMN", "Drop a column. Repeatable.")] = None,
    add: Annotated[
        list[str] | None,
        option("COLUMN", "Add one: 'tail VARCHAR', 'cancelled BOOLEAN DEFAULT false'. Repeatable."),
    ] = None,
    types: Annotated[
        list[str] | None, option("COLUMN=TYPE", "Set a column's DuckDB type. Repeatable.", "--type")
    ] = None,
    comment: Annotated[
        list[str] | None, option("COLUMN=TEXT", "Say what a column is; no text takes that back. Repeatable.")
    ] = None,
    comment_table: Annotated[
        str | None, option("TEXT", "Say what the table is; '' takes it back.", "--comment-table")
    ] = None,
    set_: Annotated[list[str] | None, option("NAME=VALUE", "Set a property. Repeatable.", "--set")] = None,
    unset: Annotated[
        list[str] | None, option("NAME", "Take a property back to its default. Repeatable.")
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        option(
            "FIELD",
            "Partition new files: origin, 'day(date)'; '' for not at all. Repeatable.",
            "--partition-by",
        ),
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        option("COLUMN", "Sort new files: date, 'delay desc'; '' for not at all. Repeatable.", "--sort-by"),
    ] = None,
    check: Annotated[
        list[str] | None,
        option("NAME=PREDICATE", "Refuse rows for which it is false: 'sane=delay > -200'. Repeatable."),
    ] = None,
    drop_check: Annotated[
        list[str] | None, option("NAME", "Take a check back. Repeatable.", "--drop-check")
    ] = None,
    fence: Annotated[
        bool, flag("Of a keyed table: end the writer that another process may have open.", "--fence")
    ] = False,
) -> None:
    """Change a table's columns, properties, partitions and order, by one commit that rewrites no data.

    All or nothing. --rename, --drop and --type name columns as they are now, the others as they will be.

    firn alter ./prod/flights --rename delay=minutes --add 'tail VARCHAR'
    """
    columns, comments = _columns(add)
    for column, text in pairs(comment, "--comment").items():
        if column in comments:
            raise InvalidInputError(f"both --add and --comment say what {column!r} is: say it once.")
        comments[column] = text or None
    asked: dict[str, Any] = {
        "rename": pairs(rename, "--rename"),
        "drop": drop or [],
        "add": columns,
        "types": pairs(types, "--type"),
        "comments": comments,
        "set_properties": _with_gone(pairs(set_, "--set"), unset, "--set and --unset"),
        "checks": _with_gone(pairs(check, "--check"), drop_check, "--check and --drop-check"),
    }
    changes = {keyword: given for keyword, given in asked.items() if given}
    if comment_table is not None:
        changes["comment"] = comment_table
    for keyword, given in (("partition_by", partition_by), ("sort_by", sort_by)):
        if given is not None:
            changes[keyword] = [] if given == [""] else given
    if fence:
        changes["fence"] = True
    opened: Any = call.table
    known = signature(opened.alter).parameters
    for keyword, word in _WORDS.items():
        if keyword in changes and keyword not in known:
            raise InvalidInputError(
                f"{call.name} is of a kind of table that has nothing for it: leave {word} out."
            )
    _altered(call, opened.alter(**changes, dry_run=call.dry_run))


def _columns(given: Sequence[str] | None) -> tuple[dict[str, Any], dict[str, str | None]]:
    """New columns as `alter` takes them, and the comments that they come with."""
    columns: dict[str, Any] = {}
    comments: dict[str, str | None] = {}
    for text in given or ():
        from firn.predicate.words import WordReader
        from firn.sql.syntax.definition_parts import new_column

        r = WordReader(text)
        column = new_column(r)
        r.end()
        if column.name in columns:
            raise InvalidInputError(f"--add names {column.name!r} twice: give it once.")
        columns[column.name] = column.given
        if column.comment is not None:
            comments[column.name] = column.comment
    return columns, comments


def _with_gone(given: Mapping[str, Any], gone: Sequence[str] | None, options: str) -> dict[str, Any]:
    """Values by name, None for those that are taken back."""
    if both := [name for name in gone or () if name in given]:
        raise InvalidInputError(f"both {options} name {both[0]!r}: give it once.")
    return {**dict.fromkeys(gone or ()), **given}


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN)
def resolve(
    call: LakeCall,
    column: Annotated[str, argument("COLUMN", "Whose values were set aside; with --into, which has them.")],
    to: Annotated[str | None, option("TYPE", "The column's DuckDB type from now on.")] = None,
    into: Annotated[str | None, option("COLUMN", "The column whose values they become.")] = None,
) -> None:
    """Make values that don't fit their column's type the column's again."""
    _altered(call, call.table.resolve(column, to=to, into=into, dry_run=call.dry_run))
