"""The JSON of pointer, manifests and snapshots: round trips, damage, versions."""

from __future__ import annotations

from dataclasses import replace

import google_crc32c
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.errors import CorruptObjectError, FirnError, InvalidInputError, UnsupportedError
from firn.journal.manifest import EpochInfo, Pointer, SSTInfo
from firn.journal.manifest.codec import (
    ManifestFile,
    SnapshotFile,
    decode_manifest,
    decode_pointer,
    decode_snapshot,
    encode_manifest,
    encode_pointer,
    encode_snapshot,
)
from firn.journal.manifest.layout import ManifestLayout, manifest_name, parse_manifest_name, sst_name
from firn.journal.manifest.model import Replacement
from manifest_tables import Table

NUMBERS = st.integers(0, 10**18 - 1)
NAMES = st.builds(manifest_name, NUMBERS, NUMBERS)
SSTS = st.builds(
    SSTInfo,
    st.integers(0, 9),
    NUMBERS,
    NUMBERS,
    st.text(),
    st.binary(max_size=20),
    st.binary(max_size=20),
    NUMBERS,
    NUMBERS,
    st.integers(-(2**63), 2**63 - 1),
    NUMBERS,
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 2**63 - 1),
)
REPLACED = st.builds(
    Replacement, NAMES, st.integers(-1, 10**18), st.lists(st.text(), max_size=2).map(tuple), NUMBERS
)
INFOS = st.lists(st.tuples(NUMBERS, NUMBERS, st.text(max_size=4)), max_size=4).map(
    lambda drawn: tuple(
        EpochInfo(epoch, start, claim)
        for epoch, start, claim in zip(
            sorted({d[0] for d in drawn}), sorted(d[1] for d in drawn), [d[2] for d in drawn], strict=False
        )
    )
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=4
)
POINTERS = st.builds(
    Pointer,
    NAMES,
    NUMBERS,
    INFOS,
    st.text(),
    NUMBERS,
    NUMBERS,
    st.text(),
    st.dictionaries(st.text(), JSON, max_size=3),
    st.none() | NUMBERS,
)


@given(POINTERS)
def test_a_pointer_comes_back(pointer):
    assert decode_pointer(encode_pointer(pointer), where="p") == pointer


@given(
    NAMES,
    st.none() | NAMES,
    st.lists(SSTS, max_size=3),
    st.integers(-1, 10**18),
    st.none() | NUMBERS,
    NUMBERS,
    st.lists(REPLACED, max_size=2),
)
def test_a_manifest_comes_back(name, base, ssts, last, epoch, number, replaced):
    file = ManifestFile(
        name=name,
        base=base,
        adds=tuple(ssts),
        deletes=() if base is None else ("ssts/a", "ssts/b"),
        chain=(name,) if base is None else (base, name),
        last_compacted=last,
        last_epoch=None if last < 0 else epoch,
        next_sst=number,
        compactor_epoch=number,
        replaced=tuple(replaced),
    )
    assert decode_manifest(name, encode_manifest(file), where="m") == file


@given(
    POINTERS, st.none() | st.text(), st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=3), st.booleans()
)
def test_a_snapshot_comes_back(pointer, name, l0, expired):
    file = SnapshotFile(
        "00ff", name, pointer, (pointer.manifest,), tuple(l0), -1, 5, None if expired else 7, 1, "n", expired
    )
    assert decode_snapshot(encode_snapshot(file), where="s") == file


KINDS = ("current_manifest", "manifests/", "snapshots/")


def damageable():
    """A table with a Full and an Incremental manifest, a snapshot, and text that JSON escapes."""
    table = Table()
    table.write(0, 1, 2)
    session = table.compact(0)
    table.compact(1, session)
    session.commit(adds=[], deletes=[], last_compacted=2)
    assert len(session.view.manifest.chain) == 2
    table.journal().snapshot(name='ünïcode "quoted" \x01', expires_ms=10**13)
    return table


def decoded(key, data):
    if "/snapshots/" in key:
        return decode_snapshot(data, where=key)
    if "/manifests/" in key:
        return decode_manifest(key.rpartition("/")[2], data, where=key)
    return decode_pointer(data, where=key)


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_and_every_cut_is_noticed(kind):
    key, data = sorted(damageable().store.contents(f"t/_metadata/{kind}").items())[-1]
    decoded(key, data)
    for at in range(len(data)):
        for bit in range(8):
            bad = bytearray(data)
            bad[at] ^= 1 << bit
            with pytest.raises(CorruptObjectError, match="t/_metadata/"):
                decoded(key, bytes(bad))
        with pytest.raises(CorruptObjectError):
            decoded(key, data[:at])
    with pytest.raises(CorruptObjectError):
        decoded(key, data + b" ")


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_named_by_whoever_meets_it(kind):
    table = damageable()
    key, data = sorted(table.store.contents(f"t/_metadata/{kind}").items())[-1]
    table.store.bucket().put(key, data[:-9] + b"x" + data[-8:])
    journal = table.journal()
    with pytest.raises(CorruptObjectError, match=f"sim://store/{key} is not a .* of a keyed table"):
        journal.snapshots() if kind == "snapshots/" else journal.read()
    with pytest.raises(CorruptObjectError, match=key):
        journal.collect(l0_min_age_s=0, buffer_s=0)


def reseal(data, **changes):
    """The object with other fields, and a checksum that is right for them."""
    raw = orjson.loads(data)
    del raw["crc"]
    raw.update(changes)
    crc = google_crc32c.value(orjson.dumps(raw, option=orjson.OPT_SORT_KEYS))
    return orjson.dumps({**raw, "crc": crc}, option=orjson.OPT_SORT_KEYS)


POINTER = Pointer(manifest_name(0, 0), 0, (EpochInfo(1, 0, "a"),), "t", 1, 1, "n")
MANIFEST = ManifestFile(manifest_name(2, 1), None, (), (), (manifest_name(2, 1),), -1, None, 0, 2)


def test_what_a_newer_firn_needs_is_refused_by_name():
    for changes, why in (({"features": ["sharded"]}, "the feature 'sharded'"), ({"format": 2}, "format 2")):
        with pytest.raises(UnsupportedError, match=f"p needs {why}.*Upgrade Firn"):
            decode_pointer(reseal(encode_pointer(POINTER), **changes), where="p")


def test_fields_that_do_not_matter_are_skipped():
    assert decode_pointer(reseal(encode_pointer(POINTER), novelty=[1]), where="p") == POINTER


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "manifest"},
        {"manifest": "../../x"},
        {"compactor_epoch": -1},
        {"compactor_epoch": 1.0},
        {"compactor_epoch": True},
        {"nonce": None},
        {"settings": []},
        {"features": None},
        {"writer_epoch_infos": [{"writer_epoch": 1}]},
        {
            "writer_epoch_infos": [
                {"writer_epoch": 2, "starting_sst": 0, "claim": "a"},
                {"writer_epoch": 2, "starting_sst": 0, "claim": "b"},
            ]
        },
    ],
)
def test_a_pointer_that_makes_no_sense_is_refused(changes):
    with pytest.raises(CorruptObjectError, match="p is not a pointer of a keyed table"):
        decode_pointer(reseal(encode_pointer(POINTER), **changes), where="p")


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "half"},
        {"type": "incremental"},
        {"base_manifest": manifest_name(1, 1)},
        {"chain": []},
        {"chain": [manifest_name(1, 1)]},
        {"chain": [manifest_name(1, 1), manifest_name(2, 1)]},
        {"ssts": [{"level": 1}]},
        {"ssts": None},
        {"last_compacted_l0": 5},
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(changes):
    with pytest.raises(CorruptObjectError, match="m is not a manifest of a keyed table"):
        decode_manifest(MANIFEST.name, reseal(encode_manifest(MANIFEST), **changes), where="m")


def test_a_manifest_under_another_name_is_refused():
    with pytest.raises(CorruptObjectError, match="calls itself"):
        decode_manifest(manifest_name(2, 2), encode_manifest(MANIFEST), where="m")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b"\xff", b'{"crc":1}', b'{"crc":"x"}'])
def test_what_firn_never_wrote_is_refused(data):
    for decode in (
        lambda d: decode_pointer(d, where="x"),
        lambda d: decode_manifest(MANIFEST.name, d, where="x"),
        lambda d: decode_snapshot(d, where="x"),
    ):
        with pytest.raises(CorruptObjectError, match="x is not a"):
            decode(data)


def test_settings_must_be_jsonable():
    with pytest.raises(InvalidInputError, match="JSON-able"):
        encode_pointer(replace(POINTER, settings={"x": object()}))


LAYOUT = ManifestLayout("db/t")


@given(NUMBERS, NUMBERS)
def test_names_parse_back_and_order_as_numbers(epoch, number):
    assert LAYOUT.parse_l0(LAYOUT.l0_key(epoch, number)) == (epoch, number)
    assert LAYOUT.parse_sst(LAYOUT.sst_key(LAYOUT.sst_file(epoch, number))) == (epoch, number)
    name = manifest_name(epoch, number)
    assert LAYOUT.parse_manifest(LAYOUT.manifest_key(name)) == parse_manifest_name(name) == (epoch, number)
    assert LAYOUT.parse_snapshot(LAYOUT.snapshot_key(name, "0123456789abcdef")) == (name, "0123456789abcdef")
    assert LAYOUT.before_l0(epoch, number) < LAYOUT.l0_key(epoch, number)
    if number:
        assert LAYOUT.l0_key(epoch, number - 1) <= LAYOUT.before_l0(epoch, number)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=9))
def test_keys_sort_as_epochs_and_numbers(pairs):
    assert sorted(sst_name(*pair) for pair in pairs) == [sst_name(*pair) for pair in sorted(pairs)]


@settings(max_examples=200)
@given(st.text(max_size=60))
def test_other_names_are_nobodys(text):
    for prefix, parse in (
        (LAYOUT.l0_prefix, LAYOUT.parse_l0),
        (LAYOUT.ssts_prefix, LAYOUT.parse_sst),
        (LAYOUT.manifests_prefix, LAYOUT.parse_manifest),
        (LAYOUT.snapshots_prefix, LAYOUT.parse_snapshot),
    ):
        assert parse(prefix + text) is None
        assert parse(text) is None


def test_numbers_beyond_the_digits_are_refused():
    for number in (-1, 10**18):
        with pytest.raises(FirnError, match="not a number of a keyed table"):
            LAYOUT.l0_key(1, number)
