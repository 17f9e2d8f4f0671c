"""Record tables in a simulated store: one of every object, and processes that share one and know nothing yet."""

from __future__ import annotations

from firn.database.kinds.records import RecordOptions, RecordTables
from firn.journal.sequence import truncate
from firn.records.apply.apply import settle
from firn.records.definition.definition import Index
from firn.records.maintain.collection import collect
from firn.records.write.transaction import begin
from firn.testing import SimStore

ROWS = {
    "ada": {"n": 1, "email": "ada@example.com"},
    "bob": {"n": 1, "email": None},
    "cyd": {"n": 2, "email": "cyd@example.com", "text": "x" * 60},
    "dee": {"n": 2, "email": None},
}


def of_every_object():
    """A table `t` with `ROWS`: a log with a pack and a record that isn't applied, rows with versions, a staged
    document, a held lock."""
    store = SimStore()
    bucket = store.bucket("writer")
    made = RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)
    options = RecordOptions(indices=["n", Index("email", unique=True)], properties={"inline": "60B"})
    table = made.create(made.describe("t", options))
    records = made.session.store
    for id, document in list(ROWS.items())[:3]:
        table.upsert(id, {"n": 0})
        table.upsert(id, document)
    settle(records)
    store.time.advance(40_000)
    table.upsert("bob", ROWS["bob"])
    settle(records)
    collect(records, retention_s=0)
    assert truncate(records.log).lo > 0
    table.upsert("dee", ROWS["dee"])
    holder = begin(records, lock=True)
    holder.update("t", "cyd", ROWS["cyd"])
    return store


class Processes:
    """`tables` are those of the first one; `t` is a table that a test makes."""

    def __init__(self):
        self.store = SimStore()
        self.tables = self.process()

    def process(self):
        bucket = self.store.bucket("process")
        return RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)

    def fresh(self):
        return self.process().open(self.t.definition)

    def settle(self):
        settle(self.tables.session.store)
