"""What the demo shows: numbered steps with a few lines each, on standard output, or nothing with --json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from firn.cli.terminal import output
from firn.errors import FirnError
from firn.inspect.report.facts import Step

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 100
VERBS = ("put", "get", "list", "head", "delete")


class Stage:
    """Prints the steps and keeps them, for the report and for --json."""

    def __init__(self, *, quiet: bool) -> None:
        self.steps: list[Step] = []
        self.facts: list[dict[str, Any]] = []
        self._console: Console | None = None if quiet else output.stdout()

    def _print(self, item: Any, indent: int = 3, *, wrap: bool = True) -> None:
        console = self._console
        if console is None:
            return
        if wrap or not isinstance(item, Text):
            width = min(console.width, WIDTH) if console.is_terminal else console.width
            console.print(Padding(item, (0, 0, 0, indent), expand=False), width=width)
        else:
            # What somebody may copy isn't broken into lines.
            console.print(Text(" " * indent) + item, soft_wrap=True)

    def title(self, text: str) -> None:
        self._print(Text(text, style="bold"), 0)

    def gap(self) -> None:
        """An empty line."""
        if self._console is not None:
            self._console.print()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """A numbered step: its title before the work begins."""
        self.gap()
        number = len(self.facts) + 1
        self._print(Text.assemble((f"{number:>2} ", "bold cyan"), (title, "bold")), 0)
        self.facts.append({"step": title})
        yield

    def say(self, text: str) -> None:
        self._print(Text(text))

    def quote(self, text: str) -> None:
        """A command or a query."""
        self._print(Text(text, style="cyan"), 5, wrap=False)

    def measured(
        self, title: str, seconds: float, requests: Mapping[str, int], detail: str = "", **facts: Any
    ) -> None:
        """Keep what a piece of work took, and say it in a line."""
        self.steps.append(Step(title, round(seconds, 3), dict(requests), detail))
        self.facts[-1].setdefault("measured", []).append(
            {"title": title, "seconds": round(seconds, 3), "requests": dict(requests), **facts}
        )
        self._print(Text(measure_line(seconds, requests, detail), style="dim"))

    def change(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Rows, files and bytes before and after, in a line."""
        self.facts[-1]["before"], self.facts[-1]["after"] = dict(before), dict(after)
        parts = []
        for name in before:
            show = output.size if name == "size" else output.number
            parts.append(f"{name} {show(before[name])} → {show(after[name])}")
        self._print(Text("    ".join(parts)))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A small table; all columns but the first are numbers."""
        shown = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for i, column in enumerate(columns):
            shown.add_column(Text(column), justify="right" if i else "left")
        for row in rows:
            shown.add_row(*(Text(output.cell(value)) for value in row))
        self._print(shown, 5)


def check(true: bool, claim: str) -> None:
    """Each step's proof."""
    if not true:
        raise FirnError(f"the demo found that this doesn't hold: {claim}. Please report it.")


def measure_line(seconds: float, requests: Mapping[str, int], detail: str = "") -> str:
    """
    >>> measure_line(1.234, {"put": 400, "get": 4, "list": 0, "bytes_out": 10})
    '1.2 s, 404 requests (400 PUT, 4 GET)'
    """
    verbs = [f"{requests[v]:,} {v.upper()}" for v in VERBS if requests.get(v)]
    total = sum(requests.get(v, 0) for v in VERBS)
    parts = [f"{seconds:.1f} s"]
    if total:
        parts.append(f"{output.plural(total, 'request')} ({', '.join(verbs)})")
    return ", ".join([*parts, detail] if detail else parts)
