"""All commands, hung into the app in the order of the help. A new command module is added here."""

from __future__ import annotations

from importlib import import_module

from firn.cli.app import app

_MODULES = tuple(
    f"firn.cli.{name}"
    for name in ("demo.command", "read", "history", "write", "ingest", "maintain", "alter", "catalog", "look")
)
_GROUPS = tuple(f"firn.cli.keyed.{name}" for name in ("read", "feed", "write", "maintain", "size"))
_RECORDS = tuple(f"firn.cli.records.{name}" for name in ("read", "write", "load", "copy", "upkeep"))


def register() -> None:
    """Import the modules whose decorators define the commands; those load heavy libraries when they run."""
    from firn.cli.keyed.group import keyed
    from firn.cli.records.group import records

    for module in (*_MODULES, *_GROUPS, *_RECORDS):
        import_module(module)
    # Whoever has imported one of them before has put its commands first.
    for commands, modules in (
        (app.registered_commands, _MODULES),
        (keyed.registered_commands, _GROUPS),
        (records.registered_commands, _RECORDS),
    ):
        commands.sort(key=lambda command: modules.index(getattr(command.callback, "__module__", "")))
