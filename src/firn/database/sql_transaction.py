"""Transactions that take SQL: over record tables, and over tables of a writer's catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from firn.arguments import checked
from firn.database.engines import DatabaseEngines
from firn.records.write.transaction import Transaction
from firn.sql.blocks import TransactionTables
from firn.sql.result import Result
from firn.sql.run import Statements


class SqlDatabase(Protocol):
    """What a transaction, and what awaits it, need of a database."""

    @property
    def engines(self) -> DatabaseEngines: ...

    @property
    def sql(self) -> Callable[..., Result]: ...

    def table(self, name: str) -> Any: ...

    def tables(self) -> list[str]: ...


@checked
class SqlTransaction(Transaction):
    """A transaction over the record tables of a database, which takes SQL, too. Made by `Database.begin`; see
    `Transaction` for its other verbs."""

    def __init__(self, database: SqlDatabase, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._database = database

    def sql(
        self,
        query: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        tables: Mapping[str, Any] | None = None,
    ) -> Result:
        """Run one query or statement in the transaction, in this process, as `Database.sql` does: it sees the
        transaction's snapshot of record tables, and its own writes; other tables as they are now.

        A statement that fails changes nothing, and the transaction goes on.

        Raises:
            UnsupportedError: a statement that changes other tables than record tables, or definitions.
            TransactionClosedError: the transaction has ended; also where rows of a query are asked for then.

        Cost: as `Database.sql`; of a record table 1 GET a row that a condition names by its `_id`, else 1 LIST
        sequence and 1 GET a row of the table.

        Example:
            >>> import firn
            >>> db = firn.connect("memory://")
            >>> stock = db.create_table("stock", kind="records", schema={"pairs": "BIGINT"})
            >>> _ = stock.insert("skis", {"pairs": 5})
            >>> with db.begin() as tx:
            ...     _ = tx.sql("UPDATE stock SET pairs = pairs - 1 WHERE _id = ?", ["skis"])
            ...     print([row["pairs"] for row in tx.sql("SELECT pairs FROM stock")])
            [4]
        """
        self._must_be_open()
        before = self.savepoint()
        statements = Statements(
            TransactionTables(self._database, self),
            tables,
            limits=self._database.engines.limits,
            because="a transaction runs in this process",
        )
        try:
            return Result(
                statements.run(query, parameters), self._database.engines.session, self._must_be_open
            )
        except BaseException:
            if self.is_open:
                self.rollback(to=before)
            raise
