"""Register: make Parquet files that are there already part of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firn.bucket.base import Bucket, ObjectInfo
from firn.errors import InvalidInputError, ObjectNotFoundError, SchemaConflictError, UnsupportedError
from firn.journal.columns import check_new_names, evolve, join, widens_to
from firn.journal.model import LACKING, ColumnTypes, Commit, DataFile
from firn.journal.naming import Naming
from firn.lake.context import LakeContext
from firn.lake.partition.partition import PartitionSpec, single_partition
from firn.lake.read.read import inspect_file
from firn.lake.results import AppendResult
from firn.lake.write.append import refuse_set_aside
from firn.names import fold


def register(table: LakeContext, paths: str | Sequence[str]) -> AppendResult:
    """See `LakeTable.register`."""
    paths = [paths] if isinstance(paths, str) else paths
    if not paths:
        raise InvalidInputError("register needs at least one path.")
    if table.keys is not None:
        raise UnsupportedError(
            f"{table.name} has a key, and files that Firn didn't write may hold a key twice: append their rows "
            "instead of registering them."
        )
    ticket = table.journal.begin_append()
    # A file may be named by itself and by a directory above it.
    infos = list({info.key: info for path in paths for info in _resolve(table, path)}.values())
    snapshot = table.journal.snapshot()
    table, live = table.at(snapshot), {f.path for f in snapshot.files}
    for info in infos:
        if info.key in live:
            raise InvalidInputError(
                f"{table.bucket.uri(info.key)} is part of {table.name} already; registering it again would "
                "double its rows."
            )
    runner = table.engines.runner(0)
    found = runner.map(
        _inspect, infos, bucket=table.bucket, context=table.partition_spec, weights=[1] * len(infos)
    )
    seen = table.journal.known()
    table, known = table.at(seen), seen.columns
    columns = dict(known)
    definition, files = table.definition, []
    for file, types in found:
        refuse_set_aside(table.name, seen, types)
        check_new_names(columns, types)
        columns = dict(
            evolve(columns, types, allow_widening=not definition.shared, explicit=definition.explicit)
        )
        files.append(_named(file, types, columns, definition.naming))
    columns = _held(table.name, [types for _, types in found], columns)
    naming = definition.naming
    commit = Commit("register", files, columns=naming.in_files(columns), names=naming.brought(columns))
    version = ticket.commit(commit)
    return AppendResult(version, len(files), sum(f.rows or 0 for f in files), sum(f.size for f in files))


def _held(table: str, files: Sequence[ColumnTypes], columns: ColumnTypes) -> dict[str, str]:
    """The columns that files have, of the table's by now, with their own types where the table's takes these in by a
    cast alone: readers have to know."""
    held: dict[str, str] = {}
    for types in files:
        spelled = {fold(name): kind for name, kind in types.items()}
        for name, kind in columns.items():
            own = spelled.get(fold(name))
            if own is None:
                continue
            seen = kind if widens_to(own, kind) else own
            joined = join(held.get(name, seen), seen)
            if joined is None:
                raise SchemaConflictError(
                    f"{table}: the column {name!r} is {held[name]} in one of these files and {own} in another. "
                    "Register the files of each type by themselves."
                )
            held[name] = joined
    return held


def _named(file: DataFile, types: ColumnTypes, columns: ColumnTypes, naming: Naming) -> DataFile:
    """The file with what its log has to tell where columns aren't called as in files: its own name of each column,
    and which of those with a default it lacks. Statistics go by physical names."""
    if not naming:
        return file
    spelled = {fold(name): name for name in columns}
    own = {naming.physical(spelled[fold(name)]): name for name in types if fold(name) in spelled}
    extra = dict(file.extra or {})
    if any(physical != name for physical, name in own.items()) or naming.hidden:
        physical = {name: stored for stored, name in own.items()}
        extra["cols"] = own
        for key in ("stats", "bloom"):
            if key in extra:
                extra[key] = {physical[name]: entry for name, entry in extra[key].items() if name in physical}
    if lacking := sorted(naming.lackable - own.keys()):
        extra["types"] = dict.fromkeys(lacking, LACKING)
    return file._replace(extra=extra)


def _resolve(table: LakeContext, path: str) -> list[ObjectInfo]:
    root = table.bucket.uri("")
    key = path[len(root) :] if path.startswith(root) else path
    if "://" in key or key.startswith("/"):
        raise InvalidInputError(
            f"{path} isn't in the table's bucket {root}; only files of the same bucket can be registered. "
            "Append them instead."
        )
    if key.endswith("/"):
        infos = [i for i in table.bucket.list(key).objects if i.key.endswith(".parquet")]
    else:
        infos = [table.bucket.head(key)]
    for found in (key, *(info.key for info in infos)):
        if table.places.directory_of(found) is not None:
            raise InvalidInputError(
                f"{table.bucket.uri(found)} lies where {table.name} keeps its own files, and sweep deletes what "
                "no commit names. Put the files elsewhere in the bucket first."
            )
    if not infos:
        raise ObjectNotFoundError(f"there is no *.parquet object below {table.bucket.uri(key)}.")
    return infos


def _inspect(bucket: Bucket, spec: PartitionSpec, info: ObjectInfo) -> tuple[DataFile, Any]:
    """One file's marker, columns and partition, from its footer."""
    columns, file = inspect_file(bucket, info.key, info.size)
    extra = dict(file.extra or {})
    if spec.fields:
        extra["part"] = single_partition(spec, file, columns, bucket.uri(info.key))
        extra["spec"] = spec.id
    return DataFile(file.path, file.size, info.modified_ms, extra), columns
