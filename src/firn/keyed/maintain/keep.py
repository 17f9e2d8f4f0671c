"""What a keyed table needs of a keeper: compactions that its writer doesn't get to, and sweeps.

The writer's own compaction comes first: a keeper compacts only if the policy has asked for it for a minute, and
nobody has compacted meanwhile. Of several keepers one does, by a note.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from firn.errors import FencedError
from firn.journal.leaderless.maintain import work_note
from firn.journal.manifest import CompactorSession, View
from firn.keeping import KeepReport, never
from firn.keyed.context import KeyedContext
from firn.keyed.founding import newest_view
from firn.keyed.maintain.compaction import compact_once, policy_of
from firn.keyed.maintain.local_compaction import Turns
from firn.keyed.maintain.policy import plan_compaction
from firn.keyed.maintain.sweep import sweep
from firn.runner import in_this_process

QUIET_S = 60.0
"""For how long nobody must have compacted."""
COMPACTION_S = 3600.0
"""A compaction that takes longer may be begun by another keeper, too: one of the two is fenced."""
SWEEP_EVERY_S = 3600.0


@dataclass
class KeyedKeeper:
    """Keeps one keyed table."""

    table: KeyedContext
    _due: tuple[str, float] | None = None
    """The manifest under which a compaction was due, and since when, by the monotonic clock."""
    _swept: float | None = None
    _turns: Turns = field(init=False)

    def __post_init__(self) -> None:
        journal = self.table.journal
        self._turns = Turns(journal.uncommitted, self.table.clock.monotonic, lambda: False)

    def round(self, *, force: bool = False, ended: Callable[[], bool] = never) -> KeepReport:
        """Compact and sweep, if that is due. 2 GETs and 1 LIST where it isn't.

        Args:
            force: don't wait for a minute in which this process has seen that nobody compacts.
        """
        report = KeepReport(self.table.name)
        view = newest_view(self.table)
        with in_this_process():
            if self._may_compact(view, force):
                report += self._compact(ended)
            return report + self._sweep()

    def _may_compact(self, view: View, force: bool) -> bool:
        """Whether the policy asks for it, and nobody has compacted for a while."""
        if plan_compaction(view, policy_of(self.table.as_in(view))) is None:
            self._due = None
            return False
        now = self.table.clock.monotonic()
        if self._due is None or self._due[0] != view.manifest.name:
            self._due = view.manifest.name, now
        last_ms = view.pointer.last_compacted_ms or 0
        quiet = self.table.now_ms() - last_ms >= QUIET_S * 1000
        return quiet and (force or now - self._due[1] >= QUIET_S) and self._turns.may_take(view)

    def _compact(self, ended: Callable[[], bool]) -> KeepReport:
        table, report = self.table, KeepReport(self.table.name)
        note = self._note(table.journal.layout.compact_note_key, COMPACTION_S)
        if note is None:
            return report + KeepReport(table.name, busy=1)
        before = newest_view(table)
        session: CompactorSession | None = None
        with note:
            while not ended():
                try:
                    session, after = compact_once(table, session, may_take=self._turns.may_take)
                except FencedError:
                    self._turns.fenced()
                    break
                if after is None:
                    break
                files = {file.key for file in before.l0} | {sst.file for sst in before.manifest.ssts}
                left = {file.key for file in after.l0} | {sst.file for sst in after.manifest.ssts}
                report += KeepReport(table.name, files_merged=len(files - left))
                self._turns.mine(after.pointer.compactor_epoch)
                before = after
        return report

    def _note(self, key: str, seconds: float) -> work_note.WorkNote | None:
        journal = self.table.journal
        return work_note.take(self.table.bucket, key, clock_key=journal.layout.clock_key, seconds=seconds)

    def _sweep(self) -> KeepReport:
        """Once an hour, whoever does it."""
        table, now = self.table, self.table.clock.monotonic()
        if self._swept is not None and now - self._swept < SWEEP_EVERY_S:
            return KeepReport(table.name)
        self._swept = now
        if self._note(table.journal.layout.sweep_note_key, SWEEP_EVERY_S) is None:
            return KeepReport(table.name)
        return KeepReport(table.name, deleted=len(sweep(table).deleted))
