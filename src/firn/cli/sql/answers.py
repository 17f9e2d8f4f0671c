"""Prints a statement's answer in the shell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Literal

from firn.cli.terminal import output

if TYPE_CHECKING:
    from firn.sql.result import Result


FormatName = Literal["table", "json", "csv"]


@dataclass(frozen=True)
class Format:
    """How rows are printed; `limit` is the most of them, None for all, or as many as a screen takes."""

    name: FormatName = "table"
    limit: int | None = None


def print_answer(result: Result, chosen: Format, before: Callable[[], None] = lambda: None) -> None:
    """Print a query's rows, or what a statement changed. `before` is called when there is something to print."""
    outcome = result.outcome
    if outcome is not None and chosen.name == "table":
        before()
        counts = [
            output.plural(n, noun) + f" {verb}"
            for n, noun, verb in (
                (outcome.rows_inserted, "row", "inserted"),
                (outcome.rows_updated, "row", "updated"),
                (outcome.rows_deleted, "row", "deleted"),
                (outcome.files_added, "file", "added"),
                (outcome.files_removed, "file", "removed"),
                (outcome.foreign_files, "file", "left to other writers"),
            )
            if n
        ]
        told = {name.replace("_", " "): value for name, value in outcome.report.items() if value}
        counts += [name if value is True else f"{name} {value}" for name, value in told.items()]
        output.line(f"{outcome.op}: {', '.join(counts) or 'done'}")
        return
    json, as_csv = chosen.name == "json", chosen.name == "csv"
    # One row more than is shown, to know of more.
    shown = chosen.limit if json or as_csv or chosen.limit is not None else 101
    batches = result.to_batches() if shown is None else iter(result.head(shown).to_batches())
    first = list(islice(batches, 1))
    before()
    batches = chain(first, batches)
    output.print_rows(result.schema(), batches, json=json, as_csv=as_csv, limit=chosen.limit)
