"""Every verb of tables on writers' catalogs, and a transaction over two of them, struck at every request they make;
also where rows stand in the catalog, folded or not.

After each strike all of the operation is there or nothing, an error that says "nothing happened" is right, older
versions read as they did, the operation can be run again to its end, and prune and collect leave exactly the objects
that a version needs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache

import pytest

from firn.database.writer_tables import WriterTables
from firn.errors import ConflictError, FirnError, SnapshotTooOldError
from firn.journal.writer import journal as journals
from firn.journal.writer.commit import local_writer
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.actions import Remove
from firn.journal.writer.journal import WriterJournal
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.maintain.prune import prune
from firn.journal.writer.settings import WriterSettings
from firn.lake.definition.definition import LakeDefinition
from firn.lake.maintain import change
from firn.lake.maintain import merge as merging
from firn.lake.maintain.matching import source as merge_source
from firn.lake.partition.partition import PartitionSpec
from firn.runner import InProcess, LocalRunner
from firn.testing import CrashMode, CrashPoint, GatedBucket, SimStore, SimulationFailure, crash_points
from simulation.outcomes import Outcome
from simulation.writer_upkeep import paths_of

pytestmark = pytest.mark.long

MODES: dict[bool, tuple[CrashMode, ...]] = {
    True: ("after", "lost_ack", "retried", "failed"),
    False: ("after", "lost_ack", "failed"),
}
"""By whether the store has conditional puts. Dying before a request is dying after the one before it."""
DAY_S = 86_400

Content = dict[str, list[tuple[str, int]]]
"""Rows of each table that the writer has."""

Operation = Callable[[WriterTables], object]

BEFORE: Content = {"cpu": [("x", 1), ("x", 2), ("y", 1)], "mem": [("m", 7)]}
INLINE = {"inline": "64KB"}


@pytest.fixture(autouse=True)
def few_commits_are_folded_at_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_writer, "CLOSING_PARTS", 1)


def tables(bucket: GatedBucket, writer: str | None = "w") -> WriterTables:
    engines = InProcess(LocalRunner(threads=1))
    return WriterTables(bucket, "db", "sim://db", engines, writer=writer, strict=True, clock=bucket.clock)


def fill(bucket: GatedBucket, *, inline: bool = False) -> None:
    """Two tables, one partitioned; a merge, a soft delete, and a checkpoint on the way. With `inline` one append was
    merged, a soft delete is on rows in the catalog, and the checkpoint has them."""
    made = tables(bucket)
    properties = INLINE if inline else {}
    spec = PartitionSpec.parse(["p"], {})
    cpu = made.define(LakeDefinition("cpu", journal="writer", partition=spec, properties=properties))
    mem = made.define(LakeDefinition("mem", journal="writer", properties=properties))
    for n in (1, 2, 3):
        cpu.append([{"p": "x", "n": n}, {"p": "y", "n": n}])
        if inline and n == 1:
            cpu.merge()
    mem.append([{"p": "m", "n": 7}])
    if not inline:
        cpu.merge()
    made.federation.checkpoint("cpu")
    cpu.delete("n = 3 or p = 'y' and n = 2")
    bucket.clock.sleep(DAY_S)


@cache
def template(claims: bool, inline: bool = False) -> SimStore:
    store = SimStore(conditional_put=claims)
    fill(store.bucket(), inline=inline)
    return store


def content(bucket: GatedBucket, at: str | None = None) -> Content:
    """What a new process reads, of the newest version or of one."""
    made = tables(bucket, writer=None)
    found: Content = {}
    for name in made.names():
        table = made.find(name)
        assert table is not None
        rows = table.scan(at=at).to_arrow().to_pylist() if table.snapshot(at).columns else []
        found[name] = sorted((row["p"], row["n"]) for row in rows)
    return found


def both(made: WriterTables) -> None:
    with made.writer_transaction() as tx:
        tx.append("cpu", [{"p": "z", "n": 9}])
        tx.delete("mem", "n = 7")
        tx.append("mem", [{"p": "m", "n": 8}])


def on(name: str, verb: Callable[..., object]) -> Operation:
    return lambda made: verb(made.find(name))


def drop(made: WriterTables) -> None:
    if "mem" in made.names():
        made.drop("mem")


OPERATIONS: dict[str, tuple[Operation, Content]] = {
    "append": (
        on("cpu", lambda t: t.append([{"p": "x", "n": 5}, {"p": "z", "n": 5}], batch_id="b")),
        {**BEFORE, "cpu": [*BEFORE["cpu"], ("x", 5), ("z", 5)]},
    ),
    "soft delete": (on("cpu", lambda t: t.delete("n = 1")), {**BEFORE, "cpu": [("x", 2)]}),
    "delete": (on("cpu", lambda t: t.delete("n = 1", soft=False)), {**BEFORE, "cpu": [("x", 2)]}),
    "merge": (on("cpu", lambda t: t.merge()), BEFORE),
    "rewrite": (on("cpu", lambda t: t.rewrite("n < 2")), {**BEFORE, "cpu": [("x", 1), ("y", 1)]}),
    "remove": (
        on("cpu", lambda t: t.remove_partitions("p = 'x'") if len(t.partitions()) > 1 else None),
        {**BEFORE, "cpu": [("y", 1)]},
    ),
    "overwrite": (
        on("cpu", lambda t: t.overwrite([{"p": "q", "n": 0}])),
        {**BEFORE, "cpu": [("q", 0)]},
    ),
    "restore": (
        on("cpu", lambda t: t.restore("w=6" if t.context.definition.inline else "w=5")),
        {**BEFORE, "cpu": [(p, n) for p in "xy" for n in (1, 2, 3)]},
    ),
    "merge into": (
        on(
            "cpu",
            lambda t: t.merge_into(
                [{"p": "y", "n": 9}, {"p": "z", "n": 4}],
                on=["p"],
                when_matched="update",
                when_not_matched="insert",
            ),
        ),
        {**BEFORE, "cpu": [("x", 1), ("x", 2), ("y", 9), ("z", 4)]},
    ),
    "transaction": (
        lambda made: both(made) if ("z", 9) not in content_of(made) else None,
        {"cpu": [*BEFORE["cpu"], ("z", 9)], "mem": [("m", 8)]},
    ),
    "drop": (drop, {"cpu": BEFORE["cpu"]}),
}
FOLDS: dict[str, tuple[Operation, Content]] = {
    "fold": (on("cpu", lambda t: t.merge(only="inlined")), BEFORE),
    "checkpoint": (on("cpu", lambda t: t.checkpoint()), BEFORE),
    "close": (lambda made: (made.own.begin(), made.close()), BEFORE),
    "append that is due": (
        lambda made: due(made) if ("z", 9) not in content_of(made) else None,
        {**BEFORE, "cpu": [*BEFORE["cpu"], ("z", 9)]},
    ),
}
"""Where rows stand in the catalog."""


def due(made: WriterTables) -> None:
    """An append that folds, and writes a checkpoint."""
    table = made.find("cpu")
    assert table is not None and isinstance(table.journal, WriterJournal)
    table.journal._created_settings = WriterSettings(checkpoint_every=2)
    table.append([{"p": "z", "n": 9}])


def content_of(made: WriterTables) -> list[tuple[str, int]]:
    made.own.begin()  # whoever claimed a revision and died has committed it
    table = made.find("cpu")
    assert table is not None
    return [(row["p"], row["n"]) for row in table.scan().to_arrow().to_pylist()]


def persistently(operate: Operation, bucket: GatedBucket) -> None:
    """As a user does whose process begins anew: again, where another process's claim had to be finished first."""
    for last in (False, True):
        try:
            operate(tables(bucket))
            return
        except ConflictError:
            assert not last


@pytest.mark.parametrize(
    ("name", "claims", "inline"),
    [
        *((name, True, False) for name in OPERATIONS),
        *((name, False, False) for name in ("append", "merge", "transaction")),
        *((name, True, True) for name in (*OPERATIONS, *FOLDS)),
        *((name, False, True) for name in ("append", "merge", "transaction", "delete", *FOLDS)),
    ],
)
def test_struck_anywhere(name: str, claims: bool, inline: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_source, "IN_MEMORY_BYTES", 0)
    operate, after = {**OPERATIONS, **FOLDS}[name]
    after = {table: sorted(rows) for table, rows in after.items()}
    outcome = Outcome()

    def operation(bucket: GatedBucket) -> None:
        with suppress(FirnError), outcome.told():
            operate(tables(bucket))

    def check(store: SimStore, point: CrashPoint) -> None:
        bucket = store.bucket()
        shown = content(bucket)
        assert shown in (BEFORE, after), point
        if outcome.ended == "done":
            assert shown == after
        if outcome.ended == "failed" and after != BEFORE:
            assert shown == BEFORE
        assert content(bucket, at="w=8").items() <= BEFORE.items()
        persistently(operate, bucket)
        assert content(bucket) == after
        assert content(bucket, at="w=8").items() <= BEFORE.items()
        if point.mode == "after":
            _nothing_is_left_over(bucket, after)

    made = crash_points(lambda: template(claims, inline).copy(), operation, check, modes=MODES[claims])
    assert made > (5 if inline else 20)


def _nothing_is_left_over(bucket: GatedBucket, after: Content) -> None:
    """Later, history is pruned up to what the last commits need, and everything else is collected."""
    bucket.clock.sleep(8 * DAY_S)
    history = tables(bucket).federation.history("w")
    # Files of a fold that failed stay until the rows are gone that they would have replaced.
    persistently(lambda made: (made.own.begin(), made.close()), bucket)
    for _ in range(3):  # so that what was struck is below two checkpoints
        persistently(on("cpu", lambda t: t.append([{"p": "x", "n": 100}])), bucket)
    bucket.clock.sleep(8 * DAY_S)
    prune(history, older_than_ms=0)
    collect(history, orphan_age_ms=0)
    assert {**content(bucket), "cpu": [r for r in content(bucket)["cpu"] if r[1] != 100]} == after
    fresh = tables(bucket, writer=None).federation.history("w")
    needed: set[str] = set()
    for revision in range(fresh.load().head.revision, 0, -1):
        try:
            needed |= paths_of(fresh.at(revision).state)
        except SnapshotTooOldError:
            break
    stored = {info.key for info in bucket.list("db/w/db/data/").objects}
    assert stored == needed and not bucket.list("db/w/db/_firn/staged/").objects


def test_a_fold_that_leaves_its_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    template(True, True)
    sound = journals.actions_of
    monkeypatch.setattr(
        journals,
        "actions_of",
        lambda table, commit, clock: [
            a for a in sound(table, commit, clock) if not (isinstance(a, Remove) and "/rows/" in a.path)
        ],
    )
    monkeypatch.setattr(Handle, "_check_replaced", lambda self, pending, replaced: None)
    with pytest.raises(SimulationFailure):
        test_struck_anywhere("fold", True, True, monkeypatch)


def test_a_fold_that_writes_no_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that soft deletes took altogether are all that may go without a file."""
    template(True, True)
    monkeypatch.setattr(
        merging,
        "emptied",
        lambda table, snapshot, present: [f for f in snapshot.files if f.inlined is not None],
    )
    for module in (merging, change):
        monkeypatch.setattr(module, "completed", lambda table, session, snapshot, change, also=(): change)
    with pytest.raises(SimulationFailure):
        test_struck_anywhere("fold", True, True, monkeypatch)
