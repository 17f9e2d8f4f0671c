"""`Database`: a bucket prefix and the tables below it, of all kinds: see `firn.database.kinds`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from firn.arguments import checked
from firn.bucket import open_bucket, split_url
from firn.bucket.base import Bucket
from firn.bucket.options import StoreOptions
from firn.concurrency.at_exit import close_of
from firn.concurrency.once import Once
from firn.database.engines import DatabaseEngines, query_limits
from firn.database.kinds.kind import KindsAt, Place, check_kind, check_options
from firn.database.tables import Tables
from firn.database.transactions import Transactions
from firn.database.upkeep import WriterUpkeep
from firn.errors import FirnError, InvalidInputError, UnsupportedError
from firn.journal.lock import ExclusiveLock
from firn.keeping import Interval, Keeping, KeepReport
from firn.kinds import Kind
from firn.names import check_name
from firn.runner import Runner
from firn.units import Duration, Size, parse_size

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from firn.database.copies import CopyReport
    from firn.database.kinds.records import AnyRecordTable, RecordTables
    from firn.database.tables import AnyTable
    from firn.database.writer_tables import WriterTables, WriterTransaction
    from firn.keyed.table import KeyedTable
    from firn.lake.results import DropReport, MendReport
    from firn.lake.table import LakeTable
    from firn.records.definition.definition import Index, Isolation
    from firn.records.row_tables import RowTable
    from firn.records.table import RecordTable
    from firn.sql.result import Result

Engine = Literal["duckdb", "spark"]
"""The engine that runs `Database.sql`."""


def connect(
    url: str | os.PathLike[str],
    *,
    options: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
    runner: Runner | None = None,
    lock: ExclusiveLock | None = None,
    writer: str | None = None,
    strict: bool = False,
    engine: Engine | None = None,
    in_process: Size | None = None,
    spill: str | os.PathLike[str] | None = None,
    allow_files: Sequence[str | os.PathLike[str]] = (),
) -> Database:
    """Open a database: a prefix of a bucket, or a directory. Nothing is read or written yet.

    Args:
        url: `s3://bucket/prefix`, `gs://…`, `az://container/…`, a directory, or `memory://` (a fresh one;
            `memory://name` is shared within the process).
        options: obstore's configuration names (`aws_region`, `endpoint`, …) and client options
            (`allow_http`, `timeout`, …). Credentials come from the usual environment unless given here.
        spark: the session for pipeline work; else the active one, or one that Firn starts when it needs it.
        runner: where maintenance tasks run, instead of Spark or this process.
        lock: an exclusive lock from outside, for stores without conditional puts; see `firn.ExclusiveLock`.
        writer: this process's id among the writers of tables with `journal="writer"`: letters, digits, `_ - .`,
            at most 100. No other process may use it at the same time. Without one such tables are only read.
        strict: refuse to read tables of writers' catalogs while any writer's can't be read. Else that writer
            is left out, and `Snapshot.warnings` and `Database.writers` say so.
        engine: which runs `Database.sql` unless the call says so: "duckdb" in this process, or "spark". By default
            Spark if `spark` is given, else DuckDB.
        in_process: as many bytes as a query may read into this process, like "200GB"; by default "64GB" of a
            directory, "8GB" of a bucket. A query that would read more is refused before it reads.
        spill: a directory below which queries in this process put rows that don't fit into 60 % of its memory,
            readable by this user alone, and emptied by `close`. By default nothing is written: such a query fails.
        allow_files: directories, and bucket prefixes like `s3://bucket/exports`, below which COPY may read and write
            files. By default there is none, and none lies in the database itself.

    Raises:
        InvalidInputError: a scheme, an option, a size or an id that can't be.

    Example:
        >>> import firn
        >>> db = firn.connect("memory://")
        >>> db.create_table("events", partition_by=["day(ts)"]).name
        'events'
        >>> db.tables()
        ['events']
    """
    return Database(
        url,
        options=options,
        spark=spark,
        runner=runner,
        lock=lock,
        writer=writer,
        strict=strict,
        engine=engine,
        in_process=in_process,
        spill=spill,
        allow_files=allow_files,
    )


def split_table_url(url: str) -> tuple[str, str]:
    """A table's URL as its database's URL and its name.

    >>> split_table_url("./prod/flights")
    ('./prod', 'flights')
    """
    base, _, name = url.rstrip("/").rpartition("/")
    if not base or base.endswith(":/"):
        raise InvalidInputError(
            f"{url!r} isn't a table's URL: it needs a database and a table, like ./prod/flights."
        )
    return base, name


def _check_engine(engine: str | None) -> None:
    if engine not in (None, "duckdb", "spark"):
        raise InvalidInputError(f"engine={engine!r}: it can be 'duckdb' or 'spark'.")


@checked
class Database(Transactions, WriterUpkeep):
    """Tables of one prefix. Made by `connect`; safe to share between threads."""

    def __init__(
        self,
        url: str | os.PathLike[str],
        *,
        options: Mapping[str, Any] | None = None,
        spark: SparkSession | None = None,
        runner: Runner | None = None,
        lock: ExclusiveLock | None = None,
        writer: str | None = None,
        strict: bool = False,
        engine: Engine | None = None,
        in_process: Size | None = None,
        spill: str | os.PathLike[str] | None = None,
        allow_files: Sequence[str | os.PathLike[str]] = (),
    ) -> None:
        root, prefix = split_url(url)
        self.url = os.fspath(url)
        self.options: Mapping[str, Any] = StoreOptions(options or {})
        self.lock = lock
        _check_engine(engine)
        self._engine: Engine = engine or ("duckdb" if spark is None else "spark")
        self._chosen = (
            "engine= of the connection"
            if engine
            else "the default"
            if spark is None
            else "the connection's session"
        )
        self.prefix = prefix
        self.bucket: Bucket = open_bucket(root, options=self.options)
        limits = query_limits(self.bucket, prefix, self.options, in_process, spill, allow_files)
        self.engines = DatabaseEngines(self.bucket, self.url, spark, runner, limits)
        self._writer, self._strict = writer, strict
        self._writers = Once(self._open_writers)
        if writer is not None:
            self._writers()  # which refuses an id that can't be
        place = Place(self.bucket, self.prefix, self.url, self.options, self.engines, self._writers, lock)
        self._opened = Tables(self.bucket, self.prefix, self.url, KindsAt(place), self._writers)

    def _open_writers(self) -> WriterTables:
        from firn.database.writer_tables import WriterTables

        return WriterTables(
            self.bucket, self.prefix, self.url, self.engines, writer=self._writer, strict=self._strict
        )

    @property
    def _tables(self) -> Tables:
        self._must_be_open()
        return self._opened

    @property
    def _writer_tables(self) -> WriterTables:
        self._must_be_open()
        return self._writers()

    def _must_be_open(self) -> None:
        self.engines.must_be_open()

    @property
    def _records(self) -> RecordTables:
        return cast("RecordTables", self._tables.kinds["records"])

    def __repr__(self) -> str:
        return f"<Database {self.url}{' (closed)' if self.engines.closed else ''}>"

    def close(self) -> None:
        """End what runs on behalf of this connection: appenders append what they have, within 5 s together, keyed
        writers are flushed and closed, commits of record tables are applied, and rows that stand in the catalog of
        the connection's writer are written into files. Closing again is fine. `with firn.connect(…) as db` closes it
        at the end.

        Afterwards the connection, its transactions, its writers and the results of its queries raise
        `DatabaseClosedError` or say that they are closed. Tables that it gave hold nothing open: a lake table, and
        scans of it, can be read on.

        Raises:
            FencedError: another writer has opened a keyed table; what wasn't acknowledged may or may not count.
            AppenderError: not all rows of an appender were appended in time: its `unsent` has them.

        Example:
            >>> import firn
            >>> with firn.connect("memory://") as db:
            ...     _ = db.create_table("flights").append([{"origin": "DTW"}])
            >>> db.table("flights")
            Traceback (most recent call last):
            firn.errors.DatabaseClosedError: the connection to memory:// is closed: connect again.
        """
        if not self.engines.closed:
            if (writers := self._writers.made) is not None:
                writers.close()
            self.engines.closed = True
            close_of(self.engines)

    def __enter__(self) -> Database:
        self._must_be_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except FirnError:
            if error is None:  # else the block's own error is the one to see
                raise

    def __getitem__(self, name: str) -> AnyTable:
        """The table of that name: `db["flights"]` is `db.table("flights")`."""
        return self.table(name)

    def _ipython_key_completions_(self) -> list[str]:
        return self.tables()

    @overload
    def create_table(
        self,
        name: str,
        *,
        kind: Literal["lake"] = ...,
        schema: pa.Schema | Mapping[str, str] | None = ...,
        partition_by: Sequence[str] = ...,
        sort_by: Sequence[str] = ...,
        key: Sequence[str] = ...,
        version_by: str | None = ...,
        journal: str = ...,
        properties: Mapping[str, Any] | None = ...,
    ) -> LakeTable: ...

    @overload
    def create_table(
        self,
        name: str,
        *,
        kind: Literal["keyed"],
        schema: pa.Schema | Mapping[str, str] | None = ...,
        key: Mapping[str, str] | None = ...,
        merge_operator: str | Mapping[str, str] | None = ...,
        ttl: float | str | timedelta | None = ...,
        properties: Mapping[str, Any] | None = ...,
    ) -> KeyedTable: ...

    @overload
    def create_table(
        self,
        name: str,
        *,
        kind: Literal["records"],
        schema: pa.Schema | Mapping[str, Any] | None = ...,
        indices: Iterable[str | Index] = ...,
        isolation: Literal["snapshot"] = ...,
        properties: Mapping[str, Any] | None = ...,
    ) -> RecordTable: ...

    @overload
    def create_table(
        self,
        name: str,
        *,
        kind: Literal["records"],
        schema: pa.Schema | Mapping[str, Any] | None = ...,
        isolation: Literal["row"],
        properties: Mapping[str, Any] | None = ...,
    ) -> RowTable: ...

    def create_table(
        self,
        name: str,
        *,
        kind: Kind = "lake",
        schema: pa.Schema | Mapping[str, Any] | None = None,
        partition_by: Sequence[str] = (),
        sort_by: Sequence[str] = (),
        key: Sequence[str] | Mapping[str, str] | None = None,
        version_by: str | None = None,
        merge_operator: str | Mapping[str, str] | None = None,
        ttl: float | str | timedelta | None = None,
        journal: str = "leaderless",
        indices: Iterable[str | Index] = (),
        isolation: Isolation = "snapshot",
        properties: Mapping[str, Any] | None = None,
    ) -> AnyTable:
        """Create a table.

        Args:
            name: letters, digits, `_ - .`, at most 100, not beginning with `_`.
            kind: "lake": rows in Parquet files, any number of writers. "keyed": sorted keys, one writer. "records":
                JSON documents by id and through indices, changed in transactions, any number of writers.
            schema: an Arrow schema, or DuckDB type names by column; else the first append decides. For a keyed
                table: the columns of its values; else values are bytes. For a record table: the fields that documents
                may have, or a JSON schema that they follow; else any JSON object is one.
            partition_by: columns or transforms: `col`, `year(col)`, `month(col)`, `day(col)`, `hour(col)`,
                `bucket(16, col)`, `truncate(4, col)`.
            sort_by: columns by which each file is sorted, like `"date"` or `"delay desc"`; by default the key.
            key: columns of which no two rows have the same values: a row that is appended replaces the one of
                its key. It includes all columns that the table is partitioned by. See docs/howto/keys.md. For a keyed
                table: the DuckDB types of its keys by name, like `{"state": "VARCHAR", "year": "BIGINT"}`; else
                keys are bytes. docs/howto/keyed.md has the types that keys can have.
            version_by: a column of a table with a key; the row of the greatest value replaces, whichever came
                last.
            merge_operator: how `merge` combines operands with the value of a key in a keyed table: "add", "max",
                "min", "append", "json_merge" or "module:function"; or one of these for each column, by name.
            ttl: how long an entry of a keyed table lives, unless its put says otherwise.
            journal: "leaderless": any process appends, maintenance takes a lock. "writer": each writer has a
                history of its own in this database, and `connect` needs `writer=`.
            indices: the fields by which rows of a record table are found: names, dotted paths into documents, or
                `firn.Index(field, unique=True)`; `firn.Index(field, each=True)` for the elements of lists.
            isolation: of a record table. "snapshot": in transactions. "row": one by one, at one PUT a write, without
                transactions and indices.
            properties: see docs/howto/properties.md.

        Raises:
            TableExistsError: the name is taken.
            InvalidInputError: a name, type, transform or property that can't be.
            UnsupportedError: a keyed or record table in a store without conditional puts.

        Cost: 1 PUT + 1 LIST; of a keyed table 2 PUTs, 3 GETs and 2 LISTs; of a record table 3 PUTs, 2 GETs and
        1 LIST, and what beginning a transaction costs.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> delays = db.create_table("delays", kind="keyed")
            >>> with delays.open() as kv:
            ...     kv.put(b"DTW", b"66")
            >>> delays.reader().get(b"DTW")
            b'66'
        """
        check_name(name)
        check_kind(kind)
        given: dict[str, Any] = {
            option: value
            for option, value, default in (
                ("partition_by", partition_by, ()),
                ("sort_by", sort_by, ()),
                ("version_by", version_by, None),
                ("journal", journal, "leaderless"),
                ("key", key, None),
                ("merge_operator", merge_operator, None),
                ("ttl", ttl, None),
                ("indices", indices, ()),
                ("isolation", isolation, "snapshot"),
            )
            if value != default and value not in ([], {}, ())
        }
        check_options(kind, given)
        return cast(
            "AnyTable",
            self._tables.create(name, kind, {"schema": schema, "properties": properties or {}, **given}),
        )

    @overload
    def table(self, name: str, *, kind: Literal["lake"]) -> LakeTable: ...

    @overload
    def table(self, name: str, *, kind: Literal["keyed"]) -> KeyedTable: ...

    @overload
    def table(self, name: str, *, kind: Literal["records"]) -> AnyRecordTable: ...

    @overload
    def table(self, name: str) -> AnyTable: ...

    def table(self, name: str, *, kind: Kind | None = None) -> Any:
        """Open a table: a `LakeTable`, a `KeyedTable`, or a `RecordTable` (or `RowTable`). 1 GET; where there is no
        definition, 1 LIST to find a log of the reference's.

        Args:
            kind: "lake", "keyed" or "records": the one that the caller can do with.

        Raises:
            TableNotFoundError: no such table; the message names similar ones.
            InvalidInputError: the table is of another kind than `kind`.
        """
        check_name(name)
        if kind is not None:
            check_kind(kind)
        return self._tables.find(name, kind)

    def tables(self, kind: Kind | None = None) -> list[str]:
        """Names of all tables, sorted; with `kind`, of those only. 1 LIST + 1 GET a directory; a second LIST for
        those without definition. Where there are writers, also what reading all of them costs."""
        return self._tables.names(kind)

    def drop_table(self, name: str, *, dry_run: bool = False) -> DropReport:
        """Delete a table.

        A table with a log of its own goes with all its objects, at once and for good: no grace, no way back.
        The definition goes first to a state in which nobody opens the table; a crash leaves it there, and
        dropping or creating it again ends the work. Registered files outside the table stay.

        The definition stays, marked as dropped, so that the next table of the name has objects of its own, and no
        process that is late in the drop can harm it. Open transactions see a record table's rows vanish.

        In writers' catalogs, the connection's writer drops its own part of the table by one commit; `prune`
        and `sweep` give the space back. Other writers' rows stay until they drop theirs.

        Args:
            dry_run: only say what would be deleted.

        Raises:
            TableNotFoundError: no such table.
            InvalidInputError: the table is of writers' catalogs, and the connection has no writer.

        Cost: 3 GETs, 1 PUT, 1 LIST sequence and the DELETEs; with the log in another store 2 LIST sequences more; of
        a table that is shared with the reference 1 GET and 1 PUT more.
        A keyed table costs 4 GETs, 1 GET a checkpoint, 1 PUT, 3 LIST sequences and the DELETEs; a clone also the
        release of its parent. A table of writers' catalogs costs a read of all writers, and one commit.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> _ = db.create_table("events").append([{"n": 1}])
            >>> planned = db.drop_table("events", dry_run=True)
            >>> db.tables(), db.drop_table("events").objects == planned.objects, db.tables()
            (['events'], True, [])
        """
        check_name(name)
        return self._tables.drop(name, dry_run=dry_run)

    def mend_table(self, name: str, *, dry_run: bool = False) -> MendReport:
        """Write damaged or missing small objects of a lake table on the leaderless log anew: its definition, from the
        copy in its log, the record of sweeps, and logs that the checkpoint has. A damaged log that a later one
        carries whole is deleted, and older versions with it. Rows stay as they are.

        Args:
            dry_run: only say which.

        Raises:
            CorruptObjectError: no log has a copy of the definition, or no object what a damaged log said; the
                message says what to do.
            NotFoundError: the table has no leaderless log.

        Cost: 1 LIST, 3 GETs and 1 GET a log, and 1 PUT or DELETE a mended object.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> _ = db.create_table("t", sort_by=["n"]).append([{"n": 1}])
            >>> db.bucket.delete("t/_firn/table.json")
            >>> db.mend_table("t").objects, db.table("t").scan().count()
            (('memory://t/_firn/table.json',), 1)
        """
        check_name(name)
        return self._tables.mend(name, dry_run=dry_run)

    def writer_transaction(self) -> WriterTransaction:
        """Change several tables with `journal="writer"` at once: in one revision of this connection's writer, when
        the block ends without an error. After an error, or a crash at any moment, nothing of it is visible.

        Cost: the files' PUTs, and one commit: 1 PUT + 2 LISTs, or with conditional puts 2 PUTs + 1 GET; 1 PUT more
        where rows or files are deleted.

        Raises:
            InvalidInputError: the connection has no writer.
            ConflictError: another process of the same writer replaced what the transaction changes.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://", writer="host-17")
            >>> for name in ("cpu", "mem"):
            ...     _ = db.create_table(name, journal="writer")
            >>> with db.writer_transaction() as tx:
            ...     _ = tx.append("cpu", [{"host": "a", "load": 0.5}])
            ...     _ = tx.append("mem", [{"host": "a", "free": 1024}])
            >>> tx.version, db.table("mem").scan().to_arrow().num_rows
            ('host-17=3', 1)
        """
        return self._writer_tables.writer_transaction(self)

    def views(self, spark: SparkSession | None = None) -> dict[str, str]:
        """Register every table of the database as a temporary view of a Spark session, each at one version, all
        record tables at one commit: for code that calls `spark.sql` itself. Views of these names are replaced; tables
        without columns have none. Call it again to see newer versions.

        Spark doesn't tell names apart that differ in case only: there is a warning, and one of them has the view.

        Args:
            spark: the session; by default the connection's.

        Returns the version of each view's table.

        Cost: 1 LIST, and opening each table and its snapshot.
        """
        from firn.sql.on_spark import register_views

        return register_views(self, spark or self.engines.session())

    def checkpoint(self) -> dict[str, int]:
        """Write replay caches: of every table with a log of its own, and of every writer.

        By the name of the table, the logs that its cache holds; by the name of the writer, the transactions that
        readers needn't replay any more. Writers that can't be read are left out: `writers` tells which.

        Cost: that of `LakeTable.checkpoint` for each table; for each writer what reading it costs, 1 LIST + 2 PUTs.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://", writer="host-17")
            >>> _ = db.create_table("cpu", journal="writer")
            >>> _ = db.create_table("events").append([{"n": 1}])
            >>> db.checkpoint()
            {'events': 1, 'host-17': 1}
        """
        covered = {}
        for name in self.tables("lake"):
            table = self.table(name, kind="lake")
            if table.context.definition.journal != "writer":
                covered[name] = table.checkpoint()
        return {**covered, **self._writer_tables.federation.checkpoint()}

    def keep(
        self,
        tables: str | Sequence[str] | None = None,
        *,
        once: bool = False,
        stop: threading.Event | None = None,
        interval: Interval | None = None,
        budget: Duration | None = None,
        tell: Callable[[KeepReport], None] | None = None,
    ) -> dict[str, KeepReport]:
        """Keep tables small until `stop` is set: fold, merge, sweep, compact, collect, whatever each kind needs.

        Any number of processes keep a database at once; none waits for a lock. Keyed tables are compacted where
        nobody has for a minute. Of writers' catalogs the connection's writer's part is kept, if it has one: only in
        that writer's process. An error of one table doesn't hold up the others; see `LakeTable.keep`.

        Args:
            tables: only these. By default all but those that are shared with the reference: others may maintain them.
            once: one round of each table, in which rows of logs become files however few they are.
            stop: ends it, after the commit under way.
            interval: how long it rests: a duration, or the least and the greatest like "1s..60s". It rests for the
                least after work, and for twice as long each time that there was nothing to do.
            budget: a round begins nothing more after so long.
            tell: called with the report of each table's turn in which there was anything to do, or that failed.

        Returns what it did, by table; all record tables, which share a log, as "record tables".

        Raises:
            TableNotFoundError: there is no table of a name that was given.
            UnsupportedError: the store has no conditional puts, and no lock was given.

        Cost: where there is nothing to do, a round is 1 LIST a lake table, 2 GETs and 1 LIST a keyed table, and 2
        requests for all record tables; every 5 minutes also that of `tables`.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> t = db.create_table("t", properties={"inline": "64KB"})
            >>> for n in range(3):
            ...     _ = t.append([{"n": n}])
            >>> db.keep(once=True)["t"].commits
            3
        """
        from firn.database.keep import KeptTables

        self._must_be_open()
        keeping = Keeping.asked(once, stop, interval, budget, tell)
        names = [tables] if isinstance(tables, str) else tables
        if not self.bucket.capabilities.conditional_put and self.lock is None:
            raise UnsupportedError(
                f"{self.url}: keeping tables needs a lock, and this store has no conditional puts to make one of. "
                "Pass one: firn.connect(url, lock=firn.FileLock(directory))."
            )
        return keeping.run(KeptTables(self._tables, names).turns)

    def copy(
        self, source: str, target: str, *, changes: bool = False, at: str | int | None = None
    ) -> CopyReport:
        """Copy a record table's rows, or each change of them, into a lake table, where they are read as files. The
        target is made if it isn't there. On Spark where there are 10,000 rows or more and a session is active or
        given, or they have more than 64 MB.

        Without `changes` all rows are appended as they were at one commit: `_id`, then the declared columns, or else
        `document`, the JSON. To copy one commit's again changes nothing.

        With `changes` everything that was committed since the last such call is appended, each put and delete
        once, whatever crashed and however many copy at the same time: `_id`, the columns, `_kind` ("put" or "delete")
        and `_seq`, the number of the commit. The first call begins with all rows as puts. A target that is made with
        `key=["_id"], version_by="_seq"` keeps the last change of each row.

        Args:
            source: a record table with isolation="snapshot".
            target: a lake table with a log of its own.
            at: the commit, by its number: now by default.

        Raises:
            SnapshotTooOldError: changes that weren't copied are swept: copy at least once within a sweep's
                `older_than`.
            InvalidInputError: a table of another kind, or columns that the target can't take.
            UnsupportedError: the target is of writers' catalogs.

        Cost: beginning a transaction. Rows: 1 LIST sequence, 1 GET a row, and an append. Changes: 1 GET, and 1 GET a
        commit that isn't in memory; where there is something new 2 PUTs and an append, the first time also as rows.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> stock = db.create_table("stock", kind="records")
            >>> _ = stock.insert("DTW", {"planes": 5})
            >>> db.copy("stock", "history", changes=True).rows
            1
            >>> _ = stock.update("DTW", {"planes": 4})
            >>> stock.delete("DTW")
            >>> db.copy("stock", "history", changes=True).rows, db.copy("stock", "history", changes=True).rows
            (2, 0)
            >>> db.table("history").scan().to_arrow().sort_by("_seq").column("_kind").to_pylist()
            ['put', 'put', 'delete']
        """
        from firn.database.copies import copy

        check_name(source)
        check_name(target)
        return copy(
            self.table(source, kind="records"),
            lambda: self.table(target, kind="lake"),
            lambda columns: self.create_table(target, schema=columns),
            changes=changes,
            at=at,
        )

    def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, Any] | None = None,
        engine: Engine | None = None,
        fence: bool = False,
        script: bool = False,
        in_process: Size | None = None,
        verify: bool = False,
    ) -> Result:
        """Run one query or statement over the database's tables, of all kinds: in this process on DuckDB, or a query
        on Spark.

        A query is written in the SQL of the engine that runs it; nothing is translated. Each table is read at one
        version, all record tables at one commit, and only the files and columns that the query may need. A query's
        result is lazy: each of its outputs computes it. Other statements run at once; docs/howto/sql.md lists them.

        Args:
            query: one query, with its CTEs, or one statement. Names of tables match exactly, else in any case.
            parameters: values for `?`, or by name for `$name` (on Spark `:name`).
            tables: rows that this query can name besides: Arrow, pandas, polars, a list of dicts, a Spark DataFrame,
                a `Scan` or a `Result`, by name.
            engine: "duckdb" or "spark"; by default the connection's: Spark if `connect` was given a session, else
                DuckDB.
            fence: whether a statement may take a keyed table over from its writer, where this connection has none.
            script: whether the text may hold several statements, with `;` between, and transactions from BEGIN to
                COMMIT. The first error ends it; the answer is the last one's. Parameters are by name.
            in_process: as many bytes as the query may read into this process; by default the connection's.
            verify: read all files through Firn, which compares the checksums of their footers with the log's, where
                DuckDB would read them itself. Takes some times as long; not on Spark.

        Raises:
            TableNotFoundError: a table that isn't there; the message names similar ones.
            InvalidInputError: text that can't be parsed, or reaches outside of the tables; unknown columns.
            UnsupportedError: a statement that this kind of table, or Spark, doesn't have; in a transaction of a
                script `in_process` or `verify`.
            QueryTooLargeError: a query would read more than `in_process`, or needs more memory than it may have.
            CardinalityError: two rows of a source would change one row of a table.
            CorruptObjectError: with `verify`, a file isn't the one that was written; when rows are asked for.

        Cost: opening each table and its snapshot; then what the outputs read, or what the statement's verb costs.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> _ = db.create_table("flights").append([{"origin": "DTW", "delay": 66}, {"origin": "HNL", "delay": 9}])
            >>> airports = db.create_table("airports", kind="records", schema={"city": "VARCHAR"})
            >>> _ = airports.insert("DTW", {"city": "Detroit"})
            >>> db.sql("SELECT city, delay FROM flights JOIN airports ON origin = _id").to_arrow().to_pylist()
            [{'city': 'Detroit', 'delay': 66}]
            >>> db.sql("UPDATE flights SET delay = 0 WHERE origin = ?", ["HNL"]).outcome.rows_updated
            1
        """
        from firn.sql.result import Result
        from firn.sql.run import Statements

        self._must_be_open()
        _check_engine(engine)
        if script:
            from firn.sql.script import run_to_last

            named = cast("Mapping[str, Any] | None", parameters)
            options = {"engine": engine, "fence": fence, "in_process": in_process, "verify": verify}
            on_spark = (engine or self._engine) == "spark"
            return run_to_last(self, query, named, on_spark=on_spark, tables=tables, **options)
        session = self.engines.session if (engine or self._engine) == "spark" else None
        if verify and session is not None:
            raise UnsupportedError('verify=True: Spark reads files by itself. Use engine="duckdb" with it.')
        limits = replace(self.engines.limits, verify=verify)
        if in_process is not None:
            limits = replace(limits, in_process=parse_size(in_process))
        because = "engine= of the call" if engine else self._chosen
        statements = Statements(self, tables, fence=fence, session=session, limits=limits, because=because)
        return Result(statements.run(query, parameters), self.engines.session, self.engines.must_be_open)
