"""Statements inside of a transaction: the tables as it sees them, and what it may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firn.errors import TableNotFoundError, UnsupportedError
from firn.predicate.select import shown
from firn.records.write.transaction import Transaction
from firn.sql.kinds.kind import TransactionVerb, sql_kind
from firn.sql.syntax.heads import read_statement
from firn.sql.syntax.schemas import tables_in
from firn.sql.syntax.statements import (
    AlterTable,
    CopyTo,
    CreateTable,
    DropTable,
    QueryStatement,
    ShowCreateTable,
    ShowTables,
)
from firn.sql.syntax.time_travel import Parameters
from firn.sql.tables import QueryTables, opened


class _Block:
    """Tables of a database, none of which comes or goes while a transaction lasts."""

    def __init__(self, database: QueryTables) -> None:
        self._database = database

    def tables(self) -> list[str]:
        return self._database.tables()

    @property
    def create_table(self) -> Callable[..., Any]:
        raise UnsupportedError("a transaction changes rows, no definitions: create tables before it.")

    def drop_table(self, name: str) -> Any:
        raise UnsupportedError(f"a transaction changes rows, no definitions: drop {name} after it.")

    def transact(self, work: Callable[[Any], Any]) -> Any:
        raise NotImplementedError


class TransactionTables(_Block):
    """The tables of a database in a transaction over record tables."""

    def __init__(self, database: QueryTables, transaction: Transaction) -> None:
        super().__init__(database)
        self._transaction = transaction

    def table(self, name: str) -> Any:
        table = self._database.table(name)
        return sql_kind(table.kind).inside(table, self._transaction)

    def check_change(self, table: Any) -> None:
        """Refuse tables that the transaction can't change.

        Raises:
            UnsupportedError: see there.
        """
        if sql_kind(table.kind).transaction(table) != "begin":
            raise UnsupportedError(
                f"the transaction is over record tables, and can't change {table.name}, which is none with "
                "isolation='snapshot': change it after the commit."
            )

    def transact(self, work: Callable[[Any], Any]) -> Any:
        return work(self._transaction)


class WriterBlockTables(_Block):
    """The tables of a database in a transaction of its writer.

    Args:
        opened: opens a table of writers' catalogs in the transaction; raises `TableNotFoundError` for others.
    """

    def __init__(self, database: QueryTables, opened: Callable[[str], Any]) -> None:
        super().__init__(database)
        self._opened = opened

    def table(self, name: str) -> Any:
        try:
            return self._opened(name)
        except TableNotFoundError:
            return self._database.table(name)

    def check_change(self, table: Any) -> None:
        """Refuse tables that the transaction can't change.

        Raises:
            UnsupportedError: see there.
        """
        if sql_kind(table.kind).transaction(table) != "writer_transaction":
            raise UnsupportedError(
                f"the transaction is over tables of writers' catalogs, and can't change {table.name}, which is none: "
                "change it after the commit."
            )


def transaction_for(database: QueryTables, query: str, parameters: Parameters) -> TransactionVerb | None:
    """The verb of a database that begins the transaction which the first statement of a block calls for; None where
    it only reads tables that have none.

    Raises:
        UnsupportedError: it changes definitions, or a table without transactions.
    """
    statement = read_statement(query)
    if isinstance(statement, (QueryStatement, CopyTo)):
        read = statement.text if isinstance(statement, QueryStatement) else statement.query
        names, changes = tables_in(read, parameters), False
    elif isinstance(statement, (ShowTables, ShowCreateTable)):
        return None
    elif isinstance(statement, (CreateTable, AlterTable, DropTable)):
        raise UnsupportedError(
            f"the statement {shown(query)} changes definitions, which no transaction does."
        )
    else:
        names, changes = [statement.table], True
    for name in names:
        try:
            table = opened(database, name)
        except TableNotFoundError:
            continue  # one of the query's own, or it says so itself
        verb = sql_kind(table.kind).transaction(table)
        if verb == "begin" or (verb is not None and changes):
            return verb
        if changes:
            raise UnsupportedError(
                f"the statement {shown(query)}: {table.name} has no transactions; record tables have, and those "
                "with journal='writer'. Change it before BEGIN, or after COMMIT."
            )
    return None
