"""`KeyedTable`: what users hold. Every verb is one call into the module that does it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from weakref import WeakValueDictionary

from firn.alter import AlterResult
from firn.arguments import checked, documented
from firn.bucket.base import Bucket
from firn.clock import Clock, SystemClock
from firn.errors import (
    CorruptObjectError,
    InvalidInputError,
    SnapshotTooOldError,
    TableExistsError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.journal.manifest import ManifestJournal, View
from firn.journal.manifest.layout import manifest_name, parse_manifest_name
from firn.journal.manifest.pointer_store import BucketPointerStore, PointerStore
from firn.keyed.aio import AsyncKeyedTable
from firn.keyed.definition.definition import KeyedDefinition, read_definition
from firn.keyed.definition.settings import KeyedSettings
from firn.keyed.encoding.keys import Keys
from firn.keyed.encoding.values import Values
from firn.keyed.load import bulk_load
from firn.keyed.maintain import alter as altering
from firn.keyed.maintain import checkpoints, clones, compaction, sweep
from firn.keyed.merge.operators import Operator
from firn.keyed.read import changes
from firn.keyed.read.reader import KeyedReader
from firn.keyed.read.sources import Sources, SstReaders, runs_from
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader
from firn.keyed.write.writer import KeyedWriter
from firn.runner import LocalEngines, Runner, TaskEngines
from firn.units import Duration, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.journal.manifest.history import ManifestCommit
    from firn.journal.manifest.model import CollectReport
    from firn.keyed.load.bulk_load import LoadReport
    from firn.keyed.maintain.checkpoints import Checkpoint
    from firn.keyed.maintain.compaction import CompactionReport
    from firn.keyed.read.changes import Changes


POLLS = 3
"""How often within `poll_max` a writer looks whether another has come, unless it is told."""

T = TypeVar("T")


class Engines(TaskEngines, Protocol):
    """Where a whole table's work runs; `firn.database.database` gives every table one."""

    def keyed_to_spark(
        self, table: KeyedTable, *, columns: Sequence[str] | None, where: str | None, at: Any
    ) -> Any: ...

    def keyed_load(self, table: KeyedTable, frame: Any) -> LoadReport: ...


class InProcess(LocalEngines):
    """No cluster: tasks run in threads of this process."""

    def keyed_to_spark(
        self, table: KeyedTable, *, columns: Sequence[str] | None, where: str | None, at: Any
    ) -> Any:
        raise _without_database(table)

    def keyed_load(self, table: KeyedTable, frame: Any) -> LoadReport:
        raise _without_database(table)


def _without_database(table: KeyedTable) -> UnsupportedError:
    return UnsupportedError(f"{table.name} was made without a database: get it by firn.connect(…).table(…)")


class _Cached:
    """The cache and the SST readers that all handles on a table share in this process."""

    def __init__(self, bucket: Bucket, definition: KeyedDefinition) -> None:
        self.cache = BlockCache(definition.settings.block_cache)
        self.readers = SstReaders(bucket, self.cache, definition.values)
        self.writers: WeakValueDictionary[int, KeyedWriter] = WeakValueDictionary()
        """By the database that opened each."""


_cached: WeakValueDictionary[tuple[str, int], _Cached] = WeakValueDictionary()
_cached_lock = threading.Lock()


@checked
class KeyedTable:
    """Sorted keys with one writer and many readers. Get one from `Database.create_table` or `Database.table`.

    Safe to share between threads. Making one costs no request.
    """

    kind: Final = "keyed"

    def __init__(
        self,
        bucket: Bucket,
        prefix: str,
        definition: KeyedDefinition,
        engines: Engines | None = None,
        *,
        options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.bucket, self.prefix, self.definition = bucket, prefix, definition
        self.engines: Engines = engines or InProcess()
        self.options = dict(options or {})
        self.clock: Clock = clock or SystemClock()
        self.created = definition
        """The definition as it stands in the table's own object; `definition` may be that of a view."""
        self._altered: dict[str, KeyedTable] = {}

    def __repr__(self) -> str:
        return f"<KeyedTable {self.bucket.uri(self.prefix)}>"

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def settings(self) -> KeyedSettings:
        return self.definition.settings

    @property
    def keys(self) -> Keys:
        return self.definition.keys

    @property
    def values(self) -> Values:
        return self.definition.values

    @property
    def operator(self) -> Operator | None:
        return self.definition.operator

    def now_ms(self) -> int:
        """The time by which entries expire."""
        return self.clock.now_ms()

    @cached_property
    def pointers(self) -> PointerStore:
        """Where the table's pointer lives."""
        url = self.settings.pointer_url
        if url is not None:
            from firn.journal.manifest.dynamo import open_pointers

            return open_pointers(url, self.options, generation=self.definition.generation)
        return BucketPointerStore(self.bucket, self.definition.layout(self.prefix).pointer_key)

    @cached_property
    def journal(self) -> ManifestJournal:
        """The table's manifests and L0 objects."""
        settings = self.settings
        return ManifestJournal(
            self.bucket,
            self.prefix,
            pointers=self.pointers,
            clock=self.clock,
            poll_max_s=settings.poll_max,
            l0_min_age_s=settings.l0_min_age,
            table=self.definition.id,
            generation=self.definition.generation,
        )

    # -- one writer, many readers

    def open(
        self, *, wait_for_gaps: Duration = 0.0, compaction: bool = True, poll_every: Duration | None = None
    ) -> KeyedWriter:
        """Become the table's writer. The one before is fenced: it acknowledges nothing any more.

        Args:
            wait_for_gaps: how long to wait for flushes of the writer before that are missing below later ones. None
                of those was acknowledged, so nothing that was is lost without.
            compaction: compact in the background while the table is open. It waits while a compactor elsewhere is
                under way, until that has given no sign of life for a minute.
            poll_every: how often to look whether another writer has come; by default a third of `poll_max`.

        Raises:
            TableNotFoundError: the table was dropped.
            OutcomeUnknownError: the store answers nothing.

        Cost: 1 GET, the manifest's chain, 1 LIST, 1 PUT and 1 CAS; the table's first writer needs no PUT. In the
        background 1 GET an L0 object, for its index; who reads before that is done waits for what the read needs.

        Example:
            >>> import firn
            >>> delays = firn.connect("memory://").create_table("delays", kind="keyed", merge="add")
            >>> with delays.open() as kv:
            ...     kv.put(b"DTW", b"66")
            ...     kv.merge(b"DTW", b"4")
            ...     kv.get(b"DTW")
            b'70'
        """
        gaps = parse_duration(wait_for_gaps)
        every = self.settings.poll_max / POLLS if poll_every is None else parse_duration(poll_every)
        session = self.founded(
            lambda: self.journal.open_writer(wait_for_gaps_s=gaps, strict=self.settings.strict)
        )
        table = self.as_in(session.view)
        kv = KeyedWriter(table, session, compaction=compaction, poll_every=every)
        self._shared.writers[id(self.engines)] = kv
        return kv

    def reader(self, at: Any = None, *, follow: Duration | None = "1s") -> KeyedReader:
        """Read what is flushed. Writes nothing to the bucket.

        Args:
            at: a checkpoint, its name or id, or a reader's or scan's `version`, to stay there; by default the newest.
            follow: a read never shows a state older than this: it refreshes first if it must. "0s" sees all that was
                acknowledged before; None stays where it is until `refresh`.

        Raises:
            TableNotFoundError: the table was dropped.
            SnapshotTooOldError: there is no such checkpoint or version any more.

        Cost: 2 GETs, the manifest's chain and 1 LIST; of a refresh 1 LIST + 1 GET.

        Example:
            >>> import firn
            >>> delays = firn.connect("memory://").create_table("delays", kind="keyed")
            >>> with delays.open() as kv:
            ...     kv.put(b"DTW", b"66")
            >>> delays.reader().get(b"DTW")
            b'66'
        """
        seconds = None if follow is None or at is not None else parse_duration(follow)
        return KeyedReader(self, self.view(at), follow=seconds)

    def view(self, at: Any = None) -> View:
        """The SSTs and L0 objects of a moment: the newest, a version's, or a checkpoint's. Cost: see `reader`."""
        if isinstance(at, View):
            return at
        if isinstance(at, str) and "@" in at:
            return self._version(at)
        if at is not None:
            return checkpoints.view_at(self, at)
        return self.founded(self.journal.read)

    @property
    def version(self) -> str:
        """The version of what is flushed now, for `reader(at=…)` and `changes(since=…)`. 1 GET + 1 LIST, and the
        manifests that aren't in memory."""
        return self.view().version

    # -- whole-table work

    @documented(compaction.compact)
    def compact(
        self, *, full: bool = False, runner: Runner | None = None, dry_run: bool = False
    ) -> CompactionReport:
        return compaction.compact(self, full=full, runner=runner, dry_run=dry_run)

    @documented(bulk_load.load)
    def load(self, data: Any, *, runner: Runner | None = None) -> LoadReport:
        if self.engines.is_dataframe(data):
            return self.engines.keyed_load(self, data)
        return bulk_load.load(self, data, runner=runner)

    def to_spark(
        self, *, columns: Sequence[str] | None = None, where: str | None = None, at: Any = None
    ) -> DataFrame:
        """The newest live rows as a Spark DataFrame, or those of a version or checkpoint.

        Args:
            columns: of the key and the value, in this order; all by default.
            where: a predicate over them; ranges of the key leave out what lies outside.
            at: as `reader` takes it.
        """
        return self.engines.keyed_to_spark(self, columns=columns, where=where, at=at)

    @property
    def aio(self) -> AsyncKeyedTable:
        """The same for asyncio: `async with table.aio.open() as kv`.

        Example:
            >>> import asyncio, firn
            >>> delays = firn.connect("memory://").create_table("delays", kind="keyed")
            >>> async def main():
            ...     async with delays.aio.open() as kv:
            ...         await kv.put(b"DTW", b"66")
            ...         return await kv.get(b"DTW")
            >>> asyncio.run(main())
            b'66'
        """
        return AsyncKeyedTable(self)

    @documented(checkpoints.checkpoint)
    def checkpoint(self, name: str | None = None, ttl: Duration | None = None) -> Checkpoint:
        return checkpoints.checkpoint(self, name, ttl)

    @documented(checkpoints.checkpoints)
    def checkpoints(self) -> list[Checkpoint]:
        return checkpoints.checkpoints(self)

    @documented(clones.clone)
    def clone(self, name: str, at: Any = None) -> KeyedTable:
        return clones.clone(self, name, at)

    @documented(changes.changes)
    def changes(self, since: str | None = None, upto: str | None = None) -> Changes:
        return changes.changes(self, since, upto)

    def history(self, limit: int | None = None) -> list[ManifestCommit]:
        """What compactions and bulk loads have committed, the newest first, as far as sweep has left it.

        Args:
            limit: only the newest so many.

        Cost: 1 GET, 2 LISTs, and 1 GET a manifest that is there.

        Example:
            >>> import firn
            >>> delays = firn.connect("memory://").create_table("delays", kind="keyed")
            >>> with delays.open() as kv:
            ...     kv.put(b"DTW", b"66")
            >>> _ = delays.compact()
            >>> [(commit.state, commit.flushes, len(commit.adds)) for commit in delays.history()]
            [('current', 1, 1)]
        """
        return self.founded(lambda: self.journal.history(limit))

    @documented(sweep.sweep)
    def sweep(self, *, older_than: Duration | None = None, dry_run: bool = False) -> CollectReport:
        return sweep.sweep(self, older_than=older_than, dry_run=dry_run)

    def alter(
        self, *, set_properties: Mapping[str, Any] | None = None, fence: bool = False, dry_run: bool = False
    ) -> AlterResult:
        """Change properties, by one commit that rewrites no data. Only the table's writer may: that which this
        database has open, and which goes by them from then on. A compaction under way is lost.

        Args:
            set_properties: name → value; None takes a property back to its default. All but `pointer_url` can change.
                `block_cache` counts for handles that are opened when no other is.
            fence: where this database has no writer open, become the writer for a moment, which ends another one.
            dry_run: only tell what would change.

        Raises:
            InvalidInputError: an unknown property, or a value that can't be; or there is no writer to do it.

        Cost: that of reading the table's metadata, 1 CAS, and a commit's 2 PUTs; with `fence` also that of `open`.

        Example:
            >>> import firn
            >>> delays = firn.connect("memory://").create_table("delays", kind="keyed")
            >>> with delays.open() as kv:
            ...     delays.alter(set_properties={"flush_ms": 20}).changes
            ('set flush_ms = 20',)
            >>> delays.alter(set_properties={"flush_ms": None}, fence=True).changes
            ('unset flush_ms',)
        """
        return altering.alter(self, set_properties, fence=fence, dry_run=dry_run)

    # -- for the rest of the room

    def as_in(self, view: View) -> KeyedTable:
        """The table with the definition that a view has. No request."""
        if not view.manifest.definition:
            return self
        found = self._altered.get(view.manifest.name)
        if found is None:
            found = self.beside(altering.altered(self.definition, view.manifest.definition), self.prefix)
            found.created = self.created
            self._altered.clear()
            self._altered[view.manifest.name] = found
        return found

    def writer_here(self) -> KeyedWriter | None:
        """The writer that this database has open and that isn't fenced, if there is one. No request."""
        kv = self._shared.writers.get(id(self.engines))
        return None if kv is None or kv.ended else kv

    @cached_property
    def _shared(self) -> _Cached:
        # A store in memory may be a copy of another: the same id, and other objects.
        name = (self.definition.id, 0 if self.bucket.capabilities.shareable else id(self.bucket))
        with _cached_lock:
            found = _cached.get(name)
            if found is None:
                found = _Cached(self.bucket, self.definition)
                _cached[name] = found
            return found

    @property
    def cache(self) -> BlockCache:
        """Decoded blocks; one cache a table and process, of `block_cache` bytes."""
        return self._shared.cache

    @property
    def ssts(self) -> SstReaders:
        """The readers of the table's SSTs and L0 objects, shared in the process."""
        return self._shared.readers

    def sst(self, key: str, size: int) -> SstReader:
        """The reader of one object. No request."""
        return self._shared.readers(key, size)

    def sources(self, view: View) -> Sources:
        """What a view has in the bucket, to be read. No request."""
        l0 = [self.sst(file.key, file.bytes) for file in view.l0]
        return Sources(l0, runs_from(view.manifest.ssts, self.journal.layout.sst_key, self.sst), self.ssts)

    def beside(self, definition: KeyedDefinition, prefix: str) -> KeyedTable:
        """Another table of the same bucket."""
        return KeyedTable(
            self.bucket, prefix, definition, self.engines, options=self.options, clock=self.clock
        )

    def found(self) -> None:
        """Write the pointer, with which the table begins; a clone begins with its parent's SSTs."""
        made = self.definition

        def listed(columns: Mapping[str, str] | None) -> list[list[str]] | None:
            return None if columns is None else [list(item) for item in columns.items()]

        settings = {
            "table": made.id,
            "flush_ms": self.settings.flush_ms,
            "writer_epoch_refresh_ms": round(self.settings.poll_max * 1000 / POLLS),
            "schema": {"key": listed(made.key), "columns": listed(made.columns)},
        }
        if self.definition.parent is None:
            self.journal.create(settings, self.definition.first_epoch)
        else:
            ssts, last, definition = clones.first_ssts(self)
            first_epoch = self.definition.first_epoch
            self.journal.create(settings, first_epoch, ssts=ssts, last_compacted=last, definition=definition)

    def founded(self, read: Callable[[], T]) -> T:
        """Read; and if there is no pointer because whoever created the table crashed, write it first."""
        try:
            return read()
        except TableNotFoundError:
            definition = read_definition(self.bucket, self.prefix)
            if definition is None or definition.dropped or definition.id != self.definition.id:
                raise self._gone("was dropped") from None
        self._check_unborn()
        with suppress(TableExistsError):  # somebody else has mended it meanwhile
            self.found()
        return read()

    def _check_unborn(self) -> None:
        """Refuse to begin anew where files say that the table had begun. 2 LISTs."""
        if self.has_files():
            raise CorruptObjectError(
                f"{self.journal.store.pointers.where} is missing, and files of the table are there. Copy the newest "
                "version of it back from a backup; nobody can open the table until then."
            )

    def has_files(self) -> bool:
        """Whether there is a flush, or a manifest but the one that a clone puts before its pointer. 2 LISTs."""
        layout = self.journal.layout
        first = None
        if self.definition.parent is not None:
            first = layout.manifest_key(manifest_name(self.definition.first_epoch, 0))
        prefixes = (layout.manifests_prefix, layout.l0_prefix)
        return any(i.key != first for prefix in prefixes for i in self.bucket.list(prefix).objects)

    def _gone(self, why: str) -> TableNotFoundError:
        return TableNotFoundError(
            f"{self.bucket.uri(self.prefix)} {why}. Open it with db.table({self.name!r}) if it is there again."
        )

    def _version(self, version: str) -> View:
        """The view of a version, as far as its objects are still known by the newest one."""
        name, _, number = version.partition("+")[0].partition("@")
        if parse_manifest_name(name) is None or not number.removeprefix("-").isdigit():
            raise InvalidInputError(
                f"{version!r} is not a version of {self.name}: give one that Firn gave you."
            )
        newest, last = self.view(), int(number)
        if newest.manifest.name != name or not newest.manifest.last_compacted <= last <= newest.last_l0:
            raise SnapshotTooOldError(
                f"{self.bucket.uri(self.prefix)} has no version {version} any more: it was compacted since. What is "
                "to be read later, keep with checkpoint()."
            )
        return View(newest.pointer, newest.manifest, tuple(f for f in newest.l0 if f.number <= last))
