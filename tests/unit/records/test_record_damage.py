"""Bits that flip, anywhere in an object of a database of record tables: the answer is the right one, or an error that
names the object. Never another answer. Objects that are cut short or gone are in `test_damage`."""

from __future__ import annotations

import pytest

from firn.database.kinds.records import RecordTables
from firn.errors import CorruptObjectError, FirnError, NoSuchKeyError, UnsupportedError
from firn.records.definition.definition import read_definition
from firn.records.write.transaction import begin
from record_databases import ROWS, of_every_object

STEP = 5
"""Of every so many bytes a bit is flipped."""


def tables(store):
    bucket = store.bucket("reader")
    return RecordTables(bucket, "db", "sim://db", clock=bucket.clock, background=False)


@pytest.fixture(scope="module")
def objects():
    store = of_every_object()
    return {key: store.fetch(key).data for key in store.keys("db/") if "/indices/" not in key}, store


def answers(store):
    """All that can be asked, by a process that knows nothing yet."""
    made = tables(store)
    definition = read_definition(store.bucket("reader"), "db/t")
    table = made.open(definition)
    log = made.session.store.log
    horizon = log.store.horizon()
    log.records(0, log.refresh().number)
    tx = made.session.begin()
    found = {"horizon": (horizon.horizon, horizon.lo), "indices": table.indices()}
    for id in (*ROWS, "eve"):
        try:
            found[id] = tx.get("t", id).document
        except NoSuchKeyError:
            found[id] = None
    for where in ({"n": 1}, {"n": 2}, {"email": "ada@example.com"}, {"email": None}):
        found[str(where)] = [row.document for row in tx.find("t", where)]
    found["scan"] = {row.id: row.document for row in tx.scan("t")}
    return found


def answers_or_error(store):
    try:
        return answers(store)
    except (CorruptObjectError, UnsupportedError) as error:
        return error


def test_every_flipped_bit_is_harmless_or_named(objects):
    contents, store = objects
    truth = answers(store)
    assert truth["scan"] == ROWS
    kinds = {key.rpartition("/")[0] for key in contents}
    assert {"db/_commits", "db/_firn/packs", "db/_firn/bodies", "db/t/data", "db/t/_firn/locks"} <= kinds
    writer = store.bucket("vandal")
    named = dict.fromkeys(contents, 0)
    for key, data in contents.items():
        for at in range(0, len(data), STEP):
            writer.put(key, data[:at] + bytes([data[at] ^ (1 << (at % 8))]) + data[at + 1 :])
            answer = answers_or_error(store)
            if isinstance(answer, FirnError):
                assert key in str(answer), f"byte {at} of {key}: {answer}"
                named[key] += 1
            else:
                assert answer == truth, f"bit {at % 8} of byte {at} of {key} changed the answer"
        writer.put(key, data)
    harmless = {key for key, times in named.items() if not times}
    assert all("/locks/" in key or key.endswith("/clock") for key in harmless), harmless
    assert answers(store) == truth


def test_a_damaged_lock_is_named(objects):
    contents, store = objects
    [key] = [key for key in contents if "/locks/" in key]
    store.bucket("vandal").put(key, b"{")
    with pytest.raises(CorruptObjectError, match=f"{key} is not a lock of Firn.*Delete it"):
        begin(tables(store).session.store, lock=True).update("t", "cyd", {"n": 3})
    store.bucket("vandal").put(key, contents[key])
