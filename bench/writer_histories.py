"""Writers with a long history and no data: only their catalogs are real. For opening, not for reading."""

from __future__ import annotations

import time

import orjson

from bench.long_logs import COLUMNS, marker
from firn.bucket.base import Bucket
from firn.journal.writer.federation.database_name import encode_name
from firn.journal.writer.federation.definition import WriterDefinition
from firn.journal.writer.format.actions import Action, Add, CatalogTransaction, CommitRecord, Define, Upgrade
from firn.journal.writer.format.identity import Ticket, new_uuid, prefix_of
from firn.journal.writer.format.layout import ObjectName, WriterLayout, database_key
from firn.journal.writer.format.messages import encode_checkpoint, encode_transaction
from firn.journal.writer.format.state import FIRST_FORMAT, CatalogState, replay
from firn.journal.writer.history.objects import Reader
from firn.lake.definition.definition import LakeDefinition

TABLE = "t"


def write_history(
    bucket: Bucket, layout: WriterLayout, commits: int, *, after: CatalogState | None = None
) -> CatalogState:
    """Write transactions as Firn does, by PUT and LIST, each adding a file of ten rows; the state after them."""
    state = after or CatalogState(layout.writer, layout.database)
    columns = tuple(COLUMNS.items())
    start = int(time.time() * 1000) - commits
    transactions = []
    uuid = state.head.uuid
    for revision in range(state.head.revision + 1, state.head.revision + commits + 1):
        actions: list[Action] = []
        if revision == 1:
            definition = WriterDefinition(
                orjson.dumps(LakeDefinition(TABLE, journal="writer").fields()), start, layout.writer
            )
            actions = [Upgrade(FIRST_FORMAT), Define(TABLE, definition.encode())]
        ticket = Ticket(revision, new_uuid(), uuid)
        path = layout.namer(TABLE, ticket)("")
        actions.append(Add(TABLE, marker(path, start + revision, revision), columns))
        record = CommitRecord(ticket.uuid, uuid, start + revision, "append")
        transactions.append(CatalogTransaction(layout.writer, layout.database, revision, actions, record))
        uuid = record.uuid
    bucket.put(database_key(layout.prefix), encode_name(layout.database))
    bucket.put_many(
        [(layout.transaction_key(t.revision, t.uuid), encode_transaction(t)) for t in transactions]
    )
    return replay(state, [(t, "written right now") for t in transactions])


def write_checkpoint(bucket: Bucket, layout: WriterLayout, state: CatalogState) -> None:
    """The checkpoint of a state, and the hint."""
    head = state.head
    assert head.uuid is not None
    bucket.put(layout.checkpoint_key(head.revision, head.uuid), encode_checkpoint(state))
    Reader(bucket, layout).write_hint(ObjectName(head.revision, prefix_of(head.uuid), "checkpoint"))
