"""What leaves out a rule of views that build on earlier ones (docs/format/leaderless-log.md, rules 21 to 26)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from firn.bucket.base import ObjectInfo
from firn.journal.leaderless.maintain import cleanup, sweep
from firn.journal.leaderless.maintain.session import MaintenanceSession
from firn.journal.leaderless.replay import loader
from firn.journal.leaderless.replay.checkpoint import Basis
from firn.journal.leaderless.replay.loader import Loaded, LogLoader


def publish_at_any_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MaintenanceSession, "_window_left", lambda self: 120.0)


def clock_after_the_list(patch: pytest.MonkeyPatch) -> None:
    """The view is as of the end of its reading."""
    attempt = LogLoader._attempt

    def late(self: LogLoader, *args: Any, **options: Any) -> Loaded | None:
        found = attempt(self, *args, **options)
        return None if found is None else replace(found, at_ms=self.clock.now_ms())

    patch.setattr(LogLoader, "_attempt", late)


def no_window(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        Basis, "start", property(lambda self: min(f"{self.at_ms:013d}", max(self.logs, default="9")))
    )


def build_on_any_view(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogLoader, "_may_build_on", lambda self, basis: True)


def look_at_the_age_before_the_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogLoader, "counts", lambda self, loaded: True)


def keep_replaced_logs(patch: pytest.MonkeyPatch) -> None:
    """A view takes all that it has seen with it."""

    def of(
        at_ms: int, window_ms: int, listed: Mapping[str, ObjectInfo], names: Iterable[str]
    ) -> Basis | None:
        return Basis(at_ms, window_ms, dict(listed), frozenset())

    patch.setattr(Basis, "of", staticmethod(of))
    patch.setattr(loader, "replaced_names", lambda logs: set())


def forget_tombstones_early(patch: pytest.MonkeyPatch) -> None:
    planned = cleanup.plan_cleanup

    def plan(*args: Any, forget_before_ms: int | None = None, **more: Any) -> cleanup.CleanupPlan:
        return planned(*args, **more)

    patch.setattr(sweep, "plan_cleanup", plan)
