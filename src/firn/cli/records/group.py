"""The group `firn records`, into which the modules beside this one hang their commands."""

from __future__ import annotations

import typer

from firn.cli.app import RECORDS, app

records = typer.Typer(
    help="Record tables: read and write documents, alone or in transactions, and look after indices.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(records, name="records", rich_help_panel=RECORDS)
