"""Attempts at what another process may undo, or what wasn't answered: as often everywhere, and without a pause."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

ATTEMPTS = 4
"""How often something is tried before its error is reported, on top of the bucket's own retries."""


class ChangedMeanwhile(Exception):
    """A listed object is gone: another process prunes or collects."""


def persist(attempt: Callable[[], T], on: type[Exception] | tuple[type[Exception], ...]) -> T:
    """The first result, or the error of the last of `ATTEMPTS` attempts; errors that aren't `on` come at once."""
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except on:
            pass
    return attempt()
