"""Folds: which logs of maintenance they take in, and how often a line is written."""

from __future__ import annotations

from collections import Counter
from math import log

import pytest

from firn.journal.leaderless.format.codec import Log
from firn.journal.leaderless.format.layout import new_log_name
from firn.journal.leaderless.journal import LeaderlessJournal
from firn.journal.leaderless.replay.loader import Scope
from firn.journal.leaderless.replay.size_classes import taken_in
from firn.journal.model import Commit
from firn.testing import SimStore
from regressions.journals import journal_on, rows, sweep
from simulation.leaderless_table import clean, inlined_rows, put_rows, rows_that_stay


@pytest.mark.parametrize("commits", [1, 8, 50])
def test_a_tombstone_is_written_once_a_class_at_most(commits: int) -> None:
    folds, written = 400, Counter[str]()
    live: list[Log] = []
    for n in range(folds):
        tombstones = {f"{n} {k}": n for k in range(commits)}
        taken = taken_in(live, commits)
        for each in taken:
            tombstones |= {each.name: n, **each.tombstones}
        written.update(list(tombstones))
        live = [each for each in live if each not in taken]
        live.append(Log(new_log_name(n, maintenance=True), n, tombstones=tombstones))
        assert len(live) <= 7 * (1 + log(folds * commits * 8 / 7, 8))
    assert max(written.values()) <= 2 + log(folds, 8)
    assert written.total() / len(written) < 1 + log(folds, 8)


def fold(journal: LeaderlessJournal) -> None:
    with journal.exclusive("fold") as session:
        parts = [file for file in session.snapshot.files if file.inlined is not None]
        kept = rows_that_stay(journal, parts)
        adds = [put_rows(journal, p, ids, maintenance=True) for p, ids in kept.items()]
        session.publish(Commit("fold", adds, [file.path for file in parts]))


def append_inlined(journal: LeaderlessJournal, number: int) -> None:
    columns = {"id": "BIGINT"}
    rows = inlined_rows([number], columns)
    journal.begin_append().commit(Commit("append", [rows], columns=columns))
    journal.clock.sleep(1)


def live_logs(journal: LeaderlessJournal) -> list[str]:
    state = journal.fold(journal.loader.load(scope=Scope.ALL).logs)
    return [log.name for log in state.logs if log.name not in state.replaced()]


def test_folds_take_in_eight_logs_of_a_size() -> None:
    store = SimStore()
    journal = journal_on(store)
    for number in range(30):
        append_inlined(journal, number)
        fold(journal)
        assert len(live_logs(journal)) < 12
        assert rows(journal_on(store, "reader")) == list(range(number + 1))
    assert [line.op for line in journal.history()].count("fold") == 30


def test_logs_that_folds_took_in_are_cleaned_away() -> None:
    store = SimStore()
    journal = journal_on(store)
    for number in range(20):
        append_inlined(journal, number)
        fold(journal)
    for _ in range(3):
        journal.clock.sleep(24 * 3600)
        clean(journal)
    sweep(journal)
    left = live_logs(journal)
    assert sorted(journal.layout.log_name(key) for key in store.keys(journal.layout.log_prefix)) == sorted(
        left
    )
    assert rows(journal) == list(range(20))


def test_a_fold_leaves_logs_of_files_that_were_appended() -> None:
    journal = journal_on(SimStore())
    ticket = journal.begin_append()
    ticket.commit(Commit("append", [put_rows(journal, "p=a", [100])], columns={"id": "BIGINT"}))
    for number in range(9):
        append_inlined(journal, number)
        fold(journal)
    appended = [name for name in live_logs(journal) if "_m_" not in name]
    assert len(appended) == 1
    assert rows(journal) == [*range(9), 100]
