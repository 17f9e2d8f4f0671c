"""A row's object: its versions by commit, newest first, of which old ones are cut off. Pure.

Appliers take up versions in the order of their numbers and all that are due at once, so a row has all versions up to
its newest but those that were cut off: what is not greater than the newest was applied (rules 4 and 20).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, overload

from firn.errors import SnapshotTooOldError
from firn.journal.envelope import Envelopes, number, text
from firn.journal.sequence import RowWrite
from firn.journal.sequence.codec import body_fields, body_of, check_body
from firn.records.names.layout import check_row_name

_ENVELOPES: Final = Envelopes(
    "a record table",
    {
        "row": "`firn records repair TABLE ID` puts back what the log has of the row. A row that is put anew, as by "
        "upsert, is whole, too."
    },
)


@dataclass(frozen=True, slots=True)
class Version:
    """A row as commit `seq` left it: its body, or the name of the object that holds it, or neither for a delete.
    `entries` are the stems of its index entries."""

    seq: int
    body: bytes | None = None
    ref: str | None = None
    entries: tuple[str, ...] = ()

    @property
    def deleted(self) -> bool:
        return self.body is None and self.ref is None


class Versions(Sequence[Version]):
    """Versions as they were read, each made when it is looked at: of a row that changes often few of many are."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[Version | Mapping[str, Any]]) -> None:
        self._items = list(items)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, at: int) -> Version: ...
    @overload
    def __getitem__(self, at: slice) -> Versions: ...
    def __getitem__(self, at: int | slice) -> Version | Versions:
        if isinstance(at, slice):
            return Versions(self._items[at])
        found = self._items[at]
        if not isinstance(found, Version):
            found = self._items[at] = _version(found)
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def numbers(self) -> Iterator[int]:
        """Their numbers, without making any."""
        return (item.seq if isinstance(item, Version) else item["seq"] for item in self._items)

    def before(self, fresh: Iterable[Version]) -> Versions:
        """Behind newer ones."""
        return Versions((*fresh, *self._items))

    def fields(self) -> list[Mapping[str, Any]]:
        """As they stand in an object."""
        return [_fields(item) if isinstance(item, Version) else item for item in self._items]


@dataclass(frozen=True, slots=True)
class Row:
    """A row's object. `cut` is the number of the oldest version that is left, if an older one was cut off, else 0."""

    id: str
    versions: Sequence[Version] = ()
    cut: int = 0

    @property
    def newest(self) -> int:
        """The number of the newest version, 0 for none."""
        return self.versions[0].seq if self.versions else 0

    def at(self, snapshot: int) -> Version | None:
        """The version that a snapshot sees (rule 10), None for none.

        Raises:
            SnapshotTooOldError: it was cut off.
        """
        for version in self.versions:
            if version.seq <= snapshot:
                return version
        if self.cut > snapshot:
            raise SnapshotTooOldError(
                f"row {self.id!r}: the version of the snapshot at commit {snapshot} was removed, that of commit "
                f"{self.cut} is the oldest that is kept; begin another transaction"
            )
        return None

    def extended(self, changes: Iterable[tuple[int, RowWrite]]) -> Row:
        """With the writes of later commits, given in ascending order (rule 20)."""
        fresh = [
            Version(seq, write.body, write.ref, write.entries) for seq, write in changes if seq > self.newest
        ]
        if not fresh:
            return self
        fresh.reverse()
        return replace(self, versions=_lazy(self.versions).before(fresh))

    def lacks(self, numbers: Iterable[int]) -> list[int]:
        """Those of the commits that wrote the row, and were applied, of which it has no version though it should."""
        there = set(_lazy(self.versions).numbers())
        return [number for number in numbers if number >= self.cut and number not in there]

    def mended(self, changes: Iterable[tuple[int, RowWrite]], after: int, since: int) -> Row:
        """With all writes of commits behind `after`, some of which it lacks. Its own versions go where nobody knows
        what came between them and these. `since` is the commit that created the table."""
        writes = {seq: Version(seq, write.body, write.ref, write.entries) for seq, write in changes}
        own = {version.seq: version for version in self.versions}
        first = min((seq for seq in writes if seq not in own), default=0)
        before = max((seq for seq in own if seq < first), default=since)
        known = before >= after
        kept = {seq: version for seq, version in own.items() if known or seq >= first}
        versions = sorted({**writes, **kept}.values(), key=lambda version: -version.seq)
        return replace(self, versions=tuple(versions), cut=self.cut if known else versions[-1].seq)

    def pruned(self, horizon: int) -> tuple[Row, Sequence[Version]]:
        """Without the versions that no snapshot from `horizon` on sees (rule 23), and those."""
        kept = sum(seq > horizon for seq in _lazy(self.versions).numbers()) + 1
        if kept >= len(self.versions):
            return self, ()
        dropped = self.versions[kept:]
        return replace(self, versions=self.versions[:kept], cut=self.versions[kept - 1].seq), dropped


def encode_row(row: Row) -> bytes:
    """The object's bytes."""
    fields = {"id": row.id, "versions": _lazy(row.versions).fields(), "cut": row.cut}
    return _ENVELOPES.encode("row", fields)


def decode_row(data: bytes, *, key: str, where: str) -> Row:
    """The row of an object's key; `where` is the full name, for messages.

    Raises:
        CorruptObjectError: it isn't what any Firn writes there, but damaged, or another row's.
        UnsupportedError: it needs a newer Firn.
    """

    def read(raw: Mapping[str, Any]) -> Row:
        row = _row(raw)
        check_row_name(key, row.id)
        return row

    return _ENVELOPES.decode("row", data, where, read)


def _row(raw: Mapping[str, Any]) -> Row:
    numbers = [number(version["seq"], least=1) for version in raw["versions"]]
    if not numbers or (len(numbers) > 1 and numbers != sorted(set(numbers), reverse=True)):
        raise ValueError(f"its versions are {numbers}, which isn't newest first")
    for version in raw["versions"]:
        check_body(version)
        for entry in version["entries"]:
            text(entry)
    return Row(text(raw["id"]), Versions(raw["versions"]), number(raw["cut"]))


def _version(raw: Mapping[str, Any]) -> Version:
    body, ref = body_of(raw)
    return Version(raw["seq"], body, ref, tuple(raw["entries"]))


def _fields(version: Version) -> Mapping[str, Any]:
    return {
        "seq": version.seq,
        "entries": list(version.entries),
        **body_fields(version.body, version.ref),
    }


def _lazy(versions: Sequence[Version]) -> Versions:
    return versions if isinstance(versions, Versions) else Versions(versions)
