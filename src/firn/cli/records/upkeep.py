"""Commands that look after record tables: index, sweep."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from firn.cli.call import RecordsCall, on_table
from firn.cli.options import argument, flag, option
from firn.cli.records.group import records
from firn.cli.records.target import indexed
from firn.cli.terminal import output
from firn.errors import InvalidInputError


@on_table(records, "records")
def index(
    call: RecordsCall,
    field: Annotated[str | None, argument("FIELD", "A field, or a path like address.city.")] = None,
    unique: Annotated[bool, flag("No two rows may have one value.", "--unique")] = False,
    each: Annotated[bool, flag("The field holds lists: find rows by their elements.", "--each")] = False,
    drop: Annotated[bool, flag("Drop the index.", "--drop")] = False,
) -> None:
    """Build an index while others read and write, or drop one; without a field print those that there are.

    firn records index ./prod/airports state

    firn records index ./prod/airports runways --each
    """
    opened = indexed(call)
    if field is None:
        if unique or each or drop:
            raise InvalidInputError("name the field, like: firn records index TABLE state --drop.")
        found = opened.indices()
        if call.json:
            output.document({"table": opened.name, "indices": [dataclasses.asdict(index) for index in found]})
        elif found:
            rows = [
                (
                    i.field,
                    " ".join(word for word in ("unique", "each") if getattr(i, word)),
                    "ready" if i.ready else "being built",
                )
                for i in found
            ]
            output.table(["field", "", "state"], rows)
        else:
            output.note(f"{opened.name} has no index.", answer=True)
        return
    if drop and (unique or each):
        raise InvalidInputError("--unique and --each are for building an index, --drop for dropping one.")
    number = opened.drop_index(field) if drop else opened.create_index(field, unique=unique, each=each)
    facts = {"field": field, "dropped": drop, "commit": number}
    call.say(facts, f"{'dropped' if drop else 'built'} the index of {call.name} on {field}")


@on_table(records, "records", "dry_run")
def repair(
    call: RecordsCall,
    ids: Annotated[list[str], argument("ID...", "Ids of rows whose objects are damaged.")],
    forget: Annotated[bool, flag("Delete rows of which the log has nothing any more.", "--forget")] = False,
) -> None:
    """Put damaged rows back from the log, or let them go. `firn fsck` names their objects.

    firn records repair ./prod/airports DTW --dry-run
    """
    report = call.table.repair_rows(ids, forget=forget, dry_run=call.dry_run)
    if call.json:
        output.document(dataclasses.asdict(report))
        return
    would = "would be " if call.dry_run else ""
    for what, found in (("repaired", report.repaired), ("forgotten", report.forgotten)):
        for id in found:
            output.line(f"{id}: {would}{what}")
    for id in report.whole:
        output.line(f"{id}: whole")


@on_table(records, "records", "dry_run")
def sweep(
    call: RecordsCall,
    older_than: Annotated[str, option("AGE", "What only older snapshots see; above any transaction.")] = "1h",
    orphans: Annotated[str, option("AGE", "Objects that nothing refers to; above any transaction.")] = "7d",
) -> None:
    """Delete old versions, index entries and commits, of all record tables of the database, which share a log.

    firn records sweep ./prod/airports --dry-run
    """
    opened = indexed(call)
    report = opened.sweep(older_than, orphans, dry_run=call.dry_run)
    if call.json:
        output.document(dataclasses.asdict(report))
        return
    verb = "would delete" if call.dry_run else "deleted"
    output.line(
        f"{verb} {output.plural(report.versions, 'version')} with {report.entries:,} index entries and "
        f"{report.left_over:,} left over; commits up to {report.packed:,} are packed"
    )
    for where in report.damaged:
        output.note(f"{where} is damaged, and left as it is; `firn records repair` mends its row.")
