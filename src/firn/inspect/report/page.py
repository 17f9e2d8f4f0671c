"""One HTML page without scripts and without any network. All text is escaped here."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firn.inspect.report.advice import Advice


class Html(str):
    """Text that is HTML already."""


def joined(parts: Iterable[Any], between: str = "") -> Html:
    """Text is escaped, unless it is HTML already."""
    return Html(between.join(p if isinstance(p, Html) else html.escape(str(p)) for p in parts))


def tag(name: str, *children: Any, **attributes: str) -> Html:
    """An element; `class_` is the class."""
    given = "".join(f' {k.rstrip("_")}="{html.escape(v)}"' for k, v in attributes.items())
    return Html(f"<{name}{given}>{joined(children)}</{name}>")


def cards(items: Mapping[str, str]) -> Html:
    """Numbers with a caption each."""
    shown = [tag("div", tag("b", number), tag("span", title)) for title, number in items.items()]
    return tag("div", *shown, class_="cards")


def panel(title: str, *children: Any, problem: bool = False) -> Html:
    return tag("div", tag("h3", title), *children, class_="panel problem" if problem else "panel")


def legend(colours: Mapping[str, str]) -> Html:
    return tag("p", *(tag("span", dot(c), name) for name, c in colours.items()), class_="legend")


def dot(colour: str) -> Html:
    return tag("i", class_="dot", style=f"background:{colour}")


def bar(parts: Sequence[tuple[float | None, str]], most: float, text: str, hint: str = "") -> Html:
    """A bar of (value, colour), one after another; `most` is the longest bar's value. The text stands behind it."""
    widths = [(100 * (value or 0) / (most or 1), colour) for value, colour in parts]
    drawn = (tag("i", style=f"width:{width:.2f}%;background:{colour}") for width, colour in widths if width)
    return tag("div", tag("span", *drawn), text, class_="bar", title=hint)


def grid(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, numbers: Sequence[int] = (),
         keys: Sequence[int] = ()) -> Html:  # fmt: skip
    """A table. `numbers` are right-aligned columns, `keys` columns that don't wrap; no names, no header."""

    def line(element: str, cells: Sequence[Any]) -> Html:
        kinds = ("n" if i in numbers else "k" if i in keys else "" for i in range(len(cells)))
        return tag("tr", *(tag(element, c, class_=kind) for c, kind in zip(cells, kinds, strict=True)))

    head = tag("thead", line("th", columns)) if any(columns) else ""
    return tag("div", tag("table", head, tag("tbody", *(line("td", row) for row in rows))), class_="scroll")


def page(title: str, subtitle: str, body: Html, footer: str) -> str:
    """The whole document."""
    style = Path(__file__).with_name("page.css").read_text()
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    head = (
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        tag("style", Html(style)),
    )
    top = tag("header", tag("h1", title), tag("p", subtitle))
    content = tag("body", tag("main", top, body, tag("footer", footer)))
    return f"<!doctype html>\n{tag('html', tag('head', *head), content, lang='en')}\n"


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
