"""Rebuild a writer's catalog from its data files: tasks read footers, the journal plans and writes.

Tasks read no more of a data file than its footer, and the Bloom filters before it. They read nothing of the files
that a transaction adds.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from firn.bucket.base import Bucket, ObjectInfo
from firn.clock import Clock, SystemClock
from firn.errors import CorruptObjectError, ObjectNotFoundError, UnsupportedError
from firn.journal.model import DataFile
from firn.journal.writer.format.layout import WriterLayout
from firn.journal.writer.format.marker import Marker, decode_marker
from firn.journal.writer.format.metadata import FileRecord, read_metadata
from firn.journal.writer.rebuild.rebuild import RebuildReport, plan_rebuild, survey, write_rebuild
from firn.journal.writer.rebuild.surviving_objects import Footers, FoundFile, look
from firn.lake.definition.keys import DELETED, HIDDEN
from firn.lake.parquet.bloom import filters_of, marker_entries
from firn.lake.parquet.footer import Footer, read_footer
from firn.lake.read.read import arrow_schema_of
from firn.lake.write.write import RECIPE
from firn.predicate.stats import from_metadata
from firn.runner import Progress, Runner

TASK_FILES = 64
"""Footers that one task reads, so many at a time as the store has latency to hide."""

THREADS = 16


def rebuild(
    bucket: Bucket,
    layout: WriterLayout,
    runner: Runner,
    *,
    dry_run: bool = False,
    force: bool = False,
    keep: Collection[str] = (),
    definitions: Mapping[str, bytes] | None = None,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> RebuildReport:
    """Bring a writer's catalog back from what is left of it: transactions and checkpoints that can be read first,
    then claims, markers and the metadata of data files (paper, sections 1.3 and 2.6).

    On a whole catalog it does nothing, unless `force` is given. Run again, it changes nothing; after a crash, it
    ends what was begun. Every process of the writer has to be stopped.

    Args:
        runner: maps the reading of footers.
        dry_run: only say what it would write.
        force: bring back the files that no transaction names, too, though nothing says that anything is lost.
        keep: beginnings of uuids that count where nothing else decides between two.
        definitions: those of tables whose definition is lost, as the catalog has them.

    Cost: 1 LIST sequence of each of four prefixes; 1 GET a transaction, checkpoint and claim; 1 or 2 ranged GETs a
    marker and a data file that no transaction adds (where nothing is lost, not of what a checkpoint holds); 1 PUT a
    transaction that is lost, 4 to end with.

    Raises:
        ForkError: two transactions of one revision, and nothing tells which one counted; see `keep`.
        CorruptObjectError: transactions that can be read contradict one another.
        UnsupportedError: something is of a newer format, or the history is kept by claims and this connection can't
            make any.
    """
    objects = look(bucket, layout)
    told, kept = objects.told(), objects.kept()
    infos = [*objects.markers, *(info for key, info in objects.data.items() if key not in told | kept)]
    footers = read_footers(bucket, layout, runner, infos, progress=progress)
    found = survey(bucket, layout, objects, footers, keep=keep)
    if found.damage or force:
        # Files that a checkpoint describes tell of transactions that are lost; nobody asks on a whole catalog.
        infos = [info for key, info in objects.data.items() if key in kept - told]
        footers += read_footers(bucket, layout, runner, infos, progress=progress)
        found = survey(bucket, layout, objects, footers, keep=keep)
    now_ms = (clock or SystemClock()).now_ms()
    plan = plan_rebuild(found, now_ms=now_ms, force=force, definitions=definitions)
    if not dry_run:
        write_rebuild(bucket, layout, plan)
    return replace(plan.report, dry_run=dry_run)


@dataclass(frozen=True)
class _Damaged:
    key: str
    reason: str


def read_footers(
    bucket: Bucket,
    layout: WriterLayout,
    runner: Runner,
    infos: Sequence[ObjectInfo],
    *,
    progress: Progress | None = None,
) -> Footers:
    """Read what data files and markers say of themselves. 1 or 2 ranged GETs each, 1 more for Bloom filters."""
    tasks = [tuple(infos[at : at + TASK_FILES]) for at in range(0, len(infos), TASK_FILES)]
    before = bucket.counters.as_dict()["bytes_in"]
    results = runner.map(
        footers_task,
        tasks,
        bucket=bucket,
        context=layout,
        weights=[len(task) for task in tasks],
        progress=progress,
    )
    found = [one for result in results for one in result]
    return Footers(
        files=[one for one in found if isinstance(one, FoundFile)],
        markers=[one for one in found if isinstance(one, Marker)],
        damaged={one.key: one.reason for one in found if isinstance(one, _Damaged)},
        foreign=[one for one in found if isinstance(one, str)],
        bytes_read=bucket.counters.as_dict()["bytes_in"] - before,
    )


def footers_task(bucket: Bucket, layout: WriterLayout, infos: Sequence[ObjectInfo]) -> list[Any]:
    """Read some footers; for each object what it is, why it can't be told, its key if it isn't Firn's, or nothing
    if it is gone."""
    if len(infos) == 1 or THREADS == 1 or bucket.local_path(infos[0].key) is not None:
        found = [_read(bucket, layout, info) for info in infos]
    else:
        with ThreadPoolExecutor(min(THREADS, len(infos)), thread_name_prefix="firn-footer") as pool:
            found = list(pool.map(lambda info: _read(bucket, layout, info), infos))
    return [one for one in found if one is not None]


def _read(
    bucket: Bucket, layout: WriterLayout, info: ObjectInfo
) -> FoundFile | Marker | _Damaged | str | None:
    where = bucket.uri(info.key)
    try:
        name = layout.parse_data(info.key)
        footer = read_footer(bucket, info.key, info.size, crc=None if name is None else name.crc)
        pairs = footer.metadata.metadata
        if name is None:
            return decode_marker(layout, info.key, pairs, where=where)
        record = read_metadata(pairs, where=where)
        if record is None:
            return info.key
        file = restored_file(bucket, layout, info, footer, record)
        recipe = record.extra[RECIPE]
        shown = tuple(column for column in record.columns if column[0] not in HIDDEN)
        return FoundFile(replace(record, columns=shown), file, recipe["number"], recipe["clocked"])
    except ObjectNotFoundError:
        return None
    except (CorruptObjectError, UnsupportedError) as error:
        return _Damaged(info.key, str(error))


def restored_file(
    bucket: Bucket, layout: WriterLayout, info: ObjectInfo, footer: Footer, record: FileRecord
) -> DataFile:
    """The file as its commit described it, but for the time of its creation: that is the store's.

    Raises:
        CorruptObjectError: the footer isn't the one that was written, or the file isn't where it should be.
    """
    where = bucket.uri(info.key)
    name = layout.parse_data(info.key)
    said = (record.writer, record.database, record.partition, record.table)
    if name is None or said != (layout.writer, layout.database, name.partition, name.table):
        raise _mistold(where, f"it says that it is of {'/'.join(said)}")
    if not layout.is_stamped(info.key, record.uuid):
        raise _mistold(where, f"it says that it was begun for {record.uuid}")
    extra = dict(record.extra)
    recipe = extra.pop(RECIPE, None)
    metadata = footer.metadata
    try:
        schema = arrow_schema_of(metadata)
        if tuple(schema.names) != tuple(name for name, _ in record.columns):
            raise ValueError("its columns aren't those that it says")
        if metadata.num_rows != recipe["rows"]:
            raise ValueError(f"it has {metadata.num_rows} rows, not {recipe['rows']}")
        stats = from_metadata(
            metadata,
            schema,
            nan_columns=set(recipe["nan"]),
            max_columns=recipe["stats"],
            first=recipe["first"],
        )
        if "fold" in extra:  # nobody asks for statistics of hidden columns
            stats = {name: entry for name, entry in stats.items() if name not in HIDDEN}
        told: dict[str, Any] = {"rows": metadata.num_rows, "stats": stats, "crc": footer.crc}
        if blooms := _blooms(bucket, info.key, metadata, recipe["bloom"], name.filters_crc):
            told["bloom"] = blooms
    except (ValueError, TypeError, KeyError) as error:
        raise _mistold(where, str(error)) from error
    if any(entry[2] != metadata.num_rows for entry in _deleted(metadata, schema)):
        told["key_deletes"] = True
    return DataFile(info.key, info.size, info.modified_ms, {**told, **extra})


def _deleted(metadata: pq.FileMetaData, schema: pa.Schema) -> Iterable[Sequence[Any]]:
    """Statistics of the column that says which keys are deleted, if the file has it."""
    if DELETED not in schema.names:
        return ()
    return from_metadata(metadata, schema, max_columns=1, first=[DELETED]).values()


class _Window:
    """A part of a file, sliced by positions in the whole."""

    def __init__(self, start: int, data: bytes) -> None:
        self._start, self._data = start, data

    def __getitem__(self, part: slice) -> bytes:
        return self._data[part.start - self._start : part.stop - self._start]


def _blooms(
    bucket: Bucket, key: str, metadata: pq.FileMetaData, kinds: Mapping[str, str], crc: int
) -> dict[str, list[Any]]:
    """Nothing where a filter is damaged: without them a file is only read more often."""
    extent = filters_of(metadata, kinds)
    if extent is None:
        return {}
    start, length = extent
    data = bucket.get_range(key, start, length)
    return marker_entries(_Window(start, data), metadata, kinds) if zlib.crc32(data) == crc else {}


def _mistold(where: str, why: str) -> CorruptObjectError:
    return CorruptObjectError(
        f"{where} can't be told by its footer: {why}. Its bytes or its name aren't those that were written: copy it "
        "back from a backup."
    )
