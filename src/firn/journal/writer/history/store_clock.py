"""The store's clock: ages are told by it alone, as clients' clocks may be off by hours."""

from __future__ import annotations

from firn.bucket.base import Bucket
from firn.journal.writer.format.layout import WriterLayout


def store_now(bucket: Bucket, layout: WriterLayout) -> int:
    """Unix milliseconds, of a moment ago: when an object was written that exists for this alone. 1 PUT + 1 HEAD."""
    bucket.put(layout.clock_key, b"")
    return bucket.head(layout.clock_key).modified_ms
