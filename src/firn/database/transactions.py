"""Transactions over record tables: what `Database` offers for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

from firn.arguments import checked
from firn.records.definition.settings import ATTEMPTS
from firn.units import Duration

if TYPE_CHECKING:
    from firn.database.aio import AsyncDatabase
    from firn.database.kinds.records import RecordTables
    from firn.database.sql_transaction import SqlDatabase, SqlTransaction

T = TypeVar("T")


@checked
class Transactions:
    """The part of `Database` that begins transactions."""

    @property
    def _records(self) -> RecordTables:
        raise NotImplementedError

    def begin(
        self, *, serializable: bool = False, timeout: Duration = "10m", lock: bool = False
    ) -> SqlTransaction:
        """Begin a transaction over any record tables of the database: its reads see one snapshot, the commits until
        now, and its own writes. As a context manager it commits at the end, or rolls back after an error.

        Args:
            serializable: commit only if nothing that was read has changed either. Without, two transactions may each
                rely on what the other changes, as long as they write no row in common; see docs/howto/records.md.
            timeout: after how long the transaction can do nothing more.
            lock: take advisory locks on rows before they are changed, so that conflicts show early: 1 PUT more a
                row, and 1 when it ends. Those of a process that crashed last until the timeout.

        Raises:
            InvalidInputError: a timeout that can't be.
            StoreError: the bucket failed.

        Cost: 1 GET, and 1 a commit that this process hasn't seen; at first 1 LIST and 2 GETs more. See `Transaction`
        for what is done in it.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> stock = db.create_table("stock", kind="records")
            >>> for airport in ("DTW", "HNL"):
            ...     _ = stock.insert(airport, {"planes": 5})
            >>> with db.begin() as tx:
            ...     for airport, more in (("DTW", -2), ("HNL", 2)):
            ...         row = tx.get("stock", airport)
            ...         _ = tx.update("stock", airport, {"planes": row["planes"] + more})
            >>> [row["planes"] for row in stock.scan()]
            [3, 7]
        """
        from firn.database.sql_transaction import SqlTransaction

        new = partial(SqlTransaction, cast("SqlDatabase", self))
        begun = self._records.session.begin(serializable=serializable, timeout=timeout, lock=lock, new=new)
        return cast("SqlTransaction", begun)

    def transact(
        self,
        work: Callable[[SqlTransaction], T],
        *,
        serializable: bool = False,
        timeout: Duration = "10m",
        lock: bool = False,
        attempts: int = ATTEMPTS,
    ) -> T:
        """Run a function in a transaction, commit, and return what it returned; again, in another transaction and
        after a pause, if somebody else was faster. It counts once, even where the store didn't answer.

        Args:
            work: takes the transaction. It may run several times: what it does beside the transaction should bear
                that.
            serializable: see `begin`, as for `timeout` and `lock`.
            attempts: how often at most.

        Raises:
            ConflictError: others were faster each time. Nothing is visible.
            OutcomeUnknownError: the store failed for so long that it may or may not be committed.
            Exception: what `work` raises. Nothing is visible.

        Cost: that of `begin`, what `work` does, and the commit; each time.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> _ = db.create_table("counters", kind="records").insert("visits", {"n": 0})
            >>> def more(tx):
            ...     row = tx.get("counters", "visits")
            ...     tx.update("counters", "visits", {"n": row["n"] + 1})
            ...     return row["n"] + 1
            >>> db.transact(more), db.transact(more)
            (1, 2)
        """
        from firn.database.sql_transaction import SqlTransaction

        return self._records.session.transact(
            work,
            serializable=serializable,
            timeout=timeout,
            lock=lock,
            attempts=attempts,
            new=partial(SqlTransaction, cast("SqlDatabase", self)),
        )

    @property
    def aio(self) -> AsyncDatabase:
        """The same for asyncio: `async with db.aio.begin() as tx`, `await db.aio.transact(work)`, and `await
        db.aio.sql(query)`.

        Example:
            >>> import asyncio, firn
            >>> db = firn.connect("memory://")
            >>> stock = db.create_table("stock", kind="records")
            >>> async def main():
            ...     async with db.aio.begin() as tx:
            ...         await tx.insert("stock", "DTW", {"planes": 5})
            ...     return await stock.aio.get("DTW")
            >>> asyncio.run(main())["planes"]
            5
        """
        from firn.database.aio import AsyncDatabase

        database = cast("SqlDatabase", self)
        return AsyncDatabase(self._records.session, database, database.sql)
