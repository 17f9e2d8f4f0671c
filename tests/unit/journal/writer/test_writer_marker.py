"""What data files say of themselves, and the markers that say the rest."""

from __future__ import annotations

import pickle
from dataclasses import replace

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firn.errors import CorruptObjectError, InvalidInputError, StoreUnavailableError, UnsupportedError
from firn.journal.model import DataFile
from firn.journal.writer.commit.commit import Handle
from firn.journal.writer.format.actions import Add, Define, Drop, Remove, Resolve, Tombstones
from firn.journal.writer.format.identity import Ticket
from firn.journal.writer.format.layout import BadName, MarkerName, WriterLayout
from firn.journal.writer.format.marker import decode_marker
from firn.journal.writer.format.metadata import FileRecord, decode_record, encode_record, read_metadata
from firn.journal.writer.history.history import History
from firn.testing import FAILED, LOST_ACK, Rule, Script, SimStore, delayed

LAYOUT = WriterLayout("prefix", "w", "db")
TICKET = Ticket(2, "0badcafe" * 4, "a" * 32)
COLUMNS = {"id": "BIGINT", "s": "VARCHAR"}
RECORD = FileRecord(
    "w",
    "db",
    "t",
    "d=1",
    2,
    TICKET.uuid,
    TICKET.previous,
    tuple(COLUMNS.items()),
    replaces=("x/1.parquet", "x/ö.parquet"),
    applied=("id > 3",),
    clocks=("1_w", "2_w"),
    extra={"spec": 0, "part": {"d": None}, "real": 0.1, "clocks": ["1_w", "2_w"]},
)


def fields(**changes):
    """A record's fields under a checksum that is right."""
    found = orjson.loads(encode_record(RECORD)["firn"])
    del found["crc32c"]
    found.update(changes)
    found = {key: value for key, value in found.items() if value is not ...}
    import google_crc32c

    found["crc32c"] = google_crc32c.value(orjson.dumps(found, option=orjson.OPT_SORT_KEYS))
    return orjson.dumps(found)


# -- what a file says


def test_a_record_comes_back():
    assert decode_record(encode_record(RECORD)["firn"], where="x") == RECORD
    first = FileRecord("w", "db", "t", "", 1, "b" * 32, None, ())
    assert decode_record(encode_record(first)["firn"], where="x") == first


def test_a_namer_says_what_its_files_are():
    namer = pickle.loads(pickle.dumps(LAYOUT.namer("t", TICKET)))
    pairs = namer.metadata(
        "d=1", COLUMNS, extra=RECORD.extra, replaces=RECORD.replaces, applied=RECORD.applied
    )
    assert decode_record(pairs["firn"], where="x") == RECORD
    with pytest.raises(InvalidInputError, match="JSON-able"):
        namer.metadata("", COLUMNS, extra={"bad": object()})


def test_a_file_of_somebody_else_says_nothing():
    assert read_metadata(None, where="x") is None
    assert read_metadata({b"pandas": b"{}"}, where="x") is None
    assert read_metadata({b"firn": encode_record(RECORD)["firn"].encode()}, where="x") == RECORD


def test_every_flipped_bit_of_a_record_is_noticed():
    value = encode_record(RECORD)["firn"].encode()
    for position in range(len(value)):
        for bit in range(8):
            flipped = bytearray(value)
            flipped[position] ^= 1 << bit
            with pytest.raises(CorruptObjectError, match=r"s3://b/f\.parquet can't be told by its metadata"):
                decode_record(bytes(flipped), where="s3://b/f.parquet")
        with pytest.raises(CorruptObjectError):
            decode_record(value[:position], where="x")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"writer": ...}, "'writer' is missing"),
        ({"table": 3}, "isn't text"),
        ({"uuid": "0badcafe"}, "isn't a uuid"),
        ({"revision": 0}, "revision 0"),
        ({"revision": True}, "isn't a whole number"),
        ({"previous": None}, "names None"),
        ({"previous": ...}, "'previous' is missing"),
        ({"columns": [["id"]]}, "unpack"),
        ({"replaces": [1]}, "isn't text"),
        ({"clocks": ["1"]}, "unpack"),
        ({"clocks": [1, 2]}, "isn't text"),
        ({"extra": []}, "isn't a JSON object"),
        ({"more": 1}, "'more' that its version doesn't know"),
    ],
)
def test_a_malformed_record_says_what_is_wrong(changes, reason):
    with pytest.raises(CorruptObjectError, match=reason):
        decode_record(fields(**changes), where="x")


def test_a_newer_record_is_told_from_a_broken_one():
    with pytest.raises(UnsupportedError, match=r"version 2.*Upgrade Firn"):
        decode_record(fields(version=2), where="x")
    with pytest.raises(CorruptObjectError, match="isn't a JSON object"):
        decode_record(b"[]", where="x")


# -- when there is a marker


def opened(store, **options):
    bucket = store.bucket(**options)
    return Handle(History(bucket, LAYOUT), clock=bucket.clock)


def added(ticket, n=0, table="t"):
    name = f"{table}/{ticket.uuid[:8]}{n:024}.parquet"
    return Add(table, DataFile(LAYOUT.data_prefix + name, 5, 7, {"rows": 1}), tuple(COLUMNS.items()))


def started(claims=False):
    """A handle at revision 1, which defines the table t and has one file, and its path."""
    store = SimStore(conditional_put=claims)
    handle = opened(store)
    ticket = handle.begin()
    add = added(ticket)
    handle.commit([Define("t", b"spec"), add], op="append", ticket=ticket)
    return store, handle, add.file.path


def markers(store):
    found = []
    for key in store.keys(LAYOUT.markers_prefix):
        metadata = pq.read_metadata(pa.BufferReader(store.contents()[key]))
        assert metadata.num_rows == 0
        found.append(decode_marker(LAYOUT, key, metadata.metadata, where=key))
    return found


def requests(handle, work):
    counters = handle.history.bucket.counters
    before = counters.as_dict()
    work()
    return {v: n - before[v] for v, n in counters.as_dict().items() if "bytes" not in v and n > before[v]}


@pytest.mark.parametrize(("claims", "cost"), [(False, {"put": 1, "list": 2}), (True, {"put": 2, "get": 1})])
def test_an_append_has_no_marker(claims, cost):
    store, handle, _ = started(claims)
    ticket = handle.begin()
    adds = [added(ticket, n) for n in range(3)]
    assert requests(handle, lambda: handle.commit(adds, op="append", ticket=ticket)) == cost
    assert [m.revision for m in markers(store)] == [1]


def test_a_merge_whose_files_name_what_they_replace_has_no_marker():
    store, handle, path = started()
    ticket = handle.begin()
    handle.commit([added(ticket), Remove(path)], op="merge", ticket=ticket, replaced=[path])
    assert [m.revision for m in markers(store)] == [1]


@pytest.mark.parametrize(
    "actions",
    [
        lambda path, ticket: [Remove(path)],
        lambda path, ticket: [added(ticket), Remove(path)],
        lambda path, ticket: [Tombstones("t", "id > 1", (path,))],
        lambda path, ticket: [added(ticket), Define("u", b"more")],
        lambda path, ticket: [Drop("t")],
        lambda path, ticket: [Resolve(1, "a" * 32)],
        lambda path, ticket: [Add("t", DataFile("elsewhere/x.parquet", 1, 2, {"rows": 3}))],
        lambda path, ticket: [added(ticket._replace(uuid="f" * 32))],
        lambda path, ticket: [],
    ],
)
@pytest.mark.parametrize("claims", [False, True])
def test_a_marker_says_what_files_cannot(actions, claims):
    store, handle, path = started(claims)
    ticket = handle.begin()
    said = actions(path, ticket)
    spent = requests(handle, lambda: handle.commit(said, op="op", ticket=ticket))
    assert spent == ({"put": 3, "get": 1} if claims else {"put": 2, "list": 2})
    _, marker = markers(store)
    assert (marker.revision, marker.uuid, marker.transaction.commit.op) == (2, ticket.uuid, "op")
    assert marker.transaction.commit.previous == ticket.previous
    own = {added(ticket).file.path} & {a.file.path for a in said if isinstance(a, Add)}
    assert marker.own == own
    cut = [Add(a.table, DataFile(a.file.path, 0, 0)) if added(ticket) == a else a for a in said]
    assert list(marker.transaction.actions) == cut


def test_batches_have_a_marker():
    store, handle, _ = started()
    ticket = handle.begin()
    handle.commit([added(ticket)], op="append", ticket=ticket, batches=[("t", "b")])
    assert markers(store)[1].transaction.commit.batches == (("t", "b"),)


def test_an_overtaken_commit_names_its_files_in_a_marker():
    store, handle, path = started()
    old, new = handle.begin(), handle.begin()
    handle.commit([added(new)], op="append", ticket=new)
    head = handle.commit([added(old), Remove(path)], op="merge", ticket=old, replaced=[path])
    marker = markers(store)[1]
    assert (marker.revision, marker.uuid, marker.own) == (3, head.uuid, frozenset())
    assert marker.transaction.actions == (added(old), Remove(path))


def test_what_files_replace_has_to_be_removed():
    store, handle, path = started()
    ticket = handle.begin()
    with pytest.raises(InvalidInputError, match=f"replaces {path}, which it doesn't remove"):
        handle.commit([added(ticket)], op="merge", ticket=ticket, replaced=[path])
    assert handle.head.revision == 1 and len(store.keys(LAYOUT.markers_prefix)) == 1


def test_a_marker_that_was_not_written_is_no_commit():
    store, _, path = started()
    for fault in (FAILED, delayed(3600)):
        broken = opened(store, plan=Script(Rule(fault, verb="put", every=True)))
        with pytest.raises(StoreUnavailableError):
            broken.commit([Remove(path)], op="remove")
        assert not broken.closed and History(store.bucket(), LAYOUT).load().head.revision == 1
    answered_late = opened(store, plan=Script(Rule(LOST_ACK, verb="put")))
    assert answered_late.commit([Remove(path)], op="remove").revision == 2


# -- reading and keeping markers


def test_marker_names():
    key = LAYOUT.marker_key(7, "0badcafe" * 4)
    assert key == "prefix/w/db/markers/00000000000000000007.0badcafe.parquet"
    assert LAYOUT.parse_marker(key) == MarkerName(7, "0badcafe")
    for name in ("x.parquet", "7.0badcafe.parquet", "0" * 20 + ".0badcafe.parquet", f"{MarkerName(1, 'x')}"):
        assert isinstance(LAYOUT.parse_marker(LAYOUT.markers_prefix + name), BadName)


def test_damaged_markers_say_so():
    store, _, _ = started()
    (key,) = store.keys(LAYOUT.markers_prefix)
    pairs = pq.read_metadata(pa.BufferReader(store.contents()[key])).metadata
    value = pairs[b"firn-transaction"]
    for position in range(len(value)):
        flipped = bytearray(value)
        flipped[position] ^= 1
        with pytest.raises(CorruptObjectError, match="is not a marker of this catalog"):
            decode_marker(LAYOUT, key, {b"firn-transaction": bytes(flipped)}, where="x")
    for other, wrong in (
        (LAYOUT.marker_key(2, "a" * 32), pairs),
        (key, {}),
        (key, None),
    ):
        with pytest.raises(CorruptObjectError, match="is not a marker of this catalog"):
            decode_marker(LAYOUT, other, wrong, where="x")
    stranger = WriterLayout("prefix", "w", "other")
    with pytest.raises(CorruptObjectError, match="is not a marker of this catalog"):
        decode_marker(stranger, stranger.markers_prefix + key.rpartition("/")[2], pairs, where="x")


def test_a_marker_forgets_what_may_tell_values_of_files_that_are_gone():
    store, handle, path = started()
    there, gone = (LAYOUT.data_prefix + f"d={d}/t/{d * 32}.parquet" for d in "ab")
    handle.commit(
        [Remove(path), Add("t", DataFile(there, 1, 0)), Tombstones("t", "id > 1", (there,))], op="x"
    )
    marker = markers(store)[-1]
    both = replace(
        marker.transaction, actions=(*marker.transaction.actions[:-1], Tombstones("t", "id = 7", (gone,)))
    )
    state = handle.state
    assert marker.remainder(LAYOUT, state, {there, path}) == marker
    assert marker.remainder(LAYOUT, state, {there}) == marker  # `path` has no partition
    left = replace(marker, transaction=both).remainder(LAYOUT, state, {there, path})
    assert left is not None and "id = 7" not in str(left.transaction.actions)
    removed = replace(marker.transaction, actions=(Remove(gone), Add("t", DataFile(there, 1, 0))))
    left = replace(marker, transaction=removed).remainder(LAYOUT, state, {there})
    assert left is not None and [type(action) for action in left.transaction.actions] == [Add]


def test_a_marker_is_needed_as_long_as_it_tells_something():
    store, handle, path = started()
    handle.commit([Tombstones("t", "id > 1", (path,))], op="delete")
    handle.commit([Remove(path)], op="remove", batches=[("t", "b")])
    handle.commit([Drop("t")], op="drop")
    define, delete, remove, drop = markers(store)
    state = handle.history.at(3).state
    dropped = handle.state
    assert define.remainder(LAYOUT, state, frozenset()) and not define.remainder(LAYOUT, dropped, frozenset())
    assert delete.remainder(LAYOUT, state, {path}) and not delete.remainder(LAYOUT, state, frozenset())
    assert remove.remainder(LAYOUT, state, frozenset()) and not remove.remainder(LAYOUT, dropped, frozenset())
    assert drop.remainder(LAYOUT, dropped, {path}) and not drop.remainder(LAYOUT, dropped, frozenset())
