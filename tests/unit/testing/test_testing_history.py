"""The history checker: every anomaly that is planted is reported by its name, and what is allowed is let pass."""

from __future__ import annotations

import threading

import pytest

import firn
from firn.testing.dependencies import Observed, Read
from firn.testing.history import RecordedHistory
from histories import a, c, checked, kinds, observed, r

PLANTED = {
    # Two transactions' writes in two orders: write cycles, the dirty write.
    "G0": [
        observed("t1", a("x", 1), a("y", 1)),
        observed("t2", a("x", 2), a("y", 2)),
        observed("t3", r("x", 1, 2), r("y", 2, 1)),
    ],
    "G1a": [observed("t1", a("x", 1), status="aborted"), observed("t2", r("x", 1))],
    "G1b": [observed("t1", a("x", 1), a("x", 2)), observed("t2", r("x", 1)), observed("t3", r("x", 1, 2))],
    # Each read what the other wrote.
    "G1c": [observed("t1", a("x", 1), r("y", 2)), observed("t2", a("y", 2), r("x", 1))],
    # Read skew: x before t2, y after it.
    "G-single": [
        observed("t1", r("x"), r("y", 2)),
        observed("t2", a("x", 1), a("y", 2)),
        observed("t3", r("x", 1)),
    ],
    "P4": [
        observed("t1", r("x"), a("x", 1)),
        observed("t2", r("x"), a("x", 2)),
        observed("t3", r("x", 1, 2)),
    ],
    "long fork": [
        observed("t1", a("x", 1)),
        observed("t2", a("y", 2)),
        observed("t3", r("x", 1), r("y")),
        observed("t4", r("x"), r("y", 2)),
    ],
    "real time": [
        observed("t1", a("x", 1), at=(0, 1)),
        observed("t2", r("x"), at=(2, 3)),
        observed("t3", r("x", 1), at=(4, 5)),
    ],
    "internal": [observed("t1", a("x", 1), r("x"))],
    "incompatible order": [
        observed("t1", a("x", 1)),
        observed("t2", a("x", 2)),
        observed("t3", r("x", 1, 2)),
        observed("t4", r("x", 2)),
    ],
    "duplicate": [observed("t1", a("x", 1)), observed("t2", r("x", 1, 1))],
    "garbage": [observed("t1", r("x", 1))],
}

ALLOWED = {
    "write skew": [
        observed("t1", r("x"), r("y"), a("x", 1)),
        observed("t2", r("x"), r("y"), a("y", 2)),
        observed("t3", r("x", 1), r("y", 2)),
    ],
    # Fekete, O'Neil and O'Neil: the two writers alone are serializable, the reader's report makes it impossible.
    "Fekete's read-only anomaly": [
        observed("withdrawal", r("x"), r("y"), a("x", -11)),
        observed("deposit", r("y"), a("y", 20)),
        observed("report", r("x"), r("y", 20)),
        observed("later", r("x", -11), r("y", 20)),
    ],
    "a predicate's write skew": [
        observed("t1", r("on call", "ann", "bob"), a("off call", "ann")),
        observed("t2", r("off call"), r("on call", "ann", "bob"), a("on call", "eve")),
        observed("t0", a("on call", "ann"), a("on call", "bob")),
        observed("t3", r("off call", "ann"), r("on call", "ann", "bob", "eve")),
        observed("t4", r("off call"), r("on call", "ann", "bob")),
    ],
}


def test_a_count_is_a_read_of_as_many_elements():
    after = observed("t3", r("x", 1), r("y", 2))
    skewed = [observed("t1", c("x", 0), c("y", 1)), observed("t2", a("x", 1), a("y", 2)), after]
    assert kinds(checked(*skewed)) == {"G-single"}
    write_skew = [observed("t1", c("x", 0), a("y", 2)), observed("t2", c("y", 0), a("x", 1)), after]
    assert checked(*write_skew)
    assert kinds(checked(*write_skew, level="serializable")) == {"G2"}
    assert checked(
        observed("t1", c("x", 2)), observed("t2", a("x", 1)), observed("t3", a("x", 3))
    )  # nobody read it
    assert checked(observed("t1", a("x", 1), c("x", 1)))
    assert kinds(checked(observed("t1", a("x", 1), c("x", 0)))) == {"internal"}


@pytest.mark.parametrize("kind", PLANTED)
@pytest.mark.parametrize("level", ["snapshot", "serializable"])
def test_a_planted_anomaly_is_reported_by_its_name(kind, level):
    verdict = checked(*PLANTED[kind], level=level)
    assert not verdict
    assert kinds(verdict) == {kind}
    assert all(anomaly.transactions for anomaly in verdict.anomalies)
    assert kind in str(verdict)


@pytest.mark.parametrize("name", ALLOWED)
def test_what_snapshot_isolation_allows_is_refused_only_as_serializable(name):
    assert checked(*ALLOWED[name])
    verdict = checked(*ALLOWED[name], level="serializable")
    assert kinds(verdict) == {"G2"}


def test_the_two_writers_of_fekete_are_serializable_without_the_reader():
    withdrawal, deposit, report, later = ALLOWED["Fekete's read-only anomaly"]
    assert checked(withdrawal, deposit, later, level="serializable")
    assert (
        report.name
        in checked(withdrawal, deposit, report, later, level="serializable").anomalies[0].transactions
    )


def test_a_lost_update_is_seen_though_nobody_reads_what_was_lost():
    verdict = checked(
        observed("t1", r("x"), a("x", 1)), observed("t2", r("x"), a("x", 2)), observed("t3", r("x", 1))
    )
    assert kinds(verdict) == {"P4"}
    assert set(verdict.anomalies[0].transactions) == {"t1", "t2"}


def test_an_observed_transaction_vanishes():
    """OTV: t3 sees t2's y and t1's x, which t2 had replaced."""
    verdict = checked(
        observed("t1", a("x", 1), a("y", 1)),
        observed("t2", a("x", 2), a("y", 2)),
        observed("t3", r("y", 1, 2), r("x", 1)),
        observed("t4", r("x", 1, 2)),
    )
    assert kinds(verdict) == {"G-single"}
    assert set(verdict.anomalies[0].transactions) == {"t2", "t3"}


def test_predicate_many_preceders():
    """PMP: a row that matches a second predicate of t1, and would have matched its first."""
    verdict = checked(
        observed("t1", r("value = 30"), r("value % 3 = 0", 30)),
        observed("t2", a("value = 30", 30), a("value % 3 = 0", 30)),
        observed("t3", r("value = 30", 30)),
    )
    assert kinds(verdict) == {"G-single"}


def test_one_predicate_read_twice_with_two_results():
    verdict = checked(observed("t1", r("p"), r("p", 1)), observed("t2", a("p", 1)))
    assert "internal" in kinds(verdict)


def test_without_real_time_a_reader_may_be_late():
    assert checked(*PLANTED["real time"], real_time=False)


def test_real_time_orders_writes_too():
    verdict = checked(
        observed("t1", a("x", 1), at=(0, 1)),
        observed("t2", a("x", 2), at=(2, 3)),
        observed("t3", r("x", 2, 1), at=(4, 5)),
    )
    assert kinds(verdict) == {"real time"}
    assert "t2 -ww('x')-> t1 -rt-> t2" in str(verdict)


def test_real_time_leads_over_transactions_that_touch_nothing():
    between = [observed(f"b{n}", r("z"), at=(10 + 2 * n, 11 + 2 * n)) for n in range(5)]
    verdict = checked(
        observed("t1", a("x", 1), at=(0, 1)),
        *between,
        observed("t2", r("x"), at=(30, 31)),
        observed("t3", r("x", 1), at=(32, 33)),
    )
    assert kinds(verdict) == {"real time"}
    assert set(verdict.anomalies[0].transactions) == {"t1", "t2"}


def test_ends_and_begins_at_one_moment_overlap():
    assert checked(observed("t1", a("x", 1), at=(0, 5)), observed("t2", r("x"), at=(5, 6)))


def test_an_unknown_outcome_counts_once_somebody_has_seen_it():
    lost = observed("t1", r("x"), a("x", 1), status="unknown")
    assert checked(lost, observed("t2", r("x"), a("x", 2)), observed("t3", r("x", 2)))
    verdict = checked(lost, observed("t2", r("x"), a("x", 2)), observed("t3", r("x", 1, 2)))
    assert kinds(verdict) == {"P4"}


def test_an_unknown_outcome_that_an_unknown_one_saw_counts_if_that_one_does():
    chain = [
        observed("t1", a("x", 1), r("y", 2), status="unknown"),
        observed("t2", r("x", 1), a("y", 2), status="unknown"),
    ]
    assert checked(*chain)
    assert kinds(checked(*chain, observed("t3", r("y", 2)))) == {"G1c"}


def test_an_unknown_outcome_may_have_come_late():
    late = Observed("t1", (a("x", 1),), 0, None, "unknown")
    assert checked(late, observed("t2", r("x"), at=(50, 60)), observed("t3", r("x", 1), at=(70, 80)))
    early = Observed("t1", (a("x", 1),), 65, None, "unknown")
    assert not checked(early, observed("t2", r("x", 1), at=(50, 60)))


def test_reads_of_aborted_transactions_count_if_asked_for():
    skewed = [
        observed("t1", r("x"), r("y", 2), status="aborted"),
        observed("t2", a("x", 1), a("y", 2)),
        observed("t3", r("x", 1)),
    ]
    assert checked(*skewed)
    assert kinds(checked(*skewed, aborted_reads=True)) == {"G-single"}
    assert kinds(checked(observed("t1", a("x", 1), r("x"), status="aborted"), aborted_reads=True)) == {
        "internal"
    }


def test_an_aborted_transaction_sees_its_own_writes():
    assert checked(observed("t1", a("x", 1), r("x", 1), status="aborted"), aborted_reads=True)


def test_a_transaction_sees_its_own_writes_behind_what_was_there():
    assert checked(
        observed("t0", a("x", 0)), observed("t1", a("x", 1), r("x", 0, 1), a("x", 2), r("x", 0, 1, 2))
    )
    for seen in ([r("x", 1, 0)], [r("x", 0)], [r("x", 0, 1), r("x", 0)], [r("x")]):
        assert "internal" in kinds(checked(observed("t0", a("x", 0)), observed("t1", a("x", 1), *seen)))


def test_several_anomalies_are_all_reported():
    verdict = checked(
        *PLANTED["G0"],
        *[
            Observed(f"u{t.name}", tuple(o._replace(key=f"u{o.key}") for o in t.operations), 0, 1000)
            for t in PLANTED["G-single"]
        ],
    )
    assert kinds(verdict) == {"G0", "G-single"}


def test_the_worst_of_a_component_is_reported():
    verdict = checked(
        *PLANTED["G0"], observed("t4", r("x"), r("y", 2), a("x", 4)), observed("t5", r("x", 1, 2, 4))
    )
    assert kinds(verdict) == {"G0"}


def test_an_element_that_is_appended_twice_is_refused():
    for second in (observed("t1", a("x", 1), a("x", 1)), observed("t2", a("x", 1))):
        with pytest.raises(firn.InvalidInputError, match="twice"):
            checked(observed("t0", a("x", 1)), second)


def test_an_unknown_level_is_refused():
    with pytest.raises(firn.InvalidInputError, match="level"):
        RecordedHistory().check("linearizable")  # type: ignore[arg-type]


def test_an_empty_history_holds():
    assert checked() and str(checked()) == "0 transactions: snapshot isolation holds"


def test_recordings_end_with_their_blocks():
    history = RecordedHistory()
    with history.begin() as tx:
        tx.append("x", 0)
    for error in (
        firn.StaleObjectError("x"),
        firn.OutcomeUnknownError("x"),
        KeyboardInterrupt(),
        ValueError(),
    ):
        with pytest.raises(type(error)), history.begin() as tx:
            tx.append("x", repr(error))
            raise error
    assert [t.status for t in history.transactions] == [
        "committed",
        "aborted",
        "unknown",
        "unknown",
        "unknown",
    ]
    assert [t.end is None for t in history.transactions] == [False, False, True, True, True]
    tx = history.begin("named")
    tx.read("x", iter([1]))
    tx.aborted()
    assert history.transactions[-1].name == "named" and history.transactions[-1].operations == (
        Read("x", (1,)),
    )


def test_many_threads_record_into_one_history():
    history = RecordedHistory()

    def client(name):
        for n in range(200):
            with history.begin() as tx:
                tx.append(name, n)

    threads = [threading.Thread(target=client, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(history.transactions) == 800
    moments = [moment for t in history.transactions for moment in (t.start, t.end)]
    assert len(set(moments)) == len(moments)
    assert history.check()


def test_histories_of_processes_are_joined(tmp_path):
    one, both = RecordedHistory(), RecordedHistory()
    for transaction in [*PLANTED["G1a"], observed("t9", a("x", [1, 2]), status="unknown")][:2]:
        one.add(transaction)
    one.save(tmp_path / "one")
    with (tmp_path / "one").open("a") as torn:
        torn.write('["t3","comm')
    both.load(tmp_path / "one")
    assert both.transactions == one.transactions
    assert kinds(both.check()) == {"G1a"}


def test_a_transaction_may_be_in_two_cycles_that_share_nothing_else():
    """Between them it is only reached by rw, and a walk must not go on by rw then."""
    verdict = checked(
        observed("u", a("x", 1), a("y", 1)),
        observed("t", r("x"), r("y", 1), a("z", 2), a("w", 2)),
        observed("v", r("z"), r("w", 2)),
        observed("last", r("x", 1), r("z", 2)),
    )
    assert [anomaly.kind for anomaly in verdict.anomalies] == ["G-single", "G-single"]
    assert {frozenset(anomaly.transactions) for anomaly in verdict.anomalies} == {
        frozenset("ut"),
        frozenset("tv"),
    }
