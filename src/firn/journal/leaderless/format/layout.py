"""All object names of a leaderless table, built and parsed in this one place.

    <table>/_data/<partition>/part-a-<unique>.parquet   written by appends
    <table>/_data/<partition>/part-m-<unique>.parquet   written by maintenance that holds the lock
    <table>/_data/<partition>/part-w-<unique>.parquet   written by a merge that takes it only to publish
    <table>/_log/<ms>_<host>.jsonl                      append logs
    <table>/_log/<ms>_m_<host>.jsonl                    logs of merge, removal, rewrite, …
    <table>/_firn/…                                     all else: the reference crashes on other keys in _log*

For the second table of a name they are `_data~1`, `_log~1` and `_firn~1`; `_firn/table.json` stays where it is. If
the table is shared with the reference, which knows two names alone, only `_firn~1` differs.

Sweep tells parts of maintenance from all others by name. Those of a merge that doesn't hold the lock have the age of
appends; the reference's are bare UUIDs, which never begin with `p`, and count as appends. No base name begins with
`_` or `.`: Spark hides such files.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import orjson

from firn.bucket.base import ObjectInfo
from firn.journal.generations import directory
from firn.journal.model import ColumnTypes

LOG_DIR = "_log"  # frozen
DATA_DIR = "_data"  # frozen
FIRN_DIR = "_firn"  # frozen
_SUFFIX = ".jsonl"  # frozen

_MARKED = re.compile(r"-[0-9a-f]{16}-([0-9a-f]{16})\.jsonl$")
_MS_NAME = re.compile(r"(\d{13,16})_(m_)?(.+)\.jsonl")


class LogName(NamedTuple):
    """A parsed base name. `ms` is None where the name holds no time (the papers' ksuid)."""

    name: str
    ms: int | None
    maintenance: bool


def parse_log_name(name: str) -> LogName | None:
    """The parts of a log's base name; None for what isn't a log.

    >>> parse_log_name("1795224444056_m_dan-mbp.jsonl")
    LogName(name='1795224444056_m_dan-mbp.jsonl', ms=1795224444056, maintenance=True)
    """
    match = _MS_NAME.fullmatch(name)
    if match is not None:
        return LogName(name, int(match[1]), match[2] is not None)
    if name.endswith(_SUFFIX) and "/" not in name:
        return LogName(name, None, "_m_" in name)
    return None


def version_of(name: str) -> str:
    """The version of the table that a log makes: its base name without the ending.

    >>> version_of("1795224444056_m_dan-mbp.jsonl")
    '1795224444056_m_dan-mbp'
    """
    return name.removesuffix(_SUFFIX)


def name_of(version: str) -> str:
    """The base name of the log that makes a version.

    >>> name_of("1795224444056_m_dan-mbp")
    '1795224444056_m_dan-mbp.jsonl'
    """
    return version + _SUFFIX


@cache
def _host() -> str:
    """This machine's name, without `_`: the reference splits names on it and takes `m_…` for a merge."""
    return re.sub(r"[^a-z0-9]+", "-", socket.gethostname().lower()).strip("-")[:24] or "host"


def new_log_name(ms: int, *, maintenance: bool, schema: str = "") -> str:
    """A name that nobody else makes: 64 random bits, as one host and one millisecond aren't unique. An append's ends
    in the mark of its `schema`."""
    mark = f"-{schema}" if schema else ""
    return f"{ms:013d}_{'m_' if maintenance else ''}{_host()}-{secrets.token_hex(8)}{mark}{_SUFFIX}"


def schema_mark(columns: ColumnTypes, names: Mapping[str, str]) -> str:
    """The mark by which appenders know a log's schema without reading it: a hash of its schema line, and of what it
    says how new columns are called.

    >>> schema_mark({"n": "BIGINT"}, {}), schema_mark({"n": "BIGINT"}, {"n": "m"})
    ('5205ba50369550b2', '1d47615da87e5762')
    """
    text = orjson.dumps(dict(columns))
    if names:
        text += b"\n" + orjson.dumps(dict(names))
    return hashlib.sha256(text).hexdigest()[:16]


def mark_of(name: str) -> str | None:
    """The schema's mark in an append log's name; None for one that has none.

    >>> mark_of("1795224444056_web-7-4c7e2b1f90a3d658-5205ba50369550b2.jsonl")
    '5205ba50369550b2'
    """
    found = _MARKED.search(name)
    return found[1] if found is not None and "_m_" not in name else None


def is_maintenance_part(key: str) -> bool:
    """Whether only the holder of the lock may be about to publish it: who has the lock takes it for an orphan."""
    return key.rpartition("/")[2].startswith("part-m-")


def is_unlocked_part(key: str) -> bool:
    """Whether a merge wrote it that didn't hold the lock: it may become as old as an append's, unnamed."""
    return key.rpartition("/")[2].startswith("part-w-")


@dataclass(frozen=True)
class DataNamer:
    """Makes data file keys; picklable, see `firn.journal.model.Namer`."""

    data_prefix: str
    kind: str

    def __call__(self, partition: str, *, crc: int = 0, filters_crc: int = 0) -> str:
        directory = f"{partition}/" if partition else ""
        return f"{self.data_prefix}{directory}part-{self.kind}-{secrets.token_hex(16)}.parquet"

    def directory_of(self, path: str) -> str | None:
        return _below(self.data_prefix, path)

    def metadata(self, partition: str, columns: ColumnTypes, **options: Any) -> dict[str, str]:
        """Nothing: the log tells all, and there is no other way to find it again."""
        return {}


@dataclass(frozen=True)
class TableLayout:
    """Keys of one table. `prefix` is the table's whole key prefix without a trailing slash; `log_root` the same in
    the store of the log, which may be another one. Later tables of a name, with a `generation`, have other
    directories: requests that were under way when the table before was dropped never land in them. A `shared` table
    always has the reference's directories for log and data."""

    prefix: str
    log_root: str
    generation: int = 0
    shared: bool = False

    @property
    def _of_rows(self) -> int:
        return 0 if self.shared else self.generation

    @property
    def log_prefix(self) -> str:
        return f"{self.log_root}/{directory(LOG_DIR, self._of_rows)}/"

    @property
    def data_prefix(self) -> str:
        return f"{self.prefix}/{directory(DATA_DIR, self._of_rows)}/"

    @property
    def firn_prefix(self) -> str:
        return f"{self.log_root}/{directory(FIRN_DIR, self.generation)}/"

    def log_key(self, name: str) -> str:
        return self.log_prefix + name

    def log_name(self, key: str) -> str:
        """The base name of a log key, as tombstones hold it."""
        return key.rpartition("/")[2]

    def logs_in(self, objects: Iterable[ObjectInfo]) -> dict[LogName, ObjectInfo]:
        """The logs among listed objects, in their order."""
        prefix = self.log_prefix
        parsed = ((parse_log_name(info.key.removeprefix(prefix)), info) for info in objects)
        return {name: info for name, info in parsed if name is not None}

    @property
    def lock_key(self) -> str:
        return f"{self.firn_prefix}lock.json"

    @property
    def checkpoint_key(self) -> str:
        return f"{self.firn_prefix}checkpoint.bin"

    @property
    def clock_key(self) -> str:
        return f"{self.firn_prefix}clock"

    @property
    def horizon_key(self) -> str:
        return f"{self.firn_prefix}sweep.json"

    @property
    def batch_prefix(self) -> str:
        return f"{self.firn_prefix}batches/"

    @property
    def work_prefix(self) -> str:
        return f"{self.firn_prefix}work/"

    def work_key(self, work: str) -> str:
        """Of the note that says who is at a piece of work, such as a partition's directory."""
        return self.work_prefix + hashlib.sha256(work.encode()).hexdigest()

    def batch_key(self, batch_id: str) -> str:
        return self.batch_prefix + hashlib.sha256(batch_id.encode()).hexdigest()

    def namer(self, *, maintenance: bool) -> DataNamer:
        return DataNamer(self.data_prefix, "m" if maintenance else "a")

    def unlocked_namer(self) -> DataNamer:
        """Names parts for which `is_unlocked_part` is true."""
        return DataNamer(self.data_prefix, "w")

    def directory_of(self, path: str) -> str | None:
        """The partition directory in a data file's key, '' for none; None for a file that lies elsewhere.

        Taken from the whole known prefix, so that a table called `x_data` doesn't confuse it.
        """
        return _below(self.data_prefix, path)

    def owns(self, key: str) -> bool:
        """Whether Firn may delete this data file: only what lies under the table's own prefix."""
        return key.startswith(self.data_prefix)


def _below(data_prefix: str, path: str) -> str | None:
    return path[len(data_prefix) :].rpartition("/")[0] if path.startswith(data_prefix) else None
