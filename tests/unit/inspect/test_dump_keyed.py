"""`firn dump` of every object of a keyed table, whole and damaged."""

from __future__ import annotations

import orjson
import pytest

import firn
from firn.bucket import open_bucket
from firn.bucket.base import Bucket
from firn.inspect.dump.dump import Dump, dump_object
from firn.journal.manifest.journal import ManifestJournal
from firn.journal.manifest.model import SSTInfo


@pytest.fixture
def bucket() -> Bucket:
    return open_bucket("memory://")


@pytest.fixture
def journal(bucket: Bucket) -> ManifestJournal:
    """Two writers, two compactions of flushes whose content nobody looks at, a checkpoint."""
    journal = ManifestJournal(bucket, "t")
    journal.create({"flush_ms": 100}, 1)
    first = journal.open_writer()
    for number in range(2):
        first.put_l0(number, b"flush")
        first.confirm(number)
    second = journal.open_writer()
    second.put_l0(2, b"flush")
    second.confirm(2)
    for last in (0, 1):
        compactor = journal.open_compactor()
        sst = compactor.next_sst_number()
        compactor.put_sst(sst, b"sorted")
        info = SSTInfo(
            level=1, run=last, number=sst, file=compactor.sst_file(sst), min_key=b"ATL", max_key=b"\x80\x01", rows=7,
            bytes=6, max_seq=(last + 1) << 32, tombstones=2, min_expire=1795224444056,
        )  # fmt: skip
        compactor.commit(adds=[info], deletes=[], last_compacted=last)
    journal.snapshot(name="before-import", expires_ms=1795224444056)
    return journal


def only(bucket: Bucket, prefix: str) -> str:
    (info,) = bucket.list(prefix).objects
    return info.key


def text(found: Dump) -> str:
    return found.to_text()


def test_the_pointer(bucket: Bucket, journal: ManifestJournal) -> None:
    found = dump_object(bucket, journal.layout.pointer_key)
    assert found.kind == "pointer of a keyed table"
    assert found.problems == ()
    assert found.fields["compactor_epoch"] == journal.pointer().compactor_epoch
    assert found.fields["settings: flush_ms"] == 100
    assert len(found.sections["writers"]) == len(journal.pointer().infos)
    assert "from flush 2 on" in text(found)


def test_manifests_full_and_incremental(bucket: Bucket, journal: ManifestJournal) -> None:
    keys = [info.key for info in bucket.list(journal.layout.manifests_prefix).objects]
    assert len(keys) == 2
    dumps = [dump_object(bucket, key) for key in keys]
    assert {found.kind for found in dumps} == {"manifest of a keyed table"}
    assert all(found.problems == () for found in dumps)
    shown = "\n".join(text(found) for found in dumps)
    assert "'ATL' … 8001" in shown  # a key that is text, and one that isn't
    assert "7 entries" in shown and "2 deletes" in shown
    assert "the first ends 1795224444056 (2026-11-21 01:27:24.056 UTC)" in shown


def test_a_checkpoint(bucket: Bucket, journal: ManifestJournal) -> None:
    found = dump_object(bucket, only(bucket, journal.layout.snapshots_prefix))
    assert found.kind == "snapshot of a keyed table"
    assert found.problems == ()
    assert found.fields["name"] == "before-import"
    assert "2026-11-21" in found.fields["expires_ms"]
    assert found.fields["pointer: manifest"] == journal.pointer().manifest
    assert len(found.sections["flushes"]) == 1


def test_a_fence_is_an_empty_flush(bucket: Bucket, journal: ManifestJournal) -> None:
    fences = [i.key for i in bucket.list(journal.layout.l0_prefix).objects if not i.size]
    (fence,) = fences
    found = dump_object(bucket, fence)
    assert (found.kind, found.problems) == ("fence of a keyed table", ())
    assert found.fields["number"] == 2


def test_a_definition(bucket: Bucket) -> None:
    db = firn.connect("memory://")
    db.create_table("t", kind="keyed", key={"state": "VARCHAR"}, merge_operator="add", schema={"n": "BIGINT"})
    found = dump_object(db.bucket, "t/_firn/table.json")
    assert found.kind == "table definition"
    assert found.fields["kind"] == "keyed"
    assert found.fields["merge"] == "add"


@pytest.mark.parametrize("place", ["pointer", "manifest", "snapshot"])
def test_damage_is_told_and_the_rest_shown(bucket: Bucket, journal: ManifestJournal, place: str) -> None:
    key = {
        "pointer": journal.layout.pointer_key,
        "manifest": bucket.list(journal.layout.manifests_prefix).objects[0].key,
        "snapshot": only(bucket, journal.layout.snapshots_prefix),
    }[place]
    whole = bucket.get(key).data
    raw = orjson.loads(whole)

    raw["revision" if place != "manifest" else "next_sst"] += 1
    bucket.put(key, orjson.dumps(raw, option=orjson.OPT_SORT_KEYS))
    found = dump_object(bucket, key)
    assert "checksum" in found.problems[0]
    assert found.fields

    bucket.put(key, whole[: len(whole) // 2])
    assert "not JSON" in dump_object(bucket, key).problems[0]
    bucket.put(key, b"[1]")
    assert dump_object(bucket, key).problems

    # Every shape that JSON can have in any place is shown, and nothing is raised.
    for name in orjson.loads(whole):
        for value in (None, 7, "x", [1], {"a": 1}, [None], [[]], [{}]):
            bucket.put(key, orjson.dumps({**orjson.loads(whole), name: value}, option=orjson.OPT_SORT_KEYS))
            assert dump_object(bucket, key).kind == f"{place} of a keyed table"


def test_what_is_no_sst_says_so(bucket: Bucket, journal: ManifestJournal) -> None:
    flush = next(i.key for i in bucket.list(journal.layout.l0_prefix).objects if i.size)
    found = dump_object(bucket, flush)
    assert found.kind == "flush of a keyed table"
    assert found.problems


# -- SSTs


def sst(rows: int = 500) -> bytes:
    """One with several blocks, a delete, and an entry that ends."""
    import pyarrow as pa

    from firn.keyed.sst.writer import SstWriter

    writer = SstWriter(pa.schema([("value", pa.binary())]), block_bytes=4096)
    writer.add(
        pa.record_batch(
            {
                "key": pa.array([b"%06d" % n for n in range(rows)], pa.binary()),
                "seq": pa.array([(8 << 32) | n for n in range(rows)], pa.int64()),
                "kind": pa.array([1 if n == 3 else 0 for n in range(rows)], pa.int8()),
                "expire_at": pa.array([1795224444056 if n == 5 else None for n in range(rows)], pa.int64()),
                "value": pa.array([None if n == 3 else b"x" * 40 for n in range(rows)], pa.binary()),
            }
        )
    )
    return bytes(writer.finish().data)


FLUSH = "t/l0/000000000000000002.000000000000000007.sst"


def test_an_sst_with_its_blocks(bucket: Bucket) -> None:
    bucket.put(FLUSH, sst())
    found = dump_object(bucket, FLUSH)
    assert (found.kind, found.problems) == ("flush of a keyed table", ())
    assert found.fields["entries"] == 500
    assert found.fields["deletes"] == 1
    assert found.fields["newest seq"] == f"{(8 << 32) | 499} (flush 7, entry 499)"
    assert found.fields["first key"] == "'000000'"
    assert len(found.sections["blocks"]) > 3
    assert not [title for title in found.sections if title.startswith("row group")]
    bucket.put("t/ssts/000000000000000002.000000000000000007.sst", sst(20))
    assert (
        dump_object(bucket, "t/ssts/000000000000000002.000000000000000007.sst").kind == "SST of a keyed table"
    )


def test_a_damaged_sst_is_told_wherever_it_is_damaged(bucket: Bucket) -> None:
    whole = sst()
    index = whole.index(b"FIRNSST1")
    for at in (index - 40, index - 5, index + 3, len(whole) - 6, len(whole) - 2, len(whole) - 200):
        bucket.put(FLUSH, whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert dump_object(bucket, FLUSH).problems, at
    for length in (1, 7, 100, len(whole) // 2, len(whole) - 1):
        bucket.put(FLUSH, whole[:length])
        assert dump_object(bucket, FLUSH).problems, length
