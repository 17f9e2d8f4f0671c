"""Where SSTs are read: keys or ranges in, entries or Arrow batches out, with the columns that the table has."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from weakref import WeakValueDictionary

import pyarrow as pa

from firn.arrow.bloom import hash64
from firn.bucket.base import Bucket, BytesLike
from firn.concurrency.parallel import in_flight
from firn.errors import CorruptObjectError, ObjectNotFoundError
from firn.keyed.encoding.entries import Entry
from firn.keyed.encoding.layouts import Reading, reading
from firn.keyed.encoding.values import Values
from firn.keyed.sst.block import Block, Encoded, RowOf
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.file import SstFile
from firn.keyed.sst.index import SstIndex
from firn.keyed.sst.scan import scan_blocks


class SstReader:
    """One SST of a bucket, as a table reads it. No request until it is asked something. Safe for several threads.

    Args:
        key: the object's.
        size: its bytes, as the manifest or a LIST has them.
        cache: where its blocks are kept.
        values: those of the table. The file may have been written before a column was added, dropped or widened.
        file: the object, where another reader of it is here.

    All methods raise `CorruptObjectError` for an object that isn't what was written, `UnsupportedError` for one of a
    later version, and what the bucket raises: `ObjectNotFoundError` if it is gone.
    """

    def __init__(
        self,
        bucket: Bucket,
        key: str,
        size: int,
        cache: BlockCache,
        *,
        values: Values,
        file: SstFile | None = None,
    ) -> None:
        self.key = key
        self.size = size
        self._bucket, self._cache, self._values = bucket, cache, values
        self._file = SstFile(bucket, key, size, cache, typed=values.typed) if file is None else file
        self._readings: dict[tuple[tuple[str, ...] | None, bool], Reading] = {}
        self._row_of: RowOf | None = None

    def under(self, values: Values) -> SstReader:
        """The same object, read with the columns that the table has by another definition. No request."""
        if self._values is values or self._values.same(values):
            return self
        return SstReader(self._bucket, self.key, self.size, self._cache, values=values, file=self._file)

    @property
    def index(self) -> SstIndex:
        """The block index. 1 ranged GET the first time, 2 if it's long, 3 if Parquet's footer is; nothing later."""
        return self._file.index

    @property
    def is_open(self) -> bool:
        """Whether the index is here."""
        return self._file.is_open

    @property
    def is_remote(self) -> bool:
        """Whether a request takes long enough to be worth a thread."""
        return self._file.is_remote

    @property
    def names(self) -> list[str]:
        """The names of the file's own value columns. The cost of `index`."""
        return self._file.names

    @property
    def pairs(self) -> tuple[memoryview, int]:
        """The filter as `firn.arrow.bloom.passing` asks it; until it is here, one that lets everything pass."""
        return self._file.pairs

    def seed(self, data: BytesLike) -> None:
        """Take index and filter from the file's bytes, and the blocks as far as the cache likes: no request for what
        was written a moment ago."""
        self._file.seed(data)

    def get(self, key: bytes, hashed: int | None = None) -> list[Entry]:
        """All versions of a key, newest first; [] if there is none.

        `hashed` is the key's `hash64` where the caller has it. Cost: that of `index`, then 1 ranged GET if the
        block isn't in the cache; none for ninety-nine in a hundred absent keys.
        """
        if not self._file.may_have(hash64(key) if hashed is None else hashed):
            return []
        return self.versions(key)

    def versions(self, key: bytes) -> list[Entry]:
        """`get` of a key that the filter takes for present."""
        index = self._file.index
        lows = index.lows
        at = bisect_right(lows, key) - 1
        if at < 0 or key > index.max_key:
            return []
        if index.continued[at] and lows[at] == key:
            blocks = self.blocks(index.blocks_of(key))
            row_of = self._rows_of()
            return [entry for block in blocks.values() for entry in block.versions(key, row_of)]
        held = self._cache.get(self._file.base | at)
        found = held if type(held) is Block else self._file.probed(at, held, key)
        if isinstance(found, Block):
            return found.versions(key, self._row_of or self._rows_of())
        return found

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, list[Entry]]:
        """`get` of many sorted keys, with the GETs in flight together; keys that aren't here are left out.

        Cost: that of `index`, then 1 ranged GET for each stretch of blocks that aren't in the cache.
        """
        index, may = self._file.index, self._file.may_have
        wanted = [(key, index.blocks_of(key)) for key in keys if may(hash64(key))]
        held = self.blocks(dict.fromkeys(block for _, blocks in wanted for block in blocks))
        row_of = self._rows_of() if held else None
        found: dict[bytes, list[Entry]] = {}
        for key, blocks in wanted:
            entries = [entry for block in blocks for entry in held[block].versions(key, row_of)]
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
        keep: bool = False,
        runs: int = 1,
    ) -> Iterator[pa.RecordBatch]:
        """The entries with start ≤ key < end in the run's order, or exactly backwards with `reverse`.

        `columns` are the value columns wanted, in the table's order; the entries' own columns always come. `keep`
        puts the blocks into the cache: for short scans, as long ones would push out everything else. No batch is
        empty. `runs` is how many are scanned together: they share what is read ahead.

        Cost: that of `index`, then 1 ranged GET a span of blocks; spans grow from one block to a few MiB, and the
        next one is fetched while the caller is busy with the last. A span that is whole in the cache isn't fetched.
        With `keep` they begin with 1 MiB, and blocks that are in the cache aren't fetched.
        """
        return scan_blocks(self, start, end, reverse=reverse, columns=columns, keep=keep, runs=runs)

    # -- for firn.keyed.sst.scan

    def cached(self, block: int) -> Block | Encoded | None:
        """A block that is in the cache, without moving it there."""
        return self._file.cached(block)

    def blocks(self, numbers: Collection[int]) -> dict[int, Block]:
        """Blocks by their numbers, in that order, out of the cache or by 1 ranged GET a stretch of neighbours; those
        that another thread is fetching are waited for."""
        return self._file.blocks(numbers)

    def fetch(self, blocks: range) -> bytes:
        """The bytes of neighbouring blocks: 1 ranged GET."""
        return self._file.fetch(blocks)

    def parts(self, blocks: range, most_bytes: int, *, reverse: bool = False) -> Iterator[range]:
        """Neighbouring blocks in parts that have up to so many bytes when they are decoded, or are one block."""
        return self._file.parts(blocks, most_bytes, reverse=reverse)

    def rows(self, block: Block, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """A block as rows of the table; `columns` are those of its value columns that are wanted."""
        return self._reading(columns, whole=True).batch(block.batch)

    def decode(self, data: BytesLike, blocks: range, columns: Sequence[str] | None = None) -> pa.RecordBatch:
        """Fetched bytes of blocks, checked and as rows of the table."""
        how = self._reading(columns, whole=columns is None)
        return how.batch(self._file.decode(data, blocks, self._own(columns)))

    # -- inside

    def _rows_of(self) -> RowOf:
        found = self._row_of
        if found is None:
            found = self._row_of = self._reading(None, whole=True).row
        return found

    def _reading(self, columns: Sequence[str] | None, *, whole: bool) -> Reading:
        """How rows of the file become those of the table; with `whole`, rows with all of the file's columns."""
        name = (None if columns is None else tuple(columns), whole)
        found = self._readings.get(name)
        if found is None:
            if not self._readings and not self._values.fits(self._file.names):
                self._file.refuse(
                    f"it has the columns {', '.join(self._file.names)} and the table's are "
                    f"{', '.join(self._values.stored_schema.names)}"
                )
            values = self._values
            if columns is not None and tuple(columns) != values.names:
                values = values.select(columns)
            given = self._file.schema(None if whole else self._own(columns))
            found = self._readings[name] = reading(values, given)
        return found

    def _own(self, columns: Sequence[str] | None) -> list[str] | None:
        """The names in the file of those columns that it has."""
        if columns is None:
            return None
        stored = dict(zip(self._values.names, self._values.stored_schema.names, strict=True))
        there = set(self._file.names)
        return [stored[name] for name in columns if stored[name] in there]


class SstReaders:
    """The files of a table, shared by all of its readers in this process, with their indices and filters."""

    def __init__(self, bucket: Bucket, cache: BlockCache) -> None:
        self.cache = cache
        self._bucket = bucket
        self._lock = threading.Lock()
        self._known: WeakValueDictionary[str, SstFile] = WeakValueDictionary()

    def __call__(self, key: str, size: int, values: Values) -> SstReader:
        """The reader of an object by one definition of the table. No request."""
        with self._lock:
            file = self._known.get(key)
            if file is None:
                file = SstFile(self._bucket, key, size, self.cache, typed=values.typed)
                self._known[key] = file
        return SstReader(self._bucket, key, size, self.cache, values=values, file=file)

    def load(self, readers: Sequence[SstReader]) -> bool:
        """See that all have their index: one after the other would take a round trip each. False if some can't be
        had: those fail the reads that need them, and no others."""
        return all(in_flight(_has_index, [reader for reader in readers if not reader.is_open]))


def _has_index(reader: SstReader) -> bool:
    try:
        return reader.index is not None
    except (CorruptObjectError, ObjectNotFoundError):
        return False
