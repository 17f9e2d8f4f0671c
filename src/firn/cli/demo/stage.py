"""The demo's database, and what is shown of it: numbered steps, on standard output, or as facts with --json."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.text import Text

from firn.cli.terminal import output, waiting
from firn.cli.terminal.grid import lay_out
from firn.database.database import Database, connect
from firn.errors import FirnError
from firn.inspect.report.facts import Step

WIDTH = 80
VERBS = ("put", "get", "list", "head", "delete")


class Stage:
    """Prints the steps and keeps them, for the report and for --json."""

    def __init__(self, url: str, options: Mapping[str, Any] | None = None, *, quiet: bool) -> None:
        self.url, self.options = url, dict(options or {})
        self.db = self.connect()
        self.steps: list[Step] = []
        self.facts: list[dict[str, Any]] = []
        self._console = None if quiet else output.stdout()

    def connect(self, writer: str | None = None) -> Database:
        """The database as a new process sees it."""
        return connect(self.url, options=self.options, writer=writer)

    def _print(self, text: str, indent: int, style: str, wrap: bool = True) -> None:
        if self._console is not None:
            width = min(self._console.width, WIDTH) - indent if wrap else output.WIDE
            for line in text.split("\n"):
                for part in textwrap.wrap(line, width, break_on_hyphens=False) or [""]:
                    self._console.print(Text(" " * indent + part, style=style), soft_wrap=True)

    def title(self, text: str) -> None:
        self._print(text, 0, "bold")

    def step(self, title: str) -> None:
        """A numbered step begins."""
        self.facts.append({"step": title})
        self._print(f"\n{len(self.facts):>2} {title}", 0, "bold cyan")

    def say(self, text: str) -> None:
        self._print(text, 3, "")

    def quote(self, text: str, *, wrap: bool = True) -> None:
        """A query, what somebody was told, or, not wrapped, a command to be copied."""
        self._print(text, 5, "cyan", wrap)

    @contextmanager
    def work(
        self,
        title: str,
        database: Database | None = None,
        *,
        look: Callable[[], Mapping[str, int]] | None = None,
        **facts: Any,
    ) -> Iterator[dict[str, Any]]:
        """Measure the block, which may add facts; and what it changes of what a look says."""
        before = look() if look is not None else {}
        meter = waiting.Meter((database or self.db).bucket)
        with waiting.spinner(title):
            yield facts
        self.measured(title, meter.seconds, meter.requests, **facts)
        if look is not None:
            self.change(before, look())

    def measured(
        self, title: str, seconds: float, requests: Mapping[str, int], detail: str = "", **facts: Any
    ) -> None:
        """Keep what a piece of work took, and say it in a line."""
        step = Step(title, round(seconds, 3), dict(requests), detail)
        self.steps.append(step)
        self.facts[-1].setdefault("measured", []).append({**vars(step), **facts})
        total = sum(requests.get(verb, 0) for verb in VERBS)
        verbs = ", ".join(f"{requests[verb]:,} {verb.upper()}" for verb in VERBS if requests.get(verb))
        parts = [f"{title}: {seconds:.1f} s", f"{output.plural(total, 'request')} ({verbs})" if total else ""]
        self._print(", ".join(filter(None, [*parts, detail])), 3, "dim")

    def change(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """Rows, files and bytes before and after, in a line."""
        self.facts[-1] |= {"before": dict(before), "after": dict(after)}
        shows = {name: output.size if name == "size" else output.number for name in before}
        self.say("    ".join(f"{n} {show(before[n])} → {show(after[n])}" for n, show in shows.items()))

    def ask(self, query: str, *columns: str) -> list[tuple[Any, ...]]:
        """What Spark answers; shown below the query, if the columns have names."""
        if columns:
            self.quote(query)
        with waiting.spinner("Spark runs the query"):
            answers = [tuple(row) for row in self.db.sql(query, engine="spark").to_spark().collect()]
        if columns:
            self.table(columns, answers)
        return answers

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """A small table; all columns but the first are numbers."""
        texts = [
            [f"{v:,.2f}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else v for v in row]
            for row in rows
        ]
        shown = lay_out(columns, texts, right=frozenset(range(1, len(columns))), width=WIDTH - 5)
        self._print("\n".join(shown.lines), 5, "")


def check(true: bool, claim: str) -> None:
    """Each step's proof."""
    if not true:
        raise FirnError(f"the demo found that this doesn't hold: {claim}. Please report it.")
