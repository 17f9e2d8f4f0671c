"""What became of columns that aren't there by a name any more, for messages. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from firn.journal.model import CommitInfo
from firn.names import fold


def lost_name(history: Iterable[CommitInfo], name: str, columns: Collection[str]) -> str:
    """When a column got another name, or was dropped; nothing where the history doesn't tell.

    Args:
        history: oldest first.
        columns: those that there are, without `name`.

    >>> from datetime import datetime
    >>> lines = ["rename a to b"], ["rename b to c", "drop d"]
    >>> history = [
    ...     CommitInfo(str(n), datetime(2026, 1, n), "alter", 0, 0, 0, 0, {"changes": each})
    ...     for n, each in enumerate(lines, 1)
    ... ]
    >>> lost_name(history, "a", ["c"]), lost_name(history, "D", ["c"]), lost_name(history, "e", ["c"])
    ("it is called 'c' since 2", 'it was dropped in 2', '')
    """
    wanted, called, told = fold(name), "", ""
    for commit in history:
        if commit.op == "restore":  # which says only of which version the names are
            called = told = ""
        renamed, dropped = _changes(commit)
        for place in (wanted, fold(called)):
            if place in renamed:
                called = renamed[place]
                told = f"it is called {called!r} since {commit.version}"
            elif place in dropped:
                called, told = "", f"it was dropped in {commit.version}"
            else:
                continue
            break
    return told if not called or called in columns else ""


def _changes(commit: CommitInfo) -> tuple[dict[str, str], set[str]]:
    """Folded name → the new one, and the folded names that were dropped."""
    renamed, dropped = {}, set()
    for line in commit.summary.get("changes") or () if commit.op == "alter" else ():
        verb, _, rest = line.partition(" ")
        old, to, new = rest.partition(" to ")
        if verb == "rename" and to:
            renamed[fold(old)] = new
        elif verb == "drop":
            dropped.add(fold(rest))
    return renamed, dropped
