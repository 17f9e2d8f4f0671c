"""What a database's record tables need of a keeper: old versions collected, and the log truncated. Any number of
processes may do so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firn.journal.leaderless.maintain import work_note
from firn.keeping import KeepReport, never
from firn.records.apply.apply import settle
from firn.records.maintain.collection import RETENTION, collect, sweep_all
from firn.records.objects.store import RecordStore
from firn.units import parse_duration

COLLECT_FROM = 256
"""Commits that aren't in packs yet at which old ones are collected."""
COLLECT_EVERY_S = 300.0
"""How long a process rests after a collection, which leaves what is younger than an hour."""
SWEEP_EVERY_S = 86_400.0


@dataclass
class RecordsKeeper:
    """Keeps all record tables of a database, which share a log."""

    name: str
    store: RecordStore
    _collected: float | None = None
    _swept: float | None = None

    def round(self, *, force: bool = False, ended: Callable[[], bool] = never) -> KeepReport:
        """Collect and sweep, if that is due. What looking at the log's end costs where it isn't."""
        report, store, now = KeepReport(self.name), self.store, self.store.clock.monotonic()
        if self._swept is None or now - self._swept >= SWEEP_EVERY_S:
            self._swept = now
            layout = store.log.store.layout
            if work_note.take(
                store.bucket, layout.sweep_note_key, clock_key=layout.clock_key, seconds=SWEEP_EVERY_S
            ):
                swept = sweep_all(store)
                self._collected = now
                return report + KeepReport(
                    self.name, deleted=swept.versions + swept.entries + swept.left_over
                )
        if self._collected is not None and now - self._collected < COLLECT_EVERY_S:
            return report
        waiting = store.log.refresh().number - store.log.learn(store.log.store.horizon()).lo
        if waiting < COLLECT_FROM:
            return report
        self._collected = now
        settle(store)
        done = collect(store, retention_s=parse_duration(RETENTION))
        return report + KeepReport(self.name, deleted=done.versions + done.entries)
