"""Retention by age of partition: those of a time that lie wholly before a cutoff are removed."""

from __future__ import annotations

import time
from datetime import timedelta

from firn.errors import InvalidInputError
from firn.journal.model import Snapshot
from firn.lake.context import LakeContext
from firn.lake.maintain.delete import remove_partitions
from firn.lake.read.placed import placed
from firn.lake.results import ChangeResult, Partition
from firn.units import parse_duration


def expire(table: LakeContext, older_than: float | str | timedelta | None, *, dry_run: bool) -> ChangeResult:
    """See `LakeTable.expire`."""
    snapshot = table.journal.snapshot()
    table = table.at(snapshot)
    age = older_than if older_than is not None else table.definition.setting("retention")
    if age is None:
        raise InvalidInputError(
            f"{table.name} has no retention; pass expire(older_than='90d'), or set it with "
            "alter(set_properties={'retention': '90d'})."
        )
    return remove_partitions(table, _expired(table, snapshot, parse_duration(age)), dry_run=dry_run)


def _expired(table: LakeContext, snapshot: Snapshot, seconds: float) -> list[Partition]:
    """Partitions whose last possible moment is more than `seconds` ago. Null and unreadable values stay."""
    present = table.partition_spec
    if not any(f.is_time for spec in (present, *present.older) for f in spec.fields):
        raise InvalidInputError(
            f"{table.name} isn't partitioned by a time (year, month, day or hour of a column), so its partitions "
            "have no age. Use delete(where) instead."
        )
    cutoff = time.time() * 1000 - seconds * 1000
    expired = []
    for place, partition in table.partitions_of(placed(table, snapshot)).items():
        field = next((f for f in present.of_id(place.spec).fields if f.is_time), None)
        value = None if field is None else partition.values.get(field.name)
        end = None if field is None or value is None else field.upper_bound_ms(value)
        if end is not None and end <= cutoff:
            expired.append(partition)
    return expired
