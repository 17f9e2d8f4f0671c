"""Commands that read record tables: get, find, scan."""

from __future__ import annotations

from typing import Annotated

from firn.cli.call import RecordsCall, on_table
from firn.cli.options import argument, option
from firn.cli.records.group import records
from firn.cli.records.target import IdArg, conditions, indexed, plain_row, print_rows
from firn.cli.target import Limit
from firn.cli.terminal import output
from firn.errors import InvalidInputError

OrderBy = Annotated[
    list[str] | None, option("FIELD", "Like city, or 'n desc'; else by id. Repeatable.", "--order-by")
]
After = Annotated[str | None, option("ID", "Only rows behind this one in the order.", "--after")]
Where = Annotated[
    list[str] | None,
    argument(
        "CONDITION...",
        "FIELD=VALUE, FIELD=PREFIX* or FIELD=START..END (without END itself); FIELD[]=… for an element of a "
        "list.",
    ),
]


@on_table(records, "records")
def get(call: RecordsCall, id: IdArg) -> None:
    """Print a row as JSON. With --json its ETag, too.

    firn records get ./prod/airports DTW
    """
    row = call.table.get(id)
    plain = plain_row(call.table.definition.documents, row)
    output.document({**plain, "_etag": row.etag} if call.json else plain)


@on_table(records, "records")
def find(
    call: RecordsCall, where: Where = None, order_by: OrderBy = None, limit: Limit = None, after: After = None
) -> None:
    """Print the rows that match, found through an index. With --json a line each, with ETags.

    firn records find ./prod/airports state=MI 'city=A*'
    """
    opened = indexed(call)
    asked = conditions(opened.definition.documents, where or ())
    if not asked:
        raise InvalidInputError("find needs a condition, like state=MI; firn records scan prints all rows.")
    found = opened.find(asked, order_by=order_by, limit=limit, after=after)
    print_rows(opened.definition.documents, found, call.json)


@on_table(records, "records")
def scan(
    call: RecordsCall, where: Where = None, order_by: OrderBy = None, limit: Limit = None, after: After = None
) -> None:
    """Print all rows, or those that match; every row is read. With --json a line each, with ETags.

    firn records scan ./prod/airports --limit 10
    """
    from firn.records.read.order import Order
    from firn.records.table import RecordTable

    documents = call.table.definition.documents
    asked = conditions(documents, where or ())
    if isinstance(call.table, RecordTable):
        found = call.table.scan(asked, order_by=order_by, limit=limit, after=after)
        print_rows(documents, found, call.json)
        return
    order = Order(order_by).known_to(documents)
    start = call.table.get(after) if after is not None and not order.by_id else after
    print_rows(documents, order.page(call.table.scan(asked), limit=limit, after=start), call.json)
