"""The objects of a table's rows, as a LIST finds them. Other objects below their prefix are no rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from firn.bucket.base import Bucket, ObjectInfo
from firn.records.names.layout import RecordLayout

PAGE: Final = 1000
"""Rows whose names are listed at a time."""


def row_objects(bucket: Bucket, layout: RecordLayout, begins: str = "") -> list[ObjectInfo]:
    """Those of all rows whose names begin so. 1 LIST sequence."""
    listing = bucket.list(layout.rows + begins)
    return [info for info in listing.objects if layout.row_name(info.key) is not None]


def row_names(bucket: Bucket, layout: RecordLayout, begins: str = "") -> list[str]:
    """The names in their keys. 1 LIST sequence."""
    listing = bucket.list(layout.rows + begins)
    return [name for info in listing.objects if (name := layout.row_name(info.key)) is not None]


def row_pages(bucket: Bucket, layout: RecordLayout, begins: str = "") -> Iterator[list[str]]:
    """The same, a page of the LIST at a time."""
    after: str | None = None
    while True:
        page = bucket.list(layout.rows + begins, after=after, limit=PAGE)
        yield [name for info in page.objects if (name := layout.row_name(info.key))]
        if not page.more:
            return
        after = page.objects[-1].key
