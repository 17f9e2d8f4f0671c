"""`firn keyed changes`: what was written since a version."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from firn.cli.call import KeyedCall, on_table
from firn.cli.keyed.group import keyed
from firn.cli.keyed.target import Hex
from firn.cli.keyed.text import Words, one_of
from firn.cli.options import option
from firn.cli.target import Csv, Limit
from firn.cli.terminal import output
from firn.errors import AccessDeniedError, InvalidInputError


@on_table(keyed, "keyed")
def changes(
    call: KeyedCall,
    since: Annotated[
        str | None, option("VERSION", "After this version; else all that the table holds.")
    ] = None,
    upto: Annotated[str | None, option("VERSION", "Up to, and with, this version.")] = None,
    state: Annotated[
        Path | None,
        option("FILE", "After the version in this file, if it is there; what is printed last goes into it."),
    ] = None,
    limit: Limit = None,
    hex: Hex = False,
    csv: Csv = False,
) -> None:
    """Print what was put, merged and deleted, commit by commit. The version where that ends goes to standard error.

    firn keyed changes ./prod/delays --state delays.version --json >> changes.jsonl
    """
    one_of([("--csv", csv), ("--json", call.json)])
    one_of([("--state", state is not None), ("--since", since is not None)])
    one_of([("--state", state is not None), ("--limit", limit is not None)])
    found = call.table.changes(_kept(state) if state is not None else since, upto)
    words = Words.of(call.table.definition, hex=hex)
    schema, batches = words.schema(found.schema), words.batches(found.to_batches())
    output.print_rows(schema, batches, json=call.json, as_csv=csv, limit=limit)
    if state is not None:
        _keep(state, found.version)
    if limit is None:
        output.note(f"version {found.version}")


def _kept(state: Path) -> str | None:
    """The version in a file; None where there is no file yet."""
    try:
        return state.read_text().strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{state} can't be read: {error}. Give --state another file.") from error


def _keep(state: Path, version: str) -> None:
    """Replaced at once: whoever is interrupted finds the old version, and is told the same again."""
    fresh = state.with_name(state.name + ".new")
    try:
        fresh.write_text(version + "\n")
        fresh.replace(state)
    except OSError as error:
        raise AccessDeniedError(
            f"{state} can't be written: {error}. What was printed ends at {version}: go on with --since."
        ) from error
