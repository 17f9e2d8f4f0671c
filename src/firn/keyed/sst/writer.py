"""Where SSTs are made: a run in, the bytes of one Parquet file with its block index out."""

from __future__ import annotations

import os.path
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firn.arrow import bloom
from firn.bucket.base import BytesLike
from firn.errors import InvalidInputError
from firn.keyed.encoding.columns import sst_schema
from firn.keyed.encoding.entries import DELETE, MERGE
from firn.keyed.encoding.key_hashes import key_hashes
from firn.keyed.sst.encoding import Compression, encoding
from firn.keyed.sst.index import SstIndex
from firn.keyed.sst.sink import Sink
from firn.keyed.sst.tail import WIDE_SEQ, checksum, encode_tail, tail_length

BLOCK_BYTES = 128 << 10
BLOOM_BITS = 10

_REQUIRED = ("key", "seq", "kind")
_SPARE = 16 << 10  # for the tail and the footer of a small file


@dataclass(frozen=True)
class Sst:
    """An SST's bytes, and the index that is in them."""

    data: BytesLike
    index: SstIndex


class SstWriter:
    """Makes one SST in memory. Not for several threads. Holds the file and at most one block of rows beside it.

    Args:
        values: the columns of the values; with those of `firn.keyed.encoding.entries` they are the run's.
        stored: the same as the file is to call them, if these names differ.
        block_bytes: Arrow bytes of a block, about: what a point read fetches and decodes. At least one entry.
        bloom_bits: bits a key of the Bloom filter: 10 take one absent key in a hundred for present. 0: no filter.
        wide: the table's `seq` are wide.
        expected_bytes: how large the file will be, if that is more than what is added first.

    >>> writer = SstWriter(pa.schema({"value": pa.binary()}))
    >>> writer.add(pa.record_batch({"key": [b"a"], "seq": [7], "kind": pa.array([0], pa.int8()),
    ...                             "expire_at": pa.nulls(1, pa.int64()), "value": [b"x"]}))
    >>> sst = writer.finish()
    >>> sst.index.min_key, sst.index.rows, sst.index.max_seq
    (b'a', 1, 7)
    """

    def __init__(
        self,
        values: pa.Schema,
        *,
        stored: pa.Schema | None = None,
        block_bytes: int = BLOCK_BYTES,
        compression: Compression = "zstd",
        bloom_bits: int = BLOOM_BITS,
        expected_bytes: int = 0,
        wide: bool = False,
    ) -> None:
        self._schema = sst_schema(values)
        self._stored = self._schema if stored is None else sst_schema(stored)
        self._block_bytes = max(1, block_bytes)
        self._bloom_bits = bloom_bits
        self._expected = expected_bytes
        self._features = WIDE_SEQ if wide else 0
        self._sink: Sink | None = None
        self._compression: Compression = compression
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._last: tuple[bytes, int] | None = None
        self._written_last: bytes | None = None
        self._hashes: list[npt.NDArray[np.uint64]] = []
        self._lows: list[bytes] = []
        self._continued: list[bool] = []
        self._ends: list[int] = []
        self._block_rows: list[int] = []
        self._rows = self._tombstones = self._merges = 0
        self._max_seq = -1
        self._min_expire: int | None = None

    @property
    def size(self) -> int:
        """Bytes so far, about: those of the blocks that are written, and the rest as it is in memory."""
        return (self._ends[-1] if self._ends else 0) + self._pending_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Add entries, all of them after those added before in (key ascending, seq descending).

        Raises:
            InvalidInputError: the columns aren't those of the run, or the order is broken. The writer is then of no
                use any more.
        """
        if not batch.num_rows:
            return
        if batch.schema.names != self._schema.names or batch.schema.types != self._schema.types:
            raise InvalidInputError(
                f"the entries have the columns {_shown(batch.schema)}, and the SST's are {_shown(self._schema)}"
            )
        batch = pa.RecordBatch.from_arrays(
            batch.columns, schema=self._stored
        )  # which says what is never null
        self._check_order(batch)
        if self._writer is None or self._sink is None:
            room = max(self._expected, batch.nbytes)
            self._sink = Sink(room + room // 16 + _SPARE)
            self._writer = pq.ParquetWriter(
                self._sink.stream, self._stored, **encoding(batch, self._compression)
            )
        if self._bloom_bits:
            self._hashes.append(key_hashes(batch.column(0)))
        self._rows += batch.num_rows
        self._max_seq = max(self._max_seq, pc.max(batch.column(1)).as_py())
        kinds = np.bincount(batch.column(2).to_numpy(), minlength=MERGE + 1)
        self._tombstones += int(kinds[DELETE])
        self._merges += int(kinds[MERGE])
        if batch.column(3).null_count < batch.num_rows:
            least = pc.min(batch.column(3)).as_py()
            self._min_expire = least if self._min_expire is None else min(least, self._min_expire)
        weights = np.cumsum(_row_bytes(batch))
        start, used = 0, 0
        while True:
            room = self._block_bytes - self._pending_bytes
            stop = int(np.searchsorted(weights, used + room, side="left")) + 1
            if stop > batch.num_rows:
                break
            self._pending.append(batch.slice(start, stop - start))
            self._write_block()
            start, used = stop, int(weights[stop - 1])
        if start < batch.num_rows:
            self._pending.append(batch.slice(start))
            self._pending_bytes += int(weights[-1]) - used

    def finish(self) -> Sst:
        """The file; the writer is of no use afterwards.

        Raises:
            InvalidInputError: nothing was added; an SST has an entry at least.
        """
        if self._writer is None or self._sink is None or self._last is None:
            raise InvalidInputError("an SST without entries can't be written: skip it")
        if self._pending:
            self._write_block()
        end = self._ends[-1]
        filter = bloom.build(self._hashes, self._bloom_bits) if self._bloom_bits else b""
        # The tail tells of the footer behind it, so its place is kept and it is written last: nothing is copied.
        length = tail_length(self._lows, self._last[0], filter)
        self._sink.stream.write(bytes(length))
        self._writer.close()
        whole = self._sink.finish()
        starts = [0, *self._ends[:-1]]
        index = SstIndex(
            rows=self._rows,
            max_seq=self._max_seq,
            tombstones=self._tombstones,
            merges=self._merges,
            min_expire=self._min_expire,
            max_key=self._last[0],
            lows=tuple(self._lows),
            continued=tuple(self._continued),
            ends=tuple(self._ends),
            block_rows=tuple(self._block_rows),
            checksums=tuple(checksum(whole[a:b]) for a, b in zip(starts, self._ends, strict=True)),
        )
        whole[end : end + length] = encode_tail(index, filter, whole[end + length :], self._features)
        return Sst(whole.toreadonly(), index)

    def _check_order(self, batch: pa.RecordBatch) -> None:
        for at, name in enumerate(_REQUIRED):
            if batch.column(at).null_count:
                raise InvalidInputError(f"an entry to be written has no {name}")
        keys, seqs = batch.column(0), batch.column(1)
        count = batch.num_rows
        broken = False
        if self._last is not None:
            key, seq = keys[0].as_py(), seqs[0].as_py()
            broken = key < self._last[0] or (key == self._last[0] and seq >= self._last[1])
        if count > 1 and not broken:
            rising = pc.less(keys[:-1], keys[1:])
            if not pc.all(rising).as_py():
                same = pc.and_(pc.equal(keys[:-1], keys[1:]), pc.greater(seqs[:-1], seqs[1:]))
                broken = not pc.all(pc.or_(rising, same)).as_py()
        if broken:
            raise InvalidInputError(
                "the entries to be written aren't in order: keys rise, and a key's versions fall by seq, each seq "
                "once"
            )
        self._last = keys[-1].as_py(), seqs[-1].as_py()

    def _write_block(self) -> None:
        rows = pa.Table.from_batches(self._pending, self._stored)
        self._pending = []
        self._pending_bytes = 0
        keys = rows.column(0)
        first = keys[0].as_py()
        before = self._written_last
        self._continued.append(before == first)
        self._lows.append(first if before is None else _low(before, first))
        self._written_last = keys[-1].as_py()
        self._block_rows.append(rows.num_rows)
        assert self._writer is not None and self._sink is not None
        self._writer.write_table(rows, row_group_size=rows.num_rows)
        self._ends.append(int(self._sink.stream.tell()))


def _row_bytes(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """About how many bytes each row has in memory."""
    sizes = np.zeros(batch.num_rows, dtype=np.int64)
    rest = 0
    for column in batch.columns:
        if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
            offsets = offsets[column.offset : column.offset + len(column) + 1]
            sizes += np.diff(offsets)
            rest += 4 * batch.num_rows
        else:
            rest += column.nbytes
    sizes += max(1, rest // batch.num_rows)
    return sizes


def _low(last: bytes, first: bytes) -> bytes:
    """The shortest beginning of `first` that is above `last`; `first` itself if they are equal.

    >>> _low(b"airport/ORD", b"city/DTW"), _low(b"ab", b"abc"), _low(b"ab", b"ab")
    (b'c', b'abc', b'ab')
    """
    return first[: len(os.path.commonprefix([last, first])) + 1]  # noqa: RUF071  byte by byte is what is wanted


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
