"""What a program measured: runs in pairs, ratios of medians, targets; as JSON and as tables."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
FIRN = "firn"


@dataclass
class Measure:
    """One piece of work by one engine: a time a round, and what else is known of it (requests, bytes, files)."""

    name: str
    engine: str
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None


@dataclass(frozen=True)
class Target:
    """A figure and the bound it should keep. A missed one is printed, and fails nothing."""

    name: str
    value: float | None
    bound: float
    at_most: bool

    @property
    def met(self) -> bool | None:
        if self.value is None:
            return None
        return self.value <= self.bound if self.at_most else self.value >= self.bound


class Figures:
    """Collects the measures of one program."""

    def __init__(self, program: str, settings: Mapping[str, Any]) -> None:
        self.program = program
        self.settings = dict(settings)
        self.measures: dict[tuple[str, str], Measure] = {}
        self.targets: list[Target] = []
        self.notes: list[str] = []
        self._began = os.getloadavg()[0]

    def measure(self, name: str, engine: str) -> Measure:
        return self.measures.setdefault((name, engine), Measure(name, engine))

    def record(self, name: str, engine: str, seconds: float | None = None, **detail: Any) -> None:
        """Add a round's time, and facts that hold for all rounds."""
        measure = self.measure(name, engine)
        if seconds is not None:
            measure.seconds.append(seconds)
        if "cpu_s" in detail:
            measure.cpu_seconds.append(detail["cpu_s"])
            detail["cpu_s"] = round(statistics.median(measure.cpu_seconds), 2)
        measure.detail.update(detail)

    def pairs(
        self, name: str, work: Mapping[str, Callable[[], Mapping[str, Any] | None]], *, rounds: int = 1
    ) -> None:
        """Time every engine's work in turn, A B A B; each round begins with the next engine, so that none is
        always the one that finds warm caches."""
        engines = list(work)
        for number in range(rounds):
            for engine in rotated(engines, number):
                self.timed(name, engine, work[engine])

    def timed(self, name: str, engine: str, work: Callable[[], Mapping[str, Any] | None]) -> None:
        gc.collect()
        began = time.perf_counter()
        detail = work()
        self.record(name, engine, time.perf_counter() - began, **(detail or {}))

    def ratio(self, name: str, engine: str, *, over: str = FIRN) -> float | None:
        """How many times as long as `over` an engine takes: the median of the rounds' ratios."""
        mine = self.measures.get((name, over))
        theirs = self.measures.get((name, engine))
        if mine is None or theirs is None or not mine.seconds or not theirs.seconds:
            return None
        return statistics.median(t / m for t, m in zip(theirs.seconds, mine.seconds, strict=False))

    def fastest(self, name: str, engines: Iterable[str]) -> float | None:
        """The smallest of the engines' ratios: against the faster peer."""
        ratios = [r for r in (self.ratio(name, engine) for engine in engines) if r is not None]
        return min(ratios) if ratios else None

    def target(
        self, name: str, value: float | None, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        if at_most is not None:
            self.targets.append(Target(name, value, at_most, True))
        elif at_least is not None:
            self.targets.append(Target(name, value, at_least, False))

    def as_dict(self) -> dict[str, Any]:
        measures = [
            {
                "name": m.name,
                "engine": m.engine,
                "seconds": m.seconds,
                "median_s": m.median,
                "cpu_seconds": m.cpu_seconds,
                "ratio_to_firn": None if m.engine == FIRN else self.ratio(m.name, m.engine),
                **m.detail,
            }
            for m in self.measures.values()
        ]
        targets = [
            {
                "name": t.name,
                "value": t.value,
                "bound": t.bound,
                "kind": "at_most" if t.at_most else "at_least",
                "met": t.met,
            }
            for t in self.targets
        ]
        return {
            "program": self.program,
            "settings": self.settings,
            "machine": machine(self._began),
            "measures": measures,
            "targets": targets,
            "notes": self.notes,
        }

    def write(self, directory: Path) -> Path:
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{self.program}.json"
        path.write_text(json.dumps(self.as_dict(), indent=1, default=str) + "\n")
        return path

    def show(self, console: Console | None = None) -> None:
        console = console or Console(width=None if os.isatty(1) else 140)
        console.print(self._table())
        if self.targets:
            console.print(self._targets())
        for note in self.notes:
            console.print(f"[dim]{note}[/dim]")

    def _table(self) -> Table:
        table = Table(title=self.program, box=box.SIMPLE_HEAD, title_justify="left")
        table.add_column("work", max_width=42)
        table.add_column("engine", no_wrap=True)
        table.add_column("median s", justify="right", no_wrap=True)
        table.add_column("× Firn's", justify="right", no_wrap=True)
        table.add_column("what else", ratio=1)
        previous = None
        for m in self.measures.values():
            ratio = None if m.engine == FIRN else self.ratio(m.name, m.engine)
            known = ((key, shown(value)) for key, value in m.detail.items())
            table.add_row(
                m.name if m.name != previous else "",
                m.engine,
                shown(m.median),
                "" if ratio is None else f"{ratio:.2f}",
                ", ".join(
                    f"{key.replace('_', ' ')} {value}" for key, value in known if value not in ("", "0")
                ),
            )
            previous = m.name
        return table

    def _targets(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD)
        for column in ("target", "value", "bound", ""):
            table.add_column(column, justify="left" if column in ("target", "") else "right")
        for t in self.targets:
            verdict = {True: "[green]met[/green]", False: "[red]missed[/red]", None: "not measured"}[t.met]
            table.add_row(t.name, shown(t.value), f"{'≤' if t.at_most else '≥'} {shown(t.bound)}", verdict)
        return table


def rotated(engines: Sequence[str], by: int) -> list[str]:
    """The same cycle, begun at another engine.

    >>> rotated(["a", "b", "c"], 1)
    ['b', 'c', 'a']
    """
    start = by % len(engines)
    return [*engines[start:], *engines[:start]]


def shown(value: Any) -> str:
    """A figure for a table cell."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return str(value)


def machine(load: float) -> dict[str, Any]:
    """Where the figures come from."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return {
        "cpus": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "system": platform.system(),
        "commit": commit.stdout.strip() or None,
        "load_before": round(load, 2),
    }


@contextmanager
def counted(bucket: Any, into: dict[str, Any]) -> Any:
    """Put into `into` the requests and bytes that a bucket needs for the block."""
    before = bucket.counters.as_dict()
    yield
    spent = bucket.counters.since(before)
    mb_in, mb_out = (round(spent.pop(way) / 2**20, 3) for way in ("bytes_in", "bytes_out"))
    into.update({"requests": sum(spent.values()), **spent, "mb_in": mb_in, "mb_out": mb_out})


def arguments(doc: str | None) -> argparse.ArgumentParser:
    """A program's command line, with what all of them take."""
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the JSON goes")
    parser.add_argument("--no-peers", action="store_true", help="run Firn alone")
    return parser


def finish(figures: Figures, out: Path) -> None:
    """Print the tables and write the JSON."""
    figures.show()
    path = figures.write(out)
    Console().print(f"[dim]{path}[/dim]")
