"""One SST or L0 object as it lies in a bucket: its index and its blocks, with the columns that the file has."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import pyarrow as pa

from firn.arrow.bloom import Bloom
from firn.bucket.base import Bucket, BytesLike
from firn.concurrency.single_flight import Flights
from firn.errors import CorruptObjectError, ObjectNotFoundError, UnsupportedError
from firn.keyed.encoding.columns import ENTRY_COLUMNS
from firn.keyed.encoding.entries import Entry
from firn.keyed.encoding.values import BYTES
from firn.keyed.sst.block import Block, Encoded
from firn.keyed.sst.cache import BlockCache, Sized
from firn.keyed.sst.decode import BlockDecoder
from firn.keyed.sst.index import SstIndex, spans
from firn.keyed.sst.tail import DamagedError, decode_tail, tail_bytes

WHOLE_BYTES = 256 << 10
"""Files up to this size are fetched whole: one request instead of two, for hardly more bytes."""

TAIL_BYTES = 64 << 10
TAIL_SHARE = 32
"""The end of a larger file that is fetched: at least so many bytes and its 32nd part; nearly every index fits in."""


class SstFile:
    """One SST of a bucket. Makes no request until it is asked something. Safe for several threads.

    It knows nothing of what the table's columns are by now: that is for `firn.keyed.sst.reader`, of which several may
    share a file.

    Args:
        key: the object's.
        size: its bytes, as the manifest or a LIST has them.
        cache: where its blocks are kept.
        typed: whether values are rows of columns.

    All methods raise `CorruptObjectError` for an object that isn't what was written, `UnsupportedError` for one of a
    later version, and what the bucket raises: `ObjectNotFoundError` if it is gone.
    """

    def __init__(self, bucket: Bucket, key: str, size: int, cache: BlockCache, *, typed: bool) -> None:
        self.key = key
        self.size = size
        self._bucket = bucket
        self._cache = cache
        self._typed = typed
        self._file = cache.file(bucket, key)
        self.base = self._file.base
        self._flights: Flights[Block | Encoded] = Flights()
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
    def is_open(self) -> bool:
        """Whether the index is here."""
        return self._index is not None

    @property
    def pairs(self) -> tuple[memoryview, int]:
        """The filter as `firn.arrow.bloom.passing` asks it; until it is here, one that lets everything pass."""
        return self._bloom.pairs, self._bloom.blocks

    def seed(self, data: BytesLike) -> None:
        """Take index and filter from the file's bytes, and the blocks as far as the cache likes: no request for what
        was written a moment ago."""
        with self._lock:
            if self._index is None:
                self._take(data)

    @property
    def names(self) -> list[str]:
        """The names of its value columns. The cost of `index`."""
        with self._refusing():
            names: list[str] = self._decoding().schema.names
            return names[len(ENTRY_COLUMNS) :]

    def may_have(self, hashed: int) -> bool:
        """Whether the filter takes a hashed key for present. The cost of `index`."""
        if self._index is None:
            self._load()
        return self._bloom.may_contain(hashed)

    def probed(self, number: int, found: Sized | None, key: bytes) -> list[Entry] | Block:
        """The entries of a key out of a block that the cache has as bytes, or hasn't; or the decoded block. The first
        key that is read of one whose values are bytes takes what it needs out of the encoded ones: decoding takes
        twice as long as fetching them, and many a block isn't read again. 1 ranged GET if it isn't in the cache."""
        if self._typed:
            return self._made(number, found)
        if found is None:
            held: dict[int, Block | Encoded] = {}
            self._obtain((number,), held, decoded=False)
            found = held[number]
        if isinstance(found, Encoded) and not found.asked:
            found.asked = True
            with self._refusing():
                decoder = self._decoding()
                if not found.checked:
                    decoder.check(found.data, range(number, number + 1))
                entries = decoder.entries(found.data, number, key)
            if entries is not None:
                return entries
        return self._made(number, found)

    def schema(self, columns: Sequence[str] | None) -> pa.Schema:
        """The columns of rows that `decode` gives."""
        return self._decoding().given(columns)

    def cached(self, block: int) -> Block | Encoded | None:
        """A block that is in the cache, without moving it there."""
        found = self._cache.peek(self.base | block)
        return found if isinstance(found, Block | Encoded) else None

    def blocks(self, numbers: Collection[int]) -> dict[int, Block]:
        """Blocks by their numbers, in that order, out of the cache or by 1 ranged GET a stretch of neighbours; those
        that another thread is fetching are waited for."""
        held: dict[int, Block | Encoded] = {}
        missing = []
        for number in numbers:
            found = self._cache.get(self.base | number)
            if found is None:
                missing.append(number)
            else:
                held[number] = self._made(number, found)
        self._obtain(missing, held)
        return {number: self._made(number, held[number]) for number in numbers}

    def fetch(self, blocks: range) -> bytes:
        """The bytes of neighbouring blocks: 1 ranged GET."""
        start, _ = self.index.extent(blocks.start)
        return self._bucket.get_range(self.key, start, self.index.ends[blocks.stop - 1] - start)

    def parts(self, blocks: range, most_bytes: int, *, reverse: bool = False) -> Iterator[range]:
        """Neighbouring blocks in parts that have up to so many bytes when they are decoded, or are one block."""
        return spans(blocks, self._decoding().weights.__getitem__, most_bytes, reverse=reverse)

    def decode(self, data: BytesLike, blocks: range, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Fetched bytes of blocks, checked and as rows; `columns` are value columns under their names in the file."""
        with self._refusing():
            return self._decoding().decode(data, blocks, columns)

    def refuse(self, why: str) -> NoReturn:
        """Raise, as the file isn't one of the table."""
        with self._refusing():
            raise DamagedError(why)

    @property
    def is_remote(self) -> bool:
        """Whether a request takes long enough to be worth a thread."""
        return self._bucket.capabilities.shareable and self._bucket.local_path(self.key) is None

    # -- inside

    def _made(self, number: int, found: Sized | None) -> Block:
        """A block that isn't in the cache, or is there as bytes."""
        if isinstance(found, Block):
            return found
        if isinstance(found, Encoded):
            return self._keep(number, found.data)
        held: dict[int, Block | Encoded] = {}
        self._obtain((number,), held)
        return self._made(number, held[number])

    def _obtain(
        self, missing: Collection[int], held: dict[int, Block | Encoded], *, decoded: bool = True
    ) -> None:
        """Have blocks that aren't in the cache: fetch those that no other thread is fetching, wait for the others,
        which may come as bytes."""
        while missing:
            mine, others = self._flights.claim(missing)
            if mine:
                self._fetch(mine, held, decoded)
            missing = []
            for number, flight in others.items():
                block = flight.wait()
                if block is None:
                    missing.append(number)
                else:
                    held[number] = block

    def _fetch(self, numbers: Sequence[int], held: dict[int, Block | Encoded], decoded: bool) -> None:
        """Fetch blocks that this thread has claimed, for all who want them."""
        try:
            absent = []
            for number in numbers:
                found = self._cache.peek(self.base | number)  # another thread may just have landed it
                if isinstance(found, Block | Encoded):
                    held[number] = block = self._made(number, found) if decoded else found
                    self._flights.land(number, block)
                else:
                    absent.append(number)
            for number, data in zip(absent, self._ranges(absent), strict=True):
                held[number] = block = self._keep(number, data) if decoded else self._hold(number, data)
                self._flights.land(number, block)
        except BaseException as error:
            self._flights.fail(numbers, error)
            raise

    def _ranges(self, numbers: Sequence[int]) -> list[bytes]:
        ranges = [self.index.extent(number) for number in numbers]
        if len(ranges) == 1:  # nothing to put together
            return [self._bucket.get_range(self.key, *ranges[0])]
        return self._bucket.get_ranges(self.key, ranges)

    def _keep(self, number: int, data: BytesLike) -> Block:
        block = Block(self.decode(data, range(number, number + 1)), typed=self._typed)
        self._cache.put(self._file, number, block)
        return block

    def _hold(self, number: int, data: bytes) -> Encoded:
        with self._refusing():
            self._decoding().check(data, range(number, number + 1))
        held = Encoded(data, checked=True)
        self._cache.put(self._file, number, held)
        return held

    def _load(self) -> SstIndex:
        with self._lock:
            if self._index is not None:
                return self._index
            length = min(self.size, max(TAIL_BYTES, self.size // TAIL_SHARE))
            if self.size <= WHOLE_BYTES:
                length = self.size
            end = self._end(length)
            with self._refusing():
                while (needed := tail_bytes(end, self.size)) > len(end):
                    # Parquet's footer alone was longer, or the index: rare, and never more than twice.
                    end = self._end(needed)
            return self._take(end)

    def _end(self, length: int) -> bytes:
        end = self._bucket.get_range(self.key, self.size - length, length)
        with self._refusing():
            if len(end) < length:
                raise DamagedError(f"it is shorter than the {self.size} bytes that the table knows of")
        return end

    def _take(self, end: BytesLike) -> SstIndex:
        """Take over the file's end, or all of it."""
        try:
            with self._refusing():
                tail = decode_tail(end, self.size)
        except UnsupportedError as error:
            raise UnsupportedError(f"{self._bucket.uri(self.key)} can't be read: {error}") from error
        self._footer = tail.footer
        self._bloom = Bloom(tail.bloom)
        self._index = tail.index
        if len(end) == self.size:
            self._offer(tail.index, memoryview(end))
        return tail.index

    def _offer(self, index: SstIndex, whole: memoryview) -> None:
        """The cache may have the blocks: as bytes, until one is read, and as copies, which don't hold the file."""
        room = self._cache.offered_bytes
        for number in range(index.blocks):
            start, length = index.extent(number)
            room -= length
            if room < 0:
                return
            self._cache.offer(self._file, number, Encoded(bytes(whole[start : start + length])))

    def _decoding(self) -> BlockDecoder:
        if self._decoder is None:
            index = self.index
            decoder = BlockDecoder(index, self._footer)
            names = decoder.schema.names
            if names[: len(ENTRY_COLUMNS)] != list(ENTRY_COLUMNS) or (
                not self._typed and names[len(ENTRY_COLUMNS) :] != BYTES.names
            ):
                raise DamagedError(
                    f"it has the columns {', '.join(names)}, which aren't a table's of this kind"
                )
            self._decoder = decoder
        return self._decoder

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Say that the object is damaged; or, of an empty one, that it is gone: a collected object may have a fence
        of long ago in its place, which landed late (rule 9 of the manifest). Once it is restored, it is read anew."""
        try:
            yield
        except DamagedError as error:
            if self._index is not None:
                self._cache.forget(self._file, self._index.blocks)
            if self.size and not self._bucket.head(self.key).size:
                raise ObjectNotFoundError(
                    f"{self._bucket.uri(self.key)} was compacted and collected"
                ) from error
            raise CorruptObjectError(
                f"{self._bucket.uri(self.key)} isn't the SST that was written: {error}. Restore the object from a "
                "backup or an older version of it, or read the table at a checkpoint that doesn't need it."
            ) from error
