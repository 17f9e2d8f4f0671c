"""Tables with isolation="row": rows that are changed one by one, by compare-and-swap, without transactions. How a row
is written stands in `objects.single_version_store`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from firn.alter import AlterResult
from firn.arguments import checked, documented
from firn.bucket.base import Bucket
from firn.clock import Clock, SystemClock
from firn.concurrency.aio import AsyncTableVerbs, Threads, awaited, each
from firn.concurrency.parallel import in_flight
from firn.errors import NoSuchKeyError, NoSuchVerbError
from firn.records.definition.alteration import UNCHANGED, Alteration, Unchanged
from firn.records.definition.definition import RecordDefinition
from firn.records.definition.latest import LatestDefinition
from firn.records.documents.documents import ID, Documents, Record
from firn.records.documents.predicates import Ids, Where, conditions_of, matches
from firn.records.load.load import BATCH, RecordLoadReport, check_batch
from firn.records.load.rows import Row, load_rows
from firn.records.maintain.alter import alter_lone, must_follow
from firn.records.maintain.repair import RowRepairReport, forget_rows
from firn.records.names.names import check_id
from firn.records.objects.listing import row_names
from firn.records.objects.own_etags import check_etag, check_new
from firn.records.objects.single_version_store import RowStore
from firn.records.read.order import ALL, Order, OrderBy, in_order
from firn.records.read.rows import ROWS, Rows
from firn.records.session import CALLS
from firn.runner import Engines, InProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF_TRANSACTIONS: Final = frozenset(("changes", "find", "indices", "create_index", "drop_index", "sweep"))


@checked
class RowTable:
    """A table with isolation="row". Get one from `Database.create_table` or `Database.table`. Safe to share between
    threads.

    Each call is atomic for its row and sees all that was acknowledged before it began; nothing holds for two
    calls together. A row that was read tells its ETag, and a write that is given one succeeds only if the row is
    still that version. Each 10 s a call looks at the table's definition again, which others may have altered: 1 GET.

    Args:
        bucket: where the database is; it has conditional puts.
        prefix: the table's directory.
        definition: as its object has it.
        clock: for waits between attempts.
        engines: where whole DataFrames are loaded.
        threads: those in which asyncio's calls wait; its own by default.

    Example:
        >>> import firn
        >>> stock = firn.connect("memory://").create_table("stock", kind="records", isolation="row")
        >>> etag = stock.insert("DTW", {"quantity": 3})
        >>> row = stock.get("DTW")
        >>> newer = stock.update("DTW", {**row, "quantity": row["quantity"] - 1}, etag=row.etag)
        >>> stock.update("DTW", {"quantity": 9}, etag=row.etag)
        Traceback (most recent call last):
        firn.errors.StaleObjectError: stock['DTW'] was changed since: it is at version 2, ...
    """

    kind: Final = "records"

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        definition: RecordDefinition,
        *,
        clock: Clock | None = None,
        engines: Engines | None = None,
        threads: Threads | None = None,
    ) -> None:
        self.engines: Engines = engines or InProcess()
        self.bucket = bucket
        self.prefix = prefix
        self.threads = threads or Threads(CALLS)
        self._clock = clock or SystemClock()
        self.name: Final = definition.name
        self.latest = LatestDefinition(bucket, prefix, definition, self._clock)
        self._rows = RowStore(bucket, definition.layout(prefix), self.latest, self._clock)

    @property
    def definition(self) -> RecordDefinition:
        """The table's definition, as this process has read it last. No request."""
        return self.latest.known

    def __getattr__(self, verb: str) -> Any:
        """Say why a verb of other record tables isn't here."""
        if verb in _OF_TRANSACTIONS:
            raise NoSuchVerbError(
                f"{self.name} has isolation='row': no indices, no versions. Use get, scan or count, or a table with "
                "isolation='snapshot'."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {verb!r}")

    def __repr__(self) -> str:
        return f"<RowTable {self.bucket.uri(self.prefix)}>"

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
        """Change the table's definition, by a swap of its object. A call that changes nothing writes nothing.

        Arguments and errors as `RecordTable.alter`. Who has the table open goes by it within 10 s, and judges what it
        writes by the old one until then; so `validate` tells nothing of rows that are written meanwhile.

        Cost: 1 GET and 1 PUT, with `validate` 1 LIST sequence and 1 GET a row more.

        Raises:
            ConflictError: others change the definition all the time.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> stock = db.create_table("stock", kind="records", isolation="row", schema={"quantity": "INTEGER"})
            >>> stock.alter(add={"shelf": "VARCHAR"}, types={"quantity": "BIGINT"}).changes
            ('add shelf VARCHAR', 'type of quantity: BIGINT')
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
        made, result = alter_lone(
            self.bucket,
            self.prefix,
            self.definition,
            asked,
            clock=self._clock,
            dry_run=dry_run,
            check_rows=self._check_rows if validate else None,
        )
        self.latest.learn(made)
        return result

    def get(self, id: str) -> Record:
        """The row of that id. 1 GET.

        Raises:
            NoSuchKeyError: there is none.
        """
        return self._rows.get(id)

    def get_many(self, ids: Iterable[str]) -> dict[str, Record]:
        """The rows that there are of these ids, by id, each as it is when it is read. 1 GET each, many at once."""
        wanted = list(dict.fromkeys(check_id(id) for id in ids))
        return {row.id: row for row in self._rows.records([self._rows.layout.row(id) for id in wanted])}

    def insert(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """A new row; its ETag. 1 PUT; where the row was there before, 1 GET and 1 PUT more.

        Args:
            id: the row's.
            document: all of it.
            etag: "" for `upsert`; a new row has none.

        Raises:
            DuplicateKeyError: there is such a row.
            OutcomeUnknownError: it may or may not have been written: look before retrying.
        """
        if etag == "":
            return self.upsert(id, document)
        check_new(etag)
        return self._rows.insert(id, self._documents().encode(check_id(id), document))

    def upsert(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document, whether it is there or not; its ETag. 1 GET and 1 PUT; with an ETag as
        `update`.

        Raises:
            StaleObjectError: an ETag was given, and the row has another or is gone.
            OutcomeUnknownError: it may or may not have been written: look before retrying.
        """
        return self._rows.replace(
            id, self._documents().encode(check_id(id), document), check_etag(etag) or ""
        )

    def update(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document; its ETag. 1 PUT with an ETag, else 1 GET and 1 PUT.

        Args:
            id: the row's.
            document: what it is to be; its `_id` is ignored, so a changed row may be given.
            etag: of the version that is to be replaced; None for whatever there is, "" for `upsert`.

        Raises:
            NoSuchKeyError: there is no such row, and no ETag was given.
            StaleObjectError: the row has another ETag, or is gone; `current` is what there is.
            OutcomeUnknownError: it may or may not have been written: look before retrying.
        """
        return self._rows.replace(id, self._documents().encode(check_id(id), document), etag)

    def delete(self, id: str, *, etag: str | None = None) -> None:
        """Delete the row. Arguments, errors and cost as `update`; with "" a missing one is fine."""
        check_id(id)
        if etag == "":
            try:
                self._rows.replace(id, None, None)
            except NoSuchKeyError:
                return
        else:
            self._rows.replace(id, None, etag)

    def insert_many(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """New rows, by id, each by itself; their ETags. Inserted rows stay, also if another row is there. Errors
        and cost as `insert`, many at once."""
        return self._each(self.insert, rows)

    def upsert_many(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """The rows become these documents, by id, each by itself; their ETags. Errors and cost as `upsert`, many at
        once."""
        return self._each(self.upsert, rows)

    def delete_many(self, ids: Iterable[str]) -> list[str]:
        """Delete the rows that there are of these ids, each by itself; their ids. Errors and cost as `delete`, many
        at once."""
        wanted = list(dict.fromkeys(check_id(id) for id in ids))

        def gone(id: str) -> bool:
            with suppress(NoSuchKeyError):
                self.delete(id)
                return True
            return False

        there = in_flight(gone, wanted, self._rows.in_flight)
        return [id for id, was in zip(wanted, there, strict=True) if was]

    def to_spark(self, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """The rows as a Spark DataFrame, each as it is when a task reads it: `_id`, then the declared columns, or
        else `document`, its JSON; `columns` may ask for `_etag`. 1 LIST sequence and 1 GET, and in tasks 1 GET a
        row."""
        return self.engines.to_spark(self, columns=columns, where=where, at=None)

    def load(self, rows: Any, *, id: str = ID, batch: int = BATCH) -> RecordLoadReport:
        """`upsert` many rows, `batch` of them in memory at a time. Arguments and errors as `RecordTable.load`.

        Written rows stay, also if a later row can't be written; running it again comes to the same. 1 GET and 1 PUT
        a row.

        Example:
            >>> import firn
            >>> stock = firn.connect("memory://").create_table("stock", kind="records", isolation="row")
            >>> stock.load({"_id": ["DTW", "CMH"], "quantity": [3, 5]}).rows
            2
            >>> stock.get("CMH")["quantity"]
            5
        """
        check_batch(batch)
        if self.engines.is_dataframe(rows):
            report: RecordLoadReport = self.engines.load(self, rows, id=id, batch=batch)
            return report
        return RecordLoadReport(
            self.load_rows(load_rows(rows, self._documents(), id=id), batch=batch), 0, None
        )

    def load_rows(self, rows: Iterable[Row], *, batch: int) -> int:
        """The same for ids and documents; how many."""
        rows, done = iter(rows), 0
        while chunk := list(islice(rows, batch)):
            # The last of several rows with one id stays.
            documents = self._documents()
            bodies = {id: documents.encode(check_id(id), document) for id, document in chunk}
            in_flight(lambda item: self._rows.replace(*item, ""), list(bodies.items()), self._rows.in_flight)
            done += len(chunk)
        return done

    @documented(forget_rows)
    def repair_rows(
        self, ids: Iterable[str], *, forget: bool = False, dry_run: bool = False
    ) -> RowRepairReport:
        return forget_rows(self._rows, ids, forget=forget, dry_run=dry_run)

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
        """The rows that match, each as it is when it is read. Arguments and errors as `RecordTable.scan`. 1 LIST
        sequence and 1 GET a row; with a `limit`, in the order of ids, 1 GET a row that is taken or doesn't match, and
        as many again at most."""
        asked = self._asked(where, equalities)
        order = Order(order_by).known_to(self._documents())
        page = order.wanted(limit, self.get(after) if isinstance(after, str) and not order.by_id else after)
        ids = asked.get(ID, Ids())
        assert isinstance(ids, Ids)
        layout = self._rows.layout
        names = [
            name for name in row_names(self.bucket, layout, ids.name_prefix) if name and ids.may_match(name)
        ]

        def read(some: Sequence[str]) -> Iterator[Record]:
            return self._matching([layout.row_named(name) for name in some], asked)

        if order.first == ID:
            found = in_order(map(order.of_row, names), read, page)
        else:
            rows = in_order(map(ALL.order.of_row, names), read, ALL)
            found = iter(sorted((row for row in rows if row in page), key=order.key))
        return Rows.of(islice(found, limit), self._documents())

    def stream(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> Iterator[Record]:
        """The same as an iterator that holds few rows at a time, in the order of their objects' names."""
        asked = self._asked(where, equalities)
        return (row for keys in self._rows.pages() for row in self._matching(keys, asked))

    def count(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> int:
        """How many rows match. Cost as `scan`."""
        return sum(1 for _ in self.stream(where, **equalities))

    @property
    def aio(self) -> AsyncRowTable:
        """The same for asyncio: `await table.aio.get(id)`, `async for row in table.aio.stream()`.

        Example:
            >>> import asyncio, firn
            >>> visits = firn.connect("memory://").create_table("visits", kind="records", isolation="row")
            >>> async def main():
            ...     etag = await visits.aio.insert("front page", {"n": 1})
            ...     await visits.aio.update("front page", {"n": 2}, etag=etag)
            ...     return [row["n"] async for row in visits.aio.stream()]
            >>> asyncio.run(main())
            [2]
        """
        return AsyncRowTable(self)

    def _check_rows(self, made: RecordDefinition) -> None:
        for keys in self._rows.pages():
            for row in self._rows.rows(keys):
                if row.body is not None:
                    must_follow(made, row.id, row.body)

    def _documents(self) -> Documents:
        """What documents may hold. 1 GET if the definition wasn't read within 10 s, else none."""
        return self.latest.now().documents

    def _asked(self, where: Mapping[str, Any] | None, equalities: Mapping[str, Any]) -> Where:
        conditions = conditions_of(where, equalities)
        return {name: self._documents().predicate(name, given) for name, given in conditions.items()}

    def _matching(self, keys: Sequence[str], asked: Where) -> Iterator[Record]:
        return (row for row in self._rows.records(keys) if matches(row, asked, row.id))

    def _each(
        self, write: Callable[[str, Mapping[str, Any]], str], rows: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, str]:
        items = list(rows.items())
        return dict(zip(rows, in_flight(lambda item: write(*item), items, self._rows.in_flight), strict=True))


class AsyncRowTable(AsyncTableVerbs[RowTable]):
    """See `RowTable`. Get it as `table.aio`.

    A task that is cancelled leaves the verb that it waits for to end by itself: a write is done or not. One that
    hasn't begun yet is taken back.
    """

    def __init__(self, sync: RowTable) -> None:
        super().__init__(sync, sync.threads)

    def __getattr__(self, verb: str) -> Any:
        """Say why a verb of other record tables isn't here."""
        if verb not in _OF_TRANSACTIONS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {verb!r}")
        return getattr(self.sync, verb)

    def stream(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> AsyncIterator[Record]:
        """The same as `scan`, few rows at a time: `async for row in table.aio.stream()`."""
        rows = self.sync.stream(where, **equalities)
        return each(self._threads, lambda: rows, ROWS)

    alter = awaited(RowTable.alter)
    get = awaited(RowTable.get)
    get_many = awaited(RowTable.get_many)
    scan = awaited(RowTable.scan)
    count = awaited(RowTable.count)
    insert = awaited(RowTable.insert)
    upsert = awaited(RowTable.upsert)
    update = awaited(RowTable.update)
    delete = awaited(RowTable.delete)
    insert_many = awaited(RowTable.insert_many)
    upsert_many = awaited(RowTable.upsert_many)
    delete_many = awaited(RowTable.delete_many)
    load = awaited(RowTable.load)
    repair_rows = awaited(RowTable.repair_rows)
