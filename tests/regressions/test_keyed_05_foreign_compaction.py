"""While another process compacted for longer than 6 s, a writer's puts, durable or not, waited for its end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firn.keyed.maintain import compaction, l0_steps
from firn.keyed.table import KeyedTable
from firn.keyed.write.pressure import LONGEST_PAUSE_S, LONGEST_WAIT_S, Pressure
from firn.runner import LocalRunner
from kv_compactors import Beside, Slow
from kv_tables import live, new_table


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> KeyedTable:
    monkeypatch.setattr(l0_steps, "LONG_BYTES", 0)
    monkeypatch.setattr(compaction, "beside", Beside)
    return new_table()


def test_a_long_compaction_takes_up_l0_as_it_goes(table: KeyedTable) -> None:
    seen = []

    def meanwhile() -> None:
        for n in range(9):
            kv.put(b"%d" % n, b"new")
        assert len(table.view().l0) == 9
        Beside.steps[-1]()
        seen.append(len(table.view().l0))
        assert table.sweep(older_than="0s").ssts == (), "what the long one has put is spared"
        kv.put(b"last", b"v")
        Beside.steps[-1]()
        seen.append(len(table.view().l0))

    with table.open(compaction=False) as kv:
        for n in range(3):
            kv.put(b"%d" % n, b"old")
            table.compact()
        table.compact(full=True, runner=Slow(meanwhile))
        assert seen == [0, 1], "one flush is too little for a step"
        view = table.view()
        assert len(view.l0) == 1 and {sst.run for sst in view.manifest.ssts} == {2, 3}
        expected: dict[bytes, object] = {b"%d" % n: b"new" for n in range(9)}
        assert live(table) == {**expected, b"last": b"v"}
        kv.poll()
        assert dict(kv.scan()) == live(table)


def test_a_single_thread_compacts_l0_between_two_tasks(
    table: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, done = compaction.compact_task, []

    def one(*args: Any) -> Any:
        made = task(*args)
        done.append(len(table.view().l0))
        if len(done) == 1:
            for n in range(9):
                kv.put(b"%d" % n, b"new")
        return made

    monkeypatch.setattr(compaction, "compact_task", one)
    table = table.beside(replace(table.definition, properties={"block_size": "1KB"}), table.prefix)
    with table.open(compaction=False) as kv:
        for _ in range(3):
            kv.write({b"%d" % n: b"old" * 9 for n in range(500)})
            table.compact()
        done.clear()
        monkeypatch.setattr(compaction, "SHARE_BYTES", (1, 1))
        report = table.compact(full=True, runner=LocalRunner(1))
        assert done[:2] == [0, 9] and done[-1] == 0, "a step has taken it before the long one's last task"
        assert report.rounds > 1 and report.tasks == len(done)
        assert {key: value for key, value in live(table).items() if value == b"new"}.keys() == {
            b"%d" % n for n in range(9)
        }
        assert len(live(table)) == 500


def test_l0_comes_first_where_the_rest_takes_long(table: KeyedTable) -> None:
    with table.open(compaction=False) as kv:
        kv.put(b"a", b"1")
        table.compact()
        for n in range(20):
            kv.put(b"%d" % n, b"v")
        report = table.compact(full=True)
    assert report.l0_files == 20 and not table.view().l0
    assert len({(sst.level, sst.run) for sst in table.view().manifest.ssts}) == 1
    assert len(live(table)) == 21


def test_a_writers_own_compaction_goes_on_with_l0_too(
    table: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firn.keyed.maintain import local_compaction

    def meanwhile() -> None:
        Beside.steps[-1]()  # nothing to do
        for n in range(8):
            kv.put(b"%d" % n, b"new")
        Beside.steps[-1]()
        assert kv.stats().l0 == 0

    monkeypatch.setattr(local_compaction, "RUNNER", Slow(meanwhile))
    with table.open(compaction=False) as kv:
        for _ in range(4):
            for n in range(8):
                kv.put(b"%d" % n, b"old")
            assert kv._compaction.work() is None
        assert dict(kv.scan()) == {b"%d" % n: b"new" for n in range(8)} == live(table)


def test_a_step_whose_outcome_is_unknown_loses_nothing(
    table: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from firn.errors import OutcomeUnknownError
    from firn.journal.manifest import CompactorSession

    commit = CompactorSession.commit

    def unanswered(self: CompactorSession, **what: Any) -> Any:
        before = self._view
        commit(self, **what)
        self._view = before  # it is there, and nobody knows
        raise OutcomeUnknownError("no answer")

    def meanwhile() -> None:
        for n in range(9):
            kv.put(b"%d" % n, b"new")
        with monkeypatch.context() as patched, pytest.raises(OutcomeUnknownError):
            patched.setattr(CompactorSession, "commit", unanswered)
            Beside.steps[-1]()

    with table.open(compaction=False) as kv:
        for n in range(3):
            kv.put(b"%d" % n, b"old")
            table.compact()
        table.compact(full=True, runner=Slow(meanwhile))
        assert live(table) == {b"%d" % n: b"new" for n in range(9)}
        assert not table.view().l0


def test_puts_are_slowed_down_before_they_stop() -> None:
    shares = [n / 100 for n in range(101)]
    waits = [Pressure(l0_bytes=share).wait_s(1 << 30) for share in shares]
    pauses = [Pressure(l0_files=share).pause_s() for share in shares]
    for rising, longest in ((waits, LONGEST_WAIT_S), (pauses, LONGEST_PAUSE_S)):
        assert rising == sorted(rising) and rising[50] == 0.0 < rising[51] and rising[-1] == longest
    assert not Pressure(l0_bytes=0.99, l0_files=0.99, unflushed=0.99).full
    assert Pressure(l0_files=1.0).full


def test_a_writer_beside_a_silent_compactor_goes_on() -> None:
    table = new_table({"max_l0": 16})
    with table.open() as kv:
        table.journal.open_compactor()  # elsewhere, and it commits nothing
        for n in range(15):
            kv.put(b"%d" % n, b"v", durable=n % 2 == 0)
        assert kv.stats().stalls == 0
