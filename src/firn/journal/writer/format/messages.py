"""Transactions and checkpoints as bytes: dataclasses on one side, framed protobuf on the other.

An action or a field that this version doesn't know is an error: it might have removed a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import orjson
from google.protobuf.message import DecodeError

from firn.journal.model import DataFile
from firn.journal.writer.format import catalog_pb2, frame
from firn.journal.writer.format.actions import (
    Action,
    Add,
    CatalogTransaction,
    Columns,
    CommitRecord,
    Define,
    Drop,
    Remove,
    Resolve,
    Tombstones,
    Upgrade,
)
from firn.journal.writer.format.datafile import (
    Malformed,
    Message,
    SchemaList,
    decode_file,
    decode_schemas,
    encode_file,
    json_object,
    schema_at,
)
from firn.journal.writer.format.identity import is_uuid
from firn.journal.writer.format.layout import LARGEST_REVISION
from firn.journal.writer.format.rows import body_of, with_body
from firn.journal.writer.format.state import (
    ROWS_FORMAT,
    CatalogHead,
    CatalogSoftDelete,
    CatalogState,
    CatalogTable,
    LiveFile,
    beside,
    greatest_clock,
)

pb: Any = catalog_pb2  # protoc writes no types
T = TypeVar("T")


def encode_transaction(transaction: CatalogTransaction) -> bytes:
    """The object's bytes, equal for equal transactions."""
    message = pb.Transaction(
        writer=transaction.writer,
        database=transaction.database,
        revision=transaction.revision,
        uuid=bytes.fromhex(transaction.uuid),
    )
    schemas = SchemaList(message.schemas)
    for action in transaction.actions:
        _encode_action(message.actions.add(), action, schemas)
    commit = transaction.commit
    message.actions.add().commit.CopyFrom(
        pb.Commit(
            uuid=bytes.fromhex(commit.uuid),
            previous=bytes.fromhex(commit.previous or ""),
            time_ms=commit.time_ms,
            op=commit.op,
            batches=[pb.Batch(table=table, id=batch) for table, batch in commit.batches],
            summary=orjson.dumps(dict(commit.summary)),
            claimed=commit.claimed,
        )
    )
    return frame.pack(
        frame.TRANSACTION, message.SerializeToString(deterministic=True), version=transaction.format
    )


def decode_transaction(data: bytes, *, where: str) -> CatalogTransaction:
    """`where` is the object's URL, for messages.

    Raises:
        CorruptObjectError: any flipped or missing bit, and anything that no Firn writes.
        UnsupportedError: a newer format.
    """
    return _decoded(frame.TRANSACTION, pb.Transaction, data, where, _read_transaction)


def encode_checkpoint(state: CatalogState) -> bytes:
    """The object's bytes, equal for equal states."""
    head = state.head
    if head.uuid is None:
        raise ValueError("the empty start has no checkpoint")
    message = pb.Checkpoint(
        writer=state.writer,
        database=state.database,
        revision=head.revision,
        uuid=bytes.fromhex(head.uuid),
        time_ms=head.time_ms,
        format=state.format,
        claimed=head.claimed,
    )
    schemas = SchemaList(message.schemas)
    for table in state.tables.values():
        _encode_table(message.tables.add(), table, schemas)
    return frame.pack(frame.CHECKPOINT, message.SerializeToString(deterministic=True), version=state.format)


def decode_checkpoint(data: bytes, *, where: str) -> CatalogState:
    """Like `decode_transaction`."""
    return _decoded(frame.CHECKPOINT, pb.Checkpoint, data, where, _read_checkpoint)


def _decoded(magic: bytes, kind: Any, data: bytes, where: str, read: Callable[[Message, int, str], T]) -> T:
    payload, version = frame.unpack(magic, data, where=where)
    try:
        message = kind.FromString(payload)
        size = message.ByteSize()
        message.DiscardUnknownFields()
        if message.ByteSize() != size:
            raise Malformed(
                "it has actions or fields that this version doesn't know, though its format says so"
            )
        return read(message, version, where)
    except (DecodeError, UnicodeDecodeError) as error:
        raise frame.corrupt(magic, where, f"its messages can't be decoded ({error})") from error
    except Malformed as error:
        raise frame.corrupt(magic, where, str(error)) from error


# -- transactions


def _encode_action(target: Message, action: Action, schemas: SchemaList) -> None:
    if isinstance(action, Add) and action.file.inlined is not None:
        target.rows.table = action.table
        encode_file(target.rows.file, action.file, schemas.index(action.columns))
        target.rows.body = body_of(action.file)
    elif isinstance(action, Add):
        target.add.table = action.table
        encode_file(target.add.file, action.file, schemas.index(action.columns))
    elif isinstance(action, Remove):
        target.remove.path = action.path
    elif isinstance(action, Tombstones):
        target.tombstones.table = action.table
        target.tombstones.predicate = action.predicate
        target.tombstones.files.extend(action.files)
    elif isinstance(action, Define):
        target.define.table = action.table
        target.define.spec = action.spec
    elif isinstance(action, Drop):
        target.drop.table = action.table
    elif isinstance(action, Upgrade):
        target.upgrade.format = action.format
    else:
        target.resolve.revision = action.revision
        target.resolve.keep = bytes.fromhex(action.keep)


def _read_transaction(message: Message, version: int, where: str) -> CatalogTransaction:
    if not message.actions or message.actions[-1].WhichOneof("kind") != "commit":
        raise Malformed("its last action isn't a commit")
    revision, uuid = _identity(message)
    schemas = decode_schemas(message.schemas)
    actions = tuple(_read_action(action, schemas, version, where) for action in message.actions[:-1])
    last = message.actions[-1].commit
    commit = CommitRecord(
        _uuid(last.uuid),
        _uuid(last.previous) if last.previous else None,
        last.time_ms,
        last.op,
        tuple((batch.table, batch.id) for batch in last.batches),
        json_object(last.summary, "its summary"),
        last.claimed,
    )
    if commit.uuid != uuid:
        raise Malformed(f"it is {uuid}, and its commit says {commit.uuid}")
    if (commit.previous is None) != (revision == 1):
        raise Malformed(f"revision {revision} names {commit.previous} as the one before it")
    return CatalogTransaction(message.writer, message.database, revision, actions, commit, version)


def _read_action(message: Message, schemas: Sequence[Columns], version: int, where: str) -> Action:
    kind = message.WhichOneof("kind")
    if kind == "add":
        file = message.add.file
        return Add(message.add.table, decode_file(file), schema_at(schemas, file.schema))
    if kind == "rows":
        _check_rows(version)
        file, columns = message.rows.file, schema_at(schemas, message.rows.file.schema)
        return Add(message.rows.table, _with_rows(file, columns, message.rows.body, where), columns)
    if kind == "remove":
        return Remove(message.remove.path)
    if kind == "tombstones":
        found = message.tombstones
        return Tombstones(found.table, found.predicate, tuple(found.files))
    if kind == "define":
        return Define(message.define.table, message.define.spec)
    if kind == "drop":
        return Drop(message.drop.table)
    if kind == "upgrade":
        return Upgrade(message.upgrade.format)
    if kind == "resolve":
        return Resolve(message.resolve.revision, _uuid(message.resolve.keep))
    raise Malformed("it has an action of no kind" if kind is None else f"a {kind} isn't its last action")


def _check_rows(version: int) -> None:
    if version < ROWS_FORMAT:
        raise Malformed(f"it holds rows, which an object of format {version} can't")


def _with_rows(source: Message, columns: Columns, body: bytes, where: str) -> DataFile:
    file = decode_file(source)
    if file.size != len(body) or not body or not file.rows:
        raise Malformed(f"its rows {file.path} have {len(body)} bytes, and their file says {file.size}")
    return with_body(file, columns, body, where)


def _identity(message: Message) -> tuple[int, str]:
    if not 1 <= message.revision <= LARGEST_REVISION:
        raise Malformed(f"its revision is {message.revision}")
    return message.revision, _uuid(message.uuid)


def _uuid(data: bytes) -> str:
    text = data.hex()
    if not is_uuid(text):
        raise Malformed(f"a uuid of it has {len(data)} bytes, not 16")
    return text


# -- checkpoints


def _encode_table(target: Message, table: CatalogTable, schemas: SchemaList) -> None:
    target.name = table.name
    target.spec = table.spec
    target.schemas.extend(schemas.index(columns) for columns in table.schemas)
    known: dict[CatalogSoftDelete, int] = {}
    for live in table.files.values():
        entry = target.files.add(revision=live.revision)
        encode_file(entry.file, live.file, schemas.index(live.columns))
        entry.body = body_of(live.file)
        for delete in live.deletes:
            if delete not in known:
                known[delete] = len(known)
                target.predicates.add(predicate=delete.predicate, revision=delete.revision)
            entry.predicates.append(known[delete])
    for batch, (revision, time_ms) in table.batches.items():
        target.batches.add(id=batch, revision=revision, time_ms=time_ms)


def _read_checkpoint(message: Message, version: int, where: str) -> CatalogState:
    revision, uuid = _identity(message)
    if message.format != version:
        raise Malformed(f"it is of a catalog of format {message.format}, though its own says otherwise")
    schemas = decode_schemas(message.schemas)
    tables = {table.name: _read_table(table, schemas, version, where) for table in message.tables}
    if len(tables) != len(message.tables):
        raise Malformed("it has two tables of one name")
    paths = {path for table in tables.values() for path in table.files}
    if len(paths) != sum(len(table.files) for table in message.tables):
        raise Malformed("it has a file twice")
    head = CatalogHead(revision, uuid, message.time_ms, message.claimed)
    return CatalogState(message.writer, message.database, head, message.format, tables)


def _read_table(message: Message, schemas: Sequence[Columns], version: int, where: str) -> CatalogTable:
    deletes = [CatalogSoftDelete(p.predicate, p.revision) for p in message.predicates]
    files: dict[str, LiveFile] = {}
    inlined = 0
    for entry in message.files:
        file = decode_file(entry.file)
        chosen = tuple(deletes[i] for i in entry.predicates if i < len(deletes))
        if len(chosen) != len(entry.predicates):
            raise Malformed(f"{file.path} has a predicate that isn't in the checkpoint")
        columns = schema_at(schemas, entry.file.schema)
        if entry.body:
            _check_rows(version)
            file = _with_rows(entry.file, columns, entry.body, where)
            inlined += file.size
        files[file.path] = LiveFile(file, columns, entry.revision, chosen)
    return CatalogTable(
        message.name,
        message.spec,
        tuple(schema_at(schemas, i) for i in message.schemas),
        files,
        {batch.id: (batch.revision, batch.time_ms) for batch in message.batches},
        greatest_clock(live.file for live in files.values()),
        any(map(beside, files.values())),
        inlined,
    )
