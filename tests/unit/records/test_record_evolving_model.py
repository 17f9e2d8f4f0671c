"""Random alters, puts and transactions of two clients: every row, at every commit, is what a model of it says.

The model keeps what was put, in its own types, and knows of columns only their lives: from which commit to which a
column was there, with which type.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

import firn
from firn.records.apply.apply import settle
from firn.records.documents.fields import widens
from seeds import seeds

TYPES: Mapping[str, Any] = {
    "TINYINT": lambda r: r.randrange(-128, 128),
    "INTEGER": lambda r: r.randrange(-(2**31), 2**31),
    "BIGINT": lambda r: r.randrange(-(2**40), 2**40),
    "DECIMAL(14,2)": lambda r: Decimal(r.randrange(10**10)).scaleb(-2),
    "DOUBLE": lambda r: r.randrange(10**6) / 4,
    "BOOLEAN": lambda r: r.random() < 0.5,
    "VARCHAR": lambda r: r.choice(["", "1", "é", "text"]),
    "BIGINT[]": lambda r: [r.randrange(9) for _ in range(r.randrange(3))],
    "STRUCT(a TINYINT)": lambda r: {"a": r.randrange(9)},
    "STRUCT(a BIGINT, b BOOLEAN)": lambda r: {"a": r.randrange(9), "b": True},
}
NAMES = ("a", "b", "c", "d")
IDS = ("x", "y", "z")


@dataclass
class Model:
    """`puts`: by commit and id what was put, with the types that its values had; `columns`: by commit."""

    columns: dict[int, dict[str, str]]
    puts: list[tuple[int, str, dict[str, tuple[str, Any]] | None]] = field(default_factory=list)

    def columns_at(self, commit: int) -> dict[str, str]:
        return self.columns[max(number for number in self.columns if number <= commit)]

    def rows_at(self, commit: int) -> dict[str, dict[str, Any]]:
        newest = {id: document for number, id, document in self.puts if number <= commit}
        columns = self.columns_at(commit)
        return {
            id: {name: _read(document.get(name), kind) for name, kind in columns.items()}
            for id, document in newest.items()
            if document is not None
        }


def _read(stored: tuple[str, Any] | None, kind: str) -> Any:
    """A value that was put as of another type, as of the type that its column has."""
    if stored is None:
        return None
    had, value = stored
    if kind == had:
        return value
    if kind == "VARCHAR":
        if had.startswith("DECIMAL"):
            return f"{value:.2f}"
        if had == "BOOLEAN":
            return str(value).lower()
        return str(value).replace("'", '"').replace(" ", "").replace("True", "true")
    if kind == "DOUBLE":
        return float(value)
    if kind.startswith("DECIMAL"):
        return Decimal(value)
    if kind.startswith("STRUCT"):
        return {"a": value["a"], "b": None}
    return value


class Life:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.url = f"memory://{uuid.uuid4().hex}"
        columns = {"a": "TINYINT", "b": "VARCHAR"}
        self.clients = [firn.connect(self.url) for _ in range(2)]
        self.clients[0].create_table("t", kind="records", schema=columns)
        self.model = Model({1: columns})
        self.gone: dict[str, str] = {}
        self.indexed: set[str] = set()
        self.stale = self.altered = 0

    def run(self, steps: int) -> None:
        verbs = (self.put, self.put, self.alter, self.transaction, self.index, self.look, self.rest)
        for _ in range(steps):
            self.random.choice(verbs)(self.random.choice(self.clients))
        self.look(firn.connect(self.url))

    def document(self, columns: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
        return {
            name: (kind, TYPES[kind](self.random))
            for name, kind in columns.items()
            if self.random.random() < 0.7
        }

    def put(self, db: firn.Database) -> None:
        id, columns = self.random.choice(IDS), self.now()
        document = self.document(columns)
        with db.begin() as tx:
            tx.upsert("t", id, {name: value for name, (_, value) in document.items()})
        self.model.puts.append((tx.committed, id, document))

    def now(self) -> dict[str, str]:
        return self.model.columns[max(self.model.columns)]

    def transaction(self, db: firn.Database) -> None:
        """Something happens between its beginning and its end."""
        tx, columns, id = db.begin(), self.now(), self.random.choice(IDS)
        document = None if self.random.random() < 0.3 else self.document(columns)
        seen = tx.snapshot
        assert {row.id: row.document for row in tx.scan("t")} == self.model.rows_at(seen)
        puts, alters = len(self.model.puts), self.altered
        if self.random.random() < 0.8:
            self.random.choice((self.put, self.alter))(self.random.choice(self.clients))
        assert {row.id: row.document for row in tx.stream("t")} == self.model.rows_at(seen)
        if document is None:
            if id not in self.model.rows_at(seen):
                return tx.rollback()
            tx.delete("t", id)
        else:
            tx.upsert("t", id, {name: value for name, (_, value) in document.items()})
        conflicts = self.altered > alters or id in [put[1] for put in self.model.puts[puts:]]
        if conflicts:
            with pytest.raises(firn.StaleObjectError):
                tx.commit()
            self.stale += 1
        else:
            self.model.puts.append((tx.commit(), id, document))
        return None

    def alter(self, db: firn.Database) -> None:
        columns, r = dict(self.now()), self.random
        asked: dict[str, Any] = {}
        name = r.choice(NAMES)
        if name not in columns:
            kind = r.choice(list(TYPES))
            if name in self.gone and not widens(self.gone[name], kind):
                with pytest.raises(firn.InvalidInputError, match="had a column"):
                    db.table("t").alter(add={name: kind})
                return
            asked["add"], columns[name] = {name: kind}, kind
        elif name in self.indexed:
            with pytest.raises(firn.InvalidInputError, match="has an index"):
                db.table("t").alter(drop=[name])
            return
        elif len(columns) > 1 and r.random() < 0.4:
            asked["drop"] = [name]
            self.gone[name] = columns.pop(name)
        else:
            kind = r.choice([kind for kind in TYPES if widens(columns[name], kind)])
            asked["types"] = {name: kind}
            if kind == columns[name]:
                assert db.table("t").alter(**asked).changes == ()
                return
            columns[name] = kind
        result = db.table("t").alter(**asked)
        assert len(result.changes) == 1
        if "add" in asked:
            self.gone.pop(name, None)
        self.model.columns[int(result.version)] = columns
        self.altered += 1

    def index(self, db: firn.Database) -> None:
        name = self.random.choice(list(self.now()))
        if name in self.indexed:
            db.table("t").drop_index(name)
            self.indexed.remove(name)
        elif self.now()[name][-1] not in "])":
            db.table("t").create_index(name)
            self.indexed.add(name)

    def rest(self, db: firn.Database) -> None:
        settle(db.table("t").session.store)

    def look(self, db: firn.Database) -> None:
        table = db.table("t")
        head = table.session.store.log.refresh().number
        for commit in {head, self.random.randrange(1, head + 1)}:
            columns, rows = self.model.columns_at(commit), self.model.rows_at(commit)
            found = db.sql(f"SELECT * FROM t AT (VERSION => {commit}) ORDER BY _id").to_arrow()
            assert found.column_names == ["_id", *columns]
            assert found.to_pylist() == [{"_id": id, **rows[id]} for id in sorted(rows)]
        rows = self.model.rows_at(head)
        assert {row.id: row.document for row in table.scan()} == rows
        for name in self.indexed:
            for value in {row[name] for row in rows.values()}:
                equal = {id for id, row in rows.items() if row[name] == value}
                assert {row.id for row in table.find({name: value})} == equal
        told = [(change.seq, change.id) for change in table.changes()]
        assert told == [(number, id) for number, id, _ in self.model.puts]
        table.changes().to_arrow()


@pytest.mark.parametrize("seed", seeds(300, short=6))
def test_rows_are_what_was_put_read_by_the_columns_of_each_commit(seed):
    Life(seed).run(60)
