"""Keeping writers' catalogs short and whole: what `Database` offers for it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from firn.arguments import checked
from firn.bucket.base import Bucket
from firn.database.engines import DatabaseEngines
from firn.units import Duration, parse_duration_ms

if TYPE_CHECKING:
    from firn.database.writer_tables import WriterTables
    from firn.journal.model import SweepReport
    from firn.journal.writer.federation.federation import WriterInfo
    from firn.journal.writer.history.history import History
    from firn.journal.writer.maintain.collect import Ages
    from firn.journal.writer.maintain.prune import PruneReport
    from firn.journal.writer.rebuild.rebuild import RebuildReport
    from firn.journal.writer.unclaimed.repair import RepairReport

RETENTION = "7d"
"""How long history is kept, unless prune is told otherwise."""


@checked
class WriterUpkeep:
    """The part of `Database` that looks after writers: the connection's own, unless told."""

    url: str
    bucket: Bucket
    engines: DatabaseEngines

    @property
    def _writer_tables(self) -> WriterTables:
        raise NotImplementedError

    def writers(self) -> list[WriterInfo]:
        """The writers whose catalogs this database has, with their newest commit and health.

        Cost: 1 LIST, and 1 LIST a writer, in parallel, and 1 GET each transaction that wasn't read before.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://", writer="host-17")
            >>> _ = db.create_table("cpu", journal="writer")
            >>> [(w.name, w.revision, w.health) for w in db.writers()]
            [('host-17', 1, 'ok')]
        """
        return self._writer_tables.federation.load().infos()

    def prune(
        self, older_than: Duration | None = None, *, writer: str | None = None, dry_run: bool = False
    ) -> PruneReport:
        """Forget the beginning of a writer's history: what is older than `older_than` can't be read any more.

        It always leaves the newest revision and two checkpoints that a replay has proven, and writes what lacks of
        them. Data files stay until `sweep`.

        Args:
            older_than: by the store's clock, 7 days by default: longer than any put may take to land, and than
                anybody reads an old version. A shorter time is your word for both.
            writer: whose history; the connection's own writer by default.
            dry_run: only say what would be deleted.

        Raises:
            InvalidInputError: the connection has no writer, and none is named.
            NotFoundError: the database has no such writer.
            ForkError: the history has a fork that nobody has decided.
            CorruptObjectError: a transaction or checkpoint isn't what the others say. Nothing was deleted.
            ConflictError: others prune at the same time.

        Cost: see `firn.journal.writer.maintain.prune`: 1 GET a transaction, and 1 DELETE each that goes.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://", writer="host-17")
            >>> cpu = db.create_table("cpu", journal="writer")
            >>> for load in (0.5, 0.25, 0.75):
            ...     _ = cpu.append([{"host": "a", "load": load}])
            >>> report = db.prune("0s")
            >>> report.floor, len(report.deleted) > 0, cpu.scan().count()
            (3, True, 3)
        """
        from firn.journal.writer.maintain import prune as pruning
        from firn.journal.writer.maintain.prune import PruneReport

        age = parse_duration_ms(RETENTION if older_than is None else older_than)
        history = self._history_of(writer)
        version = history.load()
        if version.head.revision == 0 and version.fork is None:
            return PruneReport(dry_run=dry_run)  # whoever hasn't begun leaves no trace, not even a clock's
        return pruning.prune(history, older_than_ms=age, dry_run=dry_run)

    def sweep(
        self, orphans: Duration | None = None, *, writer: str | None = None, dry_run: bool = False
    ) -> SweepReport:
        """Delete what no retained revision of a writer needs: data files of all its tables, those that were dropped
        too, and markers. `prune` says first which revisions are retained.

        Args:
            orphans: how old a file must be that no transaction has named: longer than any append takes. By default
                its table's `orphan_age`, at least 7 days.
            writer: whose files; the connection's own writer's by default.
            dry_run: only say what would be deleted.

        Raises:
            InvalidInputError: the connection has no writer, and none is named.
            NotFoundError: the database has no such writer.
            ForkError: the history has a fork that nobody has decided. Nothing was deleted.
            CorruptObjectError: a transaction or checkpoint can't be read, so that nobody knows what it needs.
                Nothing was deleted.

        Cost: see `firn.journal.writer.maintain.collect`: 1 GET a transaction and a file that is to go, and the
        DELETEs.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://", writer="host-17")
            >>> _ = db.create_table("cpu", journal="writer").append([{"host": "a", "load": 0.5}])
            >>> len(db.drop_table("cpu").objects)
            1
            >>> for _ in range(2):
            ...     _ = db.create_table("cpu", journal="writer")
            ...     _ = db.drop_table("cpu")
            >>> _ = db.prune("0s")
            >>> len(db.sweep("0s").data_files)
            1
        """
        from firn.journal.writer.maintain import collect

        age = orphan_ages(self._writer_tables) if orphans is None else parse_duration_ms(orphans)
        return collect.collect(self._history_of(writer), orphan_age_ms=age, dry_run=dry_run).as_sweep()

    def rebuild(
        self,
        *,
        writer: str | None = None,
        keep: Sequence[str] = (),
        force: bool = False,
        dry_run: bool = False,
    ) -> RebuildReport:
        """Bring a writer's catalog back that is lost, wholly or in part: from the transactions, checkpoints and
        claims that can be read, and from what markers and data files say of themselves.

        A whole catalog is left as it is. Run again, it changes nothing; after a crash, it ends what was begun. Stop
        every process of that writer first. The report names what it can't tell, and no object of that is touched.

        Args:
            writer: whose catalog; the connection's own writer by default.
            keep: beginnings of transactions' uuids that count where nothing else decides between two.
            force: bring back the files that no transaction names, too, though nothing says that anything is lost.
            dry_run: only say what it would write.

        Raises:
            InvalidInputError: the connection has no writer, and none is named.
            NotFoundError: nothing is left of such a writer.
            ForkError: two transactions of one revision, and nothing tells which one counted; see `keep`.
            CorruptObjectError: transactions that can be read contradict one another.

        Cost: see `firn.lake.maintain.rebuild`: 1 GET a transaction, the footers of files that no transaction adds,
        read by Spark's tasks where a session is active; 1 PUT a transaction that is lost, and 3.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://lost", writer="host-17")
            >>> cpu = db.create_table("cpu", journal="writer")
            >>> _ = cpu.append([{"host": "a", "cores": 4}, {"host": "b", "cores": 8}])
            >>> _ = cpu.delete("host = 'a'")
            >>> _ = cpu.append([{"host": "c", "cores": 2}])
            >>> for name in ("transactions", "claims"):
            ...     db.bucket.delete_many(i.key for i in db.bucket.list(f"host-17/lost/{name}/").objects)
            >>> report = firn.connect("memory://lost", writer="host-17").rebuild()
            >>> report.rebuilt, len(report.files)
            ((1, 2, 3, 4, 5), 2)
            >>> firn.connect("memory://lost").table("cpu").scan().to_arrow().to_pylist()
            [{'host': 'b', 'cores': 8}, {'host': 'c', 'cores': 2}]
        """
        from firn.lake.maintain import rebuild as rebuilding

        report = rebuilding.rebuild(
            self.bucket,
            self._history_of(writer).layout,
            self.engines.runner(0),  # footers are small, however many
            dry_run=dry_run,
            force=force,
            keep=keep,
            progress=self.engines.progress("rebuild"),
        )
        if not dry_run and not report.healthy:
            self._writer_tables.federation.record_name()  # it may be lost, too
        return report

    def repair(self, keep: str, *, writer: str | None = None, dry_run: bool = False) -> RepairReport:
        """Decide a fork: of two transactions that processes under one writer's id wrote for one revision, `keep`
        counts. The others' changes are gone for good, as far as their rows are in no file that was kept.

        Stop every process of that writer first. `firn log` shows both sides.

        Args:
            keep: the transaction's uuid, or so much of its beginning that it is the only one.
            writer: whose history; the connection's own writer by default.
            dry_run: verify the branch to be kept, and say what would be decided.

        Raises:
            InvalidInputError: there is no fork, or `keep` is on no side of it; the connection has no writer, and
                none is named.
            NotFoundError: no such transaction, or no such writer.
            CorruptObjectError: the branch lacks data files or transactions. Nothing was written.
            ForkError: another process still writes under this id.

        Cost: see `firn.journal.writer.unclaimed.repair`.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://", writer="host-17", options={"conditional_put": "disabled"})
            >>> _ = db.create_table("cpu", journal="writer")
            >>> db.repair("0badcafe")
            Traceback (most recent call last):
            firn.errors.InvalidInputError: memory://host-17/db has no fork: every revision is decided. ...
        """
        from firn.journal.writer.unclaimed import repair as repairing

        return repairing.repair(self.bucket, self._history_of(writer).layout, keep, dry_run=dry_run)

    def _history_of(self, writer: str | None) -> History:
        """The writer's that was named, or the connection's own."""
        from firn.journal.writer.federation.federation import check_known

        tables = self._writer_tables
        if writer is None or writer == tables.writer:
            return tables.own.history
        check_known([writer], tables.federation.writers(), self.url)
        return tables.federation.history(writer)


def orphan_ages(tables: WriterTables) -> Ages:
    """Each table's `orphan_age` in milliseconds, at least the default; of one that needs a newer Firn, longer than
    any file is old. The definitions are read when the first table is asked for."""
    from firn.journal.writer.settings import WriterSettings

    usual = WriterSettings().orphan_age_ms
    known: dict[str, int] | None = None

    def age(table: str) -> int:
        nonlocal known
        if known is None:
            known = {
                name: sys.maxsize if found is None else max(usual, found.orphan_age_ms)
                for name, found in tables.settings().items()
            }
        return known.get(table, usual)

    return age
