"""COPY: rows of files into a table, and rows of a table or a query into a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import PurePosixPath
from typing import Any

import duckdb
import pyarrow as pa

from firn.arrow.inputs import InputRows
from firn.arrow.types import arrow_schema, conform
from firn.concurrency.cancelling import ended_by_cancelling, on_behalf
from firn.errors import InvalidInputError
from firn.journal.model import ColumnTypes
from firn.journal.typenames import Decimal, List, Map, Struct, Type, canonical, parse, quoted
from firn.names import fold
from firn.predicate.parameters import literal
from firn.sql.files.allowed import AllowedFiles, FoundFiles
from firn.sql.instance import instance, renamed, rows_of
from firn.sql.limits import QueryLimits


class FileRows:
    """The rows of files, as a statement's source.

    Args:
        files: what is read.
        said: the path that the statement names, for messages.
        options: of the format; see `READ_OPTIONS`.
        known: the types of the table's columns, which columns of a file without types get.
        by_name: whether columns are those of the same names, or else of the same places.
        limits: what it may take of this process.
    """

    def __init__(
        self,
        files: FoundFiles,
        said: str,
        options: Mapping[str, Any],
        known: ColumnTypes,
        *,
        by_name: bool,
        limits: QueryLimits,
    ) -> None:
        self._files, self._said, self._limits = files, said, limits
        format, given = _format(said, options, READ_OPTIONS)
        if "null" in given:  # as writing calls it
            given["nullstr"] = given.pop("null")
        paths = literal([*files.paths, *files.objects])
        function = {"csv": "read_csv", "json": "read_json", "parquet": "read_parquet"}[format]
        asked = {**_ALWAYS[format], **given}

        def text(extra: Mapping[str, Any]) -> str:
            settings = "".join(f", {name} = {literal(value)}" for name, value in {**asked, **extra}.items())
            return f"SELECT * FROM {function}({paths}{settings})"

        self._text = text({})
        self.columns = self._described()
        if format == "csv":
            headless = all(re.fullmatch(r"column\d+", name) for name in self.columns)
            if by_name and headless and "header" not in given:
                raise InvalidInputError(
                    f"COPY FROM {said}: its first line doesn't look like the names of columns: write (HEADER true) "
                    "if it is, else (HEADER false), which takes the columns in the table's order."
                )
            kinds = self._kinds(known, by_name=by_name)
            flat = {
                name: str(kind) for name, kind in kinds.items() if not isinstance(kind, (List, Struct, Map))
            }
            if flat:  # else digits with leading zeros would be numbers
                self._text = text({"types": flat})
                self.columns = self._described()
        elif format == "json" and not _numbered(list(self.columns)):
            kinds = self._kinds(known, by_name=by_name)
            if any(self.columns[name] not in (str(kind), "VARCHAR") for name, kind in kinds.items()):
                # else times in texts would be written anew, and objects would get each other's fields
                self._text = self._of_json(text, kinds)
                self.columns = self._described()

    def _of_json(self, text: Callable[[Mapping[str, Any]], str], kinds: Mapping[str, Type]) -> str:
        """The query that reads JSON's values as the table's types, where nothing is lost by that."""
        read, exact = dict(self.columns), []
        for name, kind in kinds.items():
            if isinstance(kind, Decimal) and read[name] != "VARCHAR":
                read[name] = "DOUBLE" if kind.scale else "HUGEINT"
                if kind.scale:
                    exact.append(_decimal(quoted(name), kind))
            elif not isinstance(kind, Decimal):
                # BLOBs are texts with escapes; what a STRUCT lacks would be left out
                lossless = not re.search(r"STRUCT|DECIMAL|BLOB", str(kind))
                read[name] = str(kind) if lossless else "VARCHAR" if str(kind) == "BLOB" else read[name]
        found = text({"columns": read})
        return f"SELECT * REPLACE ({', '.join(exact)}) FROM ({found})" if exact else found

    def _kinds(self, known: ColumnTypes, *, by_name: bool) -> dict[str, Type]:
        """The types of the file's columns, as far as the table says them."""
        folded = {fold(name): kind for name, kind in known.items()}
        places = list(known.values())
        found = {}
        for number, name in enumerate(self.columns):
            kind = folded.get(fold(name)) if by_name else places[number] if number < len(places) else None
            if kind is not None:
                found[name] = parse(kind)
        return found

    def named(self, names: Sequence[str], kinds: ColumnTypes) -> FileRows:
        """The same rows under other names, those in `kinds` cast to these types."""
        rows = copy(self)
        rows._text = renamed(self._text, names, kinds)
        rows.columns = rows._described()
        return rows

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._engine() as duck:
            for batch in rows_of(duck, self._text):
                if batch.num_rows:
                    yield from conform(batch.rename_columns(list(self.columns)), self.columns).to_batches()

    def table(self) -> pa.Table:
        """All rows."""
        return pa.Table.from_batches(self.batches(), arrow_schema(self.columns))

    def data(self) -> InputRows:
        """The rows as `append` takes them."""
        return InputRows(arrow_schema(self.columns), self.batches, False, None, None, self.columns)

    def _described(self) -> ColumnTypes:
        with self._engine() as duck:
            with ended_by_cancelling(duck.interrupt):
                relation = duck.sql(self._text)
            return {
                name: canonical(str(kind))
                for name, kind in zip(relation.columns, relation.types, strict=True)
            }

    @contextmanager
    def _engine(self) -> Iterator[Any]:
        """A DuckDB that reads these files, and nothing else."""
        failures: list[BaseException] = []
        with instance(self._limits, self._files.paths, self._files.objects, failures, alone=True) as duck:
            try:
                yield duck
            except (duckdb.Error, OSError, pa.ArrowException) as error:
                raise _failure(f"COPY FROM {self._said}", error, failures, self._limits) from None


def write_file(
    allowed: AllowedFiles,
    path: str,
    options: Mapping[str, Any],
    columns: ColumnTypes,
    batches: Callable[[], Iterator[pa.RecordBatch]],
    limits: QueryLimits,
) -> int:
    """Write rows as one file: how many they were. Nobody sees a part of it, and a failure leaves what was there."""
    rows, asked = 0, on_behalf(batches())
    failures: list[BaseException] = []

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal rows
        try:
            for batch in asked:
                rows += batch.num_rows
                yield batch
        except (Exception, KeyboardInterrupt) as error:  # DuckDB passes on its text alone
            failures.append(error)
            raise

    with allowed.written(path) as target:
        format, given = _format(path, options, WRITE_OPTIONS)
        settings = "".join(f", {name} {literal(value)}" for name, value in given.items())
        with instance(limits, [target], {}, failures, alone=True) as duck:
            duck.register("rows", pa.RecordBatchReader.from_batches(arrow_schema(columns), counted()))
            exact = _EXACT if format == "parquet" else {}
            casts = ", ".join(
                f"CAST(CAST({quoted(name)} AS {kind}) AS {exact.get(kind, kind)}) AS {quoted(name)}"
                for name, kind in columns.items()
            )
            try:
                with ended_by_cancelling(duck.interrupt):
                    duck.execute(
                        f"COPY (SELECT {casts} FROM rows) TO {literal(target)} (FORMAT {format}{settings})"
                    )
            except duckdb.Error as error:
                raise _failure(f"COPY TO {path}", error, failures, limits) from None
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


def _decimal(column: str, kind: Decimal) -> str:
    """A column of JSON's numbers, which DuckDB reads as doubles: these hold 15 digits."""
    lost = literal(
        f"{column} has a number of more than 15 digits, which JSON's reader rounds: write it as a text."
    )
    text = f"CAST({column} AS VARCHAR)"
    digits = f"ltrim(regexp_replace(split_part({text}, 'e', 1), '[^0-9]', '', 'g'), '0')"
    return f"CASE WHEN length({digits}) > 15 THEN error({lost}) ELSE CAST({text} AS {kind}) END AS {column}"


def _numbered(columns: Sequence[str]) -> bool:
    """Whether DuckDB may have given a column another name than the file's, as that is another's in another case.

    >>> _numbered(["a", "A_1"]), _numbered(["a", "b_1"])
    (True, False)
    """
    stems = [re.sub(r"_\d+$", "", fold(name)) for name in columns]
    return len(set(stems)) < len(stems)


def _failure(
    what: str, error: Exception, failures: Sequence[BaseException], limits: QueryLimits
) -> BaseException:
    """What to raise for an error of DuckDB; `failures` are errors of which it passed on the text alone."""
    if failures:
        return failures[0]
    if isinstance(error, duckdb.OutOfMemoryException):
        return limits.out_of_memory(what)
    if 'convert string ""' in str(error):
        what = f"{what} (a quoted empty text is null with ALLOW_QUOTED_NULLS true)"
    reason = re.split(r"\n\s*(?:Possible|LINE |If this |Try |\n)", str(error), maxsplit=1)[0]
    return InvalidInputError(f"{what} fails: {' '.join(reason.split())}")


_ALWAYS: Mapping[str, Mapping[str, Any]] = {
    # all rows tell the columns and types; a quoted empty text isn't null
    "csv": {"sample_size": -1, "allow_quoted_nulls": False},
    "json": {"sample_size": -1},
    "parquet": {"union_by_name": True},
}

_EXACT = {"HUGEINT": "DECIMAL(38, 0)", "UHUGEINT": "DECIMAL(38, 0)"}
"""What Parquet has for types of which DuckDB would write doubles; a number that doesn't fit is an error."""

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
    | {
        "skip",
        "decimal_separator",
        "all_varchar",
        "encoding",
        "comment",
        "null_padding",
        "strict_mode",
        "allow_quoted_nulls",
    },
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
