"""Checkpoints: views of a keyed table that stay readable until they expire (the paper's snapshots).

A checkpoint is one small object that names a manifest and the L0 objects above it. Sweep spares all that they name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from firn.errors import AlreadyExistsError, InvalidInputError, SnapshotTooOldError
from firn.journal.manifest.layout import parse_manifest_name
from firn.journal.manifest.model import SnapshotRef, View
from firn.keyed.context import KeyedContext
from firn.keyed.encoding.entries import expiry
from firn.keyed.founding import founded, newest_view
from firn.units import parse_duration_ms

PINS = "clone:"
"""Checkpoints whose names begin so hold what a clone reads, and aren't the user's. Frozen."""


@dataclass(frozen=True)
class Checkpoint:
    """A view that sweep spares. `expires_ms` and `created_ms` are Unix milliseconds, `expires_ms` None for never;
    `version` is the view's."""

    name: str | None
    id: str
    version: str
    created_ms: int
    expires_ms: int | None
    ref: SnapshotRef = field(repr=False, compare=False)
    _table: KeyedContext = field(repr=False, compare=False)

    def refresh(self, ttl: str | float | timedelta | None) -> Checkpoint:
        """Let it live for `ttl` from now on, None for ever; what it then is.

        Raises:
            SnapshotTooOldError: it was deleted, or had expired and was swept.

        Cost: 1 GET + 1 HEAD + 1 CAS (rule 15).
        """
        expires_ms = _expiry(self._table, ttl)
        ref = self._table.journal.refresh_snapshot(self.ref, expires_ms)
        return replace(self, expires_ms=expires_ms, ref=ref)

    def delete(self) -> None:
        """Let it go: what only it names goes with the next sweep. One that is gone already is fine.

        Cost: 1 GET + 1 CAS + 1 DELETE.
        """
        self._table.journal.delete_snapshot(self.ref)

    def view(self) -> View:
        """The view that it keeps. 1 GET, and 1 a manifest of its chain.

        Raises:
            SnapshotTooOldError: it was deleted, or had expired and was swept.
        """
        return self._table.journal.view_of(self.ref)


def checkpoint(
    table: KeyedContext, name: str | None = None, ttl: str | float | timedelta | None = None
) -> Checkpoint:
    """Keep the table as it is now, all that is flushed, readable for `ttl`; None is until it is deleted.

    Args:
        name: for `reader(at=…)`. Its id, which is random, does as well.

    Raises:
        AlreadyExistsError: another checkpoint of that name hasn't expired.

    Cost: that of reading the table's metadata, 2 PUTs + 1 GET; with a name also 1 LIST and 1 GET a checkpoint.

    Example:
        >>> import firn
        >>> table = firn.connect("memory://").create_table("delays", kind="keyed")
        >>> with table.open() as kv:
        ...     kv.put(b"DTW", b"66")
        >>> before = table.checkpoint("monday", ttl="7d")
        >>> with table.open() as kv:
        ...     kv.put(b"DTW", b"12")
        >>> table.reader(at="monday").get(b"DTW"), table.reader().get(b"DTW")
        (b'66', b'12')
    """
    if name is not None:
        if not isinstance(name, str) or not name or len(name) > 100 or "@" in name or name.startswith(PINS):
            raise InvalidInputError(
                f"{name!r} can't name a checkpoint: use 1 to 100 characters, no '@', and don't begin with {PINS!r}."
            )
        if any(each.name == name for each in checkpoints(table)):
            raise AlreadyExistsError(
                f"{table.name} has a checkpoint {name!r} already. Choose another name, or delete that one first."
            )
    expires_ms = _expiry(table, ttl)
    return _of(table, founded(table, lambda: table.journal.snapshot(name=name, expires_ms=expires_ms)))


def checkpoints(table: KeyedContext) -> list[Checkpoint]:
    """Those that haven't expired, oldest first. 1 LIST, and 1 GET each."""
    now_ms = table.clock.now_ms()
    return [
        _of(table, ref)
        for ref in table.journal.snapshots()
        if not (ref.name or "").startswith(PINS) and (ref.expires_ms is None or ref.expires_ms > now_ms)
    ]


def find(table: KeyedContext, at: str | Checkpoint) -> Checkpoint:
    """The checkpoint of a name or an id, or itself. 1 LIST, and 1 GET each.

    Raises:
        SnapshotTooOldError: there is none, or none any more.
    """
    if isinstance(at, Checkpoint):
        return at
    for each in checkpoints(table):
        if at in (each.name, each.id):
            return each
    raise SnapshotTooOldError(
        f"{table.name} has no checkpoint {at!r}: it never had, or it has expired or was deleted. See "
        "checkpoints() for those that there are."
    )


def view_at(table: KeyedContext, at: Any = None) -> View:
    """The SSTs and L0 objects of a moment: the newest, a version's, or a checkpoint's, given by name, by id or as
    itself. The cost of reading the table's metadata, or of `find` and `Checkpoint.view`.

    Raises:
        SnapshotTooOldError: there is no such checkpoint or version any more.
    """
    if at is None:
        return newest_view(table)
    if isinstance(at, View):
        return at
    if isinstance(at, str) and "@" in at:
        return _version(table, at)
    if not isinstance(at, str | Checkpoint):
        raise InvalidInputError(f"at={at!r}: give the name or id of a checkpoint of {table.name}, or itself.")
    return find(table, at).view()


def _version(table: KeyedContext, version: str) -> View:
    """The view of a version, as far as its objects are still known by the newest one."""
    name, _, number = version.partition("+")[0].partition("@")
    if parse_manifest_name(name) is None or not number.removeprefix("-").isdigit():
        raise InvalidInputError(f"{version!r} is not a version of {table.name}: give one that Firn gave you.")
    view, last = newest_view(table), int(number)
    if view.manifest.name != name or not view.manifest.last_compacted <= last <= view.last_l0:
        raise SnapshotTooOldError(
            f"{table.bucket.uri(table.prefix)} has no version {version} any more: it was compacted since. Keep "
            "what you want to read later with checkpoint()."
        )
    return View(view.pointer, view.manifest, tuple(f for f in view.l0 if f.number <= last))


def _of(table: KeyedContext, ref: SnapshotRef) -> Checkpoint:
    return Checkpoint(ref.name, ref.id, ref.version, ref.created_ms, ref.expires_ms, ref, table)


def _expiry(table: KeyedContext, ttl: str | float | timedelta | None) -> int | None:
    return None if ttl is None else expiry(table.clock.now_ms(), parse_duration_ms(ttl))
