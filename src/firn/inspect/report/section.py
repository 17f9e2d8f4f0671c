"""The section of a page for one table, of whatever kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from firn.inspect.report.advice import Advice
from firn.inspect.report.page import Html, cards, panel, tag


@dataclass(frozen=True)
class Section:
    """A table's numbers by caption, what to know and to do, and the panels of its kind."""

    url: str
    numbers: Mapping[str, str]
    sentences: Sequence[str]
    advice: Iterable[Advice]
    panels: Sequence[Html]

    def html(self) -> list[Html]:
        todo = [tag("p", a.why, " ", tag("code", a.command) if a.command else "") for a in self.advice] or [
            tag("p", "Nothing: all is in order.")
        ]
        short = panel("In short", *(tag("p", s) for s in self.sentences))
        return [
            tag("p", self.url, class_="soft"),
            cards(self.numbers),
            short,
            panel("What to do next", *todo),
            *self.panels,
        ]


TableSection = Callable[[Any], Section]
"""The section of a kind of table: the `PART` of `firn.inspect.report.<kind>_section`."""
