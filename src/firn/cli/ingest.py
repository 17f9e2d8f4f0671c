"""The command ingest: files read by Spark become rows of a table, which is created if need be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from firn.cli.app import WRITE, app
from firn.cli.input.inputs import NO_NUMBER, format_of
from firn.cli.input.time_formats import spark_pattern
from firn.cli.keyed.ingest import check_definition, create_for, load_frame, refuse_lake_options
from firn.cli.records.load import create_for as create_for_records
from firn.cli.records.load import id_of
from firn.cli.records.load import load_frame as load_records
from firn.cli.target import DbOption, Json, StoreOptions, WriterOption, locate, open_database, pairs
from firn.cli.terminal import waiting
from firn.cli.write import (
    BatchId,
    Delimiter,
    Format,
    JournalOption,
    PartitionBy,
    Properties,
    Query,
    SortBy,
    TimestampFormat,
    Upsert,
    VersionBy,
    check_format,
    new_columns,
    print_appended,
)
from firn.errors import (
    AccessDeniedError,
    FirnError,
    InvalidInputError,
    ObjectNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.names import fold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firn.database.database import Database
    from firn.lake.table import LakeTable

OnlyKind = Annotated[
    str | None,
    typer.Option(
        "--kind", metavar="lake|keyed|records", help="Of a table that isn't there yet; lake by default."
    ),
]


@app.command(rich_help_panel=WRITE)
def ingest(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES...", help="CSV, JSON or Parquet: files, directories, patterns."),
    ],
    to: Annotated[str, typer.Option("--to", metavar="TABLE", help="The table's URL; with --db its name.")],
    db: DbOption = None,
    writer: WriterOption = None,
    kind: OnlyKind = None,
    partition_by: PartitionBy = None,
    sort_by: SortBy = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            "-k",
            metavar="COLUMN",
            help="Keep one row for each value of these; of a keyed table its key, COLUMN=TYPE if it shall be of "
            "another type. Repeatable. Of a record table the column with the rows' ids, by default _id.",
        ),
    ] = None,
    version_by: VersionBy = None,
    journal: JournalOption = "leaderless",
    properties: Properties = None,
    format: Format = "auto",
    delimiter: Delimiter = None,
    no_header: Annotated[bool, typer.Option("--no-header", help="The CSV has no line of names.")] = False,
    schema: Annotated[
        str | None,
        typer.Option("--schema", metavar="DDL", help="Columns and types, like 'date TIMESTAMP, delay INT'."),
    ] = None,
    timestamp_format: TimestampFormat = None,
    query: Query = None,
    batch_id: BatchId = None,
    upsert: Upsert = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Read files with Spark and append them, or load them into a keyed or record table. Creates the table if need be.

    firn ingest flights/*.csv --to ./prod/flights --partition-by 'month(date)' --sort-by date
    """
    check_format(format)
    if kind is not None:
        from firn.database.kinds.kind import check_kind

        check_kind(kind)
    url, name = locate(to, db)
    chosen = _input_format(files, format)
    pattern = None if timestamp_format is None else spark_pattern(timestamp_format)
    database = open_database(url, options, must_exist=False, writer=writer)
    from firn.keyed.table import KeyedTable
    from firn.records.row_tables import RowTable
    from firn.records.table import RecordTable

    found = _found(database, name, kind)
    is_keyed = isinstance(found, KeyedTable) or (found is None and kind == "keyed")
    is_records = isinstance(found, RecordTable | RowTable) or (found is None and kind == "records")
    if is_keyed or is_records:
        lake_only = {
            "--partition-by": partition_by,
            "--sort-by": sort_by,
            "--version-by": version_by,
            "--journal": journal if journal != "leaderless" else None,
            "--upsert": upsert,
            "--query": query,
            "--batch-id": batch_id,
        }
        refuse_lake_options(name, "keyed" if is_keyed else "record", lake_only)
    if isinstance(found, KeyedTable):
        check_definition(found, key or [], properties or [])
    id = id_of(name, key or []) if is_records else ""
    if is_records and found is not None and properties:
        raise InvalidInputError(f"{name} exists: its properties were set when it was created.")
    spark = waiting.start_spark()
    frame = read_frame(
        spark,
        files,
        chosen,
        delimiter=delimiter,
        header=not no_header,
        schema=schema,
        timestamp_pattern=pattern,
        known=_columns(found),
    )
    if is_keyed:
        with _readable(files):
            table = found or create_for(database, name, frame, key or [], pairs(properties, "--property"))
            load_frame(database, table, frame, json)
        return
    if is_records:
        with _readable(files):
            rows = found or create_for_records(database, name, frame, id, pairs(properties, "--property"))
            load_records(database, rows, frame, id, json)
        return
    asked = _Definition(
        partition_by or [], sort_by or [], key or [], version_by, journal, pairs(properties, "--property")
    )
    new: dict[str, str | None] = {}
    if query is None:
        from firn.spark.session.types import columns_of_schema

        new = new_columns(columns_of_schema(frame.schema), frame.columns, _columns(found))
    table = _existing_or_new(database, name, frame, asked, query, upsert=upsert)
    meter = waiting.Meter(table.bucket)
    with waiting.progress(database, f"ingesting into {name}"), _readable(files):
        write = table.upsert if upsert else table.append
        result = write(frame, batch_id=batch_id, query=query)
    print_appended(table, result, meter, json, new, "--schema DDL")


def _found(database: Database, name: str, kind: str | None) -> Any:
    """The table, None if there is none; it is of the kind that was asked for."""
    try:
        return database.table(name) if kind is None else database.table(name, kind=cast("Any", kind))
    except TableNotFoundError:
        return None


def _columns(table: Any) -> dict[str, str]:
    """The columns that a table has already, whose types the files follow."""
    from firn.lake.table import LakeTable

    if isinstance(table, LakeTable):
        return dict(table.snapshot().columns)
    return {} if table is None else dict(table.definition.columns or {})


def _input_format(files: list[str], format: str) -> str:
    """One format for all files: the one given, or that of the first file's name or beginning."""
    for name in files:
        if "://" not in name and not any(c in name for c in "*?[{") and not Path(name).exists():
            raise ObjectNotFoundError(f"there is no file {name}.")
    if format != "auto":
        return format
    found = {format_of(_sample(f), _head(f)) for f in files}
    if "json" in found:
        found.discard("jsonl")  # a reader of whole documents reads single lines, too
    if len(found) > 1:
        raise InvalidInputError(
            f"the files are of several formats ({', '.join(sorted(found))}): ingest each of them by itself, "
            "or give --format."
        )
    return found.pop()


def _sample(name: str) -> str:
    """A directory's or pattern's first file: they say nothing of the format by themselves."""
    path = Path(name)
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file() and p.name[0] not in "._")
        if not inside:
            raise ObjectNotFoundError(f"the directory {name} holds no files.")
        return str(inside[0])
    return name


def _head(name: str) -> bytes:
    path = Path(_sample(name))
    try:
        with path.open("rb") as file:
            return file.read(64)
    except OSError:
        return b""  # a pattern or a URL: the name decides


def read_frame(
    spark: SparkSession,
    files: list[str],
    format: str,
    *,
    delimiter: str | None = None,
    header: bool = True,
    schema: str | None = None,
    timestamp_pattern: str | None = None,
    known: Mapping[str, str] | None = None,
) -> DataFrame:
    """Files as a Spark DataFrame, columns' types by looking at the rows unless a schema is given.

    Times that name no zone become timestamps without one. Where `known`, the columns that the table has already, is
    given, numbers of other columns stay text if one of them begins with a zero or a plus: one more pass over CSV.
    """
    from pyspark.sql.types import StringType, StructField, StructType

    from firn.spark.session.session import conf

    reader = spark.read
    if schema is not None:
        with _readable(["--schema"]):
            reader = reader.schema(schema)
    if timestamp_pattern is not None:
        reader = reader.option("timestampFormat", timestamp_pattern).option(
            "timestampNTZFormat", timestamp_pattern
        )
        reader = reader.option("inferTimestamp", True)
    paths = [_spark_path(f) for f in files]
    with conf(spark, {"spark.sql.timestampType": "TIMESTAMP_NTZ"}), _readable(files):
        if format == "csv":
            reader = reader.option("header", header).option("inferSchema", schema is None)
            separator = delimiter or ("\t" if files[0].endswith(".tsv") else ",")
            # Without multiLine a quoted line break would end the row.
            reader = reader.option("multiLine", True).option("escape", '"')
            frame = reader.csv(paths, sep=separator)
            if schema is None and known is not None:
                texts = reader.option("inferSchema", False).csv(paths, sep=separator)
                if names := _texts_of(frame, texts, known):
                    fields = [
                        StructField(f.name, StringType()) if f.name in names else f for f in frame.schema
                    ]
                    return reader.schema(StructType(fields)).csv(paths, sep=separator)
            return frame
        if format in ("json", "jsonl"):
            return reader.option("multiLine", format == "json").option("mode", "FAILFAST").json(paths)
        return reader.parquet(*paths)


def _texts_of(frame: DataFrame, texts: DataFrame, known: Mapping[str, str]) -> set[str]:
    """Columns that stay text: those that the table has as text, and new ones of digits that are names, like postal
    codes, which as numbers would lose zeros or a plus."""
    from pyspark.sql import functions
    from pyspark.sql.types import NumericType

    there = {fold(name): kind for name, kind in known.items()}
    found = {field.name for field in frame.schema if there.get(fold(field.name)) in ("VARCHAR", "BLOB")}
    numbers = [
        i
        for i, field in enumerate(frame.schema)
        if isinstance(field.dataType, NumericType) and fold(field.name) not in there
    ]
    if numbers:
        # Columns by place: a name may hold a dot.
        renamed = texts.toDF(*(f"c{i}" for i in range(len(texts.columns))))
        names = [functions.max(functions.col(f"c{i}").rlike(NO_NUMBER)).alias(f"c{i}") for i in numbers]
        row = renamed.select(*names).first()
        found |= {frame.schema[i].name for i in numbers if row is not None and row[f"c{i}"]}
    return found


def _spark_path(name: str) -> str:
    """Spark takes a path with a colon for a URL: local ones are given as file:."""
    return name if "://" in name else str(Path(name).absolute())


@contextmanager
def _readable(files: Sequence[str]) -> Iterator[None]:
    """Turn what Spark says of input that it can't read into an error of Firn's."""
    try:
        yield
    except FirnError:
        raise
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        shown = ", ".join(files[:3]) + (", …" if len(files) > 3 else "")
        text = str(error)
        if "PATH_NOT_FOUND" in text:
            raise ObjectNotFoundError(f"nothing is at {shown}.") from error
        if "No FileSystem for scheme" in text:
            raise UnsupportedError(
                f"Spark has no connector for {shown}: copy the files here first, or start Spark with one."
            ) from error
        if "Permission denied" in text:
            raise AccessDeniedError(f"{shown} may not be read by this user.") from error
        raise InvalidInputError(f"{shown} can't be read: {_reason(text)}") from error


def _reason(text: str) -> str:
    """The last cause that Spark names, in one line."""
    causes = [line for line in text.splitlines() if line.lstrip().startswith("Caused by:")]
    line = causes[-1].partition("Caused by:")[2] if causes else text.strip().partition("\n")[0]
    return re.sub(r"^([a-z]\w*\.)+\w+: ", "", line.partition("SQLSTATE")[0].strip())[:300]


@dataclass(frozen=True)
class _Definition:
    """What the options say of the table."""

    partition_by: list[str]
    sort_by: list[str]
    key: list[str]
    version_by: str | None
    journal: str
    properties: dict[str, str]


def _existing_or_new(
    database: Database, name: str, frame: DataFrame, asked: _Definition, query: str | None, *, upsert: bool
) -> LakeTable:
    """The table as it is; a definition that was asked for beside it must be its own."""
    try:
        table = database.table(name, kind="lake")
    except TableNotFoundError:
        if upsert and not asked.key:
            raise InvalidInputError(f"--upsert needs a table with a key: create {name} with --key.") from None
        if query is None:
            _check_columns(frame, asked)
        return database.create_table(
            name,
            partition_by=asked.partition_by,
            sort_by=asked.sort_by,
            key=asked.key,
            version_by=asked.version_by,
            journal=asked.journal,
            properties=asked.properties,
        )
    from firn.lake.partition.partition import PartitionSpec

    spec = PartitionSpec.parse(asked.partition_by, {})
    if asked.partition_by and [str(f) for f in spec.fields] != [str(f) for f in table.partition_spec.fields]:
        has = ", ".join(str(f) for f in table.partition_spec.fields) or "nothing"
        raise InvalidInputError(f"{name} exists and is partitioned by {has}: leave --partition-by out.")
    if asked.sort_by and tuple(asked.sort_by) != table.descriptor.sort_by:
        has = ", ".join(table.descriptor.sort_by) or "nothing"
        raise InvalidInputError(f"{name} exists and is sorted by {has}: leave --sort-by out.")
    if asked.key or asked.version_by:
        keys = table.keys
        named = None if keys is None else (_folded(keys.key), keys.version_by and fold(keys.version_by))
        if (_folded(asked.key), asked.version_by and fold(asked.version_by)) != named:
            made = "no key" if keys is None else f"the key {', '.join(keys.key)}"
            made += f" and version_by {keys.version_by}" if keys is not None and keys.version_by else ""
            raise InvalidInputError(f"{name} exists and has {made}: leave --key and --version-by out.")
    if asked.properties:
        raise InvalidInputError(f"{name} exists: its properties were set when it was created.")
    return table


def _folded(names: Sequence[str]) -> list[str]:
    return [fold(name) for name in names]


def _check_columns(frame: DataFrame, asked: _Definition) -> None:
    """Before the table is made: a typing error shouldn't leave an empty one behind."""
    from firn.database.kinds.lake import parse_sort
    from firn.lake.definition.keys import parse_key
    from firn.lake.partition.partition import PartitionSpec

    columns = dict.fromkeys(frame.columns, "VARCHAR")
    spec = PartitionSpec.parse(asked.partition_by, {})
    for field in spec.fields:
        if field.source not in columns:
            raise InvalidInputError(
                f"--partition-by names {field.source!r}, which the files don't have: {', '.join(columns)}."
            )
    parse_sort(asked.sort_by, columns)
    parse_key(asked.key, asked.version_by, columns, [field.source for field in spec.fields])
