"""A process that was late in the drop of a table, and went on when the next one of the name was there, deleted that
one's definition and all of its objects."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

import firn
from firn.lake.definition.definition import LakeDefinition

KEY = "t/_firn/table.json"


def next_table(db: firn.Database, **options: Any) -> tuple[LakeDefinition, Any]:
    """A dropped table's definition, and the next table of the name."""
    old = db.create_table("t")
    old.append([{"x": 0}])
    db.drop_table("t")
    new = db.create_table("t", **options)
    return old.context.definition, new


@pytest.mark.parametrize("marked", [False, True])
def test_lake_14_a_late_dropper_leaves_the_next_table(db: firn.Database, marked: bool) -> None:
    old, new = next_table(db)
    new.append([{"x": 1}])
    lakes = db._tables.lakes
    if marked:
        lakes.erase(replace(old, dropped=True))
    else:
        with pytest.raises(firn.TableNotFoundError, match="dropped by somebody else"):
            lakes.drop(old)
    assert db.tables() == ["t"]
    assert db.table("t").scan().to_arrow().to_pylist() == [{"x": 1}]


def test_lake_14_a_late_dropper_leaves_a_record_table(db: firn.Database) -> None:
    old, new = next_table(db, kind="records")
    new.insert("a", {"x": 1})
    db._tables.lakes.erase(replace(old, dropped=True))
    assert db.table("t").count() == 1


def test_lake_14_the_next_table_comes_while_one_erases(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process ends the drop and makes the next table once this one has deleted the objects."""
    db.create_table("t").append([{"x": 0}])
    delete_many = type(db.bucket).delete_many

    def meanwhile(bucket: Any, keys: Any) -> None:
        delete_many(bucket, keys)
        if not made:
            made.append(0)  # what follows erases, too
            made[0] = db.create_table("t")
            made[0].append([{"x": 1}])

    made: list[Any] = []
    monkeypatch.setattr(type(db.bucket), "delete_many", meanwhile)
    db.drop_table("t")
    assert db.table("t").scan().to_arrow().to_pylist() == [{"x": 1}]


def test_lake_14_a_drop_ends_wherever_it_was_cut_short(
    db: firn.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = type(db.bucket)
    for verb in ("put_if_match", "put_if_absent", "delete_many", "delete"):
        db.create_table("t").append([{"x": 0}])

        def crash(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(bucket, verb, crash)
            with suppress(KeyboardInterrupt):
                db.drop_table("t")
        if "t" in db.tables():
            db.drop_table("t")
        assert db.create_table("t").scan().count() == 0
        db.drop_table("t")
        assert db.tables() == [] and [i.key for i in db.bucket.list("t/").objects] == [KEY]
