"""Two writers, a compactor and three flushes on the real code, in every interleaving."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from firn.journal.manifest import View
from firn.testing import SimStore
from simulation import manifest_mutations as without
from simulation.manifest_explorer import (
    Explored,
    Explorer,
    RecordedBucket,
    Request,
    Store,
    Violation,
    perform,
)
from simulation.manifest_model import Contents
from simulation.manifest_table import LAYOUT, contents_of, create, journal_of, put_sst

pytestmark = pytest.mark.long

Tell = Callable[[Any], None]


def writer(name: str, flushes: int, bucket: Any, tell: Tell) -> None:
    """Opens and flushes."""
    session = journal_of(bucket, bucket.clock).open_writer()
    tell(("opened", session.epoch, session.start))
    for number in range(session.start, session.start + flushes):
        body = f"{name}{number - session.start} of {session.epoch}".encode()
        session.put_l0(number, body)
        session.confirm(number)
        tell(("acknowledged", number, body))


def compactor(bucket: Any, tell: Tell) -> None:
    """Takes all of L0 that there is into one SST."""
    journal = journal_of(bucket, bucket.clock)
    session = journal.open_compactor()
    view = session.view
    if view.l0:
        entries = [(file.number, journal.read_l0(file)) for file in reversed(view.l0)]
        session.commit(adds=[put_sst(session, 1, 0, entries)], deletes=[], last_compacted=view.last_l0)
        tell("compacted")


def reader(bucket: Any, tell: Tell) -> None:
    journal = journal_of(bucket, bucket.clock)
    tell(("read", contents_of(journal, journal.read())))


def _commutes(store: Store, request: Request) -> bool:
    """Nothing is deleted here, and nothing but the pointer is replaced. So what exists is read at any time alike, and
    its creation is refused at any time; and SSTs and manifests are read only by whom the pointer sends there."""
    if request.key == LAYOUT.pointer_key or request.verb == "list":
        return False
    if request.key in store:
        return True
    return request.key.startswith((LAYOUT.ssts_prefix, LAYOUT.manifests_prefix))


class Judge:
    """The table as each store shows it, and what follows for those that are after one another."""

    def __init__(self) -> None:
        self._shown: dict[frozenset[tuple[str, bytes]], tuple[View, Contents]] = {}

    def shown(self, store: Store) -> Contents:
        key = frozenset(store.items())
        found = self._shown.get(key)
        if found is None:
            bucket = _Standing(store)
            journal = journal_of(bucket, bucket.clock)  # type: ignore[arg-type]
            view = journal.read()
            found = self._shown[key] = (view, contents_of(journal, view))
        return found[1]

    def hold(self, before: Store, after: Store) -> None:
        was, now = self.shown(before), self.shown(after)
        assert now[: len(was)] == was, f"the table was {was}, and now it is {now}"

    def judge(self, before: Store, after: Store, begun: Store, name: str, event: Any) -> None:
        if event[0] == "read":
            seen, least, most = event[1], self.shown(begun), self.shown(after)
            assert seen[: len(least)] == least, f"{name} saw {seen}, and {least} was there when it began"
            assert most[: len(seen)] == seen, f"{name} saw {seen} of {most}"

    def settle(self, store: Store, told: list[Any]) -> None:
        now = self.shown(store)
        starts = [event[1:] for event in told if event[0] == "opened"]
        assert len({epoch for epoch, _ in starts}) == len(starts), f"two writers share an epoch: {starts}"
        for event in told:
            if event[0] == "acknowledged":
                _, number, body = event
                assert len(now) > number and now[number] == body, (
                    f"{body!r} was acknowledged, and there is {now}"
                )
        for epoch, start in starts:
            for body in now[start:]:
                assert int(body.split()[-1]) >= epoch, f"{body!r} is seen, and {epoch} began at {start}"


class _Standing(RecordedBucket):
    """One store, nobody else."""

    def __init__(self, store: Store) -> None:
        super().__init__(())
        self._store = store

    def _ask(self, request: Request) -> Any:
        _, answer = perform(self._store, request)
        if isinstance(answer, type):
            raise answer(request.key)
        return answer


def _explored(*names: str, lost: int = 0) -> Explored:
    store = SimStore()
    setup = store.bucket()
    create(setup, setup.clock)
    programs = {
        "a": partial(writer, "a", 2),
        "b": partial(writer, "b", 1),
        "compactor": compactor,
        "reader": reader,
    }
    judge = Judge()
    explorer = Explorer(
        store,
        {name: programs[name] for name in names},
        lost=lost,
        timed=frozenset({"reader"}),
        eager=_commutes,
        hold=judge.hold,
        judge=judge.judge,
        settle=judge.settle,
    )
    return explorer.run()


def test_two_writers_and_a_compactor() -> None:
    """Three flushes, all orders; whoever stops anywhere is a process that crashed there."""
    assert _explored("a", "b", "compactor").states > 50_000


def test_two_writers_and_a_reader() -> None:
    assert _explored("a", "b", "reader").states > 4_000


def test_two_writers_and_a_lost_answer() -> None:
    """One write of anybody's lands and isn't answered, or lands at any later time, or never does."""
    assert _explored("a", "b", lost=1).states > 8_000


@pytest.mark.parametrize(
    ("mutation", "names", "lost"),
    [
        (without.open_without_a_fence, ("a", "b"), 0),
        (without.claim_with_an_old_start, ("a", "b"), 0),
        (without.put_over_whatever_is_there, ("a", "b"), 0),
        (without.believe_refusals_and_silence, ("a", "b"), 0),
        (without.take_data_for_a_fence, ("a", "b"), 0),
        (without.believe_any_claim, ("a", "b"), 1),
        (without.forget_new_writers, ("a", "b", "compactor"), 0),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_dropped_rule_is_noticed(
    mutation: without.Mutation, names: tuple[str, ...], lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    with pytest.raises(Violation):
        _explored(*names, lost=lost)
