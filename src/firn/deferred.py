"""Modules of libraries that are loaded when they are first used, as the first answer of a process counts."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class DeferredModule:
    """Stands for a module, and loads it when an attribute is first asked for.

    Type checkers read the plain import beside it, under `TYPE_CHECKING`.

    Example:
        >>> DeferredModule("math").sqrt(4)
        2.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        found = getattr(import_module(self._name), attribute)
        setattr(self, attribute, found)
        return found
