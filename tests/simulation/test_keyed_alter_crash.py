"""An `alter` of a keyed table's columns, struck at every request it makes.

After each strike the table reads as before or as after, whole; the call can be made again, or says that it is done;
checkpoints have the columns of then; and a writer of now goes on.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from firn.errors import InvalidInputError
from firn.keyed.definition.definition import KeyedDefinition, create_definition
from firn.keyed.founding import found
from firn.keyed.maintain.checkpoints import checkpoint
from firn.keyed.table import KeyedTable
from firn.testing import CrashPoint, GatedBucket, SimStore, crash_points
from simulation.outcomes import Outcome
from simulation.test_kv_crash import DAY_S, MODES, PREFIX, SETTINGS, named, stored, table_over

pytestmark = pytest.mark.long

CHANGES: dict[str, Any] = {
    "rename": {"a": "b", "b": "a"},
    "drop": ["c"],
    "add": {"c": ("BIGINT", 7)},
    "types": {"a": "BIGINT"},
    "set_properties": {"flush_ms": 20},
}
Rows = dict[bytes, dict[str, Any]]
KEYS = [b"k%d" % n for n in range(4)]
BEFORE: Rows = {key: {"a": 1, "b": "x", "c": 0.5} for key in KEYS}
AFTER: Rows = {key: {"b": 1, "a": "x", "c": 7} for key in KEYS}


def fill(bucket: GatedBucket) -> None:
    columns = {"a": "INTEGER", "b": "VARCHAR", "c": "DOUBLE"}
    definition = KeyedDefinition("t", columns=columns, properties=SETTINGS, first_epoch=1)
    table = KeyedTable(bucket, PREFIX, create_definition(bucket, PREFIX, definition), clock=bucket.clock)
    found(table)
    with table.open(compaction=False, poll_every="1d") as kv:
        kv.write({key: BEFORE[key] for key in KEYS[:2]})
        kv.compact()
        kv.write({key: BEFORE[key] for key in KEYS[2:]})
    checkpoint(table, "kept")
    bucket.clock.sleep(60)


@cache
def template() -> SimStore:
    store = SimStore()
    fill(store.bucket())
    return store


class Struck:
    def __init__(self, *, writer: bool) -> None:
        self.writer = writer
        self.outcome = Outcome()

    def operation(self, bucket: GatedBucket) -> None:
        with self.outcome.told():
            table = table_over(bucket)
            if not self.writer:
                table.alter(**CHANGES, fence=True)
                return
            with table.open(compaction=False, poll_every="1d") as kv:
                kv.put(b"k0", BEFORE[b"k0"], durable=False)
                table.alter(**CHANGES)
                kv.put(b"k1", AFTER[b"k1"])

    def check(self, left: SimStore, point: CrashPoint) -> None:
        bucket = left.bucket("later")
        table = table_over(bucket)
        seen = dict(table.reader().scan())
        allowed = [AFTER] if self.outcome.ended == "done" else [BEFORE, AFTER]
        assert seen in allowed, f"after it {self.outcome.ended}: {seen}"
        with table.open(compaction=False, poll_every="1d") as kv:
            assert dict(kv.scan()) == seen
            if seen == BEFORE:
                table.alter(**CHANGES)
            else:  # a swap can't tell that it is done, but what was dropped can't be dropped twice
                with pytest.raises(InvalidInputError, match="only widens"):
                    table.alter(**CHANGES)
            assert dict(kv.scan()) == AFTER and kv.table.settings.flush_ms == 20
            kv.put(b"later", {"a": "y", "b": 2**40})
        table.compact(full=True)
        bucket.clock.sleep(2 * DAY_S)
        table.sweep(older_than="0s")
        assert dict(table.reader().scan()) == {**AFTER, b"later": {"b": 2**40, "a": "y", "c": 7}}
        assert dict(table.reader(at="kept").scan()) == BEFORE
        assert named(table) == stored(bucket, table.prefix)


@pytest.mark.parametrize("writer", [False, True], ids=["with a fence", "beside its writer"])
def test_alter(writer: bool) -> None:
    struck = Struck(writer=writer)
    assert crash_points(template, struck.operation, struck.check, modes=MODES) > 40
