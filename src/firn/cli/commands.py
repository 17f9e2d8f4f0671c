"""All commands, hung into the app in the order of the help. A new command module is added here."""

from __future__ import annotations

from importlib import import_module

_MODULES = ("demo.command", "read", "write", "ingest", "maintain", "look")


def register() -> None:
    """Import the modules whose decorators define the commands; those load heavy libraries when they run."""
    for module in _MODULES:
        import_module(f"firn.cli.{module}")
