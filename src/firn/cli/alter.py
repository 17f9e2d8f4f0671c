"""Commands that change a table's definition: alter and resolve."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

from firn.cli.app import MAINTAIN, app
from firn.cli.call import AnyCall, LakeCall, TableCall, on_table
from firn.cli.options import argument, flag, option
from firn.cli.target import pairs
from firn.cli.terminal import output
from firn.errors import InvalidInputError

if TYPE_CHECKING:
    from firn.alter import AlterResult


def _print(call: TableCall[Any], result: AlterResult) -> None:
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
    set_: Annotated[list[str] | None, option("NAME=VALUE", "Set a property. Repeatable.", "--set")] = None,
    unset: Annotated[
        list[str] | None, option("NAME", "Take a property back to its default. Repeatable.")
    ] = None,
    types: Annotated[
        list[str] | None, option("COLUMN=TYPE", "Set a column's DuckDB type. Repeatable.", "--type")
    ] = None,
    fence: Annotated[
        bool, flag("Of a keyed table: end the writer that another process may have open.", "--fence")
    ] = False,
) -> None:
    """Change properties of a table, and types of its columns, by one commit that rewrites no data."""
    opened: Any = call.table
    given = pairs(set_, "--set")
    if both := [property for property in unset or () if property in given]:
        raise InvalidInputError(f"both --set and --unset name {both[0]!r}: give it once.")
    changes: dict[str, Any] = {**dict.fromkeys(unset or ()), **given}
    more: dict[str, Any] = {"types": pairs(types, "--type")} if types else {}
    if fence:
        more["fence"] = True
    known = signature(opened.alter).parameters
    for keyword, word in (("types", "--type"), ("fence", "--fence")):
        if keyword in more and keyword not in known:
            raise InvalidInputError(
                f"{call.name} is of a kind of table that has nothing for it: leave {word} out."
            )
    _print(call, opened.alter(set_properties=changes, dry_run=call.dry_run, **more))


@on_table(app, "lake", "writer", "dry_run", panel=MAINTAIN)
def resolve(
    call: LakeCall,
    column: Annotated[str, argument("COLUMN", "Whose values were set aside; with --into, which has them.")],
    to: Annotated[str | None, option("TYPE", "The column's DuckDB type from now on.")] = None,
    into: Annotated[str | None, option("COLUMN", "The column whose values they become.")] = None,
) -> None:
    """Make values that don't fit their column's type the column's again."""
    _print(call, call.table.resolve(column, to=to, into=into, dry_run=call.dry_run))
