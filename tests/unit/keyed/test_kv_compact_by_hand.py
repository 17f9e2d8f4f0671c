"""A writer compacts by hand while its own compaction is at work in the background: neither fences the other."""

from __future__ import annotations

import threading

import firn
from firn.keyed.maintain import compaction, local_compaction


def test_by_hand_and_in_the_background_take_turns(monkeypatch):
    table = firn.connect("memory://").create_table("t", kind="keyed")
    with table.open(compaction=False) as kv:
        for n in range(12):
            kv.put(b"%d" % n, b"x")
    by_hand, background = threading.Event(), threading.Event()
    compact_once, run_plan = compaction.compact_once, compaction.run_plan

    def once(*args, **options):
        """In the background: begins when the other is in the middle, if nothing keeps the two apart."""
        by_hand.wait(0.5)
        try:
            return compact_once(*args, **options)
        finally:
            background.set()

    def run(*args, **options):
        """By hand: goes on when the other is through."""
        if threading.current_thread() is threading.main_thread():
            by_hand.set()
            background.wait(2)
        return run_plan(*args, **options)

    monkeypatch.setattr(local_compaction, "compact_once", once)
    monkeypatch.setattr(compaction, "run_plan", run)
    with table.open() as kv:
        kv.compact()
        assert kv.stats().l0 == 0
        assert len(list(kv.scan())) == 12
