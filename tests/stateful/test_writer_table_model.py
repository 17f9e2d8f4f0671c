"""Any sequence of verbs on a table of writers' catalogs, with its soft deletes, against the same plain list of rows.

Now and then another process writes under the same id; history is pruned and garbage collected in between.
"""

from __future__ import annotations

import io
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from test_lake_model import _PREDICATES, _ROWS, LakeTableMachine, Row, _bag, lake_settings

from firn.database.writer_tables import WriterTables
from firn.errors import SnapshotTooOldError
from firn.journal.writer.format.metadata import read_metadata
from firn.journal.writer.journal import WriterJournal
from firn.journal.writer.maintain.collect import collect
from firn.journal.writer.maintain.prune import prune
from firn.lake.table import LakeTable
from firn.runner import InProcess, LocalRunner

FAILING = ["s::INTEGER = 1", "len(s) // (id - 1) > 0", "n > 100 OR n = 3", "tags[1] = 'a'"]


class WriterTableMachine(LakeTableMachine):
    def _open(self) -> LakeTable:
        tables = self._tables("w")
        properties = {**self.definition.properties, "checkpoint_every": 9}
        return tables.find("t") or tables.define(
            replace(self.definition, journal="writer", properties=properties)
        )

    def _tables(self, writer: str | None) -> WriterTables:
        engines = InProcess(LocalRunner(threads=1))
        return WriterTables(
            self.bucket, "db", "sim://db", engines, writer=writer, strict=True, clock=self.bucket.clock
        )

    def _matching(self, rows: list[Row], where: str) -> list[bool]:
        return super()._matching(rows, f"TRY({where})")

    # -- what the journal adds

    @rule(where=_PREDICATES, soft=st.sampled_from([None, True, False]))
    def delete(self, where: str, soft: bool | None) -> None:
        self._delete(where, soft, self._without(where))

    @rule(where=st.sampled_from(FAILING))
    def delete_what_cant_be_told_of_each_row(self, where: str) -> None:
        if "n " in where and not self.wide:
            return
        self._delete(where, None, self._without(where))

    def _delete(self, where: str, soft: bool | None, kept: list[Row]) -> None:
        result = self.table.delete(where, soft=soft)
        if soft is not False:
            assert result.files_added == 0
        assert result.version is not None or kept == self.rows
        self._committed(result.version, kept)

    @rule()
    def merge_folds_everything(self) -> None:
        self._committed(self.table.merge().version, self.rows)
        assert not any(file.deletes for file in self.table.snapshot().files)

    @precondition(lambda self: self.versions)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        """Files are written anew, so a table that holds the same rows already may change, too."""
        version = data.draw(st.sampled_from(sorted(self.versions)))
        if self._is_readable(version):
            self._committed(self.table.restore(version).version, self.versions[version])

    @rule(rows=_ROWS)
    def another_process_of_the_writer_appends(self, rows: list[Row]) -> None:
        table = self._tables("w").find("t")
        assert table is not None
        self._committed(table.append(rows).version, [*self.rows, *rows])

    @rule()
    def its_connection_closes(self) -> None:
        journal = self.table.journal
        assert isinstance(journal, WriterJournal)
        journal.own.fold()
        assert not any(file.inlined is not None for file in self.table.snapshot().files)

    @rule(older_than=st.sampled_from([0.0, 1.0]))
    def sweep_at_once(self, older_than: float = 0.0) -> None:
        self._prune_and_collect(older_than)

    @rule(hours=st.sampled_from([0.5, 3]))
    def let_time_pass_and_sweep(self, hours: float) -> None:
        self.bucket.clock.sleep(hours * 3600)
        self._prune_and_collect(3600)

    def _prune_and_collect(self, older_than_s: float) -> None:
        """Then nothing is stored but what a version needs that can still be read."""
        history = self._tables(None).federation.history("w")
        prune(history, older_than_ms=int(older_than_s * 1000))
        collect(history, orphan_age_ms=0)
        readable = [v for v in self.versions if self._is_readable(v)]
        self.versions = {v: self.versions[v] for v in readable}
        newest = self._tables(None).federation.history("w").load().head.revision
        needed: set[str] = set()
        for revision in range(1, newest + 1):
            if self._is_readable(f"w={revision}"):
                needed |= {f.path for f in self.table.snapshot(f"w={revision}").objects}
        stored = {info.key for info in self.bucket.list("db/w/db/data/").objects}
        assert needed <= stored
        assert all(self._revision_of(key) >= newest for key in stored - needed) or older_than_s

    def _revision_of(self, key: str) -> int:
        """The one that a data file was begun for."""
        footer = pq.read_metadata(io.BytesIO(self.bucket.get(key).data))
        record = read_metadata(footer.metadata, where=key)
        assert record is not None
        return record.revision

    def _is_readable(self, version: str) -> bool:
        try:
            self.table.snapshot(version)
        except SnapshotTooOldError:
            return False
        return True

    @invariant()
    def the_table_holds_the_rows(self) -> None:
        if not hasattr(self, "table"):
            return
        found = self.table.scan().to_arrow()
        assert _bag(found.to_pylist(), self._columns()) == _bag(self.rows, self._columns())
        assert self.table.scan().count() == len(self.rows)
        streamed = sum(batch.num_rows for batch in self.table.scan().to_batches())
        assert streamed == len(self.rows)
        told = [p.rows for p in self.table.partitions()]
        if None not in told:
            assert sum(p or 0 for p in told) == len(self.rows)


TestWriterTable = WriterTableMachine.TestCase
TestWriterTable.settings = lake_settings(6)


@pytest.mark.long
class TestWriterTableAtLength(WriterTableMachine.TestCase):  # type: ignore[misc,name-defined]
    settings = lake_settings(18)
