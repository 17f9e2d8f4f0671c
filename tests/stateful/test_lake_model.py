"""Any sequence of a lake table's verbs against a plain list of rows, queried by DuckDB.

The clock is virtual, so that graces pass and no two commits share a millisecond. `FIRN_EXAMPLES` runs more sequences
than a test run has time for, drawn anew each time.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from firn.arrow.types import arrow_schema
from firn.errors import InvalidInputError, NotFoundError, SnapshotTooOldError
from firn.journal.agreement import Rules
from firn.journal.leaderless import LeaderlessJournal
from firn.lake.definition.definition import LakeDefinition
from firn.lake.partition.partition import PartitionSpec
from firn.lake.results import ChangeResult
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import SimStore

Row = dict[str, Any]

NOWHERE = "1000000000000_nohost-ffffffffffffffff"
JUDGE = duckdb.connect()  # to open one takes longer than what it is asked
EXAMPLES = int(os.environ.get("FIRN_EXAMPLES", "0"))
COLUMNS = {
    "id": "BIGINT",
    "place": "VARCHAR",
    "x": "DOUBLE",
    "s": "VARCHAR",
    "d": "DATE",
    "b": "BOOLEAN",
    "ts": "TIMESTAMP",
    "tags": "VARCHAR[]",
    "tz": "TIMESTAMP WITH TIME ZONE",
    "_row": "BIGINT",
    "comment": "VARCHAR",
}
SPECS: dict[str, tuple[list[str], Callable[[Row], object] | None]] = {
    "none": ([], lambda row: None),
    "place": (["place"], lambda row: row.get("place")),
    "month": (["month(d)"], lambda row: row["d"].strftime("%Y-%m") if row.get("d") else None),
    "both": (["place", "month(d)"], None),
    "bucket": (["bucket(3, id)"], None),
    "truncate": (["truncate(1, s)"], None),
    "row": (["_row"], lambda row: None if row.get("_row") is None else str(row["_row"])),
    "zoned": (["tz"], None),
}

FIRST = {
    "place": "b",
    "s": "ab",
    "d": dt.date(2024, 1, 1),
    "_row": 5,
    "x": 2.5,
    "tz": dt.datetime(2024, 1, 1, 8, tzinfo=dt.timezone.utc),
}
_PLACES = st.sampled_from(["a", "b", "Ä/ö %", "", None])
_DATES = st.sampled_from([dt.date(2023, 12, 31), dt.date(2024, 1, 1), dt.date(2024, 2, 29), None])
_ROW = st.fixed_dictionaries(
    {"id": st.integers(0, 12)},
    optional={
        "place": _PLACES,
        "x": st.sampled_from([-1.5, 0.0, -0.0, 2.5, math.inf, -math.inf, math.nan, None]),
        "s": st.sampled_from(["", "a", "ab", "a%", "z\n", "🧊", None]),
        "d": _DATES,
        "b": st.sampled_from([True, False, None]),
        "ts": st.sampled_from([dt.datetime(1969, 12, 31, 23, 59), dt.datetime(2024, 1, 1, 0, 0, 0, 1), None]),
        "tags": st.sampled_from([[], ["a"], ["a", None, "b"], None]),
        "tz": st.sampled_from([dt.datetime(2024, 1, 1, hour, tzinfo=dt.timezone.utc) for hour in (2, 8)]),
        "_row": st.sampled_from([1, 3, 5, None]),
        "comment": st.sampled_from(["a", "B", None]),
    },
)
_ROWS = st.lists(_ROW, min_size=1, max_size=6)
SHAPES = [
    "place = 'a'",
    "place <> 'a'",
    "place IS NULL",
    "place IN ('b', 'Ä/ö %') OR x > 0",
    "NOT (place = 'a')",
    "x > 0.5",
    "x <= 0",
    "x = 'nan'::DOUBLE",
    "x IS NULL OR b",
    "s LIKE 'a%'",
    "s = ''",
    "s > 'a'",
    "d >= DATE '2024-01-01'",
    "d < DATE '2024-02-01' AND NOT b",
    "b IS DISTINCT FROM true",
    "ts < TIMESTAMP '2000-01-01'",
    "coalesce(len(tags), 0) > 0",
    "tz < '2024-01-01 04:00:00'",
    "tz >= TIMESTAMPTZ '2024-01-01 04:00:00'",
    "d = CAST(TIMESTAMPTZ '2024-01-01 02:00:00+00' AS DATE)",
    "ts < CAST(TIMESTAMPTZ '2024-01-01 01:00:00+00' AS TIMESTAMP)",
    "_row = 1",
    "_row IN (3, 5)",
    "comment = 'a'",
    "comment <> 'b' COLLATE NOCASE",
    "s = 'AB' COLLATE NOCASE",
    "s <> 'A' COLLATE NOCASE",
    "place IN ('A' COLLATE NOCASE, 'b')",
    "place > 'A' COLLATE NOCASE",
    "true",
    "false",
]
_PREDICATES = st.one_of(
    st.builds("id < {}".format, st.integers(0, 13)),
    st.builds("id % {} = 0".format, st.integers(2, 4)),
    st.builds("id IN ({}, {})".format, st.integers(0, 12), st.integers(0, 12)),
    st.builds("id BETWEEN {} AND 9 AND x IS NOT NULL".format, st.integers(0, 9)),
    st.sampled_from(SHAPES),
)


class LakeTableMachine(RuleBasedStateMachine):
    """`rows` is the truth. `versions` are commits and what the table held after them."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SimStore(page_size=5)
        self.bucket = self.store.bucket()
        self.rows: list[Row] = []
        self.versions: dict[str, list[Row]] = {}
        self.hours = 0.0  # that passed since `versions` were forgotten
        self.batches: dict[str, str] = {}
        self.wide = False

    @initialize(
        spec=st.sampled_from(sorted(SPECS)),
        ordered=st.booleans(),
        filters=st.sampled_from([None, "auto", "id, place, d, ts, n"]),
        inline=st.sampled_from([0, 400, "64KB"]),
    )
    def create(self, spec: str, ordered: bool, filters: str | None, inline: int | str) -> None:
        self.spec = spec
        partition = PartitionSpec.parse(SPECS[spec][0], COLUMNS)
        sort_by = ("id desc", "s") if ordered else ()
        self.definition = LakeDefinition(
            "t",
            columns=COLUMNS,
            partition=partition,
            sort_by=sort_by,
            properties={"bloom_filters": filters, "inline": inline},
        )
        self.table = self._open()

    def _open(self) -> LakeTable:
        journal = LeaderlessJournal(
            self.bucket,
            "db/t",
            rules=Rules(self.definition.columns),
            clock=self.bucket.clock,
            renew_in_background=False,
        )
        return LakeTable(self.bucket, "db/t", self.definition, journal, InProcess(LocalRunner(threads=1)))

    def _committed(self, version: str | None, rows: list[Row]) -> None:
        self.rows = rows
        if version is not None:
            self.versions[version] = list(rows)
        self.bucket.clock.sleep(0.05)

    def _matching(self, rows: list[Row], where: str) -> list[bool]:
        """For each row whether the predicate is true, by DuckDB."""
        if not rows:
            return []
        source = pa.Table.from_pylist(rows, arrow_schema(self._columns()))
        with JUDGE.cursor() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("source", source)
            found = connection.execute(f"SELECT ({where}) IS TRUE FROM source").fetchall()
        return [bool(hit) for (hit,) in found]

    def _columns(self) -> dict[str, str]:
        return {**COLUMNS, **({"n": "BIGINT"} if self.wide else {})}

    def _without(self, where: str) -> list[Row]:
        hits = self._matching(self.rows, where)
        return [row for row, hit in zip(self.rows, hits, strict=True) if not hit]

    # -- writing

    @rule(rows=_ROWS, batch=st.sampled_from([None, None, "b1", "b2"]))
    def append(self, rows: list[Row], batch: str | None) -> None:
        result = self.table.append(rows, batch_id=batch)
        if batch in self.batches:
            assert result.duplicate and result.version == self.batches[batch]
            return
        if batch is not None:
            self.batches[batch] = result.version
        assert result.rows == len(rows)
        self._committed(result.version, [*self.rows, *rows])

    @rule(ids=st.lists(st.integers(-100, 100), min_size=1, max_size=3), wide=st.booleans())
    def append_a_column_that_widens(self, ids: list[int], wide: bool) -> None:
        """`n` is 32 or 64 bits wide; and every batch of Arrow's knows only some of the columns."""
        kind = pa.int64() if wide else pa.int32()
        rows = [{"id": abs(i) % 13, "n": i * (2**40 if wide else 1)} for i in ids]
        self.wide = True
        data = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("n", kind)]))
        self._committed(self.table.append(data).version, [*self.rows, *rows])

    @rule(rows=_ROWS)
    def overwrite_everything(self, rows: list[Row]) -> None:
        self._committed(self.table.overwrite(rows).version, rows)

    @rule(rows=_ROWS, where=_PREDICATES)
    def overwrite_where(self, rows: list[Row], where: str) -> None:
        if not all(self._matching(rows, where)):
            try:
                self.table.overwrite(rows, where=where)
            except InvalidInputError:
                return
            raise AssertionError("rows outside of the predicate were taken")
        self._committed(self.table.overwrite(rows, where=where).version, [*self._without(where), *rows])

    @precondition(lambda self: SPECS[self.spec][1] is not None)
    @rule(rows=_ROWS)
    def overwrite_touched(self, rows: list[Row]) -> None:
        part = SPECS[self.spec][1]
        assert part is not None
        touched = {part(row) for row in rows}
        kept = [row for row in self.rows if part(row) not in touched]
        self._committed(self.table.overwrite(rows, partitions="touched").version, [*kept, *rows])

    # -- removing

    @rule(where=_PREDICATES)
    def delete(self, where: str) -> None:
        kept = self._without(where)
        result = self.table.delete(where)
        assert (result.version is None) == (len(kept) == len(self.rows))
        self._committed(result.version, kept)

    @rule(where=_PREDICATES)
    def rewrite(self, where: str) -> None:
        hits = self._matching(self.rows, where)
        kept = [row for row, hit in zip(self.rows, hits, strict=True) if hit]
        self._committed(self.table.rewrite(where).version, kept)

    @rule(
        column=st.sampled_from(["place", "s", "d", "_row", "x", "tz"]),
        text=st.sampled_from(["NULL", "first", None]),
    )
    def rewrite_by_a_query(self, column: str, text: str | None) -> None:
        """A query empties a column, gives all rows one value of it, or leaves it out."""
        value = FIRST[column] if text == "first" else None
        shown = "NULL" if value is None else f"CAST('{value}' AS {COLUMNS[column]})"
        made = f'* EXCLUDE ("{column}")' if text is None else f'* REPLACE ({shown} AS "{column}")'
        sources = {field.source for field in self.definition.partition.fields}
        if text is None and column in sources:
            for verb in (self.table.rewrite, lambda query: self.table.merge(query=query)):
                source = "_rows" if verb == self.table.rewrite else "source_files"
                try:
                    done = verb(f"SELECT {made} FROM {source}")
                except InvalidInputError:
                    continue
                assert not done.files_added, "rows lost their partition's column"
            return
        result = self.table.rewrite(f"SELECT {made} FROM _rows")
        self._committed(result.version, [{**row, column: value} for row in self.rows])

    @rule(
        where=st.sampled_from(
            ["_row = 1", "_row <> 5", "tz < '2024-01-01 04:00:00'", "place = 'A' COLLATE NOCASE"]
        )
    )
    def remove_partitions_by_a_predicate(self, where: str) -> None:
        column = where.split()[0]
        if SPECS[self.spec][0] != [column]:
            return
        self._committed(self.table.remove_partitions(where).version, self._without(where))

    @precondition(lambda self: self.spec in ("place", "month") and self.rows)
    @rule(data=st.data())
    def remove_a_partition(self, data: st.DataObject) -> None:
        part = SPECS[self.spec][1]
        assert part is not None
        (field,) = self.definition.partition.fields
        chosen = data.draw(st.sampled_from(self.table.partitions()))
        value = chosen.values[field.name]
        result = self.table.remove_partitions([chosen])
        self._committed(result.version, [row for row in self.rows if part(row) != value])

    @precondition(lambda self: self.versions)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        self._committed(self.table.restore(version).version, self.versions[version])

    # -- keeping

    @rule(size=st.sampled_from(["1KB", "128MB"]))
    def merge(self, size: str) -> None:
        self._committed(self.table.merge(target_size=size).version, self.rows)

    @rule()
    def fold(self) -> None:
        """Rows of logs become files, and nothing else."""
        before = {f.path for f in self.table.snapshot().objects}
        self._committed(self.table.merge(only="inlined").version, self.rows)
        after = self.table.snapshot()
        assert before <= {f.path for f in after.files} and after.objects == after.files

    @rule()
    def merge_by_a_query(self) -> None:
        result = self.table.merge(query="SELECT * FROM source_files")
        self._committed(result.version, self.rows)

    @rule()
    def checkpoint(self) -> None:
        self.table.checkpoint()

    @rule()
    def reopen(self) -> None:
        self.table = self._open()

    @rule()
    def sweep_at_once(self) -> None:
        """Everything that is dead goes, and older versions with it."""
        self.table.sweep(older_than="0s", orphans="0s")
        live = {f.path for f in self.table.snapshot().objects}
        assert {info.key for info in self.bucket.list(self.table.journal.places.data_prefix).objects} == live
        self.versions.clear()

    @rule(hours=st.sampled_from([0.5, 3]))
    def let_time_pass_and_sweep(self, hours: float) -> None:
        """Within the grace every version stays; after it, those from before go."""
        self.bucket.clock.sleep(hours * 3600)
        self.hours += hours
        if self.hours >= 1:
            self.versions.clear()
            self.hours = 0.0
        self.table.sweep()

    # -- reading

    @rule(where=_PREDICATES, columns=st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, unique=True))
    def scan(self, where: str, columns: list[str]) -> None:
        hits = self._matching(self.rows, where)
        expected = [row for row, hit in zip(self.rows, hits, strict=True) if hit]
        scan = self.table.scan(where=where, columns=columns)
        found = scan.to_arrow()
        assert found.schema.names == columns
        assert _bag(found.to_pylist(), columns) == _bag(expected, columns)
        assert self.table.scan(where=where).count() == len(expected)

    @precondition(lambda self: self.versions)
    @rule(data=st.data())
    def scan_a_version(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        found = self.table.scan(at=version).to_arrow().to_pylist()
        assert _bag(found, self._columns()) == _bag(self.versions[version], self._columns())

    @rule()
    def read_from_before_the_table(self) -> None:
        """Nothing is answered, and nothing restored: a table without commits alone is as empty as it was then."""
        before = dt.datetime(2000, 1, 1)
        for look in (lambda: self.table.scan(at=before).count(), lambda: self.table.restore(before)):
            try:
                look()
            except (SnapshotTooOldError, NotFoundError):
                continue
            assert self.table.snapshot().version == "0"

    @rule(which=st.integers(0, 30), at=st.integers(0, 30), how=st.sampled_from(["nowhere", "short", "long"]))
    def name_a_version_that_isnt_there(self, which: int, at: int, how: str) -> None:
        """One character off from one that is, or out of nowhere."""
        known = sorted(self.versions) or [NOWHERE]
        near = known[which % len(known)]
        at %= len(near)
        version = {"nowhere": NOWHERE, "short": near[:at] + near[at + 1 :], "long": f"{near}0"}[how]
        if version in self.versions:
            return
        before = self.table.snapshot()
        for look in (lambda: self.table.scan(at=version).count(), lambda: self.table.restore(version)):
            with pytest.raises((NotFoundError, InvalidInputError)):
                look()
        assert self.table.snapshot() == before

    def teardown(self) -> None:
        """Whatever the table came to: each shape of predicate finds its rows, as files and as partitions, and no
        query takes rows away from their partition's column."""
        if not hasattr(self, "table") or not self.rows:
            return
        sources = {field.source for field in self.definition.partition.fields}
        told = {name for name, kind in COLUMNS.items() if [name] == SPECS[self.spec][0]}
        for where in SHAPES:
            hits = self._matching(self.rows, where)
            assert self.table.scan(where=where).count() == sum(hits), where
            if told == {name for name in COLUMNS if re.search(rf"\b{name}\b", where)}:
                planned = self.table.remove_partitions(where, dry_run=True)
                # How many rows files have that soft deletes mark is known only when they are read.
                marked = any(file.deletes for file in self.table.snapshot().files)
                assert planned.rows_deleted == sum(hits) or (planned.rows_deleted is None and marked), where
        for source in sources:
            for verb, rows in ((self.table.rewrite, "_rows"), (self._merge_by, "source_files")):
                with suppress(InvalidInputError):
                    assert not verb(f'SELECT * EXCLUDE ("{source}") FROM {rows}').files_added

    def _merge_by(self, query: str) -> ChangeResult:
        return self.table.merge(query=query)

    @invariant()
    def the_table_holds_the_rows(self) -> None:
        if not hasattr(self, "table"):
            return
        found = self.table.scan().to_arrow()
        assert set(found.schema.names) == set(self._columns())
        assert _bag(found.to_pylist(), self._columns()) == _bag(self.rows, self._columns())
        assert self.table.scan().count() == len(self.rows)
        parts = self.table.partitions()
        assert sum(p.rows or 0 for p in parts) == len(self.rows)
        part = SPECS[self.spec][1]
        if part is not None and self.definition.partition.fields:
            (field,) = self.definition.partition.fields
            told = {p.values[field.name]: p.rows for p in parts if p.rows}
            counted: dict[object, int] = {}
            for row in self.rows:
                counted[part(row)] = counted.get(part(row), 0) + 1
            assert told == counted


def _bag(rows: list[Row], columns: Any) -> list[str]:
    """Rows without order; NaN is NaN, zero has no sign, and moments have no zone."""
    return sorted(repr([_plain(row.get(column)) for column in sorted(columns)]) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.timezone.utc).isoformat()
    return 0.0 if isinstance(value, float) and value == 0 else value


def lake_settings(examples: int) -> settings:
    return settings(
        max_examples=EXAMPLES or examples,
        stateful_step_count=30,
        deadline=None,
        derandomize=not EXAMPLES,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


TestLakeTable = LakeTableMachine.TestCase
TestLakeTable.settings = lake_settings(8)


@pytest.mark.long
class TestLakeTableAtLength(LakeTableMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = lake_settings(18)


@pytest.mark.parametrize("spec", ["row", "zoned"])
def test_every_predicate_is_answered(spec: str) -> None:
    """Of tables whose specs the machine hardly comes to in its few examples."""
    machine = LakeTableMachine()
    machine.create(spec=spec, ordered=False, filters=None, inline="64KB" if spec == "row" else 0)
    machine.append(rows=[{**FIRST, "id": i, "_row": 2 * i + 1} for i in range(3)], batch=None)
    machine.teardown()
