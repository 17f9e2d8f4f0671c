"""The object that names a database of writers' catalogs had no checksum: a bit that was flipped in it, or its loss,
hid all writers, a new catalog began beside the old one, and fsck was content."""

from __future__ import annotations

import secrets

import orjson
import pytest

import firn
from firn.inspect.fsck.fsck import check

KEY = "_firn/database.json"
NAME_URL = "memory://prod"


@pytest.fixture
def db() -> firn.Database:
    """Made under one URL, and opened under another."""
    copy = firn.connect(f"memory://{secrets.token_hex(8)}", writer="b")
    made = firn.connect(NAME_URL, writer="a")
    if not made.tables():
        made.create_table("t", journal="writer").append([{"id": 1}])
        made.create_table("log").append([{"id": 1}])
    for info in made.bucket.list("").objects:
        copy.bucket.put(info.key, made.bucket.get(info.key).data)
    return copy


def again(db: firn.Database, writer: str | None = None, *, strict: bool = False) -> firn.Database:
    return firn.connect(db.url, writer=writer, strict=strict)


def goes_on(db: firn.Database, said: str) -> None:
    """All is read as before, fsck says what is wrong, and the next writer mends it."""
    reader = again(db, strict=True)
    assert reader.tables() == ["log", "t"]
    table = reader.table("t")
    assert table.scan().count() == 1
    assert any(said in text and KEY in text for text in table.snapshot().warnings)
    assert any(said in str(found) for found in check(again(db)).problems)
    again(db, "b").table("t").append([{"id": 2}])
    assert [db.bucket.list_dirs(f"{writer}/") for writer in "ab"] == [["prod"], ["prod"]]
    mended = again(db)
    assert mended.table("t").scan().count() == 2
    assert mended.table("t").snapshot().warnings == ()
    assert not check(again(db)).problems


def test_every_flipped_bit_is_noticed(db: firn.Database) -> None:
    whole = db.bucket.get(KEY).data
    for bit in range(8 * len(whole)):
        spoilt = bytearray(whole)
        spoilt[bit // 8] ^= 1 << bit % 8
        db.bucket.put(KEY, bytes(spoilt))
        found = again(db)
        assert [w.name for w in found.writers()] == ["a"], bytes(spoilt)
        # A name of 0.1, without a checksum, is what a changed field's name may look like.
        assert found.table("t").snapshot().warnings or orjson.loads(bytes(spoilt))["database"] == "prod"
    goes_on(db, "doesn't name the database")


def test_a_name_without_a_checksum_is_looked_after(db: firn.Database) -> None:
    """0.1 wrote none."""
    db.bucket.put(KEY, b'{"firn":1,"database":"prod"}')
    assert again(db).table("t").snapshot().warnings == ()
    assert not check(again(db)).problems
    db.bucket.put(KEY, b'{"firn":1,"database":"qrod"}')
    goes_on(db, "no writer has a directory of that name")


def test_a_lost_name_is_told_by_the_directories(db: firn.Database) -> None:
    db.bucket.delete(KEY)
    goes_on(db, "is missing")


def test_a_lost_name_is_told_by_data_files(db: firn.Database) -> None:
    """Whatever else was lost."""
    db.bucket.delete(KEY)
    for part in ("transactions", "claims"):
        db.bucket.delete_many(info.key for info in db.bucket.list(f"a/prod/{part}/").objects)
    assert again(db, "b").rebuild(writer="a").rebuilt
    assert db.bucket.get(KEY).data and again(db).table("t").scan().count() == 1


def test_names_that_contradict_one_another_are_an_error_with_a_remedy(db: firn.Database) -> None:
    db.bucket.delete(KEY)
    old = next(info.key for info in db.bucket.list("a/prod/transactions/").objects)
    db.bucket.put(old.replace("a/prod", "z/other"), b"")
    with pytest.raises(firn.CorruptObjectError, match="several names: other, prod") as error:
        again(db).tables()
    assert check(again(db)).problems
    body = str(error.value).rpartition("like ")[2].removesuffix(".").replace("other", "prod")
    db.bucket.put(KEY, body.encode())
    assert again(db).table("t").scan().count() == 1
    assert any("'other' too" in str(found) for found in check(again(db)).problems)


def test_a_damaged_name_that_nobody_needs_is_deleted() -> None:
    db = firn.connect("memory://damaged-name", writer="a")
    db.bucket.put(KEY, b"?")
    with pytest.raises(firn.CorruptObjectError, match="Delete the object: nothing was committed yet"):
        db.create_table("t", journal="writer")
    db.bucket.delete(KEY)
    db.create_table("t", journal="writer").append([{"id": 1}])
    assert orjson.loads(db.bucket.get(KEY).data)["database"] == "damaged-name"
