"""The frame of all commands: their group, and how errors and Ctrl-C are answered."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from firn.cli.terminal import output
from firn.cli.terminal.answering import ended, failed, printing
from firn.cli.terminal.exits import EXIT_CODES, UNEXPECTED, USAGE

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""The parent of all that the parser refuses; where it lives depends on typer's version."""

START, READ, WRITE, MAINTAIN, LOOK = "Start here", "Read", "Write", "Maintain", "Look inside"
KEYED = "Keyed tables"
RECORDS = "Record tables"

_HELP = """Tables of Parquet files that are nothing but objects in a bucket or a directory.

A table is named by its URL (./prod/flights, s3://bucket/prod/flights), or by --db URL and its name.
With --json a command prints exactly one JSON document, or one line of JSON for each row; all messages go to
standard error."""


class Commands(TyperGroup):
    """Runs a command and turns what it raises into a message and an exit code."""

    _json = False

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        # Asked of the words, not of the parser: its own errors are answered in JSON too.
        self._json = json = "--json" in given
        # Left to itself the parser would print errors in a frame of its own, and not as JSON.
        with printing():
            try:
                code = super().main(given, "firn", complete_var, False, windows_expand_args, **extra)
            except UsageError as error:
                # Without a command the help has been shown, and there is no message.
                shown = not json and not error.format_message()  # type: ignore[attr-defined]
                code = USAGE if shown else failed("usage", _usage_message(error), USAGE, json)
            except typer.Abort:
                code = UNEXPECTED
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        returned: list[Any] = []
        invoked = super().invoke
        passed_on = (UsageError, typer.Exit, typer.Abort)
        code = ended(lambda: returned.append(invoked(ctx)), json=self._json, passed_on=passed_on)
        if code is not None:
            raise typer.Exit(code)
        return returned[0]


def _usage_message(error: Any) -> str:
    message: str = error.format_message()
    context = getattr(error, "ctx", None)
    hint = f" See `{context.command_path} --help`." if context is not None else ""
    return message.rstrip(".") + "." + hint


def _version(asked: bool) -> None:
    if asked:
        from firn import __version__

        output.line(f"firn {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=Commands,
    help=_HELP,
    epilog="Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES) + ".",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def group(name: str, panel: str, help: str) -> typer.Typer:
    """A group of commands: `firn NAME …`."""
    made = typer.Typer(
        help=help, no_args_is_help=True, context_settings={"help_option_names": ["-h", "--help"]}
    )
    app.add_typer(made, name=name, rich_help_panel=panel)
    return made
