"""A flush that was collected may have a late fence in its place: it is gone, and not damaged (rule 9)."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from firn.bucket import open_bucket
from firn.errors import CorruptObjectError, ObjectNotFoundError
from firn.keyed.encoding.values import Values
from firn.keyed.sst.cache import BlockCache
from firn.keyed.sst.file import WHOLE_BYTES
from firn.keyed.sst.reader import SstReader
from firn.keyed.sst.writer import SstWriter

VALUES = Values()
READS = {
    "get": lambda reader: reader.get(b"key 000001"),
    "get_many": lambda reader: reader.get_many([b"key 000001", b"key 000002"]),
    "scan": lambda reader: list(reader.scan()),
    "index": lambda reader: reader.index,
}


def sst_bytes(rows):
    writer = SstWriter(VALUES.schema, block_bytes=4096, compression=None, bloom_bits=10)
    keys = [b"key %06d" % n for n in range(rows)]
    columns = [
        pa.array(keys, pa.binary()),
        pa.array(range(rows), pa.int64()),
        pa.array([0] * rows, pa.int8()),
        pa.nulls(rows, pa.int64()),
        pa.array([b"v" * 100] * rows, pa.binary()),
    ]
    writer.add(pa.RecordBatch.from_arrays(columns, schema=VALUES.run_schema))
    return bytes(writer.finish().data)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("rows", [10, 5000], ids=["fetched whole", "fetched by blocks"])
@pytest.mark.parametrize("left", [0, 100], ids=["a fence", "a part"])
@pytest.mark.parametrize("indexed", [False, True])
def test_an_empty_object_is_gone_and_a_short_one_is_damaged(read, rows, left, indexed):
    bucket = open_bucket(f"memory://{uuid.uuid4().hex}")
    data = sst_bytes(rows)
    assert (len(data) > WHOLE_BYTES) == (rows == 5000)
    bucket.put("t/l0/x.sst", data)
    reader = SstReader(bucket, "t/l0/x.sst", len(data), BlockCache(1), values=VALUES)
    if indexed:
        assert reader.index.rows == rows
        if read == "index":
            return
    bucket.put("t/l0/x.sst", data[:left])
    with pytest.raises(CorruptObjectError if left else ObjectNotFoundError, match=r"l0/x\.sst"):
        READS[read](reader)
