"""Commands that look after record tables: index."""

from __future__ import annotations

from typing import Annotated

import typer

from firn.cli import output
from firn.cli.records.group import records
from firn.cli.records.target import open_indexed
from firn.cli.target import DbOption, Json, StoreOptions, TableArg
from firn.errors import InvalidInputError


@records.command()
def index(
    table: TableArg,
    field: Annotated[
        str | None, typer.Argument(metavar="FIELD", help="A field, or a path like address.city.")
    ] = None,
    db: DbOption = None,
    unique: Annotated[bool, typer.Option("--unique", help="No two rows may have one value.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Drop the index.")] = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Build an index while others read and write, or drop one; without a field print those that there are.

    firn records index ./prod/airports state
    """
    opened = open_indexed(table, db, options)
    if field is None:
        if unique or drop:
            raise InvalidInputError("name the field, like: firn records index TABLE state --drop.")
        found = opened.indices()
        if json:
            lines = [{"field": i.field, "unique": i.unique, "ready": i.ready} for i in found]
            output.document({"table": opened.name, "indices": lines})
        elif found:
            rows = [
                (i.field, "unique" if i.unique else "", "ready" if i.ready else "being built") for i in found
            ]
            output.table(["field", "", "state"], rows)
        else:
            output.note(f"{opened.name} has no index.", answer=True)
        return
    if unique and drop:
        raise InvalidInputError("--unique is for building an index, --drop for dropping one.")
    number = opened.drop_index(field) if drop else opened.create_index(field, unique=unique)
    if json:
        output.document({"table": opened.name, "field": field, "dropped": drop, "commit": number})
    else:
        output.line(f"{'dropped' if drop else 'built'} the index of {opened.name} on {field}")
