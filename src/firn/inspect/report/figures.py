"""The report's charts, as plotly figures. Every name in them is escaped: plotly reads a little HTML."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from firn.inspect.report.facts import CHANGES_DATA, Point, Step, TableFacts
from firn.units import size_text

COLOURS = {
    "append": "#4c8dd6",
    "register": "#35a5b5",
    "merge": "#35a36f",
    "rewrite": "#e08a2e",
    "delete": "#d8574f",
    "remove": "#c05a9a",
    "overwrite": "#a9812e",
    "restore": "#8470d8",
    "forget": "#b03a34",
    "sweep": "#8a93a3",
}
BEFORE, AFTER = "#b9c2d0", "#4c8dd6"
VERBS = {"get": "#4c8dd6", "put": "#e08a2e", "list": "#35a36f", "head": "#8470d8", "delete": "#d8574f"}

MOST_PARTITIONS = 40
FEW_PARTITIONS = 6
MOST_CHANGES = 12
LABEL = 40


def label(name: str) -> str:
    """A name as plotly may show it: escaped, and not longer than a chart bears.

    >>> label("<b>x</b>")
    '&lt;b&gt;x&lt;/b&gt;'
    """
    short = name if len(name) <= LABEL else name[: LABEL - 1] + "…"
    return html.escape(short, quote=False)


def _figure(rows: int = 1, columns: int = 1, **options: Any) -> Any:
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=rows, cols=columns, **options)
    figure.update_layout(
        template="none",
        margin={"l": 64, "r": 24, "t": 40, "b": 48},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        hoverlabel={"align": "left"},
        bargap=0.25,
    )
    figure.update_xaxes(automargin=True, zeroline=False, showgrid=False)
    figure.update_yaxes(automargin=True, zeroline=False, rangemode="tozero", separatethousands=True)
    figure.update_annotations(font_size=13)
    return figure


def history(facts: TableFacts) -> Any:
    """Live rows and files after each commit, coloured by operation; sweeps as vertical lines."""
    import plotly.graph_objects as go

    figure = _figure(2, shared_xaxes=True, vertical_spacing=0.09, row_heights=[0.6, 0.4])
    points = [p for p in facts.points if p.op != "sweep"]
    order = {id(p): n for n, p in enumerate(facts.points, 1)}
    by_time: list[Any] = []
    by_commit: list[Any] = []

    def add(trace: Any, shown: Sequence[Point | None], row: int) -> None:
        times = [p.time if p is not None else None for p in shown]
        trace.x = times
        by_time.append(times)
        by_commit.append([order[id(p)] if p is not None else None for p in shown])
        figure.add_trace(trace, row=row, col=1)

    for row, values in ((1, [p.rows for p in points]), (2, [p.files for p in points])):
        line = {"shape": "hv", "width": 2, "color": "rgba(128,140,160,0.65)"}
        style = {"fill": "tozeroy", "fillcolor": "rgba(128,140,160,0.14)", "hoverinfo": "skip"}
        add(go.Scatter(y=values, mode="lines", line=line, showlegend=False, **style), points, row)
    for op in dict.fromkeys(p.op for p in points):
        chosen = [p for p in points if p.op == op]
        many = len(chosen) > 50
        marker = {"color": COLOURS.get(op, "#8a93a3"), "size": 5 if many else 10}
        for row, counts in ((1, [p.rows for p in chosen]), (2, [p.files for p in chosen])):
            trace = go.Scatter(
                y=counts,
                mode="markers",
                marker=marker,
                name=label(op),
                legendgroup=op,
                showlegend=row == 1,
                text=[_hover(p) for p in chosen],
                hovertemplate="%{text}<extra></extra>",
            )
            add(trace, chosen, row)
    sweeps = [p for p in facts.points if p.op == "sweep"]
    if sweeps:
        for row in (1, 2):
            top = max([(p.rows if row == 1 else p.files) or 0 for p in facts.points], default=1) or 1
            shown = [q for p in sweeps for q in (p, p, None)]
            trace = go.Scatter(
                y=[v for _ in sweeps for v in (0, top, None)],
                mode="lines+markers",
                marker={"size": 7, "symbol": "line-ew", "color": COLOURS["sweep"]},
                line={"dash": "dot", "width": 2, "color": COLOURS["sweep"]},
                name="sweep",
                legendgroup="sweep",
                showlegend=row == 1,
                text=[_hover(p) if p is not None else "" for p in shown],
                hovertemplate="%{text}<extra></extra>",
            )
            add(trace, shown, row)
    figure.update_yaxes(title_text="rows", tickformat=",d", row=1, col=1)
    figure.update_yaxes(title_text="files", tickformat=",d", row=2, col=1)
    figure.update_layout(height=460, hovermode="closest", updatemenus=[_axis_buttons(by_time, by_commit)])
    return figure


def _axis_buttons(by_time: list[Any], by_commit: list[Any]) -> dict[str, Any]:
    def button(text: str, x: list[Any], kind: str) -> dict[str, Any]:
        axes = {f"xaxis{n}.{k}": v for n in ("", "2") for k, v in (("type", kind), ("autorange", True))}
        return {"label": text, "method": "update", "args": [{"x": x}, axes]}

    return {
        "type": "buttons",
        "direction": "right",
        "x": 1,
        "xanchor": "right",
        "y": 1.02,
        "yanchor": "bottom",
        "showactive": False,
        "pad": {"t": 0, "r": 0},
        "buttons": [button("by time", by_time, "date"), button("by commit", by_commit, "linear")],
    }


def _hover(p: Point) -> str:
    lines = [f"<b>{label(p.op)}</b> {p.time:%Y-%m-%d %H:%M:%S} UTC"]
    if p.op == "sweep":
        lines += [
            f"{label(str(k).replace('_', ' '))}: {v:,}" for k, v in p.summary.items() if isinstance(v, int)
        ]
    else:
        lines.append(f"files +{p.files_added:,} −{p.files_removed:,}")
        if p.rows_added is not None:
            lines.append(f"rows +{p.rows_added:,}" + (f" −{p.rows_removed:,}" if p.rows_removed else ""))
        lines += [
            f"{name}: {label(str(p.summary[name]))}" for name in ("where", "query") if name in p.summary
        ]
    return "<br>".join(lines)


def partitions(facts: TableFacts) -> Any:
    """Size and number of files of each partition, the largest if there are many."""
    import plotly.graph_objects as go

    chosen = facts.partitions
    if len(chosen) > MOST_PARTITIONS:
        heaviest = sorted(chosen, key=lambda item: -item[1].bytes)[:MOST_PARTITIONS]
        kept = {directory for directory, _ in heaviest}
        chosen = tuple(item for item in chosen if item[0] in kept)
    names = [label(directory or "all rows") for directory, _ in chosen]
    found = [p for _, p in chosen]
    hover = [
        f"<b>{name}</b><br>{p.files:,} files, {size_text(p.bytes)}"
        + ("" if p.rows is None else f"<br>{p.rows:,} rows")
        for name, p in zip(names, found, strict=True)
    ]
    many = len(names) > FEW_PARTITIONS
    shape = (2, 1) if many else (1, 2)
    figure = _figure(*shape, subplot_titles=("size", "files"), horizontal_spacing=0.14, shared_xaxes=many)
    factor, unit = _unit(max((p.bytes for p in found), default=0))
    sizes, counts = [p.bytes / factor for p in found], [p.files for p in found]
    for n, (values, colour) in enumerate(((sizes, COLOURS["append"]), (counts, COLOURS["merge"])), 1):
        bar = go.Bar(
            x=list(range(len(names))),
            y=values,
            marker_color=colour,
            text=hover,
            textposition="none",
            hovertemplate="%{text}<extra></extra>",
            showlegend=False,
        )
        figure.add_trace(bar, row=n if many else 1, col=1 if many else n)
    # Positions with texts, not categories: two names may look the same once they are cut short.
    figure.update_xaxes(tickmode="array", tickvals=list(range(len(names))), ticktext=names)
    figure.update_xaxes(tickangle=-60 if many else -30, range=[-0.7, max(len(names), 3) - 0.3])
    figure.update_yaxes(selector=0, title_text=unit)
    figure.update_yaxes(selector=1, **_whole(counts))
    figure.update_layout(height=420 if many else 340)
    return figure


def _whole(counts: Sequence[int]) -> dict[str, Any]:
    """An axis of counts: no ticks between them."""
    return {"dtick": 1} if max(counts, default=0) <= 6 else {"tickformat": ",d"}


def _unit(largest: int) -> tuple[int, str]:
    for factor, unit in ((2**40, "TB"), (2**30, "GB"), (2**20, "MB"), (2**10, "KB")):
        if largest >= factor:
            return factor, unit
    return 1, "bytes"


def file_sizes(facts: TableFacts) -> Any:
    """How many files there are of each size, by powers of two."""
    import plotly.graph_objects as go

    powers = [int(math.log2(max(1, s))) for s in facts.file_sizes]
    first, last = (min(powers), max(powers)) if powers else (0, 0)
    first, last = max(0, first - 1), last + 1
    counts = [powers.count(p) for p in range(first, last + 1)]
    names = [f"{size_text(2**p)}–{size_text(2 ** (p + 1))}" for p in range(first, last + 1)]
    names = [n.replace(".0 ", " ") for n in names]
    figure = _figure()
    figure.add_trace(
        go.Bar(
            x=names,
            y=counts,
            marker_color=COLOURS["append"],
            text=[f"{c:,}" if c else "" for c in counts],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y:,} files of %{x}<extra></extra>",
        )
    )
    figure.update_xaxes(type="category", tickangle=-30 if len(names) > 5 else 0)
    figure.update_yaxes(title_text="files", **_whole(counts))
    figure.update_layout(height=340, bargap=0.1)
    return figure


def changes(facts: TableFacts) -> Any | None:
    """Files and bytes before and after each maintenance, and what sweeps deleted; None if there was none."""
    import plotly.graph_objects as go

    kept = [p for p in facts.points if p.op in CHANGES_DATA or p.op == "sweep"][-MOST_CHANGES:]
    if not kept:
        return None
    names = [f"{label(p.op)} {p.time:%H:%M:%S}" for p in kept]
    places = list(range(len(kept)))
    figure = _figure(1, 2, subplot_titles=("files", "size"), horizontal_spacing=0.06, shared_yaxes=True)
    factor, unit = _unit(
        max(max(p.bytes_removed or 0, p.bytes_added, p.summary.get("bytes", 0)) for p in kept)
    )
    sets = (
        ("replaced or removed", BEFORE, "before", [_replaced(p) for p in kept]),
        ("written instead", AFTER, "after", [_written(p) for p in kept]),
        ("deleted by sweep", COLOURS["delete"], "before", [_swept(p) for p in kept]),
    )
    for name, colour, group, values in sets:
        for column in (1, 2):
            shown = [None if v is None else v[0] if column == 1 else v[1] / factor for v in values]
            texts = ["" if v is None else f"{v[0]:,}" if column == 1 else size_text(v[1]) for v in values]
            bar = go.Bar(
                y=places,
                x=shown,
                orientation="h",
                name=name,
                legendgroup=name,
                offsetgroup=group,
                showlegend=column == 1,
                marker_color=colour,
                text=texts,
                textposition="outside",
                constraintext="none",
                cliponaxis=False,
                hovertemplate=name + ": %{text}<extra></extra>",
            )
            figure.add_trace(bar, row=1, col=column)
    figure.update_yaxes(
        tickmode="array", tickvals=places, ticktext=names, range=[len(kept) - 0.5, -0.5], showgrid=False
    )
    figure.update_xaxes(showgrid=True, rangemode="tozero")
    figure.update_xaxes(selector=0, tickformat=",d")
    figure.update_xaxes(selector=1, ticksuffix=f" {unit}")
    figure.update_layout(height=130 + 46 * len(kept), margin={"t": 78, "r": 72}, bargap=0.3, barmode="group")
    figure.update_layout(legend={"y": 1, "yref": "container", "yanchor": "top"})
    return figure


def _replaced(p: Point) -> tuple[int, int] | None:
    return None if p.op == "sweep" else (p.files_removed, p.bytes_removed or 0)


def _written(p: Point) -> tuple[int, int] | None:
    return None if p.op == "sweep" else (p.files_added, p.bytes_added)


def _swept(p: Point) -> tuple[int, int] | None:
    """Objects and bytes that a sweep deleted."""
    if p.op != "sweep":
        return None
    objects = sum(int(p.summary.get(name, 0)) for name in ("data_files", "logs", "orphans"))
    return objects, int(p.summary.get("bytes", 0))


def requests(steps: Sequence[Step]) -> Any:
    """Requests of each step by verb, and its seconds."""
    import plotly.graph_objects as go

    chosen = list(steps)
    names = [label(s.title) for s in chosen]
    places = list(range(len(chosen)))
    figure = _figure(
        1, 2, subplot_titles=("requests", "seconds"), column_widths=[0.62, 0.38], shared_yaxes=True
    )
    for verb, colour in VERBS.items():
        bar = go.Bar(
            y=places,
            x=[s.requests.get(verb, 0) for s in chosen],
            orientation="h",
            name=verb.upper(),
            marker_color=colour,
            hovertemplate="%{x:,} " + verb.upper() + "<extra></extra>",
        )
        figure.add_trace(bar, row=1, col=1)
    totals = [sum(s.requests.get(verb, 0) for verb in VERBS) for s in chosen]
    texts = go.Scatter(
        y=places,
        x=totals,
        mode="text",
        text=[f" {t:,}" for t in totals],
        textposition="middle right",
        showlegend=False,
        hoverinfo="skip",
        cliponaxis=False,
    )
    figure.add_trace(texts, row=1, col=1)
    seconds = go.Bar(
        y=places,
        x=[s.seconds for s in chosen],
        orientation="h",
        marker_color=BEFORE,
        text=[f"{s.seconds:.1f}" for s in chosen],
        textposition="outside",
        cliponaxis=False,
        showlegend=False,
        hovertemplate="%{x:.2f} s<extra></extra>",
    )
    figure.add_trace(seconds, row=1, col=2)
    figure.update_layout(barmode="stack", height=130 + 34 * len(chosen), margin={"l": 24, "t": 78, "r": 56})
    figure.update_layout(legend={"y": 1, "yref": "container", "yanchor": "top"})
    figure.update_xaxes(showgrid=True, rangemode="tozero")
    figure.update_yaxes(
        tickmode="array", tickvals=places, ticktext=names, autorange="reversed", showgrid=False
    )
    return figure


def run_sizes(runs: Sequence[tuple[str, int, int]]) -> Any:
    """A keyed table's runs as bars: (title, bytes, files) of each, the newest above."""
    import plotly.graph_objects as go

    places = list(range(len(runs)))
    factor, unit = _unit(max((size for _, size, _ in runs), default=0))
    figure = _figure()
    figure.add_trace(
        go.Bar(
            y=places,
            x=[size / factor for _, size, _ in runs],
            orientation="h",
            marker_color=COLOURS["append"],
            text=[f"{size_text(size)} in {count:,}" for _, size, count in runs],
            textposition="outside",
            cliponaxis=False,
            showlegend=False,
            hovertemplate="%{text}<extra></extra>",
        )
    )
    names = [label(title) for title, _, _ in runs]
    figure.update_yaxes(
        tickmode="array", tickvals=places, ticktext=names, autorange="reversed", showgrid=False
    )
    figure.update_xaxes(showgrid=True, rangemode="tozero", ticksuffix=f" {unit}")
    figure.update_layout(height=110 + 34 * len(runs), margin={"l": 24, "r": 96})
    return figure
