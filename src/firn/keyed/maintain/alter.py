"""Changes of a keyed table's definition after its creation: of its properties.

The change stands in the manifest, with the feature `definition`, so that each reader of a view has it at no request
more. Only compactors put manifests, so `alter` takes the compactor's epoch; and the writer's, so that no writer
goes by the old definition: that of the writer which this database has open, or a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firn.alter import AlterResult
from firn.errors import InvalidInputError
from firn.journal.entries import PROPERTY, TIME, time_entry, times_in_force
from firn.journal.manifest import Manifest
from firn.keyed.context import KeyedContext
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.definition.settings import KEYED_PROPERTIES, KeyedSettings
from firn.keyed.founding import founded, newest_view

FIXED = ("pointer_url",)
"""Says where the pointer is, and so can't be told by what the pointer names."""


def alter(
    table: KeyedContext, set_properties: Mapping[str, Any] | None, *, fence: bool, dry_run: bool
) -> AlterResult:
    """See `KeyedTable.alter`."""
    if not set_properties:
        raise InvalidInputError(
            f"{table.name}: alter was told nothing to change. Pass set_properties={{name: value}}."
        )
    for name in set_properties:
        if name in FIXED:
            raise InvalidInputError(
                f"{table.name}: the property {name!r} can't be changed: it says where the table's pointer is. Make "
                "another table."
            )
        if name not in KEYED_PROPERTIES:
            KeyedSettings.from_properties({name: set_properties[name]})  # which says what there is
    if dry_run:
        view = newest_view(table)
        return AlterResult(view.version, _lines(_wanted(table, view.manifest, set_properties)))
    writer = table.writer_here()
    if writer is None and not fence:
        raise InvalidInputError(
            f"{table.name} can only be altered by its writer, and this database has none open. Call alter while the "
            "writer is open, or with fence=True, in the shell `firn alter --fence`, which ends the writer that "
            "another process may have."
        )
    view = newest_view(table)
    if not _wanted(table, view.manifest, set_properties):
        return AlterResult(view.version, ())
    if writer is not None:
        if any(info.writer_epoch > writer.epoch for info in view.pointer.infos):
            writer.poll()  # which tells that it is fenced
        return writer.altered_by(lambda: _commit(table, set_properties))
    founded(table, lambda: table.journal.open_writer(strict=table.settings.strict))
    return _commit(table, set_properties)


def definition_now(table: KeyedContext) -> KeyedDefinition:
    """The definition as it was altered last. The cost of reading the table's metadata."""
    return table.as_in(newest_view(table)).definition


def sweep_age_s(table: KeyedContext, manifest: Manifest) -> float:
    """`l0_min_age`, or what it was lately: readers of then count on it."""
    settings = table.created.altered(manifest.definition).settings
    now_ms = table.clock.now_ms()
    created_ms = round(table.created.settings.l0_min_age * 1000)
    lately = times_in_force(manifest.definition, "l0_min_age", created_ms, now_ms, 0)
    return max(settings.l0_min_age, *(ms / 1000 for ms in lately), 0.0)


def _commit(table: KeyedContext, set_properties: Mapping[str, Any]) -> AlterResult:
    session = table.journal.open_compactor()
    manifest = session.view.manifest
    wanted = _wanted(table, manifest, set_properties)
    view = session.commit(
        adds=(),
        deletes=(),
        last_compacted=manifest.last_compacted,
        definition=manifest.definition.changed(wanted),
    )
    return AlterResult(view.version, _lines(wanted))


def _wanted(
    table: KeyedContext, manifest: Manifest, set_properties: Mapping[str, Any]
) -> dict[tuple[str, str], Any]:
    """The entries that make these changes, without what is so already."""
    before = table.created.altered(manifest.definition)
    merged = {**before.properties, **set_properties}
    settings = KeyedSettings.from_properties({k: v for k, v in merged.items() if v is not None})
    wanted: dict[tuple[str, str], Any] = {}
    for name, value in set_properties.items():
        if value == before.properties.get(name):
            continue
        wanted[PROPERTY, name] = value
        if name == "l0_min_age":
            last_ms = [int(time.rpartition(" ")[2]) for time in manifest.definition.of(TIME)]
            at_ms = max(table.clock.now_ms(), *(ms + 1 for ms in last_ms), 0)  # each stays
            wanted[time_entry(name, at_ms)] = round(settings.l0_min_age * 1000)
    return wanted


def _lines(wanted: Mapping[tuple[str, str], Any]) -> tuple[str, ...]:
    return tuple(
        f"unset {name}" if value is None else f"set {name} = {value}"
        for (kind, name), value in wanted.items()
        if kind == PROPERTY
    )
