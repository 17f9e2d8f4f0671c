"""Declarations of options and arguments, for use inside `Annotated`. The parser names an option by its parameter."""

from __future__ import annotations

from typing import Any

import typer


def option(metavar: str, help: str, *names: str, **more: Any) -> Any:
    """An option that takes a value.

    Args:
        metavar: the value, as the help shows it.
        names: only where the parameter's name doesn't tell: of options with a short form, and of shared ones.
        more: see `typer.Option`.
    """
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(help: str, *names: str) -> Any:
    """An option without a value. It needs its name: by the parameter's alone it would have a `--no-` beside it."""
    return typer.Option(*names, help=help)


def argument(metavar: str, help: str) -> Any:
    """A word that stands by its place."""
    return typer.Argument(metavar=metavar, help=help)
