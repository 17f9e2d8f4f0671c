"""The command ingest: files read by Spark become rows of a table, which is created if need be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from firn.cli.app import WRITE, app
from firn.cli.input.inputs import NO_NUMBER, format_of, spark_pattern
from firn.cli.kind import Ingest, shell_kind
from firn.cli.opening import open_database, pairs
from firn.cli.options import argument, flag, option
from firn.cli.target import DbOption, Json, StoreOptions, WriterOption, locate
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
)
from firn.errors import (
    AccessDeniedError,
    FirnError,
    InvalidInputError,
    ObjectNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from firn.kinds import KINDS
from firn.names import fold

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from firn.database.database import Database

OnlyKind = Annotated[
    str | None, option("|".join(KINDS), "Of a table that isn't there yet; lake by default.", "--kind")
]


@app.command(rich_help_panel=WRITE)
def ingest(
    files: Annotated[list[str], argument("FILES...", "CSV, JSON or Parquet: files, directories, patterns.")],
    to: Annotated[str, option("TABLE", "The table's URL; with --db its name.")],
    db: DbOption = None,
    writer: WriterOption = None,
    kind: OnlyKind = None,
    partition_by: PartitionBy = None,
    sort_by: SortBy = None,
    key: Annotated[
        list[str] | None,
        option(
            "COLUMN",
            "Keep one row for each value of these; of a keyed table its key, COLUMN=TYPE if it shall be of "
            "another type. Repeatable. Of a record table the column with the rows' ids, by default _id.",
            "--key",
            "-k",
        ),
    ] = None,
    version_by: VersionBy = None,
    journal: JournalOption = "leaderless",
    properties: Properties = None,
    format: Format = "auto",
    delimiter: Delimiter = None,
    no_header: Annotated[bool, flag("The CSV has no line of names.", "--no-header")] = False,
    schema: Annotated[
        str | None, option("DDL", "Columns and types, like 'date TIMESTAMP, delay INT'.")
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
    found = _found(database, name, kind)
    asked = Ingest(
        name=name,
        key=key or [],
        properties=pairs(properties, "--property"),
        partition_by=partition_by or [],
        sort_by=sort_by or [],
        version_by=version_by,
        journal=journal,
        query=query,
        batch_id=batch_id,
        upsert=upsert,
        json=json,
    )
    shell = shell_kind(found.kind if found is not None else kind or "lake")
    shell.check_ingest(found, asked)
    spark = waiting.start_spark()
    frame = read_frame(
        spark,
        files,
        chosen,
        delimiter=delimiter,
        header=not no_header,
        schema=schema,
        timestamp_pattern=pattern,
        known={} if found is None else shell.columns(found),
    )
    with _readable(files):
        shell.ingest(database, found, frame, asked)


def _found(database: Database, name: str, kind: str | None) -> Any:
    """The table, None if there is none; it is of the kind that was asked for."""
    try:
        return database.table(name) if kind is None else database.table(name, kind=cast("Any", kind))
    except TableNotFoundError:
        return None


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
