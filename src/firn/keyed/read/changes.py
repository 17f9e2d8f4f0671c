"""The change feed: the entries that were written since a version (paper: `get_changes`).

Flushes carry a table's changes in the order in which they were committed, and `seq` is that order. So a version is a
place in it: the last flush, and the last bulk load above that. New are the entries with a greater seq: in
the L0 objects that came since, also those that a compaction has taken up and sweep has left; and in the SSTs for
what was bulk loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from firn.bucket.base import Bucket, ObjectInfo
from firn.errors import InvalidInputError, SnapshotTooOldError
from firn.journal.manifest.model import L0File, Manifest, View
from firn.keyed.context import KeyedContext
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.encoding.columns import ENTRY_COLUMNS
from firn.keyed.encoding.seqs import Seqs
from firn.keyed.founding import newest_view
from firn.keyed.read.runs import runs_of
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.reader import SstReader

KINDS = ("put", "delete", "merge")
CHANGE_FIELDS = (
    pa.field("_kind", pa.string(), nullable=False),
    pa.field("_seq", pa.int64(), nullable=False),
    pa.field("_expire_at", pa.timestamp("ms", "UTC")),
)
"""The columns of a change beside key and value."""

_VERSION = re.compile(r"(manifest\.\d{18}\.\d{18})@(-1|\d{1,18})(?:\+(\d{1,10}))?")


@dataclass(frozen=True)
class ChangeFile:
    """An object that holds changes: its entries with `above` < seq ≤ `upto`; with `loaded` those of bulk loads
    only."""

    key: str
    bytes: int
    above: int
    upto: int
    loaded: bool = False


@dataclass(frozen=True)
class Changes:
    """Entries written after the version `since`, up to `version`. Nothing is read before it is asked for.

    `_seq` is the order of commits: of one key, the greatest counts. A file's entries come in the order of their keys,
    the files by the newest commit that they hold. So flushes come in the order of commits, and what was loaded may
    come late: where a compaction has put parts of two loads into one SST, all of it comes where the later one does,
    behind flushes of between. A program that applies changes one by one therefore keeps the last `_seq` of each key,
    and skips a smaller one; none of them is told before the version that `since` names, or after `version`.
    """

    since: str | None
    version: str
    files: tuple[ChangeFile, ...]
    schema: pa.Schema
    _bucket: Bucket = field(repr=False, compare=False)
    definition: KeyedDefinition = field(repr=False, compare=False)
    """The table's as it is now, by whose columns all changes are told."""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """The key's columns, the value's, then `_kind` ("put", "delete", "merge"), `_seq` and `_expire_at`.

        Raises `ObjectNotFoundError` if sweep has taken an object meanwhile: ask for the changes again.
        """
        for file in self.files:
            yield from change_batches(self._bucket, self.definition, file)

    def to_arrow(self) -> pa.Table:
        """All of it as one Arrow table."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def first(self, most: int) -> Changes:
        """The oldest `most` files of these, or as many more as belong to one bulk load, with the version where they
        end, and of further files what was loaded before that. All of them where they are from the beginning: what is
        compacted has no such order."""
        if self.since is None:
            return self
        kept = max(1, most)
        while kept < len(self.files) and self.files[kept].upto == self.files[kept - 1].upto:
            kept += 1
        if kept >= len(self.files):
            return self
        seq = self.files[kept - 1].upto
        seqs = self.definition.seqs
        number = seqs.number(seq)
        # Where it ends with a flush, the version says that no load above that is in it: its manifest has some, maybe.
        place = _Place(seqs, number, max(seq, seqs.of(number, seqs.half)))
        version = place.of_version(self.version.partition("@")[0])
        parts = [replace(file, upto=seq) for file in self.files[kept:] if file.loaded and file.above < seq]
        return replace(self, version=version, files=(*self.files[:kept], *parts))


def changes(table: KeyedContext, since: str | None = None, upto: str | None = None) -> Changes:
    """All that was written since a version: puts, deletes and merge operands, each commit's.

    Flushed is what counts; of what one flush did to a key, the last put or delete and the operands above it are
    told. With `since=None` the feed begins with every entry that the table holds, merged as far as compactions have
    done so.

    Bulk loaded rows are told from the SSTs where they lie, so not if a compaction has merged them with something
    newer of their key. That is no loss where the newer one is a put or a delete, which is told itself. Where it is a
    merge operand, the operand is told without what it stands on: on a table with a merge operator, ask for the
    changes after each load, before the keys that were loaded are merged into. All that is loaded may come late by
    `_seq`, see `Changes`.

    Args:
        since: the `version` of earlier changes, of a reader or of a checkpoint; None is from the beginning.
        upto: where to end, the `version` of changes asked for before: for a stream that repeats a batch.

    Raises:
        SnapshotTooOldError: compaction has taken up flushes of since then, and sweep has deleted them (that is
            after the table's `l0_min_age`), or the version isn't this table's. Read the table anew.

    Cost: that of reading the table's metadata, with 1 LIST more if a compaction came between; then what reading
    the files costs.

    Example:
        >>> import firn
        >>> table = firn.connect("memory://").create_table("delays", kind="keyed")
        >>> with table.open() as kv:
        ...     kv.put(b"DTW", b"66")
        ...     version = table.changes().version
        ...     kv.delete(b"DTW")
        >>> table.changes(since=version).to_arrow().select(["key", "_kind"]).to_pylist()
        [{'key': b'DTW', '_kind': 'delete'}]
    """
    view = newest_view(table)
    table = table.as_in(view)
    newest = _Place.of(table.definition.seqs, view)
    ended = newest if upto is None else _Place.parse(table, upto, view, needs_manifest=False)
    begun = (
        _Place(newest.seqs, -1, -1)
        if since is None
        else _Place.parse(table, since, view, needs_manifest=True)
    )
    whole = since is None
    if max(begun.number, ended.number) > newest.number:
        version = upto if ended.number > newest.number else since
        raise SnapshotTooOldError(
            f"{table.name} has no version {version!r}: its last flush is number {newest.number}. It may be a "
            "version of another table, or of one that was dropped."
        )
    flushes = _flushes(table, view, begun, ended, whole=whole)
    sst_key = table.journal.layout.sst_key
    if whole:  # all that is compacted first, the oldest first
        files = [
            ChangeFile(sst_key(sst.file), sst.bytes, -1, min(sst.max_seq, ended.seq))
            for run in reversed(runs_of(view.manifest.ssts))
            for sst in run
        ] + flushes
    else:
        loads = [
            ChangeFile(sst_key(sst.file), sst.bytes, begun.seq, min(sst.max_loaded, ended.seq), loaded=True)
            for sst in view.manifest.ssts
            if sst.max_loaded > begun.seq
        ]
        files = sorted(loads + flushes, key=lambda file: file.upto)
    version = ended.of_version(view.manifest.name) if upto is None else upto
    return Changes(
        since, version, tuple(files), change_schema(table.definition), table.bucket, table.definition
    )


def last_seq(table: KeyedContext, version: str) -> int:
    """The greatest `seq` that the table had at a version of `changes`. Cost: that of reading the table's metadata."""
    return _Place.parse(table, version, table.journal.read(), needs_manifest=False).seq


def change_schema(definition: KeyedDefinition) -> pa.Schema:
    """The columns of a table's changes."""
    return pa.schema([*definition.keys.schema, *definition.values.schema, *CHANGE_FIELDS])


def change_batches(
    bucket: Bucket, definition: KeyedDefinition, file: ChangeFile, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """One file's changes, in the order of their keys: all columns of `change_schema`, or `columns` of them.

    Cost: 1 ranged GET of the index, and 1 a span of blocks.
    """
    keys, schema = definition.keys, change_schema(definition)
    for batch in change_entries(bucket, definition, file):
        told = [
            *keys.decode_array(batch.column(0)),
            *batch.columns[len(ENTRY_COLUMNS) :],
            pc.take(pa.array(KINDS), batch.column(2)),
            batch.column(1),
            batch.column(3).cast(CHANGE_FIELDS[2].type),
        ]
        whole = pa.RecordBatch.from_arrays(told, schema=schema)
        yield whole if columns is None else whole.select(list(columns))


def change_reader(bucket: Bucket, definition: KeyedDefinition, file: ChangeFile) -> SstReader:
    """Reads one file's changes, and keeps nothing. No request."""
    return SstReader(bucket, file.key, file.bytes, BlockCache(0), values=definition.values)


def change_entries(
    bucket: Bucket,
    definition: KeyedDefinition,
    file: ChangeFile,
    start: bytes | None = None,
    end: bytes | None = None,
) -> Iterator[pa.RecordBatch]:
    """The same as entries: a run, as merges take it. Those of encoded keys from `start` up to, and without, `end`."""
    for batch in change_reader(bucket, definition, file).scan(start, end):
        seq = batch.column(1)
        wanted = pc.and_(pc.greater(seq, file.above), pc.less_equal(seq, file.upto))
        if file.loaded:
            seqs = definition.seqs
            wanted = pc.and_(wanted, pc.greater_equal(pc.bit_wise_and(seq, seqs.mask), seqs.half))
        batch = batch.filter(wanted)
        if batch.num_rows:
            yield batch


@dataclass(frozen=True)
class _Place:
    """A place in the order of commits: the last flush's number, and the seq of the last bulk load that stands right
    above that flush; -1 where there is none. The seq before that of the first load says the same in a version, which
    would else be taken for a view's, with all the loads that its manifest has there."""

    seqs: Seqs
    number: int
    loaded: int

    @property
    def seq(self) -> int:
        """The greatest that any entry there has."""
        return max(self.seqs.of(self.number, self.seqs.half - 1), self.loaded)

    @staticmethod
    def of(seqs: Seqs, view: View) -> _Place:
        return _Place(seqs, view.last_l0, _loaded(seqs, view.manifest, view.last_l0))

    @staticmethod
    def parse(table: KeyedContext, version: str, view: View, *, needs_manifest: bool) -> _Place:
        match = _VERSION.fullmatch(version) if isinstance(version, str) else None
        if match is None:
            raise InvalidInputError(
                f"{version!r} is not a version of {table.name}: give one that Firn gave you."
            )
        seqs, name, number = table.definition.seqs, match[1], int(match[2])
        if match[3] is not None:
            return _Place(seqs, number, seqs.of(number, seqs.half + int(match[3])))
        # Only a view's version doesn't say what was loaded: its manifest does.
        if not needs_manifest or not _loaded(seqs, view.manifest, number) >= 0:
            return _Place(seqs, number, -1)
        manifest = view.manifest if name == view.manifest.name else table.journal.manifest(name)
        return _Place(seqs, number, _loaded(seqs, manifest, number))

    def of_version(self, manifest: str) -> str:
        if self.loaded < 0:
            return f"{manifest}@{self.number}"
        return f"{manifest}@{self.number}+{self.loaded - self.seqs.of(self.number, self.seqs.half)}"


def _loaded(seqs: Seqs, manifest: Manifest, number: int) -> int:
    """The seq of the last bulk load above the flush of that number and below the next."""
    low, high = seqs.of(number, seqs.half), seqs.of(number + 1, 0)
    return max((sst.max_loaded for sst in manifest.ssts if low <= sst.max_loaded < high), default=-1)


def _flushes(
    table: KeyedContext, view: View, begun: _Place, ended: _Place, *, whole: bool
) -> list[ChangeFile]:
    """The L0 objects that came after one place, up to another."""
    compacted, seqs = view.manifest.last_compacted, table.definition.seqs
    files = [file for file in view.l0 if begun.number < file.number <= ended.number]
    if not whole and begun.number < compacted:
        files += _retained(table, view, begun.number + 1, min(compacted, ended.number))
    return [
        ChangeFile(file.key, file.bytes, seqs.of(file.number, 0) - 1, seqs.of(file.number, seqs.half - 1))
        for file in sorted(files, key=lambda file: file.number)
    ]


def _retained(table: KeyedContext, view: View, first: int, last: int) -> list[L0File]:
    """The flushes `first` to `last`, which are compacted, if all of them are still in the bucket. 1 LIST.

    Whose file counts isn't in the pointer any more, but the owner's was there when its number was compacted, and
    writers after the owner have never written below their own start: so it is the one with the greatest epoch. A
    file newer than the pointer may be a zombie's, put where sweep has been.
    """
    layout = table.journal.layout
    newest: dict[int, tuple[int, ObjectInfo]] = {}
    for info in table.bucket.list(layout.l0_prefix).objects:
        name = layout.parse_l0(info.key)
        if name is None or not info.size or not first <= name.number <= last:
            continue
        if view.pointer.modified_ms is not None and info.modified_ms > view.pointer.modified_ms:
            continue
        if name.number not in newest or name.epoch > newest[name.number][0]:
            newest[name.number] = name.epoch, info
    for number in range(first, last + 1):
        if number not in newest:
            raise SnapshotTooOldError(
                f"flush {number} of {table.name} is compacted and swept, so the changes since then can't be told one "
                "by one any more. Read the table anew, and ask for changes more often than its l0_min_age."
            )
    return [L0File(epoch, number, info.key, info.size) for number, (epoch, info) in sorted(newest.items())]
