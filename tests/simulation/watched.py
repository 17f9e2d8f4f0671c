"""A store that knows the rules of deletion, and notes who breaks them.

Whatever the client believes: a data file goes only if the log as it is doesn't name it alive and hasn't for a
whole grace, or if it is an orphan of age; a log goes only a whole grace after a log that replaces it appeared.
"""

from __future__ import annotations

from firn.bucket.base import BytesLike
from firn.journal.leaderless import LeaderlessSettings
from firn.journal.leaderless.format.codec import Log, decode
from firn.journal.leaderless.format.layout import TableLayout, is_maintenance_part, parse_log_name
from firn.testing import SimStore
from simulation.leaderless_table import PREFIX


class WatchedStore(SimStore):
    """Times are the store's own: no clock of any client counts."""

    def __init__(self, settings: LeaderlessSettings, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self.settings = settings
        self.layout = TableLayout(PREFIX, PREFIX)
        self.violations: list[str] = []
        self.watching = True
        self._logs: dict[str, Log] = {}
        self._alive: set[str] = set()
        self._died: dict[str, int] = {}
        self._replaced: dict[str, int] = {}

    def write(self, key: str, data: BytesLike, *, absent: bool = False, match: str | None = None) -> str:
        etag = super().write(key, data, absent=absent, match=match)
        if key.startswith(self.layout.log_prefix):
            name = self.layout.log_name(key)
            if parse_log_name(name) is not None:
                self._logs[key] = decode(name, bytes(data), where=key)
                self._fold()
        return etag

    def remove(self, key: str) -> None:
        if self.watching and key in self:
            if key.startswith(self.layout.data_prefix):
                self._check_data(key)
            elif key in self._logs:
                self._check_log(key)
        super().remove(key)
        if self._logs.pop(key, None) is not None:
            self._fold()

    def _fold(self) -> None:
        alive: set[str] = set()
        for log in sorted(self._logs.values(), key=lambda log: log.order):
            for file in log.files:
                if file.path in log.dead:
                    alive.discard(file.path)
                else:
                    alive.add(file.path)
            for key in log.tombstones:
                self._replaced.setdefault(key, self.time.now_ms)
        for path in self._alive - alive:
            self._died[path] = self.time.now_ms
        for path in alive - self._alive:
            self._died.pop(path, None)
        self._alive = alive

    def _check_data(self, key: str) -> None:
        now = self.time.now_ms
        if key in self._alive:
            self.violations.append(f"{key} was deleted alive")
        elif key in self._died:
            if now - self._died[key] < self.settings.grace_ms:
                self.violations.append(f"{key} was deleted {now - self._died[key]} ms after its death")
        elif not is_maintenance_part(key):
            age = now - self.stat(key).modified_ms
            if age < self.settings.orphan_age_ms:
                self.violations.append(f"{key} was deleted as an orphan at {age} ms")

    def _check_log(self, key: str) -> None:
        replaced = self._replaced.get(key)
        log = self._logs[key]
        if not log.files and not log.tombstones and log.inlined is None:
            return  # a void one
        if replaced is None:
            self.violations.append(f"{key} was deleted and nothing had replaced it")
        elif self.time.now_ms - replaced < self.settings.grace_ms:
            self.violations.append(
                f"{key} was deleted {self.time.now_ms - replaced} ms after it was replaced"
            )
