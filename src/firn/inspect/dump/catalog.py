"""What objects of a writer's catalog say: transactions, checkpoints, claims, markers, and what a data file says
of itself."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from firn.errors import FirnError
from firn.inspect.dump.decoded import SHOWN_BYTES, Decoded, when
from firn.inspect.dump.wire import WireReader
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
"""Of a soft delete that names many files."""


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
    message = WireReader(found.problems).message(kind.DESCRIPTOR, payload)
    (_checkpoint if is_checkpoint else _transaction)(message, found)
    decode: Callable[..., object] = decode_checkpoint if magic == frame.CHECKPOINT else decode_transaction
    _judged(found, lambda: decode(data, where="the object"))


def _judged(found: Decoded, read: Callable[[], object]) -> None:
    """Add what a reader says to it: nothing here is refused."""
    try:
        read()
    except FirnError as error:
        found.problems.append(f"readers refuse it: {error}")
    except Exception as error:
        found.problems.append(f"readers fail on it: {error!r}")


# -- transactions


def _transaction(message: Mapping[str, Any], found: Decoded) -> None:
    _identity(message, found)
    actions = _dicts(message.get("actions"))
    commits = _dicts([a.get("commit") for a in actions])
    if len(commits) != 1 or not isinstance(actions[-1].get("commit"), dict):
        found.problems.append(f"it has {len(commits)} commits; the last action should be the only one")
    for commit in commits[-1:]:
        found.fields["op"] = commit.get("op", "")
        found.fields["time"] = when(commit.get("time_ms", 0))
        found.fields["previous"] = _hex(commit.get("previous", b"")) or "none"
        found.fields["by claims"] = commit.get("claimed", False)
        found.fields["summary"] = _json(commit.get("summary", b""))
        if commit.get("batches"):
            found.sections["batches"] = [
                f"{b.get('table')}  {b.get('id')}" for b in _dicts(commit["batches"])
            ]
    found.sections["actions"] = [
        _action(name, value) for a in actions for name, value in a.items() if name != "commit"
    ]
    _schemas(message, found)


def _identity(message: Mapping[str, Any], found: Decoded) -> None:
    found.fields["writer"] = message.get("writer", "")
    found.fields["database"] = message.get("database", "")
    found.fields["revision"] = message.get("revision", 0)
    found.fields["uuid"] = _hex(message.get("uuid", b""))


def _action(name: str, value: Any) -> str:
    if not isinstance(value, dict):
        return f"{name}  {_plain(value)}"
    table = value.get("table", "")
    if name == "add":
        return f"add to {table}  {_file(value.get('file') or {})}"
    if name == "remove":
        return f"remove  {value.get('path', '')}"
    if name == "tombstones":
        files = value.get("files") or []
        shown = ", ".join(map(str, files[:PATHS_SHOWN])) + (", …" if len(files) > PATHS_SHOWN else "")
        return f"delete rows of {table} where {value.get('predicate', '')}  in {len(files):,} files: {shown}"
    if name == "define":
        return f"define {table}  {_plain(_json(value.get('spec', b'')))}"
    if name == "drop":
        return f"drop {table}"
    if name == "resolve":
        return f"resolve revision {value.get('revision', 0)}: keep {_hex(value.get('keep', b''))}"
    return f"{name}  {_plain(value)}"


def _file(file: Any) -> str:
    if not isinstance(file, dict):
        return str(_plain(file))
    rows = f"{file['rows']:,} rows" if type(file.get("rows")) is int else "rows unknown"
    size = f"{file['size']:,} bytes" if type(file.get("size")) is int else "0 bytes"
    created = when(file.get("created_ms", 0))
    text = f"{file.get('path', '')}  {size}, {rows}, schema {file.get('schema', 0)}, {created}"
    rest: dict[str, Any] = {}
    for entry in _dicts(file.get("statistics")):
        bounds = [_value(entry.get("min")), _value(entry.get("max")), entry.get("nulls")]
        rest[str(entry.get("column", ""))] = [*bounds, *filter(None, [entry.get("family")])]
    if rest:
        text += f"  statistics {_plain(rest)}"
    if file.get("extra"):
        text += f"  {_plain(_json(file['extra']))}"
    return text


def _value(message: Any) -> Any:
    return next(iter(message.values()), None) if isinstance(message, dict) else message


def _schemas(message: Mapping[str, Any], found: Decoded) -> None:
    lines = []
    for number, schema in enumerate(_dicts(message.get("schemas"))):
        columns = _dicts(schema.get("columns"))
        lines.append(f"{number}: " + ", ".join(f"{c.get('name', '')} {c.get('type', '')}" for c in columns))
    if lines:
        found.sections["schemas"] = lines


# -- checkpoints


def _checkpoint(message: Mapping[str, Any], found: Decoded) -> None:
    _identity(message, found)
    found.fields["time"] = when(message.get("time_ms", 0))
    found.fields["format of the catalog"] = message.get("format", 0)
    found.fields["by claims"] = message.get("claimed", False)
    for table in _dicts(message.get("tables")):
        name = table.get("name", "")
        predicates = _dicts(table.get("predicates"))
        found.fields[f"table {name}"] = _json(table.get("spec", b""))
        found.sections[f"files of {name}"] = [_live(f, predicates) for f in _dicts(table.get("files"))]
        if table.get("batches"):
            found.sections[f"batch ids of {name}"] = [
                f"{b.get('id', '')}  revision {b.get('revision', 0)}, {when(b.get('time_ms', 0))}"
                for b in _dicts(table["batches"])
            ]
    _schemas(message, found)


def _live(entry: Mapping[str, Any], predicates: Sequence[Mapping[str, Any]]) -> str:
    text = f"{_file(entry.get('file') or {})}, of revision {entry.get('revision', 0)}"
    for index in entry.get("predicates") or []:
        known = type(index) is int and index < len(predicates)
        text += (
            f", without rows where {predicates[index].get('predicate', '')}"
            if known
            else f", predicate {index}?"
        )
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
    _judged(found, lambda: metadata.decode_record(value, where="the object"))


# -- words


def _dicts(values: Any) -> list[Mapping[str, Any]]:
    return [v for v in values if isinstance(v, dict)] if isinstance(values, list) else []


def _hex(value: Any) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def _json(value: Any) -> Any:
    """The JSON in a field; what isn't JSON as text."""
    if not isinstance(value, bytes):
        return value
    try:
        return orjson.loads(value) if value else {}
    except orjson.JSONDecodeError as error:
        return {"text": value[:SHOWN_BYTES].decode(errors="backslashreplace"), "not JSON": str(error)}


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value, default=_hex).decode()
