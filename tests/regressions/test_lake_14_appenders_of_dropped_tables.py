"""A handle of a table that was dropped wrote on for ever: each of its appends was acknowledged, and stood in a log
that nobody opens. The log that it listed was never empty, as its own late appends were in it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import firn
from firn.lake.table import LakeTable

WAS_DROPPED = pytest.raises(firn.TableNotFoundError, match="was dropped")
VERBS: dict[str, Callable[[LakeTable], object]] = {
    "scan": lambda t: t.scan().count(),
    "merge": lambda t: t.merge(),
    "alter": lambda t: t.alter(set_properties={"codec": "snappy"}),
    "history": lambda t: t.history(),
    "scan at": lambda t: t.scan(at="2100-01-01").count(),
    "follow": lambda t: t.journal.append_logs(),  # type: ignore[attr-defined]
}


def refresh(table: LakeTable) -> None:
    """The time passes after which appenders look."""
    table.journal.known_columns._read_at = float("-inf")  # type: ignore[attr-defined]


def idle(table: LakeTable) -> None:
    """The handle was opened long ago."""
    table.journal._opened = float("-inf")  # type: ignore[attr-defined]


@pytest.mark.parametrize("again", [False, True])
def test_a_steady_appender_is_told(db: firn.Database, again: bool) -> None:
    old = db.create_table("t")
    for n in range(3):
        old.append([{"x": n}])
    refresh(old)
    old.append([{"x": 3}])
    db.drop_table("t")
    if again:
        db.create_table("t").append([{"x": 10}])
    old.append([{"x": 4}])  # within schema_refresh
    refresh(old)
    for _ in range(2):
        with WAS_DROPPED:
            old.append([{"x": 5}])


@pytest.mark.parametrize("verb", VERBS)
def test_all_verbs_of_a_handle_that_appended_late_are_told(db: firn.Database, verb: str) -> None:
    old = db.create_table("t")
    old.append([{"x": 1}])
    assert old.scan().count() == 1
    db.drop_table("t")
    db.create_table("t").append([{"x": 10}])
    old.append([{"x": 2}])
    for _ in range(2):
        with WAS_DROPPED:
            VERBS[verb](old)
    assert db.table("t").scan().to_arrow().to_pylist() == [{"x": 10}]


def test_the_first_append_of_a_handle_that_was_opened_long_ago(db: firn.Database) -> None:
    old = db.create_table("t")
    idle(old)
    db.drop_table("t")
    db.create_table("t")
    with WAS_DROPPED:
        old.append([{"x": 1}])


def test_a_log_that_others_have_merged_and_swept_is_still_the_tables(db: firn.Database) -> None:
    old, other = db.create_table("t"), db.table("t")
    old.append([{"x": 1}])
    assert old.scan().count() == 1
    for n in range(3):
        other.append([{"x": n}])
        other.merge()
        other.sweep(older_than="0s", orphans="0s")
    refresh(old)
    old.append([{"x": 9}])
    assert old.scan().count() == 5
