"""Processes that share a simulated store of record tables, each of which knows nothing yet."""

from __future__ import annotations

from firn.database.record_tables import RecordTables
from firn.records.apply.apply import settle
from firn.testing import SimStore


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
