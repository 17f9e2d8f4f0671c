"""What a writer's catalog writes: names, frames, messages. Every flipped bit and every cut is noticed."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto

from firn.errors import CorruptObjectError, InvalidInputError, UnsupportedError
from firn.journal.model import DataFile
from firn.journal.writer.format import catalog_pb2 as pb
from firn.journal.writer.format import frame
from firn.journal.writer.format.actions import (
    Add,
    CatalogTransaction,
    CommitRecord,
    Define,
    Drop,
    Remove,
    Resolve,
    Tombstones,
    Upgrade,
)
from firn.journal.writer.format.identity import Ticket
from firn.journal.writer.format.layout import BadName, DataName, ObjectName, WriterLayout, parse_name
from firn.journal.writer.format.messages import (
    decode_checkpoint,
    decode_transaction,
    encode_checkpoint,
    encode_transaction,
)
from firn.journal.writer.format.state import CatalogState, replay

LAYOUT = WriterLayout("some/prefix", "host-17", "db")
TICKET = Ticket(2, "0badcafe" * 4, "a" * 32)
COLUMNS = (("n", "BIGINT"), ("s", "VARCHAR"))
EXTRA = {
    "rows": 3,
    "stats": {
        "n": [-5, 2**64 - 1, 0],
        "f": [0.5, None, None],
        "i": [1, 2, 1],
        "b": [False, True, 0],
        "s": ["", "é", 2],
        "d": [18_000, 18_001, 0, "date"],
        "none": [None, None, 3],
    },
    "crc": 123,
    "part": {"d": None},
}
FILE = DataFile("some/prefix/host-17/db/data/d=1/t/x.parquet", 100, 1_700_000_000_000, EXTRA)
FIRST = CatalogTransaction(
    "host-17",
    "db",
    1,
    (Upgrade(1), Define("t", b"spec"), Add("t", FILE, COLUMNS), Tombstones("t", "n > 3", (FILE.path,))),
    CommitRecord("a" * 32, None, 1000, "append", (("t", "batch"),), {"rows": 3}, claimed=True),
)
SECOND = CatalogTransaction(
    "host-17",
    "db",
    2,
    (Remove(FILE.path), Drop("t"), Resolve(1, "a" * 32)),
    CommitRecord("b" * 32, "a" * 32, 2000, "drop"),
)
CHECKPOINT = replay(CatalogState("host-17", "db"), [(FIRST, "first")])


@pytest.mark.parametrize("transaction", [FIRST, SECOND])
def test_a_transaction_comes_back(transaction):
    assert decode_transaction(encode_transaction(transaction), where="x") == transaction


@pytest.mark.parametrize(
    "extra",
    [
        None,
        {},
        {"rows": 0},
        {"rows": -1},
        {"rows": "many"},
        {"stats": {}},
        {"stats": {"n": [1, 2]}},
        {"stats": {"n": [1, 2, 0, ""]}},
        {"stats": {"n": [[1], 2, 0]}},
        {"stats": None, "x": [1, {"y": None}]},
        EXTRA,
    ],
)
def test_a_data_file_comes_back_with_its_extras(extra):
    file = FILE._replace(extra=extra)
    transaction = replace(FIRST, actions=(Define("t", b""), Add("t", file)))
    (_, add) = decode_transaction(encode_transaction(transaction), where="x").actions
    assert add.file == file
    if extra and isinstance(extra.get("stats"), dict):
        kinds = [[type(v) for v in entry] for entry in extra["stats"].values()]
        assert [[type(v) for v in entry] for entry in add.file.extra["stats"].values()] == kinds


def test_a_checkpoint_comes_back():
    assert decode_checkpoint(encode_checkpoint(CHECKPOINT), where="x") == CHECKPOINT


@pytest.mark.parametrize(
    ("data", "decode"),
    [
        (encode_transaction(FIRST), decode_transaction),
        (encode_checkpoint(CHECKPOINT), decode_checkpoint),
    ],
)
def test_every_flipped_bit_and_every_cut_is_noticed(data, decode):
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(CorruptObjectError, match="s3://b/object is not a"):
                decode(bytes(flipped), where="s3://b/object")
        with pytest.raises(CorruptObjectError):
            decode(data[:position], where="s3://b/object")
    with pytest.raises(CorruptObjectError):
        decode(data + b"\0", where="x")


def test_corrupt_objects_say_what_helps():
    with pytest.raises(CorruptObjectError, match="firn rebuild"):
        decode_transaction(b"", where="x")
    with pytest.raises(CorruptObjectError, match="delete it"):
        decode_checkpoint(b"", where="x")


def test_kinds_are_not_mistaken_for_one_another():
    with pytest.raises(CorruptObjectError, match="begins with"):
        decode_transaction(encode_checkpoint(CHECKPOINT), where="x")


def test_a_newer_version_is_told_from_a_broken_one():
    whole = frame.pack(frame.TRANSACTION, b"payload")
    head = struct.pack("<8sIQ", frame.TRANSACTION, 3, 7)
    newer = head + struct.pack("<I", frame._checksum(head, b"payload")) + b"payload"
    assert frame.unpack(frame.TRANSACTION, whole, where="x") == (b"payload", 1)
    with pytest.raises(UnsupportedError, match=r"format version 3.*Upgrade Firn"):
        frame.unpack(frame.TRANSACTION, newer, where="x")


def message(**changes):
    found = pb.Transaction.FromString(encode_transaction(FIRST)[frame.OVERHEAD :])
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def refused(changed, why):
    with pytest.raises(CorruptObjectError, match=why):
        decode_transaction(frame.pack(frame.TRANSACTION, changed.SerializeToString()), where="x")


def test_an_unknown_action_or_field_is_refused():
    unknown = message().SerializeToString() + b"\xfa\x06\x01x"  # field 111
    with pytest.raises(CorruptObjectError, match="doesn't know"):
        decode_transaction(frame.pack(frame.TRANSACTION, unknown), where="x")
    nested = message()
    nested.actions[0].MergeFromString(b"\xfa\x06\x01x")
    refused(nested, "doesn't know")
    empty = message()
    empty.actions[0].Clear()
    refused(empty, "of no kind")


def test_naming_what_retired_writers_have_is_kept_for_later():
    kept = DescriptorProto()
    pb.Action.DESCRIPTOR.CopyToProto(kept)
    (numbers,) = kept.reserved_range
    assert (numbers.start, numbers.end, list(kept.reserved_name)) == (9, 10, ["supersede"])
    later = message()
    later.actions[0].MergeFromString(b"\x4a\x01x")  # field 9
    refused(later, "doesn't know")


def test_what_no_firn_writes_is_refused():
    refused(message(revision=0), "revision is 0")
    refused(message(uuid=b"short"), "5 bytes, not 16")
    refused(message(uuid=b"x" * 16), "its commit says")
    refused(message(revision=2), "names None")
    without = message()
    del without.actions[-1]
    refused(without, "isn't a commit")
    twice = message()
    twice.actions.append(twice.actions[-1])
    refused(twice, "isn't its last")
    schema = message()
    schema.actions[2].add.file.schema = 7
    refused(schema, "schema 7 of 1")
    summary = message()
    summary.actions[-1].commit.summary = b"["
    refused(summary, "not JSON")
    with pytest.raises(CorruptObjectError, match="decoded"):
        decode_transaction(frame.pack(frame.TRANSACTION, b"\x0a\xff"), where="x")


# -- names


def test_names_come_back():
    key = LAYOUT.transaction_key(12, "0badcafe" + "0" * 24)
    assert key == "some/prefix/host-17/db/transactions/00000000000000000012.0badcafe.transaction"
    assert LAYOUT.parse(key) == ObjectName(12, "0badcafe", "transaction")
    assert LAYOUT.parse(LAYOUT.checkpoint_key(12, "f" * 32)) == ObjectName(12, "ffffffff", "checkpoint")
    assert LAYOUT.before(12) < key < LAYOUT.before(13)
    assert WriterLayout("", "w", "db").root == "w/db"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("1.0badcafe.transaction", "20 digits"),
        ("0000000000000000000x.0badcafe.transaction", "20 digits"),
        ("00000000000000000000.0badcafe.transaction", "out of range"),
        ("99999999999999999999.0badcafe.transaction", "out of range"),
        ("00000000000000000001.0badcaf.transaction", "8 hexadecimal"),
        ("00000000000000000001.0BADCAFE.transaction", "8 hexadecimal"),
        ("00000000000000000001.0badcafe.txt", "suffix"),
        ("00000000000000000001.transaction", "isn't <revision>"),
        ("more/00000000000000000001.0badcafe.transaction", "directory"),
        ("", "isn't <revision>"),
    ],
)
def test_bad_names_are_recognised(name, reason):
    found = parse_name(name)
    assert isinstance(found, BadName) and reason in found.reason


def test_data_files_are_named_by_partition_table_and_uuid():
    namer = LAYOUT.namer("t", TICKET)
    keys = {namer("month=2001-01/city=K%C3%B6ln") for _ in range(10)}
    assert len(keys) == 10
    for key in keys:
        assert LAYOUT.owns(key)
        found = LAYOUT.parse_data(key)
        assert found == DataName("month=2001-01/city=K%C3%B6ln", "t", found.chunk)
        assert found.prefix == "0badcafe" and LAYOUT.is_stamped(key, TICKET.uuid)
        assert not LAYOUT.is_stamped(key, "1" * 32)
    assert LAYOUT.parse_data(namer("")).partition == ""
    for key in ("elsewhere/x.parquet", f"{LAYOUT.data_prefix}t/x.parquet", f"{LAYOUT.data_prefix}x.parquet"):
        assert LAYOUT.parse_data(key) is None


@pytest.mark.parametrize("partition", ["a=1/..", "a=1//b=2", "a=ö", "/a=1", "a=%zz", "a=1/", "."])
def test_directories_that_are_not_encoded_are_refused(partition):
    with pytest.raises(InvalidInputError, match="percent-encoded"):
        LAYOUT.namer("t", TICKET)(partition)


@pytest.mark.parametrize("name", ["", "_x", "a/b", "..", "%2F", "x" * 101, "😀", "é"])
def test_hostile_names_are_refused(name):
    for make in (
        lambda: WriterLayout("", name, "db"),
        lambda: WriterLayout("", "w", name),
        lambda: LAYOUT.namer(name, TICKET),
    ):
        with pytest.raises(InvalidInputError, match="can't be used"):
            make()
