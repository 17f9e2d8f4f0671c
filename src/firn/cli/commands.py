"""All commands, hung into the app in the order of the help. A new command module is added here."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import typer
from typer.main import get_command_name

from firn.cli.app import app
from firn.cli.kind import shell_kind
from firn.kinds import KINDS

_NAMES = "demo.command sql.command read history write ingest keep maintain alter catalog look"

_MODULES = tuple(f"firn.cli.{name}" for name in _NAMES.split())


def register() -> None:
    """Import the modules whose decorators define the commands; those load heavy libraries when they run."""
    _fill(app, _MODULES)
    for kind in KINDS:
        shell = shell_kind(kind)
        if shell.group is not None:
            _fill(shell.group, [f"firn.cli.{kind}.{verb}" for verb in shell.verbs])


def keep(name: str) -> None:
    """Leave out all commands but that of the name, if there is one: building all takes longer than many verbs."""
    named = [
        command
        for command in app.registered_commands
        if (command.name or get_command_name(getattr(command.callback, "__name__", ""))) == name
    ]
    if named:
        app.registered_commands[:] = named
        app.registered_groups.clear()


def _fill(group: typer.Typer, modules: Sequence[str]) -> None:
    for module in modules:
        import_module(module)
    # An import of one of them before has put its commands first.
    group.registered_commands.sort(
        key=lambda command: modules.index(getattr(command.callback, "__module__", ""))
    )
