"""Where SSTs are read: keys or ranges in, entries or Arrow batches out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from firn.bucket.base import Bucket
from firn.keyed.cache import BlockCache
from firn.keyed.sst_index import SstIndex

if TYPE_CHECKING:
    from firn.keyed.entries import Entry


class SstReader:
    """One SST of a bucket. Makes no request until it is asked something. Safe for several threads.

    Args:
        size: the object's bytes, as the manifest or a LIST has them.
        values: the columns of the values.
    """

    def __init__(self, bucket: Bucket, key: str, size: int, cache: BlockCache, *, values: pa.Schema) -> None:
        self.key = key

    @property
    def index(self) -> SstIndex:
        """The block index. 1 ranged GET the first time, 2 for a very long one; nothing afterwards."""
        raise AssertionError

    def may_contain(self, key: bytes) -> bool:
        """False only if no version of the key is here. Costs what `index` does."""
        raise AssertionError

    def get(self, key: bytes) -> list[Entry]:
        """All versions of a key, newest first; [] if there is none.

        Cost: that of `index`, then 1 ranged GET if the block isn't in the cache, and none for most absent keys.
        """
        raise AssertionError

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, list[Entry]]:
        """`get` of many keys, sorted, with the blocks' GETs in flight together; absent keys are left out."""
        raise AssertionError

    def scan(
        self,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        reverse: bool = False,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The entries with start ≤ key < end in the run's order, or exactly backwards with `reverse`.

        `columns` are the value columns wanted, in this order; the entry columns always come. No batch is empty.
        Cost: 1 ranged GET a span of blocks, spans growing from one block to a few MiB.
        """
        raise AssertionError
