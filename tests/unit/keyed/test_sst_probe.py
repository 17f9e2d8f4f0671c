"""The first key that is read of a block comes out of its bytes; all others, and all that isn't plain, by decoding."""

from __future__ import annotations

import random
import uuid

import pytest

from firn.bucket import open_bucket
from firn.errors import CorruptObjectError
from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.decode import BlockDecoder
from firn.keyed.sst.file import WHOLE_BYTES
from firn.keyed.sst.reader import SstReader
from firn.keyed.sst.writer import SstWriter

BYTES = Values()
KEY = "t/sst/x.sst"
NOISE = random.Random(7)


def puts(count=4000, key="key %06d", size=lambda n: 200):
    """Even numbers, whose values don't shrink; larger than what is fetched whole."""
    return [
        Entry(key.encode() % (2 * n), NOISE.getrandbits(40), PUT, None, NOISE.randbytes(size(n)))
        for n in range(count)
    ]


def with_versions(entries):
    """Each tenth key has three."""
    found = []
    for at, entry in enumerate(entries):
        found.append(entry)
        if not at % 10:
            found += [entry._replace(seq=entry.seq - n, value=entry.value[::-n]) for n in (1, 2)]
    return [e._replace(value=bytes(NOISE.randbytes(200))) for e in found]


def with_kinds(entries):
    """Deletes, operands and what expires among puts; the deletes not in every block."""
    for at, entry in enumerate(entries):
        if at % 997 == 5:
            entries[at] = entry._replace(kind=DELETE, value=None)
        elif at % 3 == 1:
            entries[at] = entry._replace(kind=MERGE, expire_at=at)
    return entries


RUNS = {
    "of one length": puts(),
    "one seq": [entry._replace(seq=9) for entry in puts()],
    "keys of several lengths": sorted(puts(key="key %d")),
    "values of several lengths": puts(size=lambda n: 150 + n % 90),
    "all of several lengths": sorted(puts(key="key %d", size=lambda n: 150 + n % 90)),
    "no values": puts(40_000, size=lambda n: 0),
    "small values": puts(40_000, size=lambda n: 8),
    "values that shrink": [entry._replace(value=b"%0200d" % entry.seq) for entry in puts(40_000)],
    "versions": with_versions(puts()),
    "kinds": with_kinds(puts()),
}


def stored(entries, *, compression="zstd", block_bytes=64 << 10):
    writer = SstWriter(BYTES.schema, block_bytes=block_bytes, compression=compression)
    writer.add(BYTES.batch(entries))
    data = bytes(writer.finish().data)
    bucket = open_bucket(f"memory://{uuid.uuid4().hex}")
    bucket.put(KEY, data)
    return bucket, data


def reader_of(bucket, data):
    return SstReader(bucket, KEY, len(data), BlockCache(1 << 30), values=BYTES)


@pytest.mark.parametrize("compression", ["zstd", "lz4", None])
@pytest.mark.parametrize("run", RUNS)
def test_the_first_key_of_a_block_reads_as_all_others(run, compression):
    entries = RUNS[run]
    bucket, data = stored(entries, compression=compression)
    assert len(data) > WHOLE_BYTES
    by_key = {}
    for entry in entries:
        by_key.setdefault(entry.key, []).append(entry)
    reader = reader_of(bucket, data)
    index = reader.index
    for _ in range(3):
        chosen = NOISE.sample(sorted(by_key), 60)
        # Of three keys of a block, the first is read out of its bytes.
        for key in [*chosen, *(k for k in by_key if index.blocks_of(k)[0] in (0, index.blocks - 1))]:
            found = reader.get(key)
            assert found == by_key[key]
            assert list(map(type, found)) == [Entry] * len(found)
            assert all(type(entry.value) in (bytes, type(None)) for entry in found)
            assert reader.versions(key + b"\0") == []
            assert reader.versions(key[:-1] + b"x") == []
        reader = reader_of(bucket, data)


@pytest.mark.parametrize(
    "run", ["of one length", "one seq", "keys of several lengths", "values of several lengths"]
)
def test_a_block_is_decoded_when_it_is_read_again(run, monkeypatch):
    entries = RUNS[run]
    bucket, data = stored(entries)
    reader = reader_of(bucket, data)
    (block,) = reader.index.blocks_of(entries[100].key)
    decoded = []
    decode = BlockDecoder.decode
    monkeypatch.setattr(
        BlockDecoder, "decode", lambda self, *args: decoded.append(args[1]) or decode(self, *args)
    )
    gets = bucket.counters.as_dict()["get"]
    assert reader.get(entries[100].key) == [entries[100]]
    assert not decoded
    for _ in range(2):
        assert reader.get(entries[101].key) == [entries[101]]
    assert decoded == [range(block, block + 1)]
    assert bucket.counters.as_dict()["get"] == gets + 1


def test_what_keys_have_in_common_with_their_lengths_isnt_taken_for_a_key():
    wanted = b"abcd\x08\0\0\0"
    names = sorted({b"\x08\0\0\0abcd", *(b"\x08\0\0\0ab%02d" % n for n in range(99))} - {wanted})
    for keys in (names, sorted([*names, wanted])):
        entries = [Entry(key, n + 1, PUT, None, NOISE.randbytes(4000)) for n, key in enumerate(keys)]
        bucket, data = stored(entries, compression=None, block_bytes=1 << 20)
        assert reader_of(bucket, data).versions(wanted) == [e for e in entries if e.key == wanted]


def test_damage_is_seen_in_what_came_with_a_small_file():
    entries = RUNS["of one length"][:1000]
    bucket, data = stored(entries)
    assert len(data) < WHOLE_BYTES
    place = data.index(entries[10].value)
    bucket.put(KEY, data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    with pytest.raises(CorruptObjectError, match="checksum of block 0"):
        reader_of(bucket, data).get(entries[10].key)


def test_damage_is_seen_and_not_kept():
    entries = RUNS["of one length"]
    bucket, data = stored(entries)
    assert len(data) > WHOLE_BYTES
    reader = reader_of(bucket, data)
    start, length = reader.index.extent(3)
    entry = next(e for e in entries if list(reader.index.blocks_of(e.key)) == [3])
    for place in (start, start + length // 2, start + length - 1):
        harmed = bytearray(data)
        harmed[place] ^= 4
        bucket.put(KEY, bytes(harmed))
        with pytest.raises(CorruptObjectError, match=rf"{KEY}.*checksum of block 3"):
            reader.get(entry.key)
    bucket.put(KEY, data)
    assert reader.get(entry.key) == [entry]
