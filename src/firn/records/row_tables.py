"""Tables with isolation="row": rows that are changed one by one, by compare-and-swap, without transactions.

A row is one object, and a write of it one PUT, on the condition that the row is still the version that it
replaces. Each version has a nonce, and tells those before it: after a lost answer the writer reads the row and
finds its own, or that of the version that was faster, which it then knows for sure (docs/format/records.md). A
deleted row stays as a tombstone, or a delayed insert could bring it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from firn.alter import AlterResult
from firn.arguments import checked
from firn.bucket.base import Blob, Bucket
from firn.clock import Clock, SystemClock
from firn.concurrency.aio import Threads
from firn.concurrency.parallel import MAX_IN_FLIGHT, in_flight
from firn.errors import (
    CorruptObjectError,
    DuplicateKeyError,
    NoSuchKeyError,
    NoSuchVerbError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StaleObjectError,
    StoreError,
    StoreUnavailableError,
)
from firn.journal.backoff import Backoff, whole
from firn.records.aio_tables import AsyncRowTable
from firn.records.definition.definition import RecordDefinition
from firn.records.documents.documents import ID, Record
from firn.records.documents.predicates import Ids, Where, conditions_of, matches
from firn.records.engines import Engines, InProcess
from firn.records.load.load import BATCH, RecordLoadReport, check_batch
from firn.records.load.rows import Row, load_rows
from firn.records.maintain.alter import alter_lone
from firn.records.maintain.repair import RowRepairReport
from firn.records.names.names import check_id, shown_id
from firn.records.objects.own_etags import check_etag, check_new
from firn.records.objects.single_version_row import NEVER, LoneRow, Version, decode_row, encode_row
from firn.records.read.order import ALL, Order, OrderBy
from firn.records.read.ordered import in_order
from firn.records.read.rows import Rows
from firn.records.session import CALLS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PAGE: Final = 1000  # rows that a stream reads at a time


_OF_TRANSACTIONS: Final = frozenset(("changes", "find", "indices", "create_index", "drop_index", "sweep"))


@checked
class RowTable:
    """A table with isolation="row". Get one from `Database.create_table` or `Database.table`. Safe to share between
    threads.

    Each call is atomic for its row and sees all that was acknowledged before it began; nothing holds for two
    calls together. A row that was read tells its ETag, and a write that is given one succeeds only if the row is
    still that version.

    Args:
        bucket: where the database is; it has conditional puts.
        prefix: the table's directory.
        definition: what the table was created with.
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
        self.definition = definition
        self.bucket = bucket
        self.prefix = prefix
        self.threads = threads or Threads(CALLS)
        self._clock = clock or SystemClock()
        self._layout = definition.layout(prefix)
        self._documents = definition.documents

    @property
    def name(self) -> str:
        return self.definition.name

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

    def alter(self, *, set_properties: Mapping[str, Any] | None = None, dry_run: bool = False) -> AlterResult:
        """Change the table's properties, by a swap of its definition. A call that changes nothing writes nothing.

        1 GET and 1 PUT.

        Args:
            set_properties: values by name; None takes a property back to its default.
            dry_run: only say what would change.

        Raises:
            InvalidInputError: an unknown property, or a value that can't be; nothing was changed.
            TableNotFoundError: the table was dropped.

        Example:
            >>> import firn
            >>> people = firn.connect("memory://").create_table("people", kind="records",
            ...     isolation="row")
            >>> people.alter(set_properties={"inline": "1MB"}).changes
            ('set inline = 1MB',)
            >>> people.alter(set_properties={"inline": None}).changes
            ('unset inline',)
        """
        return alter_lone(
            self.bucket,
            self.prefix,
            self.definition,
            set_properties or {},
            clock=self._clock,
            dry_run=dry_run,
        )

    def get(self, id: str) -> Record:
        """The row of that id. 1 GET.

        Raises:
            NoSuchKeyError: there is none.
        """
        found = self._record(self._read(id))
        if found is None:
            raise self._missing(id)
        return found

    def get_many(self, ids: Iterable[str]) -> dict[str, Record]:
        """The rows that there are of these ids, by id, each as it is when it is read. 1 GET each, many at once."""
        wanted = list(dict.fromkeys(check_id(id) for id in ids))
        blobs = self.bucket.get_many([self._layout.row(id) for id in wanted])
        rows = [None if blob is None else self._record(self._decoded(blob)) for blob in blobs]
        return {id: row for id, row in zip(wanted, rows, strict=True) if row is not None}

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
        body = self._documents.encode(check_id(id), document)
        prior: Version = NEVER
        backoff = Backoff(self._clock)
        while True:
            made, current = self._write(id, body, prior)
            if made is not None:
                return made.to_text()
            if current is not None and current.body is not None:
                raise DuplicateKeyError(f"{self._named(id)} is there already: update it, or use upsert.")
            prior = self._again(id, current, backoff)

    def upsert(self, id: str, document: Mapping[str, Any], *, etag: str | None = None) -> str:
        """The row becomes that document, whether it is there or not; its ETag. 1 GET and 1 PUT; with an ETag as
        `update`.

        Raises:
            StaleObjectError: an ETag was given, and the row has another or is gone.
            OutcomeUnknownError: it may or may not have been written: look before retrying.
        """
        return self._replace(id, self._documents.encode(check_id(id), document), check_etag(etag) or "")

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
        return self._replace(id, self._documents.encode(check_id(id), document), etag)

    def delete(self, id: str, *, etag: str | None = None) -> None:
        """Delete the row. Arguments, errors and cost as `update`; with "" a missing one is fine."""
        check_id(id)
        if etag == "":
            try:
                self._replace(id, None, None)
            except NoSuchKeyError:
                return
        else:
            self._replace(id, None, etag)

    def insert_many(self, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """New rows, by id, each by itself; their ETags. What is inserted stays, also if another row is there. Errors
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

        there = in_flight(gone, wanted, self._in_flight)
        return [id for id, was in zip(wanted, there, strict=True) if was]

    def to_spark(self, *, columns: Sequence[str] | None = None, where: str | None = None) -> DataFrame:
        """The rows as a Spark DataFrame, each as it is when a task reads it: `_id`, then the declared columns, or
        else `document`, its JSON; `columns` may ask for `_etag`. 1 LIST sequence, and in tasks 1 GET a row."""
        return self.engines.records_to_spark(self, columns=columns, where=where, at=None)

    def load(self, rows: Any, *, id: str = ID, batch: int = BATCH) -> RecordLoadReport:
        """`upsert` many rows, `batch` of them in memory at a time. Arguments and errors as `RecordTable.load`.

        What is written stays, also if a later row can't be; running it again comes to the same. 1 GET and 1 PUT
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
            return self.engines.records_load(self, rows, id=id, batch=batch)
        return RecordLoadReport(self.load_rows(load_rows(rows, self._documents, id=id), batch=batch), 0, None)

    def load_rows(self, rows: Iterable[Row], *, batch: int) -> int:
        """The same for ids and documents; how many."""
        rows, done = iter(rows), 0
        while chunk := list(islice(rows, batch)):
            # Of rows with one id the last stays.
            bodies = {id: self._documents.encode(check_id(id), document) for id, document in chunk}
            in_flight(lambda item: self._replace(*item, ""), list(bodies.items()), self._in_flight)
            done += len(chunk)
        return done

    def repair_rows(
        self, ids: Iterable[str], *, forget: bool = False, dry_run: bool = False
    ) -> RowRepairReport:
        """Let rows go whose objects are damaged: `forget` deletes them. No log has their content.

        Args:
            ids: the rows'. `firn fsck` names their objects. Whole ones are left alone.
            forget: that they may go.
            dry_run: only say what would become of them.

        Raises:
            CorruptObjectError: a row is damaged, and isn't to be forgotten. Nothing is changed.

        Cost: 1 GET a row, and 1 PUT a damaged one.
        """
        wanted = sorted({check_id(id) for id in ids})
        by_key = {self._layout.row(id): id for id in wanted}
        lost: dict[str, str] = {}
        for blob in self.bucket.get_many(list(by_key)):
            try:
                _ = blob and self._decoded(blob)
            except CorruptObjectError:
                if not forget:
                    raise
                assert blob is not None
                lost[by_key[blob.info.key]] = blob.info.etag
        for id, etag in lost.items() if not dry_run else ():
            with suppress(ObjectChangedError):  # by somebody who mended it
                gone = LoneRow(id, NEVER.next(), None)
                self.bucket.put_if_match(self._layout.row(id), encode_row(gone), etag)
        whole = tuple(id for id in wanted if id not in lost)
        return RowRepairReport((), tuple(lost), whole, dry_run)

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
        order = Order(order_by).known_to(self._documents)
        page = order.wanted(limit, self.get(after) if isinstance(after, str) and not order.by_id else after)
        ids = asked.get(ID, Ids())
        assert isinstance(ids, Ids)
        keys = [info.key for info in self.bucket.list(self._layout.rows + ids.name_prefix).objects]
        names = [name for key in keys if (name := self._layout.row_name(key)) and ids.may_match(name)]

        def read(some: Sequence[str]) -> Iterator[Record]:
            return self._matching([self._layout.row_named(name) for name in some], asked)

        if order.first == ID:
            found = in_order(map(order.of_row, names), read, page)
        else:
            rows = in_order(map(ALL.order.of_row, names), read, ALL)
            found = iter(sorted((row for row in rows if row in page), key=order.key))
        return Rows.of(islice(found, limit), self._documents)

    def stream(self, where: Mapping[str, Any] | None = None, /, **equalities: Any) -> Iterator[Record]:
        """The same as an iterator that holds few rows at a time, in the order of their objects' names."""
        asked = self._asked(where, equalities)
        return (row for keys in self._pages() for row in self._matching(keys, asked))

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

    def _asked(self, where: Mapping[str, Any] | None, equalities: Mapping[str, Any]) -> Where:
        conditions = conditions_of(where, equalities)
        return {name: self._documents.predicate(name, given) for name, given in conditions.items()}

    def _pages(self) -> Iterator[list[str]]:
        """The keys of all rows, a page of the LIST at a time."""
        after: str | None = None
        while True:
            page = self.bucket.list(self._layout.rows, after=after, limit=_PAGE)
            yield [info.key for info in page.objects if self._layout.row_name(info.key)]
            if not page.more:
                return
            after = page.objects[-1].key

    def _matching(self, keys: Sequence[str], asked: Where) -> Iterator[Record]:
        for blob in self.bucket.get_many(keys):
            found = None if blob is None else self._record(self._decoded(blob))
            if found is not None and matches(found, asked, found.id):
                yield found

    def _each(
        self, write: Callable[[str, Mapping[str, Any]], str], rows: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, str]:
        items = list(rows.items())
        return dict(zip(rows, in_flight(lambda item: write(*item), items, self._in_flight), strict=True))

    @property
    def _in_flight(self) -> int:
        return MAX_IN_FLIGHT if self.bucket.capabilities.shareable else 1

    def _replace(self, id: str, body: bytes | None, etag: str | None) -> str:
        """Write over the version of an ETag, over whatever row is there (None), or whatever is there ("")."""
        etag = check_etag(etag)
        if etag:
            prior = Version.from_text(etag)
            made, current = self._write(id, body, prior)
            if made is None:
                raise self._stale(id, prior, current)
            return made.to_text()
        backoff = Backoff(self._clock)
        current = self._read(id)
        while True:
            if etag is None and (current is None or current.body is None):
                raise self._missing(id)
            made, newer = self._write(id, body, NEVER if current is None else current.version)
            if made is not None:
                return made.to_text()
            self._again(id, newer, backoff)
            current = newer

    def _write(self, id: str, body: bytes | None, prior: Version) -> tuple[Version | None, LoneRow | None]:
        """Make the version behind `prior`: what was written, or else the row as it is now.

        The bucket isn't let to retry by itself: the first refusal can be believed then, and costs no version its
        place among the nonces.

        Raises:
            OutcomeUnknownError: nobody can tell.
        """
        if prior.number and not prior.etag:
            return None, self._read(id)  # it was replaced before its writer knew that it was there
        made = prior.next()
        data = encode_row(LoneRow(id, made, body))
        backoff = Backoff(self._clock)
        unanswered: OutcomeUnknownError | None = None
        while True:
            try:
                with suppress(ObjectChangedError, ObjectExistsError):
                    return replace(made, etag=self._put(id, data, prior)), None
            except OutcomeUnknownError as error:
                unanswered = error
            except StoreError as error:
                if isinstance(error, StoreUnavailableError) and backoff.wait():
                    continue
                raise error if unanswered is None else self._unknown(id) from error
            try:
                current = self._read(id)
            except StoreError as error:
                if isinstance(error, StoreUnavailableError) and backoff.wait():
                    continue
                # Without a lost answer the row is known to be another by now, though not which.
                raise error if unanswered is None else self._unknown(id) from error
            if prior == (NEVER if current is None else current.version):
                # It may yet land, or raced with another that failed: only a put of the same bytes tells.
                if not backoff.wait():
                    raise self._unknown(id) from unanswered
                continue
            if unanswered is None:
                return None, current
            landed = current is not None and current.version.became_of(made)
            if landed is None:
                raise self._unknown(id) from unanswered
            if current is None or not landed:
                return None, current
            same = current.version.number == made.number
            return replace(made, etag=current.version.etag if same else ""), None

    def _put(self, id: str, data: bytes, prior: Version) -> str:
        key = self._layout.row(id)
        if prior.number:
            return self.bucket.put_if_match(key, data, prior.etag, retry_for=0)
        return self.bucket.put_if_absent(key, data, retry_for=0)

    def _read(self, id: str) -> LoneRow | None:
        """The row's object, None if it never was. 1 GET."""
        try:
            blob = whole(self.bucket, self.bucket.get(self._layout.row(id)), self._clock)
        except ObjectNotFoundError:
            return None
        return self._decoded(blob)

    def _decoded(self, blob: Blob) -> LoneRow:
        blob = whole(self.bucket, blob, self._clock)
        info = blob.info
        return decode_row(blob.data, info.etag, key=info.key, where=self.bucket.uri(info.key))

    def _record(self, row: LoneRow | None) -> Record | None:
        if row is None or row.body is None:
            return None
        return Record(row.id, self._documents.decode(row.body, row.id), row.version.to_text())

    def _again(self, id: str, current: LoneRow | None, backoff: Backoff) -> Version:
        """What to write over at the next attempt."""
        if not backoff.wait():
            raise StaleObjectError(
                f"{self._named(id)} is changed by others all the time: retry later.", self._record(current)
            )
        return NEVER if current is None else current.version

    def _stale(self, id: str, prior: Version, current: LoneRow | None) -> StaleObjectError:
        if current is None or current.body is None:
            return StaleObjectError(f"{self._named(id)} was deleted since it was read.", lasting=True)
        return StaleObjectError(
            f"{self._named(id)} was changed since: it is at version {current.version.number}, the ETag is of version "
            f"{prior.number}. Read it again and retry.",
            self._record(current),
            lasting=True,
        )

    def _missing(self, id: str) -> NoSuchKeyError:
        return NoSuchKeyError(f"{self._named(id)} doesn't exist.")

    def _unknown(self, id: str) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"{self._named(id)} was written, no answer came, and nobody can tell whether it was: read the row."
        )

    def _named(self, id: str) -> str:
        return f"{self.name}[{shown_id(id)}]"
