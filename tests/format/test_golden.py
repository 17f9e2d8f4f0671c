"""Tables that each version wrote, committed to the repository, read by this one."""

from __future__ import annotations

import json
import shutil
from typing import Any

import icedb_reader
import pytest
from make_golden import GOLDEN, make, shown

import firn
from firn.journal.leaderless.format.codec import decode, encode
from firn.lake.definition.keys import KeySpec

VERSIONS = sorted(path.parent.name for path in GOLDEN.glob("*/expected.json"))
TABLES = [
    (version, name)
    for version in VERSIONS
    for name in json.loads((GOLDEN / version / "expected.json").read_text("utf-8"))
]


def expected(version: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / version / "expected.json").read_text("utf-8"))
    return found


@pytest.fixture
def database(tmp_path):
    """A copy of a version's database that a test may change."""

    def copied(version: str) -> firn.Database:
        shutil.copytree(GOLDEN / version / "db", tmp_path / version)
        return firn.connect(tmp_path / version)

    return copied


def rows(table: firn.LakeTable, at: str | None = None) -> list[str]:
    return shown(table.scan(at=at).to_arrow().to_pylist())


def test_this_version_has_one():
    assert firn.__version__ in VERSIONS


@pytest.mark.parametrize(("version", "name"), TABLES)
def test_every_version_of_every_table_is_read(version, name, database):
    table = database(version).table(name)
    wanted = expected(version)[name]["versions"]
    assert {at: rows(table, None if at == "now" else at) for at in wanted} == wanted


@pytest.mark.parametrize("version", VERSIONS)
def test_definitions_history_and_batches_are_read(version, database):
    db = database(version)
    wanted = expected(version)
    assert db.tables() == sorted(wanted)
    types, places, months = (db.table(name) for name in ("types", "places", "months"))
    assert {f.name: str(f.type) for f in types.schema()} == wanted["types"]["schema"]
    assert {p.values["place"] for p in places.partitions()} == set(wanted["places"]["places"])
    assert [p.values["time_month"] for p in months.partitions()] == wanted["months"]["partitions"]
    assert [commit.op for commit in months.history()] == wanted["months"]["history"]
    assert types.append([{"id": 5}], batch_id=wanted["types"]["batch"]).duplicate


@pytest.mark.parametrize(("version", "name"), [(v, name) for v, name in TABLES if "key" in expected(v)[name]])
def test_keys_are_read_and_go_on(version, name, database):
    table, wanted = database(version).table(name), expected(version)[name]
    assert json.loads((GOLDEN / version / "db" / name / "_firn/table.json").read_text("utf-8"))["firn"] == 2
    assert table.keys == KeySpec(tuple(wanted["key"]), wanted["version_by"])
    row = table.scan().to_arrow().to_pylist()[0]
    if wanted["version_by"] is not None:
        table.upsert([{**row, wanted["version_by"]: 0}])  # too old to win
        assert rows(table) == wanted["versions"]["now"]
    table.delete_keys([{column: row[column] for column in table.keys.columns}])
    assert table.scan().count() == len(wanted["versions"]["now"]) - 1


@pytest.mark.parametrize("version", VERSIONS)
def test_deletions_are_remembered(version, database):
    stock = database(version).table("stock")
    assert any(file.key_deletes for file in stock.snapshot().files)
    before = rows(stock)
    stock.merge()
    assert rows(stock) == before and any(file.key_deletes for file in stock.snapshot().files)
    assert [row["count"] for row in stock.scan(where="id = 1000").to_arrow().to_pylist()] == [21]


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_and_statistics_prune(version, database):
    db = database(version)
    for place in expected(version)["places"]["places"]:
        where = "place IS NULL" if place is None else "place = '" + place.replace("'", "''") + "'"
        scan = db.table("places").scan(where=where)
        assert len(scan.files()) == 1, where
        assert [row["place"] for row in scan.to_arrow().to_pylist()] == [place]
    assert len(db.table("types").scan(where="id >= 4").files()) == 1


@pytest.mark.parametrize(("version", "name"), TABLES)
def test_maintenance_by_this_version_keeps_the_rows(version, name, database):
    table = database(version).table(name)
    before = rows(table)
    table.merge()
    table.sweep(older_than="0s", orphans="0s")
    if table.keys is None:
        table.rewrite("true")
    assert rows(table) == before


@pytest.mark.parametrize(("version", "name"), TABLES)
def test_the_reference_sees_the_same_files(version, name):
    root = GOLDEN / version / "db"
    objects = {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
    theirs = icedb_reader.read(objects, name)
    assert theirs.alive == {f.path for f in firn.connect(root).table(name).snapshot().files}
    assert theirs.alive <= objects.keys()


def test_logs_of_this_version_are_written_as_they_were():
    logs = sorted((GOLDEN / firn.__version__ / "db").glob("*/_log/*.jsonl"))
    assert logs
    for path in logs:
        data = path.read_bytes()
        first, _, rest = encode(decode(path.name, data, where=str(path))).partition(b"\n")
        if b'"head":' not in data.partition(b"\n")[0]:  # 0.1.0 had no checksum of the first line
            first = first.rpartition(b',"head":')[0] + b"}}"
        assert first + b"\n" + rest == data


def test_the_program_that_makes_them_still_works(tmp_path):
    made = make(str(tmp_path))
    wanted = expected(firn.__version__)
    for name, table in made.items():
        assert list(table["versions"].values()) == list(wanted[name]["versions"].values())
