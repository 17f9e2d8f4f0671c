"""Which L0 objects count: the walk. Pure.

The owner of number n is the last writer whose numbers begin at or below n. Walk up from last_compacted + 1, and
stop at the first number whose owner has no object there, or a fence: an empty one. All walked flushes are final,
since the next writer begins above them; all others are a zombie's, or not acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firn.journal.manifest.layout import ManifestLayout
from firn.journal.manifest.model import EpochInfo, L0File, Pointer


def owner(infos: Sequence[EpochInfo], number: int) -> EpochInfo | None:
    """Whose flush a number is: the last writer that begins at or below it.

    Example:
        >>> infos = [EpochInfo(1, 0, "a"), EpochInfo(2, 3, "b"), EpochInfo(3, 3, "c")]
        >>> [owner(infos, n).writer_epoch for n in (0, 2, 3, 9)]
        [1, 1, 3, 3]
    """
    for info in reversed(infos):
        if info.starting_sst <= number:
            return info
    return None


def walk(infos: Sequence[EpochInfo], last_compacted: int, files: Iterable[L0File]) -> tuple[L0File, ...]:
    """The L0 objects that count, newest first."""
    found = {(file.epoch, file.number): file for file in files}
    walked: list[L0File] = []
    number = last_compacted + 1
    while True:
        info = owner(infos, number)
        file = None if info is None else found.get((info.writer_epoch, number))
        if file is None or is_fence(file):
            return tuple(reversed(walked))
        walked.append(file)
        number += 1


def is_fence(file: L0File) -> bool:
    """Whether it only keeps a writer from putting a flush there."""
    return file.bytes == 0


def listed_after(layout: ManifestLayout, pointer: Pointer, last_compacted: int) -> str:
    """Where a LIST has to begin to show all that the walk may need, and nothing compacted of the same writer."""
    info = owner(pointer.infos, last_compacted + 1)
    return layout.before_l0(pointer.first_epoch if info is None else info.writer_epoch, last_compacted + 1)


def reduced(infos: Sequence[EpochInfo], last_compacted: int) -> tuple[EpochInfo, ...]:
    """The writers that the walk from there still needs (rule 12): one may go when the next begins at or below
    the first number that isn't compacted. The last stays, so that epochs rise and a zombie learns that it is one.

    Example:
        >>> infos = [EpochInfo(1, 0, "a"), EpochInfo(2, 3, "b"), EpochInfo(3, 6, "c")]
        >>> [i.writer_epoch for i in reduced(infos, 1)], [i.writer_epoch for i in reduced(infos, 2)]
        ([1, 2, 3], [2, 3])
        >>> [i.writer_epoch for i in reduced(infos, 99)]
        [3]
    """
    kept = list(infos)
    while len(kept) > 1 and kept[1].starting_sst <= last_compacted + 1:
        kept.pop(0)
    return tuple(kept)
