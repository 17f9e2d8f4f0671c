"""COPY: rows of files into a table, and rows of a table or a query into a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from copy import copy
from pathlib import PurePosixPath
from typing import Any

import duckdb
import pyarrow as pa

from firn.arrow.connections import connect
from firn.arrow.types import arrow_schema, conform
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import Scalar, canonical, parse, quoted
from firn.names import fold
from firn.predicate.parameters import literal
from firn.sql.allowed_files import AllowedFiles, FoundFiles
from firn.sql.limits import memory_limit, threads

BATCH_ROWS = 1 << 16


class FileRows:
    """The rows of files, as a statement's source.

    Args:
        files: what is read.
        said: the path that the statement names, for messages.
        options: of the format; see `READ_OPTIONS`.
        known: the types of the table's columns, which columns of a file without types get.
        by_name: whether columns are those of the same names, or else of the same places.
    """

    def __init__(
        self, files: FoundFiles, said: str, options: Mapping[str, Any], known: ColumnTypes, *, by_name: bool
    ) -> None:
        self._files, self._said = files, said
        format, given = _format(said, options, READ_OPTIONS)
        if "null" in given:  # as writing calls it
            given["nullstr"] = given.pop("null")
        paths = literal(files.paths)
        more = {"union_by_name": True} if format == "parquet" else {}
        function = {"csv": "read_csv", "json": "read_json", "parquet": "read_parquet"}[format]
        asked = {**given, **more}

        def text(extra: Mapping[str, Any]) -> str:
            settings = "".join(f", {name} = {literal(value)}" for name, value in {**asked, **extra}.items())
            return f"SELECT * FROM {function}({paths}{settings})"

        self._text = text({})
        self.columns = self._described()
        if format != "csv":
            return
        headless = all(re.fullmatch(r"column\d+", name) for name in self.columns)
        if by_name and headless and "header" not in given:
            raise InvalidInputError(
                f"COPY FROM {said}: its first line doesn't look like the names of columns: write (HEADER true) if it "
                "is, else (HEADER false), which takes the columns in the table's order."
            )
        kinds = self._kinds(known, by_name=by_name)
        if kinds:  # else digits with leading zeros would be numbers
            self._text = text({"types": kinds})
            self.columns = self._described()

    def _kinds(self, known: ColumnTypes, *, by_name: bool) -> dict[str, str]:
        """The types of the file's columns, as far as the table says them."""
        folded = {fold(name): kind for name, kind in known.items()}
        places = list(known.values())
        found = {}
        for number, name in enumerate(self.columns):
            kind = folded.get(fold(name)) if by_name else places[number] if number < len(places) else None
            if kind is not None and isinstance(parse(kind), Scalar):
                found[name] = kind
        return found

    def named(self, names: Sequence[str], kinds: ColumnTypes) -> FileRows:
        """The same rows under other names, those in `kinds` cast to these types."""
        alias = ", ".join(f"c{number}" for number in range(len(names)))
        picked = [
            f"{f'CAST(c{at} AS {kinds[name]})' if name in kinds else f'c{at}'} AS {quoted(name)}"
            for at, name in enumerate(names)
        ]
        rows = copy(self)
        rows._text = f"SELECT {', '.join(picked)} FROM ({self._text}) AS s({alias})"
        rows.columns = rows._described()
        return rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._engine() as duck:
            for batch in duck.sql(self._text).to_arrow_reader(BATCH_ROWS):
                if batch.num_rows:
                    yield from conform(batch.rename_columns(list(self.columns)), self.columns).to_batches()

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches(), arrow_schema(self.columns))

    def data(self) -> pa.RecordBatchReader:
        """The rows as `append` takes them."""
        return pa.RecordBatchReader.from_batches(arrow_schema(self.columns), self.batches())

    def _described(self) -> ColumnTypes:
        with self._engine() as duck:
            relation = duck.sql(self._text)
            return {
                name: canonical(str(kind))
                for name, kind in zip(relation.columns, relation.types, strict=True)
            }

    @contextmanager
    def _engine(self) -> Iterator[Any]:
        """A DuckDB that reads these files, and nothing else."""
        failures: list[BaseException] = []
        with ExitStack() as stack:
            stored = None
            if self._files.objects:
                from firn.sql.bucket_files import BucketFiles  # fsspec is loaded for buckets only

                stored = BucketFiles(self._files.objects, failures)
                stack.callback(stored.close)
            made = connect(
                memory=memory_limit(), threads=threads(), files=self._files.paths, file_system=stored
            )
            duck = stack.enter_context(closing(made))
            try:
                yield duck
            except (duckdb.Error, OSError, pa.ArrowException) as error:
                raise (failures[0] if failures else _failure(f"COPY FROM {self._said}", error)) from None


def write_file(
    allowed: AllowedFiles,
    path: str,
    options: Mapping[str, Any],
    columns: ColumnTypes,
    batches: Callable[[], Iterator[pa.RecordBatch]],
) -> int:
    """Write rows as one file: how many they were. Nobody sees a part of it, and a failure leaves what was there."""
    rows = 0
    failures: list[BaseException] = []

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        try:
            for batch in batches():
                rows += batch.num_rows
                yield batch
        except (Exception, KeyboardInterrupt) as error:  # DuckDB passes on its text alone
            failures.append(error)
            raise

    with allowed.written(path) as target:
        format, given = _format(path, options, WRITE_OPTIONS)
        settings = "".join(f", {name} {literal(value)}" for name, value in given.items())
        made = connect(memory=memory_limit(), threads=threads(), files=[target])
        with closing(made) as duck:
            duck.register("rows", pa.RecordBatchReader.from_batches(arrow_schema(columns), counted()))
            casts = ", ".join(
                f"CAST({quoted(name)} AS {kind}) AS {quoted(name)}" for name, kind in columns.items()
            )
            try:
                duck.execute(
                    f"COPY (SELECT {casts} FROM rows) TO {literal(target)} (FORMAT {format}{settings})"
                )
            except duckdb.Error as error:
                raise (failures[0] if failures else _failure(f"COPY TO {path}", error)) from None
    return rows


def _format(
    path: str, options: Mapping[str, Any], known: Mapping[str, frozenset[str]]
) -> tuple[str, dict[str, Any]]:
    """The format, by its option or the file's name, and the other options."""
    given = {fold(name): value for name, value in options.items()}
    suffixes = [suffix for suffix in PurePosixPath(fold(path)).suffixes if suffix not in (".gz", ".zst")]
    format = fold(str(given.pop("format", _SUFFIXES.get(suffixes[-1] if suffixes else "", ""))))
    if format not in known:
        raise InvalidInputError(
            f"COPY: {format or path!r} says no format; write (FORMAT csv), json or parquet."
        )
    if unknown := [name for name in given if name not in known[format]]:
        raise InvalidInputError(
            f"COPY: {format} has no option {unknown[0]!r} here; it has: {', '.join(sorted(known[format])) or 'none'}."
        )
    return format, given


def _failure(what: str, error: Exception) -> InvalidInputError:
    reason = re.split(r"\n\s*(?:Possible|LINE |\n)", str(error), maxsplit=1)[0]
    return InvalidInputError(f"{what} fails: {' '.join(reason.split())}")


_SUFFIXES = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
}

_CSV = frozenset(
    ("header", "delim", "delimiter", "sep", "quote", "escape", "nullstr", "null", "dateformat", "timestampformat",
     "compression")
)  # fmt: skip

READ_OPTIONS: Mapping[str, frozenset[str]] = {
    "csv": _CSV
    | {"skip", "decimal_separator", "all_varchar", "encoding", "comment", "null_padding", "strict_mode"},
    "json": frozenset(("compression", "dateformat", "timestampformat", "maximum_object_size")),
    "parquet": frozenset(),
}
"""The options of COPY FROM, by format: those of DuckDB's readers that say how a file is written."""

WRITE_OPTIONS: Mapping[str, frozenset[str]] = {
    "csv": _CSV,
    "json": frozenset(("array", "compression", "dateformat", "timestampformat")),
    "parquet": frozenset(("compression", "compression_level", "row_group_size")),
}
"""The options of COPY TO, by format."""
