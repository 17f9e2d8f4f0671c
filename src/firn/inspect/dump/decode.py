"""Decodes the bytes of one object, as far as they can be read. Pure but for the reads it is handed."""

from __future__ import annotations

import re
import struct
import zlib
from typing import Any

import orjson

from firn.errors import FirnError
from firn.inspect.dump import catalog, keyed
from firn.inspect.dump.decoded import SHOWN_BYTES, Decoded, Read, excerpt, moment, when
from firn.inspect.dump.footer import decode_parquet
from firn.journal.leaderless.format import codec
from firn.journal.leaderless.replay import checkpoint


def decode_object(name: str, size: int, read: Read) -> Decoded:
    """Decode by the name; where it tells nothing, by how the bytes begin."""
    if keyed.is_sst(name):
        return keyed.decode_sst(name, size, read)
    if (entry := re.search(_INDEX_ENTRY, name)) is not None:
        return Decoded(
            "index entry", {"field": entry[1], "value": entry[2], "row": entry[3], "commit": int(entry[4])}
        )
    if (kind := keyed.kind_of(name)) is not None:
        return keyed.decode_json(kind, name, read(0, size))
    head = read(0, min(size, 16))
    if head[:4] == b"PAR1" or name.endswith(".parquet"):
        found = Decoded("Parquet file")
        pairs = decode_parquet(size, read, found.fields, found.sections, found.problems)
        catalog.decode_pairs(pairs, found)
        return found
    if (kind := catalog.kind_of(name, head)) is not None:
        return catalog.decode_framed(kind, read(0, size))
    data = read(0, size)
    if head[:8] in (checkpoint.MAGIC, checkpoint.MAGIC_OF_ALL) or re.search(
        r"_firn(~[0-9]+)?/checkpoint\.bin$", name
    ):
        return _checkpoint(data)
    if re.search(r"(^|/)_log(~\d+)?/[^/]+\.jsonl$", name) or _looks_like_log(data):
        return _log(name, data)
    for pattern, kind in _JSON_KINDS:
        if re.search(pattern, name):
            return _json(data, kind)
    if head[:1] in (b"{", b"["):
        return _json(data, "JSON")
    return _bytes(data)


_INDEX_ENTRY = r"(?:^|/)indices(?:~[0-9]+)?/([^/]+)/[^/]+/([^/]+)/[^/]+?___[^/]+?___([^/]+?)___([0-9]{20})$"

_JSON_KINDS = (
    (r"_firn/table\.json$", "table definition"),
    (r"_firn(~[0-9]+)?/lock\.json$", "maintenance lock"),
    (r"(^|/)_commits/[0-9]{20}$", "commit of record tables"),
    (r"_firn/horizon$", "horizon of record tables"),
    (r"_firn/packs/[0-9]{20}$", "pack of commits"),
    (r"_firn/bodies/[^/]+$", "staged document"),
    (r"_firn/locks(~[0-9]+)?/[^/]+$", "lock of a row"),
    (r"_firn/copies(~[0-9]+)?/[^/]+$", "cursor of a copy of a record table"),
    (r"_firn/generations/[^/]+$", "how many tables had a name"),
    (r"(^|/)data(~[0-9]+)?/[^/]+\.json$", "row of a record table"),
    (r"_firn(~[0-9]+)?/sweep\.json$", "record of sweeps"),
    (r"_firn(~[0-9]+)?/batches/[^/]+$", "batch claim"),
    (r"_firn(~[0-9]+)?/work/[^/]+$", "note of who is at a long piece of work"),
    (r"_firn/newest-checkpoint$", "hint to a writer's newest checkpoint"),
    (r"_firn/database\.json$", "name of a database of writers' catalogs"),
)


def _looks_like_log(data: bytes) -> bool:
    first = data.partition(b"\n")[0]
    try:
        header = orjson.loads(first)
    except orjson.JSONDecodeError:
        return False
    return isinstance(header, dict) and {"v", "sch", "f", "t"} <= header.keys()


def _json(data: bytes, kind: str) -> Decoded:
    found = Decoded(kind)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        found.problems.append(f"not JSON: {error}")
        found.fields["text"] = excerpt(data)
        return found
    if not isinstance(value, dict):
        found.sections["values"] = value if isinstance(value, list) else [value]
        return found
    for name, item in value.items():
        if isinstance(item, list) and item and all(isinstance(i, dict) for i in item):
            found.sections[name] = item
        else:
            found.fields[name] = when(item) if name in ("t", "ms") else item
    return found


def _bytes(data: bytes) -> Decoded:
    found = Decoded("empty object" if not data else "bytes")
    try:
        text = data[:SHOWN_BYTES].decode()
    except UnicodeDecodeError as error:
        text = "" if error.start < SHOWN_BYTES - 4 else data[: error.start].decode()
    if data:
        found.fields["text" if text else "hex"] = text or data[:SHOWN_BYTES].hex(" ", 2)
    return found


# -- logs of lake tables


def _log(name: str, data: bytes) -> Decoded:
    found = Decoded("log of a lake table")
    if not data:
        found.problems.append("the object is empty")
        return found
    lines = data.split(b"\n")
    header = _line(lines, 0, found)
    found.fields["format version"] = header.get("v")
    found.fields["time"] = when(header.get("t"))
    extras = header.get("firn")
    if isinstance(extras, dict):
        found.fields["id"] = extras.get("id")
        crc = zlib.crc32(data.partition(b"\n")[2])
        agrees = extras.get("crc") == crc
        found.fields["checksum"] = f"{extras.get('crc')}" + ("" if agrees else f", but the body has {crc}")
    else:
        found.fields["written by"] = "the reference implementation, or an old version"
    schema, first_file = _number(header, "sch", 1), _number(header, "f", len(lines))
    first_tombstone = _number(header, "tmb", first_file)
    _columns(lines, schema, found)
    for number in range(schema + 1, min(first_tombstone, len(lines))):
        if lines[number]:
            notes = _line(lines, number, found).get("firn")
            if isinstance(notes, dict):
                _rows(notes.pop("inline", None), lines, schema, found)
                _notes(notes, found)
    _tombstones(lines, first_tombstone, first_file, found)
    _files(lines, first_file, found)
    try:
        codec.decode(name.rpartition("/")[2], data, where="the object")
    except FirnError as error:
        found.problems.append(f"readers refuse it: {error}")
    except Exception as error:
        found.problems.append(f"readers fail on it: {error!r}")
    return found


def _number(header: dict[str, Any], name: str, default: int) -> int:
    value = header.get(name, default)
    return max(0, value) if type(value) is int else default


def _line(lines: list[bytes], number: int, found: Decoded) -> dict[str, Any]:
    """One line's object; a problem noted and nothing where it isn't one."""
    try:
        value = orjson.loads(lines[number])
    except (orjson.JSONDecodeError, IndexError) as error:
        found.problems.append(f"line {number}: {error}")
        return {}
    if not isinstance(value, dict):
        found.problems.append(f"line {number}: not a JSON object")
        return {}
    return value


def _columns(lines: list[bytes], schema: int, found: Decoded) -> None:
    columns = _line(lines, schema, found)
    found.sections["columns"] = [f"{name}  {kind}" for name, kind in columns.items()]


def _rows(inline: Any, lines: list[bytes], schema: int, found: Decoded) -> None:
    """The rows that stand in a log, as it has them."""
    if inline is None:
        return
    try:
        names = list(orjson.loads(lines[schema]))
        found.sections["rows"] = [
            orjson.dumps(dict(zip(names, row, strict=True))).decode()
            for row in zip(*inline["v"], strict=True)
        ]
    except (IndexError, KeyError, TypeError, ValueError) as error:
        found.problems.append(f"its rows can't be shown: {error!r}")


def _notes(notes: dict[str, Any], found: Decoded) -> None:
    for name, value in notes.items():
        if name == "past" and isinstance(value, list):
            found.sections["history of the logs it replaces"] = value
        elif name == "batches" and isinstance(value, dict):
            found.sections["batch ids it carries"] = [f"{batch}  {seen}" for batch, seen in value.items()]
        else:
            found.fields[name] = value


def _entries(lines: list[bytes], start: int, stop: int) -> list[tuple[int, dict[str, Any]]]:
    """Lines as objects; one that can't be read becomes an entry with its error."""
    read = []
    for number in range(start, min(stop, len(lines))):
        text = lines[number]
        if not text:
            continue
        try:
            value = orjson.loads(text)
            if not isinstance(value, dict):
                raise ValueError("not a JSON object")
        except ValueError as error:
            value = {"line": number, "error": str(error), "text": excerpt(text)[:120]}
        read.append((number, value))
    return read


def _tombstones(lines: list[bytes], start: int, stop: int, found: Decoded) -> None:
    entries = [
        e if "error" in e else f"{e.get('p')}  since {when(e.get('t'))}"
        for _, e in _entries(lines, start, stop)
    ]
    if entries:
        found.sections["logs it replaces"] = entries


def _files(lines: list[bytes], start: int, found: Decoded) -> None:
    live: list[Any] = []
    dead: list[Any] = []
    for _, e in _entries(lines, start, len(lines)):
        if "error" in e:
            live.append(e)
            continue
        extra = e.get("firn") if isinstance(e.get("firn"), dict) else {}
        assert isinstance(extra, dict)
        rows = f"{extra['rows']:,} rows" if type(extra.get("rows")) is int else "rows unknown"
        size = f"{e['b']:,} bytes" if type(e.get("b")) is int else f"bytes {e.get('b')!r}"
        text = f"{e.get('p')}  {size}, {rows}"
        if "tmb" in e:
            dead.append(f"{text}, removed {when(e['tmb'])}")
            continue
        rest = {k: v for k, v in extra.items() if k != "rows"}
        live.append(text + (f"  {orjson.dumps(rest, default=str).decode()}" if rest else ""))
    found.sections["files"] = live
    if dead:
        found.sections["removed files"] = dead


# -- checkpoints


def _checkpoint(data: bytes) -> Decoded:
    found = Decoded("checkpoint of a lake table's log")
    try:
        magic, crc, size = struct.unpack_from("<8sIQ", data)
    except struct.error as error:
        found.problems.append(f"too short for a head: {error}")
        found.fields["hex"] = data[:SHOWN_BYTES].hex(" ", 2)
        return found
    actual = zlib.crc32(data[20:])
    found.fields["magic"] = magic.decode(errors="backslashreplace")
    found.fields["checksum"] = f"{crc}" + ("" if crc == actual else f", but the rest has {actual}")
    found.fields["bytes unpacked"] = size
    try:
        held = checkpoint.decode(data, where="the object")
    except FirnError as error:
        found.problems.append(f"readers ignore it: {error}")
        return found
    found.fields["logs"] = len(held.bodies)
    if held.basis is not None:
        found.fields["of"] = moment(held.basis.at_ms)
        found.fields["window"] = f"{held.basis.window_ms / 1000:g} s"
        found.fields["lists from"] = held.basis.start
    found.sections["logs it holds"] = [
        f"{name}  etag {etag}  {len(body):,} bytes" for (name, etag), body in held.bodies.items()
    ]
    if held.basis is not None and held.basis.replaced:
        found.sections["logs that others replace"] = sorted(held.basis.replaced)
    return found
