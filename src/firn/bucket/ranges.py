"""Which ranges of an object one request may fetch together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from firn.errors import InvalidInputError

MAX_GAP = 64 * 1024
"""Bytes between two ranges that are cheaper to fetch than a second request."""


class Span(NamedTuple):
    """One request, and which of the wanted ranges it holds."""

    start: int
    length: int
    members: tuple[int, ...]


def check_range(start: int, length: int) -> None:
    if start < 0 or length < 0:
        raise InvalidInputError(f"the range ({start}, {length}) is not a start and a length, both ≥ 0")


def coalesce(ranges: Sequence[tuple[int, int]], max_gap: int = MAX_GAP) -> list[Span]:
    """Spans that cover the ranges (start, length), in order of their start; empty ranges need none.

    Example:
        >>> coalesce([(100, 10), (0, 10), (10**6, 5), (50, 0)], max_gap=90)
        [Span(start=0, length=110, members=(1, 0)), Span(start=1000000, length=5, members=(2,))]
    """
    for start, length in ranges:
        check_range(start, length)
    spans: list[Span] = []
    for i in sorted((i for i, (_, length) in enumerate(ranges) if length), key=lambda i: ranges[i]):
        start, length = ranges[i]
        if spans and start - (spans[-1].start + spans[-1].length) <= max_gap:
            last = spans.pop()
            end = max(last.start + last.length, start + length)
            spans.append(Span(last.start, end - last.start, (*last.members, i)))
        else:
            spans.append(Span(start, length, (i,)))
    return spans


def fetch(
    ranges: Sequence[tuple[int, int]],
    read: Callable[[int, int], bytes],
    many: Callable[[Callable[[Span], bytes], Sequence[Span]], Iterable[bytes]] = map,
) -> list[bytes]:
    """The ranges' bytes, in their order, with one `read(start, length)` a span, all of them called by `many`."""
    results = [b""] * len(ranges)
    spans = coalesce(ranges)
    for span, data in zip(spans, many(lambda s: read(s.start, s.length), spans), strict=True):
        for i in span.members:
            start, length = ranges[i]
            results[i] = data[start - span.start : start - span.start + length]
    return results
