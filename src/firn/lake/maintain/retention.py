"""Retention by age of partition: which partitions of a time lie wholly before a cutoff."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from firn.errors import InvalidInputError
from firn.lake.results import Partition

if TYPE_CHECKING:
    from firn.journal.model import Snapshot
    from firn.lake.table import LakeTable


def expired_partitions(table: LakeTable, snapshot: Snapshot, seconds: float) -> list[Partition]:
    """Partitions whose last possible moment is more than `seconds` ago. Null and unreadable values stay."""
    fields = [f for f in table.partition_spec.fields if f.is_time]
    if not fields:
        raise InvalidInputError(
            f"{table.name} isn't partitioned by a time (year, month, day or hour of a column), so its partitions "
            "have no age. Use delete(where) instead."
        )
    cutoff = time.time() * 1000 - seconds * 1000
    field = fields[0]
    expired = []
    for partition in table.partitions_of(snapshot).values():
        value = partition.values.get(field.name)
        end = None if value is None else field.upper_bound_ms(value)
        if end is not None and end <= cutoff:
            expired.append(partition)
    return expired
