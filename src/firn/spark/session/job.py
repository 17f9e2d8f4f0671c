"""Run one Spark action so that it can be watched and stopped.

On the main thread a Ctrl-C leaves the Python workers running, and their slots taken. So the action runs in a
thread of its own under a job group (classic) or a tag (Connect), this thread polls, and whatever ends the
wait early cancels the action first.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from firn.runner import Progress
from firn.spark.session.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")

_POLL_SECONDS = 0.1
_CANCEL_SECONDS = 0.5
_CANCEL_ATTEMPTS = 60


def run_job(
    spark: SparkSession, action: Callable[[], Answer], *, description: str, progress: Progress | None = None
) -> Answer:
    """The action's answer; its exception is raised here. KeyboardInterrupt cancels its tasks first.

    `progress` is called on this thread when more Spark tasks are done, with their number and how many are known
    so far. After an interrupt the slots are free again within seconds: the wait for that is bounded by 30 s.
    """
    job = _ConnectJob(spark) if is_connect(spark) else _ClassicJob(spark, description)
    outcome = _Outcome[Answer]()
    thread = job.thread(lambda: outcome.record(action))
    seen = 0
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            if progress is not None:
                done, known = job.tasks()
                if done > seen:
                    seen = done
                    progress(done, known)
    except BaseException:
        _cancel(job, thread)
        raise
    return outcome.answer()


def _cancel(job: _Job, thread: threading.Thread) -> None:
    """Again and again: a job that Spark didn't know of yet when it was cancelled runs all the same."""
    for _ in range(_CANCEL_ATTEMPTS):
        if not thread.is_alive():
            return
        job.cancel()
        thread.join(_CANCEL_SECONDS)


class _Outcome(list[tuple[Answer | None, BaseException | None]]):
    """The outcome of the action's thread: one entry, its answer or its exception."""

    def record(self, action: Callable[[], Answer]) -> None:
        try:
            self.append((action(), None))
        except BaseException as error:
            self.append((None, error))

    def answer(self) -> Answer:
        value, error = self[0]
        if error is not None:
            raise error
        return value  # type: ignore[return-value]


class _Job(Protocol):
    def thread(self, target: Callable[[], None]) -> threading.Thread: ...

    def tasks(self) -> tuple[int, int]: ...

    def cancel(self) -> None: ...


class _ClassicJob:
    def __init__(self, spark: SparkSession, description: str) -> None:
        self.context = spark.sparkContext
        self.description = description
        self.group = f"firn-{uuid.uuid4().hex}"

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        from pyspark import InheritableThread

        def grouped() -> None:
            self.context.setJobGroup(self.group, self.description, interruptOnCancel=True)
            target()

        thread: threading.Thread = InheritableThread(target=grouped, daemon=True)
        return thread

    def tasks(self) -> tuple[int, int]:
        tracker = self.context.statusTracker()
        stages: set[int] = set()
        for job in tracker.getJobIdsForGroup(self.group):
            info = tracker.getJobInfo(job)
            stages.update(info.stageIds if info is not None else ())
        infos = [info for stage in stages if (info := tracker.getStageInfo(stage)) is not None]
        return sum(info.numCompletedTasks for info in infos), sum(info.numTasks for info in infos)

    def cancel(self) -> None:
        self.context.cancelJobGroup(self.group)


class _ConnectJob:
    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.tag = f"firn-{uuid.uuid4().hex}"
        self.counts = 0, 0

    def thread(self, target: Callable[[], None]) -> threading.Thread:
        def tagged() -> None:
            mine = threading.get_ident()

            def handler(stages: Iterable[Any] | None, **_: Any) -> None:
                # Handlers belong to the session but are called by the thread whose query moves.
                if stages is not None and threading.get_ident() == mine:
                    seen = list(stages)
                    done = sum(stage.num_completed_tasks for stage in seen)
                    self.counts = done, sum(stage.num_tasks for stage in seen)

            self.spark.addTag(self.tag)
            self.spark.registerProgressHandler(handler)
            try:
                target()
            finally:
                self.spark.removeProgressHandler(handler)
                self.spark.removeTag(self.tag)

        return threading.Thread(target=tagged, daemon=True)

    def tasks(self) -> tuple[int, int]:
        return self.counts

    def cancel(self) -> None:
        self.spark.interruptTag(self.tag)
