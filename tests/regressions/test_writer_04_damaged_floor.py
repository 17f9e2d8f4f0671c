"""After a prune, one flipped bit in the oldest transaction made a read as of a time empty; history and sweep failed
and advised a rebuild, which said that the catalog was whole."""

from __future__ import annotations

import secrets

import pytest

import firn
from firn.errors import CorruptObjectError
from firn.inspect.fsck.fsck import check
from firn.lake.table import LakeTable


@pytest.fixture(params=[True, False], ids=["claims", "listing"])
def db(request: pytest.FixtureRequest) -> firn.Database:
    """A database whose history begins with revision 3."""
    options = {} if request.param else {"conditional_put": "disabled"}
    made = firn.connect(f"memory://{secrets.token_hex(8)}/floor", writer="a", options=options)
    table = made.create_table("t", journal="writer")
    for number in range(3):
        table.append([{"id": number}])
    made.prune("0s")
    for number in range(3, 5):
        table.append([{"id": number}])
    return made


def again(db: firn.Database) -> firn.Database:
    """A connection that remembers nothing."""
    return firn.connect(db.url, writer="a", options=db.options)


def table_of(db: firn.Database) -> LakeTable:
    found = again(db).table("t")
    assert isinstance(found, LakeTable)
    return found


def transactions(db: firn.Database) -> list[str]:
    listed = db.bucket.list("floor/a/floor/transactions/").objects
    return [info.key for info in listed if info.key.endswith(".transaction")]


def spoil(db: firn.Database, key: str) -> None:
    body = bytearray(db.bucket.get(key).data)
    body[len(body) // 2] ^= 4
    db.bucket.put(key, bytes(body))


@pytest.mark.parametrize("without_claims", [False, True])
def test_a_damaged_floor_is_read_by_its_checkpoint_and_rebuilt(
    db: firn.Database, without_claims: bool
) -> None:
    floor = transactions(db)[0]
    first, second, *_ = (line.time for line in db.table("t").history())
    counts = {at: table_of(db).scan(at=at).count() for at in (first, second, "a=3", "a=4")}
    assert counts[first] >= counts["a=3"] > 1
    spoil(db, floor)
    if without_claims:
        db.bucket.delete_many(info.key for info in db.bucket.list("floor/a/floor/claims/").objects)

    def is_read() -> bool:
        table = table_of(db)
        return table.scan().count() == 5 and all(table.scan(at=at).count() == n for at, n in counts.items())

    assert is_read()
    with pytest.raises(CorruptObjectError, match="`firn rebuild`"):
        table_of(db).history()
    assert check(again(db)).problems
    report = again(db).rebuild()
    assert report.damage and 3 in report.rebuilt
    assert again(db).rebuild().healthy and is_read()
    assert not check(again(db)).problems
    assert [line.version for line in table_of(db).history()][-2:] == ["a=5", "a=6"]
    again(db).sweep("0s")
    table_of(db).append([{"id": 99}])
    assert again(db).prune("0s").deleted
    assert table_of(db).scan().count() == 6


def test_what_an_interrupted_prune_has_left_is_mended_too(db: firn.Database) -> None:
    table = db.table("t")
    table.append([{"id": 5}])
    db.checkpoint()
    for number in range(6, 9):
        table.append([{"id": number}])
    db.checkpoint()
    keys = transactions(db)
    # The floor's checkpoint went, and the prune died.
    checkpoints = [info.key for info in db.bucket.list("floor/a/floor/transactions/").objects]
    first = next(key for key in checkpoints if key.endswith(".checkpoint"))
    db.bucket.delete(first)
    spoil(db, keys[0])
    assert table_of(db).scan().count() == 9
    with pytest.raises(CorruptObjectError):
        table_of(db).history()
    again(db).rebuild()
    assert again(db).rebuild().healthy
    table_of(db).history()
    again(db).sweep("0s")
    assert table_of(db).scan().count() == 9
