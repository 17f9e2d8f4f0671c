"""Compaction: runs in, one run in their place out.

A plan names the runs; the driver cuts the key space into shares by the files' indices, maps `compact_task` over
them on any Runner and commits what they wrote by one compare-and-swap (paper: "Compaction updates to manifest").
Nobody sees an SST before that, and a crash anywhere leaves only objects that sweep deletes. It needs no writer and
disturbs none: writers go on above the last L0 object that it takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace

from firn.bucket.base import at_once
from firn.concurrency.parallel import in_flight
from firn.errors import FirnError, ObjectChangedError, OutcomeUnknownError
from firn.journal.manifest import CompactorSession, View
from firn.journal.manifest.model import SSTInfo
from firn.keyed.context import KeyedContext, OpenWriter
from firn.keyed.founding import founded, newest_view
from firn.keyed.maintain.compaction_reads import RunFile
from firn.keyed.maintain.compaction_task import CompactContext, CompactTask, compact_task
from firn.keyed.maintain.key_shares import BlockMap, KeyShare, cut
from firn.keyed.maintain.l0_steps import STEP_BYTES, STEP_FILES, beside, between_tasks, due, is_long, parted
from firn.keyed.maintain.policy import CompactionPlan, Policy, has_refuse, plan_compaction, plan_full, plan_l0
from firn.keyed.maintain.run_writer import numbers_needed
from firn.keyed.read.runs import runs_of
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader
from firn.runner import LocalRunner, Runner

SHARE_BYTES = 48 << 20, 256 << 20
"""How much input a task has, at least and at most: enough to be worth a task, and to make few small last SSTs."""

SHARES = 8
"""Into how many tasks a compaction is cut between these bounds."""

L0_SHARE = 4
"""L0 is compacted when it has this part of the bytes at which puts wait, and they are slowed down from a half on."""

MAX_ROUNDS = 64
"""A policy that is never content is a bug; one that compacts a terabyte needs a dozen rounds."""


@dataclass(frozen=True)
class CompactionReport:
    """The figures of a compaction: those of all that it did, or with `dry_run` would begin with.

    `l0_bytes` are those of `bytes_in` that came from L0: what writers had flushed. `version` is the view's
    afterwards, None where there was nothing to do.
    """

    version: str | None
    rounds: int = 0
    tasks: int = 0
    l0_files: int = 0
    l0_bytes: int = 0
    ssts_in: int = 0
    ssts_out: int = 0
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dry_run: bool = False

    @property
    def write_amplification(self) -> float:
        """Bytes written for each byte that writers had flushed; 0.0 where no L0 was read.

        Example:
            >>> CompactionReport("v", l0_bytes=100, bytes_in=300, bytes_out=250).write_amplification
            2.5
        """
        return self.bytes_out / self.l0_bytes if self.l0_bytes else 0.0

    def __add__(self, later: CompactionReport) -> CompactionReport:
        sums = {
            f.name: getattr(self, f.name) + getattr(later, f.name)
            for f in fields(self)
            if f.name not in ("version", "dry_run")
        }
        return replace(later, **sums)


def compact(
    table: KeyedContext, *, full: bool = False, runner: Runner | None = None, dry_run: bool = False
) -> CompactionReport:
    """Compact all of L0, then whatever the table's policy asks for; with `full` everything into one bottom run.

    Only what is flushed counts. Takes the compactor's epoch: another compactor ends with `FencedError` at its next
    commit, and this one if another is called meanwhile. Nothing is lost then. The one in the background of an open
    writer gives way, and doesn't take over from one that is under way.

    Args:
        runner: where the tasks run; by default as the database decides, on Spark where the work is large.
        dry_run: only tell what the first round would read.

    Raises:
        FencedError: another compactor has taken over; what this one had committed before stays.

    Cost: 1 GET + 1 CAS to begin; a round reads its input once and writes its output once, and commits by 2 PUTs.

    Example:
        >>> import firn
        >>> table = firn.connect("memory://").create_table("delays", kind="keyed")
        >>> with table.open(compaction=False) as kv:
        ...     kv.put(b"DTW", b"66")
        ...     kv.put(b"DTW", b"12")
        >>> report = table.compact()
        >>> report.l0_files, report.rows_in, report.rows_out
        (2, 2, 1)
    """
    if dry_run:
        first = _first_plan(newest_view(table), table, full)
        return CompactionReport(None, dry_run=True) if first is None else _announced(first)
    session = founded(table, table.journal.open_compactor)
    table = table.as_in(session.view)
    report, whole = CompactionReport(None), False
    upto = session.view.last_l0
    for _ in range(MAX_ROUNDS + len(session.view.l0)):
        view = session.view
        if view.manifest.last_compacted < upto or not (whole or report.rounds):
            plan = _first_plan(view, table, full)
            todo = parted(view, plan)
        elif full:
            plan = todo = None if whole else _first_plan(replace(view, l0=()), table, full)
        else:
            plan = todo = due(view, policy_of(table))
        if plan is None or todo is None:
            break
        try:
            report += run_plan(table, session, todo, runner=runner)
            whole = todo is plan
        except (ObjectChangedError, OutcomeUnknownError):
            session.refresh()  # the commit is visible or never will be; the next plan begins from what is
    return report


def compact_once(
    table: KeyedContext,
    session: CompactorSession | None = None,
    *,
    runner: Runner | None = None,
    may_take: Callable[[View], bool] | None = None,
    seen: OpenWriter | None = None,
) -> tuple[CompactorSession | None, View | None]:
    """One round, if the policy asks for one: what the compactor beside an open writer calls again and again.

    Takes the compactor's epoch when there is something to do for the first time, so a table where nobody writes
    costs nothing but the reading.

    Args:
        may_take: asked, with a view of now, before the epoch is taken; if it isn't to be, nothing is done.
        seen: the writer beside it: what that knows, a long round needn't look for, and commits are told to it.

    Returns:
        the session to give next time, and the view after the round; None where there was nothing to do.

    Raises:
        FencedError: another compactor has taken over.
    """
    view = table.journal.read() if session is None else session.refresh()
    if plan_compaction(view, policy_of(table)) is None:
        return session, None
    if session is None:
        if may_take is not None and not may_take(view):
            return None, None
        session = table.journal.open_compactor()
    table = table.as_in(session.view)  # whoever alters it takes the epoch
    plan = due(session.view, policy_of(table))
    if plan is None:
        return session, None
    run_plan(table, session, plan, runner=runner, seen=seen)
    return session, session.view


def compact_l0(table: KeyedContext, session: CompactorSession, *, runner: Runner | None = None) -> None:
    """Compact what is in L0, so that a bulk load may stand above it; nothing else of what the policy asks for."""
    while session.view.l0:
        plan = parted(session.view, _first_plan(session.view, table, full=False))
        assert plan is not None, "a trigger of one file takes any L0"
        run_plan(table, session, plan, runner=runner)


def policy_of(table: KeyedContext) -> Policy:
    """How the table's properties say that it is compacted."""
    settings = table.settings
    # Puts wait at `max_l0`: a compaction that began above would never come.
    return Policy(
        kind=settings.compaction,
        l0_trigger=min(Policy.l0_trigger, settings.max_l0),
        l0_bytes=max(1, settings.max_l0_size // L0_SHARE),
    )


def run_plan(
    table: KeyedContext,
    session: CompactorSession,
    plan: CompactionPlan,
    *,
    runner: Runner | None = None,
    seen: OpenWriter | None = None,
    in_flight: int | None = None,
) -> CompactionReport:
    """Do what a plan says, and commit it. Beside a long one, L0 is compacted in steps of its own.

    Args:
        seen: as `compact_once` has it.
        in_flight: as `CompactorSession.commit` has it.

    Cost: that of `compact`; while a long plan is done, 1 LIST + 1 GET each 2 s, none where there is `seen`.
    """
    if _is_move(plan, table.clock.now_ms()):
        moved = [replace(sst, level=plan.level, run=plan.run) for sst in plan.ssts]
        view = session.commit(adds=moved, deletes=plan.ssts, last_compacted=plan.last_compacted)
        return CompactionReport(view.version, rounds=1)
    report = _announced(plan)
    tasks = _tasks(table, session, plan)
    context = CompactContext(
        definition=table.definition,
        prefix=table.prefix,
        epoch=session.epoch,
        level=plan.level,
        run=plan.run,
        now_ms=table.clock.now_ms(),
    )
    chosen = runner or table.engines.runner(report.bytes_in)
    steps = _Steps(table, session, tasks[0].numbers[0], seen)
    progress = table.engines.progress("compact")
    l0_steps: AbstractContextManager[None] = nullcontext()
    if is_long(plan) and isinstance(chosen, LocalRunner) and chosen.threads == 1:
        progress = between_tasks(steps.step, table.name, progress)
    elif is_long(plan):
        l0_steps = beside(steps.step, table.name)
    with l0_steps:
        results = chosen.map(
            compact_task,
            tasks,
            bucket=table.bucket,
            context=context,
            weights=[task.share.weight for task in tasks],
            progress=progress,
        )
    adds = [sst for result in results for sst in result.ssts]
    if steps.unsure:
        session.refresh()
    # The steps beside it may have compacted more by now.
    upto = max(plan.last_compacted, session.view.manifest.last_compacted)
    view = session.commit(adds=adds, deletes=plan.ssts, last_compacted=upto, in_flight=in_flight)
    report += steps.report
    return replace(
        report,
        version=view.version,
        rounds=report.rounds + 1,
        tasks=report.tasks + len(tasks),
        ssts_out=report.ssts_out + len(adds),
        rows_in=report.rows_in + sum(result.rows_in for result in results),
        rows_out=report.rows_out + sum(sst.rows for sst in adds),
        bytes_out=report.bytes_out + sum(sst.bytes for sst in adds),
        dry_run=False,
    )


class _Steps:
    """The steps of L0 beside one long plan."""

    def __init__(
        self, table: KeyedContext, session: CompactorSession, in_flight: int, seen: OpenWriter | None
    ) -> None:
        self._table, self._session, self._in_flight, self._seen = table, session, in_flight, seen
        self.report = CompactionReport(None)
        self.unsure = False
        """Whether the session's view may not be what is."""

    def step(self) -> None:
        """Compact L0 if the policy asks for it."""
        table, policy = self._table, policy_of(self._table)
        if self._seen is not None and not policy.wants_l0(self._seen.view.l0):
            return
        view = self._session.refresh()
        self.unsure = False
        plan = plan_l0(view, most_bytes=STEP_BYTES, most_files=STEP_FILES)
        if plan is None or not policy.wants_l0(view.l0):
            return
        try:
            self.report += run_plan(
                table, self._session, plan, runner=LocalRunner(1), in_flight=self._in_flight
            )
        except FirnError:
            self.unsure = True
            raise
        if self._seen is not None:
            self._seen.poll()


def _is_move(plan: CompactionPlan, now_ms: int) -> bool:
    """Whether SSTs of one run go to a level where nothing meets them: then the manifest alone has to change. Where
    deletes and expired entries end, at the bottom, they are worth writing the rest again."""
    if plan.l0 or len(plan.runs()) != 1 or any(sst.level == plan.level for sst in plan.ssts):
        return False
    return not plan.bottom or not any(has_refuse(sst, now_ms) for sst in plan.ssts)


def _first_plan(view: View, table: KeyedContext, full: bool) -> CompactionPlan | None:
    """The plan that a compaction by hand begins with: all of L0, however little the policy makes of it."""
    if full:
        return plan_full(view, policy_of(table), table.clock.now_ms())
    return plan_compaction(view, replace(policy_of(table), l0_trigger=1))


def _announced(plan: CompactionPlan) -> CompactionReport:
    l0_bytes = sum(file.bytes for file in plan.l0)
    return CompactionReport(
        version=None,
        l0_files=len(plan.l0),
        l0_bytes=l0_bytes,
        ssts_in=len(plan.ssts),
        bytes_in=l0_bytes + sum(sst.bytes for sst in plan.ssts),
        dry_run=True,
    )


def _tasks(table: KeyedContext, session: CompactorSession, plan: CompactionPlan) -> list[CompactTask]:
    """One task a share of the keys, each with the files that may hold some of them."""
    layout = table.journal.layout
    l0 = [RunFile(file.key, file.bytes) for file in plan.l0]
    runs = plan.runs()
    total = sum(file.bytes for file in l0) + sum(sst.bytes for sst in plan.ssts)
    shares = [KeyShare(None, None, total)]
    share_bytes = min(max(SHARE_BYTES[0], total // SHARES), SHARE_BYTES[1])
    if total > share_bytes:
        ssts = [RunFile(layout.sst_key(sst.file), sst.bytes) for sst in plan.ssts]
        shares = cut(_block_maps(table, [*l0, *ssts]), share_bytes)
    older = _older(session.view, plan)
    tasks = []
    for share in shares:
        inputs: list[tuple[RunFile, ...]] = [(file,) for file in l0]
        for run in runs:
            files = tuple(
                RunFile(layout.sst_key(sst.file), sst.bytes)
                for sst in run
                if share.overlaps(sst.min_key, sst.max_key)
            )
            if files:
                inputs.append(files)
        bottom = plan.bottom or not any(share.overlaps(sst.min_key, sst.max_key) for sst in older)
        numbers = session.reserve_ssts(numbers_needed(share.weight, table.settings))
        tasks.append(CompactTask(share, tuple(inputs), bottom, numbers))
    return tasks


def _block_maps(table: KeyedContext, files: Sequence[RunFile]) -> list[BlockMap]:
    """1 ranged GET a file, many in flight."""
    cache, values = BlockCache(0), table.values

    def read(file: RunFile) -> BlockMap:
        return BlockMap.of(SstReader(table.bucket, file.key, file.bytes, cache, values=values).index)

    return in_flight(read, files, at_once(table.bucket))


def _older(view: View, plan: CompactionPlan) -> list[SSTInfo]:
    """SSTs of runs older than the plan's output."""
    place = (plan.level, -plan.run)
    taken = {sst.file for sst in plan.ssts}
    return [
        sst
        for run in runs_of(view.manifest.ssts)
        for sst in run
        if (sst.level, -sst.run) > place and sst.file not in taken
    ]
