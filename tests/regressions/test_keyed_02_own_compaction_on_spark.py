"""A writer's own compaction of more than 64 MB started a Spark JVM where PySpark is installed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.runner import LocalRunner
from kv_tables import new_table


class Elsewhere:
    """What a database with a cluster gives: nothing of a writer's own may get there."""

    closed = False

    def runner(self, input_bytes: int) -> LocalRunner:
        raise AssertionError("a writer's own compaction asked for a cluster")

    def progress(self, title: str) -> None:
        return None


@pytest.mark.parametrize("by_hand", [False, True])
def test_it_stays_in_its_process(by_hand: bool) -> None:
    table = replace(new_table(), engines=Elsewhere())
    with table.open(compaction=False) as kv:
        for n in range(8):
            kv.put(b"%d" % n, b"v")
        if by_hand:
            kv.compact(full=True)
        else:
            assert kv._compaction.work() is None
            assert kv.stats().compactions == 1
        assert kv.stats().l0 == 0
