"""Any sequence of the verbs of a table with a key against a dict of key → newest version.

Among the verbs are appends that land late: below commits that are visible already, a merge among them.
`FIRN_EXAMPLES`
runs more sequences than a test run has time for, drawn anew each time.
"""

from __future__ import annotations

import os
from dataclasses import replace
from decimal import Decimal
from typing import Any, Literal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from firn.arrow.types import arrow_schema
from firn.errors import SchemaConflictError, SnapshotTooOldError
from firn.journal.agreement import Rules
from firn.journal.leaderless import LeaderlessJournal
from firn.journal.model import Commit, KnownColumns
from firn.lake.definition.definition import LakeDefinition
from firn.lake.definition.keys import HIDDEN, parse_key
from firn.lake.partition.partition import PartitionSpec
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner
from firn.testing import SimStore

Row = dict[str, Any]
Order = tuple[bool, int, str]
State = dict[tuple[Any, ...], tuple[Order, Row | None]]
"""Key → its newest version: where it stands in the order of versions, and the row, None if it is deleted."""

JUDGE = duckdb.connect()  # to open one takes longer than what it is asked
EXAMPLES = int(os.environ.get("FIRN_EXAMPLES", "0"))
COLUMNS = {"id": "BIGINT", "place": "VARCHAR", "n": "INTEGER", "s": "VARCHAR", "v": "BIGINT"}
SPECS: dict[str, tuple[list[str], list[str]]] = {
    "none": (["id"], []),
    "bucket": (["id"], ["bucket(2, id)"]),
    "place": (["place", "id"], ["place"]),
    "identity": (["id"], ["id"]),
    "truncate": (["id"], ["truncate(2, id)"]),
}
KINDS = [pa.int32(), pa.uint64(), pa.decimal128(9, 2)]

_ROW = st.fixed_dictionaries(
    {"id": st.integers(0, 5), "place": st.sampled_from(["a", "Ä/ö %"])},
    optional={
        "n": st.sampled_from([-3, 0, 7, None]),
        "s": st.sampled_from(["", "a", "ab", None]),
        "v": st.sampled_from([1, 2, 3, None]),
    },
)
_ROWS = st.lists(_ROW, min_size=1, max_size=5)
_PREDICATES = st.one_of(
    st.builds("id < {}".format, st.integers(0, 6)),
    st.builds("id = {} AND n > 0".format, st.integers(0, 5)),
    st.builds("id IN ({}, 2) OR s = 'a'".format, st.integers(0, 5)),
    st.sampled_from(
        [
            "n = 7",
            "n < 0",
            "n IS NULL",
            "s = 'ab'",
            "s IS NOT NULL",
            "NOT (n = 7)",
            "place = 'a'",
            "place = 'a' AND n = 7",
            "v >= 2",
            "true",
        ]
    ),
)
_SETS = st.sampled_from([{"n": "n + 1"}, {"s": "'ab'", "n": "id"}, {"v": "v + 1"}, {"v": "1"}, {"S": "NULL"}])


class StalledJournal(LeaderlessJournal):
    """Its appends were stamped long before they land."""

    stamp = 0

    def stamp_ms(self, commit: Commit) -> int:
        return self.stamp


class BlindJournal(LeaderlessJournal):
    """A process whose appends haven't seen of which type the key is."""

    def known(self, **when: Any) -> KnownColumns:
        known = super().known(**when)
        return replace(known, columns={name: kind for name, kind in known.columns.items() if name != "id"})


class KeyedTableMachine(RuleBasedStateMachine):
    """`state` is the truth, `versions` what it was after each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.store = SimStore(page_size=5)
        self.bucket = self.store.bucket()
        self.state: State = {}
        self.versions: dict[str, State] = {}
        self.batches: set[str] = set()
        self.last = ""

    @initialize(
        spec=st.sampled_from(sorted(SPECS)), by=st.booleans(), inline=st.sampled_from([0, 200, "64KB"])
    )
    def create(self, spec: str, by: bool, inline: int | str) -> None:
        self.key, partition = SPECS[spec]
        self.spec, self.by = spec, by
        parsed = PartitionSpec.parse(partition, COLUMNS)
        keys = parse_key(self.key, "v" if by else None, COLUMNS, [f.source for f in parsed.fields])
        self.definition = LakeDefinition(
            "t",
            columns=COLUMNS,
            partition=parsed,
            sort_by=("s desc",) if by else tuple(self.key),
            properties={"delete_retention": "1000d", "inline": inline},
            keys=keys,
        )
        self.table = self._open(LeaderlessJournal)

    def _open(self, kind: type[LeaderlessJournal]) -> LakeTable:
        journal = kind(
            self.bucket,
            "db/t",
            rules=Rules(COLUMNS, key=tuple(self.key), version_by="v" if self.by else None),
            clock=self.bucket.clock,
            renew_in_background=False,
        )
        return LakeTable(self.bucket, "db/t", self.definition, journal, InProcess(LocalRunner(threads=1)))

    # -- the model

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self.key)

    def _put(self, state: State, row: Row, clock: str, *, deleted: bool = False) -> None:
        v = row.get("v") if self.by else None
        order = (v is not None, v or 0, clock)
        there = state.get(self._key(row))
        if there is None or there[0] <= order:
            full = {name: row.get(name) for name in COLUMNS}
            state[self._key(row)] = (order, None if deleted else full)

    def _rows(self, state: State) -> list[Row]:
        return [row for _, row in state.values() if row is not None]

    def _matching(self, state: State, where: str) -> list[Row]:
        rows = self._rows(state)
        if not rows:
            return []
        source = pa.Table.from_pylist(rows, arrow_schema(COLUMNS))
        with JUDGE.cursor() as connection:
            connection.register("source", source)
            hits = connection.execute(f"SELECT ({where}) IS TRUE FROM source").fetchall()
        return [row for row, (hit,) in zip(rows, hits, strict=True) if hit]

    def _changed(self, rows: list[Row], set_: dict[str, str]) -> list[Row]:
        source = pa.Table.from_pylist(rows, arrow_schema(COLUMNS))
        values = {name.lower(): value for name, value in set_.items()}
        columns = ", ".join(f"({values.get(name, name)})::{kind} AS {name}" for name, kind in COLUMNS.items())
        with JUDGE.cursor() as connection:
            connection.register("source", source)
            return connection.sql(f"SELECT {columns} FROM source").to_arrow_table().to_pylist()

    def _committed(self, version: str | None) -> None:
        if version is not None:
            assert version > self.last, "a commit sorts above all that its process has seen"
            self.last = version
            self.versions[version] = dict(self.state)
        self.bucket.clock.sleep(0.05)

    # -- writing

    @rule(rows=_ROWS, batch=st.sampled_from([None, None, "b1"]))
    def upsert(self, rows: list[Row], batch: str | None) -> None:
        result = self.table.upsert(rows, batch_id=batch)
        assert result.duplicate == (batch in self.batches)
        if result.duplicate:
            return
        if batch is not None:
            self.batches.add(batch)
        for row in rows:
            self._put(self.state, row, result.version)
        self._committed(result.version)

    @rule(first=_ROWS, second=_ROWS)
    def upsert_twice_in_a_millisecond(self, first: list[Row], second: list[Row]) -> None:
        for rows in (first, second):
            version = self.table.upsert(rows).version
            for row in rows:
                self._put(self.state, row, version)
        self._committed(version)

    @rule(rows=_ROWS, seconds=st.floats(0.01, 2))
    def upsert_that_lands_late(self, rows: list[Row], seconds: float) -> None:
        late = self._open(StalledJournal)
        late.journal.stamp = self.bucket.clock.now_ms() - int(seconds * 1000)  # type: ignore[attr-defined]
        version = late.upsert(rows).version
        # Whoever reads an older version from now on sees it there too.
        seen = [state for name, state in self.versions.items() if name > version]
        for state in [self.state, *seen]:
            for row in rows:
                self._put(state, row, version)
        self.last = max(self.last, version)
        self.table.snapshot()

    @rule(rows=_ROWS, kind=st.sampled_from(KINDS), blind=st.booleans())
    def upsert_keys_of_another_type(self, rows: list[Row], kind: pa.DataType, blind: bool) -> None:
        """Equal keys are one, whatever their types; an append that could make them two is refused, or, where it
        hasn't seen the other type, made good for by readers."""
        self._upsert_typed(rows, kind, blind)

    def _upsert_typed(self, rows: list[Row], kind: pa.DataType, blind: bool) -> None:
        table = self._open(BlindJournal if blind else LeaderlessJournal)
        schema = arrow_schema(COLUMNS).set(0, pa.field("id", kind))
        typed = [{**row, "id": Decimal(row["id"])} for row in rows] if pa.types.is_decimal(kind) else rows
        stored = len(self.bucket.list("db/t/_data/").objects)
        try:
            version = table.upsert(pa.Table.from_pylist(typed, schema)).version
        except SchemaConflictError:
            assert self.spec in ("bucket", "identity", "truncate") and not blind
            assert len(self.bucket.list("db/t/_data/").objects) == stored
            return
        for row in rows:
            self._put(self.state, row, version)
        self.table = self._open(LeaderlessJournal)
        self._committed(version)

    @rule(where=_PREDICATES, set_=_SETS)
    def update(self, where: str, set_: dict[str, str]) -> None:
        hits = self._matching(self.state, where)
        result = self.table.update(where, set_)
        assert result.rows_updated == len(hits) and (result.version is None) == (not hits)
        if result.version is not None:
            for row in self._changed(hits, set_):
                self._put(self.state, row, result.version)
        self._committed(result.version)

    @rule(rows=_ROWS)
    def overwrite_everything(self, rows: list[Row]) -> None:
        version = self.table.overwrite(rows).version
        assert version is not None
        self.state = {}
        for row in rows:
            self._put(self.state, row, version)
        self._committed(version)

    @precondition(lambda self: self.spec == "place")
    @rule(rows=_ROWS)
    def overwrite_touched(self, rows: list[Row]) -> None:
        version = self.table.overwrite(rows, partitions="touched").version
        assert version is not None
        touched = {row["place"] for row in rows}
        self.state = {key: found for key, found in self.state.items() if key[0] not in touched}
        for row in rows:
            self._put(self.state, row, version)
        self._committed(version)

    # -- removing

    @rule(where=_PREDICATES)
    def delete(self, where: str) -> None:
        hits = self._matching(self.state, where)
        assert self.table.delete(where, dry_run=True).rows_deleted == len(hits)
        result = self.table.delete(where)
        assert result.rows_deleted == len(hits) and (result.version is None) == (not hits)
        for row in hits:
            self._put(self.state, row, result.version or "", deleted=True)
        self._committed(result.version)

    @rule(rows=_ROWS)
    def delete_keys(self, rows: list[Row]) -> None:
        names = [*self.key, *(["v"] if self.by else [])]
        keys = [{name: row.get(name) for name in names} for row in rows]
        data = pa.Table.from_pylist(keys, arrow_schema({name: COLUMNS[name] for name in names}))
        result = self.table.delete_keys(data)
        if result.version is not None:
            for row in keys:
                self._put(self.state, row, result.version, deleted=True)
        self._committed(result.version)

    @precondition(lambda self: self.spec == "place")
    @rule(place=st.sampled_from(["a", "Ä/ö %"]))
    def remove_a_partition(self, place: str) -> None:
        result = self.table.remove_partitions(f"place = '{place}'")
        self.state = {key: found for key, found in self.state.items() if key[0] != place}
        self._committed(result.version)

    @precondition(lambda self: self.versions)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        try:
            result = self.table.restore(version)
        except SnapshotTooOldError:  # half an hour has passed twice
            self.versions.clear()
            return
        self.state = dict(self.versions[version])
        self._committed(result.version)

    # -- keeping

    @rule(size=st.sampled_from(["1KB", "128MB"]), only=st.sampled_from([None, None, "inlined"]))
    def merge(self, size: str, only: Literal["inlined"] | None) -> None:
        self._committed(self.table.merge(target_size=size, only=only).version)

    @rule()
    def checkpoint(self) -> None:
        self.table.checkpoint()

    @rule()
    def reopen(self) -> None:
        self.table = self._open(LeaderlessJournal)

    @rule()
    def sweep_at_once(self) -> None:
        self.table.sweep(older_than="0s", orphans="0s")
        live = {f.path for f in self.table.snapshot().objects}
        assert {info.key for info in self.bucket.list(f"{self.table.prefix}/_data/").objects} == live
        self.versions.clear()

    @rule()
    def let_half_an_hour_pass_and_sweep(self) -> None:
        self.bucket.clock.sleep(1800)
        self.table.sweep()

    # -- reading

    @rule(where=_PREDICATES, columns=st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, unique=True))
    def scan(self, where: str, columns: list[str]) -> None:
        expected = self._matching(self.state, where)
        scan = self.table.scan(where=where, columns=columns)
        found = scan.to_arrow()
        assert found.schema.names == columns
        assert _bag(found.to_pylist(), columns) == _bag(expected, columns)
        batches = [row for batch in scan.to_batches() for row in batch.to_pylist()]
        assert _bag(batches, columns) == _bag(expected, columns)
        assert self.table.scan(where=where).count() == len(expected)

    @precondition(lambda self: self.versions)
    @rule(data=st.data(), where=_PREDICATES)
    def scan_a_version(self, data: st.DataObject, where: str) -> None:
        version = data.draw(st.sampled_from(sorted(self.versions)))
        try:
            found = self.table.scan(at=version, where=where).to_arrow().to_pylist()
        except SnapshotTooOldError:
            self.versions.clear()
            return
        assert _bag(found, COLUMNS) == _bag(self._matching(self.versions[version], where), COLUMNS)

    def teardown(self) -> None:
        """Whatever the table came to: its keys, and one more, under each other type are those that it has."""
        if not hasattr(self, "table"):
            return
        rows = [
            {name: value for name, value in row.items() if name in (*self.key, "s")}
            for row in self._rows(self.state)
        ]
        rows.append({"id": 4, "place": "a"})
        for kind, blind in ((pa.uint64(), False), (pa.decimal128(9, 2), True)):
            self._upsert_typed(rows, kind, blind)
            self.the_table_holds_the_newest_versions()
            self.table.merge()
            self._upsert_typed(rows[-2:], pa.int64(), False)
            self.the_table_holds_the_newest_versions()

    @invariant()
    def the_table_holds_the_newest_versions(self) -> None:
        if not hasattr(self, "table"):
            return
        found = self.table.scan().to_arrow()
        assert found.schema.names == list(COLUMNS) and not HIDDEN.keys() & set(found.schema.names)
        assert _bag(found.to_pylist(), COLUMNS) == _bag(self._rows(self.state), COLUMNS)
        assert self.table.scan().count() == len(self._rows(self.state))


def _bag(rows: list[Row], columns: Any) -> list[str]:
    return sorted(repr([_plain(row.get(column)) for column in sorted(columns)]) for row in rows)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value


def keyed_settings(examples: int) -> settings:
    return settings(
        max_examples=EXAMPLES or examples,
        stateful_step_count=30,
        deadline=None,
        derandomize=not EXAMPLES,
        database=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


TestKeyedTable = KeyedTableMachine.TestCase
TestKeyedTable.settings = keyed_settings(8)


@pytest.mark.long
class TestKeyedTableAtLength(KeyedTableMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = keyed_settings(25)
