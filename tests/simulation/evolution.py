"""Tables whose definition changes while others go on by older ones, against a plain model.

The model knows columns by identity: a column is what somebody made, whatever it is called by now. Handles append by
definitions that they loaded some steps ago, with columns that others rename, drop or make at the same time. Others
alter, merge, delete, update, overwrite, restore, register and sweep. After each step every row is shown once, each
value under its column's name or beside it, rows whose file lacks a column have its default, predicates find what a
full scan shows, and older versions are as they were, under the names of then. A value that stood under its column's
name is never put beside it by a later commit, and files that aren't live put none beside.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import firn
from firn.arrow.types import columns_of
from firn.errors import CheckFailedError
from firn.journal.model import KnownColumns
from firn.lake.table import LakeTable
from moments import next_millisecond
from simulation.definitions import literal, plain, value_of

NAMES = ("a", "b", "c", "d", "ä", "x y")
KINDS = ("BIGINT", "DOUBLE", "VARCHAR")
VERBS = (
    ["append"] * 5
    + ["stale", "blind"] * 3
    + ["rename", "add", "drop"] * 2
    + ["several", "race", "types", "sort", "check_ids", "partition", "describe"]
    + ["merge"] * 2
    + ["respec", "delete", "update", "merge_into", "overwrite", "restore", "remove", "sweep"]
    + ["checkpoint", "resolve", "register", "into"]
)
BESIDE = ("bigint", "double", "varchar", "boolean")
Cells = dict[str, Any]


@dataclass
class State:
    """The table as it should be. Columns are known by the names that their files have: `wanted` is what each is to
    be called, `shown` what it is called."""

    rows: dict[int, tuple[int, Cells]] = field(default_factory=dict)
    wanted: dict[str, str] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)
    defaults: Cells = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    into: dict[str, str] = field(default_factory=dict)

    def copied(self) -> State:
        return State(
            dict(self.rows),
            dict(self.wanted),
            set(self.dropped),
            dict(self.defaults),
            dict(self.shown),
            dict(self.into),
        )

    def together(self, cells: Cells) -> Cells:
        """The cells of a row, those of columns that became others' in these: the first that isn't null."""
        found = {column: value for column, value in cells.items() if column not in self.into}
        for column, target in self.into.items():
            if column in cells and found.get(target) is None:
                found[target] = cells[column]
        return found

    def value(self, number: int, column: str) -> Any:
        return self.rows[number][1].get(column, self.defaults.get(column))

    def home(self, beside: str) -> str:
        """The column whose values a column beside it holds."""
        return max((p for p in self.wanted if beside.startswith(f"{p}~")), key=len)


@dataclass
class Known:
    """A definition that somebody loaded, and what it says: columns by name, and all that there are in files."""

    columns: KnownColumns
    names: dict[str, str]
    made: set[str]
    into: Collection[str] = ()

    def column_of(self, name: str) -> str:
        """Where an appender writes a name: a new column takes it, or the next one that no column has in files."""
        if name in self.names:
            return self.names[name]
        folded = {each.lower() for each in self.made}
        if name.lower() not in folded or name in self.into:  # rows that come late are the other column's, too
            return name
        k = 1
        while f"{name.lower()}~{k}" in folded:
            k += 1
        return f"{name.lower()}~{k}"


@dataclass
class Program:
    """One run, on one kind of table."""

    seed: int
    journal: str
    partitioned: bool = False
    keyed: bool = False
    verbs: Sequence[str] = tuple(VERBS)
    directory: Path | None = None
    writers: int = 2
    inline: bool = False

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.url = f"memory://{uuid4().hex}" if self.directory is None else str(self.directory)
        self.state = State()
        self.past: list[tuple[str, State]] = []
        self.knowns: list[Known] = []
        self.kinds: dict[str, str] = {"id": "BIGINT"}
        self.brought: dict[str, list[str]] = {}
        self.at_home: dict[str, tuple[str, set[int]]] = {}
        self.before: dict[int, tuple[int, Cells]] = {}
        self.placing: set[str] = set()
        self.number = 0
        self.last: Any = "create"
        names = ["w"] if self.journal == "leaderless" else ["w", "v", "u"][: self.writers]
        declared = {"id": "BIGINT", "a": "BIGINT"} if self.keyed or self.rng.random() < 0.5 else {}
        options: dict[str, Any] = {"key": ["id"]} if self.keyed else {}
        if self.inline:
            options["properties"] = {"inline": "64KB"}
        if self.partitioned:
            options["partition_by"] = ["bucket(2, id)"] if self.keyed else ["a"]
            self.placing.add("id" if self.keyed else "a")
        firn.connect(self.url, writer=names[0]).create_table(
            "t", journal=self.journal, schema=declared or None, **options
        )
        self.declared = set(declared)
        for name in declared:
            self.made(name, name, "BIGINT")
        self.handles = [self.opened(name) for name in names]
        self.handles += [self.opened(names[0])] if self.journal == "leaderless" else []

    def opened(self, writer: str | None = None) -> LakeTable:
        return firn.connect(self.url, writer=writer).table("t")

    def made(self, column: str, name: str, kind: str) -> None:
        if column not in self.all_made():
            self.state.wanted[column] = name
        self.kinds.setdefault(column, kind)
        order = self.brought.setdefault(column, [])
        order += [kind] if kind not in order else []

    # -- the loop

    def run(self, steps: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", firn.DegradedReadWarning)
            self.check()
            self.first = self.newest()
            for step in range(steps):
                self.pick()
                next_millisecond()
                verb = self.rng.choice(list(self.verbs))
                self.last = (step, verb)
                getattr(self, verb)()
                self.check()

    def pick(self) -> None:
        self.at = self.rng.randrange(len(self.handles))
        self.table = self.handles[self.at]
        self.owner = 0 if self.journal == "leaderless" else self.at

    def said(self, what: Any) -> None:
        """Take a note for whoever reads a failure."""
        self.last = (*self.last, what)

    # -- appends

    def newest(self) -> Known:
        return Known(
            self.opened().journal.known(), dict(self.state.shown), self.all_made(), {*self.state.into}
        )

    def all_made(self) -> set[str]:
        return {*self.state.wanted, *self.state.dropped, *self.state.into}

    def append(self) -> None:
        """By the newest definition, as a process that has just looked."""
        self._append(self.newest(), self.newest())

    def stale(self) -> None:
        """By an older definition; what doesn't fit it is looked up."""
        known, newest = self.rng.choice([*self.knowns, self.newest()]), self.newest()
        same = [{n for n, p in each.names.items() if p == "id"} for each in (known, newest)]
        self._append(known, newest if same[0] == same[1] else known)

    def blind(self) -> None:
        """By an older definition, as what others have done since isn't there yet."""
        known = self.rng.choice([*self.knowns, self.newest()])
        self._append(known, known)

    def clash(self) -> None:
        """By the definition of the creation, with columns of any types: others may have brought other ones."""
        if self.keyed:
            return
        names = {*self.rng.sample(NAMES, 2), *(["a"] if self.partitioned else [])}
        row = {name: value_of(self.rng.choice(KINDS), self.rng.randrange(7)) for name in sorted(names)}
        self._append(self.first, self.first, [{"id": self.new_id(), **row}])

    @contextmanager
    def knowing(self, known: Known, newer: Known) -> Iterator[list[Known]]:
        used = [known]

        def answer(*, since: float | None = None) -> KnownColumns:
            if since is not None:
                used.append(newer)
            return used[-1].columns

        self.table.journal.known = answer  # type: ignore[method-assign]
        try:
            yield used
        finally:
            del self.table.journal.known

    def _append(self, known: Known, newer: Known, rows: list[dict[str, Any]] | None = None) -> None:
        rows = self.new_rows(known) if rows is None else rows
        if self.keyed:
            self.table.snapshot()  # so that its rows are newer than those of other writers
        self.said(rows)
        with self.knowing(known, newer) as used:
            try:
                self.table.append(rows)
            except firn.SchemaConflictError:
                self.said("refused")
                return
        self.appended(rows, used[-1])

    def new_rows(self, known: Known) -> list[dict[str, Any]]:
        """Rows with some of the columns that are known, and new ones."""
        ids = next((n for n, p in known.names.items() if p == "id"), "id")
        beside = {n for n, p in known.names.items() if p not in self.kinds}
        names = [
            n
            for n, p in known.names.items()
            if n not in beside and p != "id" and (p in self.placing or self.rng.random() < 0.7)
        ]
        if self.partitioned and not self.keyed and "a" not in known.made:
            names.append("a")
        if self.rng.random() < (0.3 if known.names else 1):
            names += [
                n for n in self.rng.sample(NAMES, 1) if n not in known.names and n != ids and n not in names
            ]
        kinds: dict[str, str] = {}
        for name in names:
            home = self.kinds.get(known.column_of(name), self.rng.choice(KINDS))
            kinds[name] = home if self.rng.random() < 0.85 else self.rng.choice(KINDS)
        rows: list[dict[str, Any]] = []
        for number in range(self.rng.randint(1, 3)):
            row: dict[str, Any] = {ids: self.new_id()}
            for name, kind in kinds.items():
                null = number > 0 and self.rng.random() < 0.2
                row[name] = None if null else value_of(kind, self.rng.randrange(7))
            rows.append(row)
        return rows

    def new_id(self) -> int:
        mine = [i for i, (owner, _) in self.state.rows.items() if owner == self.owner]
        if self.keyed and mine and self.rng.random() < 0.5:
            return self.rng.choice(mine)
        self.number += 1
        return self.number

    def appended(self, rows: list[dict[str, Any]], known: Known) -> None:
        for row in rows:
            cells = {}
            for name, value in row.items():
                column = known.column_of(name)
                self.made(column, name, kind_of([each.get(name) for each in rows]))
                cells[column] = value
            self.state.rows[cells["id"]] = self.owner, self.state.together(cells)

    def register(self) -> None:
        """A file of somebody else, whose columns are called as they are shown."""
        if self.keyed:
            return
        known = self.newest()
        row = self.new_rows(known)[0]
        self.said(row)
        bucket = self.table.bucket
        path = f"ext/{uuid4().hex}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist([row]), sink)
        bucket.put(path, sink.getvalue().to_pybytes())
        with self.knowing(known, known):
            try:
                self.table.register(path)
            except firn.SchemaConflictError:
                return
            except firn.InvalidInputError as error:  # of a DOUBLE, bounds don't tell whether there is a NaN
                if "show that all of its rows have one value" not in str(error):
                    raise
                return
        self.appended([row], known)

    # -- definitions

    def alters(self, change: Callable[[], None], **asked: Any) -> None:
        """Alter, and do the same to the model; or nothing, where the table refuses."""
        self.said(asked)
        try:
            self.table.alter(**asked)
        except firn.InvalidInputError as error:
            if "partition field" not in str(error):
                raise
            self.said("refused")
        else:
            change()

    def columns(self, *, placing: bool = True) -> list[str]:
        """Columns that may be renamed, by what they are called; without `placing`, those that nothing needs."""
        held = set() if placing else self.placing | {"id"} | set(self.order_columns())
        return [n for n, p in self.state.shown.items() if p in self.state.wanted and p not in held]

    def order_columns(self) -> list[str]:
        described = self.opened().definition()
        return [self.state.shown[text.removesuffix(" desc")] for text in described.sort_by]

    def free(self) -> list[str]:
        taken = {name.lower() for name in self.state.shown}
        return [name for name in (*NAMES, "id", "e") if name not in taken]

    def renames(self) -> dict[str, str]:
        columns = self.columns()
        if len(columns) > 1 and self.rng.random() < 0.3:
            one, other = self.rng.sample(columns, 2)
            if "~" not in one + other:
                return {one: other, other: one}
        names = self.free()
        return {self.rng.choice(columns): self.rng.choice(names)} if columns and names else {}

    def rename(self) -> None:
        names = self.renames()
        if names:
            found = {self.state.shown[old]: new for old, new in names.items()}
            self.alters(lambda: self.state.wanted.update(found), rename=names)

    def drops(self) -> list[str]:
        columns = self.columns(placing=False)
        return [self.rng.choice(columns)] if columns else []

    def drop(self) -> None:
        names = self.drops()
        if names:
            self.alters(lambda: self.forget(names), drop=names)

    def forget(self, names: list[str]) -> None:
        for column in [self.state.shown[name] for name in names]:
            del self.state.wanted[column]
            self.state.dropped.add(column)

    def adds(self, names: list[str]) -> tuple[dict[str, Any], Callable[[], None]]:
        name, kind = self.rng.choice(names), self.rng.choice(KINDS)
        default = value_of(kind, self.rng.randrange(7)) if self.rng.random() < 0.6 else None
        column = Known(KnownColumns({}), {}, self.all_made()).column_of(name)

        def change() -> None:
            assert column not in self.all_made()
            self.made(column, name, kind)
            if default is not None:
                self.state.defaults[column] = default

        return {name: kind if default is None else (kind, default)}, change

    def add(self) -> None:
        if names := self.free():
            asked, change = self.adds(names)
            self.alters(change, add=asked)

    def several(self) -> None:
        """A column goes, another one takes its name, and a new one the name of that."""
        names = [n for n in self.columns(placing=False) if "~" not in n]
        if len(names) < 2:
            return
        gone, moved = self.rng.sample(names, 2)
        column = self.state.shown[moved]
        asked, added = self.adds([moved])

        def change() -> None:
            self.forget([gone])
            self.state.wanted[column] = gone
            added()

        self.alters(change, drop=gone, rename={moved: gone}, add=asked, comment=f"step {self.last[0]}")

    def race(self) -> None:
        """Two writers alter, and the second one hasn't seen what the first one did. Both count: of two changes of one
        column the one of the later writer by name, as their clocks are equal."""
        columns = [n for n in self.columns(placing=False) if "~" not in n]
        others = [handle for handle in self.handles if handle is not self.table]
        if self.journal == "leaderless" or not columns or not others:
            return
        state, other = self.state, self.rng.choice(others)
        own: Any = self.table.journal
        union = own.own.load()
        changes: dict[tuple[str, str], list[tuple[str, Any]]] = {}
        for table in (other, self.table):
            name, new = self.rng.choice(columns), self.rng.choice(self.free())
            column, drops = state.shown[name], self.rng.random() < 0.3
            self.said((table.journal.own.writer, {name: None if drops else new}))  # type: ignore[attr-defined]
            if table is self.table:
                own.own.load = lambda: union.with_state(own.own.state)
            try:
                if drops:
                    table.alter(drop=name)
                    changes.setdefault(("drop", column), []).append((own.own.writer, True))
                else:
                    table.alter(rename={name: new})
                    writer = table.journal.own.writer  # type: ignore[attr-defined]
                    changes.setdefault(("name", column), []).append((writer, new))
            except firn.InvalidInputError as error:
                if "partition field" not in str(error) and "at least one column" not in str(error):
                    raise
            finally:
                own.own.__dict__.pop("load", None)
        for (kind, column), values in changes.items():
            if kind == "name":
                self.state.wanted[column] = max(values)[1]
        for column in {column for kind, column in changes if kind == "drop"}:
            del self.state.wanted[column]
            self.state.dropped.add(column)

    def types(self) -> None:
        columns = [n for n in self.columns() if self.state.shown[n] not in self.placing | {"id"}]
        if columns:
            name = self.rng.choice(columns)
            self.alters(
                lambda: self.kinds.update({self.state.shown[name]: "VARCHAR"}), types={name: "VARCHAR"}
            )

    def sort(self) -> None:
        columns = self.columns()
        order = self.rng.choice([[], *[[n] for n in columns], *[[f"{n} desc"] for n in columns]])
        self.alters(lambda: None, sort_by=order)

    def describe(self) -> None:
        if columns := self.columns():
            self.alters(
                lambda: None, comments={self.rng.choice(columns): "said"}, set_properties={"codec": "zstd"}
            )

    def check_ids(self) -> None:
        """A check that all rows pass, and one row that doesn't."""
        name = (
            next(n for n, p in self.state.shown.items() if p == "id") if "id" in self.state.wanted else None
        )
        if name is None:
            return
        self.alters(lambda: None, checks={"positive": f'"{name}" > 0'})
        known = self.newest()
        with self.knowing(known, known):
            try:
                self.table.append([{name: -1}])
            except CheckFailedError:
                return
        raise AssertionError("a row that a check refuses was taken")

    def partition(self) -> None:
        if "id" in self.state.wanted and (self.keyed or self.rng.random() < 0.5):
            # Fields of one name, which mean different things.
            self.placing.add("id")
            self.alters(lambda: None, partition_by=[f'bucket({self.rng.randint(1, 3)}, "{self.ids}")'])
            return
        if self.keyed:
            return
        columns = [n for n in self.columns() if self.kinds[self.state.shown[n]] != "DOUBLE"]
        name = self.rng.choice([None, *columns])
        if name is None:
            self.alters(lambda: None, partition_by=[])
            return
        text = f'"{name}"' if " " in name else name
        self.placing.add(self.state.shown[name])
        self.alters(lambda: None, partition_by=[text])

    # -- maintenance

    def merge(self) -> None:
        self.table.merge()

    def respec(self) -> None:
        self.table.merge(respec=True)

    def checkpoint(self) -> None:
        self.table.checkpoint()

    def sweep(self) -> None:
        self.table.sweep(older_than="0s", orphans="0s")

    def resolve(self) -> None:
        conflicts = self.table.conflicts()
        free = [c.column for c in conflicts if self.state.shown[c.column] not in self.placing]
        if free:
            column = self.rng.choice(free)
            self.said(column)
            self.table.resolve(column)
            assert not [c for c in self.table.conflicts() if c.column == column], self.table.conflicts()

    def into(self) -> None:
        """One column becomes another's, as text, which takes in whatever lands later."""
        held = self.placing | {"id"} | set(self.order_columns()) | self.state.defaults.keys()
        held |= {*self.state.into.values()}
        free = [n for n, p in self.state.shown.items() if p in self.state.wanted and p not in held]
        if len(free) < 2 or self.beside:
            return
        one, other = self.rng.sample(free, 2)
        self.said((one, other))
        self.table.resolve(one, into=other, to="VARCHAR")
        column, target = self.state.shown[one], self.state.shown[other]
        self.kinds[target] = "VARCHAR"
        del self.state.wanted[column]
        self.state.into[column] = target
        rows = self.state.rows.items()
        self.state.rows = {i: (owner, self.state.together(cells)) for i, (owner, cells) in rows}

    def predicate(self) -> str | None:
        """One that asks for a value, or for null, or for both sides of it."""
        rows = self.full
        names = [name for name in rows.column_names if rows.num_rows]
        if not names:
            return None
        name = self.rng.choice(names)
        values = [value for value in rows.column(name).to_pylist() if value is not None]
        if not values or self.rng.random() < 0.25:
            return f'"{name}" IS NULL'
        return f'"{name}" {self.rng.choice(["=", "=", "<", "<>"])} {literal(self.rng.choice(values))}'

    def matching(self, where: str) -> set[int]:
        """The rows of a full scan for which a predicate is true, as DuckDB has it."""
        with duckdb.connect() as db:
            db.register("rows", self.full)
            ids = self.ids
            return {row[0] for row in db.execute(f'SELECT "{ids}" FROM rows WHERE {where}').fetchall()}

    def mine(self, ids: set[int]) -> set[int]:
        if self.keyed:
            return ids
        return {i for i in ids if self.state.rows[i][0] == self.owner}

    def delete(self) -> None:
        where = self.predicate()
        if where is None:
            return
        self.said(where)
        gone = self.mine(self.matching(where))
        soft = self.rng.choice([None, False]) if not self.keyed else None
        self.table.delete(where, soft=soft)
        for number in gone:
            del self.state.rows[number]

    def settable(self) -> list[str]:
        """Columns whose values can be set: those that all rows have as theirs, and none beside."""
        beside = {self.state.home(p) for p in self.beside}
        return [n for n in self.columns() if self.state.shown[n] not in beside | {"id"}]

    def update(self) -> None:
        columns, mine = self.settable(), sorted(self.mine(set(self.state.rows)))
        if not columns or not mine:
            return
        name, number = self.rng.choice(columns), self.rng.choice(mine)
        value = value_of(self.types_shown[name], self.rng.randrange(7))
        self.said((number, name, value))
        done = self.table.update(f'"{self.ids}" = {number}', {name: literal(value)})
        assert done.rows_updated in (1, None), done
        self.set(number, {self.state.shown[name]: value})

    def set(self, number: int, cells: Cells) -> None:
        owner, before = self.state.rows[number]
        self.state.rows[number] = owner, {**before, **cells}

    def merge_into(self) -> None:
        columns, mine = self.settable(), sorted(self.mine(set(self.state.rows)))
        if not columns or not mine:
            return
        name = self.rng.choice(columns)
        value = value_of(self.types_shown[name], self.rng.randrange(7))
        old, new = self.rng.choice(mine), self.number + 1
        self.number = new
        self.said((old, new, name, value))
        self.table.merge_into(
            [{"key": old, "value": value}, {"key": new, "value": value}],
            on=f't."{self.ids}" = s.key',
            when_matched={name: "s.value"},
            when_not_matched={self.ids: "s.key", name: "s.value"},
        )
        column = self.state.shown[name]
        self.set(old, {column: value})
        self.state.rows[new] = self.owner, {"id": new, column: value}

    def overwrite(self) -> None:
        if self.keyed and self.journal == "writer":  # where older versions lie in others' files
            return
        known = self.newest()
        rows = self.new_rows(known)
        self.said(rows)
        mine = {i for i, (owner, _) in self.state.rows.items() if owner == self.owner}
        with self.knowing(known, known):
            try:
                self.table.overwrite(rows)
            except firn.SchemaConflictError:
                return
        for number in mine:
            del self.state.rows[number]
        self.appended(rows, known)

    def remove(self) -> None:
        """A partition of the present spec: all rows that are shown in it, of files that have its field."""
        fields = [f for f in self.table.definition().partition.fields if f.transform == "identity"]
        if not fields or self.keyed or fields[0].source not in self.full.column_names:
            return
        name, field = fields[0].source, fields[0].name
        values = [value for value in self.full.column(name).to_pylist() if value is not None]
        if not values:
            return
        value = literal(self.rng.choice(values))
        self.said((name, field, value))
        matching = self.mine(self.matching(f'"{name}" = {value}'))
        self.table.remove_partitions(f'"{field}" = {value}')
        left = set(self.opened().scan(columns=[self.ids]).to_arrow().column(0).to_pylist())
        gone = self.state.rows.keys() - left
        assert gone <= matching, (self.seed, self.last, gone, matching)
        for number in gone:
            del self.state.rows[number]

    def restore(self) -> None:
        if self.keyed and self.journal == "writer":
            return
        past = [(v, s) for v, s in self.past if "id" in s.wanted and self.placing <= s.wanted.keys()]
        past = [(v, s) for v, s in past if s.into == self.state.into]
        usable = [(v, s) for v, s in past if self.journal == "leaderless" or v.count("=") == self.writers]
        if not usable:
            return
        version, state = self.rng.choice(usable)
        self.said((version, state.rows, state.wanted))
        try:
            for handle in self.handles[:1] if self.journal == "leaderless" else self.handles:
                handle.restore(version)
        except firn.NotFoundError as error:
            self.said(error)
            self.past = [(v, s) for v, s in self.past if v != version]
            if self.opened().snapshot().version != self.past[-1][0]:
                raise
            return
        since = {p: name for p, name in self.state.wanted.items() if p not in state.wanted}
        self.state.rows = dict(state.rows)
        self.state.wanted = dict(state.wanted)
        seen = {column.physical for column in self.opened().definition().columns}
        for column, name in since.items():  # shown, where no alter has ever touched a column
            if column in seen:
                self.state.wanted[column] = name
            else:
                self.state.dropped.add(column)
        self.state.dropped -= self.state.wanted.keys()

    # -- what holds after each step

    def check(self) -> None:
        fresh = self.opened()
        snapshot = fresh.snapshot()
        described = fresh.definition()
        self.full = fresh.scan().to_arrow()
        before = self.at_home
        self.types_shown = dict(snapshot.columns)
        self.named(described, snapshot)
        self.settled(before)
        self.conflicting(snapshot)
        self.told(self.full, self.state)
        self.asked(fresh)
        self.state.shown = {column.name: column.physical for column in described.columns}
        if not self.past or self.past[-1][0] != snapshot.version:
            self.past.append((snapshot.version, self.state.copied()))
        if self.rng.random() < 0.6:
            self.knowns.append(self.newest())
        self.older(fresh)
        if self.directory is not None and self.full.num_columns:
            self.in_sql()

    def named(self, described: Any, snapshot: Any) -> None:
        """Each column is shown once, under its name, or that with a number if others want it."""
        state = self.state
        where = (self.seed, self.last, described.columns, state.wanted)
        shown = {column.physical: column.name for column in described.columns}
        self.beside = {p for p, name in shown.items() if name in snapshot.aside}
        assert len({name.lower() for name in shown.values()}) == len(described.columns), where
        assert shown.keys() - self.beside == state.wanted.keys(), where
        for column in shown.keys() - self.beside:
            name = state.wanted[column]
            rivals = [p for p, other in state.wanted.items() if other.lower() == name.lower()]
            if len(rivals) == 1:
                assert shown[column] == name, where
            else:
                names = {shown[rival].lower() for rival in rivals}
                free = {name.lower(), *(f"{name.lower()}~{k}" for k in range(1, len(self.all_made()) + 1))}
                assert name.lower() in names and names <= free, where
        for column in self.beside:
            home = state.home(column)
            assert home not in state.dropped and column[len(home) + 1 :] in BESIDE, where
        state.shown = {name: p for p, name in shown.items()}
        self.ids = shown.get("id", "id")

    def settled(self, before: dict[str, tuple[str, set[int]]]) -> None:
        """No commit puts values beside their column that stood in it, whoever made it (rule 12)."""
        rows = self.full.to_pylist()
        self.at_home = {
            column: (self.types_shown[name], {row[self.ids] for row in rows if row[name] is not None})
            for name, column in self.state.shown.items()
        }
        for column, (kind, ids) in before.items():
            now = self.at_home.get(column)
            if now is None or column in self.beside or now[0] == kind or self.last[1] == "restore":
                continue
            order = self.brought.get(column, [])
            if now[0] in order and kind in order and order.index(now[0]) < order.index(kind):
                continue  # it was there before, and is there again
            same = {i for i in ids if i in self.state.rows and self.state.rows[i] == self.before.get(i)}
            assert same <= now[1], (self.seed, self.last, column, kind, now[0], same - now[1])
        self.before = dict(self.state.rows)

    def conflicting(self, snapshot: Any) -> None:
        """Values are beside a column only if a live file has its type (rule 12), or somebody has said it."""
        homes = {self.state.home(column) for column in self.beside} - self.declared
        homes = {name for name, column in self.state.shown.items() if column in homes}
        if not homes:
            return
        is_set = {column.name for column in self.opened().definition().columns if column.is_set}
        found: set[tuple[str, str]] = set()
        for file in snapshot.files:
            if file.inlined is not None:
                has = file.inlined.columns
            else:
                has = columns_of(pq.read_schema(pa.BufferReader(self.table.bucket.get(file.path).data)))
            physical = {own: name for name, own in (file.cols or {}).items()}
            found |= {(physical.get(n, n).lower(), kind) for n, kind in has.items()}
        for name in homes - is_set:
            column = self.state.shown[name]
            assert (column.lower(), self.types_shown[name]) in found, (self.seed, self.last, name, found)

    def told(self, found: pa.Table, state: State) -> None:
        """Every row is there once, each value under its column or beside it."""
        rows = found.to_pylist()
        by_column = {p: n for n, p in state.shown.items()}
        ids = by_column.get("id", "id")
        shown = {row[ids]: row for row in rows}
        where = (self.seed, self.last)
        assert len(shown) == len(rows), (*where, "a row is shown twice", rows)
        assert shown.keys() == state.rows.keys(), (*where, shown.keys() ^ state.rows.keys())
        beside: dict[str, list[str]] = {}
        for name, column in state.shown.items():
            if column not in state.wanted:
                beside.setdefault(state.home(column), []).append(name)
        for number, row in shown.items():
            for column in state.wanted:
                name = by_column.get(column)
                wanted = state.value(number, column)
                values = [row[n] for n in (name, *beside.get(column, ())) if n is not None]
                got = [plain(v) for v in values if v is not None]
                assert got == ([] if wanted is None else [plain(wanted)]), (
                    *where,
                    f"column {column} shown as {name}",
                    wanted,
                    row,
                )

    def asked(self, fresh: LakeTable) -> None:
        """Predicates find what a full scan shows, and counts agree."""
        assert fresh.scan().count() == self.full.num_rows, (self.seed, self.last)
        for _ in range(3):
            where = self.predicate()
            if where is None:
                return
            wanted = self.matching(where)
            got = fresh.scan(where=where).to_arrow().column(self.ids).to_pylist()
            assert sorted(got) == sorted(wanted), (self.seed, self.last, where, got, wanted)
            assert fresh.scan(where=where).count() == len(wanted), (self.seed, self.last, where)

    def older(self, fresh: LakeTable) -> None:
        version, state = self.rng.choice(self.past)
        try:
            found = fresh.scan(at=version).to_arrow()
            described = fresh.definition(version)
        except firn.NotFoundError:
            self.past = [(v, s) for v, s in self.past if v != version or s is self.state]
            return
        names = {column.name: column.physical for column in described.columns}
        assert names == state.shown, (self.seed, self.last, version, names, state.shown)
        self.told(found, state)

    def in_sql(self) -> None:
        """DuckDB reads the files of a directory by itself."""
        db = firn.connect(self.url)
        found = db.sql("SELECT * FROM t").to_arrow()
        assert found.column_names == self.full.column_names, (self.seed, self.last)
        key = lambda row: str(row)  # noqa: E731
        assert sorted(found.to_pylist(), key=key) == sorted(self.full.to_pylist(), key=key), (
            self.seed,
            self.last,
        )
        if (where := self.predicate()) is not None:
            got = db.sql(f'SELECT "{self.ids}" FROM t WHERE {where}').to_arrow().column(0).to_pylist()
            assert sorted(got) == sorted(self.matching(where)), (self.seed, self.last, where)


def kind_of(values: list[Any]) -> str:
    kinds = {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE", str: "VARCHAR"}
    return next(kinds[type(value)] for value in values if value is not None)
