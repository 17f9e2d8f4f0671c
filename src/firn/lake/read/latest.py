"""Reading tables with a key: the newest of all versions of each row.

`plan_groups` finds the files that may share keys and, by the predicate, those of them that needn't be read: a file
may be left out only if no version in it could win over one that is shown. `read_latest` reads one group, in two
passes: the keys of all its files, then the columns asked for of the rows that won.

Memory of a group: its keys and versions (of the files that aren't left out), and 64 MiB of small files fetched;
then what reading a file takes. A group has files of 8 MiB at most, unless more overlap or one is larger.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.arrow.types import arrow_schema
from firn.bucket.base import Bucket
from firn.errors import CorruptObjectError
from firn.journal.model import ColumnTypes, DataFile, Places
from firn.journal.naming import PLAIN, Naming
from firn.lake.definition.keys import CLOCK, DELETED, HIDDEN, Flags, KeySpec, newest
from firn.lake.parquet.footer import data_file, missing
from firn.lake.parquet.source import WHOLE_BYTES, open_rows
from firn.lake.partition.partition import PartitionSpec, directory_of
from firn.lake.partition.placement import is_scattered
from firn.lake.prune.prune import Pruner
from firn.lake.read.decode import ReadSpec, picked_rows, rows_of
from firn.lake.read.overlap import apart, together
from firn.lake.read.read import lumps_of, read_files, read_table
from firn.predicate.predicate import Predicate

if TYPE_CHECKING:
    from firn.lake.parquet.source import RowSource

KEPT_BYTES = 64 << 20
"""Small files of a group that are kept between the two passes, so that each costs one GET."""


@dataclass(frozen=True)
class VersionGroup:
    """Files of one partition directory, or of all; versions of their rows are nowhere else. Picklable.

    `shown` are the files that may hold rows that are wanted; the others can only hide theirs. `plain` means that
    no two of their rows share a key, and that none is a deletion.
    """

    files: tuple[DataFile, ...]
    shown: frozenset[str]
    plain: bool

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class LatestSpec:
    """How to read groups; picklable. `read.where` is asked of newest versions only."""

    keys: KeySpec
    read: ReadSpec


def plan_groups(
    files: Iterable[DataFile],
    *,
    places: Places,
    keys: KeySpec,
    predicate: Predicate | None = None,
    columns: ColumnTypes | None = None,
    spec: PartitionSpec | None = None,
    naming: Naming = PLAIN,
) -> list[VersionGroup]:
    """The groups that may hold wanted rows. Pure.

    A conjunct of the predicate over columns of the key alone is true for all versions of a row or for none: it
    leaves out files. The whole predicate leaves out files from those shown. A file that isn't shown is needed only
    if it may hold a version that is newer than one in a file that is; by clocks, which say nothing where
    `version_by` decides. Files of one directory that share no key, by their statistics, are apart; those that don't
    agree on where a row belongs count as of one.
    """
    columns = columns or {}
    by_key: list[Pruner] = []
    whole: Pruner | None = None
    if predicate is not None:
        whole = Pruner(predicate, columns, spec)
        key = frozenset(keys.bound(columns).key)
        by_key = [Pruner(part, columns, spec) for part in predicate.conjuncts() if part.columns <= key]
    files = list(files)
    scattered = spec is not None and is_scattered(spec, files, columns, naming)
    members: dict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        if all(pruner.may_match(file) for pruner in by_key):
            members["" if scattered else directory_of(file, places)].append(file)
    groups = []
    for _, found in sorted(members.items()):
        _require_all_versions(found)
        shown = frozenset(file.path for file in found if whole is None or whole.may_match(file))
        needed = [_needed(part, shown, keys) for part in apart(found, keys, columns)]
        for plain in (True, False):
            lumps = together(part for part in needed if part and _is_plain(part) is plain)
            groups += [VersionGroup(tuple(x), shown.intersection(f.path for f in x), plain) for x in lumps]
    return groups


def _needed(part: list[DataFile], shown: frozenset[str], keys: KeySpec) -> list[DataFile]:
    """Those files of a part that are shown, and those that may hide rows of them."""
    seen = [file for file in part if file.path in shown]
    if not seen or keys.version_by is not None:
        return part if seen else []
    oldest = min(clocks_of(file)[0] for file in seen)
    return [file for file in part if clocks_of(file)[1] >= oldest]


def _is_plain(files: Sequence[DataFile]) -> bool:
    """One file, or files of one merge, and no deletions."""
    folds = {(file.extra or {}).get("fold") for file in files}
    alone = len(files) == 1 or (len(folds) == 1 and None not in folds)
    return alone and not any(file.key_deletes for file in files)


def _require_all_versions(files: Iterable[DataFile]) -> None:
    """Refuse soft deletes: where one takes the newest version of a row, an older one would be back."""
    for file in files:
        if file.deletes:
            raise CorruptObjectError(
                f"{file.path} has a soft delete, which no version of Firn puts on a table with a key: rows would "
                "come back as they were before. Restore an older version of the table."
            )


def clocks_of(file: DataFile) -> tuple[str, str]:
    """The least and greatest clock of the file's rows, on a table with a key; `CorruptObjectError` if it has none."""
    if file.clocks is None:
        raise CorruptObjectError(
            f"{file.path}: its marker in the log has no clock, so nobody knows which versions of rows are newest. "
            "Did a program that doesn't know keys rewrite the log? Restore an older version of the table."
        )
    return file.clocks


def read_latest(bucket: Bucket, group: VersionGroup, spec: LatestSpec) -> Iterator[pa.Table]:
    """The newest version of each row in the group, if it satisfies `spec.read`, in tables that aren't empty.

    Cost: that of `read_files` for a `plain` group; else 1 GET a small file, and twice the ranged GETs of a large
    one. Errors as for `read_file`.
    """
    if group.plain:
        yield from read_files(bucket, [f for f in group.files if f.path in group.shown], spec.read)
        return
    opener = _Opener(bucket)
    flags = read_versions(opener, group.files, spec).winners()
    chosen = [f for f in group.files if f.path in group.shown and flags[f.path].any()]
    for file, source in opener.each(chosen):
        yield from picked_rows(source, spec.read, pa.array(flags[file.path]))


def read_groups(bucket: Bucket, groups: Sequence[VersionGroup], spec: LatestSpec) -> pa.Table:
    """The rows of all groups in one table, several groups at a time. Cost: as for each of them."""
    plain = [f for group in groups if group.plain for f in group.files if f.path in group.shown]
    rest = [group for group in groups if not group.plain]
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1), thread_name_prefix="firn-latest") as pool:
        parts = pool.map(lambda group: list(read_latest(bucket, group, spec)), rest)
        return pa.concat_tables([read_table(bucket, plain, spec.read), *(t for part in parts for t in part)])


def count_latest(bucket: Bucket, group: VersionGroup, spec: LatestSpec) -> int:
    """How many rows `read_latest` would give."""
    if spec.read.where is not None or group.plain:
        return sum(rows.num_rows for rows in read_latest(bucket, group, spec))
    versions = read_versions(_Opener(bucket), group.files, spec)
    return sum(int(flags.sum()) for flags in versions.winners().values())


def fold_files(
    bucket: Bucket, files: Sequence[DataFile], spec: LatestSpec, *, forget_before: int
) -> Iterator[pa.Table]:
    """The rows that a merge keeps of these files: the newest version of each key, deletions too unless they are older
    than `forget_before` (milliseconds since 1970), with the hidden columns of `spec.read.columns` filled in."""
    keys, known = spec.keys, {**spec.read.columns, **spec.read.table_columns}
    for part in together(apart(files, keys, known)):
        opener = _Opener(bucket)
        flags = read_versions(opener, part, spec).winners(forget_before)
        for file, source in opener.each([f for f in part if flags[f.path].any()]):
            for rows in picked_rows(source, spec.read, pa.array(flags[file.path])):
                at = rows.column_names.index(CLOCK)
                filled = rows.column(CLOCK).fill_null(clocks_of(file)[1])
                yield rows.set_column(at, rows.schema.field(at), filled)


class KeyVersions:
    """Keys, clocks and deletions of all rows of some files."""

    def __init__(
        self, keys: KeySpec, rows: pa.Table, ages: npt.NDArray[np.int64], counts: Mapping[str, int]
    ) -> None:
        self._counts = counts
        self._deleted = rows.column(DELETED)
        self._newest = newest(rows, keys, ages)

    def winners(self, forget_before: int | None = None) -> dict[str, Flags]:
        """For each file, by path, the rows that are newest and live; with `forget_before` the deletions since
        then too."""
        never = np.iinfo(np.int64).max
        deleted = self._deleted.fill_null(never).to_numpy()
        flags = self._newest & (deleted >= (never if forget_before is None else forget_before))
        ends = np.cumsum(list(self._counts.values()))
        return dict(zip(self._counts, np.split(flags, ends[:-1]), strict=True))


def read_versions(opener: _Opener, files: Sequence[DataFile], spec: LatestSpec) -> KeyVersions:
    """Read the keys of all rows of the files."""
    _require_all_versions(files)
    known = {**spec.read.columns, **spec.read.table_columns}
    keys = spec.keys.bound(known)
    columns = {**{name: known[name] for name in keys.columns}, **HIDDEN}
    told = [name for name in columns if name != CLOCK]
    narrow = replace(spec.read, columns=columns, table_columns=known, where=None)
    tables: list[pa.Table] = []
    clocks: list[pa.Array] = []
    counts: dict[str, int] = {}
    for file, source in opener.each(files):
        counts[file.path] = 0
        own = pa.scalar(clocks_of(file)[1])
        for rows in rows_of(source, narrow):
            counts[file.path] += rows.num_rows
            tables.append(rows.select(told))
            # Texts as codes at once: a few clocks stand for very many rows.
            clocks += [c.dictionary_encode() for c in rows.column(CLOCK).fill_null(own).chunks]
    schema = arrow_schema({name: columns[name] for name in told})
    rows = pa.concat_tables(tables) if tables else schema.empty_table()
    return KeyVersions(keys, rows, _ages(clocks), counts)


def _ages(clocks: Sequence[pa.DictionaryArray]) -> npt.NDArray[np.int64]:
    """Clocks as numbers of the same order."""
    if not clocks:
        return np.zeros(0, np.int64)
    texts = sorted({text for chunk in clocks for text in chunk.dictionary.to_pylist()})
    place = {text: number for number, text in enumerate(texts)}
    parts = []
    for chunk in clocks:
        codes = np.array([place[text] for text in chunk.dictionary.to_pylist()], np.int64)
        parts.append(codes[chunk.indices.to_numpy()])
    return np.concatenate(parts)


class _Opener:
    """Opens files of a group, twice at most. Small ones are fetched together, and kept for the second time while
    there is room."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._kept: dict[str, bytes] = {}
        self._room = KEPT_BYTES

    def each(self, files: Sequence[DataFile]) -> Iterator[tuple[DataFile, RowSource]]:
        """The files in their order, each open until the next."""
        for lump in lumps_of(self._bucket, files):
            bodies = {file.path: self._kept[file.path] for file in lump if file.path in self._kept}
            bodies.update(self._fetched([file for file in lump if file.path not in bodies]))
            for file in lump:
                with open_rows(self._bucket, file, body=bodies.get(file.path)) as source:
                    yield file, source

    def _fetched(self, files: Sequence[DataFile]) -> Iterator[tuple[str, bytes]]:
        small = [
            f
            for f in files
            if f.inlined is None and f.size <= WHOLE_BYTES and self._bucket.local_path(f.path) is None
        ]
        blobs = self._bucket.get_many([f.path for f in small]) if small else []
        for file, blob in zip(small, blobs, strict=True):
            if blob is None:
                with data_file(self._bucket, file.path):
                    raise missing(self._bucket, file.path)
            if len(blob.data) <= self._room:
                self._kept[file.path] = blob.data
                self._room -= len(blob.data)
            yield file.path, blob.data
