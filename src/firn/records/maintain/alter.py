"""Change the properties of a record table: a commit, or with isolation="row" a swap of its definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from firn.alter import AlterResult
from firn.bucket.base import Bucket
from firn.clock import Clock
from firn.journal.definition import dropped, replace_object
from firn.journal.sequence import Ddl
from firn.records.definition.definition import RecordDefinition
from firn.records.definition.settings import RecordSettings
from firn.records.maintain.ddl import define
from firn.records.objects.store import RecordStore


def alter(
    store: RecordStore, definition: RecordDefinition, given: Mapping[str, Any], *, dry_run: bool
) -> AlterResult:
    """Commit a change of properties. As `refresh`, and 1 PUT; none where nothing changes.

    Raises:
        InvalidInputError: an unknown property, or a value that can't be.
        TableNotFoundError: the table was dropped.
    """
    head = store.log.refresh()
    state = store.table(definition.name, head.catalog).state
    changes, lines = _changes({**definition.properties, **state.properties}, given)
    if dry_run or not changes:
        return AlterResult(str(head.number), lines)
    ddl = Ddl(
        "alter", definition.name, generation=definition.generation, properties=tuple(sorted(changes.items()))
    )
    return AlterResult(str(define(store, ddl)), lines)


def alter_lone(
    bucket: Bucket,
    prefix: str,
    definition: RecordDefinition,
    given: Mapping[str, Any],
    *,
    clock: Clock,
    dry_run: bool,
) -> AlterResult:
    """Replace the definition of a table without transactions. 1 GET and 1 PUT, again if others were faster. Errors as
    `alter`, and `ConflictError` if others change it all the time."""

    def change(data: bytes | None, where: str) -> tuple[bytes | None, AlterResult]:
        now = None if data is None else RecordDefinition.decode(data, where)
        if now is None or now.dropped or now.generation != definition.generation:
            raise dropped(bucket, prefix)
        changes, lines = _changes(now.properties, given)
        if dry_run or not changes:
            return None, AlterResult(str(now.rev), lines)
        properties = {
            name: value for name, value in {**now.properties, **changes}.items() if value is not None
        }
        wanted = replace(now, properties=properties, rev=now.rev + 1)
        return wanted.encode(), AlterResult(str(wanted.rev), lines)

    return replace_object(bucket, prefix, change, clock=clock)


def definition_now(store: RecordStore, definition: RecordDefinition) -> RecordDefinition:
    """The definition as it was altered last. As `refresh`."""
    head = store.log.refresh()
    state = store.table(definition.name, head.catalog).state
    properties = {**definition.properties, **dict(state.properties)}
    return replace(
        definition, properties={name: value for name, value in properties.items() if value is not None}
    )


def _changes(
    properties: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The properties that change, and a line for each."""
    RecordSettings.from_properties({**properties, **given})
    changes = {name: value for name, value in given.items() if properties.get(name) != value}
    lines = (
        f"unset {name}" if value is None else f"set {name} = {value}"
        for name, value in sorted(changes.items())
    )
    return changes, tuple(lines)
