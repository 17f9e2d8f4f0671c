"""Crash an operation at every request it makes, and look at what is left each time.

>>> from firn.testing import SimStore, crash_points
>>> def setup():
...     return SimStore()
>>> def append(bucket):
...     bucket.put("data/1", b"rows")
...     bucket.put_if_absent("log/1", b"data/1")
>>> def check(store, point):
...     for named in store.contents("log/").values():
...         assert named.decode() in store      # no log names a file that isn't there
>>> crash_points(setup, append, check)          # 2 calls, before and after; 2 puts, lost and retried
8
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, cast

from firn.bucket.base import Bucket
from firn.errors import FirnError
from firn.testing.client import Call, Crashed, Solo
from firn.testing.entropy import seeded_entropy
from firn.testing.faults import CRASH_AFTER, CRASH_BEFORE, FAILED, LOST_ACK, Fault, FaultPlan, retried
from firn.testing.gated import GatedBucket
from firn.testing.schedule import stream
from firn.testing.store import SimStore
from firn.testing.verbs import Request, Verb
from firn.testing.world import SimulationFailure
from firn.testing.wrapped import FaultBucket

CrashMode = Literal["before", "after", "lost_ack", "retried", "failed"]

_FAULTS: dict[CrashMode, Fault] = {
    "before": CRASH_BEFORE,
    "after": CRASH_AFTER,
    "lost_ack": LOST_ACK,
    "retried": retried(),
    "failed": FAILED,
}

Store = TypeVar("Store", bound="SimStore | Bucket")


@dataclass(frozen=True)
class CrashPoint:
    """Where an operation was struck: at `call` (from 0) of `calls`, and how."""

    call: int
    calls: int
    mode: CrashMode
    verb: Verb
    key: str

    def __str__(self) -> str:
        return f"{self.mode} at call {self.call} of {self.calls}, {self.verb} {self.key}"


def crash_points(
    setup: Callable[[], Store],
    operation: Callable[[GatedBucket], object],
    check: Callable[[Store, CrashPoint], object],
    *,
    modes: Sequence[CrashMode] = ("before", "after", "lost_ack", "retried"),
) -> int:
    """Run `operation` unharmed to count its calls, then once for each call and mode, struck there.

    `setup` makes the state to begin from: a `SimStore`, made once and copied, or any real bucket, made anew
    for each point. `check(store, point)` sees what is left, with late puts landed, and may change it:
    run the operation again, sweep. `lost_ack` and `retried` visit writes only; the operation may
    recover there or raise a `FirnError`. `bucket.clock` is the operation's clock.

    Returns the number of points visited. `SimulationFailure` names the point; it is raised too if the
    calls before a point aren't those of the unharmed run, since that point would then prove nothing.
    """
    template = setup()
    with seeded_entropy(stream(0, "reference")):
        whole = _bucket(_fresh(template, setup), None)
        operation(whole)
    reference = _trace(whole)
    visited = 0
    for i, call in enumerate(reference):
        for mode in modes:
            if not _FAULTS[mode].applies(call.verb):
                continue
            point = CrashPoint(i, len(reference), mode, call.verb, call.key)
            # Names differ from the reference run's, and go on differing in the check.
            with seeded_entropy(stream(i, mode)):
                store = _fresh(template, setup)
                bucket = _bucket(store, _AtCall(i, _FAULTS[mode]))
                _strike(bucket, operation, point, reference)
                try:
                    check(store, point)
                except Exception as error:
                    why = f"check failed, {point}: {type(error).__name__}: {error}"
                    raise SimulationFailure(why, None, _trace(bucket)) from error
            visited += 1
    return visited


@dataclass(frozen=True)
class _AtCall:
    """A plan: this fault at that call, counted over all verbs."""

    number: int
    fault: Fault

    def decide(self, call: Request) -> Fault | None:
        return self.fault if call.number == self.number else None


def _fresh(template: Store, setup: Callable[[], Store]) -> Store:
    if isinstance(template, SimStore):
        return cast("Store", template.copy())
    return setup()


def _bucket(store: SimStore | Bucket, plan: FaultPlan | None) -> GatedBucket:
    return store.bucket(plan=plan) if isinstance(store, SimStore) else FaultBucket(store, plan)


def _trace(bucket: GatedBucket) -> Sequence[Call]:
    assert isinstance(bucket.client, Solo)
    return bucket.client.trace


def _strike(
    bucket: GatedBucket,
    operation: Callable[[GatedBucket], object],
    point: CrashPoint,
    reference: Sequence[Call],
) -> None:
    """Run the operation into its fault, and make sure that it met it where it was to."""
    ended: BaseException | None = None
    try:
        operation(bucket)
    except (Crashed, FirnError) as error:
        ended = error
    except Exception as error:
        # A dead process's last words don't matter; a living one's are a bug.
        if not bucket.client.crashed:
            why = f"the operation raised {type(error).__name__}, {point}: {error}"
            raise SimulationFailure(why, None, _trace(bucket)) from error
    bucket.client.time.settle()
    verbs = [call.verb for call in _trace(bucket)[: point.call + 1]]
    if verbs != [call.verb for call in reference[: point.call + 1]]:
        why = (
            f"the operation isn't stable, so {point} can't be visited: the unharmed run began with "
            f"{_verbs(reference, point)}, this one with {', '.join(verbs)}; take names and times "
            "from the bucket and its clock only"
        )
        raise SimulationFailure(why, None, _trace(bucket)) from ended


def _verbs(calls: Sequence[Call], point: CrashPoint) -> str:
    return ", ".join(call.verb for call in calls[: point.call + 1])
