"""Small tables for tests of one protocol step: a journal over a simulated store, told when to do what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import Commit, DataFile
from firn.testing import Call, Fault, FaultPlan, SimStore
from firn.testing.gated import ListPage
from simulation.leaderless_table import journal_of, put_rows, read_all

GRACE_AND_MARGIN_S = 4000


class HookedStore(SimStore):
    """Calls `hook` once, when a page of a LIST has been read that ends before a key containing `before`."""

    hook: Callable[[], object] | None = None
    before: str = ""

    def page(self, prefix: str, after: str | None) -> ListPage:
        page = super().page(prefix, after)
        if self.hook is not None and page.more and page.objects:
            coming = next(k for k in self.keys(prefix) if k > page.objects[-1].key)
            if self.before in coming:
                hook, self.hook = self.hook, None
                hook()
        return page


class Before:
    """A plan without faults that runs `work` right before the first call that `when` says yes to."""

    def __init__(self, when: Callable[[Call], bool], work: Callable[[], object]) -> None:
        self.when, self.work, self.done = when, work, False

    def decide(self, call: Call) -> Fault | None:
        if not self.done and self.when(call):
            self.done = True
            self.work()
        return None


def journal_on(
    store: SimStore,
    name: str = "client",
    *,
    plan: FaultPlan | None = None,
    skew_ms: int = 0,
    windowed: bool = False,
) -> LeaderlessJournal:
    bucket = store.bucket(name, plan=plan, skew_ms=skew_ms)
    return journal_of(bucket, bucket.clock, windowed=windowed)


def append(journal: LeaderlessJournal, ids: Sequence[int], partition: str = "p=a") -> DataFile:
    ticket = journal.begin_append()
    file = put_rows(journal, partition, ids, maintenance=False)
    ticket.commit(Commit("append", [file], columns={"id": "BIGINT"}))
    pass_time(journal, 1)
    return file


def merge(journal: LeaderlessJournal) -> str:
    with journal.exclusive("merge") as session:
        files = session.snapshot.files
        part = put_rows(journal, "p=a", read_all(journal, session.snapshot), maintenance=True)
        return session.publish(Commit("merge", [part], [f.path for f in files]))


def remove(journal: LeaderlessJournal, files: Sequence[DataFile]) -> str:
    with journal.exclusive("remove") as session:
        return session.publish(Commit("remove", [], [f.path for f in files]))


def sweep(journal: LeaderlessJournal) -> None:
    s = journal.settings
    journal.sweep(grace_ms=s.grace_ms, orphan_age_ms=s.orphan_age_ms, margin=True, dry_run=False)


def rows(journal: LeaderlessJournal, at: str | None = None) -> list[int]:
    return sorted(read_all(journal, journal.snapshot(at)))


def pass_time(journal: LeaderlessJournal, seconds: float) -> None:
    journal.clock.sleep(seconds)
