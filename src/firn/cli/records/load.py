"""`firn records load` and `copy`, and what `firn ingest` does with a record table."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from firn.cli.call import RecordsCall, on_table, print_report
from firn.cli.input.inputs import format_of, read_bytes, read_rows
from firn.cli.options import argument, flag, option
from firn.cli.records.group import records
from firn.cli.records.target import json_object
from firn.cli.terminal import output, waiting
from firn.cli.write import Delimiter, Format, check_format
from firn.errors import InvalidInputError
from firn.units import parse_duration

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from firn.database.copies import CopyReport
    from firn.database.database import Database
    from firn.database.kinds.records import AnyRecordTable
    from firn.records.documents.documents import Documents
    from firn.records.load.load import RecordLoadReport

Id = Annotated[str | None, option("FIELD", "The field with the rows' ids; by default _id.", "--id")]
Batch = Annotated[int, option("ROWS", "Rows of one transaction, at most.", "--batch", min=1)]


@on_table(records, "records")
def load(
    call: RecordsCall,
    files: Annotated[
        list[str] | None, argument("FILES...", "JSON, CSV or Parquet; - is standard input.")
    ] = None,
    id: Id = None,
    batch: Batch = 1000,
    format: Format = "auto",
    delimiter: Delimiter = None,
) -> None:
    """Put the rows of files in place of what their ids had, in transactions of batches. Committed rows stay;
    loading again does no harm. `firn ingest` does the same by Spark.

    firn records load ./prod/airports airports.jsonl --id iata
    """
    check_format(format)
    documents = call.table.definition.documents
    rows = (row for name in files or ["-"] for row in _rows(name, documents, format, delimiter))
    with call.progress("loading"):
        report = call.table.load(rows, id=id or "_id", batch=batch)
    call.answer(report, _line(call.name, report))


def _line(name: str, report: RecordLoadReport) -> str:
    commits = f" in {output.plural(report.commits, 'commit')}" if report.commits else ""
    return f"loaded {output.plural(report.rows, 'row')} into {name}{commits}"


def create_for(
    database: Database, name: str, frame: DataFrame, id: str, properties: Mapping[str, str]
) -> AnyRecordTable:
    """A new table with the frame's columns."""
    from firn.spark.session.types import columns_of_schema

    columns = columns_of_schema(frame.schema)
    if id not in columns:
        raise InvalidInputError(
            f"name the column of {name}'s ids by --key: the files have {', '.join(columns)}, and not {id}."
        )
    columns.pop("_id", None)
    return database.create_table(name, kind="records", schema=columns, properties=properties)


def id_of(name: str, key: Sequence[str]) -> str:
    """The column that `--key` names."""
    if len(key) > 1:
        raise InvalidInputError(f"{name} is a record table, whose rows have one id each: give one --key.")
    return key[0] if key else "_id"


def load_frame(database: Database, table: AnyRecordTable, frame: DataFrame, id: str, json: bool) -> None:
    """Load it, and say so."""
    meter = waiting.Meter(table.bucket)
    with waiting.progress(database, f"loading {table.name}"):
        report = table.load(frame, id=id)
    print_report(table.name, report, meter, json, line=_line(table.name, report))


def _rows(name: str, documents: Documents, format: str, delimiter: str | None) -> Iterator[Any]:
    """Documents of JSON as they are, other formats as Arrow."""
    data = read_bytes(name)
    chosen = format_of(name, data[:64]) if format == "auto" else format
    if chosen not in ("json", "jsonl"):
        known = {"_id": "VARCHAR", **(documents.columns or {})}
        yield read_rows(name, data=data, format=chosen, delimiter=delimiter, known=known)
        return
    shown = "standard input" if name == "-" else name
    for place, document in _documents(data, chosen, shown):
        if "_etag" not in (documents.columns or {}):
            document.pop("_etag", None)  # what scan --json prints can be loaded
        try:
            yield documents.from_json(document)
        except InvalidInputError as error:
            raise InvalidInputError(f"{place}: {error}") from None


def _documents(data: bytes, chosen: str, shown: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if chosen == "jsonl":
        for number, line in enumerate(data.split(b"\n"), 1):
            if line.strip():
                place = f"{shown}, line {number}"
                yield place, json_object(line, place)
        return
    import orjson

    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidInputError(f"{shown} isn't JSON: {error}.") from None
    for number, row in enumerate(found if isinstance(found, list) else [found], 1):
        if not isinstance(row, dict):
            raise InvalidInputError(f"{shown}: row {number} isn't a JSON object but {type(row).__name__}.")
        yield f"{shown}, row {number}", row


@on_table(records, "records")
def copy(
    call: RecordsCall,
    target: Annotated[str, argument("TARGET", "A lake table of the same database, made if need be.")],
    changes: Annotated[
        bool, flag("What was put and deleted since the last such copy, each change once.", "--changes")
    ] = False,
    at: Annotated[str | None, option("COMMIT", "The rows as they were at this commit.")] = None,
    follow: Annotated[
        str | None, option("TIME", "With --changes: again and again, after such a pause.")
    ] = None,
) -> None:
    """Copy a record table's rows into a lake table, where they are read as files: all of them, or each change.

    firn records copy ./prod/orders orders_history --changes --follow 5s
    """
    if follow is not None and not changes:
        raise InvalidInputError("--follow is for --changes: each copy of rows appends all of them.")
    pause = None if follow is None else parse_duration(follow)
    database = call.database
    while True:
        call.meter = waiting.Meter(database.bucket)
        with call.progress("copying"):
            report = database.copy(call.name, target, changes=changes, at=at)
        if pause is None or report.rows != 0:
            call.answer(report, _copied(call.name, target, report), target=target)
        if pause is None:
            return
        time.sleep(pause)


def _copied(name: str, target: str, report: CopyReport) -> str:
    if report.rows is None:
        return f"{target} has {name} up to commit {report.upto} already"
    return f"copied {output.plural(report.rows, 'row')} of {name} into {target}, up to commit {report.upto}"
