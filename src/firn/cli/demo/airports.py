"""The demo's fleet: three airports that keep their departures, each a writer of its own in its own process."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from firn.cli.demo.appending import Appended, Share, append_from_processes
from firn.cli.demo.data import read_flights
from firn.cli.terminal import waiting
from firn.cli.terminal.output import plural, size
from firn.database.database import connect
from firn.errors import DegradedReadWarning
from firn.journal.writer.federation.federation import Federation

if TYPE_CHECKING:
    from firn.lake.table import LakeTable

AIRPORT_WRITERS: Mapping[str, str] = {"ATL": "atlanta", "DFW": "dallas", "ORD": "chicago"}
TABLE = "departures"
BATCHES = 20

FEDERATED = f"SELECT origin, count(*) AS flights FROM {TABLE} GROUP BY origin ORDER BY flights DESC"


class Airports:
    """The table `departures` of three writers."""

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._url, self._options = url, dict(options)
        origins = Counter(flight["origin"] for flight in read_flights())
        self.expected = {origin: origins[origin] for origin in AIRPORT_WRITERS}

    def append(self) -> Appended:
        """Create the table as the first writer; then each appends its own departures, all at the same time."""
        first = next(iter(AIRPORT_WRITERS.values()))
        connect(self._url, options=self._options, writer=first).create_table(
            TABLE, journal="writer", partition_by=["month(date)"]
        )
        shares = [Share(BATCHES, origin=origin, writer=writer) for origin, writer in AIRPORT_WRITERS.items()]
        return append_from_processes(self._url, self._options, TABLE, shares)

    def version(self) -> str:
        """One revision a writer."""
        return self._table().snapshot().version

    def warning(self) -> str:
        """What a reader is told of the writers."""
        return "; ".join(self._table().snapshot().warnings)

    def counts(self) -> dict[str, int]:
        """Departures by airport, as a new process sees them."""
        origins = self._table().scan(columns=["origin"]).to_arrow()["origin"].to_pylist()
        return dict(Counter(origins))

    def counts_without(self) -> dict[str, int]:
        """`counts` where a writer is known to be lost: what readers are warned of is shown by `warning`."""
        log = logging.getLogger("firn")
        before = log.level
        log.setLevel(logging.ERROR)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DegradedReadWarning)
                return self.counts()
        finally:
            log.setLevel(before)

    def delete_catalog(self, writer: str) -> int:
        """Delete every transaction, checkpoint and claim of a writer; how many objects these were."""
        db = connect(self._url, options=self._options)
        layout = Federation(db.bucket, db.prefix, default_name="db").layout(writer)
        keys = [
            info.key
            for prefix in (layout.transactions_prefix, layout.claims_prefix)
            for info in db.bucket.list(prefix).objects
        ]
        db.bucket.delete_many(keys)
        return len(keys)

    def rebuild(self, writer: str) -> tuple[str, waiting.Meter]:
        """Bring the catalog back; what it took."""
        db = connect(self._url, options=self._options)
        meter = waiting.Meter(db.bucket)
        report = db.rebuild(writer=writer)
        return (
            f"{plural(report.footers_read, 'footer')} read, {size(report.bytes_read)}; "
            f"{plural(len(report.rebuilt), 'commit')} rebuilt"
        ), meter

    def _table(self) -> LakeTable:
        return connect(self._url, options=self._options).table(TABLE, kind="lake")
