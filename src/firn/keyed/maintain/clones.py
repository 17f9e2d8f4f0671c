"""Clones: a new table that begins as another was, without a byte copied.

Its first manifest names the parent's objects by their keys in the bucket, and a checkpoint of the parent, without
expiry, pins them. Compactions of the clone write objects of its own; once it names none of its parent's, a sweep of
the clone deletes the pin.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from firn.bucket.keys import key_below
from firn.errors import AlreadyExistsError, TableNotFoundError
from firn.journal.definition import Left, read_left
from firn.journal.generations import Generations
from firn.journal.manifest import Manifest, SnapshotRef
from firn.keyed.context import KeyedContext
from firn.keyed.definition.definition import KeyedDefinition, create_definition, read_definition
from firn.keyed.founding import found, founded, newest_view, parent_of, pin_of
from firn.keyed.maintain.checkpoints import PINS, Checkpoint, find
from firn.names import check_name
from firn.units import parse_duration

C = TypeVar("C", bound=KeyedContext)

ORPHAN_PIN_S = parse_duration("1d")
"""A pin this old whose clone isn't there was left by a crash: making a clone takes seconds."""


def clone(table: C, name: str, at: str | Checkpoint | None = None) -> C:
    """Create a table that holds what this one does now, or did at a checkpoint.

    Both go on by themselves from there. The clone has the parent's keys, values, merge operator and properties. A
    crash leaves no table, and at most a pin that a sweep of the parent deletes a day later.

    Args:
        name: the new table's, in the same database.
        at: a checkpoint of this table, by name, by id or itself; by default all that is flushed now.

    Raises:
        TableExistsError: the name is taken.
        SnapshotTooOldError: there is no such checkpoint.

    Cost: that of reading the metadata, 1 GET, 1 GET an L0 object's index, and 5 PUTs; where a table of the name was
    dropped 2 GETs, 1 LIST and 1 PUT more.

    Example:
        >>> import firn
        >>> db = firn.connect("memory://")
        >>> table = db.create_table("delays", kind="keyed")
        >>> with table.open() as kv:
        ...     kv.put(b"DTW", b"66")
        >>> other = table.clone("what_if")
        >>> with other.open() as kv:
        ...     kv.put(b"DTW", b"0")
        >>> db.table("what_if").reader().get(b"DTW"), table.reader().get(b"DTW")
        (b'0', b'66')
    """
    check_name(name)
    prefix = key_below(table.prefix.rpartition("/")[0], name)
    pin = _pin(table, prefix, at)
    created = table.created  # what was altered since is in its first manifest
    properties = {key: value for key, value in created.properties.items() if key != "pointer_url"}
    definition = replace(
        created,
        name=name,
        properties=properties,
        first_epoch=table.clock.now_ms(),
        parent={"table": table.prefix, "checkpoint": pin.id},
    )
    try:
        made = table.beside(_defined(table, prefix, definition), prefix)
    except AlreadyExistsError:
        table.journal.delete_snapshot(pin)
        raise
    found(made)
    return made


def _defined(table: KeyedContext, prefix: str, definition: KeyedDefinition) -> KeyedDefinition:
    """The clone's definition, written where none is: 1 GET and 1 PUT. Over what a dropped table left 2 GETs, 1 LIST
    and 1 PUT more."""
    generations = Generations(table.bucket, table.prefix.rpartition("/")[0])

    def written(left: Left | None) -> KeyedDefinition:
        generation = generations.after(definition.name, None if left is None else left.generation)
        made = replace(definition, generation=generation)
        return create_definition(table.bucket, prefix, made, over=None if left is None else left.etag)

    try:
        return written(None)
    except AlreadyExistsError:
        left = read_left(table.bucket, prefix, clock=table.clock)
        if left is None:
            raise
    return written(left)


def clones_of(table: KeyedContext) -> list[str]:
    """Prefixes of the tables that still read this one's objects. 1 LIST, 1 GET a checkpoint, 1 GET a pin."""
    return sorted(_clone_prefix(pin) for pin in _pins(table) if _is_held(table, pin))


def release(table: KeyedContext) -> None:
    """Unpin a clone's parent: when the clone is dropped, or reads nothing of it any more. No clone: nothing to do.

    Cost: 1 LIST and 1 GET a checkpoint of the parent; 1 GET + 1 CAS + 1 DELETE.
    """
    if table.definition.parent is None:
        return
    with suppress(TableNotFoundError):  # it let go of its parent long ago, whose name is another table's now
        parent = parent_of(table)
        if (pin := pin_of(table, parent)) is not None:
            parent.journal.delete_snapshot(pin)


def let_go(table: KeyedContext, age_s: Callable[[Manifest], float]) -> None:
    """Before a sweep: unpin the parent of a clone that has named none of its objects for some time, and delete pins
    of clones that never came to be. Nothing where the table neither is a clone nor has any.

    Args:
        age_s: for how long what was replaced is still being read, in seconds, by the current manifest.
    """
    if table.definition.parent is not None and not _names_others(table, age_s):
        release(table)
    oldest_ms = table.clock.now_ms() - int(ORPHAN_PIN_S * 1000)
    for pin in _pins(table):
        if pin.created_ms < oldest_ms and not _is_held(table, pin):
            table.journal.delete_snapshot(pin)


def _pin(table: KeyedContext, prefix: str, at: str | Checkpoint | None) -> SnapshotRef:
    name = PINS + prefix
    if at is None:
        return founded(table, lambda: table.journal.snapshot(name=name))
    like = find(table, at)
    return table.journal.snapshot(like.view(), name=name, like=like.ref)


def _pins(table: KeyedContext) -> list[SnapshotRef]:
    return [ref for ref in table.journal.snapshots() if (ref.name or "").startswith(PINS)]


def _clone_prefix(pin: SnapshotRef) -> str:
    return (pin.name or "")[len(PINS) :]


def _is_held(table: KeyedContext, pin: SnapshotRef) -> bool:
    """Whether the clone that the pin is for is there, and not dropped: then nobody opens it any more."""
    clone = read_definition(table.bucket, _clone_prefix(pin))
    return clone is not None and not clone.dropped and (clone.parent or {}).get("checkpoint") == pin.id


def _names_others(table: KeyedContext, age_s: Callable[[Manifest], float]) -> bool:
    """Whether the table, a checkpoint of it or what it was lately names objects that aren't its own."""
    now = newest_view(table).manifest
    if _foreign(now):
        return True
    checkpoints = (table.journal.view_of(ref).manifest for ref in table.journal.snapshots())
    return any(map(_foreign, checkpoints)) or any(
        file.startswith("/") for file in table.journal.replaced(age_s(now)).ssts
    )


def _foreign(manifest: Manifest) -> bool:
    return any(sst.file.startswith("/") for sst in manifest.ssts)
