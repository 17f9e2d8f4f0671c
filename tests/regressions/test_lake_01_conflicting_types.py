"""Two first appends that raced with types that don't join made a table unreadable: for every verb, for ever."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import firn
from firn.journal.model import Commit
from firn.lake.table import LakeTable
from firn.lake.write.write import WriteSpec, write_batches
from moments import append_late

Reading = Callable[[LakeTable], list[dict[str, Any]]]
VALUES = [5, 5.5, "five", True, [5], {"a": 5}]


class Shifted:
    """A clock that is some milliseconds ahead."""

    def __init__(self, clock: Any, ms: int) -> None:
        self.clock, self.ms = clock, ms

    def now_ms(self) -> int:
        return int(self.clock.now_ms()) + self.ms

    def monotonic(self) -> float:
        return float(self.clock.monotonic())

    def sleep(self, seconds: float) -> None:
        self.clock.sleep(seconds)


def race(values: list[Any], **options: Any) -> LakeTable:
    """A table on which every value of one column was appended by a process that knew of no other."""
    db = firn.connect("memory://")
    db.create_table("t", **options)
    tables = [db.table("t") for _ in values]
    for number, (table, value) in enumerate(zip(tables, values, strict=True)):
        table.journal.clock = Shifted(table.journal.clock, number)  # type: ignore[attr-defined]
        append_late(table, [{"n": number, "x": value}])
    return db.table("t")


def rows(table: LakeTable, **scan: Any) -> list[dict[str, Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", firn.DegradedReadWarning)
        found = table.scan(**scan).to_arrow().to_pylist()
    return sorted(
        ({k: v for k, v in row.items() if v is not None} for row in found), key=lambda row: row["n"]
    )


def shown(table: LakeTable) -> list[Any]:
    """All values of x, under whichever name."""
    return [row[next(name for name in row if name != "n")] for row in rows(table)]


def test_lake_01_every_value_is_readable() -> None:
    table = race(VALUES)
    with pytest.warns(firn.DegradedReadWarning, match=r"resolve\('x'"):
        table.scan().to_arrow()
    assert "~double" in table.scan().explain()
    assert shown(table) == VALUES
    assert rows(table, where="x = 5") == [{"n": 0, "x": 5}]
    assert rows(table, where="\"x~varchar\" = 'five'") == [{"n": 2, "x~varchar": "five"}]
    assert table.scan(where='"x~double" > 5').count() == 1
    assert table.scan(where="x IS NULL").count() == 5


@pytest.mark.parametrize(
    "verb",
    [
        lambda t: t.merge(),
        lambda t: t.merge(query="SELECT * FROM source_files"),
        lambda t: t.delete("n = 100 OR x = 100"),
        lambda t: t.rewrite("n >= 0"),
        lambda t: t.rewrite("SELECT * FROM _rows"),
        lambda t: t.restore(t.snapshot().version),
        lambda t: t.sweep(older_than="0s", orphans="0s"),
        lambda t: t.checkpoint(),
        lambda t: t.append([{"n": 6, "y": 1}]),
        lambda t: (t.merge(), t.sweep(older_than="0s", orphans="0s"), t.merge()),
    ],
)
@pytest.mark.parametrize("on_conflict", [None, "skip-file"])
def test_lake_01_no_verb_fails_or_loses_a_value(
    verb: Callable[[LakeTable], Any], on_conflict: str | None
) -> None:
    table = race(VALUES, properties={"on_conflict": on_conflict} if on_conflict else None)
    before = set(table.snapshot().columns)
    verb(table)
    assert shown(table)[:6] == VALUES
    assert set(table.snapshot().columns) - {"y"} == before


def test_lake_01_rows_are_deleted_by_what_is_set_aside() -> None:
    table = race(VALUES)
    assert table.delete('"x~double" > 5').rows_deleted == 1
    assert shown(table) == [v for v in VALUES if v != 5.5]
    assert not any(name == "x~double" for name in table.snapshot().columns)
    table.overwrite([{"n": 0, "x": 1}])
    assert rows(table) == [{"n": 0, "x": 1}] and list(table.snapshot().columns) == ["n", "x"]


def test_lake_01_partitions_of_what_is_set_aside() -> None:
    """The directory says what the file's own column holds, which is another one's."""
    table = race([5, "5", 6], partition_by=["x"])
    for _ in range(2):
        assert rows(table, where="x = 5") == [{"n": 0, "x": 5}]
        assert rows(table, where="x IS NULL") == [{"n": 1, "x~varchar": "5"}]
        assert rows(table, where="\"x~varchar\" = '5'") == [{"n": 1, "x~varchar": "5"}]
        assert table.scan(where="x IS NULL").count() == 1
        table.merge()


def test_lake_01_the_error_is_asked_for() -> None:
    table = race([5, 5.5], properties={"on_conflict": "error"})
    with pytest.raises(firn.SchemaConflictError, match=r"resolve\('x', to='DOUBLE'\)"):
        table.scan().to_arrow()
    table.merge()
    assert table.delete("x = 5").rows_deleted == 1
    with pytest.raises(firn.SchemaConflictError, match="on_conflict"):
        table.scan().count()


def append_at_once(table: LakeTable, values: list[Any]) -> list[Any]:
    """Append each in a thread of its own; those that were refused."""
    gate = threading.Barrier(len(values))
    refused: list[Any] = []

    def append(value: Any) -> None:
        gate.wait()
        try:
            table.append([{"n": 0, "x": value}])
        except firn.SchemaConflictError:
            refused.append(value)

    threads = [threading.Thread(target=append, args=(value,)) for value in values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


def test_lake_01_an_append_that_raises_has_committed_nothing() -> None:
    """Two threads that share one handle."""
    for _ in range(20):
        table = firn.connect("memory://").create_table("t")
        table.journal.known()
        refused = append_at_once(table, [5, "five"])
        assert sorted(map(str, shown(table))) == sorted(str(v) for v in (5, "five") if v not in refused)


def test_lake_01_keys_are_read_as_one_type() -> None:
    table = race([5, "5", "six"], key=["x"])
    for _ in range(2):
        found = {row["x"]: row["n"] for row in rows(table)}
        assert found == {"5": 1, "six": 2} and table.scan().count() == 2
        assert rows(table, where="x = '5'") == [{"n": 1, "x": "5"}]
        table.merge()


def test_lake_01_who_has_a_column_stays_when_a_log_lands_late() -> None:
    table = race([5.5, 5])
    table.merge()
    ticket = table.journal.begin_append()
    columns = {"n": "BIGINT", "x": "BIGINT"}
    spec = WriteSpec.of(table.context, columns, ticket.namer)
    files = write_batches(table.bucket, spec, [pa.table({"n": [9], "x": [9]})])
    clock = table.journal.clock  # type: ignore[attr-defined]
    table.journal.clock = Shifted(clock, -3_600_000)  # type: ignore[attr-defined]
    ticket.commit(Commit("append", files, columns=columns))
    table.journal.clock = clock  # type: ignore[attr-defined]
    assert table.snapshot().columns["x"] == "DOUBLE"
    assert rows(table)[-1] == {"n": 9, "x~bigint": 9}


def test_lake_01_names_of_what_is_set_aside_are_nobody_elses() -> None:
    table = firn.connect("memory://").create_table("t")
    with pytest.raises(firn.SchemaConflictError, match="can't name a new column"):
        table.append([{"x~double": 1}])
