"""Tables whose appenders don't see each other's columns, against a plain model: each value in its column, or beside.

Handles append with the columns that they saw some time ago, so types clash all the time; others merge, delete,
remove partitions, resolve, set properties and types, restore and sweep. After each step every row that the model has
is shown exactly once, its value under the column or one column beside it; predicates find what a full scan shows;
older versions are as they were.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import firn
from firn.journal.model import KnownColumns
from firn.lake.table import LakeTable

COLUMNS = ("a", "b")
VERBS = ["append"] * 6 + ["merge", "delete"] * 2 + ["resolve", "alter", "types", "restore", "sweep"]
TYPES = ("BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN")
Rows = dict[int, dict[str, Any]]


def value_of(kind: str, number: int) -> Any:
    return {"BIGINT": number % 7, "DOUBLE": number % 7 + 0.5, "VARCHAR": f"v{number % 7}"}.get(
        kind, number % 2 == 0
    )


def plain(value: Any) -> Any:
    """A value as it compares after any cast to a wider type, or to text."""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return float(value)
    except ValueError:
        return value


@dataclass
class Program:
    """One run. `partitioned` tables have a column with conflicts in their partitions."""

    seed: int
    journal: str
    partitioned: bool = False
    verbs: Sequence[str] = tuple(VERBS)
    rows: Rows = field(default_factory=dict)
    past: list[tuple[str, Rows]] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)
    number: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.url = f"memory://{uuid4().hex}"
        self.writers = ["w"] if self.journal == "leaderless" else ["w", "v"]
        db = firn.connect(self.url, writer="w")
        db.create_table("t", journal=self.journal, partition_by=["a"] if self.partitioned else [])
        self.handles = [firn.connect(self.url, writer=name).table("t") for name in self.writers]
        self.owners: dict[int, int] = {}

    def run(self, steps: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", firn.DegradedReadWarning)
            for _ in range(steps):
                verb = self.rng.choice([*self.verbs, *["remove"] * 2 * self.partitioned])
                self.last = verb
                getattr(self, verb)()
                self.check()

    def append(self) -> None:
        at = self.rng.randrange(len(self.handles))
        table = self.handles[at]
        rows = []
        kinds = {name: self.rng.choice(TYPES) for name in COLUMNS}
        for _ in range(self.rng.randint(1, 3)):
            self.number += 1
            row: dict[str, Any] = {"id": self.number}
            row.update({n: value_of(kind, self.number) for n, kind in kinds.items()})
            rows.append(row)
        blind = self.rng.random() < 0.7
        if blind:
            table.journal.known = lambda **_: KnownColumns({"id": "BIGINT"})  # type: ignore[method-assign]
        try:
            table.append(rows)
        except firn.SchemaConflictError:
            return
        finally:
            table.journal.__dict__.pop("known", None)
        self.rows.update({row["id"]: row for row in rows})
        self.owners.update({row["id"]: at for row in rows})
        self.past.append((table.snapshot().version, dict(self.rows)))

    def merge(self) -> None:
        self.rng.choice(self.handles).merge()

    def delete(self) -> None:
        at = self.rng.randrange(len(self.handles))
        shown = self.shown(self.handles[at])
        mine = [row for row in shown.values() if self.owners[row["id"]] == at]
        if not mine:
            return
        row = self.rng.choice(mine)
        name = self.rng.choice([n for n in row if n != "id" and row[n] is not None])
        gone = {i for i, r in shown.items() if r.get(name) == row[name] and self.owners[i] == at}
        self.handles[at].delete(f'"{name}" = {literal(row[name])}')
        for number in gone:
            del self.rows[number]

    def remove(self) -> None:
        """A partition: the rows that are shown in it, and none whose values are set aside."""
        at = self.rng.randrange(len(self.handles))
        shown = self.shown(self.handles[at])
        value = self.rng.choice([row["a"] for row in shown.values() if "a" in row] or [None])
        if value is None:
            return
        result = self.handles[at].remove_partitions(f'"a" = {literal(value)}')
        gone = {i for i, row in shown.items() if row.get("a") == value and self.owners[i] == at}
        assert result.rows_deleted in (None, len(gone)), (self.seed, result, gone)
        for number in gone:
            del self.rows[number]

    def resolve(self) -> None:
        table = self.rng.choice(self.handles)
        conflicts = table.conflicts()
        if not conflicts or self.partitioned:
            return
        column = self.rng.choice(conflicts).column
        table.resolve(column)
        assert not [c for c in table.conflicts() if c.column == column], (column, table.conflicts())

    def alter(self) -> None:
        name = self.rng.choice(["codec", "retention", "row_group_rows"])
        value = self.rng.choice([None, {"codec": "snappy", "retention": "9d", "row_group_rows": 7}[name]])
        self.rng.choice(self.handles).alter(set_properties={name: value})
        self.properties.pop(name, None)
        if value is not None:
            self.properties[name] = value

    def types(self) -> None:
        table = self.rng.choice(self.handles)
        name = self.rng.choice(COLUMNS)
        if name in table.snapshot().columns and not self.partitioned:
            table.alter(types={name: "VARCHAR"})

    def restore(self) -> None:
        if not self.past or self.journal == "writer":  # where each writer brings back its own
            return
        version, rows = self.rng.choice(self.past)
        try:
            self.handles[0].restore(version)
        except firn.NotFoundError:
            return
        self.rows = dict(rows)

    def sweep(self) -> None:
        self.rng.choice(self.handles).sweep(older_than="0s", orphans="0s")

    def shown(self, table: LakeTable, **scan: Any) -> Rows:
        found = table.scan(**scan).to_arrow().to_pylist()
        rows = {row["id"]: {n: v for n, v in row.items() if v is not None} for row in found}
        assert len(rows) == len(found), "a row is shown twice"
        return rows

    def check(self) -> None:
        fresh = firn.connect(self.url).table("t")
        shown = self.shown(fresh)
        told(shown, self.rows, self)
        assert fresh.definition().properties == self.properties, (self.seed, self.last)
        for row in self.rng.sample(sorted(shown.values(), key=str), min(2, len(shown))):
            for name, value in row.items():
                wanted = {i for i, r in shown.items() if name in r and r[name] == value}
                got = set(self.shown(fresh, where=f'"{name}" = {literal(value)}'))
                assert got == wanted, (self.seed, self.last, name, value, got, wanted)
            for name in fresh.snapshot().columns:
                nulls = {i for i, r in shown.items() if name not in r}
                got = set(self.shown(fresh, where=f'"{name}" IS NULL'))
                assert got == nulls, (self.seed, self.last, name, got, nulls)
        if self.past:
            version, rows = self.rng.choice(self.past)
            try:
                told(self.shown(fresh, at=version), rows, self)
            except firn.NotFoundError:
                self.past = [(v, r) for v, r in self.past if v != version]


def told(shown: Rows, rows: Rows, program: Program) -> None:
    """Every row is there, each value under its column or beside it, once."""
    assert shown.keys() == rows.keys(), (program.seed, program.last, shown.keys() ^ rows.keys())
    for number, row in rows.items():
        for name in COLUMNS:
            found = [v for n, v in shown[number].items() if n == name or n.startswith(f"{name}~")]
            assert [plain(v) for v in found] == [plain(row[name])], (
                program.seed,
                program.last,
                row,
                shown[number],
            )


def literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)
