"""A clone begins as its parent was, and neither can hurt the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from firn.bucket.keys import key_below
from firn.errors import InvalidInputError, SnapshotTooOldError, TableExistsError
from firn.keyed.founding import found
from firn.keyed.load.bulk_load import load
from firn.keyed.maintain import clones
from firn.keyed.maintain.checkpoints import checkpoint, checkpoints
from firn.keyed.maintain.clones import clone, clones_of, release
from firn.keyed.maintain.compaction import compact
from firn.keyed.maintain.sweep import sweep
from firn.keyed.table import KeyedTable
from kv_tables import Flusher, live, new_table


def filled() -> KeyedTable:
    """Something in SSTs, something in L0, something overwritten and deleted."""
    table = new_table()
    writer = Flusher(table)
    writer.put(b"a", b"b", b"c", value=b"1")
    compact(table)
    load(table, [{"key": b"d", "value": b"1"}])
    writer.put(b"a", value=b"2")
    writer.delete(b"b")
    return table


STATE = {b"a": b"2", b"c": b"1", b"d": b"1"}


def test_it_begins_as_its_parent() -> None:
    table = filled()
    other = clone(table, "other")
    assert live(other) == live(table) == STATE
    assert other.definition.name == "other" and other.prefix == key_below(
        table.prefix.rpartition("/")[0], "other"
    )
    assert other.bucket.list(other.prefix + "/l0/").objects == ()
    assert other.bucket.list(other.prefix + "/ssts/").objects == (), "no byte is copied"


def test_each_goes_on_by_itself() -> None:
    table = filled()
    other = clone(table, "other")
    writer, others = Flusher(table), Flusher(other)
    assert others.session.next_number == writer.session.next_number
    writer.put(b"x", value=b"parent")
    others.put(b"x", value=b"clone")
    others.delete(b"a")
    compact(table, full=True)
    compact(other, full=True)
    assert live(table) == {**STATE, b"x": b"parent"}
    assert live(other) == {b"c": b"1", b"d": b"1", b"x": b"clone"}
    load(other, [{"key": b"a", "value": b"loaded"}])
    assert live(other)[b"a"] == b"loaded"


@pytest.mark.parametrize("policy", ["tiered", "leveled"])
def test_what_it_writes_stands_above_what_it_began_with(policy: str) -> None:
    table = new_table({"compaction": policy})
    writer = Flusher(table)
    for n in range(3):
        writer.put(b"a", value=b"%d" % n)
    other = clone(table, "other")
    assert live(other) == {b"a": b"2"}
    for full in (False, True):
        Flusher(other).put(b"a", value=b"%s" % full.__repr__().encode())
        assert live(other) == {b"a": full.__repr__().encode()}
        compact(other, full=full)
        assert live(other) == {b"a": full.__repr__().encode()}


def test_its_parent_keeps_what_it_reads() -> None:
    table = filled()
    other = clone(table, "other")
    Flusher(table).put(b"a", value=b"3")
    compact(table, full=True)
    for _ in range(2):
        sweep(table, older_than="0s")
        sweep(other, older_than="0s")
    assert live(other) == STATE
    assert clones_of(table) == [other.prefix]
    assert checkpoints(table) == [], "the pin isn't the user's"


def test_it_lets_go_once_it_has_objects_of_its_own() -> None:
    table = filled()
    other = clone(table, "other")
    compact(other, full=True)
    kept = checkpoint(other, "a view of its parent's, too")
    first = sweep(other, older_than="0s")
    assert clones_of(table) == [] and first.ssts == ()
    compact(table, full=True)
    sweep(table, older_than="0s")
    assert live(other) == STATE
    kept.delete()


def test_it_doesnt_let_go_while_a_checkpoint_of_it_reads_its_parents() -> None:
    table = filled()
    other = clone(table, "other")
    kept = checkpoint(other)
    compact(other, full=True)
    compact(table, full=True)
    sweep(other, older_than="0s")
    sweep(table, older_than="0s")
    assert live(other, view=kept.view()) == STATE
    kept.delete()
    sweep(other, older_than="0s")
    assert clones_of(table) == []
    assert len(sweep(table, older_than="0s").ssts) == 2
    assert live(other) == STATE


def test_a_dry_sweep_lets_go_of_nothing() -> None:
    table = filled()
    other = clone(table, "other")
    compact(other, full=True)
    sweep(other, older_than="0s", dry_run=True)
    assert clones_of(table) == [other.prefix]


def test_a_clone_of_a_clone() -> None:
    table = filled()
    second = clone(clone(table, "first"), "second")
    assert live(second) == STATE
    first = second.beside(*_of(second, "first"))
    compact(first, full=True)
    for each in (first, table, second):
        sweep(each, older_than="0s")
    assert live(second) == STATE, "through the middle one's pin"
    assert clones_of(table) == [first.prefix] and clones_of(first) == [second.prefix]
    compact(second, full=True)
    sweep(second, older_than="0s")
    sweep(first, older_than="0s")
    assert clones_of(table) == clones_of(first) == []
    assert live(second) == STATE


def _of(table: KeyedTable, name: str) -> tuple[Any, str]:
    prefix = key_below(table.prefix.rpartition("/")[0], name)
    definition = clones.read_definition(table.bucket, prefix)
    assert definition is not None
    return definition, prefix


def test_at_a_checkpoint() -> None:
    table = filled()
    kept = checkpoint(table, "before")
    Flusher(table).delete(b"a", b"c", b"d")
    compact(table, full=True)
    for at in ("before", kept.id, kept):
        other = clone(table, f"other{len(clones_of(table))}", at)
        assert live(other) == STATE
    kept.delete()
    sweep(table, older_than="0s")
    assert live(other) == STATE, "a pin of its own"
    with pytest.raises(SnapshotTooOldError):
        clone(table, "late", "before")


def test_names() -> None:
    table = filled()
    clone(table, "other")
    for taken in ("other", "t"):
        with pytest.raises(TableExistsError):
            clone(table, taken)
    for bad in ("", "../x", "_x", "a/b"):
        with pytest.raises(InvalidInputError, match="can't name a table"):
            clone(table, bad)
    assert len(clones_of(table)) == 1
    assert len(table.journal.snapshots()) == 1, "no pin is left behind"


def test_release() -> None:
    table = filled()
    other = clone(table, "other")
    release(other)
    release(other)
    release(table)
    assert clones_of(table) == []


def test_what_a_crash_left_is_swept_a_day_later() -> None:
    """A pin whose clone never came to be."""
    table = filled()
    pin = table.journal.snapshot(name=f"clone:{table.prefix}x")
    sweep(table)
    assert [ref.id for ref in table.journal.snapshots()] == [pin.id]
    clock: Any = table.clock

    class Tomorrow:
        def now_ms(self) -> int:
            return int(clock.now_ms()) + 90_000_000

    table = replace(table, clock=Tomorrow())
    sweep(table)
    assert table.journal.snapshots() == []


def test_a_clone_whose_pin_is_gone_cant_be_founded() -> None:
    table = filled()
    other = clone(table, "other")
    release(other)
    with pytest.raises(SnapshotTooOldError, match="Drop other, and clone again"):
        found(other)
