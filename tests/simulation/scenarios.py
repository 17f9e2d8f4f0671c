"""Interleavings laid out by hand, each of which fails if the rule that it is about is left out."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress

import pytest

from firn.errors import FirnError
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.leaderless.format.codec import Log, encode
from firn.journal.leaderless.format.layout import TableLayout
from firn.journal.model import Commit
from firn.lake.definition.definition import LakeDefinition
from firn.lake.maintain import merge as merging
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import Call, GatedBucket, Rule, Script, SimClient, SimStore, World, slow
from regressions import test_checkpoint_shows_what_was_cleaned as checkpointed
from regressions import test_slow_restore as restored
from regressions import test_sweep_outlives_its_lock as unlocked
from regressions import test_unanswered_append_is_misjudged as unanswered
from regressions.journals import (
    GRACE_AND_MARGIN_S,
    Before,
    append,
    journal_on,
    merge,
    pass_time,
    remove,
    rows,
)
from simulation.leaderless_table import PREFIX, clean, journal_of, put_rows, rows_of

__all__ = ["checkpointed", "restored", "unanswered", "unlocked"]

LAYOUT = TableLayout(PREFIX, PREFIX)


def published_while_being_settled() -> None:
    """Rule 6: the holder's log lands between the look of who takes over and what that one does about it."""
    faults = Script(
        Rule(slow(60), client="holder", verb="put_if_match", key="*_m_*"),
        Rule(slow(60), client="taker", verb=("put_if_match", "delete"), key="*_m_*"),
    )
    world = World(0, faults=faults)
    setup = world.observer()
    file = append(journal_of(setup, setup.clock), [1])

    def holder(client: SimClient) -> None:
        remove(journal_of(client.bucket, client.clock), [file])

    def taker(client: SimClient) -> None:
        client.clock.sleep(1)
        with journal_of(client.bucket, client.clock).exclusive("merge") as session:
            session.publish(Commit("merge"))

    held = world.spawn("holder", holder, expected=(FirnError,))
    world.spawn("taker", taker, expected=(FirnError,))
    world.run()
    seen = rows(journal_of(setup, setup.clock))
    assert held.error is not None or seen == [], "an acknowledged removal was lost"


def column_back_during_a_merge() -> None:
    """Rule 28: a restore brings back a column that a merge without the lock has left out as dropped."""
    store = SimStore()

    def table_of(bucket: GatedBucket) -> LakeTable:
        journal = LeaderlessJournal(bucket, PREFIX, clock=bucket.clock, renew_in_background=False)
        return LakeTable(bucket, PREFIX, LakeDefinition("t"), journal, InProcess(LocalRunner(threads=1)))

    other = table_of(store.bucket("other"))
    for n in range(2):
        other.append([{"n": n, "note": "kept"}])
        other.bucket.clock.sleep(1)
    before = other.snapshot().version
    other.alter(drop=["note"])
    other.bucket.clock.sleep(1)
    plan = Before(lambda call: call.verb == "put" and "/part-w-" in call.key, lambda: other.restore(before))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(merging, "UNLOCKED_BYTES", 0)
        table_of(store.bucket("merger", plan=plan)).merge()
    assert plan.done
    assert other.scan().to_arrow()["note"].to_pylist() == ["kept", "kept"]


def replaced_after_it_was_deleted() -> None:
    """Rule 14: a cleaner stalls before it replaces a log; others merge and clean that log away meanwhile."""
    store = SimStore()
    other = journal_on(store, "other")
    append(other, [1])
    append(other, [2])
    merge(other)
    pass_time(other, GRACE_AND_MARGIN_S)

    def merge_and_clean() -> None:
        clean(other)
        append(other, [3])
        merge(other)
        pass_time(other, GRACE_AND_MARGIN_S)
        clean(other)

    plan = Before(lambda call: call.verb in ("put", "put_if_match") and "_m_" in call.key, merge_and_clean)
    clean(journal_on(store, plan=plan))
    assert plan.done
    assert rows(other) == [1, 2, 3]


def dead_file_named_by_a_log_that_stays() -> None:
    """Rule 15: the reference buries a file in one log and leaves another that names it alive."""
    journal = journal_on(SimStore())
    old = put_rows(journal, "p=a", [1], maintenance=False)
    t = journal.clock.now_ms()
    columns = {"id": "BIGINT"}
    first = Log(f"{t}_ref.jsonl", t, columns, [old])
    second = Log(f"{t + 1}_m_ref.jsonl", t + 1, columns, [old], dead={old.path: t + 1})
    for log in (first, second):
        journal.bucket.put(LAYOUT.log_key(log.name), encode(log))
    pass_time(journal, GRACE_AND_MARGIN_S)
    clean(journal)
    assert rows(journal) == []


def logs_read_before_the_list_ended() -> None:
    """Rule 17: a reader has got the first logs; then they are cleaned away; then it lists the others."""
    store = SimStore()
    other = journal_on(store, "other")
    append(other, [1])
    append(other, [2])
    merge(other)
    append(other, [3])
    pass_time(other, GRACE_AND_MARGIN_S)
    first = set(store.keys(LAYOUT.log_prefix)[:2])
    plan = Before(_after_getting(first), lambda: clean(other))
    reader = journal_on(store, "reader", plan=plan)
    files = reader.stream().start().files
    assert plan.done
    assert sorted(i for file in files for i in rows_of(reader, file)) == [1, 2, 3]


def _after_getting(keys: Collection[str]) -> Callable[[Call], bool]:
    left = set(keys)

    def when(call: Call) -> bool:
        ready = not left
        if call.verb == "get":
            left.discard(call.key)
        return ready

    return when


def log_changed_after_the_list() -> None:
    """Rule 17: what was listed is in memory, but for one log, which is cleaned before it is got."""
    store = SimStore()
    reader, other = journal_on(store, "reader"), journal_on(store, "other")
    append(other, [1])
    append(other, [2])
    assert rows(reader) == [1, 2]
    merge(other)
    pass_time(other, GRACE_AND_MARGIN_S)
    plan = Before(lambda call: call.verb == "get" and "_m_" in call.key, lambda: clean(other))
    reader.bucket.client.plan = plan  # type: ignore[attr-defined]
    files = reader.stream().start().files
    assert plan.done
    assert sorted(i for file in files for i in rows_of(reader, file)) == [1, 2]


def late_append_below_a_merge() -> None:
    """Rule 2: the merging process's clock is behind the appender's."""
    store = SimStore()
    fast, slow_one = journal_on(store, "fast", skew_ms=50_000), journal_on(store, "slow", skew_ms=-50_000)
    append(fast, [1])
    append(fast, [2])
    merge(slow_one)
    files = fast.stream().start().files  # which reads every log
    assert sorted(i for file in files for i in rows_of(fast, file)) == [1, 2]


def cleaned_while_the_list_went_on() -> None:
    """Rule 23: a reader with an earlier view stalls in its LIST; what replaced its logs is taken back meanwhile."""
    store = SimStore()
    other = journal_on(store, "other", windowed=True)
    append(other, [1])
    append(other, [2])
    pass_time(other, 700)

    def merge_and_clean() -> None:
        merge(other)
        pass_time(other, GRACE_AND_MARGIN_S)
        clean(other)

    plan = Before(lambda call: looked and call.verb == "list", merge_and_clean)
    looked: list[bool] = []
    reader = journal_on(store, "reader", plan=plan, windowed=True)
    assert rows(reader) == [1, 2]
    looked.append(True)
    assert rows(reader) == [1, 2]
    assert plan.done


def published_long_after_its_stamp() -> None:
    """Rule 21: a holder stalls before it publishes; its log lands under a name that readers don't list any more."""
    store = SimStore()
    other = journal_on(store, "other", windowed=True)
    file = append(other, [1])

    def look() -> None:
        append(other, [2])
        pass_time(other, 1000)
        assert rows(other) == [1, 2]

    plan = Before(lambda call: call.verb == "put_if_match" and call.key.endswith("lock.json"), look)
    with suppress(FirnError):
        remove(journal_on(store, "holder", plan=plan, windowed=True), [file])
    assert plan.done
    assert rows(other) == rows(journal_on(store, "new", windowed=True))


def published_after_a_checkpoint_had_its_reservation() -> None:
    """Rule 18: a checkpoint holds a log's reservation; the log has another ETag once it is published."""
    store = SimStore()
    other = journal_on(store, "other")
    file = append(other, [0])
    for i in range(1, 6):
        append(other, [i])
    plan = Before(
        lambda call: call.verb == "put_if_match" and call.key.endswith("lock.json"), other.checkpoint
    )
    remove(journal_on(store, "holder", plan=plan), [file])
    assert plan.done
    assert [commit.op for commit in journal_on(store, "new").history()] == ["append"] * 6 + ["remove"]
