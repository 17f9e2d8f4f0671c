"""Tables on a terminal: side by side where they fit, else each row as a block of lines. Pure layout."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

GAP = 2
"""Spaces between columns."""

NARROWEST = 16
"""Cells of so many characters that a column of text may be wrapped down to. Numbers and times never wrap."""

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROL |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


@dataclass(frozen=True)
class Grid:
    """Lines of a table: `heads` lines of the header, then the others. Blocks have no header."""

    lines: tuple[str, ...]
    heads: int
    blocks: bool


def lay_out(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int], width: int
) -> Grid:
    """A table in lines of at most `width` cells: as it is, with long text wrapped, or a block of lines a row.

    >>> print(*lay_out(["n", "name"], [["1", "a"], ["20", "b"]], right=[0], width=80).lines, sep="\\n")
     n  name
    ────────
     1  a
    20  b
    >>> print(*lay_out(["n", "name"], [["1", "abcdef"]], right=[0], width=8).lines, sep="\\n")
    n     1
    name  ab
          cd
          ef
    """
    columns = [_plain(name) for name in columns]
    rows = [[_plain(value) for value in row] for row in rows]
    found = _widths(columns, rows, right, width)
    return _blocks(columns, rows, width) if found is None else _side_by_side(columns, rows, right, found)


def _plain(text: str) -> str:
    """Without line breaks, which would end the row, and what a terminal would obey."""
    return text.translate(_CONTROL)


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int], width: int
) -> list[int] | None:
    """Columns' widths; None where the table can't be as narrow as that."""
    longest = [max((cell_len(row[i]) for row in rows), default=0) for i in range(len(columns))]
    words = [max(map(cell_len, name.split()), default=0) for name in columns]
    wanted = [max(longest[i], cell_len(name)) for i, name in enumerate(columns)]
    room = width - GAP * (len(columns) - 1)
    if sum(wanted) <= room:
        return wanted
    # A header breaks between its words; then the widest texts give way.
    wanted = [max(pair) for pair in zip(longest, words, strict=True)]
    texts = [
        i
        for i in range(len(columns))
        if i not in right
        and any(" " in row[i] for row in rows)
        and wanted[i] > NARROWEST
        and not all(row[i][:1].isdigit() for row in rows)
    ]
    while sum(wanted) > room:
        i = max(texts, key=lambda i: wanted[i], default=None)
        if i is None or wanted[i] <= max(NARROWEST, words[i]):
            return None
        wanted[i] -= 1
    return wanted


def _side_by_side(
    columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int], widths: Sequence[int]
) -> Grid:
    head = _row(columns, right, widths)
    rule = "─" * (sum(widths) + GAP * (len(widths) - 1))
    body = [line for row in rows for line in _row(row, right, widths)]
    return Grid((*head, rule, *body), len(head) + 1, blocks=False)


def _row(cells: Sequence[str], right: Collection[int], widths: Sequence[int]) -> list[str]:
    parts = [_wrapped(text, width) for text, width in zip(cells, widths, strict=True)]
    lines = []
    for number in range(max(map(len, parts), default=0)):
        line = []
        for i, part in enumerate(parts):
            text = part[number] if number < len(part) else ""
            space = " " * (widths[i] - cell_len(text))
            line.append(space + text if i in right else text + space)
        lines.append((" " * GAP).join(line).rstrip())
    return lines


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Grid:
    names = min(max(map(cell_len, columns), default=0), max(width // 2, 1))
    lines: list[str] = []
    for row in rows:
        if lines:
            lines.append("")
        for name, text in zip(columns, row, strict=True):
            titles, values = _wrapped(name, names), _wrapped(text, max(width - names - GAP, 1))
            for number in range(max(len(titles), len(values))):
                title = titles[number] if number < len(titles) else ""
                value = values[number] if number < len(values) else ""
                lines.append(f"{title}{' ' * (names - cell_len(title) + GAP)}{value}".rstrip())
    return Grid(tuple(lines), 0, blocks=True)


def _wrapped(text: str, width: int) -> list[str]:
    if cell_len(text) <= width:
        return [text]
    # Wide characters take two cells each: half of them fit.
    wide = cell_len(text) > len(text)
    return textwrap.wrap(text, max(width // 2 if wide else width, 1), break_on_hyphens=False) or [""]
