"""The requests of every operation are those of the design, for 1, 10 and 100 rows and 0, 1, 2 and 5 indices.

c is 1 for a process that asks for the horizon each time, and 0 within R.
"""

from __future__ import annotations

import pytest

from cells import every_cell
from firn.records.apply.apply import apply
from firn.records.definition.definition import Index, RecordDefinition
from firn.records.write.transaction import begin
from record_stores import Database, R


class Table:
    """Table `w` with as many rows as there are to be, all applied, each indexed by so many fields."""

    def __init__(self, rows, indices, c):
        self.db, self.n, self.k, self.c = Database(), rows, indices, c
        self.ids = [f"r{n}" for n in range(rows)]
        fields = [Index(f"f{n}") for n in range(indices)]
        self.db.definitions["w"] = RecordDefinition("w", db="db", state="ready", indices=tuple(fields))
        self.db.create("w", *fields)
        with self.db.begin("first") as tx:
            for id in self.ids:
                tx.upsert("w", id, self.document(0))
        self.db.apply()
        self.store = self.db.store(freshness_s=R * (1 - c))
        self.store.log.refresh()

    def document(self, value):
        return {"other": value, **{f"f{n}": value for n in range(self.k)}}

    def cost(self, action):
        """What it gives, and the requests by verb."""
        before = self.store.bucket.counters.as_dict()
        result = action()
        spent = self.store.bucket.counters.since(before)
        return result, {verb: n for verb, n in spent.items() if n and not verb.startswith("bytes")}

    def begin(self):
        tx, spent = self.cost(lambda: begin(self.store))
        assert spent == {"get": 1 + self.c}
        return tx

    def commit(self, tx):
        assert self.cost(tx.commit)[1] == {"put": 1, **({"get": 1} if self.c else {})}


each = every_cell(Table, rows=[1, 10, 100], indices=[0, 1, 2, 5], c=[0, 1])


@each
def test_begin(table):
    """1, and 1 a new record, and c."""
    table.begin()
    for id in table.ids[:3]:
        with table.db.begin("other") as tx:
            tx.upsert("w", id, table.document(1))
    assert table.cost(lambda: begin(table.store))[1] == {"get": 1 + len(table.ids[:3]) + table.c}


@each
def test_reading(table):
    """1 a row, and nothing for one that was read."""
    tx = table.begin()
    assert table.cost(lambda: [tx.get("w", id) for id in table.ids])[1] == {"get": table.n}
    assert table.cost(lambda: [tx.get("w", id) for id in table.ids])[1] == {}


@each
def test_reading_what_is_not_applied(table):
    with table.db.begin("other") as tx:
        for id in table.ids:
            tx.upsert("w", id, table.document(1))
    tx = begin(table.store)
    assert table.cost(lambda: [tx.get("w", id) for id in table.ids])[1] == {}


@each
def test_finding(table):
    """The pages, 1 a row, and c; however many indices there are."""
    tx = table.begin()
    if table.k:
        found, spent = table.cost(lambda: tx.find("w", f0=0))
        assert len(found) == table.n
        assert spent == {"list": 1, "get": table.n + table.c}


@pytest.mark.parametrize("verb", ["update", "delete"])
@each
def test_changing_rows_that_were_read(table, verb):
    """1 PUT and c for all of them, at the commit."""
    tx = table.begin()
    etags = {id: tx.get("w", id).etag for id in table.ids}

    def change():
        for id, etag in etags.items():
            if verb == "update":
                tx.update("w", id, table.document(1), etag=etag)
            else:
                tx.delete("w", id, etag=etag)

    assert table.cost(change)[1] == {}
    table.commit(tx)


@each
def test_inserting(table):
    """A probe and a look at the row, and c; 1 PUT and c for all of them at the commit."""
    tx = table.begin()
    spent = table.cost(lambda: [tx.insert("w", f"new {id}", table.document(1)) for id in table.ids])[1]
    assert spent == {"get": (2 + table.c) * table.n}
    table.commit(tx)


@each
def test_reading_changing_and_writing(table):
    """n + 2 with °, n + 4 without."""

    def run():
        with begin(table.store) as tx:
            for id in table.ids:
                tx.update("w", id, {**tx.get("w", id), "f0": 1})

    assert sum(table.cost(run)[1].values()) == table.n + (4 if table.c else 2)


@each
def test_applying(table):
    """In the background: a GET and a PUT a row, and a PUT an entry."""
    with table.db.begin("other") as tx:
        for id in table.ids:
            tx.upsert("w", id, table.document(1))
    table.store.log.refresh()
    spent = table.cost(lambda: apply(table.store))[1]
    assert spent == {"get": table.n, "put": table.n * (1 + table.k)}
