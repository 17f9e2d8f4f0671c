"""A damaged SST is never read as another: each byte is under a checksum, and the error names the object."""

from __future__ import annotations

import io
import struct
import uuid

import pyarrow.parquet as pq
import pytest

from firn.bucket import open_bucket
from firn.errors import CorruptObjectError, UnsupportedError
from firn.keyed.encoding.entries import PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.file import WHOLE_BYTES
from firn.keyed.sst.reader import SstReader
from firn.keyed.sst.tail import MAGIC, checksum, tail_bytes
from firn.keyed.sst.writer import SstWriter

VALUES = Values()
KEY = "t/sst/x.sst"
ENTRIES = [Entry(b"key %06d" % n, n, PUT, None, b"%0100d" % n) for n in range(5000)]
READS = {
    "get": lambda reader, entry: reader.get(entry.key),
    "get_many": lambda reader, entry: reader.get_many([entry.key]),
    "scan": lambda reader, entry: list(reader.scan(entry.key, entry.key + b"\0")),
    "whole scan": lambda reader, entry: list(reader.scan()),
    "reverse scan": lambda reader, entry: list(reader.scan(reverse=True)),
}


def written(entries, block_bytes):
    writer = SstWriter(VALUES.schema, block_bytes=block_bytes, compression=None)
    writer.add(VALUES.batch(entries))
    return bytes(writer.finish().data)


LARGE = written(ENTRIES, 8 << 10)
SMALL = written(ENTRIES[:8], 500)


def opened(data, size=None):
    bucket = open_bucket(f"memory://{uuid.uuid4().hex}")
    bucket.put(KEY, data)
    return SstReader(bucket, KEY, len(data) if size is None else size, BlockCache(0), values=VALUES)


def flipped(data, at, mask=0x10):
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def parts(data):
    """Where each part of an SST begins and ends."""
    footer = len(data) - struct.unpack("<I", data[-8:-4])[0] - 8
    trailer = footer - 32
    body = len(data) - tail_bytes(data, len(data))
    count, lows, longest, blooms = struct.unpack("<IIII", data[body + 60 : body + 76])
    named = {"head": 76, "ends": 8 * count, "checksums": 8 * count, "rows": 4 * count, "low ends": 4 * count}
    named |= {"flags": count, "lows": lows, "greatest key": longest, "filter": 32 * blooms}
    found = {}
    for name, length in named.items():
        found[name] = body, body + length
        body += length
    assert body == trailer
    for name, length in {"version": 4, "features": 4, "length": 8, "checksum": 8, "magic": 8}.items():
        found[name] = trailer, trailer + length
        trailer += length
    found["footer"] = footer, len(data) - 8
    found["footer length"] = len(data) - 8, len(data) - 4
    found["footer magic"] = len(data) - 4, len(data)
    return found


PARTS = parts(LARGE)


def test_the_parts_are_the_whole_end():
    assert len(LARGE) > WHOLE_BYTES > len(SMALL)
    spans = list(PARTS.values())
    assert spans[0][0] == opened(LARGE).index.ends[-1]
    assert [start for start, _ in spans[1:]] == [end for _, end in spans[:-1]]
    assert spans[-1][1] == len(LARGE)


@pytest.mark.parametrize("part", PARTS)
def test_a_flip_in_the_tail_is_seen_by_every_read(part):
    start, end = PARTS[part]
    for at in sorted({start, (start + end) // 2, end - 1}):
        for mask in (1, 0x10, 0x80):
            for read in READS.values():
                with pytest.raises(CorruptObjectError, match=r"t/sst/x\.sst"):
                    read(opened(flipped(LARGE, at, mask)), ENTRIES[0])


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("which", [0, 1, 20, -1])
def test_a_flip_in_a_block_is_seen_when_it_is_read(read, which):
    index = opened(LARGE).index
    block = range(index.blocks)[which]
    start, length = index.extent(block)
    first = sum(index.block_rows[:block])
    for at in (start, start + length // 2, start + length - 1):
        reader = opened(flipped(LARGE, at))
        assert reader.index == index, "the tail is whole"
        other = ENTRIES[-1 if block == 0 else 0]
        assert reader.get(other.key) == [other], "and so are other blocks"
        with pytest.raises(CorruptObjectError, match=rf"t/sst/x\.sst.*block {block} "):
            READS[read](reader, ENTRIES[first])


def test_a_flip_of_any_byte_of_a_small_file_is_seen():
    assert opened(SMALL).get(ENTRIES[7].key) == [ENTRIES[7]]
    for at in range(len(SMALL)):
        with pytest.raises(CorruptObjectError, match=r"t/sst/x\.sst"):
            list(opened(flipped(SMALL, at)).scan())


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["small", "large"])
def test_a_file_cut_short_is_seen(data):
    for left in [1, 4, 11, 12, 100, len(data) // 2, len(data) - 9, len(data) - 1]:
        for size in (left, len(data)):
            with pytest.raises(CorruptObjectError, match=r"t/sst/x\.sst"):
                opened(data[:left], size).get(ENTRIES[0].key)


def test_bytes_put_in_or_left_out_of_the_middle_are_seen():
    for data in (LARGE[:1000] + b"\0" + LARGE[1000:], LARGE[:1000] + LARGE[1001:]):
        with pytest.raises(CorruptObjectError, match=r"t/sst/x\.sst.*tells of"):
            opened(data).get(ENTRIES[0].key)


def test_a_block_of_another_file_is_seen():
    """Two files of one shape: a block of the one in the other's place is as wrong as a flip."""
    index = opened(LARGE).index
    other = written([entry._replace(value=entry.value[::-1]) for entry in ENTRIES], 8 << 10)
    theirs = opened(other).index
    # Some pages' checksums take a byte more than others.
    at = next(n for n in range(1, index.blocks) if index.extent(n)[1] == theirs.extent(n)[1])
    (start, length), (from_, _) = index.extent(at), theirs.extent(at)
    mixed = LARGE[:start] + other[from_ : from_ + length] + LARGE[start + length :]
    with pytest.raises(CorruptObjectError, match=rf"t/sst/x\.sst.*checksum of block {at} "):
        list(opened(mixed).scan())


def test_a_parquet_file_that_is_no_sst_is_refused():
    sink = io.BytesIO()
    pq.write_table(pq.read_table(io.BytesIO(SMALL)), sink)
    with pytest.raises(CorruptObjectError, match=r"t/sst/x\.sst.*no block index"):
        opened(sink.getvalue()).get(ENTRIES[0].key)


def test_an_sst_of_other_columns_is_refused():
    data = written(ENTRIES[:40], 1000)
    bucket = open_bucket(f"memory://{uuid.uuid4().hex}")
    bucket.put(KEY, data)
    reader = SstReader(bucket, KEY, len(data), BlockCache(0), values=Values({"flights": "BIGINT"}))
    with pytest.raises(CorruptObjectError, match=r"t/sst/x\.sst.*columns"):
        reader.get(ENTRIES[0].key)


@pytest.mark.parametrize(("version", "features"), [(2, 0), (1, 2), (1, 1 << 31)])
def test_a_later_version_is_unsupported_and_not_damaged(version, features):
    footer = PARTS["footer"][0]
    body = PARTS["head"][0]
    checked = LARGE[body : footer - 32] + struct.pack("<IIQ", version, features, footer - 32 - body)
    later = LARGE[:body] + checked + struct.pack("<Q", checksum(checked)) + MAGIC + LARGE[footer:]
    with pytest.raises(UnsupportedError, match=r"t/sst/x\.sst.*upgrade"):
        opened(later).get(ENTRIES[0].key)
