"""`KeyedTable`: what users hold. Every verb is one call into the module that does it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from firn.alter import AlterResult
from firn.arguments import checked, documented
from firn.concurrency.aio import Opening
from firn.errors import DatabaseClosedError
from firn.journal.manifest import View
from firn.keyed import founding
from firn.keyed.aio import AsyncKeyedReader, AsyncKeyedWriter
from firn.keyed.context import KeyedContext
from firn.keyed.definition.alteration import Alteration
from firn.keyed.definition.settings import POLLS
from firn.keyed.load import bulk_load
from firn.keyed.maintain import alter as altering
from firn.keyed.maintain import checkpoints, clones, compaction, sweep
from firn.keyed.read import changes
from firn.keyed.read.reader import KeyedReader
from firn.keyed.results import LoadReport
from firn.keyed.write.writer import KeyedWriter
from firn.runner import Runner
from firn.units import Duration, parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.journal.manifest.history import ManifestCommit
    from firn.journal.manifest.model import CollectReport
    from firn.keyed.maintain.checkpoints import Checkpoint
    from firn.keyed.maintain.compaction import CompactionReport
    from firn.keyed.read.changes import Changes

T = TypeVar("T")


@checked
class KeyedTable(KeyedContext):
    """Sorted keys with one writer and many readers. Get one from `Database.create_table` or `Database.table`.

    Safe to share between threads. Making one costs no request.
    """

    kind: Final = "keyed"

    def __repr__(self) -> str:
        return f"<KeyedTable {self.bucket.uri(self.prefix)}>"

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
            DatabaseClosedError: the connection that gave the table was closed.
            TableNotFoundError: the table was dropped.
            OutcomeUnknownError: the store answers nothing.

        Cost: 1 GET, the manifest's chain, 1 LIST, 1 PUT and 1 CAS; the table's first writer needs no PUT. In the
        background 1 GET an L0 object, for its index; reads before that is done wait for what they need.

        Example:
            >>> import firn
            >>> delays = firn.connect("memory://").create_table("delays", kind="keyed", merge_operator="add")
            >>> with delays.open() as kv:
            ...     kv.put(b"DTW", b"66")
            ...     kv.merge(b"DTW", b"4")
            ...     kv.get(b"DTW")
            b'70'
        """
        if self.engines.closed:  # which would close it no more
            raise DatabaseClosedError(f"the connection that gave {self.name} is closed: connect again.")
        gaps = parse_duration(wait_for_gaps)
        every = self.settings.poll_max / POLLS if poll_every is None else parse_duration(poll_every)
        session = founding.founded(
            self, lambda: self.journal.open_writer(wait_for_gaps_s=gaps, strict=self.settings.strict)
        )
        table = self.as_in(session.view)
        kv = KeyedWriter(table, session, compaction=compaction, poll_every=every)
        self._opened(kv)
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
        return checkpoints.view_at(self, at)

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
            report: LoadReport = self.engines.load(self, data)
            return report
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
        return self.engines.to_spark(self, columns=columns, where=where, at=at)

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
        """The commits of compactions and bulk loads, the newest first, as far as sweep has left it.

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
        return founding.founded(self, lambda: self.journal.history(limit))

    @documented(sweep.sweep)
    def sweep(self, *, older_than: Duration | None = None, dry_run: bool = False) -> CollectReport:
        return sweep.sweep(self, older_than=older_than, dry_run=dry_run)

    def alter(
        self,
        *,
        rename: Mapping[str, str] | None = None,
        drop: str | Sequence[str] = (),
        add: Mapping[str, str | tuple[str, Any]] | None = None,
        types: Mapping[str, str] | None = None,
        comments: Mapping[str, str | None] | None = None,
        comment: str | None = None,
        set_properties: Mapping[str, Any] | None = None,
        fence: bool = False,
        dry_run: bool = False,
    ) -> AlterResult:
        """Change the columns of the values, comments and properties, by one commit that rewrites no data. All or
        nothing; a call that changes nothing commits nothing. Only the table's writer may: that which this database
        has open, and which goes by the new definition from then on. A compaction under way is lost.

        Columns of the key and those with a merge operator stay as they are. Readers that follow the table go on by
        the new definition; checkpoints are read with the columns of then.

        Args:
            rename: new names by column. `rename`, `drop` and `types` name columns as they were before the call, so
                `{"a": "b", "b": "a"}` swaps two; `comments` names them as they are after it.
            drop: columns. Their values aren't shown any more, and compactions leave them out.
            add: DuckDB types of new columns, or pairs of a type and the value that rows have which are older than the
                column. Such a default never changes; a put that leaves the column out has it, too.
            types: wider DuckDB types by column: such that hold all values exactly, BIGINT for INTEGER.
            comments: texts by column, of the key's, too; None takes one back.
            comment: a text about the table; "" takes it back.
            set_properties: name → value; None takes a property back to its default. All but `pointer_url` can change.
                `block_cache` counts for handles that are opened when no other is.
            fence: where this database has no writer open, become the writer for a moment, which ends another one.
            dry_run: only tell what would change.

        Raises:
            InvalidInputError: an unknown column or property, a name that is taken, a column that can't be changed, a
                type or a value that can't be; or there is no writer to do it. Nothing was changed.

        Cost: that of reading the table's metadata, 1 CAS, and a commit's 2 PUTs; with `fence` also that of `open`.

        Example:
            >>> import firn
            >>> delays = firn.connect("memory://").create_table("delays", kind="keyed")
            >>> with delays.open() as kv:
            ...     delays.alter(set_properties={"flush_ms": 20}).changes
            ('set flush_ms = 20',)
            >>> delays.alter(set_properties={"flush_ms": None}, fence=True).changes
            ('unset flush_ms',)
            >>> db = firn.connect("memory://")
            >>> routes = db.create_table("routes", kind="keyed", key={"id": "BIGINT"}, schema={"delay": "INTEGER"})
            >>> with routes.open() as kv:
            ...     kv.put(1, {"delay": 5})
            ...     _ = routes.alter(rename={"delay": "minutes"}, add={"cancelled": ("BOOLEAN", False)})
            ...     kv.get(1)
            {'minutes': 5, 'cancelled': False}
        """
        asked = Alteration(
            rename or {},
            (drop,) if isinstance(drop, str) else tuple(drop),
            add or {},
            types or {},
            comments or {},
            comment,
            set_properties or {},
        )
        return altering.alter(self, asked, fence=fence, dry_run=dry_run)


class AsyncKeyedTable:
    """See `KeyedTable`, whose other verbs `run` calls: `await table.run(table.sync.checkpoint, "monday")`."""

    def __init__(self, sync: KeyedTable) -> None:
        self.sync = sync

    @property
    def name(self) -> str:
        return self.sync.name

    def open(self, **options: Any) -> Opening[AsyncKeyedWriter]:
        """Become the table's writer; the one before is fenced. Options as `KeyedTable.open` has them."""
        return Opening(lambda: self.run(lambda: AsyncKeyedWriter(self.sync.open(**options))))

    def reader(self, at: Any = None, **options: Any) -> Opening[AsyncKeyedReader]:
        """Read the newest flush, or stay at a version or checkpoint. Options as `KeyedTable.reader` has them."""
        return Opening(lambda: self.run(lambda: AsyncKeyedReader(self.sync.reader(at, **options))))

    async def run(self, verb: Callable[..., T], /, *args: Any, **options: Any) -> T:
        """Any verb of the table, in a thread."""
        return await asyncio.to_thread(verb, *args, **options)
