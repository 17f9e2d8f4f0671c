"""Whether a keyed table is whole: its pointer, manifests, checkpoints and files decode, agree, and are there.

The table is read as its readers do, by rule 8 of the manifest page; each file that a view names is then compared with
what the view says of it. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from firn.bucket.base import ObjectInfo
from firn.errors import (
    CorruptObjectError,
    FirnError,
    ObjectNotFoundError,
    SnapshotTooOldError,
    TableNotFoundError,
)
from firn.inspect.fsck.files import GONE, check_each
from firn.inspect.fsck.findings import Finding, Findings, TableCheck, note, of_error, shown
from firn.inspect.report.words import count
from firn.journal.manifest.model import L0File, Manifest, SSTInfo, View
from firn.keyed.read.runs import runs_of

if TYPE_CHECKING:
    from firn.keyed.table import KeyedTable


@dataclass(frozen=True)
class _File:
    """A file that a view names; `sst` is what a manifest says of it, `flush` its number if it is one."""

    key: str
    size: int
    why: str
    sst: SSTInfo | None = None
    flush: int | None = None


def check_keyed(
    table: KeyedTable, *, footers: bool = True, blocks: bool = False, checks: bool = False
) -> Findings:
    """Check a keyed table.

    Args:
        footers: read the end of each SST and flush: its index has to be what the manifest says.
        blocks: read all of them, and compare every block's checksum.

    Cost: what opening a reader costs, 4 LIST sequences, 1 GET a checkpoint and a manifest that only one names; with
    `footers` 1 or 2 ranged GETs for each file, with `blocks` all of its bytes.
    """
    found = Findings()
    found.count("tables", 1)
    where = table.bucket.uri(table.prefix)
    try:
        view = table.journal.read()
    except TableNotFoundError:
        found.add(_without_pointer(table))
        return found
    except FirnError as error:
        found.add(_told(where, error))
        return found
    table = table.as_in(view)  # whose definition knows the columns of all files
    listed = {
        info.key: info
        for prefix in (table.journal.layout.l0_prefix, table.journal.layout.ssts_prefix)
        for info in table.bucket.list(prefix).objects
    }
    files = dict(_named(table, view, "needed by every reader"))
    found.count("manifests", len(view.manifest.chain))
    _check_manifest(table, view.manifest, found)
    _check_epochs(table, view, found)
    for name, kept in _checkpoints(table, found):
        _check_manifest(table, kept.manifest, found)
        for key, file in _named(table, kept, f"needed by the checkpoint {name}"):
            files.setdefault(key, file)
    _check_files(table, list(files.values()), listed, found, footers=footers, blocks=blocks)
    _check_others(table, view, files.keys(), listed, found)
    return found


def _without_pointer(table: KeyedTable) -> Finding:
    from firn.keyed.founding import has_files

    where = table.bucket.uri(table.journal.layout.pointer_key)
    if has_files(table):
        return Finding(
            where,
            "the pointer is missing, and files of the table are there",
            "Copy the newest version of it back",
        )
    return note(
        where, "there is no pointer yet: the table's creation was interrupted", "Opening it ends that"
    )


def _told(where: str, error: FirnError) -> Finding:
    """An error as a finding of the object that its message begins with, if that lies below."""
    first = str(error).partition(" ")[0].rstrip(":,.")
    return of_error(first if first.startswith(where) else where, error)


def _named(table: KeyedTable, view: View, why: str) -> Iterable[tuple[str, _File]]:
    for sst in view.manifest.ssts:
        key = table.journal.layout.sst_key(sst.file)
        yield key, _File(key, sst.bytes, why, sst=sst)
    for flush in view.l0:
        yield flush.key, _File(flush.key, flush.bytes, why, flush=flush.number)


# -- metadata


def _check_manifest(table: KeyedTable, manifest: Manifest, found: Findings) -> None:
    """The SSTs of a run must be apart and in order, else readers would miss keys."""
    where = table.bucket.uri(table.journal.layout.manifest_key(manifest.name))
    for sst in manifest.ssts:
        if sst.min_key > sst.max_key:
            found.problem(where, f"{sst.file} begins above its end", _REWRITE)
    for before, after in chain.from_iterable(map(pairwise, runs_of(manifest.ssts))):
        if after.min_key <= before.max_key:
            both = f"both are of run {after.run} of level {after.level}"
            found.problem(where, f"{before.file} and {after.file} overlap, although {both}", _REWRITE)


_REWRITE = "Compact the table fully, and compare it with a copy: readers may have missed keys"


def _check_epochs(table: KeyedTable, view: View, found: Findings) -> None:
    pointer, manifest = view.pointer, view.manifest
    where = table.bucket.uri(table.journal.layout.pointer_key)
    if manifest.chain and manifest.compactor_epoch > pointer.compactor_epoch:
        found.problem(
            where,
            f"its manifest is of the compactor's epoch {manifest.compactor_epoch}, which is above its own, "
            f"{pointer.compactor_epoch}",
            "The pointer is older than what it names: copy back the newest version of the object",
        )
    if pointer.first_epoch != table.definition.first_epoch:
        found.problem(
            where,
            f"it is of a table whose epochs begin at {pointer.first_epoch}, the definition's begin at "
            f"{table.definition.first_epoch}",
            "Definition and pointer are of two tables of one name: copy back those that belong together",
        )


def _checkpoints(table: KeyedTable, found: Findings) -> Iterable[tuple[str, View]]:
    """The views of all checkpoints; those that can't be read are findings."""
    try:
        kept = table.journal.snapshots()
    except FirnError as error:
        found.add(_told(table.bucket.uri(table.journal.layout.snapshots_prefix), error))
        return
    found.count("checkpoints", len(kept))
    for ref in kept:
        where, name = table.bucket.uri(ref.key), ref.name or ref.id
        expired = ref.expires_ms is not None and ref.expires_ms <= table.journal.clock.now_ms()
        if expired:
            found.note(where, f"the checkpoint {name} has expired", "Sweep deletes it")
            continue
        try:
            yield name, table.journal.view_of(ref)
        except SnapshotTooOldError:
            found.note(where, f"the checkpoint {name} was deleted meanwhile")
        except FirnError as error:
            found.add(_told(table.bucket.uri(table.prefix), error))


# -- files


def _check_files(
    table: KeyedTable,
    files: Sequence[_File],
    listed: dict[str, ObjectInfo],
    found: Findings,
    *,
    footers: bool,
    blocks: bool,
) -> None:
    found.count("SSTs", sum(1 for f in files if f.sst is not None))
    found.count("flushes", sum(1 for f in files if f.flush is not None))
    check_each(lambda file: _check_file(table, file, listed, footers, blocks), files, found)


def _check_file(
    table: KeyedTable, file: _File, listed: dict[str, ObjectInfo], footers: bool, blocks: bool
) -> Iterable[Finding]:
    where = table.bucket.uri(file.key)
    try:
        info = listed.get(file.key) or table.bucket.head(file.key)
        if info.size != file.size:
            yield Finding(
                where, f"it has {info.size:,} bytes, and {file.size:,} are expected; it is {file.why}", GONE
            )
        elif footers or blocks:
            yield from _check_inside(table, file, where, blocks)
    except ObjectNotFoundError:
        yield Finding(where, f"it is missing, and {file.why}", GONE)
    except CorruptObjectError as error:
        what = str(error).removeprefix(where).partition(". ")[0].strip(" :,")
        yield Finding(where, f"{what}; it is {file.why}", GONE)
    except FirnError as error:
        yield of_error(where, error)


def _check_inside(table: KeyedTable, file: _File, where: str, blocks: bool) -> Iterable[Finding]:
    """Compare the index of a file with what a manifest, or the file's own name, says of it."""
    from firn.keyed.sst.cache import BlockCache
    from firn.keyed.sst.reader import SstReader

    reader = SstReader(table.bucket, file.key, file.size, BlockCache(0), values=table.values)
    index = reader.index
    if not table.values.fits(reader.names):
        known = ", ".join(table.values.stored_schema.names)
        yield Finding(
            where, f"it has the values {', '.join(reader.names)}, and the table's are {known}", GONE
        )
    if file.sst is not None:
        for name in ("min_key", "max_key", "rows", "max_seq", "tombstones", "min_expire"):
            said, has = getattr(file.sst, name), getattr(index, name)
            if said != has:
                yield Finding(where, f"its {name} is {has!r}, and the manifest says {said!r}", GONE)
    if file.flush is not None and table.definition.seqs.number(index.max_seq) != file.flush:
        yield Finding(where, f"its newest entry, {index.max_seq}, isn't one of flush {file.flush}", GONE)
    if blocks:
        rows = sum(batch.num_rows for batch in reader.scan())
        if rows != index.rows:
            yield Finding(where, f"it has {rows:,} entries, and its index says {index.rows:,}", GONE)


# -- what nothing names


def _check_others(
    table: KeyedTable, view: View, named: Iterable[str], listed: dict[str, ObjectInfo], found: Findings
) -> None:
    """Flushes that count for nobody, and files that are garbage: notes, since both are how things are."""
    layout, known = table.journal.layout, set(named)
    l0, ssts = [], 0
    for key in listed.keys() - known:
        if (parsed := layout.parse_l0(key)) is not None:
            l0.append(L0File(parsed.epoch, parsed.number, key, listed[key].size))
        elif layout.parse_sst(key) is not None:
            ssts += 1
    where = table.bucket.uri(layout.l0_prefix)
    newest = view.pointer.infos[-1] if view.pointer.infos else None
    if newest is not None and view.last_l0 + 1 < newest.starting_sst:
        # An opener begins above all that it has walked (rule 1), so this flush was there.
        missing = view.last_l0 + 1
        owner = max(i.writer_epoch for i in view.pointer.infos if i.starting_sst <= missing)
        found.problem(
            table.bucket.uri(layout.l0_key(owner, missing)),
            f"the flush is missing, although writer {newest.writer_epoch} began above it",
            "Copy it back; until then it and all flushes above it can't be read",
        )
    mine = newest.writer_epoch if newest is not None else -1
    ahead = [f for f in l0 if f.number > view.last_l0 and f.epoch == mine and f.bytes]
    if ahead:
        # Above what was walked, of the writer itself: either it is at work, or a number below is missing.
        numbers = shown(sorted(f.number for f in ahead))
        found.note(
            where,
            f"flush {view.last_l0 + 1} is missing below the flushes {numbers} of the newest writer",
            "They count as soon as it is there. It is on its way, or it was never put, or somebody deleted it",
        )
    fenced = [f for f in l0 if f.bytes and f not in ahead and f.number > view.manifest.last_compacted]
    if fenced:
        names = shown(sorted(f"{f.epoch}.{f.number}" for f in fenced))
        found.note(where, f"{names} are of fenced writers, and count for nobody", "Sweep deletes them")
    garbage = len(l0) - len(ahead) - len(fenced) + ssts
    if garbage:
        found.note(
            table.bucket.uri(table.prefix),
            f"{count(garbage, 'object')} left: compacted flushes, fences, or of compactions that didn't end",
            "Sweep deletes those that nobody can need any more",
        )


PART: TableCheck = check_keyed
