"""Replay: what transactions make of a state, and which ones can't follow it; which branch of a fork counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.errors import CorruptObjectError, UnsupportedError
from firn.journal.model import DataFile
from firn.journal.writer.format.actions import (
    Add,
    CatalogTransaction,
    CommitRecord,
    Define,
    Drop,
    Remove,
    Resolve,
    Tombstones,
    Upgrade,
)
from firn.journal.writer.format.state import BATCH_MEMORY_MS, CatalogSoftDelete, CatalogState, replay
from firn.journal.writer.history.forks import Fork, Link, decide

EMPTY = CatalogState("w", "db")
COLUMNS = (("n", "BIGINT"),)


def uuid(revision):
    return f"{revision:032x}"


def transaction(revision, *actions, time_ms=0, batches=(), previous=None):
    before = previous or (uuid(revision - 1) if revision > 1 else None)
    record = CommitRecord(uuid(revision), before, time_ms or revision * 1000, "op", tuple(batches))
    return CatalogTransaction("w", "db", revision, actions, record)


def add(name, columns=COLUMNS):
    return Add("t", DataFile(name, 1, 0), columns)


def after(*transactions):
    return replay(EMPTY, [(t, f"at-{t.revision}") for t in transactions])


FIRST = transaction(1, Define("t", b"spec"), add("a"), add("b"))


def test_files_appear_and_go():
    state = after(FIRST, transaction(2, Remove("a"), add("c")))
    assert list(state.tables["t"].files) == ["b", "c"]
    assert [f.revision for f in state.tables["t"].files.values()] == [1, 2]
    assert (state.head.revision, state.head.uuid) == (2, uuid(2))


def test_a_state_does_not_change_the_one_before():
    first = after(FIRST)
    replay(first, [(transaction(2, Remove("a"), Tombstones("t", "n > 1", ("b",))), "x")])
    assert first == after(FIRST)


def test_predicates_are_on_named_files_and_go_with_them():
    state = after(FIRST, transaction(2, Tombstones("t", "n > 1", ("a",))), transaction(3, add("c")))
    files = state.tables["t"].files
    assert files["a"].deletes == (CatalogSoftDelete("n > 1", 2),)
    assert files["b"].deletes == files["c"].deletes == ()
    state = replay(state, [(transaction(4, Remove("a")), "x"), (transaction(5, add("a")), "y")])
    assert state.tables["t"].files["a"].deletes == ()


def test_schemas_are_kept_in_order_of_appearance():
    wider = (("n", "BIGINT"), ("s", "VARCHAR"))
    state = after(FIRST, transaction(2, add("c", wider), Remove("c")))
    assert state.tables["t"].schemas == (COLUMNS, wider)


def test_a_dropped_table_takes_its_files_along():
    state = after(FIRST, transaction(2, Drop("t")), transaction(3, Define("t", b"new"), add("a")))
    assert list(state.tables["t"].files) == ["a"]
    assert state.tables["t"].spec == b"new"


def test_a_definition_is_replaced():
    state = after(FIRST, transaction(2, Define("t", b"other")))
    assert state.tables["t"].spec == b"other" and len(state.tables["t"].files) == 2


def test_batches_are_remembered_for_a_while():
    state = after(FIRST, transaction(2, batches=[("t", "one")]))
    assert state.tables["t"].batches == {"one": (2, 2000)}
    late = transaction(3, time_ms=2001 + BATCH_MEMORY_MS, batches=[("t", "two")])
    assert list(replay(state, [(late, "x")]).tables["t"].batches) == ["two"]


def test_times_never_fall():
    state = after(FIRST, transaction(2, time_ms=5))
    assert state.head.time_ms == 1000


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (transaction(2, add("a")), "adds the file a, which is there already"),
        (transaction(2, add("c"), add("c")), "adds the file c, which is there already"),
        (transaction(2, Remove("x")), "removes the file x, which isn't there"),
        (transaction(2, Remove("a"), Remove("a")), "removes the file a"),
        (transaction(2, Tombstones("t", "n > 1", ("x",))), "file x, which isn't in the table"),
        (transaction(2, Tombstones("t", " ", ("a",))), "empty predicate"),
        (transaction(2, Add("u", DataFile("c", 1, 0))), "table 'u', which isn't defined"),
        (transaction(2, Drop("u")), "table 'u', which isn't defined"),
        (transaction(2, batches=[("u", "b")]), "table 'u', which isn't defined"),
        (transaction(2, Resolve(2, uuid(2))), "resolves revision 2"),
        (transaction(2, Upgrade(0)), "back from format 1 to 0"),
        (transaction(3), "has revision 3, not 2"),
        (transaction(2, previous=uuid(9)), "as the one before it, not"),
        (replace(transaction(2), writer="v"), "of the writer 'v'"),
        (replace(transaction(2), database="other"), "database 'other'"),
    ],
)
def test_what_cannot_follow_is_an_error_that_names_the_object(second, why):
    with pytest.raises(CorruptObjectError, match=f"^s3://b/second can't follow.*{why}.*firn rebuild"):
        replay(after(FIRST), [(second, "s3://b/second")])


def test_an_unknown_format_is_refused():
    with pytest.raises(UnsupportedError, match=r"s3://b/2.*format 9.*Upgrade Firn"):
        replay(after(FIRST), [(transaction(2, Upgrade(9)), "s3://b/2")])


# -- forks


def links(*entries):
    found = {}
    for revision, prefix, previous, *resolves in entries:
        found.setdefault(revision, []).append(Link(revision, prefix, previous, tuple(resolves)))
    return found


def test_a_line_is_followed_to_its_tip():
    chain = decide((0, ""), links((1, "a", ""), (2, "b", "a")), {})
    assert chain.nodes == ((1, "a"), (2, "b")) and chain.fork is None and chain.anomaly is None


def test_an_open_fork_ends_the_line():
    chain = decide((0, ""), links((1, "a", ""), (2, "b", "a"), (2, "c", "a")), {})
    assert chain.nodes == ((1, "a"),)
    assert chain.fork == Fork(2, ("b", "c"), hard=False)


def test_a_child_or_a_checkpoint_proves_its_parent():
    forked = [(1, "a", ""), (2, "b", "a"), (2, "c", "a")]
    assert decide((0, ""), links(*forked, (3, "d", "c")), {}).nodes[1:] == ((2, "c"), (3, "d"))
    assert decide((0, ""), links(*forked), {2: ["b"]}).nodes[1:] == ((2, "b"),)


def test_two_proofs_make_a_hard_fork():
    forked = [(1, "a", ""), (2, "b", "a"), (2, "c", "a")]
    for chain in (
        decide((0, ""), links(*forked, (3, "d", "c"), (3, "e", "b")), {}),
        decide((0, ""), links(*forked, (3, "d", "c")), {2: ["b"]}),
    ):
        assert chain.fork == Fork(2, ("b", "c"), hard=True) and chain.nodes == ((1, "a"),)


def test_a_repair_outranks_children_and_checkpoints():
    forked = [(1, "a", ""), (2, "b", "a"), (2, "c", "a"), (3, "d", "c"), (4, "e", "d")]
    chain = decide((0, ""), links(*forked, (3, "r", "b", (2, "b"))), {2: ["c"], 4: ["e"]})
    assert chain.nodes == ((1, "a"), (2, "b"), (3, "r"))
    assert chain.fork is None and chain.anomaly is None


def test_a_repair_speaks_for_its_own_branch_only():
    forked = [(1, "a", ""), (2, "b", "a"), (2, "c", "a"), (3, "r", "c", (2, "b"))]
    assert decide((0, ""), links(*forked), {}).nodes == ((1, "a"), (2, "c"), (3, "r"))


def test_two_repairs_that_disagree_decide_nothing():
    forked = [(1, "a", ""), (2, "b", "a"), (2, "c", "a")]
    both = links(*forked, (3, "r", "b", (2, "b")), (3, "s", "c", (2, "c")))
    assert decide((0, ""), both, {}).fork == Fork(2, ("b", "c"), hard=True)


def test_a_damaged_rival_proves_nothing():
    forked = [(1, "a", ""), (2, "b", "a"), (2, "c", None), (3, "d", "b")]
    assert decide((0, ""), links(*forked), {}).nodes[1:] == ((2, "b"), (3, "d"))


def test_gaps_and_wrong_links_are_anomalies():
    assert "revision 2 is missing" in decide((0, ""), links((1, "a", ""), (3, "c", "b")), {}).anomaly
    assert "follows x, not a" in decide((0, ""), links((1, "a", ""), (2, "b", "x")), {}).anomaly
    assert (
        "transaction b of revision 2 is missing" in decide((0, ""), links((1, "a", "")), {2: ["b"]}).anomaly
    )
    assert "revision 1 is missing" in decide((0, ""), links((2**60, "b", "a")), {}).anomaly
