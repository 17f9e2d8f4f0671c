"""All writers of a database, read together: the union of their histories (paper, 1.3, "Writer Federation").

Writers are found by listing. Each has its own history; a reader sees a vector of revisions, one for each writer.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Literal

from firn.bucket.base import Bucket
from firn.bucket.conditional import create
from firn.bucket.keys import key_below
from firn.concurrency.parallel import in_flight
from firn.errors import (
    CorruptObjectError,
    FirnError,
    ForkError,
    InvalidInputError,
    NotFoundError,
    ObjectExistsError,
    ObjectNotFoundError,
    SnapshotTooOldError,
    UnsupportedError,
)
from firn.journal.writer.federation.database_name import (
    decode_name,
    encode_name,
    has_checksum,
    lost_name,
    names_in_use,
)
from firn.journal.writer.format.layout import WriterLayout, check_place, database_key, is_place
from firn.journal.writer.format.state import CatalogState
from firn.journal.writer.history.checkpoint import catch_up
from firn.journal.writer.history.history import CatalogVersion, History
from firn.journal.writer.history.loss import check_begun
from firn.units import parse_time

DEGRADES = (CorruptObjectError, ForkError, SnapshotTooOldError, UnsupportedError)
"""Errors of one writer's objects that leave the others readable. An unavailable store isn't among them."""

_TABLE_DIRS = frozenset(("_firn", "_log"))
_COMMITS = "_commits"
_COMPONENT = re.compile(r"([^=,\s]+)=(\d{1,19})")


def check_known(named: Iterable[str], known: Sequence[str], url: str) -> None:
    """`NotFoundError` for the first of the writers named that the database at `url` doesn't have."""
    for name in named:
        if name not in known:
            raise NotFoundError(f"{url} has no writer {name!r}; there are: {', '.join(known) or 'none'}.")


def has_table(dirs: Iterable[str]) -> bool:
    """Whether a directory with these in it is a table's: it has a definition or a log. A database of record tables
    has objects of its own, too, but commits beside them.

    >>> has_table(["_firn", "data"]), has_table(["_firn", "_commits", "people"])
    (True, False)
    """
    return not _TABLE_DIRS.isdisjoint(dirs) and _COMMITS not in dirs


@dataclass(frozen=True)
class WriterInfo:
    """One writer of a database, for people.

    `revision` and `time` (UTC) are those of the newest commit that can be read. `health` is "ok", "fork" (two
    processes wrote under its id, and nobody has decided which one counts) or "broken"; `detail` says more.
    """

    name: str
    revision: int
    time: datetime | None
    health: Literal["ok", "fork", "broken"]
    detail: str = ""


@dataclass(frozen=True)
class Union:
    """Writers at one moment each, by name, in order. `broken` are those that can't be read, and why; `remarks` say
    what is wrong with the database itself."""

    versions: Mapping[str, CatalogVersion]
    broken: Mapping[str, FirnError] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def with_state(self, state: CatalogState) -> Union:
        """The union with a writer as this process knows it, instead of what was read."""
        return replace(self, versions={**self.versions, state.writer: CatalogVersion(state)})

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings about writers for a reader."""
        each = (text for version in self.versions.values() for text in version.warnings)
        return (*self.remarks, *self.degraded, *each)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which writers can't be read, and which verb mends that."""
        return tuple(f"the writer {name} is left out: {error}" for name, error in self.broken.items())

    @property
    def degraded(self) -> tuple[str, ...]:
        """The writers that are left out, or read at an older revision, and the verb that mends each."""
        said = list(self.left_out)
        for name, version in self.versions.items():
            if version.fork is not None:
                said.append(
                    f"the writer {name} has {version.fork}, so it is read as of revision {version.head.revision}; "
                    "choose a side with `firn repair --keep UUID`"
                )
        return tuple(said)

    def infos(self) -> list[WriterInfo]:
        """The writers by name."""
        found = [WriterInfo(name, 0, None, "broken", str(error)) for name, error in self.broken.items()]
        for name, version in self.versions.items():
            head, fork = version.head, version.fork
            time = datetime.fromtimestamp(head.time_ms / 1000, timezone.utc) if head.revision else None
            detail = str(fork) if fork is not None else "; ".join(version.warnings)
            found.append(WriterInfo(name, head.revision, time, "ok" if fork is None else "fork", detail))
        return sorted(found, key=lambda info: info.name)


class Federation:
    """The writers of the database at `prefix`. Safe to share between threads.

    Names directly below the prefix are tables or writers. One that was seen to be a table is not looked at again.
    """

    def __init__(self, bucket: Bucket, prefix: str, *, default_name: str, strict: bool = False) -> None:
        self.bucket, self.prefix, self.strict = bucket, prefix, strict
        self._default_name = default_name
        self._name: str | None = None
        self._told: str | None = None
        self._is_sure = False
        self._histories: dict[str, History] = {}
        self._tables: set[str] = set()
        self._mutex = threading.Lock()

    @property
    def name(self) -> str:
        """The database's directory below each writer's: recorded when the first writer came; if no record can be
        read, the name that the writers' directories show, else the URL's last part. 1 GET the first time; without a
        record the cost of `writers`, and see `names_in_use`.

        Raises:
            CorruptObjectError: there is no telling.
        """
        return self._name or self._settled(None)

    @property
    def told(self) -> str | None:
        """Why the name is told by the writers' directories and not by the record; None where the record tells it."""
        return self._told

    def other_names(self) -> list[str]:
        """Names under which writers have catalogs that this database doesn't read: another one began beside it, as
        long as its name was lost. Cost: see `names_in_use`."""
        dirs = {name: self._dirs_of(name) for name in self._places()}
        return [name for name in names_in_use(self.bucket, self.prefix, dirs) if name != self.name]

    def record_name(self) -> None:
        """Keep the name, so that it stays when the database is opened under another URL. 1 GET or PUT."""
        name, problem = self._recorded()
        if name == self.name:
            self._told = None
            return
        body = encode_name(self.name)
        try:
            if self.bucket.capabilities.conditional_put and name is None and problem is None:
                create(self.bucket, self._name_key, body, nonce=f'"{self.name}"')
            else:
                self.bucket.put(self._name_key, body)
            self._told = None
        except ObjectExistsError:  # another process, under another URL, was first
            self._forget_name()

    def is_recorded(self) -> bool:
        """Whether a writer has ever begun here. 1 GET until one has."""
        return self._recorded() != (None, None)

    def layout(self, writer: str) -> WriterLayout:
        return WriterLayout(self.prefix, writer, self.name)

    def history(self, writer: str) -> History:
        """A writer's history, whether it has begun or not. Free of requests."""
        layout = self.layout(check_place(writer, "writer"))
        with self._mutex:
            found = self._histories.get(writer)
            if found is None:
                found = self._histories[writer] = History(self.bucket, layout)
            return found

    def writers(self) -> list[str]:
        """All writers' names, sorted. 1 LIST, and 1 for each directory not seen before."""
        names = self._places()
        new = self._unseen(names)
        wanted = self._settled(new) if self._name is None or (new and not self._is_sure) else self._name
        for name, dirs in new.items():
            if wanted in dirs:
                self.history(name)
        return sorted(n for n in names if n in self._histories)

    def is_table(self, name: str) -> bool:
        """Whether a name below the prefix is that of a table with a directory of its own. 1 LIST."""
        return has_table(self._dirs_of(name))

    def load(self) -> Union:
        """All writers as they are now. 1 LIST + what each one's `History.load` costs, in parallel.

        Raises:
            ForkError, CorruptObjectError, …: one writer can't be read, and the database was opened as strict.
        """
        return self._union(dict.fromkeys(self.writers(), _now))

    def at(self, at: str | int | datetime, *, own: str | None = None) -> Union:
        """All writers as of a time, or those of a vector `"a=3,b=7"`, or one at a revision.

        Each writer is read at its last commit of that time or before; this isn't a cut across writers. A number is
        a revision of the writer `own`, or of the only one there is.

        Raises:
            NotFoundError: a writer or a revision that isn't there.
            SnapshotTooOldError: it was pruned.
            CorruptObjectError, ForkError: a writer that the vector names can't be read.
        """
        if isinstance(at, bool) or not isinstance(at, (int, str, datetime)):
            raise InvalidInputError(
                f"at={at!r}: pass a time, a version as history() shows it, or a revision."
            )
        vector = self._vector(at, own)
        if vector is None:
            time_ms = parse_time(at)  # type: ignore[arg-type]
            return self._union(
                {name: lambda h: _at_time(h, time_ms) for name in self.writers()}, SnapshotTooOldError
            )
        check_known(vector, self.writers(), self.bucket.uri(self.prefix))
        readers = {
            name: (lambda h, r=revision: _at_revision(h, r)) for name, revision in sorted(vector.items())
        }
        return self._union(readers, FirnError)  # who asks for a writer's revision gets that, or why not

    def checkpoint(self, table: str | None = None) -> dict[str, int]:
        """Write a checkpoint of each writer that can be read, of those that have the `table` if one is given; by
        name, the transactions that readers needn't replay any more."""
        decided = {name: v.state.tables for name, v in self.load().versions.items() if v.fork is None}
        return {
            name: catch_up(self.history(name))
            for name, tables in decided.items()
            if table is None or table in tables
        }

    # -- inside

    @property
    def _name_key(self) -> str:
        return database_key(self.prefix)

    def _dirs_of(self, name: str) -> list[str]:
        return self.bucket.list_dirs(key_below(self.prefix, name, ""))

    def _places(self) -> list[str]:
        """Directories that may be writers'. 1 LIST."""
        below = self.bucket.list_dirs(key_below(self.prefix, ""))
        return [n for n in below if is_place(n) and n not in self._tables]

    def _unseen(self, names: Sequence[str]) -> dict[str, list[str]]:
        """Those of the directories that aren't known as writers', with what is in them; tables are noted. 1 LIST
        each."""
        new = [n for n in names if n not in self._histories]
        found = dict(zip(new, in_flight(self._dirs_of, new), strict=True))
        self._tables.update(name for name, dirs in found.items() if has_table(dirs))
        return {name: dirs for name, dirs in found.items() if name not in self._tables}

    def _settled(self, new: Mapping[str, Sequence[str]] | None) -> str:
        """Find the name out: by the record; where it is lost, or no directory has its name and it has no checksum, by
        the directories."""
        where = self.bucket.uri(self._name_key)
        name, problem = self._recorded()
        if name is not None and self._is_sure:
            return self._named(name)
        new = self._unseen(self._places()) if new is None else new
        self._is_sure = name is not None and any(name in dirs for dirs in new.values())
        if name is not None and self._is_sure:
            return self._named(name)
        used = names_in_use(self.bucket, self.prefix, new)
        if not used and problem is None:
            return self._named(name or self._default_name)
        if name is not None:
            problem = f"{where} names the database {name!r}, and no writer has a directory of that name"
        if len(used) != 1:
            raise lost_name(self.bucket, self.prefix, problem or f"{where} is missing", used)
        told = (
            f"{problem or f'{where} is missing'}, so the name {used[0]!r} is that of the writers' directories; any "
            "writer's next connection writes it anew"
        )
        self._is_sure = True
        return self._named(used[0], told)

    def _named(self, name: str, told: str | None = None) -> str:
        if name != self._name:
            self._forget_name()
        self._name, self._told = name, told
        return name

    def _forget_name(self) -> None:
        with self._mutex:
            self._name = None
            self._histories.clear()

    def _recorded(self) -> tuple[str | None, str | None]:
        """The recorded name, and why the record can't be read; neither where there is none. 1 GET."""
        try:
            data = self.bucket.get(self._name_key).data
            name = decode_name(data, self.bucket.uri(self._name_key))
            self._is_sure = has_checksum(data)
            return name, None
        except ObjectNotFoundError:
            return None, None
        except CorruptObjectError as error:
            return None, str(error)

    def _vector(self, at: str | int | datetime, own: str | None) -> dict[str, int] | None:
        if isinstance(at, int) or (isinstance(at, str) and at != "0" and at.isdecimal()):
            names = [own] if own is not None else self.writers()
            if len(names) != 1:
                raise InvalidInputError(
                    f"at={at}: the database has {len(names)} writers, each with revisions of its own. Pass a version "
                    'like "host-17=12", several with commas between them, or a time.'
                )
            return {names[0]: int(at)}
        if at == "0":
            return {}
        if not isinstance(at, str) or "=" not in at:
            return None
        matches = [_COMPONENT.fullmatch(part.strip()) for part in at.split(",")]
        if not all(matches):
            raise InvalidInputError(f'at={at!r}: a version names writers and revisions, like "a=3,b=7".')
        named = [(m[1], int(m[2])) for m in matches if m is not None]
        writers = [writer for writer, _ in named]
        if twice := next((writer for writer in writers if writers.count(writer) > 1), None):
            raise InvalidInputError(
                f"at={at!r}: it names the writer {twice!r} twice; a version names each once."
            )
        return dict(named)

    def _union(
        self,
        readers: Mapping[str, Callable[[History], CatalogVersion]],
        fatal: type[FirnError] | tuple[type[FirnError], ...] = (),
    ) -> Union:
        def read(name: str) -> CatalogVersion | FirnError:
            try:
                return readers[name](self.history(name))
            except DEGRADES as error:
                if self.strict or isinstance(error, fatal):
                    raise
                return error

        found = dict(zip(readers, in_flight(read, list(readers)), strict=True))
        versions = {name: v for name, v in found.items() if isinstance(v, CatalogVersion)}
        for name, version in versions.items():
            if self.strict and version.fork is not None:
                raise ForkError(
                    f"{self.history(name).where} has {version.fork}, and this connection is strict. Stop all but one "
                    "of the processes and choose a side with `firn repair --keep UUID`."
                )
        broken = {name: e for name, e in found.items() if isinstance(e, FirnError)}
        return Union(versions, broken, () if self._told is None else (self._told,))


def _now(history: History) -> CatalogVersion:
    version = history.load()
    return version if version.head.revision > 0 else check_begun(history, version)


def _at_revision(history: History, revision: int) -> CatalogVersion:
    _now(history)
    return history.at(revision)


def _at_time(history: History, time_ms: int) -> CatalogVersion:
    _now(history)
    return history.at_time(time_ms)


def default_name(url: str) -> str:
    """The database's name by its URL: the last part, as far as a name can be made of it.

    >>> default_name("s3://bucket/prod"), default_name("./my data"), default_name("memory://")
    ('prod', 'my_data', 'db')
    """
    last = url.partition("://")[2] if "://" in url else url
    last = last.rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", last).lstrip("_.-")[:100]
    return name if is_place(name) else "db"
