"""One HTML page without any network: plotly.js and the figures stand in it. All text is escaped here."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --paper: #f6f7f9; --card: #fff; --ink: #1d2430; --soft: #5c6675;
  --line: #e1e5eb; --accent: #2f6fb7; --code: #eef1f5; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181f; --card: #1c222b; --ink: #e4e8ee;
  --soft: #98a3b3; --line: #303844; --accent: #7db1ea; --code: #262e39; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 28px 24px 64px; }
header h1 { font-size: 26px; margin: 0 0 2px; overflow-wrap: anywhere; }
header p, .soft { color: var(--soft); margin: 0; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: 8px; margin: 18px 0 0; }
nav a { padding: 3px 12px; border: 1px solid var(--line); border-radius: 14px; background: var(--card);
  color: var(--accent); text-decoration: none; overflow-wrap: anywhere; }
section.table { margin-top: 36px; }
section.table > h2 { font-size: 21px; margin: 0 0 2px; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 12px; margin: 16px 0; }
.card, .panel { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 10px 14px; } .card b { display: block; font-size: 22px; line-height: 1.3; font-weight: 600; }
.card span { color: var(--soft); font-size: 13px; }
.panel { padding: 16px 18px; margin: 16px 0; min-width: 0; }
.panel h3 { margin: 0 0 8px; font-size: 16px; }
.panel p { margin: 0 0 8px; overflow-wrap: anywhere; } .panel p:last-child { margin: 0; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 16px; } .pair > .panel { margin: 0; }
@media (max-width: 860px) { .pair { grid-template-columns: 1fr; } }
.figure { width: 100%; }
.scroll { overflow-x: auto; max-height: 420px; overflow-y: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th, td { text-align: left; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; position: sticky; top: 0; background: var(--card); white-space: nowrap; }
td { overflow-wrap: anywhere; } td.n, th.n { text-align: right; white-space: nowrap; }
td.k { white-space: nowrap; overflow-wrap: normal; } tr:last-child td { border-bottom: 0; }
code { background: var(--code); border-radius: 4px; padding: 1px 5px; font-size: 13px; overflow-wrap: anywhere; }
.op { display: inline-block; width: 9px; height: 9px; border-radius: 50%; margin-right: 7px; }
.problem { border-color: #d8574f; }
footer { color: var(--soft); font-size: 13px; margin-top: 36px; }
"""

_SCRIPT = """
(function () {
  "use strict";
  function ink(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
  function theme(layout) {
    var change = { "font.color": ink("--ink"), "font.family": getComputedStyle(document.body).fontFamily,
      "font.size": 12.5, "hoverlabel.bgcolor": ink("--card"), "hoverlabel.bordercolor": ink("--line"),
      "hoverlabel.font.color": ink("--ink") };
    Object.keys(layout).forEach(function (key) {
      if (/^[xy]axis/.test(key)) {
        change[key + ".gridcolor"] = ink("--line");
        change[key + ".linecolor"] = ink("--line");
        change[key + ".tickcolor"] = ink("--line");
      }
    });
    (layout.updatemenus || []).forEach(function (menu, n) {
      change["updatemenus[" + n + "].bgcolor"] = ink("--card");
      change["updatemenus[" + n + "].bordercolor"] = ink("--line");
      change["updatemenus[" + n + "].font.color"] = ink("--ink");
    });
    return change;
  }
  var places = Array.prototype.slice.call(document.querySelectorAll(".figure"));
  var config = { responsive: true, displaylogo: false, displayModeBar: false };
  Promise.all(places.map(function (place) {
    var figure = JSON.parse(place.querySelector("script").textContent);
    place.textContent = "";
    return Plotly.newPlot(place, figure.data, figure.layout, config).then(function () {
      return Plotly.relayout(place, theme(figure.layout));
    });
  })).then(function () {
    document.documentElement.setAttribute("data-charts", String(places.length));
  }, function (error) {
    document.documentElement.setAttribute("data-charts-failed", String(error));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", function () {
    places.forEach(function (place) { Plotly.relayout(place, theme(place.layout)); });
  });
})();
"""


class Html(str):
    """Text that is HTML already."""


def text(value: Any) -> Html:
    """Escaped, unless it is HTML already."""
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def joined(parts: Iterable[Any], between: str = "") -> Html:
    return Html(between.join(text(p) for p in parts))


def tag(name: str, *children: Any, **attributes: str) -> Html:
    """An element; `class_` is the class."""
    given = "".join(f' {k.rstrip("_")}="{html.escape(v)}"' for k, v in attributes.items())
    return Html(f"<{name}{given}>{joined(children)}</{name}>")


def cards(items: Mapping[str, str]) -> Html:
    """Numbers with a caption each."""
    shown = (
        tag("div", tag("b", number), tag("span", title), class_="card") for title, number in items.items()
    )
    return tag("div", *shown, class_="cards")


def panel(title: str, *children: Any, problem: bool = False) -> Html:
    return tag("div", tag("h3", title), *children, class_="panel problem" if problem else "panel")


def pair(first: Html, second: Html) -> Html:
    return tag("div", first, second, class_="pair")


def figure(drawn: Any) -> Html:
    """A plotly figure's place, its data inside until the script draws it."""
    # No "<" in the JSON: nothing in it can end the script element.
    data = Html(
        drawn.to_json().replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    )
    height = f"min-height:{drawn.layout.height or 360}px"
    return tag("div", Html(f'<script type="application/json">{data}</script>'), class_="figure", style=height)


def grid(
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    numbers: Sequence[int] = (),
    keys: Sequence[int] = (),
) -> Html:
    """A table. `numbers` are right-aligned columns, `keys` columns that don't wrap; no names, no header."""

    def kind(i: int) -> str:
        return "n" if i in numbers else "k" if i in keys else ""

    head = tag("tr", *(tag("th", c, class_=kind(i)) for i, c in enumerate(columns)))
    body = (tag("tr", *(tag("td", c, class_=kind(i)) for i, c in enumerate(row))) for row in rows)
    top = tag("thead", head) if any(columns) else ""
    return tag("div", tag("table", top, tag("tbody", *body)), class_="scroll")


def dot(colour: str) -> Html:
    return tag("i", class_="op", style=f"background:{colour}")


def page(title: str, subtitle: str, body: Html, footer: str) -> str:
    """The whole document."""
    from plotly.offline import get_plotlyjs

    policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
    head = joined(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            tag("title", title),
            Html(f"<style>{_STYLE}</style>"),
        ],
        "\n",
    )
    main = tag(
        "main",
        tag("header", tag("h1", title), tag("p", subtitle)),
        Html("<noscript><p>The charts need JavaScript; the tables below them don't.</p></noscript>"),
        body,
        tag("footer", footer),
    )
    scripts = f"<script>{get_plotlyjs()}</script>\n<script>{_SCRIPT}</script>"
    lines = (
        "<!doctype html>",
        '<html lang="en">',
        f"<head>\n{head}\n</head>",
        "<body>",
        main,
        scripts,
        "</body>",
    )
    return "\n".join([*lines, "</html>", ""])
