"""Commands that change record tables: put, delete, tx."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from firn.cli.call import RecordsCall, on_table
from firn.cli.input.inputs import read_bytes
from firn.cli.opening import open_database
from firn.cli.options import argument, flag
from firn.cli.records.group import records
from firn.cli.records.target import Etag, IdArg, document_of, json_object, plain_row, typed
from firn.cli.target import Json, StoreOptions
from firn.cli.terminal import output
from firn.errors import FirnError, InvalidInputError

if TYPE_CHECKING:
    from firn.database.database import Database
    from firn.records.documents.documents import Documents
    from firn.records.write.transaction import Transaction

VERBS = ("insert", "upsert", "update", "delete", "get")


@on_table(records, "records")
def put(
    call: RecordsCall,
    id: IdArg,
    document: Annotated[str, argument("DOCUMENT", "A JSON object; - is standard input.")],
    insert: Annotated[bool, flag("Refuse to replace a row.", "--insert")] = False,
    etag: Etag = None,
) -> None:
    """Make a row a document, whether it is there or not. With --json prints the new ETag.

    firn records put ./prod/airports DTW '{"city": "Detroit", "state": "MI"}'
    """
    if insert and etag is not None:
        raise InvalidInputError(
            "--insert is for rows that aren't there, --etag for one that is: give one of them."
        )
    given = document_of(call.table.definition.documents, document, id)
    if insert:
        made = call.table.insert(id, given)
    elif etag is not None:
        made = call.table.update(id, given, etag=etag)
    else:
        made = call.table.upsert(id, given)
    call.say({"id": id, "etag": made}, f"put {id} in {call.name}")


@on_table(records, "records")
def delete(call: RecordsCall, id: IdArg, etag: Etag = None) -> None:
    """Delete a row.

    firn records delete ./prod/airports DTW
    """
    call.table.delete(id, etag=etag)
    call.say({"id": id, "deleted": True}, f"deleted {id} from {call.name}")


@records.command()
def tx(
    database: Annotated[str, argument("DATABASE", "A directory, s3://…, gs://…, az://…")],
    file: Annotated[str, argument("FILE", "A file of JSON lines; - is standard input.")] = "-",
    serializable: Annotated[
        bool, flag("Commit only if nothing that was read has changed either.", "--serializable")
    ] = False,
    json: Json = False,
    options: StoreOptions = None,
) -> None:
    """Make all changes of a file in one transaction, or none.

    Each line is an operation: {"op": "upsert", "table": "airports", "id": "DTW", "document": {…}}. Operations are
    insert, upsert, update, delete and get; "etag" makes an update or delete conditional. get prints what it reads.

    firn records tx ./prod changes.jsonl
    """
    opened = open_database(database, options)
    operations = _operations(opened, read_bytes(file))

    def work(transaction: Transaction) -> list[Any]:
        return [operation(transaction) for operation in operations]

    outer: list[Transaction] = []

    def remembered(transaction: Transaction) -> list[Any]:
        outer[:] = [transaction]
        return work(transaction)

    found = opened.transact(remembered, serializable=serializable)
    rows = [row for row in found if row is not None]
    if json:
        output.document({"commit": outer[0].committed, "operations": len(operations), "rows": rows})
        return
    for row in rows:
        output.document(row)
    output.note(f"{output.plural(len(operations), 'operation')} committed at {outer[0].committed}.")


Operation = Callable[["Transaction"], Any]


def _operations(database: Database, data: bytes) -> list[Operation]:
    found = []
    documents = cache(lambda table: database.table(table, kind="records").definition.documents)
    for number, line in enumerate(data.splitlines(), 1):
        if line.strip():
            raw = json_object(line, f"line {number}")
            with _said_of(number):
                found.append(_of_line(number, _operation(documents, raw)))
    if not found:
        raise InvalidInputError("there is no operation: write a line of JSON for each.")
    return found


@contextmanager
def _said_of(line: int) -> Iterator[None]:
    """Errors tell the line. They stay what they are: a transaction begins again after some."""
    try:
        yield
    except FirnError as error:
        error.args = (f"line {line}: {error}", *error.args[1:])
        raise


def _of_line(line: int, operation: Operation) -> Operation:
    def work(tx: Transaction) -> Any:
        with _said_of(line):
            return operation(tx)

    return work


def _operation(documents_of: Callable[[str], Documents], raw: Mapping[str, Any]) -> Operation:
    verb, table, id = raw.get("op"), raw.get("table"), raw.get("id")
    if verb not in VERBS:
        raise InvalidInputError(f"op is {verb!r}; there are {', '.join(VERBS)}.")
    if not isinstance(table, str) or not isinstance(id, str):
        raise InvalidInputError("table and id have to be texts.")
    needed = {"op", "table", "id"} | ({"document"} if verb in ("insert", "upsert", "update") else set())
    allowed = needed | ({"etag"} if verb in ("upsert", "update", "delete") else set())
    if missing := sorted(needed - raw.keys()):
        raise InvalidInputError(f"{verb} needs {missing[0]!r}.")
    if unknown := sorted(raw.keys() - allowed):
        raise InvalidInputError(f"{verb} has no {unknown[0]!r}; it has {', '.join(sorted(allowed))}.")
    documents = documents_of(table)
    if verb == "get":
        return lambda tx: plain_row(documents, tx.get(table, id))
    given = {} if raw.get("etag") is None else {"etag": raw["etag"]}
    if verb == "delete":
        return lambda tx: tx.delete(table, id, **given)
    if not isinstance(raw["document"], dict):
        raise InvalidInputError("document has to be a JSON object.")
    document = typed(documents, raw["document"], id)

    def write(tx: Transaction) -> None:
        getattr(tx, verb)(table, id, document, **given)

    return write
