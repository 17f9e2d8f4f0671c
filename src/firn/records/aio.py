"""Transactions for asyncio: the same verbs, awaited.

Each call runs the synchronous verb in a thread, so the event loop never waits. Calls of one transaction
come one after the other; commits of many share records as those of many threads do. Nothing is decided here but what
becomes of a call whose task is cancelled: it ends by itself, a commit too, and what became of that can be asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from concurrent.futures import Future
from functools import partial
from inspect import isawaitable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from firn.concurrency.aio import AsyncVerbs, Opening, Strand, Threads, awaited, each
from firn.errors import InvalidInputError
from firn.records.definition.settings import ATTEMPTS
from firn.records.documents.documents import Record
from firn.records.read.rows import ROWS
from firn.records.write.retry import MAY_PASS, Attempts
from firn.records.write.transaction import TIMEOUT_S, Transaction

if TYPE_CHECKING:
    from firn.records.session import RecordSession
    from firn.units import Duration

T = TypeVar("T")


class AsyncTransaction(AsyncVerbs[Transaction]):
    """See `Transaction`. Begin one by `db.aio.begin`. Tasks may share it: their calls come one after the other.

    A task that is cancelled leaves the call that it waits for to end by itself; one that hasn't begun yet is taken
    back. So a transaction whose task is cancelled before it commits never commits, and one whose task is cancelled
    while it waits for `commit` is committed or not, never half: `in_doubt` until that has ended, and then `committed`
    tells, or another `commit`.

    As a context manager it commits at the end, and rolls back if an exception leaves it. Where the task was
    cancelled, nobody waits for the locks to be released.
    """

    def __init__(self, sync: Transaction, threads: Threads) -> None:
        self._strand = Strand(threads)
        super().__init__(sync, self._strand)
        self._ending = self._left = self._unheard = False
        self._error: BaseException | None = None

    @property
    def txid(self) -> str:
        return self.sync.txid

    @property
    def serializable(self) -> bool:
        return self.sync.serializable

    @property
    def committed(self) -> int | None:
        """The number of its commit, None before."""
        return self.sync.committed

    @property
    def snapshot(self) -> int:
        """The number of the last commit that it sees."""
        return self.sync.snapshot

    @property
    def in_doubt(self) -> bool:
        """Whether it may be committed, and nobody knows: not yet, or not any more."""
        return self._ending or self.sync.in_doubt

    @property
    def is_open(self) -> bool:
        """Whether it can still do anything."""
        return not self._ending and not self._left and self.sync.is_open

    # -- reading

    get = awaited(Transaction.get)
    get_many = awaited(Transaction.get_many)
    find = awaited(Transaction.find)
    scan = awaited(Transaction.scan)
    count = awaited(Transaction.count)

    def stream(
        self, table: str, where: Mapping[str, Any] | None = None, /, **equalities: Any
    ) -> AsyncIterator[Record]:
        """The same as `scan`, few rows at a time: `async for row in tx.stream(table)`."""
        return each(self._strand, lambda: self.sync.stream(table, where, **equalities), ROWS)

    # -- writing

    insert = awaited(Transaction.insert)
    upsert = awaited(Transaction.upsert)
    update = awaited(Transaction.update)
    delete = awaited(Transaction.delete)
    insert_many = awaited(Transaction.insert_many)
    upsert_many = awaited(Transaction.upsert_many)
    delete_many = awaited(Transaction.delete_many)
    savepoint = awaited(Transaction.savepoint)
    rollback = awaited(Transaction.rollback)

    # -- the end

    async def commit(self) -> int:
        """Make all writes visible at once; the number of the commit. Where the task that committed was cancelled,
        another call waits for that to end, and gives or raises what it would have."""
        await self._end(self.sync.commit)
        assert self.sync.committed is not None
        return self.sync.committed

    async def __aenter__(self) -> AsyncTransaction:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            try:
                await self._end(partial(self.sync.__exit__, None, None, None))
            except asyncio.CancelledError as cancelled:
                # If the commit hasn't begun yet, it never does.
                self._roll_back(type(cancelled), cancelled)
                raise
            return
        rolled_back = self._roll_back(kind, error)
        if issubclass(kind, Exception):
            await asyncio.shield(asyncio.wrap_future(rolled_back))

    # -- how

    async def _end(self, end: Callable[[], object]) -> None:
        try:
            await self._strand.run(self._end_or_tell, end)
        except asyncio.CancelledError:
            self._unheard = True
            raise

    def _end_or_tell(self, end: Callable[[], object]) -> None:
        """In a thread: end it, or tell what became of an end that nobody has waited for."""
        ended = self._error is not None or self.sync.committed is not None
        unheard, self._unheard = self._unheard and ended, False
        if not unheard:
            self._ending = True
            try:
                end()
            except BaseException as error:
                self._error = error
                raise
            finally:
                self._ending = False
        elif self._error is not None:
            raise self._error

    def _roll_back(self, kind: type[BaseException], error: BaseException | None) -> Future[None]:
        """Unless it has ended; whoever waits for that or not."""
        self._left = True
        return self._strand.begin(partial(self.sync.__exit__, kind, error, None))


class AsyncTransactions:
    """See `Database.begin` and `Database.transact`. Get it as `db.aio`.

    Example:
        >>> import asyncio, firn
        >>> db = firn.connect("memory://")
        >>> stock = db.create_table("stock", kind="records")
        >>> async def move(giver, taker):
        ...     async with db.aio.begin() as tx:
        ...         for airport, more in ((giver, -2), (taker, 2)):
        ...             row = await tx.get("stock", airport)
        ...             await tx.update("stock", airport, {"planes": row["planes"] + more})
        >>> async def main():
        ...     for airport in ("DTW", "HNL"):
        ...         await stock.aio.insert(airport, {"planes": 5})
        ...     await move("DTW", "HNL")
        ...     return [row["planes"] for row in await stock.aio.scan()]
        >>> asyncio.run(main())
        [3, 7]
    """

    _twin: Callable[[Any, Threads], AsyncTransaction] = AsyncTransaction
    """Makes the transaction for asyncio of one that was begun."""

    def __init__(self, session: RecordSession) -> None:
        self._session = session
        self._new: Mapping[str, Any] = {}

    def begin(
        self, *, serializable: bool = False, timeout: Duration = TIMEOUT_S, lock: bool = False
    ) -> Opening[AsyncTransaction]:
        """Begin a transaction: `async with db.aio.begin() as tx`, or `tx = await db.aio.begin()`. Arguments, errors
        and cost as `Database.begin`."""
        options = {"serializable": serializable, "timeout": timeout, "lock": lock}

        async def make() -> AsyncTransaction:
            threads = self._session.threads
            return self._twin(await threads.run(self._session.begin, **options, **self._new), threads)

        return Opening(make)

    async def transact(
        self,
        work: Callable[[AsyncTransaction], Awaitable[T]],
        *,
        serializable: bool = False,
        timeout: Duration = TIMEOUT_S,
        lock: bool = False,
        attempts: int = ATTEMPTS,
    ) -> T:
        """Run an async function in a transaction, commit, and return what it returned; again, in another transaction
        and after a pause, if somebody else was faster. Arguments, errors and cost as `Database.transact`.

        Where the task is cancelled nothing is begun again. The function's writes aren't visible if it hadn't returned
        yet; else they are committed or not, never half. Take `begin` to learn which.

        Example:
            >>> import asyncio, firn
            >>> db = firn.connect("memory://")
            >>> _ = db.create_table("counters", kind="records").insert("visits", {"n": 0})
            >>> async def more(tx):
            ...     row = await tx.get("counters", "visits")
            ...     await tx.update("counters", "visits", {"n": row["n"] + 1})
            ...     return row["n"] + 1
            >>> async def main():
            ...     return await asyncio.gather(*(db.aio.transact(more) for _ in range(3)))
            >>> sorted(asyncio.run(main()))
            [1, 2, 3]
        """
        threads = self._session.threads
        tries = Attempts(self._session.store, attempts)
        while True:
            tx = await self.begin(serializable=serializable, timeout=timeout, lock=lock)
            done: list[T] = []
            try:
                async with tx:
                    done.append(await _awaitable(work(tx)))
                return done[0]
            except MAY_PASS as error:
                pause = await threads.run(tries.after, tx.sync, error, worked=bool(done))
                if pause is None:
                    return done[0]
            await asyncio.sleep(pause)

    async def run(self, verb: Callable[..., T], /, *args: Any, **options: Any) -> T:
        """Any other verb, in a thread: `await db.aio.run(db.create_table, "stock", kind="records")`."""
        return await self._session.threads.run(verb, *args, **options)


def _awaitable(given: Awaitable[T]) -> Awaitable[T]:
    if not isawaitable(given):
        raise InvalidInputError("transact needs an async function here; db.transact takes others.")
    return given
