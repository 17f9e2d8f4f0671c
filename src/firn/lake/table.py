"""`LakeTable`: the handle that users hold. Every verb is one call into the module that does it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from firn.alter import AlterResult
from firn.arguments import checked
from firn.arrow.types import arrow_schema
from firn.bucket.base import Bucket
from firn.deferred import DeferredModule
from firn.journal.model import CommitInfo, LakeJournal, Places, Snapshot, SweepReport
from firn.keeping import Interval, Keeping, KeepReport
from firn.lake.context import LakeContext
from firn.lake.definition.definition import LakeDefinition
from firn.lake.definition.keys import KeySpec
from firn.lake.partition.partition import PartitionSpec
from firn.lake.read.placed import placed
from firn.lake.read.scan import Scan
from firn.runner import Engines, InProcess
from firn.units import Duration, parse_duration

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.errors import FirnError
    from firn.lake import aio as async_tables
    from firn.lake.aio import AsyncLakeTable
    from firn.lake.appender import appender as appenders
    from firn.lake.appender import batches as appender_batches
    from firn.lake.appender import queue as appender_queue
    from firn.lake.appender.appender import Appender
    from firn.lake.keep import one_table
    from firn.lake.maintain import alter as altering
    from firn.lake.maintain import alteration, key_verbs, lost_files, retention
    from firn.lake.maintain import delete as deleting
    from firn.lake.maintain import merge as merging
    from firn.lake.maintain import overwrite as overwriting
    from firn.lake.maintain import restore as restoring
    from firn.lake.maintain import rewrite as rewriting
    from firn.lake.maintain.alter import ColumnConflict, TableDefinition
    from firn.lake.maintain.matching import clauses as merge_clauses
    from firn.lake.maintain.matching.clauses import MergeClause
    from firn.lake.results import AppendResult, ChangeResult, ForgetResult, Partition
    from firn.lake.write import append as appends
    from firn.lake.write import register as registered
else:  # reads don't need these
    alteration = DeferredModule("firn.lake.maintain.alteration")
    altering = DeferredModule("firn.lake.maintain.alter")
    appender_batches = DeferredModule("firn.lake.appender.batches")
    appender_queue = DeferredModule("firn.lake.appender.queue")
    appenders = DeferredModule("firn.lake.appender.appender")
    appends = DeferredModule("firn.lake.write.append")
    deleting = DeferredModule("firn.lake.maintain.delete")
    async_tables = DeferredModule("firn.lake.aio")
    key_verbs = DeferredModule("firn.lake.maintain.key_verbs")
    lost_files = DeferredModule("firn.lake.maintain.lost_files")
    merge_clauses = DeferredModule("firn.lake.maintain.matching.clauses")
    merging = DeferredModule("firn.lake.maintain.merge")
    one_table = DeferredModule("firn.lake.keep.one_table")
    overwriting = DeferredModule("firn.lake.maintain.overwrite")
    registered = DeferredModule("firn.lake.write.register")
    restoring = DeferredModule("firn.lake.maintain.restore")
    retention = DeferredModule("firn.lake.maintain.retention")
    rewriting = DeferredModule("firn.lake.maintain.rewrite")

At = str | int | datetime | None
Size = int | str


@checked
class LakeTable:
    """A table of Parquet files behind a journal. Safe to use from several threads and processes at once.

    Get one from `Database.create_table` or `Database.table`.
    """

    kind: Final = "lake"

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        definition: LakeDefinition,
        journal: LakeJournal,
        engines: Engines | None = None,
    ) -> None:
        self.context = LakeContext(bucket, prefix, definition, journal, engines or InProcess())
        self._aio: AsyncLakeTable | None = None

    def __repr__(self) -> str:
        return f"<LakeTable {self.bucket.uri(self.prefix)}>"

    @property
    def bucket(self) -> Bucket:
        return self.context.bucket

    @property
    def prefix(self) -> str:
        return self.context.prefix

    @property
    def journal(self) -> LakeJournal:
        return self.context.journal

    @property
    def name(self) -> str:
        return self.context.name

    @property
    def places(self) -> Places:
        """Where the table's data files lie."""
        return self.context.places

    @property
    def partition_spec(self) -> PartitionSpec:
        return self.context.partition_spec

    @property
    def keys(self) -> KeySpec | None:
        """The key by which rows are versions of one row, if the table has one."""
        return self.context.keys

    # -- writing

    def append(self, data: Any, *, batch_id: str | None = None, query: str | None = None) -> AppendResult:
        """Add rows. Atomic: all of them become visible at once, or none.

        Any number of processes append at the same time and never conflict (papers: "Log file(s)"). Texts for a column
        that is UUID, JSON or ENUM become values of that type.

        Args:
            data: an Arrow table, batch, or reader; a pandas or polars DataFrame; a list of dicts (columns are
                the union over all rows); a Spark DataFrame, written by Spark's tasks.
            batch_id: any string; an append whose id the table has seen is a no-op, so retries are safe.
            query: a SELECT over `_rows` that the rows pass through before they are partitioned.

        Raises:
            SchemaConflictError: a column's type conflicts with the table's; nothing was uploaded.
            InvalidInputError: a value that its column can't hold, like a text in a UUID's that isn't one.
            OutcomeUnknownError: no answer came to the commit; a retry with the same `batch_id` is safe.

        Cost: 1 PUT a data file + 1 PUT; at most every 10 s 1 LIST for other writers' new columns; with a
        batch_id 1 GET + 1 PUT more. The first append of a process also reads the log.

        Example:
            >>> import firn
            >>> flights = firn.connect("memory://").create_table("flights", partition_by=["origin"])
            >>> flights.append([{"origin": "DTW", "delay": 66}, {"origin": "HNL", "delay": 95}]).files
            2
        """
        return appends.append(self.context, data, batch_id=batch_id, query=query)

    def appender(
        self,
        *,
        seconds: Duration = 1.0,
        rows: int = 10_000,
        bytes: Size = "1MB",
        max_pending: Size = "64MB",
        batch_ids: str | Callable[[Any], str | None] | None = None,
        on_retry: Callable[[FirnError], object] | None = None,
        on_reject: Callable[[Sequence[dict[str, Any]], Exception], object] | None = None,
    ) -> Appender:
        """Take rows one by one, from any thread, and append them in batches: `with table.appender() as out`. Leaving
        the block appends what is left, by an error too.

        A thread of the appender commits a batch when one of `seconds`, `rows` and `bytes` is reached and the last
        batch is done. Each row is appended exactly once as long as the process lives, whatever the store does: a
        commit that isn't answered is looked for before its rows are sent again. See docs/howto/many-writers.md.

        Args:
            seconds: how long a row waits for others.
            rows, bytes: how many rows, and about how many bytes of values, are enough for a commit.
            max_pending: bytes of unsent rows in memory, about, at which `add` waits.
            batch_ids: what makes a batch happen once even if its rows are added again after a crash: a text, for a
                source that is read from its beginning, in the same order: batches of exactly `rows` rows then have
                the ids `text + "0"`, `text + "1"` and so on, the last one what is left at `close`. Or a function of
                `add(row, position=…)`, which gives the id of the batch that ends with the row there, and None if it
                goes on. `seconds` and `bytes` end no such batch.
            on_retry: called with the error of each try that failed; by default there is a warning to the
                logger ``firn``. If it raises, the appender fails.
            on_reject: called with rows that can't be appended, and why; the others are appended. It may add rows,
                without `batch_ids`. By default the appender fails: all later calls raise `AppenderError`.

        Raises:
            InvalidInputError: an argument that can't be; or this connection can't append to the table.

        Cost: a batch costs what `append` does; see `AppenderStats`.

        Example:
            >>> import firn
            >>> clicks = firn.connect("memory://").create_table("clicks")
            >>> with clicks.appender(seconds=0.5) as out:
            ...     for n in range(1000):
            ...         out.add({"n": n})
            >>> clicks.scan().count(), out.stats.pending
            (1000, 0)
        """
        limits = appender_batches.Limits.of(seconds, rows, bytes, max_pending)
        queue = appender_queue.RowQueue(
            self.context, limits, batch_ids=batch_ids, on_retry=on_retry, on_reject=on_reject
        )
        return appenders.Appender(queue)

    def upsert(self, data: Any, *, batch_id: str | None = None, query: str | None = None) -> AppendResult:
        """Add rows to a table with a key, each in place of the row of its key: `append`, by the name that says
        what it does there. If rows in `data` share a key, the last one counts, or the one of the greatest
        `version_by`; in a Spark DataFrame, whose rows have no order, any.

        An upsert replaces what this process has read or written before. If two processes upsert a key without having
        seen each other's row, the one of the later clock wins (docs/design/0008-keys.md).

        Raises:
            InvalidInputError: the table has no key, or a row has null in it; nothing is visible.

        Cost: that of `append`.

        Example:
            >>> import firn
            >>> stock = firn.connect("memory://").create_table("stock", key=["id"])
            >>> _ = stock.upsert([{"id": 1, "n": 5}, {"id": 2, "n": 6}])
            >>> _ = stock.upsert([{"id": 1, "n": 4}])
            >>> sorted(row["n"] for row in stock.scan().to_arrow().to_pylist())
            [4, 6]
        """
        return key_verbs.upsert(self.context, data, batch_id=batch_id, query=query)

    def update(self, where: str, set: Mapping[str, str], *, dry_run: bool = False) -> ChangeResult:
        """Change rows: those that satisfy a predicate get new values.

        Args:
            where: a predicate; `"true"` for all rows.
            set: for each column a DuckDB expression over the row as it was, like `{"n": "n + 1"}`; text
                stands in single quotes inside of it.
            dry_run: only count the rows.

        Updates and deletes exclude each other by the table's lock; appends and upserts go on meanwhile. In a table
        with a key it writes new versions of the rows, and rewrites nothing; in another one it writes the files anew
        that hold such rows.

        Raises:
            InvalidInputError: an unknown column, one of the key, or an expression that can't be; nothing was changed.

        Cost: a scan of the rows, 1 PUT a file; the lock, and 3 PUTs to publish.

        Example:
            >>> import firn
            >>> stock = firn.connect("memory://").create_table("stock", key=["id"])
            >>> _ = stock.upsert([{"id": 1, "n": 5}, {"id": 2, "n": 6}])
            >>> stock.update("id = 1", {"n": "n - 1"}).rows_updated
            1
        """
        if self.keys is not None:
            return key_verbs.update(self.context, where, set, dry_run=dry_run)
        from firn.lake.maintain.merge_into import update  # an append needn't load what it loads

        return update(self.context, where, set, dry_run=dry_run)

    def merge_into(
        self,
        source: Any,
        *,
        on: str | Sequence[str],
        when_matched: Literal["update", "delete"] | Mapping[str, str] | None = None,
        when_not_matched: Literal["insert"] | Mapping[str, str] | None = None,
        when_not_matched_by_source: Literal["delete"] | Mapping[str, str] | None = None,
        clauses: Sequence[MergeClause] = (),
        target: str = "t",
        source_name: str = "s",
    ) -> ChangeResult:
        """Update, insert and delete rows by those of a source, in one commit: SQL's MERGE INTO.

        Appends go on meanwhile, and neither wait nor fail. Their rows weren't seen, stay, and aren't matched.

        Args:
            source: what `append` takes, and a `Scan` or a `Result`. It is read once.
            on: the condition of a match, an expression in DuckDB's SQL over the target's columns (`t.id`) and the
                source's (`s.id`); or the names of the columns that are equal in both. Null equals nothing.
            when_matched: "update" sets all columns by name, "delete" deletes the row; or what columns are set to,
                expressions by name.
            when_not_matched: "insert" takes all columns by name; or expressions by column.
            when_not_matched_by_source: "delete", or expressions by column.
            clauses: any clauses, with conditions, instead of these three.
            target, source_name: the names of the two in expressions.

        Values that are set are cast to their column's type; inserted ones widen it as `append` does. In a table with
        a key, `on=` the key's columns with "update" and "insert" alone is `upsert`: no lock, and nothing is read.

        Raises:
            CardinalityError: two rows of the source change one row.
            AppendExpiredError: it took so long that sweep may have deleted what was kept of the source; nothing was
                changed.
            InvalidInputError: an expression or a column that can't be; nothing was changed.
            LockHeldError: other maintenance is under way.

        Cost: the lock (1 GET + 2 PUTs), the GETs of files that may match, twice for those that change, 1 PUT a file
        that is written, and 3 PUTs to publish. If the source has more than 256 MB, or tasks run on Spark, it is kept
        in files until the end: 1 PUT and 1 DELETE a file more, and GETs of the columns that tasks need.

        Example:
            >>> import firn
            >>> stock = firn.connect("memory://").create_table("stock")
            >>> _ = stock.append([{"id": 1, "n": 5}, {"id": 2, "n": 6}])
            >>> arrived = [{"id": 2, "n": 10}, {"id": 3, "n": 1}]
            >>> done = stock.merge_into(
            ...     arrived, on=["id"], when_matched={"n": "t.n + s.n"}, when_not_matched="insert"
            ... )
            >>> sorted((row["id"], row["n"]) for row in stock.scan().to_arrow().to_pylist())
            [(1, 5), (2, 16), (3, 1)]
        """
        from firn.lake.maintain.merge_into import merge_into

        return merge_into(
            self.context,
            lambda snapshot: source,
            on=on,
            clauses=clauses
            or merge_clauses.clauses_of(when_matched, when_not_matched, when_not_matched_by_source),
            target=target,
            source_name=source_name,
            before_lock=not isinstance(source, Scan),
        )

    def delete_keys(self, data: Any, *, dry_run: bool = False) -> ChangeResult:
        """Delete the rows with these keys from a table with a key, whether they are there or not.

        Args:
            data: rows with the columns of the key, and with `version_by` if the table has it: the row stays if its
                own is greater.
            dry_run: only count the rows that are there: reads the keys of all rows.

        Nobody looks which rows are there, so `rows_deleted` is None but for a dry run.

        Cost: 1 PUT a file; the lock, and 3 PUTs to publish. Reads no data.

        Example:
            >>> import firn
            >>> stock = firn.connect("memory://").create_table("stock", key=["id"])
            >>> _ = stock.upsert([{"id": 1, "n": 5}, {"id": 2, "n": 6}])
            >>> _ = stock.delete_keys([{"id": 1}])
            >>> stock.scan().count()
            1
        """
        return key_verbs.delete_keys(self.context, data, dry_run=dry_run)

    def overwrite(
        self,
        data: Any,
        *,
        where: str | None = None,
        partitions: Literal["touched"] | None = None,
        dry_run: bool = False,
    ) -> ChangeResult:
        """Replace rows by `data`, atomically: all rows, those of a predicate, or those of the partitions that
        the new rows touch (`partitions="touched"`).

        With `where`, all new rows must satisfy it. Streams that read the table don't see overwrites. `dry_run` only
        says which files would be replaced, or looked into.

        Raises:
            InvalidInputError: new rows outside `where`; nothing was changed.
            LockHeldError: other maintenance is under way.

        Cost: that of an append, plus the lock (1 GET + 2 PUTs) and 3 PUTs to publish.
        """
        return overwriting.overwrite(self.context, data, where=where, partitions=partitions, dry_run=dry_run)

    def register(self, paths: str | Sequence[str]) -> AppendResult:
        """Make existing Parquet files of the bucket part of the table, without rewriting them.

        Args:
            paths: keys or URLs in the table's bucket; one that ends in `/` means all `*.parquet` below it.

        The files stay where they are, and sweep never deletes them, even after a merge or rewrite has replaced
        them: Firn deletes only what it wrote (`SweepReport.kept_foreign` names them). Each must lie within one
        partition. Their columns are called as the table's are now. The table's checks aren't asked: `firn fsck
        --checks` asks them.

        Raises:
            InvalidInputError: a path lies elsewhere, or a file has columns or values that the table can't hold;
                nothing was registered.

        Cost: 1 or 2 ranged GETs a file, for its footer, + 1 PUT. Times of nanoseconds with a zone are read, as they
        have to be whole microseconds.
        """
        return registered.register(self.context, paths)

    # -- reading

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        at: At = None,
        limit: int | None = None,
    ) -> Scan:
        """Read: `to_arrow to_batches to_pandas to_polars to_duckdb to_spark count files explain`.

        Args:
            columns: names in the order wanted; all by default.
            where: a predicate in DuckDB's SQL; prunes partitions, files and row groups, and filters rows.
            at: a version, a datetime (naive is UTC) or an ISO string; commits at that time are
                included.
            limit: rows at most; which ones isn't said. Files behind them aren't read.

        Raises:
            InvalidInputError: a column that isn't there, or a predicate that can't be.
            SnapshotTooOldError: `at` is older than what sweep has kept.

        Cost: none before the first look, which is a snapshot's; see the `Scan`'s methods.

        Example:
            >>> import firn
            >>> t = firn.connect("memory://").create_table("t")
            >>> _ = t.append([{"a": n} for n in range(9)])
            >>> t.scan(where="a > 3", limit=2).to_arrow().num_rows
            2
        """
        return Scan(self.context, columns=columns, where=where, at=at, limit=limit)

    @property
    def version(self) -> str:
        """The newest version, for `scan(at=…)`. Cost: a snapshot's."""
        return self.snapshot().version

    def snapshot(self, at: At = None) -> Snapshot:
        """The live files and columns of one version. 1 LIST sequence + the logs that aren't cached."""
        return self.journal.snapshot(at)

    def schema(self, at: At = None) -> pa.Schema:
        """The Arrow schema: the union of all columns ever written."""
        return arrow_schema(self.snapshot(at).columns)

    def history(self) -> list[CommitInfo]:
        """Commits and sweeps, oldest first."""
        return self.journal.history()

    def partitions(self, at: At = None) -> list[Partition]:
        """The partitions that hold files, with their sizes. Files in which a column of the partitions is set aside
        are partitions of their own, without its value."""
        snapshot = self.snapshot(at)
        seen = self.context.at(snapshot)
        return list(seen.partitions_of(placed(seen, snapshot)).values())

    # -- definition

    def definition(self, at: At = None) -> TableDefinition:
        """The table's definition now, or at a version: columns with their names in files, types, defaults and
        comments; partitions, order, key, properties and checks. Cost: that of `snapshot`."""
        return altering.definition(self.context, at)

    def alter(
        self,
        *,
        rename: Mapping[str, str] | None = None,
        drop: str | Sequence[str] = (),
        add: Mapping[str, str | tuple[str, Any]] | None = None,
        types: Mapping[str, str] | None = None,
        comments: Mapping[str, str | None] | None = None,
        comment: str | None = None,
        set_properties: Mapping[str, Any] | None = None,
        partition_by: str | Sequence[str] | None = None,
        sort_by: str | Sequence[str] | None = None,
        checks: Mapping[str, str | None] | None = None,
        dry_run: bool = False,
    ) -> AlterResult:
        """Change the table's definition, by one commit that rewrites no data. All or nothing; a call that changes
        nothing commits nothing.

        Others go on appending meanwhile. They know of the change within `schema_refresh` (10 s); what they write
        before lands in the right columns, and what they write to a dropped column is dropped. Older versions of the
        table are read as they were. If the table is shared with the reference, only properties and the order can be
        changed; they are seen where the table is opened, and by this handle. Sweeps, streams and slow appends look
        for its protocol times by themselves.

        Args:
            rename: new names by column. `rename`, `drop` and `types` name columns as they were before the call, so
                `{"a": "b", "b": "a"}` swaps two; the others name them as they are after it.
            drop: columns. Their values aren't shown any more, and merges leave them out.
            add: DuckDB types of new columns, or pairs of a type and the value that rows without the column have.
                Such a default never changes.
            types: DuckDB types by column. They hold from now on, for all appends: a column takes values that
                convert to its type, numbers to FLOAT and DOUBLE and anything to VARCHAR; other values are set aside.
            comments: texts by column; None takes one back.
            comment: a text about the table; "" takes it back.
            set_properties: values by name; None takes a property back to its default. All but `shared` and `log_url`.
            partition_by: as `create_table` has it, for what is written from now on. `merge(respec=True)` writes older
                files anew.
            sort_by: as `create_table` has it, for what is written from now on.
            checks: predicates by name, which no row may fail; None takes one back. Null doesn't fail: NOT NULL is
                `"x IS NOT NULL"`. Rows that a check refuses raise `CheckFailedError` before anything is committed.
            dry_run: only say what would change.

        Raises:
            InvalidInputError: an unknown property or column, a name that is taken, a column that is in use, a value
                that can't be, a type that values don't fit, or a check that rows fail; nothing was changed.
            UnsupportedError: more than properties and order of a table that is shared with the reference, or any of
                that while it has no definition; or the store has no conditional puts, and no lock was given.
            TableNotFoundError: the table was dropped.
            LockHeldError: other maintenance is under way.
            ConflictError: others change a shared table's definition all the time.

        Cost: 1 LIST + the logs that aren't cached, the lock, and 3 PUTs; on writers' catalogs a commit with a marker;
        on a shared table 1 GET and 1 PUT.

        Example:
            >>> import firn
            >>> t = firn.connect("memory://").create_table("t")
            >>> t.alter(set_properties={"codec": "snappy"}).changes
            ('set codec = snappy',)
            >>> t.alter(set_properties={"codec": None}).changes, t.definition().properties
            (('unset codec',), {})
            >>> _ = t.append([{"delay": 5}])
            >>> t.alter(rename={"delay": "minutes"}, add={"cancelled": ("BOOLEAN", False)}).changes
            ('rename delay to minutes', 'add cancelled BOOLEAN default false')
            >>> t.scan().to_arrow().to_pylist()
            [{'minutes': 5, 'cancelled': False}]
        """
        asked = alteration.Alteration(
            rename or {},
            (drop,) if isinstance(drop, str) else tuple(drop),
            add or {},
            types or {},
            comments or {},
            comment,
            set_properties or {},
            (partition_by,) if isinstance(partition_by, str) else partition_by,
            (sort_by,) if isinstance(sort_by, str) else sort_by,
            checks or {},
        )
        altered, result = altering.alter(self.context, asked, dry_run)
        if altered is not None:
            self.context = replace(self.context, created=altered)
        return result

    def conflicts(self) -> list[ColumnConflict]:
        """Values that don't fit their column, and are shown as a column of their own, with their type and files.
        Cost: that of `snapshot`."""
        return altering.conflicts(self.snapshot())

    def resolve(
        self, column: str, *, to: str | None = None, into: str | None = None, dry_run: bool = False
    ) -> AlterResult:
        """Make values that were set aside the column's again, by one commit that rewrites no data.

        Args:
            column: the column whose values were set aside; with `into`, the one that holds them.
            to: the type that the column has from now on. By default one that takes all of them in.
            into: the column whose values those of `column` become; `column` isn't shown any more.
            dry_run: only say what would change.

        Raises:
            InvalidInputError: an unknown column, or a type that values don't fit; nothing was changed.
            UnsupportedError: the table is shared with the reference.

        Cost: that of `alter`.

        Example:
            >>> import firn
            >>> t = firn.connect("memory://").create_table("t")
            >>> _ = t.append([{"price": 5}]), t.append([{"prise": 5.5}])
            >>> t.resolve("prise", into="price", to="DOUBLE").changes
            ('prise into price', 'type of price: DOUBLE')
            >>> t.scan().to_arrow().sort_by("price").to_pylist()
            [{'price': 5.0}, {'price': 5.5}]
        """
        return altering.resolve(self.context, column, to, into, dry_run)

    # -- maintenance

    def merge(
        self,
        *,
        target_size: Size | None = None,
        partitions: Sequence[Partition | Mapping[str, Any]] | None = None,
        query: str | None = None,
        respec: bool = False,
        only: Literal["inlined"] | None = None,
        dry_run: bool = False,
    ) -> ChangeResult:
        """Merge small files and the log (papers: "Merging"). Readers and appenders go on meanwhile.

        Rows that stand in logs are always written into files. A merge of more than 32 MB of files holds the table's
        lock only while it plans and publishes, if the lock is in the bucket. What others change meanwhile is merged
        anew, up to three times, and at last under the lock: each time is a commit.

        Args:
            target_size: Parquet bytes a merged file, "128MB" by default.
            partitions: only these, as `partitions()` returns them or as their values.
            query: a SELECT over `source_files`, by which rows that are merged are aggregated or replaced. It sees
                the files that are merged together: at most about `target_size` of one partition.
            respec: also write files of older partitionings anew, by the present one.
            only: "inlined" writes the rows that stand in logs into files, and leaves all files as they are.
            dry_run: only say which files would be merged.

        Raises:
            LockHeldError: other maintenance is under way.
            LockLostError: this process stalled and another took over; nothing is visible.
            AppendExpiredError: a merge of more than 32 MB took nearly as long as `orphan_age`.
            ConflictError: a sweep by a shorter age than `orphan_age` deleted what such a merge had written.

        Cost: 1 LIST + 1 GET a log; 1 GET a source file (ranged ones for large files), 1 PUT a merged one;
        the lock, 1 GET + 2 PUTs and a renewal every third of the lease; 3 PUTs to publish. More than 32 MB: the lock
        twice, 2 LISTs, 2 GETs and 1 GET a log that came meanwhile more.
        """
        return merging.merge(
            self.context,
            target_size=target_size,
            partitions=partitions,
            query=query,
            respec=respec,
            only=only,
            dry_run=dry_run,
        )

    def delete(self, where: str, *, soft: bool | None = None, dry_run: bool = False) -> ChangeResult:
        """Delete the rows that satisfy a predicate; rows for which it is null stay.

        Copy-on-write rewrites the files that hold matching rows, and leaves behind what soft deletes took from
        them before. A soft delete reads and writes no data file: files all of whose rows surely match are
        removed, and the predicate is kept with the others that may hold some, for all readers to leave these
        rows out. Each read pays a little, until `merge` folds it in. Either way the rows stay in files until
        `sweep`, for time travel: to erase, pass `soft=False` (or merge), and sweep.

        On a table with a key neither is done, since without a row's newest version an older one would be back. The
        newest versions are read, and one more file says which keys are deleted; merges drop the rows.

        Args:
            where: a predicate in DuckDB's SQL. A soft one goes on meaning what it means for the columns' types
                of today, and rows on which it fails stay. On a table with a key it is asked of newest versions.
            soft: whether softly; by default where the table's journal can.
            dry_run: only say which files it would touch, or how many rows of a table with a key.

        Raises:
            InvalidInputError: a predicate that doesn't parse, or doesn't fit the columns; nothing was changed.
            UnsupportedError: `soft=True`, and the journal keeps no soft deletes; `soft` given for a table with a
                key.
            LockHeldError: other maintenance is under way.

        Cost: the lock and 3 PUTs to publish; copy-on-write also 1 GET a file that may match (ranged ones for
        large files), and 1 PUT a file that did; on a table with a key a scan of the rows, and 1 PUT a partition.
        """
        return deleting.delete(self.context, where, soft=soft, dry_run=dry_run)

    def rewrite(
        self,
        query: str,
        *,
        partitions: Sequence[Partition | Mapping[str, Any]] | None = None,
        dry_run: bool = False,
    ) -> ChangeResult:
        """Pass files through a query, for erasure requests and mending (paper b: "Partition rewrite").

        Args:
            query: a predicate of the rows to keep, or a SELECT over `_rows` (one file's rows).
            partitions: only these.
            dry_run: only say which files would be looked into: some of them may stay, as no row of theirs changes.

        All or nothing: the log is written after every part. A file that keeps no row becomes an empty one.
        Rows that soft deletes took aren't seen, and aren't in what is written.
        """
        return rewriting.rewrite(self.context, query, partitions=partitions, dry_run=dry_run)

    def remove_partitions(
        self, where: str | Sequence[Partition | Mapping[str, Any]], *, dry_run: bool = False
    ) -> ChangeResult:
        """Remove whole partitions by one log object (paper b: "Partition removal"): reads no data.

        Args:
            where: a predicate over partition values, like `date_month < '2001-02'`, or a list of partitions.
        """
        return deleting.remove_partitions(self.context, where, dry_run=dry_run)

    def expire(self, older_than: Duration | None = None, *, dry_run: bool = False) -> ChangeResult:
        """Remove partitions of a time whose end is older than `older_than`, or than the table's `retention`
        (the papers' TTL). Needs a field like `month(date)` in partition_by."""
        return retention.expire(self.context, older_than, dry_run=dry_run)

    def forget_files(self, paths: str | Sequence[str], *, dry_run: bool = False) -> ForgetResult:
        """Let data files go that are lost or damaged, so that the others can be read. Their rows are lost; the
        report says what the log knew of them. Copy the objects back from a backup instead, if there is one.

        On a table with a key, older versions of rows may be seen again: see `ForgetResult`.

        Damaged logs, which `Database.mend_table` can't mend, go the same way: the table forgets which files they
        added, replaced or removed, and nobody knows which those were. Their data files stay until `orphan_age`.

        Args:
            paths: keys or URLs of files, or of logs, as the error names them that says they are lost.
            dry_run: only report.

        Raises:
            InvalidInputError: a path isn't a live file of the table, is another writer's, or can be read;
                nothing was changed.
            LockHeldError: other maintenance is under way.

        Cost: 1 GET a file, or a few ranged ones; the lock, and 3 PUTs to publish. For logs: 1 LIST, 1 GET for each of
        the table's logs, 1 DELETE for a damaged one.

        Example:
            >>> import firn
            >>> t = firn.connect("memory://").create_table("t")
            >>> _ = t.append([{"n": 1}]), t.append([{"n": 2}])
            >>> lost = t.snapshot().files[0].path
            >>> t.bucket.delete(lost)
            >>> t.forget_files(lost).rows, t.scan().count()
            (1, 1)
        """
        return lost_files.forget_files(self.context, paths, dry_run=dry_run)

    def restore(self, at: At, *, dry_run: bool = False) -> ChangeResult:
        """Make the table as it was at a version or time. Itself a commit: history stays, and can be restored.
        Files on which soft deletes came since are read and written anew. `dry_run` only says which files
        would go, and how many come back.

        Raises:
            SnapshotTooOldError: files of that version are gone, or may be going.
        """
        return restoring.restore(self.context, at, dry_run=dry_run)

    def sweep(
        self,
        *,
        older_than: Duration | None = None,
        orphans: Duration | None = None,
        dry_run: bool = False,
    ) -> SweepReport:
        """Delete what nothing may read any more: files and logs that were replaced longer ago than
        `older_than` (the table's tombstone_grace), and files that no log names and that are older than
        `orphans` (its orphan_age) (papers: "Tombstone cleanup").

        A shorter time than the table's is your word that nobody reads older versions, or is appending for so
        long; "0s" drops the margin for skewed clocks too.

        Cost: 2 LIST sequences + 1 GET a log not cached; 1 DELETE an object (fewer where the store has bulk
        deletes); 1 PUT a changed log.
        """
        return self.journal.sweep(
            grace_ms=None if older_than is None else int(parse_duration(older_than) * 1000),
            orphan_age_ms=None if orphans is None else int(parse_duration(orphans) * 1000),
            dry_run=dry_run,
        )

    def keep(
        self,
        *,
        once: bool = False,
        stop: threading.Event | None = None,
        interval: Interval | None = None,
        budget: Duration | None = None,
    ) -> KeepReport:
        """Keep the table small until `stop` is set: fold, merge, sweep and write the log checkpoint when that is due.

        Any number of processes and threads keep a table at once. None of them waits for a lock. Errors of the store
        are logged, and it goes on after a minute; after a damaged object, or without the permission, it does nothing
        any more. It never sweeps by less than the table's `tombstone_grace`.

        Args:
            once: one round, in which rows of logs become files however few they are.
            stop: ends it, after the commit under way.
            interval: how long it rests: a duration, or the least and the greatest like "1s..60s". It rests for the
                least after work, and for twice as long each time that there was nothing to do.
            budget: a round begins nothing more after so long.

        Raises:
            UnsupportedError: the store has no conditional puts, and no lock was given.

        Cost: 1 LIST a round where there is nothing to do. A fold costs 1 LIST, 1 GET a commit, 1 PUT a partition, and
        the lock's and the publishing's 1 GET and 5 PUTs.

        Example:
            >>> import firn
            >>> t = firn.connect("memory://").create_table("t", properties={"inline": "64KB"})
            >>> for n in range(3):
            ...     _ = t.append([{"n": n}])
            >>> t.keep(once=True).commits, len(t.snapshot().objects)
            (3, 1)
        """
        return one_table.keep(self.context, Keeping.asked(once, stop, interval, budget))

    def checkpoint(self) -> int:
        """Write a replay cache, so that opening costs 1 LIST + 1 GET + newer logs. The logs it covers."""
        return self.journal.checkpoint()

    @property
    def aio(self) -> AsyncLakeTable:
        """The appender for asyncio, and any verb in a thread: `await table.aio.append(rows)`.

        Example:
            >>> import asyncio, firn
            >>> clicks = firn.connect("memory://").create_table("clicks")
            >>> async def main():
            ...     async with clicks.aio.appender(seconds=0.5) as out:
            ...         await out.add({"n": 1})
            ...         await out.add({"n": 2}, wait=True)
            >>> asyncio.run(main())
            >>> clicks.scan().count()
            2
        """
        if self._aio is None:
            self._aio = async_tables.AsyncLakeTable(self)
        return self._aio
