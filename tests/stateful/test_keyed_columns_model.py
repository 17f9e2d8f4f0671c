"""Columns of keyed tables that change at random, amid puts, merges, deletes, flushes, compactions, loads and
checkpoints, against a model that knows columns as identities, and not by their names."""

from __future__ import annotations

import random
from copy import deepcopy
from datetime import datetime
from typing import Any

import pytest

from firn.errors import InvalidInputError
from firn.inspect.fsck.keyed import check_keyed
from firn.keyed.table import KeyedTable
from firn.keyed.write.batch import WriteBatch
from firn.keyed.write.writer import KeyedWriter
from firn.names import fold
from kv_tables import new_table
from seeds import seeds

CHAINS = (
    ("SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    ("FLOAT", "DOUBLE"),
    ("VARCHAR",),
    ("TIMESTAMP_S", "TIMESTAMP"),
)
NAMES = ("a", "b", "c", "A", "d~", "é", "É")
KEYS = [b"k%d" % n for n in range(7)]
STEPS = 60
PROPERTIES = {"flush_ms": 3_600_000, "sst_size": "1KB", "block_size": "512B"}


class Column:
    """One identity. `name` is None once it is dropped."""

    def __init__(self, name: str, chain: int, rank: int, default: Any = None) -> None:
        self.name: str | None = name
        self.chain, self.rank, self.default = chain, rank, default

    @property
    def kind(self) -> str:
        return CHAINS[self.chain][self.rank]


class Model:
    """Columns in their order, and rows: key → identity's place → value. What a row lacks is older than the column."""

    def __init__(self) -> None:
        self.columns = [Column("n", 0, 2), Column("a", 0, 1), Column("b", 2, 0), Column("c", 1, 0)]
        self.rows: dict[bytes, dict[int, Any]] = {}

    @property
    def live(self) -> dict[str, int]:
        return {c.name: at for at, c in enumerate(self.columns) if c.name is not None}

    def stored(self, given: dict[str, Any]) -> dict[int, Any]:
        return {at: given.get(name, self.columns[at].default) for name, at in self.live.items()}

    def merged(self, key: bytes, given: dict[str, Any]) -> None:
        row = self.rows.get(key)
        if row is None:
            row = dict.fromkeys(self.live.values())
        row = dict(row)
        for name, at in self.live.items():
            value = given.get(name)
            if value is not None:
                row[at] = value + (row.get(at) or 0) if name == "n" else value
        self.rows[key] = row

    def shown(self) -> dict[bytes, dict[str, Any]]:
        return {
            key: {name: row.get(at, self.columns[at].default) for name, at in self.live.items()}
            for key, row in self.rows.items()
        }

    def alter(self, asked: dict[str, Any]) -> bool:
        """Whether it can be; it is so then."""
        after = deepcopy(self)
        live = {fold(name): at for name, at in self.live.items()}
        touched = [*asked["rename"], *asked["drop"], *asked["types"]]
        if any(fold(name) not in live or fold(name) == "n" for name in touched):
            return False
        drop, rename = (
            [live[fold(x)] for x in asked["drop"]],
            {live[fold(x)]: y for x, y in asked["rename"].items()},
        )
        types = {live[fold(x)]: y for x, y in asked["types"].items()}
        if {*drop} & ({*rename} | {*types}):
            return False
        for at in drop:
            after.columns[at].name = None
        for at, name in rename.items():
            after.columns[at].name = name
            if "~" in name and name != self.columns[at].name:
                return False
        for at, rank in types.items():
            after.columns[at].rank = rank
        after.columns += [Column(name, *given) for name, given in asked["add"].items()]
        names = [c.name for c in after.columns if c.name is not None]
        if len({*map(fold, names)}) < len(names) or not names or any("~" in name for name in asked["add"]):
            return False
        self.columns = after.columns
        return True


class Run:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.model = Model()
        self.table: KeyedTable = new_table(
            PROPERTIES,
            key={"key": "BLOB"},
            schema={name: self.model.columns[at].kind for name, at in self.model.live.items()},
            merge_operator={"n": "add"},
        )
        self.kv = self.opened()
        self.follower = self.table.reader(follow="0s")
        self.kept: dict[str, dict[bytes, dict[str, Any]]] = {}

    def opened(self) -> KeyedWriter:
        return self.table.open(compaction=False, poll_every="1d")

    # -- values

    def value(self, column: Column) -> Any:
        n = self.random.randrange(100)
        if column.chain == 0:
            return n * [1, 300, 10**8, 10**10][min(column.rank, 3)]
        if column.chain == 1:
            return n + (0.5 if column.rank == 0 else 0.1)
        return f"text {n}" if column.chain == 2 else datetime(2020, 1, 1, n % 24, n % 60)

    def row(self, *, nulls: bool = True) -> dict[str, Any]:
        found = {}
        for name, at in self.model.live.items():
            chance = self.random.random()
            if name == "n" or chance < 0.6:
                found[name] = self.value(self.model.columns[at])
            elif nulls and chance < 0.8:
                found[name] = None
        return found

    # -- steps

    def put(self) -> None:
        key, row = self.random.choice(KEYS), self.row()
        self.kv.put(key, row, durable=self.random.random() < 0.3)
        self.model.rows[key] = self.model.stored(row)

    def merge(self) -> None:
        key, row = self.random.choice(KEYS), self.row()
        self.kv.merge(key, row, durable=False)
        self.model.merged(key, row)

    def delete(self) -> None:
        key = self.random.choice(KEYS)
        self.kv.delete(key, durable=False)
        self.model.rows.pop(key, None)

    def write(self) -> None:
        batch, rows = WriteBatch(), {key: self.row() for key in self.random.sample(KEYS, 3)}
        for key, row in rows.items():
            batch.put(key, row)
        self.kv.write(batch, durable=False)
        self.model.rows.update({key: self.model.stored(row) for key, row in rows.items()})

    def flush(self) -> None:
        self.kv.flush()

    def compact(self) -> None:
        if self.random.random() < 0.5:
            self.kv.compact(full=self.random.random() < 0.5)
        else:
            self.table.compact(full=self.random.random() < 0.5)
            if self.random.random() < 0.5:
                self.kv.poll()

    def load(self) -> None:
        self.kv.flush()
        names = [*self.row(nulls=False)]
        rows = [
            {"key": key, **{name: self.value(self.model.columns[self.model.live[name]]) for name in names}}
            for key in self.random.sample(KEYS, 2)
        ]
        self.table.load(rows)
        self.kv.poll()
        for row in rows:
            key = row.pop("key")
            self.model.rows[key] = self.model.stored(row)

    def reopen(self) -> None:
        if self.random.random() < 0.5:
            self.kv.close()
        else:
            self.kv.flush()
        self.kv = self.opened()

    def checkpoint(self) -> None:
        self.kv.flush()
        name = f"c{len(self.kept)}"
        self.table.checkpoint(name)
        self.kept[name] = deepcopy(self.model.shown())

    def alter(self) -> None:
        rand, names = self.random, [*self.model.live, *NAMES]
        asked: dict[str, Any] = {"rename": {}, "drop": [], "add": {}, "types": {}}
        for _ in range(rand.randrange(1, 4)):
            verb = rand.choice([*asked, "rename", "add"])
            if verb == "rename":
                asked[verb][rand.choice(names)] = rand.choice(names)
            elif verb == "drop":
                asked[verb] = [rand.choice(names)]
            elif verb == "add":
                chain = rand.randrange(len(CHAINS))
                column = Column("", chain, rand.randrange(len(CHAINS[chain])))
                default = self.value(column) if rand.random() < 0.6 else None
                asked[verb][rand.choice(names)] = (chain, column.rank, default)
            else:
                name = rand.choice([*self.model.live])
                column = self.model.columns[self.model.live[name]]
                asked[verb][name] = rand.randrange(column.rank, len(CHAINS[column.chain]))
        if len({*map(fold, asked["rename"])}) < len(asked["rename"]):
            return
        given = dict(
            asked,
            add={
                name: (CHAINS[chain][rank], default) for name, (chain, rank, default) in asked["add"].items()
            },
            types={
                name: CHAINS[self.model.columns[self.model.live[name]].chain][rank]
                for name, rank in asked["types"].items()
            },
        )
        before = [(c.name, c.kind) for c in self.model.columns]
        if not self.model.alter(asked):
            with pytest.raises(InvalidInputError, match="Nothing was changed"):
                self.table.alter(**given)
            return
        done = self.table.alter(**given)
        assert bool(done.changes) == (before != [(c.name, c.kind) for c in self.model.columns]), given

    # -- what is seen

    def check(self) -> None:
        expected = self.model.shown()
        assert {key: self.kv.get(key) for key in KEYS if self.kv.get(key) is not None} == expected
        assert dict(self.kv.scan(reverse=self.random.random() < 0.5)) == expected
        assert self.kv.table.values.columns == {
            c.name: c.kind for c in self.model.columns if c.name is not None
        }

    def check_flushed(self) -> None:
        self.kv.flush()
        expected = self.model.shown()
        assert dict(self.follower.scan()) == expected
        assert self.follower.multi_get(KEYS) == [expected.get(key) for key in KEYS]
        self.check_rows(self.table, expected)
        told = {row["key"]: row for row in self.table.changes().to_arrow().to_pylist()}
        live = [*self.model.live]
        assert all([*row][1:-3] == live for row in told.values())
        if self.kept:
            name = self.random.choice([*self.kept])
            assert dict(self.table.reader(at=name).scan()) == self.kept[name]
            self.check_rows(self.table, self.kept[name], at=name)

    @staticmethod
    def check_rows(table: KeyedTable, expected: dict[bytes, dict[str, Any]], at: str | None = None) -> None:
        from firn.keyed.plan.read import KeyedRead

        read = KeyedRead.of(table, at=at)
        rows = [row for unit in read.units() for part in read.rows([unit.work]) for row in part.to_pylist()]
        assert {row.pop("key"): row for row in rows} == expected
        some = KeyedRead.of(table, at=at, columns=[*read.names][-1:])
        one = [row for unit in some.units() for part in some.rows([unit.work]) for row in part.to_pylist()]
        left = [{name: row[name] for name in some.names} for row in expected.values()]
        for row in one:
            left.remove(row)
        assert not left


@pytest.mark.parametrize("seed", seeds(60, short=4))
def test_columns_that_change(seed: int) -> None:
    run = Run(seed)
    steps = [run.put, run.put, run.merge, run.delete, run.write, run.flush, run.compact, run.alter, run.alter]
    rare = [run.load, run.reopen, run.checkpoint]
    for _ in range(STEPS):
        run.random.choice([*steps, *steps, *rare])()
        run.check()
        if run.random.random() < 0.2:
            run.check_flushed()
    run.check_flushed()
    copy = run.table.clone("copy")
    assert dict(copy.reader().scan()) == run.model.shown()
    assert check_keyed(run.table, blocks=True).problems == []
    run.kv.close()
