"""Changes of a keyed table's definition after its creation: of the columns of its values, comments and properties.

The change stands in the manifest, with the feature `definition`, so that each reader of a view has it at no request
more. Only compactors put manifests, so `alter` takes the compactor's epoch; and the writer's, so that no writer
goes by the old definition: that of the writer which this database has open, or a new one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from firn.alter import AlterResult
from firn.errors import FencedError, InvalidInputError
from firn.journal.alterations import told
from firn.journal.entries import Entries, times_in_force
from firn.journal.manifest import Manifest
from firn.keyed.context import KeyedContext
from firn.keyed.definition.alteration import Alteration, altered
from firn.keyed.definition.definition import KeyedDefinition
from firn.keyed.founding import founded, newest_view

ATTEMPTS: Final = 5
"""Compactors take turns: each takes the epoch once, so a few attempts do."""


def alter(table: KeyedContext, asked: Alteration, *, fence: bool, dry_run: bool) -> AlterResult:
    """See `KeyedTable.alter`."""
    asked.check(table.name)
    if dry_run:
        view = newest_view(table)
        before = view.manifest.definition
        return AlterResult(view.version, told(before, _wanted(table, before, asked)))
    writer = table.writer_here()
    if writer is None and not fence:
        raise InvalidInputError(
            f"{table.name} can only be altered by its writer, and this database has none open. Call alter while the "
            "writer is open, or with fence=True, in the shell `firn alter --fence`, which ends the writer that "
            "another process may have."
        )
    view = newest_view(table)
    before = view.manifest.definition
    if _wanted(table, before, asked) == before:
        return AlterResult(view.version, ())
    if writer is not None:
        if any(info.writer_epoch > writer.epoch for info in view.pointer.infos):
            writer.poll()  # which tells that it is fenced
        return writer.altered_by(lambda: _committed(table, asked)[0])
    mine = _fence(table)
    done, newest = _committed(table, asked)
    if newest > mine:  # another writer came in between, and goes by the old definition
        _fence(table)
    return done


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


def _fence(table: KeyedContext) -> int:
    """Become the writer for a moment; the epoch."""
    return founded(table, lambda: table.journal.open_writer(strict=table.settings.strict)).epoch


def _committed(table: KeyedContext, asked: Alteration) -> tuple[AlterResult, int]:
    """The commit, again while other compactors take over before it is there; also the newest writer's epoch."""
    for _ in range(ATTEMPTS - 1):
        with suppress(FencedError):
            return _commit(table, asked)
    return _commit(table, asked)


def _commit(table: KeyedContext, asked: Alteration) -> tuple[AlterResult, int]:
    session = table.journal.open_compactor()
    manifest = session.view.manifest
    wanted = _wanted(table, manifest.definition, asked)
    view = session.commit(adds=(), deletes=(), last_compacted=manifest.last_compacted, definition=wanted)
    newest = max((info.writer_epoch for info in view.pointer.infos), default=0)
    return AlterResult(view.version, told(manifest.definition, wanted)), newest


def _wanted(table: KeyedContext, before: Entries, asked: Alteration) -> Entries:
    return altered(table.created, before, asked, table.clock.now_ms())
