"""Where SSTs are read: keys or ranges in, entries or Arrow batches out."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import NoReturn, cast

import pyarrow as pa

from firn.arrow.bloom import Bloom, hash64
from firn.bucket.base import Bucket, BytesLike
from firn.errors import CorruptObjectError, ObjectNotFoundError, UnsupportedError
from firn.keyed.block import Block
from firn.keyed.cache import BlockCache
from firn.keyed.entries import Entry
from firn.keyed.sst_decode import BlockDecoder
from firn.keyed.sst_index import SstIndex
from firn.keyed.sst_scan import scan_blocks
from firn.keyed.sst_tail import DamagedError, decode_tail, tail_bytes
from firn.keyed.values import Values

WHOLE_BYTES = 256 << 10
"""Files up to this size are fetched whole: one request instead of two, for hardly more bytes."""

TAIL_BYTES = 64 << 10
TAIL_SHARE = 32
"""What is fetched from the end of a larger file, at least so many bytes and its 32nd part; nearly every index fits
in."""


class SstReader:
    """One SST of a bucket. Makes no request until it is asked something. Safe for several threads.

    Args:
        key: the object's.
        size: its bytes, as the manifest or a LIST has them.
        cache: where its blocks are kept.
        values: those of the table.

    All methods raise `CorruptObjectError` for an object that isn't what was written, `UnsupportedError` for one of a
    later version, and what the bucket raises: `ObjectNotFoundError` if it is gone.
    """

    def __init__(self, bucket: Bucket, key: str, size: int, cache: BlockCache, *, values: Values) -> None:
        self.key = key
        self.size = size
        self._bucket = bucket
        self._cache = cache
        self._values = values
        self._base = cache.number(bucket, key) << 32
        self._lock = threading.Lock()
        self._index: SstIndex | None = None
        self._bloom = Bloom(b"")
        self._footer = b""
        self._decoder: BlockDecoder | None = None

    @property
    def index(self) -> SstIndex:
        """The block index. 1 ranged GET the first time, 2 if it's long, 3 if Parquet's footer is; nothing later."""
        return self._index or self._load()

    @property
    def nbytes(self) -> int:
        """About what the index and filter take of memory; 0 as long as they aren't here."""
        index = self._index
        if index is None:
            return 0
        return self._bloom.nbytes + 6 * len(self._footer) + sum(map(len, index.lows)) + 200 * index.blocks

    def seed(self, data: BytesLike) -> None:
        """Take index and filter from the file's bytes, and the blocks as far as the cache likes: no request for what
        was written a moment ago."""
        self._take(data)

    def may_contain(self, key: bytes) -> bool:
        """False only if no version of the key is here. Costs what `index` does."""
        index = self._index or self._load()
        return index.lows[0] <= key <= index.max_key and self._bloom.may_contain(hash64(key))

    def get(self, key: bytes, hashed: int | None = None) -> list[Entry]:
        """All versions of a key, newest first; [] if there is none.

        `hashed` is the key's `hash64` where the caller has it. Cost: that of `index`, then 1 ranged GET if the
        block isn't in the cache; none for ninety-nine in a hundred absent keys.
        """
        index = self._index or self._load()
        if not self._bloom.may_contain(hash64(key) if hashed is None else hashed):
            return []
        blocks = index.blocks_of(key)
        if len(blocks) == 1:
            return self._block(blocks.start).versions(key)
        return [entry for block in blocks for entry in self._block(block).versions(key)]

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, list[Entry]]:
        """`get` of many sorted keys, with the GETs in flight together; keys that aren't here are left out.

        Cost: that of `index`, then 1 ranged GET for each stretch of blocks that aren't in the cache.
        """
        index = self._index or self._load()
        may = self._bloom.may_contain
        wanted = [(key, index.blocks_of(key)) for key in keys if may(hash64(key))]
        held = self._blocks(dict.fromkeys(block for _, blocks in wanted for block in blocks))
        found: dict[bytes, list[Entry]] = {}
        for key, blocks in wanted:
            entries = [entry for block in blocks for entry in held[block].versions(key)]
            if entries:
                found[key] = entries
        return found

    def scan(
        self,
        start: bytes | None = None,
        end: bytes | None = None,
        *,
        reverse: bool = False,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The entries with start ≤ key < end in the run's order, or exactly backwards with `reverse`.

        `columns` are the value columns wanted, in this order; the entries' own columns always come. No batch is
        empty. Cost: that of `index`, then 1 ranged GET a span of blocks; spans grow from one block to a few MiB,
        and the next one is fetched while the caller is busy with the last. A span that is whole in the cache isn't
        fetched.
        """
        return scan_blocks(self, start, end, reverse=reverse, columns=columns)

    # -- for firn.keyed.sst_scan

    def cached(self, block: int) -> Block | None:
        """A block that is in the cache, without moving it there."""
        return cast("Block | None", self._cache.peek(self._base | block))

    def block(self, block: int) -> Block:
        """A block by its number, out of the cache or by 1 ranged GET."""
        return self._block(block)

    def fetch(self, blocks: range) -> bytes:
        """The bytes of neighbouring blocks: 1 ranged GET."""
        start, _ = self.index.extent(blocks.start)
        return self._bucket.get_range(self.key, start, self.index.ends[blocks.stop - 1] - start)

    def decode(self, data: BytesLike, blocks: range, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """What was fetched, checked and as rows."""
        try:
            return self._decoding().decode(data, blocks, columns)
        except DamagedError as error:
            self._refuse(error)

    @property
    def is_remote(self) -> bool:
        """Whether a request takes long enough to be worth a thread."""
        return self._bucket.capabilities.shareable and self._bucket.local_path(self.key) is None

    # -- inside

    def _block(self, number: int) -> Block:
        found = self._cache.get(self._base | number)
        if found is not None:
            return cast("Block", found)
        return self._keep(number, self.fetch(range(number, number + 1)))

    def _blocks(self, numbers: dict[int, None]) -> dict[int, Block]:
        held: dict[int, Block] = {}
        missing = []
        for number in numbers:
            found = self._cache.get(self._base | number)
            if found is None:
                missing.append(number)
            else:
                held[number] = cast("Block", found)
        ranges = [self.index.extent(number) for number in missing]
        for number, data in zip(missing, self._bucket.get_ranges(self.key, ranges), strict=True):
            held[number] = self._keep(number, data)
        return held

    def _keep(self, number: int, data: BytesLike) -> Block:
        block = Block(self.decode(data, range(number, number + 1)), self._values)
        self._cache.put(self._base | number, block)
        return block

    def _load(self) -> SstIndex:
        with self._lock:
            if self._index is not None:
                return self._index
            length = min(self.size, max(TAIL_BYTES, self.size // TAIL_SHARE))
            if self.size <= WHOLE_BYTES:
                length = self.size
            end = self._bucket.get_range(self.key, self.size - length, length)
            try:
                if len(end) < length:
                    raise DamagedError(f"it is shorter than the {self.size} bytes that the table knows of")
                while (needed := tail_bytes(end, self.size)) > len(end):
                    # Parquet's footer alone was longer, or the index: rare, and never more than twice.
                    end = self._bucket.get_range(self.key, self.size - needed, needed)
                    if len(end) < needed:
                        raise DamagedError(
                            f"it is shorter than the {self.size} bytes that the table knows of"
                        )
            except DamagedError as error:
                self._refuse(error)
            return self._take(end)

    def _take(self, end: BytesLike) -> SstIndex:
        """Take over the file's end, or all of it."""
        try:
            tail = decode_tail(end, self.size)
        except DamagedError as error:
            self._refuse(error)
        except UnsupportedError as error:
            raise UnsupportedError(f"{self._bucket.uri(self.key)} can't be read: {error}") from error
        self._footer = tail.footer
        self._bloom = Bloom(tail.bloom)
        self._index = tail.index
        if len(end) == self.size:
            view = memoryview(end)
            for number in range(tail.index.blocks):
                start, length = tail.index.extent(number)
                self._keep(number, view[start : start + length])
        return tail.index

    def _decoding(self) -> BlockDecoder:
        if self._decoder is None:
            index = self.index
            self._decoder = BlockDecoder(index, self._footer, self._values.run_schema)
        return self._decoder

    def _refuse(self, error: DamagedError) -> NoReturn:
        """Say that the object is damaged; or, of an empty one, that it is gone: what was collected may have a fence
        of long ago in its place, which landed late (rule 9 of the manifest)."""
        if self.size and not self._bucket.head(self.key).size:
            raise ObjectNotFoundError(f"{self._bucket.uri(self.key)} was compacted and collected") from error
        raise CorruptObjectError(
            f"{self._bucket.uri(self.key)} isn't the SST that was written: {error}. Restore the object from a backup "
            "or an older version of it, or read the table at a checkpoint that doesn't need it."
        ) from error
