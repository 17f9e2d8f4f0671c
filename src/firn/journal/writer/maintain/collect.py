"""Collecting garbage: data files and markers that no retained revision needs (rules 24 to 27), and what statements
that died have staged.

Collect lists the data files before the history: a file that is committed in between is named by then. It deletes a
file before the files that replaced it, so that the remaining files tell rebuild which rows count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from firn.bucket.base import ObjectInfo
from firn.bucket.presence import is_there
from firn.errors import (
    ConflictError,
    CorruptObjectError,
    ObjectNotFoundError,
)
from firn.journal.model import SweepReport
from firn.journal.writer.attempts import ATTEMPTS, ChangedMeanwhile, persist
from firn.journal.writer.format.actions import Add, CatalogTransaction, Drop
from firn.journal.writer.format.footers import read_pairs
from firn.journal.writer.format.layout import BadName, MarkerName, ObjectName
from firn.journal.writer.format.marker import Marker, decode_marker, encode_marker
from firn.journal.writer.format.messages import decode_transaction
from firn.journal.writer.format.metadata import FileRecord, read_metadata
from firn.journal.writer.history.history import History
from firn.journal.writer.history.listing import list_settled
from firn.journal.writer.history.objects import store_now

AT_ONCE = 256
"""Transactions held in memory while their files are noted."""


@dataclass(frozen=True)
class CatalogCollection:
    """The result of a collection: what it deleted, or would delete, in order.

    `data_files` are of revisions that were pruned, and may have been read once; `orphans` were never committed.
    `kept_foreign` lie among the data files or markers under a name that no Firn writes, or can't be read, or say
    that they are somebody else's; `waiting` are garbage that replaced something which still exists.
    """

    data_files: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    bytes: int = 0
    kept_foreign: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    dry_run: bool = False

    def as_sweep(self) -> SweepReport:
        """As the lake reports a sweep: markers are logs."""
        return SweepReport(
            self.data_files, self.markers, self.orphans, self.bytes, self.kept_foreign, dry_run=self.dry_run
        )


Remainder = tuple[ObjectInfo, Marker, Marker | None]
"""A marker, and what is needed of it: see `Marker.remainder`."""

Ages = Callable[[str], int]
"""How old a file of a table has to be, in milliseconds."""


def collect(
    history: History, *, orphan_age_ms: int | Ages, dry_run: bool = False, table: str | None = None
) -> CatalogCollection:
    """Delete the data files that no retained revision names, and the markers that nothing needs any more.

    A file goes if no transaction, checkpoint or unfinished claim that is left names it, whichever branch that is on;
    if it was begun for a revision below the head; and if it is `orphan_age_ms` old by the store's clock: several
    commits of one writer may be under way, and a file may wait for its own. Prune first, to make garbage of what
    old revisions read.

    Cost: 5 LIST sequences (with claims 6), 1 PUT and 1 HEAD for the store's clock. Where anything isn't live and
    is old enough: 1 GET each retained transaction and checkpoint, 1 GET each file that none of them names and
    each marker of a transaction that is gone, 1 HEAD each file outside of the catalog that garbage has replaced,
    and the DELETEs, ascending: those of one revision go together; 1 PUT each marker that is left and has
    predicates on files that are gone, or the partitions of such: it is written anew without these.

    Args:
        orphan_age_ms: longer than any append may take, from its first file to its commit; for all tables, or for
            each by its name.
        dry_run: nothing is written but the object that tells the time.
        table: only files of this one, and files of dropped tables that were begun before the drop; of every table,
            and what lies among them, by default.

    Errors as `Database.sweep`, and `ConflictError` where others prune or collect at the same time. After a
    `StoreError` or an `OutcomeUnknownError` collect again; it ends what this began.
    """
    try:
        return persist(
            lambda: _Collection(history, orphan_age_ms, dry_run, table).run(),
            (CorruptObjectError, ChangedMeanwhile),
        )
    except ChangedMeanwhile:
        raise ConflictError(
            f"{history.where} was changed by another process in each of {ATTEMPTS} passes. Prune and collect it from "
            "one."
        ) from None


@dataclass(frozen=True)
class OrphanFile:
    """A data file that nothing names, and its record of itself."""

    info: ObjectInfo
    record: FileRecord

    @property
    def order(self) -> tuple[int, str]:
        return self.record.revision, self.info.key


def plan_waves(
    garbage: Iterable[OrphanFile], existing: Collection[str]
) -> tuple[list[list[OrphanFile]], list[OrphanFile]]:
    """The files that may be deleted, in waves, each after all of the one before; and those that have to wait. Pure.

    A file goes after all that it replaces (rule 26). `existing` are all paths that are there before.
    """
    left = set(existing)
    waves: list[list[OrphanFile]] = []
    waiting: list[OrphanFile] = []
    current: set[str] = set()
    revision = 0
    for entry in sorted(garbage, key=lambda g: g.order):
        if not left.isdisjoint(entry.record.replaces):
            waiting.append(entry)
            continue
        if entry.record.revision != revision or not current.isdisjoint(entry.record.replaces):
            waves.append([])
            current, revision = set(), entry.record.revision
        waves[-1].append(entry)
        current.add(entry.info.key)
        left.discard(entry.info.key)
    return waves, waiting


class _Collection:
    """One pass."""

    def __init__(self, history: History, orphan_age_ms: int | Ages, dry_run: bool, table: str | None) -> None:
        self.history, self.dry_run, self.table = history, dry_run, table
        self.bucket, self.layout = history.bucket, history.layout
        self.orphan_age_ms = orphan_age_ms
        self.now = store_now(self.bucket, self.layout)
        self.data = self.bucket.list(self.layout.data_prefix).objects
        self.marked = self.bucket.list(self.layout.markers_prefix).objects
        self.staged = self.bucket.list(self.layout.staged_prefix).objects
        # The head before the names: of a revision below it, all that was ever committed is among them.
        self.version = history.decided("which files are needed", "collect")
        self.names = list_settled(self.bucket, self.layout, 0)
        if self.names.forked() is not None:
            history.counting(self.names)
        self.kept_foreign: list[str] = []
        self.dropped: dict[str, int] = {}

    def run(self) -> CatalogCollection:
        files = list(self._suspects())
        markers = list(self._read_markers(self._orphaned_markers()))
        for _, found in markers:
            self._note_drops(found.transaction)
        references = self._references() if files or markers else set()
        garbage = list(self._garbage(files, references))
        rows = {path for path in references if self.layout.is_rows(path)}
        existing = {info.key for info in self.data} | rows
        there = existing | self._foreign(garbage) | self._marked_rows(garbage)
        waves, waiting = plan_waves(garbage, there)
        doomed = [entry for wave in waves for entry in wave]
        without_rows = self._without_rows(markers, rows, existing)
        existing.difference_update(entry.info.key for entry in doomed)
        remainders = self._remainders(markers, existing)
        useless = [info for info, _, left in remainders if left is None]
        left_over = list(self._left_over())
        floor = min([*self.names.transactions, *self.names.checkpoints], default=0)
        report = CatalogCollection(
            tuple(g.info.key for g in doomed if g.record.revision < floor),
            (
                *(g.info.key for g in doomed if g.record.revision >= floor),
                *(info.key for info in left_over),
            ),
            tuple(info.key for info in useless),
            sum(info.size for info in (*(g.info for g in doomed), *useless, *left_over)),
            tuple(sorted(self.kept_foreign)),
            tuple(g.info.key for g in waiting),
            self.dry_run,
        )
        if not self.dry_run:
            # Rows go from markers before the files that replaced them: else a rebuild would bring them back.
            self._renew(without_rows)
            for wave in waves:
                self.bucket.delete_many([entry.info.key for entry in wave])
            self.bucket.delete_many([info.key for info in left_over])
            renewed = {info.key: left for info, _, left in without_rows}
            for key in report.markers:
                if key not in renewed or renewed[key] is not None:
                    self.bucket.delete(key)
            self._renew(
                [(info, renewed.get(info.key) or found, left) for info, found, left in remainders if left]
            )
        return report

    # -- what nothing names

    def _suspects(self) -> Iterator[ObjectInfo]:
        """Data files that aren't live, and old enough. Free of requests."""
        live = {path for table in self.version.state.tables.values() for path in table.files}
        for info in self.data:
            found = self.layout.parse_data(info.key)
            table = None if found is None else found.table
            if info.key not in live and self._is_chosen(table) and self._is_old(info, table):
                yield info

    def _is_chosen(self, table: str | None) -> bool:
        # Nobody sweeps a dropped table, so a sweep of another table does it.
        gone = table is not None and table not in self.version.state.tables
        return self.table in (None, table) or gone

    def _is_old(self, info: ObjectInfo, table: str | None) -> bool:
        age = self.orphan_age_ms
        if not isinstance(age, int):
            age = age(table or "")
        return info.modified_ms <= self.now - age

    def _note_drops(self, transaction: CatalogTransaction) -> None:
        for action in transaction.actions:
            if isinstance(action, Drop):
                before = self.dropped.get(action.table, 0)
                self.dropped[action.table] = max(before, transaction.revision)

    def _references(self) -> set[str]:
        """Every file that a retained revision reads, on whatever branch (rule 24)."""
        paths: set[str] = set()
        nodes = self.names.nodes()
        for start in range(0, len(nodes), AT_ONCE):
            some = nodes[start : start + AT_ONCE]
            found = self.history.reader.transactions(some)
            if len(found) < len(some):
                raise ChangedMeanwhile
            for transaction in found.values():
                if isinstance(transaction, CorruptObjectError):
                    raise transaction
                paths.update(_added(transaction))
                self._note_drops(transaction)
        for revision, prefixes in self.names.checkpoints.items():
            for prefix in prefixes:
                state = self.history.reader.checkpoint(ObjectName(revision, prefix, "checkpoint"))
                if state is None:
                    raise ChangedMeanwhile
                paths.update(path for table in state.tables.values() for path in table.files)
        return paths | self._claimed()

    def _claimed(self) -> set[str]:
        """The files that the next process commits for the dead owner of a claim (rule 15)."""
        head = self.version.head
        if not head.claimed:
            return set()
        prefix = self.layout.claims_prefix
        above = self.bucket.list(prefix, after=self.layout.claim_key(head.revision)).objects
        keys = [info.key for info in above if self.layout.parse_claim(info.key) is not None]
        paths: set[str] = set()
        for key, blob in zip(keys, self.bucket.get_many(keys), strict=True):
            if blob is None:
                raise ChangedMeanwhile
            paths.update(_added(decode_transaction(blob.data, where=self.bucket.uri(key))))
        return paths

    def _garbage(self, suspects: Sequence[ObjectInfo], references: set[str]) -> Iterator[OrphanFile]:
        """Orphans of revisions below the head: a file that is begun now belongs to the next revision (rule 25)."""
        for info in suspects:
            if info.key in references:
                continue
            record = self._record(info)
            if record is not None and record.revision < self.version.head.revision and self._is_told(record):
                yield OrphanFile(info, record)

    def _is_told(self, record: FileRecord) -> bool:
        """Whether the file is of the table to be swept, or was begun before its own was dropped. One that was begun
        since is of a first append, which has its own table's time."""
        return self.table in (None, record.table) or record.revision <= self.dropped.get(record.table, 0)

    def _record(self, info: ObjectInfo) -> FileRecord | None:
        """None for what Firn doesn't know or own, with a note."""
        try:
            pairs = read_pairs(self.bucket, info.key, info.size)
            record = read_metadata(pairs, where=self.bucket.uri(info.key))
        except ObjectNotFoundError:
            raise ChangedMeanwhile from None
        except CorruptObjectError:
            record = None
        owner = (self.layout.writer, self.layout.database)
        if (
            record is None
            or (record.writer, record.database) != owner
            or not self.layout.is_stamped(info.key, record.uuid)
        ):
            self.kept_foreign.append(info.key)
            return None
        return record

    def _foreign(self, garbage: Iterable[OrphanFile]) -> set[str]:
        """The files outside of the catalog that they replaced and that still exist: Firn doesn't delete those."""
        paths = {path for g in garbage for path in g.record.replaces if self.layout.is_elsewhere(path)}
        return {path for path in sorted(paths) if is_there(self.bucket, path)}

    def _left_over(self) -> Iterator[ObjectInfo]:
        """What statements have staged that were begun for a revision below the head, as `_garbage` takes files. Free
        of requests."""
        for info in self.staged:
            name = self.layout.parse_staged(info.key)
            if name is None:
                self.kept_foreign.append(info.key)
            elif (
                name.revision < self.version.head.revision
                and self._is_chosen(name.table)
                and self._is_old(info, name.table)
            ):
                yield info

    def _marked_rows(self, garbage: Iterable[OrphanFile]) -> set[str]:
        """The rows that files replaced and that markers may still hold which aren't old enough to be looked at."""
        young = [name.revision for info, name in self._unused_markers() if not self._is_old(info, self.table)]
        if not young:
            return set()
        later = (g for g in garbage if g.record.revision > min(young))
        return {path for g in later for path in g.record.replaces if self.layout.is_rows(path)}

    # -- markers

    def _orphaned_markers(self) -> Iterator[ObjectInfo]:
        """Markers of transactions that aren't there, and below the head. Free of requests."""
        self.kept_foreign += [
            info.key for info in self.marked if isinstance(self.layout.parse_marker(info.key), BadName)
        ]
        return (info for info, _ in self._unused_markers() if self._is_old(info, self.table))

    def _unused_markers(self) -> Iterator[tuple[ObjectInfo, MarkerName]]:
        for info in self.marked:
            name = self.layout.parse_marker(info.key)
            if (
                isinstance(name, MarkerName)
                and name.prefix not in self.names.at(name.revision)
                and name.revision < self.version.head.revision
            ):
                yield info, name

    def _remainders(
        self, markers: Iterable[tuple[ObjectInfo, Marker]], existing: set[str]
    ) -> list[Remainder]:
        state = self.version.state
        return [(info, found, found.remainder(self.layout, state, existing)) for info, found in markers]

    def _without_rows(
        self, markers: Iterable[tuple[ObjectInfo, Marker]], needed: set[str], existing: set[str]
    ) -> list[Remainder]:
        """What is needed of markers with rows that no retained revision has, as long as all files are there."""
        return self._remainders([(info, found) for info, found in markers if found.rows - needed], existing)

    def _renew(self, remainders: Iterable[Remainder]) -> None:
        """Write markers anew with what is needed of them; those of which nothing is go."""
        for info, found, left in remainders:
            if left is None:
                self.bucket.delete(info.key)
            elif left != found:
                self.bucket.put(info.key, encode_marker(self.layout, left.transaction, left.state))

    def _read_markers(self, infos: Iterable[ObjectInfo]) -> Iterator[tuple[ObjectInfo, Marker]]:
        for info in sorted(infos, key=lambda info: info.key):
            try:
                pairs = read_pairs(self.bucket, info.key, info.size)
                yield info, decode_marker(self.layout, info.key, pairs, where=self.bucket.uri(info.key))
            except ObjectNotFoundError:
                raise ChangedMeanwhile from None
            except CorruptObjectError:
                self.kept_foreign.append(info.key)


def _added(transaction: CatalogTransaction) -> Iterator[str]:
    return (action.file.path for action in transaction.actions if isinstance(action, Add))
