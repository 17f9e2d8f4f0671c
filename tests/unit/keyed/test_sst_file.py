"""What a written SST is: plain Parquet to others, and to its reader a run, at a price in requests that is counted."""

from __future__ import annotations

import io
import random
import uuid
import weakref

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.arrow.bloom import hash64
from firn.bucket import open_bucket
from firn.errors import InvalidInputError
from firn.keyed.encoding.entries import DELETE, MERGE, PUT, Entry
from firn.keyed.encoding.values import Values
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.file import TAIL_BYTES, WHOLE_BYTES
from firn.keyed.sst.reader import SstReader
from firn.keyed.sst.writer import SstWriter

BYTES = Values()
TYPED = Values({"flights": "BIGINT", "city": "VARCHAR", "codes": "VARCHAR[]"})
KEY = "t/sst/x.sst"
COMPRESSIONS = ["zstd", "lz4", None]


def written(entries, values=BYTES, *, block_bytes=256, compression="zstd", bloom_bits=10, batches=1):
    writer = SstWriter(values.schema, block_bytes=block_bytes, compression=compression, bloom_bits=bloom_bits)
    step = max(1, -(-len(entries) // batches))
    for at in range(0, len(entries), step):
        writer.add(values.batch(entries[at : at + step]))
    return writer.finish()


def stored(sst, values=BYTES, *, cache=1 << 30):
    bucket = open_bucket(f"memory://{uuid.uuid4().hex}")
    bucket.put(KEY, sst.data)
    return bucket, SstReader(bucket, KEY, len(sst.data), BlockCache(cache), values=values)


def requests(bucket, what):
    before = bucket.counters.as_dict()
    result = what()
    spent = bucket.counters.since(before)
    return sum(spent[verb] for verb in ("get", "put", "list", "head", "delete")), result


def read(batches, values):
    return [entry for batch in batches for entry in values.entries(batch)]


def many(count=6000, size=100):
    """A run of even numbers, whose values don't shrink: larger than what is fetched whole without compression."""
    return [Entry(b"key %06d" % (2 * n), n + 1, PUT, None, b"%0*d" % (size, n)) for n in range(count)]


@pytest.fixture(scope="module")
def large():
    sst = written(many(), block_bytes=8 << 10, compression=None)
    assert len(sst.data) > WHOLE_BYTES
    return sst


SMALL = [
    Entry(b"", 9, PUT, 5_000, b"empty key"),
    Entry(b"a", 8, MERGE, 4_000, b"1"),
    Entry(b"a", 7, MERGE, None, b"2"),
    Entry(b"a", 2, DELETE, None, None),
    Entry(b"a\0", 3, PUT, None, b""),
    Entry(b"\xff\xff", 1, PUT, None, b"\0" * 300),
]
TYPED_SMALL = [
    Entry(b"AA", 3, PUT, None, TYPED.check({"flights": 4, "city": "Detroit", "codes": ["x", None]})),
    Entry(b"AA", 2, DELETE, 77, None),
    Entry(b"BB", 1, PUT, None, TYPED.check({"flights": None, "city": "", "codes": []})),
]


# -- to others


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20], ids=["many blocks", "one block"])
def test_it_is_plain_parquet(tmp_path, compression, block_bytes):
    sst = written(SMALL, block_bytes=block_bytes, compression=compression)
    path = tmp_path / "x.parquet"
    path.write_bytes(sst.data)
    rows = [tuple(entry[:5]) for entry in SMALL]
    table = pq.read_table(io.BytesIO(sst.data))
    assert table.column_names == ["key", "seq", "kind", "expire_at", "value"]
    assert [tuple(row.values()) for row in table.to_pylist()] == rows
    assert duckdb.execute("select * from read_parquet(?)", [str(path)]).fetchall() == rows
    (found,) = duckdb.execute(
        "select seq from read_parquet(?) where key = 'a\\x00'::blob", [str(path)]
    ).fetchall()
    assert found == (3,)


def test_typed_values_are_columns(tmp_path):
    sst = written(TYPED_SMALL, TYPED, block_bytes=1)
    path = tmp_path / "x.parquet"
    path.write_bytes(sst.data)
    expected = [
        (b"AA", 3, PUT, None, 4, "Detroit", ["x", None]),
        (b"AA", 2, DELETE, 77, None, None, None),
        (b"BB", 1, PUT, None, None, "", []),
    ]
    assert [tuple(row.values()) for row in pq.read_table(io.BytesIO(sst.data)).to_pylist()] == expected
    assert duckdb.execute("select * from read_parquet(?)", [str(path)]).fetchall() == expected


def test_blocks_are_row_groups_and_the_first_begins_at_the_start(large):
    _, reader = stored(large)
    metadata = pq.read_metadata(io.BytesIO(large.data))
    index = reader.index
    assert metadata.num_row_groups == index.blocks > 50
    assert [metadata.row_group(i).num_rows for i in range(index.blocks)] == list(index.block_rows)
    for i in range(index.blocks):
        start, length = index.extent(i)
        group = metadata.row_group(i)
        for column in range(group.num_columns):
            at = group.column(column)
            assert start <= at.data_page_offset < start + length
            assert at.data_page_offset + at.total_compressed_size <= start + length
    assert index.extent(0)[0] == 0


def test_what_is_small_beside_values_that_dont_shrink_is_what_is_read_fastest():
    rng = random.Random(5)

    def columns(size, *, shrinking=False, seq=None, compression="zstd"):
        entries = [
            Entry(b"%08d" % n, n + 1 if seq is None else seq, PUT, None, rng.randbytes(size))
            for n in range(900)
        ]
        if shrinking:
            entries = [entry._replace(value=b"%0*d" % (size, n)) for n, entry in enumerate(entries)]
        sst = written(entries, block_bytes=32 << 10, compression=compression)
        group = pq.read_metadata(io.BytesIO(sst.data)).row_group(0)
        return group.column(0).compression, "DELTA_BINARY_PACKED" in group.column(1).encodings

    assert columns(200) == ("LZ4", False)
    assert columns(200, compression="lz4") == ("LZ4", False)
    assert columns(200, compression=None) == ("UNCOMPRESSED", False)
    assert columns(200, shrinking=True) == ("ZSTD", True)
    assert columns(200, seq=7) == ("LZ4", True)
    assert columns(40) == ("LZ4", True)
    assert columns(10) == ("ZSTD", True)


def test_the_footer_has_bounds_of_keys_and_values_but_of_bytes():
    values = Values({"photo": "BLOB", "flights": "BIGINT", "city": "VARCHAR"})
    row = values.check({"photo": b"p" * 50, "flights": 4, "city": "Detroit"})
    group = pq.read_metadata(io.BytesIO(written([Entry(b"AA", 3, PUT, None, row)], values).data)).row_group(0)
    columns = [group.column(at) for at in range(group.num_columns)]
    bounds = {c.path_in_schema: (c.statistics.min, c.statistics.max) for c in columns if c.is_stats_set}
    assert bounds == {"key": (b"AA", b"AA"), "flights": (4, 4), "city": ("Detroit", "Detroit")}


def test_what_the_manifest_is_told():
    sst = written(SMALL, block_bytes=1)
    index = stored(sst)[1].index
    assert index == sst.index
    told = (index.min_key, index.max_key, index.rows, index.max_seq, index.tombstones, index.min_expire)
    assert (*told, index.merges) == (b"", b"\xff\xff", 6, 9, 1, 4_000, 2)


def test_the_same_run_is_the_same_bytes(large):
    assert written(many(), block_bytes=8 << 10, compression=None).data == large.data


def codecs(sst):
    group = pq.read_metadata(io.BytesIO(sst.data)).row_group(0)
    return {group.column(i).path_in_schema: group.column(i).compression for i in range(group.num_columns)}


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_values_that_dont_shrink_are_left_as_they_are(compression):
    rng = random.Random(3)
    small = many()
    noise = [entry._replace(value=rng.randbytes(100)) for entry in small]
    packed, plain = written(small, compression=compression), written(noise, compression=compression)
    assert codecs(packed)["value"] == codecs(packed)["key"] != "UNCOMPRESSED" != codecs(plain)["key"]
    assert codecs(plain)["value"] == "UNCOMPRESSED"
    assert read(stored(plain)[1].scan(), BYTES) == noise
    # One part in twenty that shrinks well doesn't pay for unpacking the rest; one in two does.
    for share, expected in [(20, "UNCOMPRESSED"), (2, codecs(packed)["value"])]:
        mixed = [noise[n] if n % share else small[0]._replace(key=entry.key) for n, entry in enumerate(noise)]
        assert codecs(written(mixed, compression=compression))["value"] == expected
    assert codecs(written(noise[:1], compression=compression))["value"] == "UNCOMPRESSED"


def test_a_file_may_become_larger_than_expected(large):
    entries = many()
    writer = SstWriter(BYTES.schema, block_bytes=8 << 10, compression=None, expected_bytes=1)
    for at in range(0, len(entries), 7):
        writer.add(BYTES.batch(entries[at : at + 7]))
    assert writer.size > 600_000
    assert read(stored(writer.finish())[1].scan(), BYTES) == entries


@pytest.mark.parametrize(
    "broken",
    [
        [Entry(b"b", 1, PUT, None, b""), Entry(b"a", 2, PUT, None, b"")],
        [Entry(b"a", 1, PUT, None, b""), Entry(b"a", 2, PUT, None, b"")],
        [Entry(b"a", 1, PUT, None, b""), Entry(b"a", 1, PUT, None, b"")],
    ],
    ids=["keys fall", "seqs rise", "a seq twice"],
)
@pytest.mark.parametrize("batches", [1, 2])
def test_a_broken_order_is_refused(broken, batches):
    with pytest.raises(InvalidInputError, match="order"):
        written(broken, batches=batches)


def test_an_sst_without_entries_is_refused():
    with pytest.raises(InvalidInputError, match="without entries"):
        SstWriter(BYTES.schema).finish()
    with pytest.raises(InvalidInputError, match="columns"):
        SstWriter(BYTES.schema).add(TYPED.batch(TYPED_SMALL))


# -- to its reader


@st.composite
def runs(draw):
    """A run with few keys, so that some have more versions than a block takes."""
    typed = draw(st.booleans())
    keys = draw(st.lists(st.binary(max_size=3), min_size=1, max_size=12, unique=True))
    entries = []
    for key in sorted(keys):
        seqs = draw(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=8, unique=True))
        for seq in sorted(seqs, reverse=True):
            kind = draw(st.sampled_from([PUT, DELETE, MERGE]))
            if kind == DELETE:
                value = None
            elif typed:
                row = {"flights": draw(st.none() | st.integers(-9, 9)), "city": draw(st.none() | st.text())}
                value = TYPED.check({**row, "codes": draw(st.none() | st.lists(st.text(max_size=2)))})
            else:
                value = draw(st.binary(max_size=40))
            entries.append(Entry(key, seq, kind, draw(st.none() | st.integers(0, 99)), value))
    return (TYPED if typed else BYTES), entries


BOUND = st.none() | st.binary(max_size=4)


@settings(max_examples=60, deadline=None)
@given(
    run=runs(),
    ranges=st.lists(st.tuples(BOUND, BOUND), max_size=4),
    asked=st.lists(st.binary(max_size=4), max_size=6),
    block_bytes=st.sampled_from([1, 60, 200, 1 << 20]),
    compression=st.sampled_from(COMPRESSIONS),
    bloom_bits=st.sampled_from([0, 10]),
    batches=st.integers(1, 3),
    cache=st.sampled_from([0, 2_000, 1 << 20]),
)
def test_it_reads_as_the_model(run, ranges, asked, block_bytes, compression, bloom_bits, batches, cache):
    values, entries = run
    sst = written(
        entries,
        values,
        block_bytes=block_bytes,
        compression=compression,
        bloom_bits=bloom_bits,
        batches=batches,
    )
    _, reader = stored(sst, values, cache=cache)
    model = {}
    for entry in entries:
        model.setdefault(entry.key, []).append(entry)
    wanted = sorted({*asked, *model})
    assert {key: found for key in wanted if (found := reader.get(key))} == model
    assert reader.get_many(wanted) == model
    for start, end in [(None, None), *ranges, *((b, b) for b, _ in ranges)]:
        expected = [e for e in entries if (start is None or start <= e.key) and (end is None or e.key < end)]
        assert read(reader.scan(start, end), values) == expected
        assert read(reader.scan(start, end, reverse=True), values) == expected[::-1]


def test_versions_of_a_key_that_span_blocks():
    entries = [
        Entry(b"a", 500, PUT, None, b"before"),
        *(Entry(b"k", seq, MERGE, None, b"%050d" % seq) for seq in range(400, 0, -1)),
        Entry(b"z", 600, PUT, None, b"after"),
    ]
    _, reader = stored(written(entries, block_bytes=500))
    blocks = reader.index.blocks_of(b"k")
    assert len(blocks) > 20
    assert reader.get(b"k") == entries[1:-1]
    assert reader.get_many([b"a", b"k", b"z"]) == {
        b"a": entries[:1],
        b"k": entries[1:-1],
        b"z": entries[-1:],
    }
    assert read(reader.scan(b"k", b"k\0"), BYTES) == entries[1:-1]
    assert read(reader.scan(b"b", b"l", reverse=True), BYTES) == entries[-2:0:-1]


def test_a_scan_of_chosen_columns():
    entries = TYPED_SMALL
    _, reader = stored(written(entries, TYPED, block_bytes=1), TYPED)
    (table,) = {batch.schema for batch in reader.scan(columns=["city"])}
    assert table.names == ["key", "seq", "kind", "expire_at", "city"]
    cities = [city for batch in reader.scan(columns=["city"]) for city in batch.column("city").to_pylist()]
    assert cities == ["Detroit", None, ""]


# -- what it costs


def test_nothing_is_asked_before_a_read(large):
    bucket, reader = stored(large)
    bucket.put("other", b"")
    assert requests(bucket, lambda: reader.is_open) == (0, 0)


def test_a_small_file_is_one_request():
    bucket, reader = stored(written(SMALL, block_bytes=1))
    assert requests(bucket, lambda: reader.get(b"a"))[0] == 1
    assert requests(bucket, lambda: reader.get(b"\xff\xff"))[0] == 0
    assert requests(bucket, lambda: read(reader.scan(), BYTES)) == (0, SMALL)
    assert requests(bucket, lambda: read(reader.scan(reverse=True), BYTES)) == (0, SMALL[::-1])


def test_a_cold_get_is_the_tail_and_one_block(large):
    entries = many()
    bucket, reader = stored(large)
    before = bucket.counters.bytes_in
    assert requests(bucket, lambda: reader.index.rows) == (1, len(entries))
    assert bucket.counters.bytes_in - before == TAIL_BYTES
    before = bucket.counters.bytes_in
    assert requests(bucket, lambda: reader.get(entries[1000].key)) == (1, [entries[1000]])
    assert bucket.counters.bytes_in - before < 16 << 10
    assert requests(bucket, lambda: reader.get(entries[1000].key)) == (0, [entries[1000]])
    assert requests(bucket, lambda: reader.get(entries[-1].key)) == (1, [entries[-1]])


def test_absent_keys_cost_nothing_but_for_one_in_a_hundred(large):
    bucket, reader = stored(large, cache=0)
    assert reader.index.rows == 6000
    absent = [b"key %06d" % (2 * n + 1) for n in range(5999)]
    spent, found = requests(bucket, lambda: [reader.get(key) for key in absent])
    assert not any(found)
    assert spent < 120
    assert spent == sum(reader._file._bloom.may_contain(hash64(key)) for key in absent)
    assert requests(bucket, lambda: reader.get(b"a")) == (0, [])
    assert requests(bucket, lambda: reader.get_many([b"a", b"z"])) == (0, {})


def test_without_a_filter_an_absent_key_is_a_block():
    sst = written(many(), block_bytes=8 << 10, compression=None, bloom_bits=0)
    bucket, reader = stored(sst)
    assert reader.index.rows == 6000
    assert requests(bucket, lambda: reader.get(b"key 000001")) == (1, [])
    assert requests(bucket, lambda: reader.get(b"z")) == (0, [])


def test_many_keys_of_one_block_are_one_request(large):
    entries = many()
    bucket, reader = stored(large)
    assert reader.index.rows == 6000
    block = reader.index.blocks_of(entries[3000].key)
    keys = [e.key for e in entries if reader.index.blocks_of(e.key) == block]
    assert len(keys) > 20
    spent, found = requests(bucket, lambda: reader.get_many(keys))
    assert (spent, list(found)) == (1, keys)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_is_spans_that_grow(large, reverse):
    entries = many()
    bucket, reader = stored(large)
    assert reader.index.blocks > 85
    spent, found = requests(bucket, lambda: read(reader.scan(reverse=reverse), BYTES))
    assert found == (entries[::-1] if reverse else entries)
    assert spent <= 5  # 1, 4, 16, 64 blocks and the rest
    key = entries[20].key
    spent, found = requests(bucket, lambda: read(reader.scan(key, key + b"\0", reverse=reverse), BYTES))
    assert (spent, found) == (1, [entries[20]])


@pytest.mark.parametrize("reverse", [False, True])
def test_an_empty_range_costs_no_block(large, reverse):
    bucket, reader = stored(large)
    assert requests(bucket, lambda: list(reader.scan(b"b", b"a", reverse=reverse))) == (0, [])
    assert requests(bucket, lambda: list(reader.scan(b"b", b"b", reverse=reverse))) == (0, [])
    assert reader.index.rows == 6000
    for start, end in [(None, b"a"), (b"l", None), (b"l", b"m")]:
        assert requests(bucket, lambda s=start, e=end: list(reader.scan(s, e, reverse=reverse))) == (0, [])


@pytest.mark.parametrize(("key_bytes", "count", "spent"), [(5000, 80, 2), (20, 1000, 3)])
def test_a_tail_longer_than_what_is_fetched_first(key_bytes, count, spent):
    """Long keys make the index long, many blocks the footer, whose length must be known first."""
    keys = [b"%0*d" % (key_bytes, n) for n in range(count)]
    entries = [Entry(key, n, PUT, None, b"v" * 300) for n, key in enumerate(keys)]
    bucket, reader = stored(written(entries, block_bytes=1, compression=None))
    assert requests(bucket, lambda: reader.index.blocks) == (spent, count)
    assert requests(bucket, lambda: reader.get(entries[77].key)) == (1, [entries[77]])


def test_what_was_just_written_needs_no_request(large):
    bucket, reader = stored(large)
    reader.seed(large.data)
    entries = many()
    assert requests(bucket, lambda: reader.get(entries[5].key)) == (0, [entries[5]])


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_holds_rows_and_not_the_bytes_they_came_in(large, monkeypatch, reverse):
    """A scan over many runs would else hold the last bytes of each, and the rows before the last."""

    class Fetched(bytearray):
        pass

    _, reader = stored(large)
    fetch, held = reader.fetch, []

    def watched(blocks):
        assert not [one for one in held if one() is not None]
        data = Fetched(fetch(blocks))
        held.append(weakref.ref(data))
        return data

    monkeypatch.setattr(reader, "fetch", watched)
    scan = reader.scan(reverse=reverse)
    for count in range(1, 5):
        next(scan)
        assert len(held) == count
        assert held[-1]() is None


def test_a_scan_leaves_the_cache_to_point_reads(large):
    bucket = open_bucket(f"memory://{uuid.uuid4().hex}")
    bucket.put(KEY, large.data)
    cache = BlockCache(1 << 30)
    reader = SstReader(bucket, KEY, len(large.data), cache, values=BYTES)
    assert len(pa.Table.from_batches(list(reader.scan()))) == 6000
    assert cache.stats().blocks == 0
