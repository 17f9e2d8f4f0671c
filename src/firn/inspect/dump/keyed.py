"""Decodes objects of a keyed table: the pointer, manifests, snapshots, fences and SSTs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from firn.errors import FirnError
from firn.inspect.dump.decoded import Decoded, Read, excerpt, when
from firn.inspect.dump.footer import decode_parquet
from firn.journal.manifest.codec import decode_manifest, decode_pointer, decode_snapshot
from firn.journal.manifest.layout import DIGITS
from firn.keyed.sst.tail import DamagedError, decode_tail, tail_bytes

POINTER, MANIFEST, SNAPSHOT = "pointer", "manifest", "snapshot"
_NUMBERS = rf"\d{{{DIGITS}}}\.\d{{{DIGITS}}}"
_KINDS = (
    (re.compile(r"(^|/)_metadata(~\d+)?/current_manifest$"), POINTER),
    (re.compile(rf"(^|/)_metadata(~\d+)?/manifests/manifest\.{_NUMBERS}$"), MANIFEST),
    (re.compile(rf"(^|/)_metadata(~\d+)?/snapshots/manifest\.{_NUMBERS}\.[0-9a-f]+$"), SNAPSHOT),
)
_SST = re.compile(
    rf"(^|/)(?P<room>l0|ssts)(~\d+)?/(?P<epoch>\d{{{DIGITS}}})\.(?P<number>\d{{{DIGITS}}})\.sst$"
)
_TIMES = ("last_compacted_time", "created_ms", "expires_ms")
SHOWN_KEY = 24
"""Bytes of a key."""
_END = 64 << 10
"""The first guess of how long the end of an SST is."""


def kind_of(name: str) -> str | None:
    """Which of a keyed table's JSON objects it is, by its name; None for none."""
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), None)


def is_sst(name: str) -> bool:
    """Whether it is named like a flush, a fence or an SST."""
    return _SST.search(name) is not None


# -- JSON


def decode_json(kind: str, name: str, data: bytes) -> Decoded:
    """A pointer, manifest or snapshot. A wrong checksum doesn't stop the rest."""
    found = Decoded(f"{kind} of a keyed table")
    try:
        raw = orjson.loads(data)
        if not isinstance(raw, dict):
            raise ValueError("not a JSON object")
    except ValueError as error:
        found.problems.append(f"not JSON: {error}")
        found.fields["text"] = excerpt(data)
        return found
    _show(raw, found, "")
    base = name.rpartition("/")[2]
    judges: Mapping[str, Callable[[], object]] = {
        POINTER: lambda: decode_pointer(data, where="the object"),
        MANIFEST: lambda: decode_manifest(base, data, where="the object"),
        SNAPSHOT: lambda: decode_snapshot(data, where="the object"),
    }
    found.judge(judges[kind])
    return found


def _show(raw: Mapping[str, Any], found: Decoded, of: str) -> None:
    for name, value in raw.items():
        title = f"{of}{name}"
        if name == "ssts" and isinstance(value, list):
            found.sections["SSTs"] = [_sst(sst) for sst in value]
        elif name == "changes" and isinstance(value, dict):
            found.sections["SSTs that came"] = [_sst(sst) for sst in _list(value.get("adds"))]
            found.sections["SSTs that went"] = _list(value.get("deletes"))
        elif name == "writer_epoch_infos":
            found.sections[f"{of}writers"] = [_writer(info) for info in _list(value)]
        elif name == "l0":
            found.sections["flushes"] = [_flush(file) for file in _list(value)]
        elif name == "chain":
            found.sections["chain of manifests"] = _list(value)
        elif name in ("pointer", "settings") and isinstance(value, dict):
            _show(value, found, f"{title}: ")
        else:
            found.fields[title] = when(value) if name in _TIMES and value is not None else value


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _writer(info: Any) -> Any:
    if not isinstance(info, dict):
        return info
    return f"epoch {info.get('writer_epoch')}  from flush {info.get('starting_sst')} on, claim {info.get('claim')}"


def _flush(file: Any) -> Any:
    if not isinstance(file, dict):
        return file
    return f"{file.get('writer_epoch')}.{file.get('sst_number')}  {_count(file.get('bytes'))} bytes"


def _sst(sst: Any) -> Any:
    if not isinstance(sst, dict):
        return sst
    text = (
        f"level {sst.get('level')} run {sst.get('run')} number {sst.get('number')}  {sst.get('file')}  "
        f"{_count(sst.get('bytes'))} bytes, {_count(sst.get('rows'))} entries, {_edge(sst.get('min_key'))} … "
        f"{_edge(sst.get('max_key'))}, newest {sst.get('max_seq')}"
    )
    if sst.get("tombstones"):
        text += f", {_count(sst['tombstones'])} deletes"
    if sst.get("max_loaded", -1) != -1:
        text += f", loaded in bulk up to {sst['max_loaded']}"
    if sst.get("min_expire") is not None:
        text += f", the first ends {when(sst['min_expire'])}"
    return text


def _count(value: Any) -> str:
    return f"{value:,}" if type(value) is int else repr(value)


def _edge(value: Any) -> str:
    """A key in base64, for people."""
    try:
        return shown_key(base64.b64decode(value, validate=True))
    except (binascii.Error, ValueError, TypeError):
        return repr(value)


def shown_key(key: bytes) -> str:
    """An encoded key for people: as text if it is some, else in hexadecimal; the first bytes of a long one.

    >>> shown_key(b"DTW"), shown_key(b"\\x80\\x00"), shown_key(b"x" * 30)
    ("'DTW'", '8000', "'xxxxxxxxxxxxxxxxxxxxxxxx'…")
    """
    short = key[:SHOWN_KEY]
    more = "…" if len(key) > len(short) else ""
    try:
        text = short.decode()
    except UnicodeDecodeError:
        return short.hex() + more
    return f"'{text}'{more}" if text.isprintable() else short.hex() + more


# -- SSTs


def decode_sst(name: str, size: int, read: Read) -> Decoded:
    """A flush, an SST or a fence."""
    place = _SST.search(name)
    in_l0 = place is not None and place["room"] == "l0"
    found = Decoded("flush of a keyed table" if in_l0 else "SST of a keyed table")
    if place is not None:
        found.fields["writer's epoch" if in_l0 else "compactor's epoch"] = int(place["epoch"])
        found.fields["number"] = int(place["number"])
    if size == 0 and in_l0:
        found.kind = "fence of a keyed table"
        return found
    sections: dict[str, list[Any]] = {}
    decode_parquet(size, read, found.fields, sections, found.problems)
    found.sections["columns"] = sections.get("columns", [])
    _index(size, read, found)
    return found


def _index(size: int, read: Read, found: Decoded) -> None:
    try:
        end = read(max(0, size - _END), min(size, _END))
        while (needed := tail_bytes(end, size)) > len(end):
            end = read(size - needed, needed)
        tail = decode_tail(end, size)
    except (DamagedError, FirnError) as error:
        found.problems.append(f"readers refuse it: {error}")
        return
    except Exception as error:
        found.problems.append(f"readers fail on its end: {error!r}")
        return
    index = tail.index
    found.fields["entries"] = index.rows
    found.fields["deletes"] = index.tombstones
    found.fields["merge operands"] = index.merges
    found.fields["first key"] = shown_key(index.min_key)
    found.fields["last key"] = shown_key(index.max_key)
    found.fields["newest seq"] = (
        f"{index.max_seq} (flush {(index.max_seq >> 32) - 1}, entry {index.max_seq & 0xFFFFFFFF})"
    )
    if index.min_expire is not None:
        found.fields["the first ends"] = when(index.min_expire)
    found.fields["Bloom filter"] = f"{len(tail.bloom):,} bytes"
    found.sections["blocks"] = [
        f"from {shown_key(low)}  {rows:,} entries, ends at byte {end:,}, checksum {checksum:016x}"
        + (", continues a key" if continued else "")
        for low, rows, end, checksum, continued in zip(
            index.lows, index.block_rows, index.ends, index.checksums, index.continued, strict=True
        )
    ]
