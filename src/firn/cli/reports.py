"""Answers of commands that do a piece of work on one table: a report as JSON, or a line and what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from typing import Any

from firn.cli.terminal import output
from firn.cli.terminal.waiting import Meter


def print_report(
    name: str,
    report: Any,
    meter: Meter,
    json: bool,
    *,
    line: str,
    rest: Callable[[], None] | None = None,
    dry_run: bool = False,
    **more: object,
) -> None:
    """A report's dataclass as JSON, with `more` after its fields; or for a person `line`, and what `rest` prints.

    Requests and seconds come last; for a person not of a dry run, which isn't what the work will take.
    """
    if json:
        output.document({"table": name, **output.plain(report), **more, **meter.plain()})
        return
    output.line(line)
    if rest is not None:
        rest()
    if not dry_run:
        meter.note()


def sweep_line(name: str, counts: Iterable[tuple[Sized, str]], bytes: int, *, dry_run: bool) -> str:
    """Say in one line what a sweep of any kind of table did; `counts` are the keys that went, by kind.

    >>> sweep_line("t", [(["a", "b"], "log"), ([], "orphan")], 2048, dry_run=False)
    'sweep of t deleted 2 logs: 2.0 KB'
    """
    parts = [output.plural(len(keys), noun) for keys, noun in counts if len(keys)]
    if not parts:
        return f"sweep: nothing to delete in {name}"
    return (
        f"sweep of {name} {'would delete' if dry_run else 'deleted'} {', '.join(parts)}: {output.size(bytes)}"
    )
