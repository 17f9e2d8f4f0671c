"""The bytes of a log object: encode and decode. The grammar is in docs/format/leaderless-log.md.

    line 0       {"v": 1, "sch": 1, "f": F, "t": MS[, "tmb": T], "firn": {"v": 1, "id": NONCE, "crc": …, "head": …}}
    line 1       {"column": "TYPE", …}
    line 2       {"firn": NOTES}                       the slot that the reference never parses
    line 3       {"firn": {"inline": ROWS}}            still the slot, of an append whose rows stand in the log
    lines T…F-1  {"p": "…/_log/….jsonl", "t": MS}      tombstones of logs
    lines F…     {"p": "….parquet", "b": BYTES, "t": MS[, "tmb": MS][, "firn": EXTRA]}

There is no newline at the end: one breaks the reference's reader.

`crc` covers all that is behind the first newline, `head` all of line 0 that is before it. Logs of version 0.1 have
no `head`; instead their first line is checked against the lines that it counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import orjson

from firn.errors import CorruptObjectError, UnsupportedError
from firn.journal.inlined import INLINE, LINE_START, ROWS, InlinedRows, rows_in
from firn.journal.leaderless.format.layout import version_of
from firn.journal.model import ColumnTypes, DataFile, clock_of
from firn.pauses import no_collection

FORMAT_VERSION = 1  # frozen: the reference's `v`
NOTES_VERSION = 1  # frozen: of everything under a "firn" key
DEFINITION = "definition"  # frozen
WINDOW = "window"  # frozen
KNOWN_FEATURES: frozenset[str] = frozenset((DEFINITION, INLINE, WINDOW))
"""The features that a header's `need` may name. `definition`: the notes hold the table's definition as it was
altered, or markers have `types` of columns that aren't read under their name. `inline`: the log holds rows.
`window`: readers build on earlier views of the log, so maintenance must keep what these need."""
_HEADER_KEYS = frozenset(("v", "sch", "f", "t", "tmb", "firn"))
_EXTRAS_BEFORE_HEAD = frozenset(("v", "id", "crc", "need"))
_HEAD = b',"head":'


@dataclass(frozen=True)
class Log:
    """One decoded log. `tombstones` maps log keys, `dead` data file paths, to tombstone times.

    `notes` is Firn's slot: `op`, `batch` (id), `complete` (True: this log names every path of the logs it
    tombstones), `batches` (ids carried from tombstoned logs → [version, t]), `past` (their history), counts.
    `inlined` are the rows that stand in it, in a line of `inlined_bytes`.
    """

    name: str
    t: int
    columns: ColumnTypes = field(default_factory=dict)
    files: Sequence[DataFile] = ()
    dead: Mapping[str, int] = field(default_factory=dict)
    tombstones: Mapping[str, int] = field(default_factory=dict)
    notes: Mapping[str, Any] = field(default_factory=dict)
    nonce: str = ""
    need: tuple[str, ...] = ()
    inlined: InlinedRows | None = None
    inlined_bytes: int = 0

    @property
    def order(self) -> tuple[int, str]:
        return (self.t, self.name)

    @cached_property
    def replaces(self) -> frozenset[str]:
        """Base names of the logs that this one tombstones *and* carries whole. The reference tombstones logs without
        carrying them (its hole 1): those still count."""
        whole = self.notes.get("complete")
        return frozenset(key.rpartition("/")[2] for key in self.tombstones) if whole else frozenset()

    @property
    def is_reservation(self) -> bool:
        return self.notes.get("op") == "reserve"

    @property
    def is_void(self) -> bool:
        """Whether it keeps another log of the name from being published."""
        return self.notes.get("op") == "fence"

    @property
    def is_commit(self) -> bool:
        return not (self.is_reservation or self.is_void)


def replaced_names(logs: Iterable[Log]) -> set[str]:
    """Base names of the logs that any of these replaces."""
    return set().union(*(log.replaces for log in logs))


def with_part(log: Log, key: str, *, clocked: bool) -> Log:
    """The log with its rows, if it has any, as a file of it: they are read as one. `key` is the log's; with `clocked`
    the rows have the commit's clock."""
    if log.inlined is None:
        return log
    extra: dict[str, Any] = {"rows": log.inlined.count, "inlined": log.inlined}
    if clocked:
        extra["clock"] = clock_of(version_of(log.name), 0)
    made = object.__new__(Log)  # `replace` takes half as long as decoding
    vars(made).update(vars(log), files=(DataFile(key + ROWS, log.inlined_bytes, log.t, extra),))
    return made


def encode(log: Log) -> bytes:
    """The object's bytes, deterministic for equal logs."""
    lines = [orjson.dumps(dict(log.columns)), orjson.dumps({"firn": dict(log.notes)})]
    if log.inlined is not None:
        lines.append(log.inlined.line)
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
    if log.need:
        header["firn"]["need"] = list(log.need)
    covered = orjson.dumps(header)[:-2]
    return covered + _head_of(covered) + b"\n" + body


def _head_of(covered: bytes) -> bytes:
    """The end of a first line: the checksum of what is before it."""
    return b"%b%d}}" % (_HEAD, zlib.crc32(covered))


def decode(name: str, data: bytes, *, where: str) -> Log:
    """Parse one log; `where` is its URL for messages. Unknown extras are ignored, unknown *needed*
    features refused.

    Raises:
        CorruptObjectError: not what Firn or the reference writes, or a wrong checksum.
        UnsupportedError: a newer format version, or a feature this version doesn't know.
    """
    return decode_many([(name, data, where)])[0]


def decode_many(bodies: Sequence[tuple[str, bytes, str]]) -> list[Log]:
    """Parse many logs, given as (name, bytes, where), by one pass of the JSON parser over all distinct lines, without
    those of rows: logs with the same schema share it."""
    with no_collection():
        return _decode_many(bodies)


def _decode_many(bodies: Sequence[tuple[str, bytes, str]]) -> list[Log]:
    split = [data.split(b"\n") for _, data, _ in bodies]
    for lines in split:
        if not lines[-1]:  # a newline at the end: the papers' examples allow it
            lines.pop()
    distinct = dict.fromkeys(
        line for line in chain.from_iterable(split) if line and not line.startswith(LINE_START)
    )
    try:
        values = orjson.loads(b"[" + b",".join(distinct) + b"]")
        if len(values) != len(distinct):
            raise ValueError("lines that aren't one value each")
    except ValueError:  # some log is damaged: find out which, and name the line
        return [
            _assemble(name, data, lines, [_object(line, where, n) for n, line in enumerate(lines)], where)
            for (name, data, where), lines in zip(bodies, split, strict=True)
        ]
    parsed: dict[bytes, Any] = dict(zip(distinct, values, strict=True))
    logs = []
    for (name, data, where), lines in zip(bodies, split, strict=True):
        if b"" in lines:
            raise _damaged(where, f"line {lines.index(b'')} is empty")
        logs.append(_assemble(name, data, lines, [*map(parsed.get, lines)], where))
    return logs


def _assemble(name: str, data: bytes, raw: Sequence[bytes], lines: Sequence[Any], where: str) -> Log:
    """One log from its lines as they stand in `data`, and parsed: None for rows. Others may share the parsed ones."""
    if not lines or not isinstance(lines[0], dict):
        raise _damaged(where, "line 0 is not a JSON object")
    header, first = lines[0], raw[0]
    covered, mark, _ = first.rpartition(_HEAD)
    if mark and first != covered + _head_of(covered):
        raise _damaged(where, "the checksum of its first line is wrong")
    _check_versions(header, where)
    extras = header.get("firn") or {}
    if len(first) == len(data) or ("crc" in extras and zlib.crc32(data[len(first) + 1 :]) != extras["crc"]):
        raise _damaged(where, "the checksum in its first line doesn't match the rest")
    if not mark and extras:
        _check_unsealed(name, header, lines, where)
    try:
        t, sch, first_file = header["t"], header["sch"], header["f"]
        first_tombstone = header.get("tmb", first_file)
        if not (type(t) is type(sch) is type(first_file) is type(first_tombstone) is int):
            raise TypeError("t, sch, f and tmb must be integers")
        if not 1 <= sch < len(lines) or not sch < first_tombstone <= first_file <= len(lines):
            raise ValueError("line numbers out of range")
        columns = lines[sch]
        notes: Mapping[str, Any] = {}
        inlined, size = None, 0
        for at in range(sch + 1, first_tombstone):
            own = None if lines[at] is None else lines[at].get("firn") or {}
            if own is None or INLINE in own:
                inlined, size = rows_in(raw[at], columns, where), len(raw[at])
            else:
                notes = {**notes, **own} if notes else own
        tombstones: dict[str, int] = {}
        for entry in lines[first_tombstone:first_file]:
            path, time = entry["p"], entry["t"]
            # The reference repeats tombstones; the first time is the one that counts.
            tombstones[path] = min(time, tombstones.get(path, time))
        files: list[DataFile] = []
        dead: dict[str, int] = {}
        for marker in lines[first_file:]:
            path, created = marker["p"], marker["t"]
            if type(path) is not str or type(created) is not int:
                raise TypeError("a path `p` that is no text, or a time `t` that is no integer")
            files.append(DataFile(path, marker["b"], created, marker.get("firn")))
            if marker.get("tmb") is not None:
                dead[path] = marker["tmb"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(where, f"it is no log of a lake table ({error!r})") from error
    if not isinstance(columns, dict):
        raise _damaged(where, f"line {sch}, the schema, is not a JSON object")
    need = tuple(extras.get("need") or ())
    return Log(name, t, columns, files, dead, tombstones, notes, extras.get("id", ""), need, inlined, size)


def _damaged(where: str, why: str) -> CorruptObjectError:
    return CorruptObjectError(
        f"{where}: {why}: the object was truncated or changed. Copy it back from a backup or an older object "
        "version; or `firn mend TABLE` sees what other objects know of it. Nothing else was touched."
    )


def _check_unsealed(name: str, header: Mapping[str, Any], lines: Sequence[Any], where: str) -> None:
    """The first line of a log of Firn 0.1 says nothing that isn't so."""
    extras, kinds = header["firn"], ["header", "schema", *map(_kind_of, lines[2:])]
    first_file = header.get("f")
    first_tombstone = header.get("tmb", first_file)
    told = ["header", "schema", "slot"]
    if type(first_tombstone) is type(first_file) is int and 3 <= first_tombstone <= first_file <= len(lines):
        told += ["tombstone"] * (first_file - first_tombstone) + ["marker"] * (len(lines) - first_file)
    if kinds != told or header.keys() - _HEADER_KEYS or not isinstance(extras, dict):
        raise _damaged(where, "its first line doesn't count the lines that follow")
    named = name.partition("_")[0]
    if extras.keys() - _EXTRAS_BEFORE_HEAD or (named.isdigit() and int(named) != header.get("t")):
        raise _damaged(where, "its first line isn't what was written")


def _kind_of(line: Any) -> str:
    if not isinstance(line, dict) or "p" not in line:
        return "slot"
    return "marker" if "b" in line else "tombstone"


def _check_versions(header: Mapping[str, Any], where: str) -> None:
    version = header.get("v")
    if version not in (FORMAT_VERSION, str(FORMAT_VERSION)):
        raise UnsupportedError(
            f"{where} has format version {version!r}; this version of Firn reads {FORMAT_VERSION}. "
            "Upgrade Firn to read the table."
        )
    needed = (header.get("firn") or {}).get("need") or ()
    if not KNOWN_FEATURES.issuperset(needed):
        raise UnsupportedError(
            f"{where} needs the feature {min(set(needed) - KNOWN_FEATURES)!r}, which this version of Firn "
            "doesn't know. Upgrade Firn to read the table."
        )


def _object(line: bytes, where: str, number: int) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise _damaged(where, f"line {number} is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise _damaged(where, f"line {number} is not a JSON object")
    return value
