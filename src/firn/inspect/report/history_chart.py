"""Live rows and files after each commit, as SVG: steps, a mark for each commit, a dotted line for each sweep."""

from __future__ import annotations

from collections.abc import Sequence

from firn.inspect.report.facts import Point
from firn.inspect.report.page import Html, joined, legend, tag
from firn.journal.model import SUMMARY_TEXTS
from firn.units import size_text

COLOURS = {
    "append": "#4c8dd6",
    "register": "#35a5b5",
    "merge": "#35a36f",
    "fold": "#7cc49f",
    "rewrite": "#e08a2e",
    "delete": "#d8574f",
    "remove": "#c05a9a",
    "overwrite": "#a9812e",
    "restore": "#8470d8",
    "forget": "#b03a34",
    "sweep": "#8a93a3",
}
WIDTH, HEIGHT = 500, 100
"""Units of a drawing, which is stretched to the page's width. One unit shows the last of its commits."""

MOST_DESCRIBED = 200
"""Up to so many marks each tells its commit. More would weigh too much, and tell only the operation."""


def history_chart(points: Sequence[Point]) -> Html:
    """The charts by time, and folded away those by commit."""
    start, end = points[0].commit.time, points[-1].commit.time
    seconds = [(p.commit.time - start).total_seconds() for p in points]
    ends = f"{start:%Y-%m-%d %H:%M:%S}", f"{end:%Y-%m-%d %H:%M:%S} UTC"
    by_time, by_commit = (
        joined(_steps(points, x, what, ends) for what in ("rows", "files"))
        for x, ends in ((seconds, ends), (range(len(points)), ("the first", f"commit {len(points):,}")))
    )
    named = {p.commit.op: colour(p.commit.op) for p in points}
    return joined(
        [legend(named), by_time, tag("details", tag("summary", "The same, commit by commit"), by_commit)]
    )


def colour(op: str) -> str:
    return COLOURS.get(op, COLOURS["sweep"])


def _steps(points: Sequence[Point], xs: Sequence[float], what: str, ends: tuple[str, str]) -> Html:
    values: list[int | None] = [getattr(p, what) for p in points]
    most, span = max((v for v in values if v is not None), default=0), max(xs) or 1
    heights: dict[int, float] = {}
    marks: dict[tuple[int, str], tuple[float, Point]] = {}
    for point, position, value in zip(points, xs, values, strict=True):
        if value is not None:
            x, y = round(WIDTH * position / span), round(HEIGHT * (1 - value / (most or 1)), 1)
            heights[x], marks[x, point.commit.op] = y, (y, point)
    steps = "".join(f"H{x}V{y}" for x, y in heights.items())
    # Counted backwards, values are unknown at the beginning or everywhere.
    line = f"M{min(heights)} {HEIGHT}{steps}V{HEIGHT}" if heights else ""
    drawn = [tag("path", d=line, class_="line")]
    shapes: dict[tuple[str, str], list[str]] = {}
    for (x, op), (y, point) in marks.items():
        hint = described(point) if len(marks) <= MOST_DESCRIBED else op
        shapes.setdefault((op, hint), []).append(f"M{x} 0V{HEIGHT}" if op == "sweep" else f"M{x} {y}h.01")
    for (op, hint), parts in shapes.items():
        kind = "sweep" if op == "sweep" else "mark"
        drawn.append(
            tag("path", tag("title", hint), d="".join(parts), class_=kind, style=f"stroke:{colour(op)}")
        )
    text = f"{what}: {'?' if values[-1] is None else f'{values[-1]:,}'} now, {most:,} at most"
    svg = tag("svg", *drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", preserveAspectRatio="none", role="img")
    return tag("figure", tag("figcaption", text), svg, tag("div", *(tag("span", e) for e in ends)))


def described(point: Point) -> str:
    """A commit in a few lines."""
    c = point.commit
    lines = [f"{c.op} {c.time:%Y-%m-%d %H:%M:%S} UTC"]
    if c.op == "sweep":
        shown = {k: v for k, v in c.summary.items() if isinstance(v, int)}
        lines += [f"{k.replace('_', ' ')}: {size_text(v) if k == 'bytes' else v}" for k, v in shown.items()]
    else:
        lines.append(f"files +{c.files_added:,} −{c.files_removed:,}")
        if c.rows_added is not None:
            lines.append(
                f"rows +{c.rows_added:,}" + (f" −{point.rows_removed:,}" if point.rows_removed else "")
            )
        lines += [f"{name}: {c.summary[name]}" for name in SUMMARY_TEXTS if name in c.summary]
    return "\n".join(lines)
