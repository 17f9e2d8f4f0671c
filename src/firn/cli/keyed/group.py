"""The group `firn keyed`, into which the modules beside this one hang their commands."""

from __future__ import annotations

import typer

from firn.cli.app import KEYED, app

keyed = typer.Typer(
    help="Keyed tables: read and write single keys, compact, checkpoint, sweep.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(keyed, name="keyed", rich_help_panel=KEYED)
