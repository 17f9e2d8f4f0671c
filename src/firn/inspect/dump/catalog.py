"""Decodes objects of a writer's catalog: transactions, checkpoints, claims, markers, and what a data file says
of itself."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from firn.inspect.dump.decoded import SHOWN_BYTES, Decoded, when
from firn.inspect.dump.wire import read_message
from firn.journal.writer.format import catalog_pb2, frame, marker, metadata
from firn.journal.writer.format.messages import decode_checkpoint, decode_transaction

pb: Any = catalog_pb2  # protoc writes no types

_KINDS = (
    (r"(^|/)transactions/[^/]+\.transaction$", "transaction of a writer's catalog"),
    (r"(^|/)transactions/[^/]+\.checkpoint$", "checkpoint of a writer's catalog"),
    (r"(^|/)claims/\d+$", "claim of a writer's catalog"),
)
_MAGICS = {frame.TRANSACTION: _KINDS[0][1], frame.CHECKPOINT: _KINDS[1][1]}
PATHS_SHOWN = 20
"""So many names are shown of a soft delete that names many files."""


def kind_of(name: str, head: bytes) -> str | None:
    """Which of a catalog's framed objects it is, by its name or else by how it begins; None for none."""
    named = next((kind for pattern, kind in _KINDS if re.search(pattern, name)), None)
    return named or _MAGICS.get(head[: len(frame.TRANSACTION)])


def decode_framed(kind: str, data: bytes) -> Decoded:
    """A transaction, claim or checkpoint. A wrong checksum, or a part that can't be read, doesn't stop the rest."""
    found = Decoded(kind)
    _framed(found, data, is_checkpoint=kind == _KINDS[1][1])
    return found


def _framed(found: Decoded, data: bytes, *, is_checkpoint: bool) -> None:
    magic = frame.CHECKPOINT if is_checkpoint else frame.TRANSACTION
    head = frame.read_head(data)
    if head is None:
        found.problems.append(f"{len(data)} bytes are too few for a head, which has {frame.OVERHEAD}")
        found.fields["hex"] = data[:SHOWN_BYTES].hex(" ", 2)
        return
    payload = data[frame.OVERHEAD :]
    found.fields["magic"] = head.magic.decode(errors="backslashreplace")
    found.fields["format version"] = head.version
    agrees = head.length == len(payload)
    found.fields["payload"] = f"{head.length:,} bytes" + ("" if agrees else f", but {len(payload):,} follow")
    found.fields["checksum"] = f"{head.crc:08x}" + (
        "" if head.crc == head.actual else f", but it is {head.actual:08x}"
    )
    kind = pb.Checkpoint if is_checkpoint else pb.Transaction
    message = read_message(kind, payload, found.problems)
    (_checkpoint if is_checkpoint else _transaction)(message, found)
    decode: Callable[..., object] = decode_checkpoint if magic == frame.CHECKPOINT else decode_transaction
    found.judge(lambda: decode(data, where="the object"))


# -- transactions


def _transaction(message: Any, found: Decoded) -> None:
    _identity(message, found)
    kinds = [action.WhichOneof("kind") for action in message.actions]
    if kinds.count("commit") != 1 or kinds[-1] != "commit":
        found.problems.append(
            f"it has {kinds.count('commit')} commits; the last action should be the only one"
        )
    if "commit" in kinds:
        commit = [action.commit for action in message.actions if action.HasField("commit")][-1]
        found.fields["op"] = commit.op
        found.fields["time"] = when(commit.time_ms)
        found.fields["previous"] = commit.previous.hex() or "none"
        found.fields["by claims"] = commit.claimed
        found.fields["summary"] = _json(commit.summary)
        if commit.batches:
            found.sections["batches"] = [f"{b.table}  {b.id}" for b in commit.batches]
    found.sections["actions"] = [
        _action(kind, action) for kind, action in zip(kinds, message.actions, strict=True) if kind != "commit"
    ]
    for action in message.actions:
        if action.HasField("rows"):
            _rows(action.rows.table, action.rows.file, action.rows.body, message.schemas, found)
    _schemas(message, found)


def _identity(message: Any, found: Decoded) -> None:
    found.fields["writer"] = message.writer
    found.fields["database"] = message.database
    found.fields["revision"] = message.revision
    found.fields["uuid"] = message.uuid.hex()


def _action(kind: str | None, action: Any) -> str:
    if kind is None:
        return "an action of no known kind"
    value = getattr(action, kind)
    if kind == "upgrade":
        return f"upgrade to format {value.format}"
    if kind == "add":
        return f"add to {value.table}  {_file(value.file)}"
    if kind == "rows":
        return f"rows of {value.table}  {_file(value.file)}"
    if kind == "remove":
        return f"remove  {value.path}"
    if kind == "tombstones":
        shown = ", ".join(value.files[:PATHS_SHOWN]) + (", …" if len(value.files) > PATHS_SHOWN else "")
        return f"delete rows of {value.table} where {value.predicate}  in {len(value.files):,} files: {shown}"
    if kind == "define":
        return f"define {value.table}  {_plain(_json(value.spec))}"
    if kind == "drop":
        return f"drop {value.table}"
    return f"resolve revision {value.revision}: keep {value.keep.hex()}"


def _file(file: Any) -> str:
    rows = f"{file.rows:,} rows" if file.HasField("rows") else "rows unknown"
    text = f"{file.path}  {file.size:,} bytes, {rows}, schema {file.schema}, {when(file.created_ms)}"
    if file.statistics:
        known = {
            entry.column: [
                _value(entry.min),
                _value(entry.max),
                entry.nulls if entry.HasField("nulls") else None,
                *filter(None, [entry.family]),
            ]
            for entry in file.statistics
        }
        text += f"  statistics {_plain(known)}"
    return f"{text}  {_plain(_json(file.extra))}" if file.extra else text


def _rows(table: str, file: Any, body: bytes, schemas: Sequence[Any], found: Decoded) -> None:
    """The rows that stand in the object, as it has them."""
    try:
        names = [column.name for column in schemas[file.schema].columns]
        found.sections.setdefault(f"rows of {table}", []).extend(
            orjson.dumps(dict(zip(names, row, strict=True))).decode()
            for row in zip(*orjson.loads(body)["v"], strict=True)
        )
    except (IndexError, KeyError, TypeError, ValueError) as error:
        found.problems.append(f"the rows {file.path} can't be shown: {error!r}")


def _value(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    return None if kind is None else getattr(message, kind)


def _schemas(message: Any, found: Decoded) -> None:
    if message.schemas:
        found.sections["schemas"] = [
            f"{number}: " + ", ".join(f"{c.name} {c.type}" for c in schema.columns)
            for number, schema in enumerate(message.schemas)
        ]


# -- checkpoints


def _checkpoint(message: Any, found: Decoded) -> None:
    _identity(message, found)
    found.fields["time"] = when(message.time_ms)
    found.fields["format of the catalog"] = message.format
    found.fields["by claims"] = message.claimed
    for table in message.tables:
        found.fields[f"table {table.name}"] = _json(table.spec)
        found.sections[f"files of {table.name}"] = [_live(f, table.predicates) for f in table.files]
        for entry in table.files:
            if entry.body:
                _rows(table.name, entry.file, entry.body, message.schemas, found)
        if table.batches:
            found.sections[f"batch ids of {table.name}"] = [
                f"{b.id}  revision {b.revision}, {when(b.time_ms)}" for b in table.batches
            ]
    _schemas(message, found)


def _live(entry: Any, predicates: Sequence[Any]) -> str:
    text = f"{_file(entry.file)}, of revision {entry.revision}"
    for index in entry.predicates:
        if index < len(predicates):
            text += f", without rows where {predicates[index].predicate}"
        else:
            text += f", predicate {index}?"
    return text


# -- key-value metadata of Parquet files


def decode_pairs(pairs: Mapping[bytes, bytes], found: Decoded) -> None:
    """Add what Firn's own keys say; the others are there already."""
    if (value := pairs.get(metadata.KEY.encode())) is not None:
        found.fields.pop(metadata.KEY, None)
        _record(value, found)
    if (value := pairs.get(marker.KEY.encode())) is not None:
        found.kind = "marker of a writer's catalog"
        found.fields.pop(marker.KEY, None)
        try:
            body = base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError) as error:
            found.problems.append(f"{marker.KEY}: not base64: {error}")
            found.fields[marker.KEY] = value[:SHOWN_BYTES].decode(errors="backslashreplace")
        else:
            _framed(found, body, is_checkpoint=False)


def _record(value: bytes, found: Decoded) -> None:
    try:
        fields = orjson.loads(value)
        if not isinstance(fields, dict):
            raise ValueError("not a JSON object")
    except ValueError as error:
        found.problems.append(f"{metadata.KEY}: not what a data file says of itself: {error}")
        found.fields[metadata.KEY] = value[:2000].decode(errors="backslashreplace")
        return
    for name, item in fields.items():
        if isinstance(item, list) and item and name in ("columns", "replaces", "applied"):
            found.sections[f"{metadata.KEY}: {name}"] = [
                "  ".join(map(str, entry)) if isinstance(entry, list) else entry for entry in item
            ]
        else:
            found.fields[f"{metadata.KEY}: {name}"] = item
    found.judge(lambda: metadata.decode_record(value, where="the object"))


# -- words


def _json(value: bytes) -> Any:
    """The JSON in a field; what isn't JSON as text."""
    try:
        return orjson.loads(value) if value else {}
    except orjson.JSONDecodeError as error:
        return {"text": value[:SHOWN_BYTES].decode(errors="backslashreplace"), "not JSON": str(error)}


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
