"""`RecordTable`: what users hold. Every verb is a transaction of its own, through the session of the database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from firn.alter import AlterResult
from firn.arguments import checked, documented
from firn.bucket.base import Bucket
from firn.concurrency.aio import AsyncTableVerbs, awaited, each
from firn.records.definition.alteration import UNCHANGED, Alteration, Unchanged
from firn.records.definition.definition import RecordDefinition
from firn.records.documents.documents import ID, Record
from firn.records.load.load import BATCH, RecordLoadReport, check_batch, load
from firn.records.load.rows import load_rows
from firn.records.maintain import alter as altering
from firn.records.maintain import indexes
from firn.records.maintain.collection import ORPHAN_AGE, RETENTION, RecordSweepReport, sweep_all
from firn.records.maintain.indexes import IndexInfo
from firn.records.maintain.repair import RowRepairReport, repair_rows
from firn.records.names.names import check_id
from firn.records.objects.own_etags import check_new
from firn.records.read.changes import AsyncChanges, RecordChanges, since_version
from firn.records.read.order import OrderBy
from firn.records.read.rows import ROWS, Rows
from firn.records.read.snapshot import etag_of
from firn.records.session import RecordSession
from firn.records.write.transaction import Transaction
from firn.runner import Engines, InProcess, Runner
from firn.units import Duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@checked
class RecordTable:
    """JSON documents by id and through indices. Get one from `Database.create_table` or `Database.table`.

    Each verb is a transaction of its own, begun again where others were faster; `Database.begin` makes one of
    several. Making one costs no request; it is safe to share between threads.

    Example:
        >>> import firn
        >>> db = firn.connect("memory://")
        >>> airports = db.create_table("airports", kind="records", indices=["state"])
        >>> etag = airports.insert("DTW", {"city": "Detroit", "state": "MI"})
        >>> airports.update("DTW", {**airports.get("DTW"), "gates": 129}, etag=etag) != etag
        True
        >>> [row["city"] for row in airports.find(state="MI")]
        ['Detroit']
    """

    kind: Final = "records"

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        definition: RecordDefinition,
        session: RecordSession,
        engines: Engines | None = None,
    ) -> None:
        self.bucket, self.prefix, self.session = bucket, prefix, session
        self._created = definition
        self.engines: Engines = engines or InProcess()

    def __repr__(self) -> str:
        return f"<RecordTable {self.bucket.uri(self.prefix)}>"

    @property
    def name(self) -> str:
        return self._created.name

    @property
    def definition(self) -> RecordDefinition:
        """The table's definition, as far as this process knows it: a verb looks at the log, this doesn't."""
        return self.session.definition(self._created)

    def alter(
        self,
        *,
        add: Mapping[str, Any] | None = None,
        drop: Sequence[str] | None = None,
        types: Mapping[str, str] | None = None,
        schema: Mapping[str, Any] | Unchanged | None = UNCHANGED,
        comments: Mapping[str, Any] | None = None,
        comment: str | None = None,
        set_properties: Mapping[str, Any] | None = None,
        rename: Mapping[str, str] | None = None,
        validate: bool = False,
        dry_run: bool = False,
    ) -> AlterResult:
        """Change the table's definition, by one commit. All or nothing; a call that changes nothing commits nothing.

        No document is changed. What is written from then on is judged by the new definition: a transaction that began
        before and writes to the table fails with `StaleObjectError`, and `Database.transact` begins it again. Readers
        go on; reads at older commits see the definition of then. From then on, the database needs a Firn that knows
        the feature `definition`.

        Args:
            add: DuckDB types of new columns by name, if the table declares columns. They are null in the documents
                that there are.
            drop: columns that documents mayn't have any more. Those that have them keep them until they are written;
                they show again if the column is added again.
            types: wider types by column: documents stay as they are, so the type must take in what it was. Numbers
                may be read as rounded DOUBLE; anything can be VARCHAR.
            schema: a JSON schema, if the table declares no columns; None takes it back.
            comments: texts by column; None takes one back.
            comment: a text for the table; "" takes it back.
            set_properties: values by name; None takes a property back to its default.
            rename: refused: documents name their fields. Change these.
            validate: first read all rows, and refuse if one doesn't follow the new definition: its JSON schema, or a
                value in a dropped column.
            dry_run: only say what would change.

        Raises:
            InvalidInputError: an unknown column or property, a name that is taken, a type or a value that can't be, a
                column that has an index, a row that doesn't follow; nothing was changed.
            UnsupportedError: a column is to be renamed, or to have a default.
            TableNotFoundError: the table was dropped.

        Cost: 1 GET and 1 PUT, and 1 GET a commit that this process hasn't seen; with `validate` 1 LIST sequence and 1
        GET a row more.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> people = db.create_table("people", kind="records", schema={"born": "SMALLINT", "fax": "VARCHAR"})
            >>> _ = people.insert("ada", {"born": 1815, "fax": "none"})
            >>> people.alter(add={"city": "VARCHAR"}, drop=["fax"], types={"born": "INTEGER"}).changes
            ('drop fax', 'add city VARCHAR', 'type of born: INTEGER')
            >>> dict(people.get("ada"))
            {'_id': 'ada', 'born': 1815, 'city': None}
        """
        asked = Alteration.of(
            self.name,
            rename=rename,
            add=add,
            drop=drop,
            types=types,
            schema=schema,
            comments=comments,
            comment=comment,
            set_properties=set_properties,
        )
        return altering.alter(self.session.store, self._created, asked, validate=validate, dry_run=dry_run)

    # -- reading

    def get(self, id: str) -> Record:
        """The row of that id. 2 GETs, and 1 a commit that this process hasn't seen.

        Raises:
            NoSuchKeyError: there is none.
        """
        return self.session.begin().get(self.name, id)

    def get_many(self, ids: Iterable[str]) -> dict[str, Record]:
        """The rows that there are of these ids, by id, all of one moment. 1 GET, and 1 GET each, many at once.

        Example:
            >>> import firn
            >>> people = firn.connect("memory://").create_table("people", kind="records")
            >>> _ = people.insert("ada", {"born": 1815})
            >>> [(id, row["born"]) for id, row in people.get_many(["ada", "nobody"]).items()]
            [('ada', 1815)]
        """
        return self.session.begin().get_many(self.name, ids)

    def find(
        self,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        order_by: OrderBy | None = None,
        limit: int | None = None,
        after: Record | str | None = None,
        **equalities: Any,
    ) -> Rows:
        """The rows that match, found through an index. See `Transaction.find`; 1 GET more.

        Example:
            >>> import firn
            >>> people = firn.connect("memory://").create_table("people", kind="records", indices=["name", "age"])
            >>> for id, name, age in [("1", "Ada", 36), ("2", "Alan", 41), ("3", "Grace", 85)]:
            ...     _ = people.insert(id, {"name": name, "age": age})
            >>> [row["name"] for row in people.find(name=firn.Prefix("A"), order_by="age desc")]
            ['Alan', 'Ada']
            >>> [row["name"] for row in people.find(age=firn.Range(40, None))]
            ['Alan', 'Grace']
        """
        tx = self.session.begin()
        return tx.find(self.name, where, order_by=order_by, limit=limit, after=after, **equalities)

    def scan(
        self,
        where: Mapping[str, Any] | None = None,
        /,
        *,
        order_by: OrderBy | None = None,
        limit: int | None = None,
        after: Record | str | None = None,
        **equalities: Any,
    ) -> Rows:
        """The rows that match, all by default, at one snapshot and without an index; `to_arrow()` makes a table of
        them. See `Transaction.scan`; 1 GET more."""
        tx = self.session.begin()
        return tx.scan(self.name, where, order_by=order_by, limit=limit, after=after, **equalities)

    def stream(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> Iterator[Record]:
        """The same as an iterator that holds few rows at a time, in no order that counts: for tables that don't fit
        in memory. All of one snapshot, which a sweep of the default age lets be read for an hour.

        Raises:
            SnapshotTooOldError: while iterating, it took longer.

        Example:
            >>> import firn
            >>> people = firn.connect("memory://").create_table("people", kind="records")
            >>> _ = people.insert_many({f"{n}": {"n": n} for n in range(5)})
            >>> sum(row["n"] for row in people.stream(n=firn.Range(2, None)))
            9
        """
        return self.session.begin().stream(self.name, where, **equalities)

    def count(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> int:
        """How many rows match, through an index; without conditions all. Cost as `find`, or `scan`."""
        return self.session.begin().count(self.name, where, **equalities)

    def to_spark(
        self, *, columns: Sequence[str] | None = None, where: str | None = None, at: str | int | None = None
    ) -> DataFrame:
        """The rows at one commit as a Spark DataFrame: `_id`, then the declared columns, or `document`, the JSON.

        It can be used until a sweep has collected rows' versions of that commit, for an hour by default. Many tables
        at one commit: give all of them one `at`, or use `Database.sql`.

        Args:
            columns: these, in this order; `_etag` and `_seq`, the commit of the row's version, too.
            where: a predicate over them. Its conditions on `_id` leave out rows before they are read.
            at: a version, the number of a commit: as `Transaction.snapshot` tells it, `changes().version`, or
                what a commit returned.

        Raises:
            SnapshotTooOldError: what was committed then is swept.
            InvalidInputError: what is no version; an unknown column.

        Cost: that of beginning a transaction, 1 LIST sequence and 1 GET; in tasks 1 GET a row, many at once, and 1 a
        large document. Where `where` names the ids, no LIST, and 1 GET each.
        """
        return self.engines.to_spark(self, columns=columns, where=where, at=at)

    @documented(since_version)
    def changes(self, since: str | int | None = None, upto: str | int | None = None) -> RecordChanges:
        return since_version(self.session.store, self.name, since, upto)

    # -- writing

    def insert(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """A new row; its ETag. 2 GETs, 1 PUT, 1 LIST a value that is new to a unique index, and 1 GET a commit that
        this process hasn't seen.

        Args:
            id: the row's.
            document: all of it.
            etag: "" for `upsert`; a new row has none.

        Raises:
            DuplicateKeyError: there is such a row, or its value of a unique index.
            InvalidInputError: what the table's schema or JSON doesn't allow.
            OutcomeUnknownError: the store failed for so long that it may or may not be there.
        """
        if etag == "":
            return self.upsert(id, document)
        check_new(etag)
        return self.insert_many({id: document})[id]

    def insert_many(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """New rows in one transaction, all or none; their ETags. For many thousands use `load`.

        Args:
            rows: the documents, by id.

        Raises:
            DuplicateKeyError: there is such a row, or its value of a unique index. Nothing is inserted.
            InvalidInputError: what the table's schema or JSON doesn't allow; more than a commit may hold.
            OutcomeUnknownError: the store failed for so long that they may or may not be there.

        Cost: that of one `insert`, and 1 GET a row more, many at once.

        Example:
            >>> import firn
            >>> people = firn.connect("memory://").create_table("people", kind="records")
            >>> etags = people.insert_many({"ada": {"born": 1815}, "alan": {"born": 1912}})
            >>> people.get("alan").etag == etags["alan"]
            True
        """
        return self._written(rows, lambda tx: tx.insert_first(self.name, rows))

    def upsert(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document, whether it is there or not; its ETag. 1 GET, 1 PUT; with an `etag` as
        `update`."""
        return self._written([id], lambda tx: tx.upsert(self.name, id, document, etag=etag))[id]

    def upsert_many(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """The rows become these documents, by id, whether they are there or not, in one transaction; their ETags. 1
        GET, 1 PUT."""
        return self._written(rows, lambda tx: tx.upsert_many(self.name, rows))

    def update(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document; its ETag. 2 GETs, 1 PUT, and 1 GET a commit that this process hasn't seen.

        Args:
            id: the row's.
            document: all of it; a `_id` in it is ignored, so that a row that was read can be changed and given.
            etag: of the version that is to be replaced; "" for `upsert`, None for whatever there is.

        Raises:
            NoSuchKeyError: there is no such row.
            StaleObjectError: it has another ETag, or is gone; `current` is what there is.
        """
        return self._written([id], lambda tx: tx.update(self.name, id, document, etag=etag))[id]

    def delete(self, id: str, *, etag: str | None = None) -> None:
        """Delete the row. Arguments, errors and cost as `update`; with "" a missing one is fine."""
        self.session.transact(lambda tx: tx.delete(self.name, check_id(id), etag=etag))

    def delete_many(self, ids: Iterable[str]) -> list[str]:
        """Delete the rows that there are of these ids, in one transaction; their ids. 1 GET, 1 GET a row, many at
        once, 1 PUT."""
        wanted = list(ids)
        return self.session.transact(lambda tx: tx.delete_many(self.name, wanted))

    def load(self, rows: Any, *, id: str = ID, batch: int = BATCH) -> RecordLoadReport:
        """Put many rows in place of what their ids had, in transactions of at most `batch` rows and about 4 MB.

        Committed rows stay, also if a later row can't be; running it again comes to the same. The last of several
        rows with one id stays; from a Spark DataFrame any of them. Never more than a batch is in memory, and a
        DataFrame's rows stay on the executors, which load their partitions each.

        Args:
            rows: documents as a list or iterator of dicts; or a Spark, pandas or polars DataFrame, or Arrow: a
                table, a reader, an iterator of batches, like `pyarrow.parquet.ParquetFile(…).iter_batches()`. A null
                of these is a field that the document doesn't have.
            id: the field or column with the rows' ids: text, or whole numbers, which become text. Another one than
                `_id` stays in the documents too, unless the table has columns, and none of this name.
            batch: rows of one transaction, at most.

        Raises:
            InvalidInputError: a row that the table's schema doesn't allow, or without an id.
            DuplicateKeyError: two rows have one value of a unique index.
            UnsupportedError: a Spark DataFrame, and the table lives in this process only.

        Cost: a row 1 GET, 1 PUT, 1 PUT an index entry, and 1 LIST a unique index; a transaction 1 GET and 1 PUT, and
        1 GET a commit of others.

        Example:
            >>> import firn
            >>> airports = firn.connect("memory://").create_table("airports", kind="records", indices=["state"])
            >>> airports.load([{"iata": "DTW", "state": "MI"}, {"iata": "CMH", "state": "OH"}], id="iata").rows
            2
            >>> [row.id for row in airports.find(state="OH")]
            ['CMH']
        """
        check_batch(batch)
        if self.engines.is_dataframe(rows):
            report: RecordLoadReport = self.engines.load(self, rows, id=id, batch=batch)
            return report
        store = self.session.store
        documents = store.table(self.name, store.log.head().catalog).documents
        incoming = load_rows(rows, documents, id=id)
        return load(store, self.name, incoming, batch=batch).report(store.log.head().number)

    # -- indices

    def indices(self) -> list[IndexInfo]:
        """The indices that there are now, by field. 1 GET, and 1 a commit that this process hasn't seen."""
        return indexes.index_infos(self.session.store, self.name)

    @documented(indexes.create_index)
    def create_index(
        self, field: str, *, unique: bool = False, each: bool = False, runner: Runner | None = None
    ) -> int:

        return indexes.create_index(
            self.session.store, self.engines, self.name, field, unique=unique, each=each, runner=runner
        )

    @documented(indexes.drop_index)
    def drop_index(self, field: str) -> int:
        return indexes.drop_index(self.session.store, self.name, field)

    # -- upkeep

    @documented(sweep_all)
    def sweep(
        self,
        older_than: Duration = RETENTION,
        orphans: Duration = ORPHAN_AGE,
        *,
        dry_run: bool = False,
    ) -> RecordSweepReport:
        return sweep_all(
            self.session.store, older_than=older_than, orphans=orphans, dry_run=dry_run, table=self.name
        )

    @documented(repair_rows)
    def repair_rows(
        self, ids: Iterable[str], *, forget: bool = False, dry_run: bool = False
    ) -> RowRepairReport:
        return repair_rows(self.session.store, self.name, ids, forget=forget, dry_run=dry_run)

    @property
    def aio(self) -> AsyncRecordTable:
        """The same for asyncio: `await table.aio.get(id)`.

        Example:
            >>> import asyncio, firn
            >>> people = firn.connect("memory://").create_table("people", kind="records", indices=["city"])
            >>> async def main():
            ...     names = ("ada", "alan", "grace")
            ...     await asyncio.gather(*(people.aio.insert(name, {"city": "London"}) for name in names))
            ...     return [row.id for row in await people.aio.find(city="London", limit=2)]
            >>> asyncio.run(main())
            ['ada', 'alan']
        """
        return AsyncRecordTable(self)

    # -- how

    def _written(self, ids: Iterable[str], work: Callable[[Transaction], object]) -> dict[str, str]:
        """Commit writes; the ETags of the versions that these made, by id."""

        def alone(tx: Transaction) -> Transaction:
            work(tx)
            return tx

        number = self.session.transact(alone).committed
        assert number is not None
        return {id: etag_of(self.name, id, number) for id in ids}


class AsyncRecordTable(AsyncTableVerbs[RecordTable]):
    """See `RecordTable`. Get it as `table.aio`. Writes of tasks that run at the same time share commits.

    A task that is cancelled leaves the verb that it waits for to end by itself: a write is done or not, never half.
    One that hasn't begun yet is taken back.
    """

    def __init__(self, sync: RecordTable) -> None:
        super().__init__(sync, sync.session.threads)

    def stream(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> AsyncIterator[Record]:
        """The same as `scan`, few rows at a time: `async for row in table.aio.stream()`."""
        return each(self._threads, lambda: self.sync.stream(where, **equalities), ROWS)

    async def changes(self, since: str | int | None = None, upto: str | int | None = None) -> AsyncChanges:
        """The puts and deletes, commit by commit: `async for change in await table.aio.changes(since)`."""
        return AsyncChanges(await self.run(self.sync.changes, since, upto), self._threads)

    alter = awaited(RecordTable.alter)
    get = awaited(RecordTable.get)
    get_many = awaited(RecordTable.get_many)
    find = awaited(RecordTable.find)
    scan = awaited(RecordTable.scan)
    count = awaited(RecordTable.count)
    insert = awaited(RecordTable.insert)
    upsert = awaited(RecordTable.upsert)
    update = awaited(RecordTable.update)
    delete = awaited(RecordTable.delete)
    insert_many = awaited(RecordTable.insert_many)
    upsert_many = awaited(RecordTable.upsert_many)
    delete_many = awaited(RecordTable.delete_many)
    load = awaited(RecordTable.load)
    indices = awaited(RecordTable.indices)
    create_index = awaited(RecordTable.create_index)
    drop_index = awaited(RecordTable.drop_index)
    sweep = awaited(RecordTable.sweep)
    repair_rows = awaited(RecordTable.repair_rows)
