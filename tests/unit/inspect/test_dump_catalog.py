"""Dump of a writer's catalog: every kind of object, whole and damaged."""

from __future__ import annotations

import base64
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import firn
from cli_runs import done, run
from firn.inspect.dump.dump import Dump, dump_object, dump_url
from firn.inspect.dump.wire import MOST_PROBLEMS, read_message
from firn.journal.writer.format import catalog_pb2, frame, marker
from writer_databases import keys, layout, newest, two_writers


@pytest.fixture
def db(tmp_path: Path) -> firn.Database:
    found = two_writers(tmp_path)
    found.table("cpu").checkpoint()
    return found


def dump_of(db: firn.Database, data: bytes, suffix: str = "transaction") -> Dump:
    """Dump bytes under a name of a transaction or a checkpoint."""
    key = f"{layout().transactions_prefix}{9:020d}.0badcafe.{suffix}"
    db.bucket.put(key, data)
    return dump_object(db.bucket, key)


def body(db: firn.Database, suffix: str = ".transaction") -> bytes:
    found = [k for k in keys(db.bucket, layout().transactions_prefix) if k.endswith(suffix)]
    return db.bucket.get(found[-1]).data


def test_every_object_of_a_catalog_has_a_kind(db: firn.Database) -> None:
    found = {k: dump_object(db.bucket, k) for k in keys(db.bucket, "")}
    assert {d.kind for d in found.values()} == {
        "transaction of a writer's catalog",
        "checkpoint of a writer's catalog",
        "claim of a writer's catalog",
        "marker of a writer's catalog",
        "hint to a writer's newest checkpoint",
        "name of a database of writers' catalogs",
        "Parquet file",
    }
    assert [d.problems for d in found.values() if d.problems] == []


def test_a_transaction_shows_its_frame_its_commit_and_its_actions(db: firn.Database) -> None:
    key, transaction = newest(db.bucket)
    found = dump_object(db.bucket, key)
    assert found.fields["magic"] == "FIRNWTXN"
    assert found.fields["format version"] == 1
    assert found.fields["writer"] == "a"
    assert found.fields["revision"] == 3
    assert found.fields["uuid"] == transaction.uuid
    assert found.fields["previous"] == transaction.commit.previous
    assert found.fields["op"] == "delete"
    (action,) = found.sections["actions"]
    assert action.startswith(
        'delete rows of cpu where CAST("cores" AS BIGINT) = 2  in 1 files: a/prod/data/cpu/'
    )
    claim = dump_object(db.bucket, layout().claim_key(3))
    assert (claim.kind, claim.sections) == ("claim of a writer's catalog", found.sections)


def test_an_append_shows_its_files_with_what_is_known_of_them(db: firn.Database) -> None:
    key = next(k for k in keys(db.bucket, layout().transactions_prefix) if f"{2:020d}" in k)
    found = dump_object(db.bucket, key)
    (add,) = (action for action in found.sections["actions"] if action.startswith("add "))
    (live,) = (f for f in db.table("cpu").snapshot().files if f.path.startswith("a/"))
    assert add.startswith(f"add to cpu  {live.path}  {live.size:,} bytes, 2 rows, schema 0, ")
    assert '"cores":[1,2,0]' in add
    assert found.sections["schemas"] == ("0: host VARCHAR, cores BIGINT",)
    assert found.sections["batches"] == ("cpu  b-1",)


def test_a_checkpoint_shows_tables_files_and_predicates(db: firn.Database) -> None:
    key = next(k for k in keys(db.bucket, layout().transactions_prefix) if k.endswith(".checkpoint"))
    found = dump_object(db.bucket, key)
    assert found.fields["table cpu"]["table"]["journal"] == "writer"
    (live,) = found.sections["files of cpu"]
    assert 'of revision 2, without rows where CAST("cores" AS BIGINT) = 2' in live
    (batch,) = found.sections["batch ids of cpu"]
    assert batch.startswith("b-1  revision 2, ")


def test_data_files_and_markers_show_what_firn_wrote_into_them(db: firn.Database) -> None:
    (data,) = keys(db.bucket, layout().data_prefix)
    found = dump_object(db.bucket, data)
    assert found.fields["firn: writer"] == "a"
    assert found.fields["firn: revision"] == 2
    assert found.sections["firn: columns"] == ("host  VARCHAR", "cores  BIGINT")
    marker_key = keys(db.bucket, layout().markers_prefix)[-1]
    shown = dump_object(db.bucket, marker_key)
    assert shown.kind == "marker of a writer's catalog"
    assert shown.fields["op"] == "delete"
    assert shown.sections["actions"][0].startswith("delete rows of cpu")


def test_metadata_that_cant_be_read_is_told_and_the_rest_shown(db: firn.Database, tmp_path: Path) -> None:
    def file_with(pairs: dict[str, str]) -> Dump:
        with pq.ParquetWriter(tmp_path / "x.parquet", pa.schema([("n", pa.int64())])) as writer:
            writer.write_table(pa.table({"n": [1]}))
            writer.add_key_value_metadata(pairs)
        return dump_url(str(tmp_path / "x.parquet"))

    found = file_with({"firn": "{"})
    assert any("not what a data file says of itself" in p for p in found.problems)
    assert (found.fields["rows"], found.fields["firn"]) == (1, "{")
    found = file_with({"firn": '{"version": 1, "writer": "w"}'})
    assert found.fields["firn: writer"] == "w"
    assert any("readers refuse it" in p and "checksum" in p for p in found.problems)
    found = file_with({marker.KEY: "~"})
    assert any("not base64" in p for p in found.problems)
    flipped = bytearray(body(db))
    flipped[-1] ^= 1
    found = file_with({marker.KEY: base64.b64encode(bytes(flipped)).decode()})
    assert found.fields["writer"] == "a"
    assert any("readers refuse it" in p for p in found.problems)


@pytest.mark.parametrize("suffix", [".transaction", ".checkpoint"])
def test_a_flipped_bit_is_told_and_never_stops_the_dump(db: firn.Database, suffix: str) -> None:
    whole = body(db, suffix)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << at % 8
        found = dump_of(db, bytes(damaged), suffix[1:])
        assert any("readers refuse it" in p for p in found.problems), at
        assert found.fields["checksum"].partition(", but it is ")[2], at
        assert found.fields["format version"] == 1 or 8 <= at < 12
        found.to_text()
        orjson.dumps(found.to_json(), default=str)


def test_every_cut_is_told_and_what_is_left_is_shown(db: firn.Database) -> None:
    whole = body(db)
    for length in range(len(whole)):
        found = dump_of(db, whole[:length])
        assert found.problems, length
        if length >= frame.OVERHEAD:
            assert found.fields["payload"].endswith(f"but {length - frame.OVERHEAD:,} follow")
        if length > frame.OVERHEAD + 40:
            assert found.fields["writer"] == "a"
    cut = dump_of(db, whole[:-10])
    assert cut.sections["actions"][0].startswith('delete rows of cpu where CAST("cores" AS BIGINT) = 2')
    assert any("bytes are missing" in p for p in cut.problems)


def test_a_wrong_checksum_alone_hides_nothing(db: firn.Database) -> None:
    whole = bytearray(body(db))
    whole[20:24] = b"\0\0\0\0"
    found = dump_of(db, bytes(whole))
    assert found.fields["checksum"].startswith("00000000, but it is ")
    assert found.fields["op"] == "delete"
    assert len(found.problems) == 1


def test_what_no_known_version_has_is_told() -> None:
    problems: list[str] = []
    not_utf8, revision, unknown, uuid, writer_as_number = (
        b"\x0a\x02\xff\xfe", b"\x18\x05", b"\x98\x06\x07", b"\x22\x01z", b"\x08\x01"
    )  # fmt: skip
    action = b"\x32\x05" + b"\x1a\x03" + unknown
    data = not_utf8 + revision + unknown + uuid + writer_as_number + action
    message = read_message(catalog_pb2.Transaction, data, problems)
    assert (message.revision, message.uuid, message.writer) == (5, b"z", "")
    assert [problem.partition(" of the payload: ")[::2] for problem in problems] == [
        ("writer, byte 0", "it can't be decoded: 0a02 fffe"),
        ("field 99, byte 6", "it has a field that no version known here has"),
        ("writer, byte 12", "it has a field that no version known here has"),
        ("actions, byte 14", "it has a field that no version known here has"),
    ]


def test_of_random_bytes_only_so_many_problems_are_told() -> None:
    problems: list[str] = []
    read_message(catalog_pb2.Transaction, b"\x98\x06\x07" * 1000, problems)
    assert len(problems) == MOST_PROBLEMS + 1


def test_a_broken_inner_message_leaves_its_neighbours_whole() -> None:
    first = catalog_pb2.Action(drop=catalog_pb2.Drop(table="x")).SerializeToString()
    bad = b"\x2a\x04\x0a\xff\xff\xff"
    data = b"".join(b"\x32" + bytes([len(a)]) + a for a in (first, bad, first))
    problems: list[str] = []
    found = read_message(catalog_pb2.Transaction, data, problems)
    assert [a.drop.table for a in found.actions] == ["x", "x"]
    assert problems == [
        f"actions, byte {2 + len(first)} of the payload: it can't be decoded: 3206 2a04 0aff ffff"
    ]


def test_the_command_prints_any_of_them(db: firn.Database, tmp_path: Path) -> None:
    key, _ = newest(db.bucket)
    path = tmp_path / "prod" / key
    assert "delete rows of cpu" in done("dump", path).out
    path.write_bytes(path.read_bytes()[:-3])
    found = done("dump", path, "--json").json
    assert found["fields"]["writer"] == "a"
    assert found["problems"]
    assert "! " in done("dump", path).out
    path.write_bytes(b"short")
    assert "too few for a head" in done("dump", path).out
    assert run("dump", tmp_path / "prod" / "a" / "nothing").code == 3
    assert "a/prod/transactions/" in done("dump", tmp_path / "prod").out
