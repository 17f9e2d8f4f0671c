"""Run the command line in this process, and a small table to run it on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from typer import testing

import firn
from firn.cli.app import app
from firn.cli.commands import register

register()  # before a test imports a module of commands by itself: the help has them in order

# Typer would build all commands anew for each run, which takes longer than most of them. They keep nothing of a run.
testing._get_command = cache(testing._get_command)


@dataclass(frozen=True)
class Run:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on standard output."""
        return orjson.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON lines on standard output."""
        return [orjson.loads(line) for line in self.out.splitlines()]


def run(*args: object, stdin: str | bytes | None = None) -> Run:
    """Run `firn` with arguments."""
    result = testing.CliRunner().invoke(app, [str(a) for a in args], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Run(result.exit_code, result.stdout, result.stderr)


def done(*args: object, stdin: str | bytes | None = None) -> Run:
    """Run `firn`; it must succeed."""
    found = run(*args, stdin=stdin)
    assert found.code == 0, found
    return found


ROWS = [
    {"date": datetime(2001, month, day, 6, 30), "delay": 10 * day - month, "origin": origin}
    for month in (1, 2, 3)
    for day, origin in ((1, "DTW"), (2, "HNL"))
]


def flights(directory: Path, **properties: Any) -> firn.LakeTable:
    """Six rows in three monthly partitions, appended one by one."""
    table = firn.connect(directory).create_table(
        "flights", partition_by=["month(date)"], sort_by=["date"], properties=properties
    )
    for row in ROWS:
        table.append([row])
    return table
