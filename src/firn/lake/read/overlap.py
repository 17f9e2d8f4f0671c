"""Which files of a table with a key can't share keys, by the least and the greatest that statistics tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from firn.journal.model import ColumnTypes, DataFile
from firn.lake.definition.keys import KeySpec
from firn.lake.parquet.source import WHOLE_BYTES
from firn.lumps import lumps
from firn.predicate.domain import decoder


def apart(files: Sequence[DataFile], keys: KeySpec, columns: ColumnTypes) -> list[list[DataFile]]:
    """The files in parts, no key being in two of these, by the order of keys; in each part they stand as given.

    Files that share a key overlap in each of its columns. So the files are split by one column after the other.

    Args:
        columns: the table's. Statistics count as far as they surely tell about values of these types.

    >>> files = [DataFile(f"t/{n}", 1, 0, {"stats": {"id": [n, n + 2, 0]}}) for n in (7, 1, 3, 4)]
    >>> [[file.path for file in part] for part in apart(files, KeySpec(("id",)), {"id": "BIGINT"})]
    [['t/1', 't/3', 't/4'], ['t/7']]
    """
    parts = [list(files)]
    for name in keys.bound(columns).key:
        if name in columns:
            parts = [each for part in parts for each in _apart(part, name, columns[name])]
    return parts


def _apart(files: list[DataFile], name: str, kind: str) -> list[list[DataFile]]:
    """The files in parts whose ranges of one column don't meet; all in one, if one range isn't known."""
    decode = decoder(kind)
    ranges: list[tuple[Any, Any, int]] = []
    for at, file in enumerate(files):
        entry = file.stats.get(name)
        low, high = (None, None) if entry is None or entry[2] != 0 else decode(entry)
        if low is None or high is None:
            return [files]
        ranges.append((low, high, at))
    parts: list[list[int]] = []
    end: Any = None
    for low, high, at in sorted(ranges):
        if not parts or low > end:
            parts.append([])
            end = high
        parts[-1].append(at)
        end = max(end, high)
    return [[files[at] for at in sorted(part)] for part in parts]


def together(parts: Iterable[Sequence[DataFile]]) -> list[list[DataFile]]:
    """The same files, with as many parts in one as are fetched at once; the keys of more would take memory for
    nothing."""
    found = lumps(parts, lambda part: sum(file.size for file in part), WHOLE_BYTES)
    return [[*chain.from_iterable(lump)] for lump in found]
