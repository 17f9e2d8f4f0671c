"""The history checker against databases of one page, and against the definition of snapshot isolation itself."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.testing.cycles import cyclic_components
from firn.testing.dependencies import Count, ListAppend, Observed, Read
from histories import a, checked, kinds, observed, r

KEYS = ("x", "y", "z")


def executed(seed, count, *, reads, commits):
    """A history of a toy database, which is as wrong as it is told to be."""
    rng = random.Random(seed)
    history, committed, clock = [], [], itertools.count()
    running = []
    values = itertools.count(1)
    while len(history) < count or running:
        if len(history) + len(running) < count and (not running or rng.random() < 0.4):
            running.append(
                {
                    "start": next(clock),
                    "snapshot": len(committed),
                    "ops": [],
                    "own": [],
                    "read": set(),
                    "left": rng.randint(1, 4),
                }
            )
            continue
        tx = rng.choice(running)
        if tx["left"]:
            tx["left"] -= 1
            key = rng.choice(KEYS)
            upto = (
                len(committed) if reads == "committed" or (reads == "fork" and key == "x") else tx["snapshot"]
            )
            seen = [v for k, v in committed[:upto] if k == key] + [v for k, v in tx["own"] if k == key]
            tx["ops"].append(Read(key, tuple(seen)))
            tx["read"].add(key)
            if rng.random() < 0.6:
                value = next(values)
                tx["ops"].append(ListAppend(key, value))
                tx["own"].append((key, value))
            continue
        running.remove(tx)
        newer = {k for k, _ in committed[tx["snapshot"] :]}
        looked = {
            "first wins": {k for k, _ in tx["own"]},
            "validated": tx["read"] if tx["own"] else set(),
            "all": set(),
        }[commits]
        status = "aborted" if newer & looked else "committed"
        if status == "committed":
            committed += tx["own"]
        history.append(Observed(f"t{len(history)}", tuple(tx["ops"]), tx["start"], next(clock), status))
    final = tuple(Read(key, tuple(v for k, v in committed if k == key)) for key in KEYS)
    return [*history, Observed("final", final, next(clock), next(clock))]


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_snapshots_with_first_committer_wins_hold(seed, count):
    assert checked(*executed(seed, count, reads="snapshot", commits="first wins"), aborted_reads=True)


@given(st.integers(0, 2**32), st.integers(1, 40))
def test_validated_reads_are_serializable(seed, count):
    assert checked(*executed(seed, count, reads="snapshot", commits="validated"), level="serializable")


@pytest.mark.parametrize(
    ("reads", "commits", "level", "expected"),
    [
        ("snapshot", "all", "snapshot", {"P4"}),
        ("committed", "first wins", "snapshot", {"internal", "G-single"}),
        ("fork", "first wins", "snapshot", {"internal", "G-single"}),
        ("snapshot", "first wins", "serializable", {"G2"}),
    ],
)
def test_wrong_databases_are_caught(reads, commits, level, expected):
    found = set()
    for seed in range(60):
        found |= kinds(checked(*executed(seed, 40, reads=reads, commits=commits), level=level))
    assert expected <= found


def explained_by(transactions, level):
    """Whether some order of begins and commits explains all reads: the definition, tried out exhaustively."""
    count = len(transactions)
    events = [(n, kind) for n in range(count) for kind in ("begin", "commit")]
    if level == "serializable":
        orders = (
            [e for n in p for e in ((n, "begin"), (n, "commit"))]
            for p in itertools.permutations(range(count))
        )
    else:
        orders = (
            p
            for p in itertools.permutations(events)
            if all(p.index((n, "begin")) < p.index((n, "commit")) for n in range(count))
        )
    return any(_explains(order, transactions) for order in orders)


def _explains(order, transactions):
    at = {event: position for position, event in enumerate(order)}
    for n, one in enumerate(transactions):
        for m, other in enumerate(transactions):
            if one.end < other.start and at[n, "commit"] > at[m, "begin"]:
                return False
    committed, snapshots, writes = (
        [],
        {},
        {n: {o.key for o in t.operations if isinstance(o, ListAppend)} for n, t in enumerate(transactions)},
    )
    for n, kind in order:
        if kind == "begin":
            snapshots[n] = len(committed)
            continue
        if {k for k, _ in committed[snapshots[n] :]} & writes[n]:
            return False
        own = []
        for operation in transactions[n].operations:
            if isinstance(operation, ListAppend):
                own.append((operation.key, operation.value))
                continue
            there = tuple(v for k, v in committed[: snapshots[n]] + own if k == operation.key)
            if operation[1] != (there if isinstance(operation, Read) else len(there)):
                return False
        committed += own
    return True


@st.composite
def small_histories(draw):
    """Three transactions and a last one that reads all, with reads that may or may not make sense."""
    values = itertools.count(1)
    writes = {n: draw(st.lists(st.sampled_from("xy"), max_size=2, unique=True)) for n in range(3)}
    appended = {key: [] for key in "xy"}
    owned = {}
    for n in draw(st.permutations(range(3))):
        for key in writes[n]:
            value = next(values)
            owned[n, key] = value
            appended[key].insert(draw(st.integers(0, len(appended[key]))), value)
    history = []
    for n in range(3):
        operations = []
        for key in draw(st.lists(st.sampled_from("xy"), max_size=2, unique=True)):
            seen = appended[key][: draw(st.integers(0, len(appended[key])))]
            others = tuple(v for v in seen if v != owned.get((n, key)))
            operations.append(Count(key, len(others)) if draw(st.booleans()) else Read(key, others))
        operations += [ListAppend(key, owned[n, key]) for key in writes[n]]
        start = draw(st.integers(0, 4))
        history.append(Observed(f"t{n}", tuple(operations), start, start + draw(st.integers(0, 4))))
    return [*history, Observed("final", tuple(Read(key, tuple(appended[key])) for key in "xy"), 20, 21)]


@settings(max_examples=80)
@given(small_histories(), st.sampled_from(["snapshot", "serializable"]))
def test_the_verdict_is_that_of_the_definition(history, level):
    assert bool(checked(*history, level=level)) == explained_by(history, level)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=10, max_size=10))
def test_components_are_those_of_reachability(graph):
    reach = {n: set() for n in range(10)}
    for n in range(10):
        work = list(graph[n])
        while work:
            node = work.pop()
            if node not in reach[n]:
                reach[n].add(node)
                work += graph[node]
    expected = {
        tuple(m for m in range(10) if m in reach[n] and n in reach[m]) for n in range(10) if n in reach[n]
    }
    assert {tuple(found) for found in cyclic_components(graph)} == expected


def test_a_long_chain_needs_no_recursion():
    count = 2_000
    chain = [observed(f"t{n}", r(n), a(n + 1, n)) for n in range(count)]
    assert checked(*chain, level="serializable")
    turned = [
        observed(f"t{n}", r(n, *([n - 1] if n else [])), a((n + 1) % count, n)) for n in range(1, count)
    ]
    verdict = checked(*turned, observed("t0", r(0, count - 1), a(1, 0)), level="snapshot")
    assert kinds(verdict) == {"G1c"} and len(verdict.anomalies) == 1
