"""Changes of a table's definition, struck at every request they make, on both journals.

After each strike all of the change is there or nothing; an error that says "nothing happened" is right; the change
can be made again to its end, and is made once; the older version is read under its names; a process that knew the
table before goes on; and a sweep loses nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from firn.errors import DegradedReadWarning
from firn.lake.definition.definition import LakeDefinition
from firn.lake.table import LakeTable
from firn.testing import CrashPoint, GatedBucket, SimStore, crash_points
from moments import append_late
from simulation.outcomes import Outcome
from simulation.test_crash import MODES, lake
from simulation.test_writer_tables_crash import tables

pytestmark = pytest.mark.long

Rows = list[dict[str, Any]]
Open = Callable[[GatedBucket], LakeTable]

BEFORE: Rows = [{"place": "x", "n": 1, "b": 5}, {"place": "y", "n": 2, "b": 6}]
CONFLICT: Rows = [*BEFORE, {"place": "x", "n~double": 2.5}]


def catalog(bucket: GatedBucket) -> LakeTable:
    found = tables(bucket).find("t")
    assert isinstance(found, LakeTable)
    return found


JOURNALS: dict[str, Open] = {"leaderless": lake, "writer": catalog}


@cache
def template(journal: str, conflict: bool) -> SimStore:
    store = SimStore()
    bucket = store.bucket()
    if journal == "writer":
        tables(bucket).define(LakeDefinition("t", journal="writer"))
    table = JOURNALS[journal](bucket)
    for row in BEFORE:
        table.append([row])
        bucket.clock.sleep(60)
    if conflict:
        append_late(table, [{"place": "x", "n": 2.5}], {"place": "VARCHAR"})
    bucket.clock.sleep(86_400)
    return store


def rows_of(table: LakeTable, at: str | None = None) -> Rows:
    found = table.scan(at=at).to_arrow().to_pylist()
    return sorted(({k: v for k, v in row.items() if v is not None} for row in found), key=str)


ALTERED: dict[str, Any] = {
    "rename": {"n": "number"},
    "drop": "b",
    "add": {"b": ("VARCHAR", "new")},
    "comment": "altered",
}


def alter(table: LakeTable) -> None:
    if "n" in table.snapshot().columns:
        table.alter(**ALTERED)


def resolve(table: LakeTable) -> None:
    if table.conflicts():
        table.resolve("n", to="DOUBLE")


OPERATIONS: dict[str, tuple[Callable[[LakeTable], None], Rows, Rows, Rows]] = {
    "alter": (
        alter,
        BEFORE,
        [{"place": row["place"], "number": row["n"], "b": "new"} for row in BEFORE],
        [{"place": "z", "number": 9, "b": "own"}],
    ),
    "resolve": (
        resolve,
        CONFLICT,
        [*BEFORE, {"place": "x", "n": 2.5}],
        [{"place": "z", "n": 9.5}],
    ),
}


@pytest.mark.parametrize("journal", JOURNALS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_struck_anywhere(journal: str, name: str) -> None:
    operate, before, after, more = OPERATIONS[name]
    before, after = sorted(before, key=str), sorted(after, key=str)
    opened, outcome = JOURNALS[journal], Outcome()
    store = template(journal, name == "resolve")
    version = opened(store.bucket()).snapshot().version

    def operation(bucket: GatedBucket) -> None:
        with outcome.told():
            operate(opened(bucket))

    def check(left: SimStore, point: CrashPoint) -> None:
        bucket = left.bucket("later")
        stale = opened(left.bucket("stale"))
        shown = rows_of(opened(bucket))
        expected = {"done": [after], "failed": [before]}.get(outcome.ended, [before, after])
        assert shown in expected, f"after it {outcome.ended}: {shown}"
        assert rows_of(opened(bucket), version) == before
        stale.journal.known()
        operate(opened(bucket))
        assert rows_of(opened(bucket)) == after
        assert sum(commit.op == name for commit in opened(bucket).history()) == 1
        operate(opened(bucket))
        bucket.clock.sleep(3600)
        stale.append(more)
        assert rows_of(opened(bucket)) == sorted([*after, *more], key=str)
        bucket.clock.sleep(86_400)
        opened(bucket).merge()
        opened(bucket).sweep(orphans="0s")
        assert rows_of(opened(bucket)) == sorted([*after, *more], key=str)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegradedReadWarning)
        assert crash_points(store.copy, operation, check, modes=MODES) > 15
