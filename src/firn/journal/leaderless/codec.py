"""The bytes of a log object: encode and decode. The grammar is in docs/format/leaderless-log.md.

    line 0       {"v": 1, "sch": 1, "f": F, "t": MS[, "tmb": T], "firn": {"v": 1, "id": NONCE, "crc": …}}
    line 1       {"column": "TYPE", …}
    line 2       {"firn": NOTES}                       the slot that the reference never parses
    lines T…F-1  {"p": "…/_log/….jsonl", "t": MS}      tombstones of logs
    lines F…     {"p": "….parquet", "b": BYTES, "t": MS[, "tmb": MS][, "firn": EXTRA]}

There is no newline at the end: one breaks the reference's reader.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from firn.errors import CorruptObjectError, UnsupportedError
from firn.journal.model import ColumnTypes, DataFile

FORMAT_VERSION = 1  # frozen: the reference's `v`
NOTES_VERSION = 1  # frozen: of everything under a "firn" key
KNOWN_FEATURES: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Log:
    """One decoded log. `tombstones` maps log keys, `dead` data file paths, to tombstone times.

    `notes` is Firn's slot: `op`, `batch` (id), `complete` (True: this log names every path of the logs it
    tombstones), `batches` (ids carried from tombstoned logs → [version, t]), `past` (their history), counts.
    """

    name: str
    t: int
    columns: ColumnTypes = field(default_factory=dict)
    files: Sequence[DataFile] = ()
    dead: Mapping[str, int] = field(default_factory=dict)
    tombstones: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    nonce: str = ""

    @property
    def order(self) -> tuple[int, str]:
        return (self.t, self.name)

    @property
    def is_reservation(self) -> bool:
        return self.notes.get("op") == "reserve"


def encode(log: Log) -> bytes:
    """The object's bytes, deterministic for equal logs."""
    lines = [orjson.dumps(dict(log.columns)), orjson.dumps({"firn": dict(log.notes)})]
    first_tombstone = 1 + len(lines)
    lines += [orjson.dumps({"p": p, "t": t}) for p, t in log.tombstones.items()]
    first_file = 1 + len(lines)
    dead = log.dead
    for path, size, created, extra in log.files:
        marker: dict[str, Any] = {"p": path, "b": size, "t": created}
        if path in dead:
            marker["tmb"] = dead[path]
        if extra is not None:
            marker["firn"] = extra
        lines.append(orjson.dumps(marker))
    body = b"\n".join(lines)
    header: dict[str, Any] = {"v": FORMAT_VERSION, "sch": 1, "f": first_file, "t": log.t}
    if log.tombstones:
        header["tmb"] = first_tombstone
    header["firn"] = {"v": NOTES_VERSION, "id": log.nonce, "crc": zlib.crc32(body)}
    return orjson.dumps(header) + b"\n" + body


def decode(name: str, data: bytes, *, where: str) -> Log:
    """Parse one log; `where` is its URL for messages. Unknown extras are ignored, unknown *needed*
    features refused.

    Raises:
        CorruptObjectError: not what Firn or the reference writes, or a wrong checksum.
        UnsupportedError: a newer format version, or a feature this version doesn't know.
    """
    head, _, body = data.partition(b"\n")
    header = _object(head, where, 0)
    _check_versions(header, where)
    extras = header.get("firn") or {}
    if "crc" in extras and zlib.crc32(body) != extras["crc"]:
        raise CorruptObjectError(
            f"{where}: the checksum in its first line doesn't match the rest: the object was truncated or "
            "changed. Restore it from a backup or an older object version; nothing else was touched."
        )
    lines = data.split(b"\n")
    try:
        t, sch, first_file = header["t"], header["sch"], header["f"]
        first_tombstone = header.get("tmb", first_file)
        if not (type(t) is type(sch) is type(first_file) is type(first_tombstone) is int):
            raise TypeError("t, sch, f and tmb must be integers")
        if not 1 <= sch < len(lines) or not sch < first_tombstone <= first_file <= len(lines):
            raise ValueError("line numbers out of range")
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptObjectError(f"{where}, line 0: {error!r}: not a log of a lake table.") from error
    columns = _object(lines[sch], where, sch)
    notes: dict[str, Any] = {}
    for number in range(sch + 1, first_tombstone):
        if lines[number]:
            notes.update(_object(lines[number], where, number).get("firn") or {})
    tombstones: dict[str, int] = {}
    for entry in _objects(lines, first_tombstone, first_file, where):
        path, time = entry["p"], entry["t"]
        # The reference repeats tombstones; the first time is the one that counts.
        tombstones[path] = min(time, tombstones.get(path, time))
    files, dead = [], {}
    markers = _objects(lines, first_file, len(lines), where)
    try:
        for marker in markers:
            path = marker["p"]
            files.append(DataFile(path, marker["b"], marker["t"], marker.get("firn")))
            if marker.get("tmb") is not None:
                dead[path] = marker["tmb"]
    except KeyError as error:
        raise CorruptObjectError(f"{where}: a file marker lacks {error}.") from error
    return Log(name, t, columns, files, dead, tombstones, notes, extras.get("id", ""))


def _check_versions(header: Mapping[str, Any], where: str) -> None:
    version = header.get("v")
    if version not in (FORMAT_VERSION, str(FORMAT_VERSION)):
        raise UnsupportedError(
            f"{where} has format version {version!r}; this version of Firn reads {FORMAT_VERSION}. "
            "Upgrade Firn to read the table."
        )
    needed = set((header.get("firn") or {}).get("need") or ())
    if unknown := needed - KNOWN_FEATURES:
        raise UnsupportedError(
            f"{where} needs the feature {sorted(unknown)[0]!r}, which this version of Firn doesn't know. "
            "Upgrade Firn to read the table."
        )


def _object(line: bytes, where: str, number: int) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise CorruptObjectError(f"{where}, line {number}: not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise CorruptObjectError(f"{where}, line {number}: not a JSON object.")
    return value


def _objects(lines: Sequence[bytes], start: int, stop: int, where: str) -> list[dict[str, Any]]:
    """Many lines by one parse: five times faster than one by one."""
    chosen = lines[start:stop]
    if chosen and not chosen[-1]:  # a newline at the end: the papers' examples allow it
        chosen = chosen[:-1]
    try:
        values = orjson.loads(b"[" + b",".join(chosen) + b"]")
        if len(values) == len(chosen):
            for value in values:
                if type(value["p"]) is not str or type(value["t"]) is not int:
                    raise TypeError
            return values  # type: ignore[no-any-return]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        pass
    for number, line in enumerate(chosen, start):
        entry = _object(line, where, number)
        if type(entry.get("p")) is not str or type(entry.get("t")) is not int:
            raise CorruptObjectError(f"{where}, line {number}: no path `p` or no time `t`.")
    raise CorruptObjectError(f"{where}: lines {start} to {stop - 1} can't be read.")
