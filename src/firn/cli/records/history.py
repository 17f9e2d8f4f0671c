"""What `firn log` prints of a record table: the commits that changed it and are still in the log, the newest last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firn.cli.terminal import output
from firn.errors import InvalidInputError
from firn.journal.sequence import LogRecord
from firn.records.table import RecordTable

if TYPE_CHECKING:
    from firn.records.row_tables import RowTable


def print_commits(table: RecordTable | RowTable, limit: int | None, json: bool) -> None:
    """The commits of one table."""
    if not isinstance(table, RecordTable):
        raise InvalidInputError(f"{table.name} has isolation='row': its rows are changed without commits.")
    log = table.session.store.log
    head = log.refresh()
    horizon = log.learn(log.store.horizon())
    found = [line for record in log.records(horizon.lo, head.number) if (line := _line(table.name, record))]
    found = found if limit is None else found[max(0, len(found) - limit) :]
    if json:
        output.document({"table": table.name, "head": head.number, "applied": log.applied, "commits": found})
        return
    rows = [
        (
            f"{line['commit']:,}",
            f"{line['transactions']:,}",
            f"{line['put']:,}",
            f"{line['deleted']:,}",
            line["changed"],
        )
        for line in found
    ]
    if rows:
        output.table(["commit", "transactions", "rows put", "deleted", ""], rows, right=(0, 1, 2, 3))
    else:
        output.note(f"No commit in the log changed {table.name}; the last one is {head.number:,}.")


def _line(table: str, record: LogRecord) -> dict[str, Any] | None:
    members = [
        member
        for member in record.group
        if (member.ddl is not None and member.ddl.table == table)
        or any(write.table == table for write in member.writes)
    ]
    if not members:
        return None
    writes = [write for member in members for write in member.writes if write.table == table]
    changed = ", ".join(
        f"{member.ddl.verb} {member.ddl.field}".strip() for member in members if member.ddl is not None
    )
    return {
        "commit": record.number,
        "transactions": len(members),
        "txids": [member.txid for member in members],
        "put": sum(not write.deletes for write in writes),
        "deleted": sum(write.deletes for write in writes),
        "rows": [write.id for write in writes],
        "changed": changed,
    }
