"""Write the table of docs/howto/costs.md: what a lake table costs a month, by a model of its requests.

    python scripts/write_costs.py

A test compares the page with the model, and the model's functions with the counters of a bucket.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs/howto/costs.md"
TABLE = re.compile(r"(<!-- costs -->\n).*?(<!-- end of costs -->\n)", re.DOTALL)

RATES = (1, 100, 10_000)
"""Commits a minute of the table's rows."""
MONTH_S = 30 * 24 * 3600
LOOK_S = 10
"""How often an appender looks for columns of others: `schema_refresh`."""
WINDOW_S = 9 * 60
"""How far before its last view, or the log checkpoint, a process lists."""
BEHIND = 100
"""Logs that an appender sees before it looks whether the log checkpoint lacks too many of them."""
KEYS_A_PAGE = 1000
"""Of one LIST request, on S3."""


@dataclass(frozen=True)
class Requests:
    """Numbers of requests, by verb."""

    get: float = 0
    put: float = 0
    list: float = 0
    delete: float = 0

    def __add__(self, other: Requests) -> Requests:
        return Requests(
            self.get + other.get, self.put + other.put, self.list + other.list, self.delete + other.delete
        )

    def __mul__(self, times: float) -> Requests:
        return Requests(self.get * times, self.put * times, self.list * times, self.delete * times)


@dataclass(frozen=True)
class Prices:
    """Dollars a request, and a GB (2**30 bytes) and month. DELETE is free."""

    get: float = 0.0004 / 1000
    put: float = 0.005 / 1000
    list: float = 0.005 / 1000
    stored: float = 0.023

    def cents(self, requests: Requests, byte_months: float = 0) -> float:
        asked = requests.get * self.get + requests.put * self.put + requests.list * self.list
        return 100 * (asked + byte_months / 2**30 * self.stored)


@dataclass(frozen=True)
class Keeper:
    """How often a table is kept: folds at `fold_at` commits, but for `rest_s` between two; every `tidy_s` a merge of
    the folds' files, a log checkpoint and a sweep. `listed_s` is how long a log stays listed on average: the grace,
    and what the next sweep is late."""

    fold_at: int = 64
    rest_s: float = 60
    tidy_s: float = 3600
    listed_s: float = 1.5 * 3600


@dataclass(frozen=True)
class Sizes:
    """Bytes of a commit of ten rows of four columns: its log, with its rows or without; its file; its share of a file
    of 64 commits."""

    inlined_log: int = 714
    log: int = 540
    file: int = 1_680
    merged: int = 70


def pages(keys: float) -> int:
    """LIST requests of a listing."""
    return max(1, math.ceil(keys / KEYS_A_PAGE))


def append(*, inline: bool) -> Requests:
    """A commit of rows of one partition."""
    return Requests(put=1 if inline else 2)


def look() -> Requests:
    """An appender's look for columns of others."""
    return Requests(list=1)


def catch_up(lacking: float, listed: float, *, writes: bool) -> Requests:
    """An appender's look whether the log checkpoint lacks many logs. If it seems so, those `lacking` that no other
    replaces are read. If these are many, it is written."""
    return Requests(get=2 + lacking if lacking else 1, put=writes, list=pages(listed) * (2 if lacking else 1))


def fold(commits: float, listed: float, *, inline: bool) -> Requests:
    """Commits since the last fold into a file of one partition.

    A keeper lists what came since the fold before the last: to see that it is time, under the lock, and once more
    before it gives the lock back. A merge of files lists a log of several pages twice.
    """
    if inline:
        return Requests(get=commits + 1, put=6, list=2 * pages(2 * commits + 1) + 1)
    return Requests(get=2 * commits + 4, put=6, list=_passes(listed))


def merge(files: float, listed: float) -> Requests:
    """Files of folds into one."""
    return Requests(get=files + 2, put=6, list=_passes(listed))


def checkpoint(listed: float) -> Requests:
    """A log checkpoint of a table with inlined rows, after a merge by the same process."""
    return Requests(get=2, put=1, list=pages(listed))


def sweep(objects: float, listed: float, files: float, *, inline: bool) -> Requests:
    """Deletes so many objects, of so many logs and data files that are listed. The checkpoint, if there is one, is
    written anew."""
    if inline:
        return Requests(get=5, put=7, list=pages(listed) + pages(files) + 2, delete=objects)
    return Requests(get=4, put=6, list=_passes(listed) + pages(files) + 1, delete=objects)


def read(waiting: float, files: float, listed: float, *, checkpoint: bool) -> Requests:
    """All rows, by a process that opens the table: `waiting` logs that no other replaces, without those of the
    checkpoint, and the data files."""
    return Requests(get=waiting + files + 2, list=_passes(listed) if checkpoint else pages(listed))


def _passes(listed: float) -> int:
    """Who knows some logs and meets a new merge lists the log once more where that took several pages."""
    return pages(listed) if pages(listed) == 1 else 2 * pages(listed)


@dataclass(frozen=True)
class Bill:
    """A table's first month: all requests but reads, what is stored at its end, and one cold read then."""

    requests: Requests
    stored: float
    read: Requests


def first_month(
    commits_a_minute: float, *, inline: bool, keeper: Keeper | None, sizes: Sizes | None = None
) -> Bill:
    """What one appender's commits cost. Pure.

    >>> bill = first_month(1, inline=False, keeper=None)
    >>> bill.requests, bill.stored == 43_200 * (Sizes().log + Sizes().file)
    (Requests(get=0.0, put=86400.0, list=43200.0, delete=0.0), True)
    """
    sizes = sizes or Sizes()
    rate = commits_a_minute / 60
    commits = rate * MONTH_S
    each = sizes.inlined_log if inline else sizes.log + sizes.file
    looks = min(commits, MONTH_S / LOOK_S)
    catches = min(commits / BEHIND, looks) if inline and keeper is not None else 0
    appended = append(inline=inline) * commits + look() * looks
    window_s = WINDOW_S + MONTH_S / catches if catches else 0
    if keeper is None:
        written = _checkpoints(commits) if inline else 0
        if written:
            appended += catch_up(commits / written, commits / written, writes=True) * written
        waiting = max(BEHIND, commits / 5) if inline else commits
        return Bill(
            appended, commits * each, read(waiting, 0 if inline else commits, commits, checkpoint=False)
        )
    between = max(keeper.fold_at / rate, keeper.rest_s)  # seconds from fold to fold
    folded, listed = rate * between, rate * keeper.listed_s
    folds = keeper.tidy_s / between
    objects = (1 if inline else 2) * rate * keeper.tidy_s + 2 * folds
    kept = fold(folded, listed, inline=inline) * (MONTH_S / between)
    tidied = sweep(objects, listed, 1 if inline else listed, inline=inline)
    if inline:
        waiting = (folded + folds) / 2
        fresh = min(commits / catches, waiting)
        kept += catch_up(fresh, rate * window_s, writes=waiting >= BEHIND) * catches
        tidied += merge(folds, listed) + checkpoint(listed)
        seen = rate * (WINDOW_S + keeper.tidy_s / 2)
        reading = read(folded + folds, folds + 1, seen, checkpoint=True)
    else:  # each fold takes the file of the last one along
        reading = read(folded + 1, folded + 1, listed, checkpoint=False)
    stored = commits * sizes.merged + listed * each
    return Bill(appended + kept + tidied * (MONTH_S / keeper.tidy_s), stored, reading)


def _checkpoints(commits: float) -> int:
    """How often an appender writes the log checkpoint where nobody folds: it grows by a quarter each time.

    >>> _checkpoints(99), _checkpoints(500)
    (0, 5)
    """
    covered = written = 0
    while (more := BEHIND * math.ceil(max(1, covered // 4 / BEHIND))) <= commits - covered:
        covered, written = covered + more, written + 1
    return written


def table() -> str:
    """The page's table."""
    prices = Prices()
    heads = ["commits a minute", "rows in the log", "kept", "PUT", "GET", "LIST", "DELETE", "cents", "stored"]
    heads += ["a cold read", "cents"]
    lines = [_line(heads), _line(["--:", ":-:", ":-:", *["--:"] * (len(heads) - 3)])]
    for rate in RATES:
        for inline in (True, False):
            for keeper in (None, Keeper()):
                bill = first_month(rate, inline=inline, keeper=keeper)
                asked, reading = bill.requests, bill.read
                cells = [
                    f"{rate:,}",
                    "yes" if inline else "no",
                    "no" if keeper is None else "yes",
                    *(_count(n) for n in (asked.put, asked.get, asked.list, asked.delete)),
                    _cents(prices.cents(asked, bill.stored / 2)),  # it has grown to that
                    _size(bill.stored),
                    f"{_count(reading.get)} GET, {_count(reading.list)} LIST",
                    _cents(prices.cents(reading)),
                ]
                lines.append(_line(cells))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _count(number: float) -> str:
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if number >= unit:
            return f"{number / (1e3 if name == ' k' else unit):.3g}{name}"
    return f"{math.ceil(number):,}"


def _cents(cents: float) -> str:
    return f"{cents:,.0f}" if cents >= 10 else f"{cents:.2g}"


def _size(size: float) -> str:
    for unit, name in ((2**30, "GB"), (2**20, "MB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size / 2**10:.3g} KB"


def written(text: str) -> str:
    """The page with the table as it is now."""
    return TABLE.sub(lambda found: f"{found[1]}\n{table()}\n{found[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
