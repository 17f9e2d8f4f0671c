"""A table's definition as it was changed after its creation: entries that are joined, none is chosen.

On top of what a table was created with stands a map of (kind, name) → (value, clock, writer). Two maps are joined
entry by entry: the greatest (clock, writer) wins; of `default`, `spec` and `seen` the least, as rows were read and
written by them. So joining is commutative, associative and idempotent, and the changes of two writers that don't
know of each other both count. See docs/design/0012-conflicting-types.md. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from firn.errors import CorruptObjectError

PROPERTY: Final = "prop"
NAME: Final = "name"
DROP: Final = "drop"
COMMENT: Final = "comment"
DEFAULT: Final = "default"
CHECK: Final = "check"
SPEC: Final = "spec"
PARTITION: Final = "partition"
SORT_BY: Final = "sort_by"
TYPE: Final = "type"
INTO: Final = "into"
SEEN: Final = "seen"
TIME: Final = "time"
FEATURE: Final = "feature"
"""Kinds of entries. Frozen: they stand in logs and catalogs."""

_LEAST = frozenset((DEFAULT, SPEC, SEEN))

LIMIT: Final = 10_000
"""Entries of one definition: it is read with each maintenance log."""


class DefinitionEntry(NamedTuple):
    """A value, with the clock and the writer that set it ("" on the leaderless log). The later of two counts."""

    value: Any
    clock: int
    writer: str = ""

    @property
    def stamp(self) -> tuple[int, str, str]:
        return self.clock, self.writer, repr(self.value)


@dataclass(frozen=True)
class Entries:
    """Immutable.

    >>> one = Entries().changed({(PROPERTY, "codec"): "snappy"})
    >>> one.of(PROPERTY), one.joined(Entries()) == one, one.to_json()
    ({'codec': 'snappy'}, True, {'clock': 1, 'prop': {'codec': ['snappy', 1, '']}})
    """

    map: Mapping[tuple[str, str], DefinitionEntry] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.map)

    @property
    def clock(self) -> int:
        """The greatest that it has seen."""
        return max((entry.clock for entry in self.map.values()), default=0)

    def of(self, kind: str) -> dict[str, Any]:
        """Name → value of one kind; None where it was taken back."""
        return {name: entry.value for (found, name), entry in self.map.items() if found == kind}

    def present(self, kind: str) -> dict[str, Any]:
        """`of` without what was taken back."""
        return {name: value for name, value in self.of(kind).items() if value is not None}

    def joined(self, other: Entries) -> Entries:
        if not other.map or other is self:
            return self
        if not self.map:
            return other
        found = dict(self.map)
        for key, entry in other.map.items():
            there = found.get(key)
            if there is None or (
                entry.stamp < there.stamp if key[0] in _LEAST else entry.stamp > there.stamp
            ):
                found[key] = entry
        return self if found == self.map else Entries(found)

    def changed(self, changes: Mapping[tuple[str, str], Any], writer: str = "", *, clock: int = 0) -> Entries:
        """With these values, all of one clock: 1 above the greatest, or `clock` if that is more."""
        clock = max(self.clock + 1, clock)
        made = Entries({key: DefinitionEntry(value, clock, writer) for key, value in changes.items()})
        return self.joined(made)

    def only(self, *kinds: str) -> Entries:
        return Entries({key: entry for key, entry in self.map.items() if key[0] in kinds})

    def without(self, *kinds: str) -> Entries:
        return Entries({key: entry for key, entry in self.map.items() if key[0] not in kinds})

    def to_json(self) -> dict[str, Any]:
        """Kind → name → [value, clock, writer], keys sorted, and the greatest clock."""
        raw: dict[str, Any] = {"clock": self.clock}
        for (kind, name), entry in sorted(self.map.items(), key=lambda item: item[0]):
            raw.setdefault(kind, {})[name] = list(entry)
        return raw

    @staticmethod
    def from_json(raw: Mapping[str, Any], where: str) -> Entries:
        """Kinds that this version doesn't know are kept. `CorruptObjectError` for what no Firn writes."""
        try:
            found = {
                (kind, name): DefinitionEntry(value, int(clock), str(writer))
                for kind, names in raw.items()
                if kind != "clock"
                for name, (value, clock, writer) in names.items()
            }
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CorruptObjectError(
                f"the definition in {where} can't be read ({error!r}). Restore the object from a backup or an older "
                "object version; nothing else was touched."
            ) from error
        return Entries(found)


def time_entry(property: str, at_ms: int) -> tuple[str, str]:
    """The key of the entry that says what a protocol time was set to at a time."""
    return TIME, f"{property} {at_ms}"


def times_in_force(
    definition: Entries, property: str, created_ms: int, now_ms: int, slack_ms: int
) -> list[int]:
    """The values of a protocol time, in milliseconds, that somebody may still go by though it was changed since:
    those that were in force within themselves and `slack_ms` before now. `created_ms` is the table's first one.

    >>> changed = Entries().changed({time_entry("orphan_age", 5_000): 100})
    >>> times_in_force(changed, "orphan_age", 1_000, 5_500, 0), times_in_force(changed, "orphan_age", 1_000, 9_000, 0)
    ([1000], [])
    """
    return [ms for ms, _, until in _held(definition, property, created_ms) if until + ms + slack_ms > now_ms]


def times_between(
    definition: Entries, property: str, present_ms: int, begin_ms: int, end_ms: int
) -> list[int]:
    """The values of a protocol time, in milliseconds, that were in force at some time from `begin_ms` to `end_ms`.

    >>> changed = Entries().changed({time_entry("orphan_age", 0): 1_000, time_entry("orphan_age", 5_000): 100})
    >>> [times_between(changed, "orphan_age", 100, begin, 7_000) for begin in (4_000, 6_000)]
    [[1000, 100], [100]]
    """
    held = _held(definition, property, present_ms)
    found = [ms for ms, since, until in held if until > begin_ms and since <= end_ms]
    return [*found, present_ms] if last_time(definition, property) <= end_ms else found


def times_since(definition: Entries, property: str, created_ms: int, begin_ms: int) -> list[int]:
    """The values of a protocol time before the present one, in milliseconds, that were in force at `begin_ms` or
    later. `created_ms` is the table's first one.

    >>> changed = Entries().changed({time_entry("tombstone_grace", 5_000): 100})
    >>> [times_since(changed, "tombstone_grace", 1_000, begin) for begin in (4_000, 6_000)]
    [[1000], []]
    """
    return [ms for ms, _, until in _held(definition, property, created_ms) if until > begin_ms]


def last_time(definition: Entries, property: str) -> int:
    """When a protocol time was set last, in Unix ms; 0 if never."""
    return max((at for at, _ in _changes(definition, property)), default=0)


def _held(definition: Entries, property: str, created_ms: int) -> list[tuple[int, int, int]]:
    """The values that a protocol time had before the present one, each with when it began and ended."""
    changes = _changes(definition, property)
    held = [(created_ms, 0), *((ms, at) for at, ms in changes)]
    return [(ms, since, until) for (ms, since), (until, _) in zip(held, changes, strict=False)]


def _changes(definition: Entries, property: str) -> list[tuple[int, int]]:
    """When a protocol time was set, and to what."""
    changes = []
    for name, ms in definition.of(TIME).items():
        changed, _, at = name.rpartition(" ")
        if changed == property:
            changes.append((int(at), int(ms)))
    return sorted(changes)
