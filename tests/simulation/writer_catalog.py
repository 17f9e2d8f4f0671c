"""The smallest use of a writer's catalog: one table, and each commit adds one file that is named by its number, or a
row that stands in the catalog."""

from __future__ import annotations

from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.journal.inlined import InlinedRows
from firn.journal.model import DataFile
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.actions import Action, Add, Define
from firn.journal.writer.format.identity import Ticket, prefix_of
from firn.journal.writer.format.layout import WriterLayout, padded
from firn.journal.writer.format.messages import decode_transaction
from firn.journal.writer.format.rows import stored
from firn.journal.writer.format.state import CatalogHead, CatalogState
from firn.journal.writer.history.history import History

LAYOUT = WriterLayout("root", "host-17", "db")
TABLE = "t"
COLUMNS = (("id", "BIGINT"),)


def history_of(bucket: Bucket) -> History:
    return History(bucket, LAYOUT)


def handle_of(bucket: Bucket, clock: Clock) -> Handle:
    return Handle(history_of(bucket), clock=clock)


def file_of(number: int, ticket: Ticket) -> DataFile:
    path = f"{LAYOUT.data_prefix}{TABLE}/{prefix_of(ticket.uuid)}{number:024}.parquet"
    return DataFile(path, 8, 0, {"rows": 1})


def row_of(number: int, ticket: Ticket) -> DataFile:
    """One row that stands in the catalog."""
    path = f"{LAYOUT.rows_prefix}{TABLE}/{padded(ticket.revision)}.{number:08}"
    rows = InlinedRows.of(dict(COLUMNS), [[number]], 1)
    return stored(DataFile("", 0, 0, {"rows": 1, "inlined": rows}), path, 0, path)


def actions_of(number: int, state: CatalogState, ticket: Ticket, *, row: bool = False) -> list[Action]:
    add = Add(TABLE, row_of(number, ticket) if row else file_of(number, ticket), COLUMNS)
    return [add] if TABLE in state.tables else [Define(TABLE, b"spec"), add]


def commit(handle: Handle, number: int, *, row: bool = False) -> CatalogHead:
    ticket = handle.begin()
    return handle.commit(actions_of(number, handle.state, ticket, row=row), op="append", ticket=ticket)


def numbers(state: CatalogState) -> dict[int, int]:
    """Which commit each revision holds."""
    table = state.tables.get(TABLE)
    found = {} if table is None else table.files
    return {f.revision: number_in(path) for path, f in found.items()}


def number_in(path: str) -> int:
    return int(path[-8:]) if LAYOUT.is_rows(path) else int(path.removesuffix(".parquet")[-24:])


def number_at(bucket: Bucket, key: str) -> int:
    """The commit that a transaction object holds; 0 for one that adds nothing."""
    transaction = decode_transaction(bucket.get(key).data, where=key)
    adds = [action for action in transaction.actions if isinstance(action, Add)]
    return number_in(adds[0].file.path) if adds else 0
