"""The demo's steps, in order. Each does what a user would do, measures it, and checks that it is true."""

from __future__ import annotations

import os
import shlex

from firn.bucket.urls import parse_url
from firn.cli.demo.delays import tell_of_delays
from firn.cli.demo.lake import tell_of_flights, tell_of_writers
from firn.cli.demo.stage import Stage
from firn.cli.demo.stands import Stands
from firn.inspect.report.report import write_report


def tell(stage: Stage) -> str:
    """Every step; where the report is: in the demo's directory, or here for a bucket."""
    answers = tell_of_flights(stage)
    tell_of_writers(stage)
    tell_of_delays(stage, answers)
    Stands(stage).tell()
    stage.step("A report of all this")
    local = parse_url(stage.url).kind == "directory" and "://" not in stage.url
    report = os.path.join(stage.url, "firn-report.html") if local else "firn-report.html"
    write_report(stage.db, report, steps=stage.steps)
    stage.say(f"{report} (open it in a browser)")
    return report


def what_next(url: str) -> list[str]:
    """Commands for the user to go on with; the tests run them."""
    url = url.rstrip("/")
    db, flights, delays, stands = map(
        shlex.quote, (url, *(f"{url}/{n}" for n in ("flights", "delays", "stands")))
    )
    return [
        f"firn tables {db}",
        f"firn writers {db}",
        f'firn scan {flights} --where "delay > 400"',
        f"firn log {flights} --limit 10",
        f"""echo '{{"date": "2001-04-01T12:00"}}' | firn append {flights}""",
        f"firn merge {flights} --dry-run",
        f"firn keyed scan {delays} --start A --end C",
        f"firn keyed manifest {delays}",
        f"firn records find {stands} state=HI --order-by 'aircraft desc'",
        f"firn records get {stands} HNL",
        f"firn log {stands} --limit 5",
        f"firn dump {flights}/",
        f'firn sql "SELECT origin, avg(delay) FROM flights GROUP BY 1" --db {db}',
    ]
