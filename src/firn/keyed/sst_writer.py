"""Where SSTs are made: a run in, the bytes of one Parquet file with its block index out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from firn.keyed.sst_schema import sst_schema

Compression = Literal["zstd", "lz4"] | None

BLOCK_BYTES = 128 << 10
BLOOM_BITS = 10


@dataclass(frozen=True)
class Sst:
    """An SST's bytes and what its `SSTInfo` says of them."""

    data: bytes
    min_key: bytes
    max_key: bytes
    rows: int
    max_seq: int
    tombstones: int
    min_expire: int | None


class SstWriter:
    """Makes one SST in memory. Not for several threads.

    Args:
        values: the columns of the values, see `sst_schema`.
        block_bytes: Arrow bytes of a block, about.
        bloom_bits: bits a key of the Bloom filter; 10 take one absent key in a hundred for present. 0: no filter.
    """

    def __init__(
        self,
        values: pa.Schema,
        *,
        block_bytes: int = BLOCK_BYTES,
        compression: Compression = "zstd",
        bloom_bits: int = BLOOM_BITS,
    ) -> None:
        self._schema = sst_schema(values)
        self._size = 0

    @property
    def size(self) -> int:
        """Bytes so far, without the index."""
        return self._size

    def add(self, batch: pa.RecordBatch) -> None:
        """Add entries: all above those added before in (key ascending, seq descending).

        Raises:
            InvalidInputError: the columns aren't those of `sst_schema`, or the order is broken.
        """

    def finish(self) -> Sst:
        """The file; the writer is of no use afterwards. InvalidInputError if nothing was added."""
        return Sst(b"", b"", b"", 0, 0, 0, None)
