"""The demo's keyed table: each airport's delays, counted by a merge operator while the flights arrive."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firn.cli.demo.data import read_flights
from firn.cli.terminal import waiting
from firn.database.database import connect
from firn.errors import FencedError

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable
    from firn.keyed.write.writer import KeyedWriter

TABLE = "delays"
BATCH = 500
GETS = 2_000

JOINED = f"""SELECT a.state, sum(d.flights) AS flights, round(sum(d.minutes) / sum(d.flights), 2) AS delay
FROM {TABLE} d JOIN airports a ON d.airport = a.iata
GROUP BY a.state ORDER BY flights DESC, a.state LIMIT 5"""


@dataclass(frozen=True)
class Counted:
    """What one writer did. `left`: the flights that it didn't get to; `fenced` why."""

    flights: int
    seconds: float
    requests: Mapping[str, int]
    left: list[dict[str, Any]]
    fenced: str = ""


class Delays:
    """The table `delays`, with one key for each airport."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._url, self._options = url, dict(options)
        connect(self._url, options=self._options).create_table(
            TABLE,
            kind="keyed",
            key={"airport": "VARCHAR"},
            schema={"flights": "BIGINT", "minutes": "BIGINT", "worst": "BIGINT"},
            merge={"flights": "add", "minutes": "add", "worst": "max"},
        )
        self._flights = read_flights()
        self.old: KeyedWriter | None = None

    def table(self) -> KeyedTable:
        """As a new process opens it."""
        return connect(self._url, options=self._options).table(TABLE, kind="keyed")

    def begin(self) -> Counted:
        """The first writer counts half of the flights, and stays open."""
        table = self.table()
        meter = waiting.Meter(table.bucket)
        half = len(self._flights) // 2
        self.old = table.open()
        count(self.old, self._flights[:half])
        return Counted(half, meter.seconds, meter.requests, self._flights[half:])

    def take_over(self, left: list[dict[str, Any]]) -> tuple[Counted, str]:
        """A second writer opens; the first one goes on and is fenced; the second counts what is left. Its message."""
        assert self.old is not None
        table = self.table()
        meter = waiting.Meter(table.bucket)
        with table.open() as new:
            try:
                count(self.old, left[:BATCH])
            except FencedError as error:
                fenced = str(error)
            else:
                fenced = ""
            count(new, left)
        with suppress(FencedError):
            self.old.close()
        return Counted(len(left), meter.seconds, meter.requests, []), fenced

    def expected(self) -> dict[str, tuple[int, int, int]]:
        """Flights, minutes and the worst delay of each airport, counted in plain Python."""
        found: dict[str, tuple[int, int, int]] = {}
        for flight in self._flights:
            flights, minutes, worst = found.get(flight["origin"], (0, 0, flight["delay"]))
            delay = flight["delay"]
            found[flight["origin"]] = (flights + 1, minutes + delay, max(worst, delay))
        return found

    def found(self) -> dict[str, tuple[int, int, int]]:
        """The same, as a reader finds it in the table."""
        with self.table().reader() as reader:
            return {airport: (row["flights"], row["minutes"], row["worst"]) for airport, row in reader.scan()}

    def lookups(self, airport: str) -> tuple[dict[str, Any], float]:
        """One airport's row, and the mean seconds of a get when it isn't the first."""
        with self.table().reader() as reader:
            row: dict[str, Any] = reader.get(airport)
            began = time.perf_counter()
            for _ in range(GETS):
                reader.get(airport)
            return row, (time.perf_counter() - began) / GETS


def count(kv: KeyedWriter, flights: list[dict[str, Any]]) -> None:
    """One operand for each flight, in durable batches: nobody reads what is there before."""
    from firn.keyed.write.batch import WriteBatch

    for start in range(0, len(flights), BATCH):
        batch = WriteBatch()
        for flight in flights[start : start + BATCH]:
            delay = flight["delay"]
            batch.merge(flight["origin"], {"flights": 1, "minutes": delay, "worst": delay})
        kv.write(batch)
