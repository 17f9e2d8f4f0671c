"""An append that straddled a drop and a create of the table's name put its log into the new table, naming a file that
was gone: scans failed for ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

import firn
from firn.journal.model import Commit
from firn.journal.sealed import seal
from firn.lake.definition import definition as definitions
from firn.lake.table import LakeTable
from firn.lake.write.append import write


def straddling(table: LakeTable) -> Any:
    """An append that has written its files and put no log yet; not the handle's first."""
    table.append([{"x": 9}])
    ticket = table.journal.begin_append()
    written, _ = write(table.context, [{"x": 0}], ticket.namer)
    return lambda: ticket.commit(Commit("append", written.files, columns=written.columns))


@pytest.mark.parametrize("options", [{}, {"key": ["x"]}])
def test_lake_14_a_late_log_never_enters_the_next_table(db: firn.Database, options: dict[str, Any]) -> None:
    old = db.create_table("t")
    commit = straddling(old)
    db.drop_table("t")
    new = db.create_table("t", **options)
    commit()
    new.append([{"x": 1}])
    for table in (new, db.table("t")):
        assert table.scan().to_arrow().to_pylist() == [{"x": 1}]
    new.merge()
    new.sweep(older_than="0s", orphans="0s")
    assert db.table("t").scan().count() == 1 and db.tables() == ["t"]
    assert db.table("t").context.definition.generation == 1


def test_lake_14_a_late_log_makes_no_table(db: firn.Database) -> None:
    commit = straddling(db.create_table("t"))
    db.drop_table("t")
    commit()
    assert db.tables() == []
    with pytest.raises(firn.TableNotFoundError):
        db.table("t")
    assert db.create_table("t").scan().count() == 0


def test_lake_14_a_drop_that_was_cut_short_counts(db: firn.Database) -> None:
    old = db.create_table("t")
    commit = straddling(old)
    key = "t/_firn/table.json"
    db.bucket.put(key, replace(old.context.definition, dropped=True).encode())
    new = db.create_table("t")
    commit()
    assert new.scan().count() == 0 and new.context.definition.generation == 1


def test_lake_14_an_open_handle_is_told_that_its_table_is_gone(db: firn.Database) -> None:
    old = db.create_table("t")
    old.append([{"x": 0}])
    reader = db.table("t")
    assert reader.scan().count() == 1
    db.drop_table("t")
    db.create_table("t").append([{"x": 1}])
    old.journal.known_columns._read_at = float("-inf")  # type: ignore[attr-defined]
    with pytest.raises(firn.TableNotFoundError, match="was dropped"):
        old.append([{"x": 2}])
    for verb in (lambda: reader.scan().count(), reader.merge, lambda: reader.delete("x = 0")):
        with pytest.raises(firn.TableNotFoundError, match="was dropped"):
            verb()
    assert db.table("t").scan().to_arrow().to_pylist() == [{"x": 1}]


def test_lake_14_all_kinds_of_a_name_have_one_count(db: firn.Database) -> None:
    db.create_table("t")
    db.drop_table("t")
    db.create_table("t", kind="records")
    db.drop_table("t")
    assert db.create_table("t").context.definition.generation == 2
    db.drop_table("t")
    assert db.create_table("t", kind="keyed").definition.generation == 3
    db.drop_table("t")
    assert db.create_table("t", kind="records").definition.generation == 4
    assert not db.bucket.list("_firn/generations/").objects


def test_lake_14_a_log_in_another_store(tmp_path: Path) -> None:
    db = firn.connect(tmp_path / "data")
    properties = {"log_url": str(tmp_path / "logs")}
    commit = straddling(db.create_table("t", properties=properties))
    db.drop_table("t")
    new = db.create_table("t", properties=properties)
    commit()
    new.append([{"x": 1}])
    assert new.scan().count() == 1
    assert (tmp_path / "logs" / "t" / "_log~1").is_dir()
    db.drop_table("t")
    assert not [p for p in (tmp_path / "logs" / "t").rglob("*") if p.is_file()]


def test_lake_14_shared_tables_keep_the_references_paths(db: firn.Database) -> None:
    db.create_table("t")
    db.drop_table("t")
    table = db.create_table("t", properties={"shared": "icedb"})
    table.append([{"x": 1}])
    table.merge()
    assert table.context.definition.generation == 1 and db.table("t").scan().count() == 1
    listed = {info.key.split("/")[1] for info in db.bucket.list("t/").objects}
    assert listed == {"_data", "_firn", "_firn~1", "_log"}
    with (
        pytest.raises(firn.UnsupportedError, match="has format version 5"),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(definitions, "FEATURES_FORMAT_VERSION", None)  # to earlier versions
        db.table("t")


def test_lake_14_a_lost_definition_is_said_again(db: firn.Database) -> None:
    db.create_table("t")
    db.drop_table("t")
    db.create_table("t").append([{"x": 1}])
    db.bucket.delete("t/_firn/table.json")
    table = db.create_table("t")
    assert table.context.definition.generation == 1 and table.scan().to_arrow().to_pylist() == [{"x": 1}]


def test_lake_14_a_feature_that_isnt_known_is_named(db: firn.Database) -> None:
    db.create_table("other").append([{"x": 1}])
    db.create_table("t")
    db.drop_table("t")
    table = db.create_table("t")
    assert orjson.loads(db.bucket.get("t/_firn/table.json").data)["firn"] == 5
    fields = {**table.context.definition.fields(), "features": ["generation", "teleport"]}
    db.bucket.put("t/_firn/table.json", seal(fields, indent=True))
    with pytest.raises(firn.UnsupportedError, match=r"table\.json needs the feature 'teleport'"):
        db.table("t")
    with pytest.warns(firn.DegradedReadWarning, match="teleport"):
        assert db.tables() == ["other", "t"]
    assert db.table("other").scan().count() == 1
