"""All commands, hung into the app in the order of the help. A new command module is added here."""

from __future__ import annotations

from importlib import import_module

from firn.cli.app import app

_MODULES = tuple(
    f"firn.cli.{name}"
    for name in ("demo.command", "read", "past", "write", "ingest", "maintain", "catalog", "look")
)


def register() -> None:
    """Import the modules whose decorators define the commands; those load heavy libraries when they run."""
    for module in _MODULES:
        import_module(module)
    # Whoever has imported one of them before has put its commands first.
    app.registered_commands.sort(
        key=lambda command: _MODULES.index(getattr(command.callback, "__module__", ""))
    )
