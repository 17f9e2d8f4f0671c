"""SQL for asyncio: the verbs of `Database.sql`, `SqlTransaction.sql` and `Result`, awaited."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from firn.concurrency.aio import AsyncVerbs, Opening, awaited, each
from firn.database.sql_transaction import SqlDatabase, SqlTransaction
from firn.journal.model import ColumnTypes
from firn.records.aio import AsyncTransaction, AsyncTransactions
from firn.records.definition.settings import ATTEMPTS
from firn.records.write.transaction import TIMEOUT_S
from firn.sql.outcome import Outcome
from firn.sql.result import Result

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.records.session import RecordSession
    from firn.units import Duration, Size

T = TypeVar("T")

BATCHES, ROWS = 1, 1000
"""As many are handed over at once."""


class AsyncResult(AsyncVerbs[Result]):
    """See `Result`: each output is awaited, and `async for` gives the rows."""

    @property
    def columns(self) -> ColumnTypes:
        """The columns and their DuckDB types."""
        return self.sync.columns

    @property
    def versions(self) -> dict[str, str]:
        """The version of each table that the query reads."""
        return self.sync.versions

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the answer leaves out as broken, or shows aside."""
        return self.sync.warnings

    @property
    def outcome(self) -> Outcome | None:
        """The counts of a statement that changed a table; None for a query."""
        return self.sync.outcome

    def schema(self) -> pa.Schema:
        """The Arrow schema of all outputs."""
        return self.sync.schema()

    to_arrow = awaited(Result.to_arrow)
    to_pandas = awaited(Result.to_pandas)
    to_duckdb = awaited(Result.to_duckdb)
    to_spark = awaited(Result.to_spark)
    head = awaited(Result.head)
    count = awaited(Result.count)
    explain = awaited(Result.explain)

    async def to_polars(self, *, lazy: bool = False) -> Any:
        """As `Result.to_polars`."""
        return await self._threads.run(partial(self.sync.to_polars, lazy=cast("Any", lazy)))

    def to_batches(self) -> AsyncIterator[pa.RecordBatch]:
        """Record batches while the query runs: `async for batch in result.to_batches()`."""
        return each(self._threads, self.sync.to_batches, BATCHES)

    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return each(self._threads, lambda: self.sync, ROWS)


class AsyncSqlTransaction(AsyncTransaction):
    """See `SqlTransaction`. Begin one by `db.aio.begin`; see `AsyncTransaction` for its other verbs.

    Example:
        >>> import asyncio, firn
        >>> db = firn.connect("memory://")
        >>> _ = db.sql("CREATE TABLE stock (pairs BIGINT) WITH (kind = 'records')")
        >>> _ = db.sql("INSERT INTO stock VALUES ('skis', 5)")
        >>> async def main():
        ...     async with db.aio.begin() as tx:
        ...         await tx.sql("UPDATE stock SET pairs = pairs - 1 WHERE _id = 'skis'")
        ...     return [row async for row in await db.aio.sql("SELECT pairs FROM stock")]
        >>> asyncio.run(main())
        [{'pairs': 4}]
    """

    sync: SqlTransaction

    async def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, Any] | None = None,
    ) -> AsyncResult:
        """Run one query or statement in the transaction. Arguments, errors and cost as `SqlTransaction.sql`."""
        result = await self._strand.run(self.sync.sql, query, parameters, tables=tables)
        return AsyncResult(result, self._strand)


class AsyncDatabase(AsyncTransactions):
    """See `Database.sql`, `Database.begin` and `Database.transact`. Get it as `db.aio`."""

    _twin = AsyncSqlTransaction

    def __init__(self, session: RecordSession, database: SqlDatabase, sql: Callable[..., Result]) -> None:
        super().__init__(session)
        self._run = sql
        self._new = {"new": partial(SqlTransaction, database)}

    def begin(
        self, *, serializable: bool = False, timeout: Duration = TIMEOUT_S, lock: bool = False
    ) -> Opening[AsyncSqlTransaction]:
        """Begin a transaction: `async with db.aio.begin() as tx`, or `tx = await db.aio.begin()`. Arguments, errors
        and cost as `Database.begin`."""
        begun = super().begin(serializable=serializable, timeout=timeout, lock=lock)
        return cast("Opening[AsyncSqlTransaction]", begun)

    async def transact(
        self,
        work: Callable[[AsyncSqlTransaction], Awaitable[T]],
        *,
        serializable: bool = False,
        timeout: Duration = TIMEOUT_S,
        lock: bool = False,
        attempts: int = ATTEMPTS,
    ) -> T:
        """As `Database.transact`, with an async function; see `AsyncTransactions.transact`."""
        return await super().transact(
            cast("Any", work), serializable=serializable, timeout=timeout, lock=lock, attempts=attempts
        )

    async def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, Any] | None = None,
        engine: Literal["duckdb", "spark"] | None = None,
        fence: bool = False,
        script: bool = False,
        in_process: Size | None = None,
        verify: bool = False,
    ) -> AsyncResult:
        """Run one query or statement. Arguments, errors and cost as `Database.sql`. A query that DuckDB runs for it
        is interrupted if the task is cancelled."""
        threads = self._session.threads
        result = await threads.run(
            self._run,
            query,
            parameters,
            tables=tables,
            engine=engine,
            fence=fence,
            script=script,
            in_process=in_process,
            verify=verify,
        )
        return AsyncResult(result, threads)
