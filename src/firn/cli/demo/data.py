"""The demo's data: three files of the Vega datasets, works of the US government, in the public domain."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from firn.errors import NotFoundError

FLIGHTS, AIRPORTS, BIRDSTRIKES = "flights-20k.json", "airports.csv", "birdstrikes.csv"


def data_file(name: str) -> Path:
    """Where a file is: beside this module where Firn is installed, in `data/` of a checkout."""
    here = Path(__file__).resolve()
    for folder in (here.parent / "data", here.parents[4] / "data"):
        if (folder / name).is_file():
            return folder / name
    raise NotFoundError(f"the demo's data isn't there: {name} is missing from this installation of Firn.")


def read_flights() -> list[dict[str, Any]]:
    """20,000 flights in the order of their dates: date, delay, distance, origin, destination."""
    import orjson

    rows: list[dict[str, Any]] = orjson.loads(data_file(FLIGHTS).read_bytes())
    for row in rows:
        row["date"] = datetime.strptime(row["date"], "%Y/%m/%d %H:%M")
    return rows
